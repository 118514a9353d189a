"""Graph algorithms: components for proofs, and shortest paths for counterexamples.

Only the paths use networkx, which is imported when needed: loading it would add about 100 ms to the first proof of a
process. The tests compare the components with those of networkx.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import networkx as nx

N = TypeVar("N", bound=Hashable)


def strongly_connected_components(following: Mapping[N, Iterable[N]]) -> list[list[N]]:
    """Return the components, each after all components that it reaches (Tarjan, 1972).

    `following` maps every node to the targets of its edges. Takes linear time. Does not recurse, because a machine may
    be deeper than Python's stack.
    """
    found: list[list[N]] = []
    entered: dict[N, int] = {}
    # For each node, the earliest entered open node that it is known to reach. Open nodes are not in a component yet.
    lowest: dict[N, int] = {}
    open_nodes: list[N] = []
    rest: dict[N, Iterator[N]] = {}
    for root in following:
        path = [] if root in entered else [root]
        while path:
            node = path[-1]
            if node not in entered:
                entered[node] = lowest[node] = len(entered)
                rest[node] = iter(following[node])
                open_nodes.append(node)
            low = lowest[node]
            for target in rest[node]:
                if target not in entered:
                    path.append(target)
                    break
                low = min(low, lowest[target])
            else:
                path.pop()
                if low == entered[node]:
                    component = [open_nodes.pop()]
                    while component[-1] != node:
                        component.append(open_nodes.pop())
                    found.append(component)
                    # The nodes of a component are no longer open.
                    low = len(following)
                    lowest.update(dict.fromkeys(component, low))
                elif low < lowest[path[-1]]:
                    lowest[path[-1]] = low
            lowest[node] = low
    return found


def label_edges(edges: Iterable[tuple[N, N, object]]) -> nx.DiGraph[N]:
    """Return the graph of these edges, each a source, a target and a label; the first of parallel edges is kept.

    Among paths of equal length, the first in the order of the edges is found.
    """
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
