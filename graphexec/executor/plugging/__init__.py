"""Pieces: nodes that an executor takes by the classes of outcomes, without rows and targets."""

from graphexec.executor.plugging.piece import HOMES, Flow, Piece, Plugged, Seats, to_pieces

__all__ = ["HOMES", "Flow", "Piece", "Plugged", "Seats", "to_pieces"]
