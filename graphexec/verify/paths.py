"""Graph algorithms: components and dominators for proofs, and shortest paths for counterexamples.

networkx has all of them, but loading it would add about 100 ms to the first proof of a process; the tests compare the
results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Hashable)
L = TypeVar("L")


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


def find_dominators(start: N, following: Mapping[N, Iterable[N]]) -> Callable[[N, N], bool]:
    """Return a function that tells whether every path from `start` to the second node passes the first one.

    Both must be nodes that `start` reaches. Takes one pass over the edges, and one more for each level of nested loops.
    """
    order = [start]
    places = {start: 0}
    for node in order:
        for target in following.get(node, ()):
            if target not in places:
                places[target] = len(order)
                order.append(target)
    before: dict[N, list[N]] = {node: [] for node in order}
    for node in order:
        for target in following.get(node, ()):
            before[target].append(node)
    # The dominators of each node as bits, at first all nodes.
    above = dict.fromkeys(order, -1)
    above[start] = 1
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            found = -1
            for one in before[node]:
                found &= above[one]
            found |= 1 << places[node]
            changed |= found != above[node]
            above[node] = found
    return lambda node, other: bool(above[other] >> places[node] & 1)


def label_edges(edges: Iterable[tuple[N, N, L]]) -> dict[N, dict[N, L]]:
    """Return the labels of edges by source and target; the first of parallel edges is kept.

    Among paths of equal length, the first in the order of the edges is found.
    """
    network: dict[N, dict[N, L]] = {}
    for source, target, label in edges:
        network.setdefault(source, {}).setdefault(target, label)
    return network


def find_path(network: Mapping[N, Mapping[N, L]], start: N, target: N) -> list[L] | None:
    """Return the labels on a shortest path: an empty list from a node to itself, `None` if there is no path.

    Takes linear time.
    """
    return [] if start == target else _find_walk(network, start, target)


def find_cycle(network: Mapping[N, Mapping[N, L]], node: N) -> list[L]:
    """Return the labels on a shortest cycle through a node, which must be on a cycle. Takes linear time."""
    cycle = _find_walk(network, node, node)
    assert cycle is not None, "the node is on a cycle"
    return cycle


def _find_walk(network: Mapping[N, Mapping[N, L]], start: N, target: N) -> list[L] | None:
    """Return the labels on a shortest walk of one edge or more, or `None`."""
    before: dict[N, tuple[N, L]] = {}
    waiting = deque([start])
    while waiting and target not in before:
        node = waiting.popleft()
        for following, label in network.get(node, {}).items():
            if following not in before:
                before[following] = node, label
                waiting.append(following)
    if target not in before:
        return None
    node, label = before[target]
    labels = [label]
    while node != start:
        node, label = before[node]
        labels.append(label)
    return labels[::-1]
