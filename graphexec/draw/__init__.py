"""Pictures of a machine: text formats, made of its edges and nothing else."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from graphexec.draw.dot import dot
from graphexec.draw.marks import UNMARKED, Mark, Marks, marks_of
from graphexec.draw.mermaid import mermaid
from graphexec.graph import Graph

__all__ = ["FORMATS", "Mark", "Marks", "dot", "draw", "marks_of", "mermaid"]

FORMATS: Mapping[str, Callable[[Graph[Any, Any], Marks], str]] = {"mermaid": mermaid, "dot": dot}


# `format` is the field's word, as in `format(graph, "dot")`.
def draw(graph: Graph[Any, Any], format: str, *, marks: Marks = UNMARKED) -> str:  # noqa: A002
    """Return the picture as text; `marks` points edges out: `draw(graph, "dot", marks=marks_of(graph, findings))`.

    Raises `ValueError` for a format that there is not.
    """
    picture = FORMATS.get(format)
    if picture is None:
        close = difflib.get_close_matches(format, FORMATS, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(FORMATS)}"
        raise ValueError(f"a graph cannot be drawn as {format}{hint}")
    return picture(graph, marks)
