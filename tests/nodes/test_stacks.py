"""Every piece of the shelf, and stacks of them in every order: proved or refused, resumed, and restored."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentFinish, Effect, GraphexecError, messages, models, nodes, testing, verify
from graphexec.draw import recording_of
from graphexec.executor import Acted, AnswerDiscarded
from graphexec.nodes.asking import ReadClock
from tests.nodes.shelf import REPEAT_RULES, SAMPLES, call, calls, factories, make_executor, proof_of, run_in_pieces
from tests.parameters import cases, examples, mark_except

QUESTION = "What do you know about elms?"

# Replies that reach the nodes of every piece.
SCRIPT: Sequence[messages.ModelReply | str] = (
    call("a", "b"),
    calls(
        ("write_todos", '{"todos": ["[ ] one"]}'),
        ("research", '{"task": "elms"}'),
        ("research_all", '{"tasks": ["oaks", "ashes"]}'),
        ("ask_user", '{"question": "which?"}'),
    ),
    call("a"),
    '{"text": "done"}',
)


# Replies to the effects of pieces that verify_termination does not know.
REPLIES: Mapping[type[Effect[Any]], Sequence[object]] = {
    nodes.ReviewCall: [nodes.Review("approve"), nodes.Review("reject")],
    ReadClock: ["noon"],
    nodes.CountCalls: [0, 1, 2],
}


def make(names: Sequence[str], model: models.ScriptedModel | None = None, **options: Any) -> Any:
    scripted = models.ScriptedModel(SCRIPT, repeat_last=True) if model is None else model
    return make_executor([SAMPLES[name]() for name in names], model=scripted, **options)


def test_every_piece_has_a_sample() -> None:
    assert {*SAMPLES} == factories()


# The closed forms of the transitions and the model calls of each piece, as its page has them.
BOUNDS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("approve_tools", "ask_user", "cache_tools", "catch_errors", "limit_tool"), ("5*iterations + 2", "iterations")
    ),
    **dict.fromkeys(("guard_input", "guard_output", "tell_time"), ("4*iterations + 3", "iterations")),
    **dict.fromkeys(("no_immediate_repeats", "no_repeats"), ("6*iterations + 2", "2*iterations")),
    "compact": ("6*iterations + 4", "2*iterations + 1"),
    "critic": ("critic_rounds + 4*iterations + 2", "critic_rounds + iterations"),
    "emulate_tools": ("5*iterations + 2", "3*iterations"),
    "escalate": ("5*escalations + 6*iterations + 4", "escalations + iterations"),
    "limit_conversation": ("6*iterations + 3", "iterations"),
    "output_type": ("4*iterations + 2*reasks + 3", "iterations"),
    "redact_pii": ("6*iterations + 4", "iterations"),
    "select_tools": ("4*iterations + 3", "iterations + 1"),
    **dict.fromkeys(("clear_results", "stop_repeats"), ("5*iterations + 3", "iterations")),
    "todo_list": ("5*iterations + 2*todo_list_reminders + 2", "iterations"),
}


@cases("name", *BOUNDS)
def test_bound_is_the_documented_one(name: str) -> None:
    bounds = proof_of(make([name], max_iterations=8)).bounds
    read = [str(bound).split(" = ") for bound in (bounds.transitions, bounds.model_calls)]
    assert tuple(form for form, _ in read) == BOUNDS[name]
    assert all(number.endswith(" (exact)") for _, number in read)


@cases(
    ("name", "called", "statuses"),
    ("sub_agent", ("Research", '{"task": "a"}'), ["ok", "ok"]),
    ("handoffs", ("Transfer_To_Other", "{}"), ["ok", "rejected"]),
    ("todo_list", ("Write_Todos", '{"todos": []}'), ["ok", "error"]),
)
def test_tools_of_pieces_are_looked_up_without_case(name: str, called: tuple[str, str], statuses: list[str]) -> None:
    executor = make([name], models.ScriptedModel([calls(called, called), "done"]), tool_lookup="case_insensitive")
    assert [step.status for step in executor.run("go").steps] == statuses


# One of each kind, as each takes a second; all pieces are among the long tests.
QUICK = frozenset({"approve_tools", "escalate", "guard_output", "handoffs", "limit_tool", "sub_agent"})


@pytest.mark.medium
@pytest.mark.parametrize("name", mark_except(SAMPLES, *QUICK, mark=pytest.mark.slow))
def test_termination_is_verified(name: str) -> None:
    executor = make([name], max_iterations=2, max_fan_out=2)
    testing.verify_termination(executor, replies=REPLIES, examples=10)


@pytest.mark.parametrize("name", SAMPLES)
class TestEachPiece:
    @pytest.mark.medium
    def test_run_survives_a_pause_after_every_request(self, name: str) -> None:
        executor = make([name])
        whole = executor.run(QUESTION)
        model = models.ScriptedModel(SCRIPT, repeat_last=True)
        pieces, pauses = run_in_pieces(lambda observers: make([name], model, observers=observers), QUESTION)
        requests = {one["call"]["sequence"] for one in recording_of(whole).records if one["event"] == "asked"}
        assert (pauses, str(pieces)) == (len(requests), str(whole))
        assert pieces.spent.meters == whole.spent.meters
        in_pieces, at_once = ([(one.action.tool, one.status) for one in run.steps] for run in (pieces, whole))
        assert in_pieces == at_once
        # The calls stay within the bound.
        bounds = executor.verify().bounds.meters
        for meter in ("model_calls", "tool_calls"):
            assert bounds[meter].number is not None
            assert whole.spent[meter] <= bounds[meter].number

    @pytest.mark.medium
    def test_piece_is_unplugged_and_has_a_name(self, name: str) -> None:
        plugged, piece = make([name]), SAMPLES[name]()
        restored = plugged.unplug(*[piece.name for piece in plugged.pieces])
        assert str(restored.graph) == str(make_executor().graph)
        with pytest.raises(GraphexecError, match=piece.name):
            make_executor([piece, SAMPLES[name]()])


@st.composite
def stacks(draw: st.DrawFn, *needed: str) -> list[str]:
    """Draw names of pieces in any order; those needed are among them."""
    names = draw(st.lists(st.sampled_from(sorted(SAMPLES)), unique=True, max_size=8))
    names = [*dict.fromkeys([*names, *needed])]
    if {*names} >= REPEAT_RULES:
        names.remove("no_repeats")
    return draw(st.permutations(names))


def error_of(build: Callable[[], object]) -> GraphexecError | None:
    try:
        build()
    except GraphexecError as error:
        return error
    return None


def check_stack(names: Sequence[str]) -> None:
    """Check that a stack is proved and restored, or refused with a remedy; an approval and a guard hold in it."""
    refused = error_of(lambda: make(names))
    if refused is not None:
        # Only a model behind a piece that reveals is refused, or one before a piece that must see the inputs first.
        assert not isinstance(refused, verify.UnprovedError)
        assert {"redact_pii", "guard_input"} & {*names}
        assert "in the list" in str(refused)
        return
    executor = make(names)
    assert executor.verify().proved
    graph = executor.graph
    if "approve_tools" in names:
        assert verify.dominates(graph, "approve_tools", "dispatch_tools")
        (approving,) = [place for place, one in enumerate(executor.seats()[Acted]) if one == "approve_tools"]
        acting = [piece.name for piece in executor.pieces if piece.acts]
        assert not {*executor.seats()[Acted][:approving]} & {*acting}
    if "guard_output" in names:
        ends = [edge for edge in graph.edges if edge.target == "END" and edge.outcome is AgentFinish]
        assert ends
        assert all(
            edge.source == "guard_output" or verify.dominates(graph, "guard_output", edge.source, outcome=AgentFinish)
            for edge in ends
        )
    restored = executor.unplug(*[piece.name for piece in executor.pieces])
    assert str(restored.graph) == str(make_executor().graph)


def check_run(names: Sequence[str]) -> None:
    """Check that a stack, run in pieces, ends as it does in one go."""
    try:
        whole = make(names).run(QUESTION)
    except GraphexecError:
        return
    model = models.ScriptedModel(SCRIPT, repeat_last=True)
    pieces, _ = run_in_pieces(lambda observers: make(names, model, observers=observers), QUESTION)
    assert (str(pieces), pieces.spent.meters) == (str(whole), whole.spent.meters)


def check_stream(names: Sequence[str]) -> None:
    """Check that the pieces of a streamed answer are together the answer, and that none has a refused one."""
    script = (call("a"), '{"text": "the secret"}')
    if error_of(lambda: make(names, models.ScriptedModel(script, repeat_last=True))) is not None:
        return
    executor = make(names, models.ScriptedModel(script, repeat_last=True))
    pieces = list(executor.stream_answer(QUESTION))
    discarded = [place for place, piece in enumerate(pieces) if isinstance(piece, AnswerDiscarded)]
    answer = "".join(pieces[discarded[-1] + 1 :] if discarded else pieces)
    assert answer == str(make(names, models.ScriptedModel(script, repeat_last=True)).run(QUESTION))
    if "guard_output" in names:
        assert "the secret" not in "".join(pieces)


CHECKS = [check_stack, check_run, check_stream]


@pytest.mark.parametrize("check", mark_except(CHECKS, check_stack, check_stream))
@given(names=st.one_of(stacks(), stacks("guard_output")))
@settings(max_examples=examples(15), deadline=None)
def test_stacks_keep_their_promises(check: Callable[[Sequence[str]], None], names: list[str]) -> None:
    check(names)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
@given(
    names=st.one_of(stacks(), stacks("approve_tools"), stacks("guard_output"), stacks("approve_tools", "guard_output"))
)
@settings(max_examples=examples(300, 80), deadline=None)
def test_many_stacks_keep_their_promises(check: Callable[[Sequence[str]], None], names: list[str]) -> None:
    check(names)
