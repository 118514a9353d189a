"""Random graphs: the answer agrees with runs that take every choice of every router."""

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.parameters import thorough

if find_spec("langgraph") is None:
    pytest.skip("needs the extra dev", allow_module_level=True)

from langgraph.errors import GraphRecursionError
from langgraph.types import Command, Send

from tests.integrations.langgraph.agents import State, answer, graphs

START, END = graphs.START, graphs.END
NAMES = ["a", "b", "c", "d"]

# More than four nodes need, deferred or not, if no loop is taken.
LIMIT = 20


class Spec(NamedTuple):
    """A node: how it chooses what follows, and the targets. A router with a `pair` may choose two at once."""

    kind: Literal["edges", "router", "command", "send"]
    targets: tuple[str, ...]
    pair: bool
    deferred: bool


class Plan(NamedTuple):
    nodes: dict[str, Spec]
    joins: tuple[tuple[frozenset[str], str], ...]
    starts: frozenset[str]


@st.composite
def plans(draw: st.DrawFn, *, joins: bool = False) -> Plan:
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    targets = st.lists(st.sampled_from([*names, END]), max_size=3, unique=True).map(tuple)
    kinds = st.sampled_from(["edges", "router", "command", "send"])
    spec = st.builds(Spec, kinds, targets, st.booleans(), st.sampled_from([False, False, True]))
    some = st.frozensets(st.sampled_from(names), min_size=1, max_size=2)
    waiting = st.lists(st.tuples(some, st.sampled_from([*names, END])), min_size=1, max_size=3, unique=True)
    return Plan({name: draw(spec) for name in names}, tuple(draw(waiting)) if joins else (), draw(some))


def compile_plan(plan: Plan, choices: dict[str, Any]) -> Any:
    """Compile the graph; its routers look up what they choose in `choices`."""
    builder = graphs.StateGraph(State)
    for name, spec in plan.nodes.items():
        allowed: Any = Literal[spec.targets] if spec.targets else None

        def node(state: State, name: str = name, spec: Spec = spec) -> Any:
            moves = {"goto": choices[name]} if spec.kind == "command" and spec.targets else {}
            return Command(update={"log": [name]}, **moves) if moves else {"log": [name]}

        def route(state: State, name: str = name, spec: Spec = spec) -> Any:
            chosen = choices[name]
            return [Send(chosen[0], {})] if spec.kind == "send" and chosen != [END] else chosen

        if spec.targets and spec.kind == "command":
            node.__annotations__["return"] = Command[allowed]
        builder.add_node(name, node, defer=spec.deferred)
        if spec.targets and spec.kind in ("router", "send"):
            builder.add_conditional_edges(name, route, list(spec.targets))
        elif spec.kind == "edges":
            for target in spec.targets:
                builder.add_edge(name, target)
    for sources, target in plan.joins:
        builder.add_edge(sorted(sources), target)
    for name in plan.starts:
        builder.add_edge(START, name)
    return builder.compile()


def runs(plan: Plan) -> Iterator[int | None]:
    """Yield the number of steps of the run for each choice of the routers; `None` if it reaches the limit.

    A router that always chooses the same is enough: a loop needs no node twice.
    """
    options = {
        name: [[one] for one in spec.targets] + ([list(spec.targets[:2])] if spec.pair and spec.kind != "send" else [])
        for name, spec in plan.nodes.items()
        if spec.targets and spec.kind != "edges"
    }
    choices: dict[str, Any] = {}
    graph = compile_plan(plan, choices)
    for chosen in product(*options.values()):
        choices.update(zip(options, chosen, strict=True))
        try:
            values = list(graph.stream({"log": []}, {"recursion_limit": LIMIT}, stream_mode="values"))
            yield len(values) - 1
        except GraphRecursionError:
            yield None


def check_plan(plan: Plan) -> None:
    judged = answer(compile_plan(plan, {}))
    steps = list(runs(plan))
    assert judged.verdict.proved == (judged.own in ("ends", "bounded"))
    if judged.status == "ends":
        assert judged.longest is not None
        assert all(one is not None and one <= judged.longest for one in steps)
    if judged.status == "never":
        assert None in steps
    if not plan.joins:
        assert (judged.status == "ends") == (None not in steps)
        deferred = any(one.deferred for one in plan.nodes.values())
        if judged.longest is not None and not deferred:
            proof = judged.verdict.bounds
            # The prover counts the transition from the start, too.
            assert judged.longest + 1 == (proof and proof.transitions.number)
            assert judged.longest == max(filter(None, steps))


def plain(*targets: str, deferred: bool = False) -> Spec:
    return Spec("edges", targets, False, deferred)


# The deferred node runs after `b`.
DEFERRED = Plan({"a": plain("b"), "b": plain(), "c": plain("d", deferred=True), "d": plain()}, (), frozenset("ac"))


@pytest.mark.medium
@example(DEFERRED)
@given(plans())
def test_every_choice_agrees_with_the_answer(plan: Plan) -> None:
    check_plan(plan)


@pytest.mark.medium
@given(plans(joins=True))
def test_graph_with_joins_ends_as_said(plan: Plan) -> None:
    """A join is read as choices, so there may be fewer endless runs than the answer says, and never more."""
    check_plan(plan)


test_many_graphs = thorough(test_every_choice_agrees_with_the_answer, 1_000, plans(), gate=100)
test_many_joins = thorough(test_graph_with_joins_ends_as_said, 1_000, plans(joins=True), gate=100)
