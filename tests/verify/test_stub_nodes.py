"""Stub nodes: for all bodies of nodes, the engine follows the table within the limits."""

from __future__ import annotations

import abc
import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, NamedTuple, final

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import END, AskHuman, Effect, Exhausted, Graph, edges, graph, node, on
from graphexec.effects import MODEL_CALLS, TOOL_CALLS, CallModel, CallTool, agent_limits
from graphexec.errors import InputError
from graphexec.executor import AGENT_EXECUTOR, STRICT_AGENT_EXECUTOR
from graphexec.kernel import Budget, Limits, metered
from graphexec.verify.explorer.explore import explore
from graphexec.verify.explorer.oracle import replies_of
from graphexec.verify.explorer.stub_nodes import bare, explore_table
from graphexec.verify.proof.findings import Witness
from graphexec.verify.proof.flow import Transition
from graphexec.verify.proof.prove import verify
from tests.kernel.machines import CLOCK, DIAMOND, ERRAND, INTERVIEW, PROMPTS, SELF_LOOP, SURVEY, Prompt, Stopped
from tests.parameters import cases
from tests.verify import machines
from tests.verify.errands import GUARDED, KINDS, READY, SHORTCUT, UNROUTED, Kind, executor_of, look_up
from tests.verify.execution import adversary, execute

# The same node, with a declared count of one.
_once = replace(PROMPTS["prompt"], least=1, most=1)
ASKING_ONCE: Graph[Any, Any] = graph(edges(_once, on(Prompt, _once) | on(Stopped, END)), start=_once)

MACHINES: dict[str, Graph[Any, Any]] = {
    "clock": CLOCK,
    "diamond": DIAMOND,
    "self-loop": SELF_LOOP,
    "interview": INTERVIEW,
    "survey": SURVEY,
    "prompts": ASKING_ONCE,
    "errand": ERRAND,
    "guarded": GUARDED,
    "shortcut": SHORTCUT,
    "agent executor": AGENT_EXECUTOR,
    "strict": STRICT_AGENT_EXECUTOR,
}


@cases("iterations", [0, 1, 3, 15])
def test_table_takes_four_transitions_per_iteration(iterations: int) -> None:
    found = explore_table(AGENT_EXECUTOR, Limits(iterations=iterations))
    assert found.longest == 4 * iterations + 2
    assert found.model_calls == iterations
    assert found.endless is None


def test_every_edge_of_the_table_is_taken() -> None:
    found = explore_table(AGENT_EXECUTOR, agent_limits(iterations=2, tool_calls=1))
    assert found.never_taken == ()
    (unspent,) = explore_table(AGENT_EXECUTOR, Limits(iterations=2, fan_out=None)).never_taken
    assert str(unspent) == ("dispatch_tools --LimitReached--> stopped_response: no limit is reached at dispatch_tools")


@st.composite
def all_limits(draw: st.DrawFn, most: int = 3) -> Limits:
    return agent_limits(
        iterations=draw(st.integers(0, most)),
        model_calls=draw(st.integers(0, most)),
        tool_calls=draw(st.none() | st.integers(0, most)),
        tokens=draw(st.none() | st.integers(0, most)),
        seconds=draw(st.sampled_from([None, None, 0.0, 1.0])),
        fan_out=draw(st.none() | st.integers(0, most)),
    )


@given(limits=all_limits(), kind=st.sampled_from(KINDS))
def test_table_allows_every_run_of_the_machine(limits: Limits, kind: Kind) -> None:
    executor = executor_of(kind, (look_up,))
    bodies = explore(executor.graph, limits, READY, replies_of(executor))
    table = explore_table(executor.graph, limits)
    assert set(bodies.taken) <= set(table.taken)
    assert set(bodies.endings) <= set(table.endings)
    assert bodies.longest is not None
    assert table.longest is not None
    assert bodies.longest <= table.longest
    assert (bodies.model_calls or 0) <= (table.model_calls or 0)


@given(data=st.data(), name=st.sampled_from(sorted(MACHINES)), limits=all_limits())
def test_no_adversary_exceeds_the_longest_run(data: st.DataObject, name: str, limits: Limits) -> None:
    machine = MACHINES[name]
    longest = explore_table(machine, limits).longest
    assert longest is not None
    trace = adversary(machine, limits, lambda instructions: data.draw(st.sampled_from(list(instructions))), longest + 1)
    assert len(trace) <= longest
    assert trace[-1].target == END.name
    assert all(edge.target == following.source for edge, following in pairwise(trace))


