"""Flows of machines: the transitions of each kind of node, and the amounts that each spends."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.effects import CallModel, CallTool, agent_limits
from graphexec.errors import LimitsError
from graphexec.kernel import Edge
from graphexec.messages import CompletionRequest
from graphexec.verify import check
from graphexec.verify.explorer.stub_nodes import explore_table
from graphexec.verify.proof.flow import Flow, Transition, caps_of, flow_of, is_enabled, limits_of
from tests.parameters import cases
from tests.verify.flows import calling


@final
@dataclass(frozen=True)
class Given:
    pass


@final
@dataclass(frozen=True)
class Made:
    pass


@final
@dataclass(frozen=True)
class Halted:
    given: Given
    limit: gx.Exhausted


class Look(gx.Effect[str]):
    """An effect that costs nothing."""


FIRST, SECOND = gx.Budget("first", 1), gx.Budget("second")


@gx.node
def pure(given: Given) -> Made:
    return Made()


@gx.opaque
def blocking(given: Given) -> Made:
    return Made()


@gx.node
def think(given: Given) -> gx.Asks[CallModel, Made]:
    yield from gx.ask(CallModel(CompletionRequest("?")))
    return Made()


@gx.node
def use(given: Given) -> gx.Asks[CallTool, Made]:
    yield from gx.ask(CallTool("look", ""))
    return Made()


@gx.node
def either(given: Given) -> gx.Asks[CallModel | CallTool | Look, Made]:
    yield from gx.ask(CallTool("look", ""))
    return Made()


@gx.node
def think_and_act(given: Given) -> gx.Asks[CallModel | CallTool, Made]:
    yield from gx.ask(CallTool("look", ""))
    return Made()


@gx.node
def look(given: Given) -> gx.Asks[Look, Made]:
    yield from gx.ask(Look())
    return Made()


# The other meters that a model reply reports.
REPORTED = ("cached_tokens", "completion_tokens", "cost", "prompt_tokens")


def ways(entry: Any, *, resets: tuple[gx.Budget, ...] = ()) -> list[Transition]:
    """The ways through a machine of one node."""
    row: Any = gx.edges
    routes: Any = gx.on(Made, gx.END, resets=resets)
    if entry.spent_outcome is not None:
        routes = routes | gx.on(Halted, gx.END)
    return list(flow_of(gx.graph(row(entry, routes), start=entry)).transitions)


def test_pure_node_returns_and_spends_nothing() -> None:
    assert ways(pure) == [Transition("pure", "Made", "END")]


def test_metered_node_spends_one_or_is_not_entered() -> None:
    entry = gx.metered(when_spent=Halted, budget=SECOND)(gx.metered(when_spent=Halted, budget=FIRST)(pure))
    assert ways(entry, resets=(SECOND,)) == [
        Transition("pure", "Made", "END", spends=(("first", 1), ("second", 1)), resets=("second",)),
        Transition("pure", "Halted", "END", "gate", causes=("first", "second", "seconds", "restarts")),
    ]


def test_a_node_that_asks_may_be_stopped_within() -> None:
    assert ways(gx.charged(when_spent=Halted)(think)) == [
        Transition("think", "Made", "END", **calling(models=None)),
        Transition(
            "think",
            "Halted",
            "END",
            "within",
            causes=("model_calls", "tokens", *REPORTED, "fan_out", "seconds", "restarts"),
            **calling(models=None),
        ),
    ]
    assert ways(gx.charged(when_spent=Halted)(use)) == [
        Transition("use", "Made", "END", **calling(tools=None)),
        Transition(
            "use",
            "Halted",
            "END",
            "within",
            causes=("tool_calls", "fan_out", "seconds", "restarts"),
            **calling(tools=None),
        ),
    ]


def test_declared_counts_bound_spending() -> None:
    assert ways(gx.charged(when_spent=Halted, asks=(2, 3))(think)) == [
        Transition("think", "Made", "END", spends=(("model_calls", 2), ("tokens", 2)), **calling(models=3), asks=2),
        Transition(
            "think",
            "Halted",
            "END",
            "within",
            causes=("model_calls", "tokens", *REPORTED, "seconds", "restarts"),
            **calling(models=3),
        ),
    ]
    assert ways(gx.charged(when_spent=Halted, asks=1)(use)) == [
        Transition("use", "Made", "END", spends=(("tool_calls", 1),), **calling(tools=1), asks=1),
        Transition("use", "Halted", "END", "within", causes=("tool_calls", "seconds", "restarts"), **calling(tools=1)),
    ]


def test_spending_is_uncertain_with_several_kinds() -> None:
    assert ways(gx.charged(when_spent=Halted, asks=2)(either)) == [
        Transition("either", "Made", "END", **calling(models=2, tools=2, others=2), asks=2),
        Transition(
            "either",
            "Halted",
            "END",
            "within",
            causes=("model_calls", "tokens", "tool_calls", *REPORTED, "seconds", "restarts"),
            **calling(models=2, tools=2, others=2),
        ),
    ]


def test_deadline_may_stop_free_effect() -> None:
    assert ways(gx.charged(when_spent=Halted, asks=1)(look)) == [
        Transition("look", "Made", "END", asks=1, **calling(others=1)),
        Transition("look", "Halted", "END", "within", causes=("seconds", "restarts"), **calling(others=1)),
    ]
    assert ways(gx.charged(when_spent=Halted)(blocking)) == [
        Transition("blocking", "Made", "END", asks=1, **calling(others=1)),
        Transition("blocking", "Halted", "END", "within", causes=("seconds", "restarts"), **calling(others=1)),
    ]


def test_metered_asking_node_has_gate_and_within() -> None:
    assert ways(gx.metered(when_spent=Halted, budget=FIRST, asks=1)(think)) == [
        Transition(
            "think",
            "Made",
            "END",
            spends=(("first", 1), ("model_calls", 1), ("tokens", 1)),
            **calling(models=1),
            asks=1,
        ),
        Transition("think", "Halted", "END", "gate", causes=("first", "seconds", "restarts")),
        Transition(
            "think",
            "Halted",
            "END",
            "within",
            spends=(("first", 1),),
            causes=("model_calls", "tokens", *REPORTED, "seconds", "restarts"),
            **calling(models=1),
        ),
    ]


def test_node_behind_gate_asks_for_nothing() -> None:
    _, shut, _ = ways(gx.metered(when_spent=Halted, budget=FIRST, asks=(1, 2))(use))
    assert shut == Transition("use", "Halted", "END", "gate", causes=("first", "seconds", "restarts"))


def test_node_that_never_asks_has_no_within() -> None:
    assert ways(gx.charged(when_spent=Halted, asks=0)(think)) == [Transition("think", "Made", "END")]


def test_flow_has_nodes_and_own_budgets() -> None:
    entry = gx.metered(when_spent=Halted, budget=SECOND)(gx.metered(when_spent=Halted, budget=FIRST)(pure))
    row: Any = gx.edges
    machine = gx.graph(row(entry, gx.on(Made, gx.END) | gx.on(Halted, gx.END)), start=entry)
    flow = flow_of(machine)
    assert (flow.start, flow.nodes, flow.budgets) == ("pure", ("pure",), (("first", 1), ("second", None)))
    assert flow == flow_of(machine)
    assert flow.digest == flow_of(machine).digest


def test_unrouted_outcome_is_not_in_flow() -> None:
    row: Any = gx.edges
    entry = gx.metered(when_spent=Halted, budget=FIRST)(pure)
    assert [one.outcome for one in flow_of(gx.draft(row(entry, gx.on(Made, gx.END)), start=entry)).transitions] == [
        "Made"
    ]
    assert [one.outcome for one in flow_of(gx.draft(row(entry, gx.on(Halted, gx.END)), start=entry)).transitions] == [
        "Halted"
    ]


def test_digest_covers_every_part_of_flow() -> None:
    one = Transition("a", "A", "END", spends=(("x", 1),), causes=("y",), **calling(models=2))
    flow = Flow("a", ("a",), (one,), (("x", 1),))
    others = [
        Flow("a", ("a",), (one,), (("x", 1),), ("tokens",)),
        Flow("b", ("a",), (one,), (("x", 1),)),
        Flow("a", ("a", "b"), (one,), (("x", 1),)),
        Flow("a", ("a",), (one, one), (("x", 1),)),
        Flow("a", ("a",), (one,), (("x", None),)),
    ]
    assert len({each.digest for each in (flow, *others)}) == 6
    assert str(one) == "a --A--> END"


def test_digest_is_stable_because_journals_depend_on_it() -> None:
    one = Transition("a", "A", "END", spends=(("x", 1),), causes=("y",), **calling(models=2))
    flow = Flow("a", ("a",), (one,), (("x", 1),))
    written = json.dumps(flow.to_data(), sort_keys=True)
    # Machines without nested runs keep the digests that they had before there were any.
    assert "reserves" not in written
    reserving = dataclasses.replace(flow, transitions=(dataclasses.replace(one, reserves=(("y", 2),)),))
    assert reserving.digest == hashlib.sha256(json.dumps(reserving.to_data(), sort_keys=True).encode()).hexdigest()
    assert reserving.digest != flow.digest
    assert written.startswith(
        '{"budgets": [["x", 1]], "measured": [], "nodes": ["a"], "start": "a", "transitions": [{"answered": false, '
    )
    assert flow.digest == hashlib.sha256(written.encode()).hexdigest()


# ---- limits


def test_run_limits_override_budget_limits() -> None:
    asking = Transition("a", "A", "END", **calling(models=1, tools=1))
    flow = Flow("a", ("a",), (asking,), (("x", 3), ("y", None)))
    assert caps_of(flow, agent_limits(model_calls=2, tokens=0)) == {
        "iterations": 15,
        "model_calls": 2,
        "tool_calls": None,
        "tokens": 0,
        "x": 3,
        "y": None,
    }
    given = agent_limits(iterations=None, tool_calls=4, budgets={"x": None, "y": 0})
    assert caps_of(flow, given) == {
        "iterations": None,
        "model_calls": None,
        "tool_calls": 4,
        "tokens": None,
        "x": None,
        "y": 0,
    }


@cases("cause", ["x", "iterations", "seconds", "restarts", "fan_out"])
@cases("kind", ["gate", "within"])
def test_limit_transition_needs_its_limit(kind: Any, cause: str) -> None:
    one = Transition("a", "A", "END", kind, causes=("tokens", cause))
    none = gx.Limits(iterations=None, fan_out=None)
    flow = Flow("a", ("a",), (one,), (("x", None),))
    assert not is_enabled(one, limits_of(flow, none))
    given: dict[str, Any] = {"budgets": {"x": 0}} if cause == "x" else {cause: 0}
    assert is_enabled(one, limits_of(flow, dataclasses.replace(none, **given)))


def test_a_move_is_always_possible() -> None:
    assert is_enabled(Transition("a", "A", "END", spends=(("x", 1),)), {"x": 0})


# ---- assumptions of proofs


def asking(counted: Any) -> gx.Graph[Given, Any]:
    row: Any = gx.edges
    machine: gx.Graph[Given, Any] = gx.graph(row(counted, gx.on(Made, gx.END) | gx.on(Halted, gx.END)), start=counted)
    return machine


SAY_HOW_MANY = "declare asks= in its @charged or @metered: a number, or (minimum, maximum)"
RETURNS = "every node function, policy and observer returns, and each effect is answered"
CUT = (
    "every node function, policy and observer returns at once, and the event loop is not blocked; an unanswered "
    "effect is cut off at the deadline"
)
LEFT = "work that continues in the thread or task of a cut-off effect is not counted"
ONE = "an effect counts as one, even if its handler does more: a client's own retries are not counted"
NEVER_AGAIN = (
    "no run is resumed after a crash (a resume charges an unanswered effect again; to include resumes, set "
    "Limits(restarts=...))"
)
NESTED = (
    "each nested run ends, and is linked to the call that started it (in a thread of your own: "
    "run(..., host=call)); a run starts at most 1,000, to a depth of 8"
)
BESIDE = (
    "the bounds on model calls include the nested runs of tools made by as_tool, but not other nested runs and not the "
    "model calls of a memory; limits on model calls would include them"
)
MORE = (
    "the bound on transitions is for a run that is not nested: inside a run with a limit that this machine does "
    "not have, it still ends, but may take more"
)
AGAIN = "a run that is resumed after a crash is resumed from snapshot.restarted()"


@cases(
    ("limits", "asks", "assumed"),
    [
        (gx.Limits(), None, (RETURNS, ONE, NEVER_AGAIN, NESTED, BESIDE)),
        (gx.Limits(fan_out=None), 3, (RETURNS, ONE, NEVER_AGAIN, NESTED, BESIDE, MORE)),
        (agent_limits(model_calls=3, fan_out=None), None, (RETURNS, ONE, NEVER_AGAIN, NESTED)),
        (gx.Limits(restarts=0), None, (RETURNS, ONE, NESTED, BESIDE)),
        (gx.Limits(seconds=9, restarts=2), 1, (CUT, LEFT, ONE, AGAIN, NESTED, BESIDE)),
    ],
)
def test_proof_lists_its_assumptions(limits: gx.Limits, asks: Any, assumed: tuple[str, ...]) -> None:
    verdict = asking(gx.charged(when_spent=Halted, asks=asks)(think)).verify(limits)
    assert verdict.proved
    assert verdict.assumptions == assumed
    assert verdict.findings == ()
    assert str(verdict).splitlines()[-1] == (
        f"  assuming: {len(assumed)} things (see verdict.assumptions, or graphexec check)"
    )


@cases("limits", [gx.Limits(fan_out=None), agent_limits(tool_calls=3, fan_out=None)])
def test_unbounded_effects_are_unproved(limits: gx.Limits) -> None:
    verdict = asking(gx.charged(when_spent=Halted)(think)).verify(limits)
    assert (verdict.status, verdict.certificate, verdict.assumptions) == ("unproved", None, ())
    (finding,) = verdict.findings
    assert finding.severity == "error"
    assert str(finding) == (
        "GX013 at think: nothing limits how often one visit asks for CallModel. Set max_fan_out or max_model_calls "
        f"(in agent_limits: fan_out, model_calls), or {SAY_HOW_MANY}."
    )


def test_only_fan_out_bounds_free_effects() -> None:
    machine = asking(gx.charged(when_spent=Halted)(either))
    assert machine.verify(gx.Limits()).findings == ()
    (finding,) = machine.verify(agent_limits(model_calls=1, tool_calls=1, fan_out=None)).findings
    assert (finding.code, finding.node) == ("GX013", "either")
    assert "asks for Look" in finding.fact
    assert finding.remedy == f"set max_fan_out (in agent_limits: fan_out), or {SAY_HOW_MANY}"


def test_either_of_two_limited_calls_ends_a_loop() -> None:
    """A visit asks for one of several effects, but it is unknown for which."""

    @gx.node
    def model_or_tool(given: Given) -> gx.Asks[CallModel | CallTool, Given]:
        yield from gx.ask(CallTool("look", ""))
        return given

    asking_for_one: Any = gx.charged(when_spent=Halted, asks=1)(model_or_tool)
    row: Any = gx.edges
    machine: gx.Graph[Any, Any] = gx.graph(
        row(asking_for_one, gx.on(Given, asking_for_one) | gx.on(Halted, gx.END)), start=asking_for_one
    )
    certificate = machine.verify(agent_limits(iterations=None, model_calls=200, tool_calls=300)).certificate
    assert certificate is not None
    check(certificate, machine)
    assert str(certificate.bounds.transitions) == "model_calls + tool_calls + 1 = 501 (exact)"
    assert machine.verify(agent_limits(iterations=None, model_calls=200)).status == "refuted"


def test_limit_that_is_set_is_not_advised() -> None:
    machine = asking(gx.charged(when_spent=Halted)(think_and_act))
    cases = (
        (agent_limits(model_calls=1, fan_out=None), "tool_calls"),
        (agent_limits(tool_calls=1, fan_out=None), "model_calls"),
    )
    for limits, meter in cases:
        (finding,) = machine.verify(limits).findings
        assert (finding.code, finding.remedy) == (
            "GX013",
            f"set max_fan_out or max_{meter} (in agent_limits: fan_out, {meter}), or {SAY_HOW_MANY}",
        )


def give(given: Given, limit: gx.Exhausted) -> Given:
    del limit
    return given


def test_witness_does_not_rely_on_cut_tool() -> None:
    """A tool that is cut has an observation for that, so its node goes on; a model that is cut has none."""
    ended: list[str] = []
    for function in (use, think):
        asking_once: Any = gx.charged(when_spent=give, asks=1)(function)
        row: Any = gx.edges
        machine: gx.Graph[Any, Any] = gx.graph(
            row(asking_once, gx.on(Made, gx.END) | gx.on(Given, asking_once)), start=asking_once
        )
        verdict = machine.verify(agent_limits(seconds=5))
        ended.append(
            f"{function.name}: {verdict.status}, {explore_table(machine, agent_limits(seconds=5)).endless is None}"
        )
    assert ended == ["use: unproved, True", "think: refuted, False"]


def test_every_node_with_unbounded_effects_is_reported() -> None:
    @gx.node
    def think_again(given: Given) -> gx.Asks[CallModel, Made]:
        yield from gx.ask(CallModel(CompletionRequest("?")))
        return Made()

    @gx.node
    def begin_again(back: Back) -> Given:
        return Given()

    counted: Any = gx.charged(when_spent=Halted)(think)
    again: Any = gx.charged(when_spent=Halted)(think_again)
    row: Any = gx.edges
    machine: gx.Graph[Any, Any] = gx.graph(
        row(counted, gx.on(Made, turn_back) | gx.on(Halted, gx.END))
        | row(turn_back, gx.on(Back, begin_again))
        | row(begin_again, gx.on(Given, again))
        | row(again, gx.on(Made, gx.END) | gx.on(Halted, gx.END)),
        start=counted,
    )
    assert [one.node for one in machine.verify(gx.Limits(fan_out=None)).findings] == ["think", "think_again"]


def test_edges_to_missing_nodes_can_be_analysed() -> None:
    machine: gx.Graph[Any, Any] = gx.Graph([pure], [Edge("pure", Made, "nowhere")], "pure")
    assert machine.verify().status == "refuted"


# ---- findings


@final
@dataclass(frozen=True)
class Back:
    pass


@gx.node
def turn_back(made: Made) -> Back:
    return Back()


@gx.node
def again(back: Back) -> Given:
    return Given()


@gx.node
def begin_with(made: Made) -> Given:
    return Given()


counting = gx.metered(when_spent=Halted, budget=gx.Budget("first", 3))(pure)


def test_stop_only_nodes_are_reported_with_path() -> None:
    row: Any = gx.edges
    machine: gx.Graph[Any, Any] = gx.graph(
        row(begin_with, gx.on(Given, counting))
        | row(counting, gx.on(Made, turn_back) | gx.on(Halted, gx.END))
        | row(turn_back, gx.on(Back, again))
        | row(again, gx.on(Given, counting)),
        start=begin_with,
    )
    (finding,) = machine.verify().findings
    assert str(finding) == (
        "GX007 at begin_with: runs from begin_with, pure, turn_back, again reach END only when a limit stops them. "
        "Route an outcome of begin_with, or of a node after it, to END."
    )
    assert (finding.severity, finding.outcome) == ("warning", None)
    assert machine.verify().proved
    assert finding.witness is not None
    assert (finding.witness.stem, finding.witness.loop, finding.witness.limits) == ((), (), gx.Limits())


def test_stop_only_finding_has_shortest_path_of_moves() -> None:
    @gx.node
    def choose(back: Back) -> Given | Made:
        return Given()

    @gx.node
    def finish(made: Made) -> Made:
        return made

    row: Any = gx.edges
    machine: gx.Graph[Any, Any] = gx.graph(
        row(choose, gx.on(Given, counting) | gx.on(Made, finish))
        | row(counting, gx.on(Made, turn_back) | gx.on(Halted, gx.END))
        | row(turn_back, gx.on(Back, again))
        | row(again, gx.on(Given, counting))
        | row(finish, gx.on(Made, gx.END)),
        start=choose,
    )
    (finding,) = machine.verify().findings
    assert finding.node == "pure"
    assert finding.witness is not None
    assert [str(one) for one in finding.witness.stem] == ["choose --Given--> pure"]
    assert "runs from pure, turn_back, again reach END" in finding.fact
    assert "Reached by start -> choose -> pure." in str(finding)


def test_fault_of_draft_has_path_if_reachable() -> None:
    row: Any = gx.edges
    drafted: gx.Graph[Any, Any] = gx.draft(
        row(counting, gx.on(Made, turn_back) | gx.on(Halted, gx.END))
        | row(turn_back, gx.on(Back, again))
        | row(begin_with, gx.on(Given, counting)),
        start=counting,
    )
    findings = {finding.code + " " + str(finding.node): finding for finding in drafted.verify().findings}
    lost = findings["GX005 again"]
    assert lost.witness is not None
    assert [str(one) for one in lost.witness.stem] == ["pure --Made--> turn_back", "turn_back --Back--> again"]
    # Nothing leads to it.
    assert findings["GX004 begin_with"].witness is None
    assert drafted.verify().status == "refuted"
    assert drafted.verify().certificate is None


@cases(
    ("given", "hint"),
    [
        ({"frist": 1}, "the machine has no budget frist; did you mean first?"),
        ({"zzzzz": 1}, "the machine has no budget zzzzz; it has first"),
    ],
)
def test_limit_on_unknown_budget_suggests_name(given: dict[str, int], hint: str) -> None:
    with pytest.raises(LimitsError) as caught:
        asking(counting).verify(gx.Limits(budgets=given))
    assert str(caught.value) == hint


def test_the_hint_has_all_budgets_of_the_machine() -> None:
    twice: Any = gx.metered(when_spent=Halted, budget=gx.Budget("second", 3))(counting)
    with pytest.raises(LimitsError, match=r"no budget zzzzz; it has first, second$"):
        asking(twice).verify(gx.Limits(budgets={"zzzzz": 1}))


def test_message_mentions_missing_own_budgets() -> None:
    row: Any = gx.edges
    machine: gx.Graph[Any, Any] = gx.graph(row(pure, gx.on(Made, gx.END)), start=pure)
    with pytest.raises(LimitsError, match="the machine has no budget first; it has none of its own"):
        machine.verify(gx.Limits(budgets={"first": 1}))


def test_a_certificate_has_every_limit_by_name() -> None:
    """Those of meters that nothing charges, too, if they are set."""
    certificate = asking(counting).verify(agent_limits(seconds=2, fan_out=4, restarts=1, tokens=9)).certificate
    assert certificate is not None
    assert certificate.limits == {
        "iterations": 15,
        "tokens": 9,
        "first": 3,
        "seconds": 2,
        "fan_out": 4,
        "restarts": 1,
        "depth": 8,
        "nested_runs": 1_000,
    }


def test_the_same_machine_is_proved_once() -> None:
    machine = asking(counting)
    assert machine.verify().certificate is machine.verify().certificate
    assert machine.verify(gx.Limits(iterations=3)).certificate is not machine.verify().certificate
