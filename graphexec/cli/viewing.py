"""The command that shows a run: as a page, as text, or live while it happens."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from graphexec.cli.exit_codes import Debug, UsageError, ending_in_one_line, option, write
from graphexec.cli.terminal import ASCII, Screen, symbols_for

# Columns of a timeline: of one that is no terminal's, and the least that its rows need.
_WIDTH, _LEAST = 100, 40

# The suffixes of a file for each way to look at a run.
_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "page": (".html", ".htm"),
    "timeline": (".txt",),
    "sequence": (".mmd", ".mermaid"),
}

_SHOWN, _LIVE, _OUTPUT = "Instead of the page", "While it happens", "Output"


def view(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="What graphexec run --record wrote, or --json printed; - is the standard input.",
            show_default=False,
        ),
    ],
    *,
    timeline: Annotated[
        bool,
        typer.Option("--timeline", help="Print when it was where, as text; -o takes a .txt.", rich_help_panel=_SHOWN),
    ] = False,
    sequence: Annotated[
        bool,
        typer.Option(
            "--sequence",
            help="Print who asked whom, as a Mermaid diagram; -o takes a .mmd.",
            rich_help_panel=_SHOWN,
        ),
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Serve the page to this machine, and follow the file as it is written, until Ctrl-C. It need not be "
            "there yet. Needs graphexec-agents\\[live].",
            rich_help_panel=_LIVE,
        ),
    ] = False,
    port: Annotated[
        int | None,
        option(_LIVE, "N", "With --live: serve it there; without it, where a port is free.", min=0, max=65535),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            _OUTPUT,
            "FILE",
            "Write it there, a page to an .html; without it a page goes to a temporary file, and text to stdout.",
            "--output",
            "-o",
        ),
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not open the browser.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: Debug = False,
) -> None:
    """Look at a run: its page is opened in the browser, and its address printed."""
    with ending_in_one_line(debug=debug):
        ways = [name for name, wanted in (("timeline", timeline), ("sequence", sequence), ("live", live)) if wanted]
        if len(ways) > 1:
            raise UsageError(f"--{ways[0]} and --{ways[1]} are two ways to look at it; leave one out")
        if port is not None and not live:
            raise UsageError("--port is of a page that is served; add --live")
        if live:
            if output is not None:
                raise UsageError("--live writes no file; leave out -o")
            _serve(trace, port or 0, opened=not no_open)
            return
        if output is not None:
            _check_suffix(trace, ways[0] if ways else "page", output)
        from graphexec.cli.records import recording_at

        recording = recording_at(trace)
        if timeline:
            from graphexec.draw.runs.timeline import timeline as drawn

            signs = symbols_for(sys.stdout)
            width = max(Screen(sys.stdout).width, _LEAST) if output is None and sys.stdout.isatty() else _WIDTH
            write(drawn(recording, width=width, ascii_only=output is None and signs is ASCII), output)
        elif sequence:
            from graphexec.draw import sequence_mermaid

            write(sequence_mermaid(recording), output)
        else:
            from graphexec.draw.page import html

            page = html(recording.machine, recording)
            place = _make_temporary_file() if output is None else output
            write(page, place)
            print(place, flush=True)
            if not no_open:
                _open(place.resolve().as_uri())


def _check_suffix(trace: str, way: str, output: Path) -> None:
    suffix = output.suffix.lower()
    if suffix in _SUFFIXES[way]:
        return
    from graphexec.draw import SUFFIXES

    remedies = ["name such a file"]
    for other, theirs in _SUFFIXES.items():
        if suffix in theirs:
            remedies.append(
                f"leave out --{way}" if other == "page" else f"give --{other}{'' if way == 'page' else ' instead'}"
            )
    if suffix in SUFFIXES:
        remedies.append(f"draw the machine: graphexec draw --run {quote(trace)} -o {quote(str(output))}")
    raise UsageError(f"a {way} goes into {' or '.join(_SUFFIXES[way])}, not into {output}; {', or '.join(remedies)}")


def _serve(trace: str, port: int, *, opened: bool) -> None:
    from graphexec.live import serving

    if trace == "-":
        raise UsageError("the standard input cannot be followed; name the file that graphexec run --record writes")
    if Path(trace).is_dir():
        raise UsageError(f"{trace} is a folder; name the file that graphexec run --record writes")
    with serving(trace, port=port) as url:
        print(url, flush=True)
        begun = "" if Path(trace).exists() else ", as soon as it is there"
        print(f"graphexec: following {trace}{begun}; Ctrl-C ends it", file=sys.stderr, flush=True)
        if opened:
            _open(url)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            # How it ends.
            return


def _make_temporary_file() -> Path:
    """A file that stays: the browser may read it when this program is gone."""
    handle, name = tempfile.mkstemp(prefix="graphexec-", suffix=".html")
    os.close(handle)
    return Path(name)


def _open(address: str) -> None:
    if not webbrowser.open(address):
        print("graphexec: no browser can be opened from here; open the address in yours", file=sys.stderr)
