"""The graph algorithms of the prover and of the explorer, with networkx as their oracle."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from graphexec.kernel import END
from graphexec.kernel.tables import reachable
from graphexec.verify.paths import (
    find_cycle,
    find_path,
    label_edges,
    strongly_connected_components,
)
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.flow import Transition
from graphexec.verify.proof.potential import Potentials
from graphexec.verify.proof.ranking import components
from tests.parameters import cases

Following = dict[int, list[int]]

# Python's stack is far less deep.
DEEP = 20_000


@st.composite
def followings(draw: st.DrawFn, *, loops: bool = True) -> Following:
    """Random graphs of up to twelve nodes, with self-loops and parallel edges; without `loops`, acyclic ones."""
    count = draw(st.integers(0, 12))
    targets = {node: range(0 if loops else node + 1, count) for node in range(count)}
    return {node: draw(st.lists(st.sampled_from(some), max_size=4)) if some else [] for node, some in targets.items()}


def network(following: Following) -> nx.DiGraph[int]:
    made: nx.DiGraph[int] = nx.DiGraph()
    made.add_nodes_from(following)
    made.add_edges_from((node, target) for node, targets in following.items() for target in targets)
    return made


def reached_from(start: int, following: Following) -> set[int]:
    return set(nx.single_source_dijkstra_path_length(network(following), start))


def transitions(following: Following) -> list[Transition]:
    """The edges as transitions, and one to the end from each node that has none."""
    onwards = {str(node): list(map(str, targets)) or [END.name] for node, targets in following.items()}
    return [Transition(node, "To", target) for node, targets in onwards.items() for target in targets]


@given(followings())
def test_components_agree_with_networkx(following: Following) -> None:
    found = strongly_connected_components(following)
    assert list(map(set, found)) == [set(one) for one in nx.strongly_connected_components(network(following))]
    assert sorted(node for component in found for node in component) == sorted(following)


@given(followings(), st.integers(0, 11))
def test_reachable_nodes_agree_with_networkx(following: Following, start: int) -> None:
    pairs = [(str(node), str(target)) for node, targets in following.items() for target in targets]
    reached = reached_from(start, following) if start in following else {start}
    assert reachable(str(start), pairs) == set(map(str, reached))


@given(followings(loops=False))
def test_longest_path_agrees_with_networkx(following: Following) -> None:
    if not following:
        return
    potentials = Potentials(lambda _: polynomial.number(1), {}, [])
    found = potentials.of(map(str, following), transitions(following))["0"].at({}).at({})
    begun = network(following).subgraph(reached_from(0, following))
    # And the transition to the end.
    assert found == nx.dag_longest_path_length(begun) + 1


@given(followings())
def test_transitions_are_inside_the_component_of_both_ends(following: Following) -> None:
    every = transitions(following)
    found = components([*map(str, following), END.name], every)
    inside = [one for _, within in found for one in within]
    together = {name: set(names) for names, _ in found for name in names}
    assert {id(one) for one in inside} == {id(one) for one in every if one.target in together[one.source]}
    # Each component comes after those that it leads to.
    place = {name: number for number, (names, _) in enumerate(found) for name in names}
    assert place.keys() == {*map(str, following), END.name}
    assert all(place[one.target] <= place[one.source] for one in every)


def test_deep_graphs_do_not_recurse() -> None:
    chain = {node: [node + 1] for node in range(DEEP)} | {DEEP: []}
    assert strongly_connected_components(chain) == [[node] for node in range(DEEP, -1, -1)]
    loop = {node: [(node + 1) % DEEP] for node in range(DEEP)}
    assert [len(component) for component in strongly_connected_components(loop)] == [DEEP]


# ---- shortest paths and cycles through labelled edges

Pair = tuple[int, int]

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20)


def labelled(pairs: list[Pair]) -> nx.DiGraph[int]:
    """The graph in which each edge is labelled with itself."""
    return label_edges((*pair, pair) for pair in pairs)


@given(PAIRS, st.integers(0, 6), st.integers(0, 6))
def test_paths_agree_with_networkx(pairs: list[Pair], start: int, target: int) -> None:
    made = labelled(pairs)
    way = find_path(made, start, target)
    made.add_nodes_from([start, target])
    assert (way is not None) == nx.has_path(made, start, target)
    if way is not None:
        assert len(way) == nx.dijkstra_path_length(made, start, target)
        ends = [start, *(after for _, after in way)]
        assert [before for before, _ in way] == ends[:-1]
        assert ends[-1] == target


@given(PAIRS)
def test_cycles_are_the_shortest(pairs: list[Pair]) -> None:
    made = labelled(pairs)
    for component in nx.strongly_connected_components(made):
        for node in component:
            if len(component) > 1 or made.has_edge(node, node):
                cycle = find_cycle(made, node)
                back = [nx.dijkstra_path_length(made, target, node) for target in made[node] if target in component]
                assert len(cycle) == 1 + min(back)
                assert find_path(made, cycle[0][1], node) is not None
                assert [end for _, end in cycle] == [*(begin for begin, _ in cycle[1:]), node]


@cases(("edges", "labels"), ("1:a-b 2:a-b", "1"), ("1:a-x 2:a-y 3:y-b 4:x-b", "14"), ("1:a-y 2:a-x 3:x-b 4:y-b", "14"))
def test_first_of_equal_paths_is_found(edges: str, labels: str) -> None:
    made = label_edges((edge[2], edge[4], edge[0]) for edge in edges.split())
    assert find_path(made, "a", "b") == list(labels)
