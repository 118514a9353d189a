"""The command that draws a machine, and runs over it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from graphexec.cli.exit_codes import Debug, UsageError, ending_in_one_line, option, write, write_bytes
from graphexec.errors import InputError

if TYPE_CHECKING:
    from graphexec.draw.model.picture import Picture
    from graphexec.draw.runs.records import Recording

_OUTPUT = "Output"
_OWN = "graphexec.executor:AGENT_EXECUTOR"

Format: TypeAlias = Literal["mermaid", "mermaid-state", "dot", "svg", "png", "html", "markdown", "text"]


def draw(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:OBJECT]",
            help="A Graph, or an object whose .graph is one, such as an executor; file.py:object works too. "
            "Without it, the machine of the run, else the agent's own.",
            show_default=False,
        ),
    ] = None,
    *,
    run: Annotated[
        list[str] | None,
        option(
            None, "TRACE", "A run to lay over the machine: what graphexec run --record wrote. Several make a heat map."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            _OUTPUT,
            "FILE",
            "Write it there, not to stdout. The suffix says the format: .svg, .png, .html, .mmd, .dot, .md, .txt.",
            "--output",
            "-o",
        ),
    ] = None,
    how: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="The format, whatever the file is called; mermaid without a file. svg, png and html need the extra "
            "graphexec-agents\\[draw].",
            rich_help_panel=_OUTPUT,
            show_default=False,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Draw a machine, made of its table, with its proof: loops without end are red, the ways to them orange."""
    with ending_in_one_line(debug=debug):
        from graphexec.cli.records import recording_at
        from graphexec.draw import render

        wanted = how or _chosen_format(output)
        if wanted == "png" and output is None and sys.stdout.isatty():
            raise UsageError("a PNG is nothing for a terminal; name a file: -o machine.png")
        runs = [recording_at(file) for file in run or ()]
        if target is None and runs:
            # Of the machine that ran there is nothing but the picture.
            content = render(_common_machine(runs), wanted, runs=runs)
        else:
            content = _draw_target(target or _OWN, runs, wanted)
        if output is not None:
            write_bytes(content, output)
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
        # It ends with "or say the format".
        raise UsageError(f"{error} with --format") from error


def _draw_target(target: str, runs: Sequence[Recording], how: str) -> bytes:
    """The machine that is named. Its proof is within the limits of the runs; its own count where no run has any."""
    from graphexec.cli.check_targets import verdict_at
    from graphexec.draw import render, subject_for

    verdict = verdict_at(target, None)
    unknown = all(run.limits is None for run in runs)
    return render(verdict if unknown else subject_for(verdict.graph, None, runs), how, runs=runs)


def _common_machine(runs: Sequence[Recording]) -> Picture:
    """The machine that ran. Of runs with different limits, without what only some of them say: they share no proof."""
    machine = runs[0].machine
    if all(run.limits == runs[0].limits for run in runs):
        return machine
    told = [{box.name: box.lines for box in run.machine.boxes} for run in runs]
    boxes = (
        replace(box, lines=tuple(line for line in box.lines if all(line in one.get(box.name, ()) for one in told)))
        for box in machine.boxes
    )
    arrows = (replace(arrow, limits=None) for arrow in machine.arrows)
    return replace(machine, boxes=tuple(boxes), arrows=tuple(arrows), caption=())
