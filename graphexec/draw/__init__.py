"""Pictures: the machine as it runs, made of its edges and nothing else; its proof, and its runs laid over it.

`draw` returns a picture as text, `save` writes it to a file; `graph.draw(path)`, `executor.draw(path)` and
`result.draw(path)` are ways to them. Text formats need nothing but the core; what is laid out needs the extra `draw`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from graphexec.draw.dot import dot
from graphexec.draw.markdown import markdown
from graphexec.draw.marks import Mark, Marks, marks_of
from graphexec.draw.mermaid import mermaid, mermaid_state
from graphexec.draw.overlay import laid_over
from graphexec.draw.picture import Picture, picture_of
from graphexec.draw.png import png
from graphexec.draw.records import Recorder, Recording, recording_of
from graphexec.draw.sequence import sequence_mermaid
from graphexec.draw.sequence_svg import sequence_svg
from graphexec.draw.svg import svg
from graphexec.draw.terminal import terminal
from graphexec.draw.timeline import timeline
from graphexec.errors import InputError
from graphexec.graph import Graph
from graphexec.journal import Journal
from graphexec.result import RunResult
from graphexec.verify.verdict import Verdict

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "Mark",
    "Marks",
    "Picture",
    "Recorder",
    "Recording",
    "draw",
    "marks_of",
    "picture_of",
    "png",
    "recording_of",
    "save",
    "sequence_mermaid",
    "sequence_svg",
    "timeline",
]

# What is drawn: a machine, or its proof.
Subject: TypeAlias = Graph[Any, Any] | Verdict
# What is laid over it.
AnyRun: TypeAlias = RunResult | Journal | Recording | Recorder


def _page(picture: Picture) -> str:
    from graphexec.draw.page import html

    return html(picture)


# The text formats by their names.
FORMATS: Mapping[str, Callable[[Picture], str]] = MappingProxyType(
    {
        "mermaid": mermaid,
        "mermaid-state": mermaid_state,
        "dot": dot,
        "markdown": markdown,
        "text": terminal,
        "svg": svg,
        "html": _page,
    }
)

# What a file's name says of its format.
SUFFIXES: Mapping[str, str] = MappingProxyType(
    {
        ".mmd": "mermaid",
        ".mermaid": "mermaid",
        ".dot": "dot",
        ".gv": "dot",
        ".md": "markdown",
        ".txt": "text",
        ".svg": "svg",
        ".html": "html",
        ".htm": "html",
        ".png": "png",
    }
)


# `format` is the field's word, as in `format(graph, "dot")`.
def draw(
    subject: Subject,
    format: str,  # noqa: A002
    *,
    marks: Marks | None = None,
    runs: AnyRun | Iterable[AnyRun] = (),
) -> str:
    """Return the picture of a machine as text; of a verdict, `graph.verify(limits)`, with its bounds and findings.

    `marks` point edges out: `marks_of(graph, findings)`, or a dict of edges and colours. `runs` are laid over it: one
    shows its way, several make a heat map. An HTML page of one run has all its steps.

    Raises `InputError` for a format that there is not or needs the extra `draw`, and for a run of another machine.
    """
    if format == "png":
        raise InputError("a PNG is no text; write draw.save(graph, 'flow.png'), or graph.draw('flow.png')")
    picture = FORMATS.get(format)
    if picture is None:
        close = difflib.get_close_matches(format, FORMATS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(FORMATS)}"
        raise InputError(f"a graph cannot be drawn as {format}; {hint}")
    recordings = [recording_of(run) for run in ([runs] if isinstance(runs, AnyRun) else runs)]
    machine = picture_of(subject, marks)
    if format == "html" and len(recordings) == 1:
        from graphexec.draw.page import html

        # The page lays the run over the machine itself, step by step.
        laid_over(machine, recordings)
        return html(machine, recordings[0])
    return picture(laid_over(machine, recordings))


def save(
    subject: Subject,
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    marks: Marks | None = None,
    runs: AnyRun | Iterable[AnyRun] = (),
) -> Path:
    """Write the picture to a file, whose suffix says the format (`SUFFIXES`) unless it is given; return its path.

    Raises as `draw` does, `InputError` for a suffix that says nothing, and `OSError` where nothing can be written.
    """
    file = Path(path)
    wanted = format or SUFFIXES.get(file.suffix.lower())
    if wanted is None:
        named = f"{file.name} has the suffix {file.suffix}" if file.suffix else f"{file.name} has no suffix"
        raise InputError(f"{named}, which names no format; use one of {', '.join(SUFFIXES)}, or pass format=")
    if wanted == "png":
        content = png(draw(subject, "svg", marks=marks, runs=runs))
    else:
        content = draw(subject, wanted, marks=marks, runs=runs).encode()
    file.write_bytes(content)
    return file
