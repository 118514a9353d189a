"""Pieces: nodes that an executor takes by the classes of outcomes, without rows and targets."""

from graphexec.executor.plugging.piece import HOMES, Edit, Flow, Piece, Plugged, Seats, to_pieces

__all__ = ["HOMES", "Edit", "Flow", "Piece", "Plugged", "Seats", "to_pieces"]
