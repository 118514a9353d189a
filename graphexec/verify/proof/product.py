"""The product of a flow and its counters: every state that a run can reach under given limits.

It is finite, because counters are whole numbers up to their limits, but may be large. A flow does not say how much more
than the least a visit spends, or when a deadline passes. So there are two products: one of everything that may be
possible, for bounds, and one of what is `sure` to be possible, for example runs. A bound that a sure run attains is
exact.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from graphexec.kernel.node import END
from graphexec.verify.paths import find_cycle, find_path, label_edges, strongly_connected_components
from graphexec.verify.proof.certificate import Potential
from graphexec.verify.proof.flow import Flow, Known, Transition
from graphexec.verify.proof.moves import CountedMove, moves_by_node

# A node, and the amount left of each counted budget.
State: TypeAlias = tuple[str, tuple[int, ...]]

# The moves from each state, with their next states.
_Rows: TypeAlias = dict[State, list[tuple[CountedMove, State]]]


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
        return len(self._reached(most)) > most

    def is_finite(self, most: int) -> bool:
        """Return whether no state can repeat, so that every run ends; `False` if there are more than `most` states."""
        rows = self._reached(most)
        following = _following(rows)
        if len(rows) > most or any(state in targets for state, targets in following.items()):
            return False
        return len(strongly_connected_components(following)) == len(rows)

    def most(self, weight: Callable[[CountedMove], int]) -> dict[State, int]:
        """Return the most that a run counts from each state. The flow must be proved to end."""
        rows = self._reached()
        best: dict[State, int] = {}
        # Each state comes after those that it reaches.
        for component in strongly_connected_components(_following(rows)):
            assert len(component) == 1, "a flow that is proved to end does not repeat a state"
            counts = (weight(move) + best.get(target, 0) for move, target in rows[component[0]])
            best[component[0]] = max(counts, default=0)
        return best

    def lasso(self, most: int, *, within: Iterable[Transition]) -> tuple[list[Transition], list[Transition]] | None:
        """Return a shortest endless run among the first `most` states, as (path to the loop, loop), or `None`.

        The loop consists of the transitions `within`.
        """
        rows = self._reached(most)
        explored = [
            (state, target, move.transition) for state, row in rows.items() for move, target in row if target in rows
        ]
        inside = frozenset(map(_edge_of, within))
        order = {state: number for number, state in enumerate(rows)}
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

    def _reached(self, most: float = math.inf) -> _Rows:
        """Return the moves from the states that runs reach, in that order, until these are more than `most`."""
        rows: _Rows = {self.begin: []}
        waiting = deque(rows)
        while waiting and len(rows) <= most:
            state = waiting.popleft()
            rows[state] = list(self.moves(state))
            for _, target in rows[state]:
                if target[0] != END.name and target not in rows:
                    rows[target] = []
                    waiting.append(target)
        return rows


def _following(rows: _Rows) -> dict[State, list[State]]:
    return {state: [target for _, target in row if target in rows] for state, row in rows.items()}


# The number of states in each component from which loops are searched.
_ROOTS = 50


def _edge_of(one: Transition) -> tuple[str, str, str]:
    """Return the key of a transition, which all choices of effects share."""
    return one.source, one.outcome, one.kind


# A state, the count up to it, the moves that are left to try from it, and the move that led to it.
_Frame: TypeAlias = tuple[State, int, Iterator[tuple[CountedMove, State]], CountedMove | None]
# A potential at a node: its base, and the slopes by the index of the counter.
_Line: TypeAlias = tuple[int, tuple[tuple[int, int], ...]]


def is_attained(
    product: Product,
    potential: Potential,
    weight: Callable[[CountedMove], int],
    caps: Mapping[str, int | None],
    most: int,
) -> bool:
    """Return whether some run in the product counts as much as the potential at the start.

    Repeated rounds of a loop are searched once, and at most `most` states: a longer path, or one hidden among many, is
    not found.
    """
    place = {name: index for index, name in enumerate(product.counters)}
    lines: dict[str, _Line] = {END.name: (0, ())}
    for node, (base, slopes) in potential.lines.items():
        # Budgets that the product does not count are never spent.
        full = sum(slope * (caps[name] or 0) for name, slope in slopes if name not in place)
        lines[node] = base + full, tuple((place[name], slope) for name, slope in slopes if name in place)

    def value_of(state: State) -> int:
        base, slopes = lines[state[0]]
        return base + sum([slope * state[1][index] for index, slope in slopes])

    def tight_moves(state: State) -> Iterator[tuple[CountedMove, State]]:
        """Yield the moves that lower the potential by exactly their count."""
        value = value_of(state)
        for move, after in product.moves(state):
            if after[0] in lines and value - weight(move) == value_of(after):
                yield move, after

    begin = product.begin
    seen = {begin}
    path: list[_Frame] = [(begin, 0, tight_moves(begin), None)]
    # Where the path visits each node.
    visits: dict[str, list[int]] = {begin[0]: [0]}
    while path and len(seen) <= most:
        (node, _), counted, moves, _ = path[-1]
        move, state = next(moves, (None, None))
        if move is None or state is None:
            path.pop()
            visits[node].pop()
            continue
        counted += weight(move)
        if state[0] == END.name:
            # Each move lowered the potential by exactly its count.
            assert counted == value_of(begin), "the count equals the potential"
            return True
        if visited := visits.setdefault(state[0], []):
            state, counted = _after_rounds(path, visited[-1], move, state, counted)
        if state not in seen:
            seen.add(state)
            visited.append(len(path))
            path.append((state, counted, tight_moves(state), move))
    return False


def _after_rounds(
    path: Sequence[_Frame], start: int, move: CountedMove, state: State, counted: int
) -> tuple[State, int]:
    """Return the state and the count after repeating a loop as often as possible.

    The loop goes from the `start` of the path to its end, and back to the same node with `move`.
    """
    node, left = state
    each = [old - new for old, new in zip(path[start][0][1], left, strict=True)]
    # Too little is left for another round of most loops.
    if not any(each) or any(fall < 0 or fall > count for fall, count in zip(each, left, strict=True)):
        return state, counted
    loop = path[start:]
    moves = [*(frame[3] for frame in loop[1:]), move]
    rounds = _rounds(each, [(one, frame[0][1]) for one, frame in zip(moves, loop, strict=True) if one is not None])
    if not rounds:
        return state, counted
    after = tuple([count - rounds * fall for count, fall in zip(left, each, strict=True)])
    return (node, after), counted + rounds * (counted - path[start][1])


def _rounds(each: Sequence[int], moves: Sequence[tuple[CountedMove, tuple[int, ...]]]) -> int:
    """Return how often these moves can be repeated, given the amounts left and the cost of `each` round.

    A round never leaves more than the one before. So where too little of a counter was left, there still is.
    """
    # The next round sets the counter again, so it does not start lower.
    if any(each[index] for move, _ in moves for index, _ in move.sets):
        return 0
    least = [
        (left[index] - each[index] - amount) // each[index]
        for move, left in moves
        for index, amount in (*move.spends, *move.timely, *move.drains)
        if each[index]
    ]
    return max(0, min(least, default=0))
