"""Every machine whose loops are all metered ends within its bound, along its own table."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
from graphexec import All, Asked, Entered, Exhausted, Graph, Limits, Machine, Moved, Snapshot, edges, graph, on
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits, reported_tokens
from graphexec.kernel import END, ITERATIONS, Node, node
from graphexec.messages import CompletionRequest, ModelReply, Usage
from graphexec.runtime.handlers import RunContext
from tests.drivers import LIVE, Driver, Script, drive_from_text, make_run_context, run_script
from tests.kernel.machines import value
from tests.parameters import thorough


@value
class Red:
    choices: tuple[int, ...]


@value
class Green:
    choices: tuple[int, ...]


@value
class Blue:
    choices: tuple[int, ...]


@value
class OutOf:
    at: Red | Green | Blue
    limit: Exhausted


COLOURS = (Red, Green, Blue)


@dataclass(frozen=True)
class Plan:
    """One node of a random machine: its outcomes, its effects, and the target of each outcome."""

    outcomes: tuple[type, ...]
    targets: tuple[int | None, ...]
    asks: int = 0
    batch: int = 0
    metered: bool = False


# A machine, and the plans of its nodes.
Drawn: TypeAlias = tuple[Graph[Any, Any], list[Plan]]


def make_node(number: int, plan: Plan) -> Node[Any, Any]:
    """Return the node of a plan: it asks for its effects, then returns the outcome of the next choice."""

    def choose_outcome(value: Any) -> Any:
        # Without further choices, it always returns its first outcome.
        choice, rest = (value.choices[0], value.choices[1:]) if value.choices else (0, ())
        return plan.outcomes[choice % len(plan.outcomes)](rest)

    def pure(value: Any) -> Any:
        return choose_outcome(value)

    def asking(value: Any) -> Any:
        for _ in range(plan.asks):
            yield CallModel(CompletionRequest("?"))
        if plan.batch:
            yield All(tuple(CallTool(str(index), "") for index in range(plan.batch)))
        return choose_outcome(value)

    function: Any = asking if plan.asks or plan.batch else pure
    function.__name__ = f"node{number}"
    outcomes: Any = plan.outcomes[0]
    for outcome in plan.outcomes[1:]:
        outcomes |= outcome
    effects: Any = CallModel | CallTool
    returns = gx.Asks[effects, outcomes] if function is asking else outcomes
    function.__annotations__ = {"value": Red | Green | Blue, "return": returns}
    spent: Any = OutOf
    if plan.metered:
        return node(when_spent=spent, meters=[ITERATIONS])(function)
    return node(when_spent=spent)(function) if function is asking else node(function)


@st.composite
def machines(draw: st.DrawFn) -> Drawn:
    """Draw a machine of up to five nodes whose unmetered edges only lead forward, so every loop is metered."""
    count = draw(st.integers(1, 5))
    plans: list[Plan] = []
    for number in range(count):
        outcomes = tuple(draw(st.lists(st.sampled_from(COLOURS), min_size=1, max_size=3, unique=True)))
        targets = [
            draw(st.sampled_from([*range(count), None] if number < count - 1 else [*range(count)]) | st.none())
            for _ in outcomes
        ]
        # Each node leads to the next one, and the last one to END.
        targets[0] = number + 1 if number + 1 < count else None
        plans.append(
            Plan(
                outcomes,
                tuple(targets),
                asks=draw(st.integers(0, 2)),
                batch=draw(st.integers(0, 3)),
                metered=draw(st.booleans()),
            )
        )
    # The target of every backward edge is metered.
    back = {one for number, plan in enumerate(plans) for one in plan.targets if one is not None and one <= number}
    plans = [dataclasses.replace(plan, metered=plan.metered or number in back) for number, plan in enumerate(plans)]
    return build_graph(plans), plans


def build_graph(plans: list[Plan]) -> Machine[Any, Any]:
    nodes = [make_node(number, plan) for number, plan in enumerate(plans)]
    table: Any = None
    for one, plan in zip(nodes, plans, strict=True):
        routes: Any = None
        for outcome, target in zip(plan.outcomes, plan.targets, strict=True):
            to: Any = on
            route = to(outcome, END if target is None else nodes[target])
            routes = route if routes is None else routes | route
        if one.when_spent is not None:
            routes = routes | on(OutOf, END)
        row = edges(one, routes)
        table = row if table is None else table | row
    return graph(table, start=nodes[0])


def longest_unmetered_path(plans: list[Plan]) -> int:
    """Return the most nodes that a run can visit between two metered ones, or before the end."""

    def from_node(number: int) -> int:
        inner = [from_node(one) for one in plans[number].targets if one is not None and not plans[one].metered]
        return 1 + max(inner, default=0)

    starts = [number for number, plan in enumerate(plans) if not plan.metered]
    return max((from_node(number) for number in starts), default=0)


def answers(limits: Limits, calls: list[str]) -> RunContext:
    def model(call: CallModel) -> ModelReply:
        calls.append("model")
        return ModelReply("so", usage=Usage(2, 1))

    def tool(call: CallTool) -> ToolResult:
        calls.append("tool")
        return ToolResult(call.name)

    return make_run_context({CallModel: model, CallTool: tool}, limits=limits)


LIMITS = st.builds(
    agent_limits,
    iterations=st.integers(0, 6),
    model_calls=st.none() | st.integers(0, 6),
    tool_calls=st.none() | st.integers(0, 6),
    tokens=st.none() | st.integers(0, 12),
)
CHOICES = st.lists(st.integers(0, 2), max_size=12).map(tuple)


@given(machines(), LIMITS, CHOICES)
def test_run_ends_within_its_bound(machine: Drawn, limits: Limits, choices: tuple[int, ...]) -> None:
    table, plans = machine
    calls: list[str] = []

    def script() -> Script[Any, Any]:
        calls.clear()
        return Script(table, Red(choices), answers(limits, calls))

    result = run_script(script)
    visited = [event.node for event in result.events if isinstance(event, Entered)]
    moves = [event for event in result.events if isinstance(event, Moved)]
    # The run ends within the bound.
    assert limits.iterations is not None
    assert len(visited) <= (limits.iterations + 1) * (1 + longest_unmetered_path(plans))
    # The trace is a path of the table, from its start to its end.
    lines = {(edge.source, edge.outcome, edge.target) for edge in table.edges}
    assert all((move.node, type(move.outcome), move.target) in lines for move in moves)
    assert [move.node for move in moves] == visited
    assert [table.start, *(move.target for move in moves)] == [*visited, "END"]
    # If no limit stopped the run, each node asked for exactly what it declares.
    for position, name in enumerate(visited):
        plan = plans[int(name.removeprefix("node"))]
        asked = [event for event in _of_visit(result.events, position) if isinstance(event, Asked)]
        whole = plan.asks + plan.batch
        assert len(asked) == whole or (len(asked) < whole and isinstance(moves[position].outcome, OutOf))
    # No limit was exceeded, and every charge was carried out.
    spent = result.spent
    assert spent.iterations <= limits.iterations

    assert spent["model_calls"] == calls.count("model")
    assert spent["tool_calls"] == calls.count("tool")
    most = {name: limit for name, limit in limits.meters.items() if limit is not None}
    assert spent["model_calls"] <= most.get("model_calls", math.inf)
    assert spent["tool_calls"] <= most.get("tool_calls", math.inf)
    assert reported_tokens(spent) < most.get("tokens", math.inf) + 3
    assert reported_tokens(spent) == 3 * spent["model_calls"]


test_many_runs_end_within_their_bounds = thorough(test_run_ends_within_its_bound, 1500, machines(), LIMITS, CHOICES)


def _of_visit(events: tuple[Any, ...], visit: int) -> list[Any]:
    entries = [position for position, event in enumerate(events) if isinstance(event, Entered)]
    ends = [*entries[1:], len(events)]
    return list(events[entries[visit] : ends[visit]])


@given(machines(), LIMITS, CHOICES, st.integers(0, 50), st.sampled_from(LIVE))
def test_pause_at_any_state_changes_no_result(
    machine: Drawn, limits: Limits, choices: tuple[int, ...], at: int, driver: Driver
) -> None:
    table, _ = machine
    whole = drive_from_text(Script(table, Red(choices), answers(limits, [])))
    text = whole.texts[at % len(whole.texts)]
    snapshot = Snapshot.from_json(text, table)
    assert snapshot.to_json() == text
    resumed = driver(Script(table, snapshot, answers(limits, [])))
    # Some drivers observe no events.
    assert not resumed.events or resumed.asked == whole.asked_after(at % len(whole.texts))
    assert (resumed.outcome, resumed.spent.iterations) == (whole.outcome, whole.spent.iterations)
    assert resumed.spent["model_calls"] == whole.spent["model_calls"]
    assert resumed.spent["tool_calls"] == whole.spent["tool_calls"]
    assert reported_tokens(resumed.spent) == reported_tokens(whole.spent)


@given(machines())
def test_identity_surgery_changes_nothing(machine: Drawn) -> None:
    table, plans = machine
    changed = table.with_settings()
    for one in table:
        changed = gx.wrap(gx.replace(changed, one), one)
    assert changed.edges == table.edges
    choices = (1, 2, 0, 1, 2)
    limits = Limits(iterations=3)
    scripts = [Script(one, Red(choices), answers(limits, [])) for one in (table, changed)]
    first, second = (LIVE[2](script) for script in scripts)
    assert first.outcome == second.outcome
    assert [type(event) for event in first.events] == [type(event) for event in second.events]
    assert len(plans) == len(table)
