"""The product of a flow and its counters: every state that a run can reach under given limits.

It is finite, because counters are whole numbers up to their limits, but may be large. A flow does not say how much more
than the least a visit spends, or when a deadline passes. So there are two products: one of everything that may be
possible, for bounds, and one of what is `sure` to be possible, for example runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from graphexec.kernel.node import END
from graphexec.verify.paths import find_cycle, find_path, label_edges, strongly_connected_components
from graphexec.verify.proof.flow import Flow, Known, Transition
from graphexec.verify.proof.moves import CountedMove, moves_by_node

# A node, and the amount left of each counted budget.
State: TypeAlias = tuple[str, tuple[int, ...]]

# A step from one state to another, with its transition.
_Labelled: TypeAlias = tuple[State, State, Transition]


class Product:
    """The states of `flow` under the `known` limits, computed on demand.

    If it is `sure`, visits spend the least or the most that they can, or all that is left before a limit stops them.
    The clock stands still until an effect takes all the time until a deadline. So every path through it is a run.
    """

    __slots__ = ("_nodes", "_rows", "begin", "counters")

    def __init__(self, flow: Flow, known: Known, *, sure: bool = False) -> None:
        self._nodes = len(flow.nodes)
        self._rows, self.counters, full = moves_by_node(flow, known, sure=sure)
        self.begin: State = (flow.start, full)

    def size(self) -> int:
        """Return the largest possible number of states."""
        states = self._nodes
        for left in self.begin[1]:
            states *= left + 1
        return states

    def moves(self, state: State) -> Iterator[tuple[CountedMove, State]]:
        """Yield the moves that are possible in a state, and their next states."""
        node, left = state
        for move in self._rows.get(node, ()):
            if move.is_possible(left):
                yield move, (move.transition.target, move.after(left))

    def exceeds(self, most: int) -> bool:
        """Return whether runs reach more than `most` states."""
        return len({target for _, target, _ in self._explore(most)} | {self.begin}) > most

    def is_finite(self, most: int) -> bool:
        """Return whether no state can repeat, so that every run ends; `False` if there are more than `most` states."""
        following: dict[State, list[State]] = {self.begin: []}
        for source, target, _ in self._explore(most):
            following[source].append(target)
            following.setdefault(target, [])
        if len(following) > most or any(state in targets for state, targets in following.items()):
            return False
        return len(strongly_connected_components(following)) == len(following)

    def most(self, weight: Callable[[CountedMove], int]) -> dict[State, int]:
        """Return the most that a run counts from each state. The flow must be proved to end."""
        best: dict[State, int] = {}
        opened: set[State] = set()
        waiting: list[tuple[State, list[tuple[CountedMove, State]] | None]] = [(self.begin, None)]
        while waiting:
            state, steps = waiting.pop()
            if state in best:
                continue
            if steps is None:
                assert state not in opened, "a flow that is proved to end does not repeat a state"
                opened.add(state)
                steps = list(self.moves(state))
                waiting.append((state, steps))
                waiting.extend((target, None) for _, target in steps if target not in best)
                continue
            best[state] = max((weight(one) + best.get(target, 0) for one, target in steps), default=0)
        return best

    def lasso(self, most: int, *, within: Iterable[Transition]) -> tuple[list[Transition], list[Transition]] | None:
        """Return a shortest endless run among the first `most` states, as (path to the loop, loop), or `None`.

        The loop consists of the transitions `within`.
        """
        explored = list(self._explore(most))
        inside = frozenset(map(_edge_of, within))
        reached = dict.fromkeys(state for source, target, _ in explored for state in (source, target))
        order = {state: number for number, state in enumerate(reached)}
        network = label_edges(step for step in explored if _edge_of(step[2]) in inside)
        loops = [
            (state, find_cycle(network, state))
            for component in strongly_connected_components({one: network[one] for one in order if one in network})
            if len(component) > 1 or network.has_edge(component[0], component[0])
            # The states that are reached first come first. A few are enough, because any loop will do.
            for state in sorted(component, key=order.__getitem__)[:_ROOTS]
        ]
        if not loops:
            return None
        begin, loop = min(loops, key=lambda found: len(found[1]))
        return find_path(label_edges(explored), self.begin, begin) or [], loop

    def _explore(self, most: int) -> Iterator[_Labelled]:
        found = {self.begin}
        waiting = deque(found)
        while waiting and len(found) <= most:
            state = waiting.popleft()
            for move, target in self.moves(state):
                if target[0] != END.name:
                    yield state, target, move.transition
                    if target not in found:
                        found.add(target)
                        waiting.append(target)


# The number of states in each component from which loops are searched.
_ROOTS = 50


def _edge_of(one: Transition) -> tuple[str, str, str]:
    """Return the key of a transition, which all choices of effects share."""
    return one.source, one.outcome, one.kind
