"""Pictures of a machine: text formats, made of its edges and nothing else."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from graphexec.draw.dot import dot
from graphexec.draw.mermaid import mermaid
from graphexec.graph import Graph

__all__ = ["FORMATS", "dot", "draw", "mermaid"]

FORMATS: Mapping[str, Callable[[Graph[Any, Any]], str]] = {"mermaid": mermaid, "dot": dot}


def draw(graph: Graph[Any, Any], format: str) -> str:  # noqa: A002 - the field's word, as in `format(graph, "dot")`
    """Return the picture as text. Raises `ValueError` for a format that there is not."""
    try:
        return FORMATS[format](graph)
    except KeyError:
        close = difflib.get_close_matches(format, FORMATS, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(FORMATS)}"
        raise ValueError(f"a graph cannot be drawn as {format}{hint}") from None
