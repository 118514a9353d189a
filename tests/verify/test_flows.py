"""Flows of machines: the transitions of each kind of node, and the amounts that each spends."""

import dataclasses
import hashlib
import json
from typing import Any, Literal

import graphexec as gx
from graphexec.effects import CallModel, CallTool, agent_limits
from graphexec.kernel import Meter
from graphexec.testing.explorer.stub_nodes import explore_table
from graphexec.verify.proof.flow import Flow, Transition, caps_of, flow_of, is_enabled, limits_of
from tests.kernel.machines import Halted, stub
from tests.parameters import cases
from tests.verify.flows import calling
from tests.verify.orders import Order, Paid, Refused
from tests.verify.proofs import certificate_of, witness_of


class Look(gx.Effect[str]):
    """An effect that costs nothing."""


FIRST, SECOND = gx.Meter("first", 1), gx.Meter("second")

pure = stub("pure", Order, Paid)
think, use = stub("think", Order, Paid, asks=CallModel), stub("use", Order, Paid, asks=CallTool)
either = stub("either", Order, Paid, asks=CallModel | CallTool | Look)
think_and_act = stub("think_and_act", Order, Paid, asks=CallModel | CallTool)
look, turn_back = stub("look", Order, Paid, asks=Look), stub("turn_back", Paid, Refused)
again, begin_with = stub("again", Refused, Order), stub("begin_with", Paid, Order)


@gx.node(opaque=True)
def blocking(given: Order) -> Paid:
    return Paid()


# Any: the nodes are decorated in many ways.
rows: Any = gx.edges
FROM_MADE: Any = gx.on(Paid, turn_back) | gx.on(Halted, gx.END)
counting: Any = gx.node(when_spent=Halted, meters=[gx.Meter("first", 3)])(pure)
once: Any = gx.node(when_spent=Halted, meters=[FIRST])(pure)
twice: Any = gx.node(when_spent=Halted, meters=[SECOND])(once)


def halting(**counts: Any) -> Any:
    """Return the decorator of nodes that charge, with declared counts."""
    return gx.node(when_spent=Halted, **counts)


def asking(counted: Any, **routing: Any) -> gx.Machine[Order, Any]:
    """Return a machine of one node."""
    routes: Any = gx.on(Paid, gx.END, **routing)
    if counted.spent_outcome is not None:
        routes = routes | gx.on(Halted, gx.END)
    machine: gx.Machine[Order, Any] = gx.graph(rows(counted, routes), start=counted)
    return machine


def made(name: str, *spends: str, amount: int = 1, **more: Any) -> Transition:
    return Transition(name, "Paid", "END", spends=tuple((one, amount) for one in spends), **more)


def halted(name: str, kind: Literal["gate", "within"], *causes: str, **more: Any) -> Transition:
    return Transition(name, "Halted", "END", kind, causes=(*causes, "seconds", "restarts"), **more)


# The meters that a model reply may use up.
MODEL = ("model_calls", "tokens", "cached_tokens", "completion_tokens", "cost", "prompt_tokens")
ANY_MODELS, ANY_TOOLS, TWO_OF_EACH = calling(models=None), calling(tools=None), calling(models=2, tools=2, others=2)
ONE_FREE = calling(others=1)