def test_table_without_limits_has_endless_run() -> None:
    found = explore_table(CLOCK, Limits(iterations=None))
    assert found.endless is not None
    assert list(map(str, found.endless.loop)) == ["tick --Tock--> tock", "tock --Tick--> tick"]


@cases("limits", [agent_limits(tokens=4), agent_limits(model_calls=4)])
def test_undeclared_count_may_be_zero(limits: Limits) -> None:
    assert explore_table(PROMPTS, limits).endless is not None
    assert explore_table(ASKING_ONCE, limits).longest == 5


# ---- a machine with its own budget, which an edge resets


@final
@dataclass(frozen=True)
class Draft:
    pass


@final
@dataclass(frozen=True)
class Chapter:
    pass


@final
@dataclass(frozen=True)
class Enough:
    at: Draft | Chapter
    limit: Exhausted


REVISIONS = Budget("revisions", 2)


@metered(when_spent=Enough)
@node
def write(chapter: Chapter) -> Draft:
    return Draft()


@metered(when_spent=Enough, budget=REVISIONS)
@node
def revise(draft: Draft) -> Draft | Chapter:
    return Draft()


BOOK: Graph[Chapter, Enough] = graph(
    edges(write, on(Draft, revise) | on(Enough, END))
    | edges(revise, on(Draft, revise) | on(Chapter, write, resets=[REVISIONS]) | on(Enough, END)),
    start=write,
)


@cases("chapters", [0, 1, 3])
def test_edge_resets_budget(chapters: int) -> None:
    assert explore_table(BOOK, Limits(iterations=chapters)).longest == 3 * chapters + 1
    more = Limits(iterations=chapters, budgets={"revisions": 4})
    assert explore_table(BOOK, more).longest == 5 * chapters + 1


# ---- witnesses


def moves(machine: Graph[Any, Any], *steps: tuple[str, str]) -> tuple[Transition, ...]:
    targets = {(edge.source, edge.outcome.__name__): edge.target for edge in machine.edges}
    return tuple(Transition(source, outcome, targets[source, outcome]) for source, outcome in steps)


UNREADABLE = moves(AGENT_EXECUTOR, ("plan", "Replied"), ("parse", "Ready"))
ACTING = moves(
    AGENT_EXECUTOR,
    ("plan", "Replied"),
    ("parse", "Acted"),
    ("dispatch_tools", "Observed"),
    ("check_return_direct", "Ready"),
)
STOPPING = moves(AGENT_EXECUTOR, ("plan", "LimitReached"))
FINISHING = moves(AGENT_EXECUTOR, ("plan", "Replied"), ("parse", "AgentFinish"))
NO_LIMITS = Limits(iterations=None)


def test_engine_follows_loop_for_any_length() -> None:
    assert execute(AGENT_EXECUTOR, Witness(ACTING, UNREADABLE, NO_LIMITS), 1000) == 1000
    assert execute(BOOK, Witness((), moves(BOOK, ("write", "Draft"), ("revise", "Chapter")), NO_LIMITS), 100) == 100


def test_engine_follows_witness_without_loop() -> None:
    assert execute(AGENT_EXECUTOR, Witness(ACTING, (), NO_LIMITS), 1000) == 4


def test_engine_follows_edges_of_reached_limits() -> None:
    gate = replace(STOPPING[0], kind="gate")
    stop = moves(AGENT_EXECUTOR, ("stopped_response", "StoppedResponse"))
    assert execute(AGENT_EXECUTOR, Witness((*ACTING, gate, *stop), (), Limits(iterations=1)), 100) == 6
    within = replace(moves(AGENT_EXECUTOR, ("dispatch_tools", "LimitReached"))[0], kind="within")
    stem = (*ACTING[:2], within, *stop)
    assert execute(AGENT_EXECUTOR, Witness(stem, (), agent_limits(tool_calls=0)), 100) == 4
    assert execute(AGENT_EXECUTOR, Witness(stem, (), Limits(seconds=1.0)), 100) == 4


