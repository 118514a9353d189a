"""Pieces: nodes that an executor takes by the classes of outcomes, without rows and targets."""

from graphexec.executor.plugging.piece import (
    HOMES,
    Edit,
    Flow,
    Output,
    Piece,
    Plugged,
    Seats,
    assign_seats,
    to_piece,
    to_pieces,
)
from graphexec.executor.plugging.plug import edits_of, pass_on, plug

__all__ = [
    "HOMES",
    "Edit",
    "Flow",
    "Output",
    "Piece",
    "Plugged",
    "Seats",
    "assign_seats",
    "edits_of",
    "pass_on",
    "plug",
    "to_piece",
    "to_pieces",
]
