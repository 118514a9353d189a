"""Find shortest paths and cycles through labelled edges, with networkx, which is imported when needed.

Among paths of equal length, the first in the order of the edges is found.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import networkx as nx

N = TypeVar("N", bound=Hashable)


def label_edges(edges: Iterable[tuple[N, N, object]]) -> nx.DiGraph[N]:
    """Return the graph of these edges, each a source, a target and a label; the first of parallel edges is kept."""
    import networkx as nx

    network: nx.DiGraph[N] = nx.DiGraph()
    for source, target, label in edges:
        if not network.has_edge(source, target):
            network.add_edge(source, target, label=label)
    return network


def find_path(network: nx.DiGraph[N], start: N, target: N) -> list[Any] | None:
    """Return the labels on a shortest path: an empty list from a node to itself, `None` if there is no path.

    Takes linear time.
    """
    nodes = _nodes_until(network, start, {target}) if start in network or start == target else None
    return None if nodes is None else _labels(network, nodes)


def find_cycle(network: nx.DiGraph[N], node: N) -> list[Any]:
    """Return the labels on a shortest cycle through a node, which must be on a cycle. Takes linear time."""
    nodes = _nodes_until(network, node, set(network.predecessors(node)))
    assert nodes is not None, "the node is on a cycle"
    return _labels(network, [*nodes, node])


def _nodes_until(network: nx.DiGraph[N], start: N, targets: set[N]) -> list[N] | None:
    import networkx as nx

    if start in targets:
        return [start]
    before: dict[N, N] = {}
    for source, node in nx.bfs_edges(network, start):
        before[node] = source
        if node in targets:
            path = [node]
            while path[-1] != start:
                path.append(before[path[-1]])
            return path[::-1]
    return None


def _labels(network: nx.DiGraph[N], nodes: Sequence[N]) -> list[Any]:
    return [network.edges[edge]["label"] for edge in pairwise(nodes)]
