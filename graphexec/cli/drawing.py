"""The command `draw`: a machine, and runs drawn over it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from graphexec.cli.exit_codes import Debug, UsageError, exit_on_error, option
from graphexec.cli.files import write, write_bytes
from graphexec.errors import InputError

if TYPE_CHECKING:
    from graphexec.draw.model.picture import Picture
    from graphexec.draw.runs.records import Recording

_OUTPUT = "Output"
_OWN = "graphexec.executor:AGENT_EXECUTOR"

Format: TypeAlias = Literal["mermaid", "dot", "svg", "png", "html", "text"]


def draw(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:OBJECT]",
            help="A Graph, or an object whose .graph is one, such as an executor; also file.py:object, and a graph of "
            "LangGraph or pydantic-graph. The file is imported, and so run. Default: the machine of the run, else that "
            "of the built-in agent.",
            show_default=False,
        ),
    ] = None,
    *,
    run: Annotated[
        list[str] | None,
        option(
            None,
            "TRACE",
            "A run to draw over the machine: the file of graphexec run --record. Several are counted together.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            _OUTPUT,
            "FILE",
            "Write the picture to this file, not to stdout. The suffix sets the format: .svg, .png, .html, .mmd, .dot, "
            ".txt.",
            "--output",
            "-o",
        ),
    ] = None,
    output_format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="The format, instead of that of the file's suffix. Default without a file: mermaid. svg, png and html "
            "need graphexec-agents\\[draw].",
            rich_help_panel=_OUTPUT,
            show_default=False,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Draw a machine from its table, with its proof: loops that may not terminate are red, the paths to them orange."""
    with exit_on_error(debug=debug):
        from graphexec.cli.records import load_recording
        from graphexec.draw import render

        wanted = output_format or _chosen_format(output)
        if wanted == "png" and output is None and sys.stdout.isatty():
            raise UsageError("a PNG cannot be shown on a terminal; name a file: -o machine.png")
        runs = [load_recording(file) for file in run or ()]
        if target is None and runs:
            # The records have only the picture of the machine.
            content = render(_common_machine(runs), wanted, runs=runs)
        else:
            content = _draw_target(target or _OWN, runs, wanted)
        if output is not None:
            write_bytes(content, output, private=bool(runs))
        elif wanted == "png":
            sys.stdout.buffer.write(content)
        else:
            write(content.decode(), None)


def _chosen_format(output: Path | None) -> str:
    if output is None:
        return "mermaid"
    from graphexec.draw import format_of

    try:
        return format_of(output)
    except InputError as error:
        # The message ends with "or pass the format".
        raise UsageError(f"{error} with --format") from error


def _draw_target(target: str, runs: Sequence[Recording], output_format: str) -> bytes:
    """Draw the named machine, with a proof under the limits of the runs, or under its own if no run has limits."""
    from graphexec.cli.check_targets import drawn_at
    from graphexec.draw import render, subject_for
    from graphexec.draw.model.picture import Picture

    subject = drawn_at(target)
    if not isinstance(subject, Picture) and any(run.limits is not None for run in runs):
        return render(subject_for(subject.graph, None, runs), output_format, runs=runs)
    return render(subject, output_format, runs=runs)


def _common_machine(runs: Sequence[Recording]) -> Picture:
    """Return the machine that ran; if the limits of the runs differ, without the proof and the texts that differ."""
    machine = runs[0].machine
    if all(run.limits == runs[0].limits for run in runs):
        return machine
    lines = [{box.name: box.lines for box in run.machine.boxes} for run in runs]
    boxes = (
        replace(box, lines=tuple(line for line in box.lines if all(line in one.get(box.name, ()) for one in lines)))
        for box in machine.boxes
    )
    arrows = (replace(arrow, limits=None) for arrow in machine.arrows)
    return replace(machine, boxes=tuple(boxes), arrows=tuple(arrows), caption=())
