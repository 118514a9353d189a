"""Search for a run that counts as much as its bound: then the bound is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, final

from graphexec.kernel.node import END
from graphexec.verify.proof.certificate import Potential
from graphexec.verify.proof.product import CountedMove, Product, State

# The most states that are searched. A longer path, or one hidden among many, is not found.
_STATES = 2_000

# A state, the count up to it, the moves that are left to try from it, and the move that led to it.
_Frame: TypeAlias = tuple[State, int, Iterator[tuple[CountedMove, State]], CountedMove | None]


def is_attained(
    product: Product,
    potential: Potential,
    weight: Callable[[CountedMove], int],
    caps: Mapping[str, int | None],
    *,
    most: int | None = None,
) -> bool:
    """Return whether some run in the product counts as much as the potential at the start.

    Repeated rounds of a loop are searched once, and at most `most` states.
    """
    return _Search(product, potential, weight, caps).run(_STATES if most is None else min(most, _STATES))


@final
class _Search:
    def __init__(
        self,
        product: Product,
        potential: Potential,
        weight: Callable[[CountedMove], int],
        caps: Mapping[str, int | None],
    ) -> None:
        self._product = product
        self._weight = weight
        place = {name: index for index, name in enumerate(product.counters)}
        self._lines: dict[str, tuple[int, tuple[tuple[int, int], ...]]] = {}
        for node, (base, slopes) in potential.lines.items():
            # Budgets that the product does not count are never spent.
            full = sum(slope * (caps[name] or 0) for name, slope in slopes if name not in place)
            self._lines[node] = base + full, tuple((place[name], slope) for name, slope in slopes if name in place)

    def _value(self, state: State) -> int:
        node, left = state
        if node == END.name:
            return 0
        base, slopes = self._lines[node]
        return base + sum(slope * left[index] for index, slope in slopes)

    def run(self, states: int) -> bool:
        """Return whether the search finds such a run within so many states."""
        begin = self._product.begin
        most = self._value(begin)
        seen = {begin}
        path: list[_Frame] = [(begin, 0, self._tight(begin), None)]
        while path and len(seen) <= states:
            _, counted, moves, _ = path[-1]
            move, state = next(moves, (None, None))
            if move is None or state is None:
                path.pop()
                continue
            counted += self._weight(move)
            if state[0] == END.name:
                # Each move lowered the potential by exactly its count.
                assert counted == most, "the count equals the potential"
                return True
            state, more = self._after_rounds(path, move, state)
            if state not in seen:
                seen.add(state)
                path.append((state, counted + more, self._tight(state), move))
        return False

    def _tight(self, state: State) -> Iterator[tuple[CountedMove, State]]:
        """Yield the moves that lower the potential by exactly their count."""
        value = self._value(state)
        for move, target in self._product.moves(state):
            known = target[0] == END.name or target[0] in self._lines
            if known and value - self._weight(move) == self._value(target):
                yield move, target

    def _after_rounds(self, path: Sequence[_Frame], move: CountedMove, state: State) -> tuple[State, int]:
        """Return the state after repeating a loop as often as possible, and the count of these rounds.

        If the path was not at this node before, the state is unchanged.
        """
        node, left = state
        start = next((index for index in range(len(path) - 1, -1, -1) if path[index][0][0] == node), None)
        if start is None:
            return state, 0
        before, counted = path[start][0][1], path[start][1]
        each = [old - new for old, new in zip(before, left, strict=True)]
        moves = [*(frame[3] for frame in path[start + 1 :]), move]
        states = [frame[0] for frame in path[start:]]
        rounds = _rounds(each, [(one, at[1]) for one, at in zip(moves, states, strict=True) if one is not None])
        whole = path[-1][1] + self._weight(move) - counted
        after = tuple(count - rounds * fall for count, fall in zip(left, each, strict=True))
        return (node, after), rounds * whole


def _rounds(each: Sequence[int], moves: Sequence[tuple[CountedMove, tuple[int, ...]]]) -> int:
    """Return how often these moves can be repeated, given the amounts left and the cost of `each` round."""
    if min(each, default=0) < 0 or any(move.needs is not None for move, _ in moves):
        return 0
    least = [
        (left[index] - each[index] - amount) // each[index]
        for move, left in moves
        for index, amount in (*move.spends, *move.timely, *move.drains)
        if each[index]
    ]
    return max(0, min(least, default=0))
