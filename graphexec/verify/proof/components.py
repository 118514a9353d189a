"""Strongly connected components and reachability, as a proof needs them: in linear time, and without networkx.

To load networkx would take some 100 ms of the first proof of a process. The tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
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
