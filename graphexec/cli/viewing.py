"""The command `view`: a run as a page, as text, or live while it happens; two runs side by side, or a folder."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import webbrowser
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from graphexec.cli.exit_codes import Debug, Terminated, UsageError, exit_on_error, option
from graphexec.cli.files import write
from graphexec.cli.runs.termination import terminable
from graphexec.cli.screen import Screen
from graphexec.cli.terminal import ASCII, print_path, symbols_for

# Columns of a timeline: the width without a terminal, and the minimum.
_WIDTH, _LEAST = 100, 40

# The suffixes of a file for each view.
_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "page": (".html", ".htm"),
    "timeline": (".txt",),
    "sequence": (".mmd", ".mermaid"),
}

_VIEWS, _LIVE, _OUTPUT = "Other views", "Live view", "Output"


def view(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE",
            help="The file of graphexec run --record, or the output of --json; - is the standard input. Of two, one "
            "page shows both runs side by side. Of a folder, it lists all runs that were recorded in it.",
            show_default=False,
        ),
    ],
    *,
    timeline: Annotated[
        bool,
        typer.Option(
            "--timeline",
            help="Print the nodes with their times, as text; with -o, a .txt file.",
            rich_help_panel=_VIEWS,
        ),
    ] = False,
    sequence: Annotated[
        bool,
        typer.Option(
            "--sequence",
            help="Print the requests and replies as a Mermaid sequence diagram; with -o, a .mmd file.",
            rich_help_panel=_VIEWS,
        ),
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Serve the page to this computer, and follow the file as it is written, until Ctrl-C. The address has "
            "a token, without which nobody can read it. The file may not exist yet. The page can go on from a step, as "
            "graphexec replay does; name your own executor for that behind the file, as my_agent.py:executor, which is "
            "imported, and so run. Needs graphexec-agents\\[live].",
            rich_help_panel=_LIVE,
        ),
    ] = False,
    port: Annotated[
        int | None,
        option(_LIVE, "N", "The port for --live. Default: a free one.", min=0, max=65535),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            _OUTPUT,
            "FILE",
            "Write to this file, an .html for the page. Default: a temporary file for the page, stdout for text.",
            "--output",
            "-o",
        ),
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not open the browser.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: Debug = False,
) -> None:
    """Show a run, compare two, or list a folder of them: write the page, open it in the browser, and print its path."""
    with exit_on_error(debug=debug):
        views = [name for name, wanted in (("timeline", timeline), ("sequence", sequence), ("live", live)) if wanted]
        if len(views) > 1:
            raise UsageError(f"--{views[0]} and --{views[1]} exclude each other; leave one out")
        if port is not None and not live:
            raise UsageError("--port needs --live; add --live")
        _check_count(traces, views)
        trace = traces[0]
        folder = len(traces) == 1 and not live and Path(trace).is_dir()
        if folder and views:
            raise UsageError(f"{trace} is a folder, and --{views[0]} shows one run; name a trace in it")
        if live:
            if output is not None:
                raise UsageError("--live cannot write a file; leave out -o")
            with terminable():
                _serve(trace, traces[1] if len(traces) > 1 else None, port or 0, opened=not no_open)
            return
        if output is not None:
            _check_suffix(trace, views[0] if views else "page", output)
        if folder:
            from graphexec.cli.records import load_folder
            from graphexec.draw.page.index import index

            title = f"Runs in {Path(trace).resolve().name}"
            _show_page(index(title, load_folder(Path(trace))), output, opened=not no_open)
            return
        from graphexec.cli.records import load_recording

        recording = load_recording(trace)
        if len(traces) > 1:
            from graphexec.draw.page.comparison import comparison

            other = load_recording(traces[1])
            _show_page(comparison(recording, other, _names_of(traces)), output, opened=not no_open)
        elif timeline:
            from graphexec.draw.runs.timeline import timeline as draw_timeline

            symbols = symbols_for(sys.stdout)
            width = max(Screen(sys.stdout).width, _LEAST) if output is None and sys.stdout.isatty() else _WIDTH
            write(
                draw_timeline(recording, width=width, ascii_only=output is None and symbols is ASCII),
                output,
                private=True,
            )
        elif sequence:
            from graphexec.draw import sequence_mermaid

            write(sequence_mermaid(recording), output, private=True, data=True)
        else:
            from graphexec.draw.page import html

            _show_page(html(recording.machine, recording), output, opened=not no_open)


def _check_count(traces: Sequence[str], views: Sequence[str]) -> None:
    if len(traces) == 1 or (views == ["live"] and len(traces) == 2 and _is_target(traces[1])):  # noqa: PLR2004 - as below
        return
    if views:
        raise UsageError(f"--{views[0]} shows one run; name one trace, or leave out --{views[0]} to compare two")
    if len(traces) > 2:  # noqa: PLR2004 - a page compares two runs
        raise UsageError(f"{len(traces)} traces are named; name one to show its run, or two to compare theirs")
    if traces == ["-", "-"]:
        raise UsageError("the standard input can only be read once; name a file to compare it with")


def _is_target(word: str) -> bool:
    from graphexec.cli.runs.question import split_words

    # A name that ends as a file's gets the error of a missing file.
    return word.endswith(".py") or split_words([word])[0] is not None


def _names_of(traces: Sequence[str]) -> tuple[str, str]:
    """Return the names of two files on a page: the last parts of their paths, or all if those are equal."""
    one, other = ("standard input" if trace == "-" else Path(trace).name for trace in traces)
    return (one, other) if one != other else (traces[0], traces[1])


def _show_page(page: str, output: Path | None, *, opened: bool) -> None:
    place = make_temporary_file() if output is None else output
    write(page, place, private=True)
    print_path(place, sys.stdout)
    if opened:
        open_in_browser(place.resolve().as_uri())


def _check_suffix(trace: str, view: str, output: Path) -> None:
    suffix = output.suffix.lower()
    if suffix in _SUFFIXES[view]:
        return
    from graphexec.draw import SUFFIXES

    remedies = ["name such a file"]
    for other, suffixes in _SUFFIXES.items():
        if suffix in suffixes:
            remedies.append(
                f"leave out --{view}" if other == "page" else f"pass --{other}{'' if view == 'page' else ' instead'}"
            )
    if suffix in SUFFIXES:
        remedies.append(f"draw the machine: graphexec draw --run {quote(trace)} -o {quote(str(output))}")
    needed = " or ".join(_SUFFIXES[view])
    raise UsageError(f"{output} does not have the suffix {needed} of a {view}; {', or '.join(remedies)}")


def _serve(trace: str, target: str | None, port: int, *, opened: bool) -> None:
    from graphexec.cli.runs.replaying import make_executor_source
    from graphexec.live import serving

    if trace == "-":
        raise UsageError("the standard input cannot be followed; name the file that graphexec run --record writes")
    if Path(trace).is_dir():
        raise UsageError(f"{trace} is a folder; name the file that graphexec run --record writes")
    with serving(trace, port=port, executor=make_executor_source(trace, target)) as url:
        print(url, flush=True)
        pending = "" if Path(trace).exists() else ", which does not exist yet"
        print(f"graphexec: following {trace}{pending}; press Ctrl-C to stop", file=sys.stderr, flush=True)
        try:
            with _file_leading_to(url) if opened else nullcontext() as file:
                if file is not None:
                    open_in_browser(file.as_uri())
                while True:
                    time.sleep(3600)
        except Terminated:
            raise
        except KeyboardInterrupt:
            # The normal end of the command.
            return


@contextmanager
def _file_leading_to(url: str) -> Generator[Path]:
    """Make a file that leads to the address: every user of the computer can read a browser's command line."""
    from graphexec.live.tokens import page_leading_to

    file = make_temporary_file()
    try:
        file.write_text(page_leading_to(url), encoding="utf-8")
        yield file
    finally:
        file.unlink(missing_ok=True)


def make_temporary_file() -> Path:
    """Make a file that only this user can read. It stays: the browser may read it after this program has ended."""
    handle, name = tempfile.mkstemp(prefix="graphexec-", suffix=".html")
    os.close(handle)
    return Path(name)


def open_in_browser(address: str) -> None:
    """Open an address in the browser of this system, or print a note to stderr."""
    if not webbrowser.open(address):
        print("graphexec: cannot open a browser; open the address in yours", file=sys.stderr)
