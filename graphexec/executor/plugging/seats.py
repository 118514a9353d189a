"""Seats: the pieces on each class of outcomes, in the order in which a value passes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from graphexec.errors import Fault, GraphError
from graphexec.executor.outcomes import Acted, Observed, Ready
from graphexec.executor.plugging.piece import HOMES, Piece

# The seat of pieces that run once.
ONCE = "once"

# On the way to the model, the first piece of the list is met first; on the way out, it is met last.
_INWARDS = (ONCE, Ready, Observed)


@final
@dataclass(frozen=True)
class Seats:
    """The pieces of an executor by the class of outcomes that they take.

    `seats[AgentFinish]` is the names of the pieces in the order in which a value passes them; `str(seats)` is a line
    for each class. The pieces that run once are those of `seats["once"]`.
    """

    pieces: Mapping[type | str, tuple[Piece, ...]]

    def __getitem__(self, kind: type | str) -> tuple[str, ...]:
        return tuple(piece.name for piece in self.pieces.get(kind, ()))

    def __iter__(self) -> Iterator[type | str]:
        return iter(self.pieces)

    def __len__(self) -> int:
        return len(self.pieces)

    def __str__(self) -> str:
        rows = [
            (
                f"Ready ({ONCE})" if isinstance(kind, str) else kind.__name__,
                [*self[kind], HOMES[Ready] if isinstance(kind, str) else HOMES[kind]],
            )
            for kind in self.pieces
        ]
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join(f"{name + ':':{width + 1}} {' > '.join(path)}" for name, path in rows)

    def __repr__(self) -> str:
        return str(self) or "no pieces"


def assign_seats(pieces: Sequence[Piece]) -> Seats:
    """Return the seats of pieces. Raises `GraphError` for two pieces of one name."""
    names = [piece.name for piece in pieces]
    twice = dict.fromkeys(name for name in names if names.count(name) > 1)
    if twice:
        text = "{} is plugged twice; give one of them another name, or unplug the first"
        raise GraphError([Fault("GX020", name, None, text.format(name)) for name in twice])
    seats: dict[type | str, tuple[Piece, ...]] = {}
    kinds: tuple[type | str, ...] = (ONCE, *HOMES)
    for kind in kinds:
        chain = [piece for piece in pieces if _sits(piece, kind)]
        if kind not in _INWARDS:
            chain.reverse()
        if kind is Acted:
            chain.sort(key=_stage)
        if chain:
            seats[kind] = tuple(chain)
    return Seats(seats)


def _sits(piece: Piece, kind: type | str) -> bool:
    if kind == ONCE:
        return piece.once and Ready in piece.takes
    return kind in piece.takes and not (piece.once and kind is Ready)


def _stage(piece: Piece) -> int:
    """Return 0 for a piece that may change the calls, 1 for one that gates them, 2 for one that carries them out."""
    return 2 if piece.acts else int(piece.gates)
