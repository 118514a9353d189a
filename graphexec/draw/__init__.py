"""Pictures of machines, generated from the transition table, with the proof and with runs drawn over them.

`draw` returns a picture as text, `save` writes it to a file; `machine.draw(path)`, `executor.draw(path)` and
`result.draw(path)` call them. The text formats need only the core; SVG, PNG and HTML need the extra `draw`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from graphexec._mistakes import explain_names
from graphexec.draw.formats.dot import dot
from graphexec.draw.formats.mermaid import mermaid
from graphexec.draw.formats.svg import png, svg
from graphexec.draw.formats.terminal import terminal
from graphexec.draw.model.picture import COLOURS, Mark, Marks, Picture, marks_of, picture_of
from graphexec.draw.page import html
from graphexec.draw.runs.overlay import overlay_runs
from graphexec.draw.runs.recorder import AnyRun, HasJournal, Recorder, recording_of
from graphexec.draw.runs.records import Recording
from graphexec.errors import InputError, did_you_mean
from graphexec.kernel.events import Journal
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.meters import Limits
from graphexec.runtime.files import open_private, write_all
from graphexec.verify.proof.findings import Verdict
from graphexec.verify.proof.prove import verify

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "AnyRun",
    "Mark",
    "Marks",
    "Picture",
    "Recorder",
    "Recording",
    "draw",
    "format_of",
    "marks_of",
    "picture_of",
    "png",
    "recording_of",
    "render",
    "save",
    "subject_for",
]

# The subject of a picture: a machine, its proof, or a `Picture` such as `recording.machine`.
Subject: TypeAlias = Graph[Any, Any] | Verdict | Picture


# The layout of a machine with more edges may take many seconds, at each display of a notebook's cell.
MOST_EDGES = 150

# The text formats by their names.
FORMATS: Mapping[str, Callable[[Picture], str]] = MappingProxyType(
    {
        "mermaid": mermaid,
        "dot": dot,
        "text": terminal,
        "svg": svg,
        "html": html,
    }
)

# The format for each suffix of a file.
SUFFIXES: Mapping[str, str] = MappingProxyType(
    {
        ".mmd": "mermaid",
        ".mermaid": "mermaid",
        ".dot": "dot",
        ".gv": "dot",
        ".txt": "text",
        ".svg": "svg",
        ".html": "html",
        ".htm": "html",
        ".png": "png",
    }
)


# `format` is the standard word, as in `format(graph, "dot")`.
def draw(
    subject: Subject,
    format: str,  # noqa: A002
    *,
    marks: Marks | None = None,
    runs: AnyRun | Iterable[AnyRun] = (),
) -> str:
    """Return the picture of a machine as text; of a verdict, `machine.verify(limits)`, with its bounds and findings.

    `marks` highlight edges: `marks_of(graph, findings)`, or a dict from edges to colours. `runs` are drawn over the
    machine: one run shows its path, several how often each edge was taken; an exception that ended a run counts as that
    run. An HTML page of one run has all its steps. A proof for other limits than those of the runs is omitted.

    Raises `InputError` for an unknown format, for a format whose extra `draw` is not installed, and for a run
    of another machine.
    """
    if format == "png":
        raise InputError("a PNG is binary; write draw.save(machine, 'flow.png'), or machine.draw('flow.png')")
    return render(subject, format, marks=marks, runs=runs).decode()


def render(
    subject: Subject,
    format: str,  # noqa: A002
    *,
    marks: Marks | None = None,
    runs: AnyRun | Iterable[AnyRun] = (),
) -> bytes:
    """Return the picture as the bytes of a file, like `draw`; `png` is a format here, too."""
    recordings = [recording_of(run) for run in _several(runs)]
    picture = _picture(subject, marks, recordings)
    if format not in (*FORMATS, "png"):
        hint = did_you_mean(format, (*FORMATS, "png"), f"there are {', '.join(FORMATS)}, and png for files")
        raise InputError(f"a graph cannot be drawn as {format}; {hint}")
    shown = overlay_runs(picture, recordings)
    if format == "html" and len(recordings) == 1:
        # The page itself draws the run over the machine, step by step.
        return html(picture, recordings[0]).encode()
    return png(svg(shown)) if format == "png" else FORMATS[format](shown).encode()


def save(
    subject: Subject,
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    marks: Marks | None = None,
    runs: AnyRun | Iterable[AnyRun] = (),
) -> Path:
    """Write the picture to a file and return its path; the suffix gives the format (`SUFFIXES`) unless `format` does.

    Only its owner may read a new file that shows `runs`. Raises as `draw` does, `InputError` for an unknown suffix, and
    `OSError` if the file cannot be written.
    """
    file = Path(path)
    shown = _several(runs)
    content = render(subject, format or format_of(file), marks=marks, runs=shown)
    with FileIO(file, "wb", opener=open_private if shown else None) as out:
        write_all(out, content)
    return file


def format_of(file: Path) -> str:
    """Return the format for a file's suffix. Raises `InputError` for an unknown suffix."""
    if file.suffix.lower() in SUFFIXES:
        return SUFFIXES[file.suffix.lower()]
    fact = f"the suffix {file.suffix} of {file.name} is unknown" if file.suffix else f"{file.name} has no suffix"
    raise InputError(f"{fact}; use one of {', '.join(SUFFIXES)}, or pass the format")


def subject_for(
    graph: Graph[Any, Any], limits: Limits | None, runs: AnyRun | Iterable[AnyRun] = ()
) -> Graph[Any, Any] | Verdict:
    """Return the verdict on a machine under these limits or, without any, under those of its runs.

    Runs with different limits share no proof: then the machine alone is returned.
    """
    if limits is not None:
        return verify(graph, limits)
    known = [one for run in _several(runs) if (one := recording_of(run).limits) is not None]
    if any(one != known[0] for one in known):
        return graph
    return verify(graph, known[0] if known else None)


def _picture(subject: Subject, marks: Marks | None, recordings: Iterable[Recording]) -> Picture:
    if isinstance(subject, Picture):
        return subject
    # Users without a type checker pass executors.
    if not isinstance(subject, Verdict):
        require_graph(subject, "draw(executor.verify(), ...), or executor.draw('flow.svg')")
    elif any(one.limits not in (None, subject.limits) for one in recordings):
        subject = subject.graph
    for edge, mark in (marks or {}).items():
        if mark not in COLOURS:
            raise InputError(f"{edge} is marked {mark!r}; use one of {', '.join(COLOURS)}")
    return picture_of(subject, marks)


def _several(runs: AnyRun | Iterable[AnyRun]) -> Sequence[AnyRun]:
    if isinstance(runs, (HasJournal, Journal, Recording, Recorder, BaseException)):
        return [runs]
    return list(runs)


def notebook_picture(verdict: Verdict, plain: str) -> dict[str, str]:
    """Return the picture of a machine with its proof, as SVG, in a MIME bundle for IPython; `plain` is its `repr`.

    Without the extra `draw`, and for a machine with more than `MOST_EDGES` edges, it is Mermaid, for notebooks that
    render it, and a drawing of characters that says how to get the picture.
    """
    picture = picture_of(verdict)
    count = len(verdict.graph.edges)
    reason = f"{count:,} edges are too many for a picture here; write it to a file with .draw('flow.svg')"
    if count <= MOST_EDGES:
        try:
            return {"image/svg+xml": svg(picture), "text/plain": plain}
        except InputError as error:
            reason = str(error)
    return {"text/vnd.mermaid": mermaid(picture), "text/plain": f"{terminal(picture)}{reason}"}


if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
