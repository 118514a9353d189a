"""Strongly connected components and reachability, as a proof needs them: in linear time, and without networkx.

To load networkx would take some 100 ms of the first proof of a process. The tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def strongly_connected_components(following: Mapping[N, Iterable[N]]) -> list[list[N]]:
    """Return the components, each behind all those that it reaches (Tarjan, 1972).

    `following` maps every node to those that its edges lead to. Takes linear time, and does not recurse: a machine may
    be deeper than Python's stack.
    """
    found: list[list[N]] = []
    entered: dict[N, int] = {}
    # The earliest entered node that each is known to reach, among the open ones: those not in a component yet.
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
                    # Its nodes are not open any more.
                    low = len(following)
                    lowest.update(dict.fromkeys(component, low))
                elif low < lowest[path[-1]]:
                    lowest[path[-1]] = low
            lowest[node] = low
    return found


def reachable(starts: Iterable[N], following: Mapping[N, Iterable[N]]) -> set[N]:
    """Return the nodes to which there is a way from one of `starts`, these among them. Takes linear time.

    A node that `following` does not have leads nowhere.
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
    """Return a range of numbers for each node that `start` reaches, which begins with its own number.

    It has the numbers of the nodes to which every way from `start` passes the node. Takes time in proportion to the
    edges, but for a logarithm (Lengauer and Tarjan, 1979), and does not recurse.
    """
    order, parents, before = _search(start, following)
    # By number in the order of the search: the lowest node with a way that avoids those in between, and the dominator.
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
    # A node's number is followed by those of the nodes that it dominates.
    numbers = [0] * len(order)
    free = [1] * len(order)
    for number in range(1, len(order)):
        dominator = dominators[number]
        numbers[number] = free[dominator]
        free[dominator] += sizes[number]
        free[number] = numbers[number] + 1
    return {node: range(numbers[at], numbers[at] + sizes[at]) for at, node in enumerate(order)}


def _search(start: N, following: Mapping[N, Iterable[N]]) -> tuple[list[N], list[int], list[list[int]]]:
    """Return the nodes in the order of a depth-first search; by number the one before, and all that lead to it."""
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
    """Trees of nodes by number, joined from below; a look upwards shortens the way of the next one."""

    def __init__(self, lowest: Sequence[int]) -> None:
        self.above: list[int | None] = [None] * len(lowest)
        self._lowest = lowest
        self._best = list(range(len(lowest)))

    def best(self, number: int) -> int:
        """Return the node whose `lowest` is least, of this one and those above it, but for the root."""
        path: list[int] = []
        at, above = number, self.above[number]
        while above is not None:
            path.append(at)
            at, above = above, self.above[above]
        # The last of the path is below the root, and has nothing to learn.
        root = at
        for below, upper in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
            if self._lowest[self._best[upper]] < self._lowest[self._best[below]]:
                self._best[below] = self._best[upper]
            self.above[below] = root
        return self._best[number]