@cases(
    ("witness", "message"),
    [
        (Witness((), UNREADABLE, Limits(iterations=3)), "was to be step 7"),
        (Witness((), moves(AGENT_EXECUTOR, ("parse", "Ready")), NO_LIMITS), "was to be step 1"),
        (Witness((), STOPPING, Limits(iterations=0)), r"\(move\) was to be step 1"),
        (Witness(FINISHING, UNREADABLE, NO_LIMITS), "nowhere"),
    ],
)
def test_engine_rejects_wrong_witness(witness: Witness, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        execute(AGENT_EXECUTOR, witness, 100)


# ---- bare instances


class Colour(enum.Enum):
    RED = "red"


class Word(str):
    __slots__ = ()


class Pair(NamedTuple):
    left: int
    right: int


class Page(pydantic.BaseModel):
    text: str


class Refusing:
    def __init__(self) -> None:
        raise ValueError("there is no such thing")


class Slotted:
    __slots__ = ("text",)


class Nothing(enum.Enum):
    pass


@cases("kind", [Colour, Word, Pair, Page, Refusing, Slotted, Draft, int, str, tuple, object, ValueError])
def test_bare_instance_runs_no_class_code(kind: type) -> None:
    assert type(bare(kind)) is kind


class Unmade(abc.ABC):
    @abc.abstractmethod
    def made(self) -> None: ...


@cases("kind", [Nothing, Unmade])
def test_a_class_that_has_no_instances_is_refused(kind: type) -> None:
    with pytest.raises(InputError, match="cannot be an outcome"):
        bare(kind)


@cases("restarts", [0, 1, 3])
def test_crash_costs_at_most_one_repeated_call(restarts: int) -> None:
    found = explore_table(AGENT_EXECUTOR, Limits(iterations=2, restarts=restarts))
    assert found.longest == 10
    assert found.model_calls == 2 + restarts
    assert explore_table(ASKING_ONCE, agent_limits(model_calls=3, restarts=restarts)).model_calls == 3


def test_missing_edge_of_draft_ends_run() -> None:
    found = explore_table(UNROUTED, Limits())
    assert (found.endings, found.exceptions) == ({"Expected": 1}, {"UnhandledOutcomeError": 1})


# ---- nodes that ask for several kinds of things


def asking(least: int, most: int | None, *effects: type[Effect[Any]]) -> Graph[Any, Any]:
    """A machine of the one node, which may ask for so many of these."""
    prompt = PROMPTS["prompt"]
    several = replace(prompt, effects=effects, least=least, most=most, outcomes=(Prompt, Stopped), returns=(Prompt,))
    return graph(edges(several, on(Prompt, END) | on(Stopped, END)), start=several)


def test_call_instead_of_free_effect_is_counted() -> None:
    found = explore_table(asking(1, 1, AskHuman, CallTool), Limits())
    assert (found.model_calls, found.tool_calls) == (0, 1)


def test_visit_may_ask_for_several_kinds() -> None:
    # Neither limit allows two of one kind, so that only one of each comes back.
    one_of_each = agent_limits(model_calls=1, tool_calls=1)
    found = explore_table(asking(2, 2, CallModel, CallTool), one_of_each)
    assert (found.model_calls, found.tool_calls, found.endings) == (1, 1, {"Prompt": 1, "Stopped": 3})
    found = explore_table(asking(4, 4, CallModel, CallTool), agent_limits(model_calls=2, tool_calls=2))
    assert "Prompt" in found.endings
    assert "Prompt" not in explore_table(asking(3, 3, CallModel, CallTool), one_of_each).endings


@cases(("limits", "most"), [(agent_limits(tool_calls=2), 4), (Limits(fan_out=2), None)])
def test_sequential_effects_are_charged_up_to_limit(limits: Limits, most: int | None) -> None:
    found = explore_table(asking(4, most, CallTool), limits)
    assert (found.tool_calls, set(found.endings)) == (2, {"Stopped"})


@cases(("tool_calls", "found", "enough"), [(None, 8, 8), (3, 3, 8), (20, 20, 21)])
def test_wide_fan_out_is_narrowed(tool_calls: int | None, found: int, enough: int) -> None:
    wide, narrow = (
        explore_table(asking(0, None, CallTool), agent_limits(tool_calls=tool_calls, fan_out=fan_out))
        for fan_out in (1_000, enough)
    )
    assert (wide.tool_calls, set(wide.endings)) == (found, {"Prompt", "Stopped"})
    assert wide == narrow


def test_token_limit_stops_batch_of_calls() -> None:
    found = explore_table(asking(0, None, CallModel), agent_limits(tokens=2))
    assert (found.model_calls, set(found.endings)) == (2, {"Prompt", "Stopped"})


@cases("effects", [(CallModel, CallTool), (AskHuman, CallTool), (AskHuman, CallModel, CallTool)])
@cases(("least", "most"), [(least, most) for most in (1, 2, 3) for least in (0, 1, 2) if least <= most])
def test_stub_nodes_cover_all_charges(least: int, most: int, effects: tuple[type[Effect[Any]], ...]) -> None:
    machine = asking(least, most, *effects)
    for models, tools in product((None, 0, 1, 2), repeat=2):
        limits = agent_limits(model_calls=models, tool_calls=tools)
        ended: set[str] = set()
        called = [0, 0]
        for batches in _batches(effects, most):
            ending, spent = _visited(batches, least, limits)
            if ending is not None:
                ended.add(ending)
                called = list(map(max, called, spent))
        found = explore_table(machine, limits)
        assert [found.model_calls, found.tool_calls] == called, limits
        assert set(found.endings) == ended, limits


def _charged(effect: type[Effect[Any]]) -> str | None:
    """The calls that such an effect counts as."""
    return next((meter.name for meter in (MODEL_CALLS, TOOL_CALLS) if meter in effect.charges), None)


def _batches(effects: Sequence[type[Effect[Any]]], most: int) -> Iterator[list[list[str | None]]]:
    """Return all sequences of at most so many effects, one by one and at once."""
    for count in range(most + 1):
        for asks in product([_charged(effect) for effect in effects], repeat=count):
            yield [[meter] for meter in asks]
            yield [list(asks)]


def _visited(batches: Sequence[Sequence[str | None]], least: int, limits: Limits) -> tuple[str | None, tuple[int, int]]:
    """Return the expected end of a visit with these effects, and its model and tool calls."""
    spent: Counter[str | None] = Counter()
    for batch in batches:
        wanted = spent + Counter(batch)
        for budget in ("model_calls", "tool_calls"):
            limit = limits[budget]
            if limit is not None and wanted[budget] > limit and budget in batch:
                return "Stopped", (spent["model_calls"], spent["tool_calls"])
        spent = wanted
    ending = "Prompt" if sum(map(len, batches)) >= least else None
    return ending, (spent["model_calls"], spent["tool_calls"])


# ---- stub nodes and proofs agree


def check(machine: Graph[Any, Any], limits: Limits) -> None:
    verdict = verify(machine, limits)
    found = explore_table(machine, limits)
    if verdict.certificate is not None:
        ranks, bounds = verdict.certificate.ranks, verdict.certificate.bounds
        assert explore_table(machine, limits, ranks=ranks) == found
        assert found.longest is not None
        assert found.charges is not None
        assert found.charges.keys() == bounds.meters.keys()
        for bound, reached in (
            (bounds.transitions, found.longest),
            *((bound, found.charges[name]) for name, bound in bounds.meters.items()),
        ):
            assert bound.number is None or reached <= bound.number
            if bound.exact:
                assert reached == bound.number
    for finding in verdict.findings:
        # A witness may let time pass in a node that asks for nothing, and there the engine does not look at the clock.
        if finding.witness is not None and finding.witness.loop and finding.witness.limits.seconds is None:
            assert execute(machine, finding.witness, 50) == 50
    if found.endless is not None:
        assert not verdict.proved


@given(machine=machines.graphs(), limits=machines.limits())
def test_engine_agrees_with_proofs_and_refutations(machine: Graph[Any, Any], limits: Limits) -> None:
    check(machine, limits)


@pytest.mark.slow
@settings(max_examples=3000)
@given(machine=machines.graphs(), limits=machines.limits())
def test_proofs_and_the_engine_agree_on_many_machines(machine: Graph[Any, Any], limits: Limits) -> None:
    check(machine, limits)
