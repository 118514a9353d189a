"""Graphs of pydantic-graph: what is read of them, and what their runs do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.errors import InputError
from graphexec.integrations.declared import END, START
from tests.parameters import cases

pytest.importorskip("pydantic_graph")

from pydantic_graph import BaseNode, End, Graph, GraphBuilder, StepContext, reduce_list_append

from graphexec.integrations.pydantic_graph import check, load

pytestmark = pytest.mark.medium

# Any, here and below: the graphs have values of many types.
AnyGraph = Graph[Any, Any, Any, Any]
STEPS = 5


def make_graph(edges: Mapping[str, Sequence[str]]) -> AnyGraph:
    """Return a graph of nodes, the first of which begins; each takes the next number from the dependencies."""
    kinds: dict[str, Any] = {END: End}

    def make_node(name: str) -> Any:
        async def run(self: Any, ctx: Any) -> Any:
            ctx.state.append(name)
            target = edges[name][next(ctx.deps, STEPS) % len(edges[name])]
            if len(ctx.state) > STEPS:
                raise TimeoutError
            return End(0) if target == END else kinds[target]()

        return type(name, (BaseNode,), {"run": run})

    kinds |= {name: make_node(name) for name in edges}
    for name, targets in edges.items():
        several = tuple(End[int] if target == END else kinds[target] for target in targets)
        kinds[name].run.__annotations__ = {"return": Union[several]}  # noqa: UP007 - of a tuple
    builder: Any = GraphBuilder(input_type=object, output_type=int)
    first = kinds[next(iter(edges))]
    builder.add(builder.edge_from(builder.start_node).to(first), *(builder.node(kinds[name]) for name in edges))
    return builder.build(validate_graph_structure=False)


def drives(graph: AnyGraph, first: str) -> Iterator[list[str] | None]:
    """Yield the nodes of each run, `None` for one that does not end after `STEPS` nodes."""
    kind: Any = graph.nodes[first]  # pyright: ignore[reportArgumentType] - its identifiers are strings
    for choices in product((0, 1), repeat=STEPS):
        seen: list[str] = []
        try:
            asyncio.run(graph.run(state=seen, deps=iter(choices), inputs=kind.node_type()))
        except TimeoutError:
            yield None
        else:
            yield seen


@st.composite
def edge_tables(draw: st.DrawFn) -> dict[str, list[str]]:
    names = "abcd"[: draw(st.integers(1, 4))]
    targets = st.lists(st.sampled_from([*names, END]), min_size=1, max_size=2, unique=True)
    return {name: draw(targets) for name in names}


@given(edge_tables())
def test_answers_agree_with_all_runs(edges: dict[str, list[str]]) -> None:
    graph = make_graph(edges)
    declared, judged = load(graph), check(graph)
    reached = {name: {*targets} for name, targets in declared.edges.items() if name != START}
    assert reached.items() <= {name: {*targets} for name, targets in edges.items()}.items()
    assert (declared.edges[START], declared.library, declared.limit) == ({"a"}, "pydantic-graph", None)
    runs = [*drives(graph, "a")]
    ended = [len(run) for run in runs if run is not None]
    assert (judged.status == "ends") is (len(ended) == len(runs))
    assert judged.longest == (max(ended) if judged.status == "ends" else None)
    assert judged.status != "never" or not ended or len(ended) < len(runs)
    # Nothing bounds the rounds.
    assert check(graph, max_rounds=10**9).passes is (judged.status == "ends")
    assert all("recursion_limit" not in remedy for remedy in judged.remedies)


def of_steps(*, again: bool, join: bool) -> AnyGraph:
    """Return a graph that maps a list to a step, and maybe joins nothing at once; `again` adds a way back."""
    builder = GraphBuilder(input_type=int, output_type=int, name="mapping")

    @builder.step
    async def split(ctx: StepContext[None, None, int]) -> list[int]:
        return [*range(ctx.inputs)]

    @builder.step
    async def work(ctx: StepContext[None, None, int]) -> int:
        return ctx.inputs

    @builder.step
    async def count(ctx: StepContext[None, None, Any]) -> int:
        return len(ctx.inputs)

    joined = builder.join(reduce_list_append, initial_factory=list[int], node_id="joined")
    choice: Any = builder.decision()
    if again:
        choice = choice.branch(builder.match(int, matches=lambda number: number > 9).to(split))
    builder.add(
        builder.edge_from(builder.start_node).to(split),
        builder.edge_from(split).map(downstream_join_id=joined.id if join else None).to(work),
        builder.edge_from(work).to(joined),
        builder.edge_from(joined).to(count),
        builder.edge_from(count).label("counted").to(choice.branch(builder.match(int).to(builder.end_node))),
    )
    return builder.build()


@cases(("again", "join"), (False, False), (False, True), (True, False))
def test_decisions_and_forks_are_edges(again: bool, join: bool) -> None:
    declared, judged = load(of_steps(again=again, join=join)), check(of_steps(again=again, join=join))
    expected = {START: {"split"}, "split": {"work"}, "work": {"joined"}, "joined": {"count"}, "count": {END}}
    expected["split"] |= {"joined"} if join else set()
    expected["count"] |= {"split"} if again else set()
    assert ({name: {*targets} for name, targets in declared.edges.items()}, declared.name) == (expected, "mapping")
    assert {place.file for place in declared.places.values()} == {__file__}
    assert judged.loops == ((("split", "work", "joined", "count"),) if again else ())


def test_builder_is_refused() -> None:
    builder: Any = GraphBuilder(input_type=int, output_type=int)
    with pytest.raises(InputError, match=r"a GraphBuilder is not a built graph .*; pass builder.build\(\)"):
        load(builder)
