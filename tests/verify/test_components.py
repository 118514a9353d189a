"""The prover's own graph algorithms, with networkx as their oracle."""

from __future__ import annotations

import networkx as nx
from hypothesis import example, given
from hypothesis import strategies as st

from graphexec.kernel import END
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.components import dominator_ranges, reachable, strongly_connected_components
from graphexec.verify.proof.flow import Transition
from graphexec.verify.proof.potential import Potentials
from graphexec.verify.proof.ranking import components

Following = dict[int, list[int]]

# Python's stack is far less deep.
DEEP = 20_000


@st.composite
def followings(draw: st.DrawFn, *, loops: bool = True) -> Following:
    """Random graphs of up to twelve nodes, with self-loops and parallel edges; without `loops`, acyclic ones."""
    count = draw(st.integers(0, 12))
    return {
        node: draw(st.lists(st.integers(0 if loops else node + 1, count - 1), max_size=4))
        if loops or node + 1 < count
        else []
        for node in range(count)
    }


def network(following: Following) -> nx.DiGraph[int]:
    made: nx.DiGraph[int] = nx.DiGraph()
    made.add_nodes_from(following)
    made.add_edges_from((node, target) for node, targets in following.items() for target in targets)
    return made


def transitions(following: Following) -> list[Transition]:
    """The edges as transitions, and one to the end from each node that has none."""
    return [Transition(str(node), "To", str(target)) for node, targets in following.items() for target in targets] + [
        Transition(str(node), "Done", END.name) for node, targets in following.items() if not targets
    ]


@given(followings())
def test_components_agree_with_networkx(following: Following) -> None:
    found = strongly_connected_components(following)
    assert list(map(set, found)) == [set(one) for one in nx.strongly_connected_components(network(following))]
    assert sorted(node for component in found for node in component) == sorted(following)


@given(followings())
def test_components_come_in_reverse_topological_order(following: Following) -> None:
    found = strongly_connected_components(following)
    place = {node: number for number, component in enumerate(found) for node in component}
    assert all(place[target] <= place[node] for node, targets in following.items() for target in targets)
    condensed = nx.condensation(network(following), map(set, found))
    assert all(target < node for node, target in condensed.edges)


@given(followings(), st.sets(st.integers(0, 11)))
def test_reachable_nodes_agree_with_networkx(following: Following, starts: set[int]) -> None:
    known = starts & following.keys()
    lengths = nx.multi_source_dijkstra_path_length(network(following), known) if known else {}
    assert reachable(known, following) == set(lengths)


def test_a_node_without_row_leads_nowhere() -> None:
    assert reachable("a", {"a": "b"}) == {"a", "b"}


@given(followings().filter(bool))
# The lowest node with a way to 3 that avoids those in between is 2, and what dominates it is 0.
@example({0: [2, 1], 1: [3, 2], 2: [3], 3: []})
def test_dominators_agree_with_networkx(following: Following) -> None:
    above = nx.immediate_dominators(network(following), 0)
    numbers = dominator_ranges(0, following)
    assert sorted(one.start for one in numbers.values()) == list(range(len(numbers)))
    assert numbers.keys() == reachable([0], following)
    for node in numbers:
        line = [node]
        while line[-1] != 0:
            line.append(above[line[-1]])
        assert {other for other in numbers if numbers[node].start in numbers[other]} == set(line)


@given(followings(loops=False))
def test_longest_path_agrees_with_networkx(following: Following) -> None:
    if not following:
        return
    potentials = Potentials(lambda _: polynomial.number(1), {}, [])
    found = potentials.of(map(str, following), transitions(following))["0"].at({}).at({})
    begun = network(following).subgraph(reachable([0], following))
    # And the transition to the end.
    assert found == nx.dag_longest_path_length(begun) + 1


@given(followings())
def test_transitions_are_inside_the_component_of_both_ends(following: Following) -> None:
    every = transitions(following)
    found = components([*map(str, following), END.name], every)
    inside = [one for _, within in found for one in within]
    together = {name: set(names) for names, _ in found for name in names}
    assert {id(one) for one in inside} == {id(one) for one in every if one.target in together[one.source]}


def test_deep_graphs_do_not_recurse() -> None:
    chain = {node: [node + 1] for node in range(DEEP)} | {DEEP: []}
    assert strongly_connected_components(chain) == [[node] for node in range(DEEP, -1, -1)]
    loop = {node: [(node + 1) % DEEP] for node in range(DEEP)}
    assert [len(component) for component in strongly_connected_components(loop)] == [DEEP]