@cases(
    ("entry", "transitions"),
    (pure, [made("pure")]),
    # A metered node spends one or is not entered.
    (once, [made("pure", "first"), halted("pure", "gate", "first")]),
    (twice, [made("pure", "first", "second"), halted("pure", "gate", "first", "second")]),
    # A node that asks may be stopped within.
    (halting()(think), [made("think", **ANY_MODELS), halted("think", "within", *MODEL, "fan_out", **ANY_MODELS)]),
    (halting()(use), [made("use", **ANY_TOOLS), halted("use", "within", "tool_calls", "fan_out", **ANY_TOOLS)]),
    # Declared counts bound what is spent.
    (
        halting(asks=(2, 3))(think),
        [
            made("think", "model_calls", "tokens", amount=2, **calling(models=3), asks=2),
            halted("think", "within", *MODEL, **calling(models=3)),
        ],
    ),
    (
        halting(asks=1)(use),
        [
            made("use", "tool_calls", **calling(tools=1), asks=1),
            halted("use", "within", "tool_calls", **calling(tools=1)),
        ],
    ),
    # With several kinds it is uncertain which one is spent.
    (
        halting(asks=2)(either),
        [
            made("either", **TWO_OF_EACH, asks=2),
            halted("either", "within", "model_calls", "tokens", "tool_calls", *MODEL[2:], **TWO_OF_EACH),
        ],
    ),
    # The deadline may stop a free effect.
    (halting(asks=1)(look), [made("look", asks=1, **ONE_FREE), halted("look", "within", **ONE_FREE)]),
    (halting()(blocking), [made("blocking", asks=1, **ONE_FREE), halted("blocking", "within", **ONE_FREE)]),
    # A metered node that asks has both; behind its gate it asks for nothing.
    (
        gx.node(when_spent=Halted, meters=[FIRST], asks=1)(think),
        [
            made("think", "first", "model_calls", "tokens", **calling(models=1), asks=1),
            halted("think", "gate", "first"),
            halted("think", "within", *MODEL, spends=(("first", 1),), **calling(models=1)),
        ],
    ),
    (
        gx.node(when_spent=Halted, meters=[FIRST], asks=(1, 2))(use),
        [
            made("use", "first", "tool_calls", **calling(tools=2), asks=1),
            halted("use", "gate", "first"),
            halted("use", "within", "tool_calls", spends=(("first", 1),), **calling(tools=2)),
        ],
    ),
    (halting(asks=0)(think), [made("think")]),
)
def test_node_has_a_transition_for_each_end_of_a_visit(entry: Any, transitions: list[Transition]) -> None:
    assert list(flow_of(asking(entry)).transitions) == transitions


def test_flow_has_nodes_resets_and_own_budgets() -> None:
    first, _ = flow_of(asking(twice, resets=[SECOND])).transitions
    assert first == made("pure", "first", "second", resets=("second",))
    machine = asking(twice)
    flow = flow_of(machine)
    assert (flow.start, flow.nodes, flow.budgets) == ("pure", ("pure",), (("first", 1), ("second", None)))
    assert (flow_of(machine), flow_of(machine).digest) == (flow, flow.digest)


ONE = Transition("a", "A", "END", spends=(("x", 1),), causes=("y",), **calling(models=2))
FLOW = Flow("a", ("a",), (ONE,), (("x", 1),))


def test_digest_covers_every_part_of_flow_and_is_stable() -> None:
    changes: list[dict[str, Any]] = [
        {"measured": ("tokens",)},
        {"start": "b"},
        {"nodes": ("a", "b")},
        {"transitions": (ONE, ONE)},
        {"budgets": (("x", None),)},
    ]
    assert len({FLOW.digest, *(dataclasses.replace(FLOW, **one).digest for one in changes)}) == 6
    assert str(ONE) == "a --A--> END"
    written = json.dumps(FLOW.to_data(), sort_keys=True)
    assert written.startswith(
        '{"budgets": [["x", 1]], "measured": [], "nodes": ["a"], "start": "a", "transitions": [{"answered": false, '
    )
    assert FLOW.digest == hashlib.sha256(written.encode()).hexdigest()


# ---- limits


@cases(
    ("limits", "caps"),
    (agent_limits(model_calls=2, tokens=0), (15, 2, None, 0, 3, None)),
    (agent_limits({Meter("x"): None, Meter("y"): 0}, iterations=None, tool_calls=4), (None, None, 4, None, None, 0)),
)
def test_run_limits_override_budget_limits(limits: gx.Limits, caps: tuple[int | None, ...]) -> None:
    flow = Flow("a", ("a",), (Transition("a", "A", "END", **calling(models=1, tools=1)),), (("x", 3), ("y", None)))
    names = ("iterations", "model_calls", "tool_calls", "tokens", "x", "y")
    assert caps_of(flow, limits_of(flow, limits)) == dict(zip(names, caps, strict=True))


