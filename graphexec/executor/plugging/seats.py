"""Seats: the pieces on each class of outcomes, in the order in which a value passes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from graphexec.errors import Fault, GraphError, did_you_mean
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
    """Return the seats of pieces.

    Raises `GraphError` for two pieces of one name, and for a `before` that names no piece of the same class, or one
    that an approval forbids.
    """
    faults = list(_find_faults(pieces))
    seats: dict[type | str, tuple[Piece, ...]] = {}
    kinds: tuple[type | str, ...] = (ONCE, *HOMES)
    for kind in kinds:
        chain = [piece for piece in pieces if _sits(piece, kind)]
        if kind not in _INWARDS:
            chain.reverse()
        if kind is Acted:
            chain.sort(key=_stage)
        if chain:
            seats[kind] = tuple(_move(chain, faults, by_stage=kind is Acted))
    if faults:
        raise GraphError(faults)
    return Seats(seats)


def _sits(piece: Piece, kind: type | str) -> bool:
    if kind == ONCE:
        return piece.once and Ready in piece.takes
    return kind in piece.takes and not (piece.once and kind is Ready)


def _stage(piece: Piece) -> int:
    """Return 0 for a piece that may change the calls, 1 for one that gates them, 2 for one that carries them out."""
    return 2 if piece.acts else int(piece.gates)


def _move(chain: Sequence[Piece], faults: list[Fault], *, by_stage: bool) -> list[Piece]:
    """Return the pieces with those that have a `before` moved."""
    moved = list(chain)
    for piece in chain:
        place = next((place for place, other in enumerate(moved) if other.name == piece.before), None)
        if place is None or piece.name == piece.before:
            continue
        if by_stage and _stage(piece) > _stage(moved[place]):
            text = (
                f"{piece.name} carries out calls, so it sits behind {piece.before}, which may change or forbid them; "
                "leave out before="
            )
            faults.append(Fault("GX029", piece.name, None, text))
            continue
        moved.remove(piece)
        moved.insert(next(place for place, other in enumerate(moved) if other.name == piece.before), piece)
    return moved


def _find_faults(pieces: Sequence[Piece]) -> Iterator[Fault]:
    names = [piece.name for piece in pieces]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Fault("GX020", name, None, f"{name} is plugged twice; give one of them another name, or unplug the first")
    for piece in pieces:
        if piece.before is None:
            continue
        others = [other for other in pieces if other.name != piece.name and {*other.takes} & {*piece.takes}]
        if piece.before not in [other.name for other in others]:
            known = [other.name for other in others]
            hint = did_you_mean(piece.before, known, f"those are {', '.join(known) or 'none'}")
            text = f"{piece.name} has before={piece.before!r}, which is no piece that takes the same classes; {hint}"
            yield Fault("GX029", piece.name, None, text)
