"""Strongly connected components, reachability and dominators for proofs, without networkx.

Loading networkx would add about 100 ms to the first proof of a process. The tests compare the results with networkx.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

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


def reachable(starts: Iterable[N], following: Mapping[N, Iterable[N]]) -> set[N]:
    """Return the nodes that can be reached from `starts`, including these. Takes linear time.

    A node that is missing in `following` has no edges.
    """
    waiting = list(starts)
    found = set(waiting)
    while waiting:
        for target in following.get(waiting.pop(), ()):
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def dominator_ranges(start: N, following: Mapping[N, Iterable[N]]) -> dict[N, range]:
    """Return, for each node that `start` reaches, the range of the numbers of the nodes that it dominates.

    A node dominates another if every path from `start` to the other passes it. The range begins with the node's own
    number. Takes O(edges * log(nodes)) time (Lengauer and Tarjan, 1979), and does not recurse.
    """
    order, parents, before = _search(start, following)
    # By number in search order: the semidominator of each node, then its dominator.
    lowest = list(range(len(order)))
    dominators = [0] * len(order)
    forest = _Forest(lowest)
    waiting: list[list[int]] = [[] for _ in order]
    for number in range(len(order) - 1, 0, -1):
        for other in before[number]:
            lowest[number] = min(lowest[number], lowest[forest.best(other)])
        waiting[lowest[number]].append(number)
        parent = parents[number]
        forest.above[number] = parent
        for other in waiting[parent]:
            best = forest.best(other)
            dominators[other] = best if lowest[best] < parent else parent
        waiting[parent].clear()
    sizes = [1] * len(order)
    for number in range(1, len(order)):
        if dominators[number] != lowest[number]:
            dominators[number] = dominators[dominators[number]]
    for number in range(len(order) - 1, 0, -1):
        sizes[dominators[number]] += sizes[number]
    # The numbers of the nodes that a node dominates follow its own number.
    numbers = [0] * len(order)
    free = [1] * len(order)
    for number in range(1, len(order)):
        dominator = dominators[number]
        numbers[number] = free[dominator]
        free[dominator] += sizes[number]
        free[number] = numbers[number] + 1
    return {node: range(numbers[at], numbers[at] + sizes[at]) for at, node in enumerate(order)}


def _search(start: N, following: Mapping[N, Iterable[N]]) -> tuple[list[N], list[int], list[list[int]]]:
    """Return the nodes in depth-first order and, by number, each node's parent and predecessors."""
    order: list[N] = []
    places: dict[N, int] = {}
    parents: list[int] = []
    stack = [(start, 0)]
    while stack:
        node, parent = stack.pop()
        if node not in places:
            places[node] = len(order)
            order.append(node)
            parents.append(parent)
            stack += [(target, places[node]) for target in following.get(node, ())]
    before: list[list[int]] = [[] for _ in order]
    for node in order:
        for target in following.get(node, ()):
            before[places[target]].append(places[node])
    return order, parents, before


class _Forest:
    """Trees of nodes by number, linked bottom-up, with path compression."""

    def __init__(self, lowest: Sequence[int]) -> None:
        self.above: list[int | None] = [None] * len(lowest)
        self._lowest = lowest
        self._best = list(range(len(lowest)))

    def best(self, number: int) -> int:
        """Return the node with the least `lowest`, among this node and its ancestors below the root."""
        path: list[int] = []
        at, above = number, self.above[number]
        while above is not None:
            path.append(at)
            at, above = above, self.above[above]
        # The last node of the path is a child of the root; its value is final.
        root = at
        for below, upper in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
            if self._lowest[self._best[upper]] < self._lowest[self._best[below]]:
                self._best[below] = self._best[upper]
            self.above[below] = root
        return self._best[number]