@cases("cause", "x", "iterations", "seconds", "restarts", "fan_out")
@cases("kind", "gate", "within")
def test_limit_transition_needs_its_limit(kind: Any, cause: str) -> None:
    one = Transition("a", "A", "END", kind, causes=("tokens", cause))
    none = gx.Limits(iterations=None, fan_out=None)
    flow = Flow("a", ("a",), (one,), (("x", None),))
    assert not is_enabled(one, limits_of(flow, none))
    given: dict[str, Any] = {"meters": {Meter("x"): 0}} if cause == "x" else {cause: 0}
    assert is_enabled(one, limits_of(flow, dataclasses.replace(none, **given)))
    # A move is always possible.
    assert is_enabled(Transition("a", "A", "END", spends=(("x", 1),)), {"x": 0})


# ---- assumptions of proofs


HOW_MANY = "declare asks= in its @node: a number, or (minimum, maximum)"
RETURNS = "every node function, policy and observer returns, and"
CUT = "an unanswered effect is cut off at the deadline"
LEFT = "work that continues in the thread or task of a cut-off effect is not counted"
ONE_EACH = "an effect counts as one, even if its handler does more: a client's own retries are not counted"
NEVER_AGAIN, AGAIN = "Limits(restarts=...)", "or from snapshot.restarted()"
NESTED = "a run starts at most 1,000, to a depth of 8"
BESIDE = "the bounds on model calls include the nested runs of as_tool and map_agents"
RESUMED = "takes at most bounds.transitions_when_resumed from there on"
MORE = "it takes at most bounds.transitions_when_nested"


@cases(
    ("limits", "asks", "facts"),
    (gx.Limits(), None, (RETURNS, ONE_EACH, NEVER_AGAIN, RESUMED, NESTED, BESIDE)),
    (gx.Limits(fan_out=None), 3, (RETURNS, ONE_EACH, NEVER_AGAIN, RESUMED, NESTED, BESIDE, MORE)),
    (agent_limits(model_calls=3, fan_out=None), None, (RETURNS, ONE_EACH, NEVER_AGAIN, RESUMED, NESTED)),
    (gx.Limits(restarts=0), None, (RETURNS, ONE_EACH, RESUMED, NESTED, BESIDE)),
    (gx.Limits(seconds=9, restarts=2), 1, (CUT, LEFT, ONE_EACH, AGAIN, RESUMED, NESTED, BESIDE)),
)
def test_proof_lists_its_assumptions(limits: gx.Limits, asks: Any, facts: tuple[str, ...]) -> None:
    verdict = asking(halting(asks=asks)(think)).verify(limits)
    assert verdict.proved
    assert all(fact in one for fact, one in zip(facts, verdict.assumptions, strict=True))
    assert verdict.findings == ()
    last = f"  assuming: {len(facts)} things (see verdict.assumptions, or graphexec check)"
    assert str(verdict).splitlines()[-1] == last


@cases(
    ("node", "limits", "effect", "settings"),
    (think, gx.Limits(fan_out=None), "CallModel", ["fan_out", "model_calls"]),
    (think, agent_limits(tool_calls=3, fan_out=None), "CallModel", ["fan_out", "model_calls"]),
    # Only the fan-out bounds free effects.
    (either, agent_limits(model_calls=1, tool_calls=1, fan_out=None), "Look", ["fan_out"]),
    # A limit that is set is not advised.
    (think_and_act, agent_limits(model_calls=1, fan_out=None), "CallTool", ["fan_out", "tool_calls"]),
    (think_and_act, agent_limits(tool_calls=1, fan_out=None), "CallModel", ["fan_out", "model_calls"]),
)
def test_unbounded_effects_are_unproved(node: Any, limits: gx.Limits, effect: str, settings: list[str]) -> None:
    machine = asking(halting()(node))
    verdict = machine.verify(limits)
    assert (verdict.status, verdict.certificate, verdict.assumptions) == ("unproved", None, ())
    (finding,) = verdict.findings
    assert finding.severity == "error"
    assert str(finding) == (
        f"GX013 at {node.name}: nothing limits how often one visit asks for {effect}. "
        f"Set {' or '.join(f'max_{one}' for one in settings)} (in agent_limits: {', '.join(settings)}), or {HOW_MANY}."
    )
    assert machine.verify(gx.Limits()).findings == ()


