"""Shortest paths and cycles through labelled edges, compared with networkx."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from graphexec.verify.paths import find_cycle, find_path, label_edges
from tests.parameters import cases

Pair = tuple[int, int]

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20)


def network(pairs: list[Pair]) -> nx.DiGraph[int]:
    """The graph in which each edge is labelled with itself."""
    return label_edges((*pair, pair) for pair in pairs)


@given(PAIRS, st.integers(0, 6), st.integers(0, 6))
def test_paths_agree_with_networkx(pairs: list[Pair], start: int, target: int) -> None:
    made = network(pairs)
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
    made = network(pairs)
    for component in nx.strongly_connected_components(made):
        for node in component:
            if len(component) > 1 or made.has_edge(node, node):
                cycle = find_cycle(made, node)
                back = [nx.dijkstra_path_length(made, target, node) for target in made[node] if target in component]
                assert len(cycle) == 1 + min(back)
                assert find_path(made, cycle[0][1], node) is not None
                assert [end for _, end in cycle] == [*(begin for begin, _ in cycle[1:]), node]


@cases(
    ("edges", "labels"),
    [
        ("1:a-b 2:a-b", "1"),
        ("1:a-x 2:a-y 3:y-b 4:x-b", "14"),
        ("1:a-y 2:a-x 3:x-b 4:y-b", "14"),
    ],
)
def test_first_of_equal_paths_is_found(edges: str, labels: str) -> None:
    made = label_edges((edge[2], edge[4], edge[0]) for edge in edges.split())
    assert find_path(made, "a", "b") == list(labels)
