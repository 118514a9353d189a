"""The piece that makes the answers of an agent instances of a type."""

from graphexec.nodes.output.piece import output_type

__all__ = ["output_type"]