def test_either_of_two_limited_calls_ends_a_loop() -> None:
    """A visit asks for one of several effects, but it is unknown for which."""

    one: Any = halting(asks=1)(stub("model_or_tool", Order, Order, asks=CallModel | CallTool))
    machine: gx.Machine[Any, Any] = gx.graph(rows(one, gx.on(Order, one) | gx.on(Halted, gx.END)), start=one)
    bounds = certificate_of(machine, agent_limits(iterations=None, model_calls=200, tool_calls=300)).bounds
    assert str(bounds.transitions) == "model_calls + tool_calls + 1 = 501 (exact)"
    assert machine.verify(agent_limits(iterations=None, model_calls=200)).status == "refuted"


def give(given: Order, limit: gx.Exhausted) -> Order:
    del limit
    return given


@cases(("node", "status", "ends"), (use, "unproved", True), (think, "refuted", False))
def test_witness_does_not_rely_on_cut_tool(node: Any, status: str, ends: bool) -> None:
    """A tool that is cut has an observation for that, so its node goes on; a model that is cut has none."""
    one: Any = gx.node(when_spent=give, asks=1)(node)
    machine: gx.Machine[Any, Any] = gx.graph(rows(one, gx.on(Paid, gx.END) | gx.on(Order, one)), start=one)
    limits = agent_limits(seconds=5)
    assert (machine.verify(limits).status, explore_table(machine, limits).endless is None) == (status, ends)


def test_every_node_with_unbounded_effects_is_reported() -> None:
    counted, second = (halting()(one) for one in (think, dataclasses.replace(think, name="think_again")))
    machine: gx.Machine[Any, Any] = gx.graph(
        rows(counted, FROM_MADE)
        | rows(turn_back, gx.on(Refused, again))
        | rows(again, gx.on(Order, second))
        | rows(second, gx.on(Paid, gx.END) | gx.on(Halted, gx.END)),
        start=counted,
    )
    assert [one.node for one in machine.verify(gx.Limits(fan_out=None)).findings] == ["think", "think_again"]


# ---- findings

ROUND = rows(counting, FROM_MADE) | rows(turn_back, gx.on(Refused, again)) | rows(again, gx.on(Order, counting))


def test_stop_only_nodes_are_reported_with_path() -> None:
    machine: gx.Machine[Any, Any] = gx.graph(rows(begin_with, gx.on(Order, counting)) | ROUND, start=begin_with)
    verdict = machine.verify()
    (finding,) = verdict.findings
    assert str(finding) == (
        "GX007 at begin_with: runs from begin_with, pure, turn_back, again reach END only when a limit stops them. "
        "Route an outcome of begin_with, or of a node after it, to END."
    )
    assert (finding.severity, finding.outcome, verdict.proved) == ("warning", None, True)
    witness = witness_of(finding)
    assert (witness.stem, witness.loop, witness.limits) == ((), (), gx.Limits())


def test_stop_only_finding_has_shortest_path_of_moves() -> None:
    choose, finish = stub("choose", Refused, Order | Paid), stub("finish", Paid, Paid)
    leaving = rows(choose, gx.on(Order, counting) | gx.on(Paid, finish)) | rows(finish, gx.on(Paid, gx.END))
    machine: gx.Machine[Any, Any] = gx.graph(leaving | ROUND, start=choose)
    (finding,) = machine.verify().findings
    assert finding.node == "pure"
    assert [str(one) for one in witness_of(finding).stem] == ["choose --Order--> pure"]
    assert "runs from pure, turn_back, again reach END" in finding.fact
    assert "Reached by start -> choose -> pure." in str(finding)


def test_a_certificate_has_every_limit_by_name() -> None:
    """Those of meters that nothing charges, too, if they are set."""
    set_by_hand: Any = {"seconds": 2, "fan_out": 4, "restarts": 1, "tokens": 9}
    certificate = certificate_of(asking(counting), agent_limits(**set_by_hand))
    assert certificate.limits == {**set_by_hand, "iterations": 15, "first": 3, "depth": 8, "nested_runs": 1_000}
