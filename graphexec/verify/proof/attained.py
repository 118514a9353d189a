"""Search for a run that counts as much as its bound: then the bound is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from graphexec.kernel.node import END
from graphexec.verify.proof.certificate import Potential
from graphexec.verify.proof.moves import CountedMove
from graphexec.verify.proof.product import Product, State

# The most states that are searched. A longer path, or one hidden among many, is not found.
_STATES = 2_000

# A state, the count up to it, the moves that are left to try from it, and the move that led to it.
_Frame: TypeAlias = tuple[State, int, Iterator[tuple[CountedMove, State]], CountedMove | None]
# A potential at a node: its base, and the slopes by the index of the counter.
_Line: TypeAlias = tuple[int, tuple[tuple[int, int], ...]]


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
    while path and len(seen) <= min(most or _STATES, _STATES):
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
