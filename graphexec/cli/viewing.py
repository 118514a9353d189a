"""The command `view`: a run as a page, or live while it happens."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from graphexec.cli.exit_codes import Debug, Terminated, UsageError, exit_on_error, option
from graphexec.cli.files import is_database, write
from graphexec.cli.runs.termination import terminable
from graphexec.cli.terminal import print_path

# The suffixes of a page.
_SUFFIXES = (".html", ".htm")

# The addresses of databases.
DATABASES = ("postgresql://", "postgres://")

_LIVE, _OUTPUT = "Live view", "Output"


def view(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE|STORE",
            help="The file of graphexec run --record, or the output of --json; - is the standard input. Or a store of "
            "runs: the file of --runs, or the address of a database, postgresql://...",
            show_default=False,
        ),
    ],
    *,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Serve the page to this computer, and follow the file as it is written, until Ctrl-C; a store always "
            "is. The address has a token, without which nobody can read it. The file may not exist yet. Needs "
            "graphexec-agents\\[live].",
            rich_help_panel=_LIVE,
        ),
    ] = False,
    port: Annotated[
        int | None,
        option(_LIVE, "N", "The port for --live and stores. Default: a free one.", min=0, max=65535),
    ] = None,
    output: Annotated[
        Path | None,
        option(_OUTPUT, "FILE", "Write to this .html file. Default: a temporary file.", "--output", "-o"),
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not open the browser.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: Debug = False,
) -> None:
    """Show a run: write its page, open it in the browser, and print its path.

    Of a store, all runs are served, with forms for their open questions.
    """
    with exit_on_error(debug=debug):
        stored = is_store(trace)
        if port is not None and not (live or stored):
            raise UsageError("--port needs --live; add --live")
        if live or stored:
            if output is not None:
                raise UsageError(f"{'a store' if stored else '--live'} cannot write a file; leave out -o")
            with terminable():
                if stored:
                    _serve_store(trace, port or 0, opened=not no_open)
                else:
                    _serve(trace, port or 0, opened=not no_open)
            return
        if output is not None and output.suffix.lower() not in _SUFFIXES:
            remedy = f"name such a file, or draw the machine: graphexec draw --run {quote(trace)}"
            raise UsageError(f"{output} does not have the suffix {' or '.join(_SUFFIXES)} of a page; {remedy}")
        from graphexec.cli.records import load_recording
        from graphexec.draw.page import html

        recording = load_recording(trace)
        place = make_temporary_file() if output is None else output
        write(html(recording.machine, recording), place, private=True)
        print_path(place, sys.stdout)
        if not no_open:
            open_in_browser(place.resolve().as_uri())


def _serve(trace: str, port: int, *, opened: bool) -> None:
    from graphexec.live import serving

    if trace == "-":
        raise UsageError("the standard input cannot be followed; name the file that graphexec run --record writes")
    if Path(trace).is_dir():
        raise UsageError(f"{trace} is a folder; name the file that graphexec run --record writes")
    with serving(trace, port=port) as url:
        pending = "" if Path(trace).exists() else ", which does not exist yet"
        _wait(url, f"following {trace}{pending}", opened=opened)


def is_store(target: str) -> bool:
    """Return whether a target is the address of a database, or a file of SQLite."""
    return target.startswith(DATABASES) or is_database(target)


def _serve_store(target: str, port: int, *, opened: bool) -> None:
    from graphexec.live import serving
    from graphexec.runs import PostgresRuns, SQLiteRuns

    database = target.startswith(DATABASES)
    if not database and not SQLiteRuns.is_store(target):
        raise UsageError(f"{target} is a database without runs; name the file of graphexec run --runs")
    with PostgresRuns(target) if database else SQLiteRuns(target) as store, serving(store, port=port) as url:
        # The address of a database may have a password.
        _wait(url, f"serving {'the database' if database else target}", opened=opened)


def _wait(url: str, state: str, *, opened: bool) -> None:
    """Print the address and the state of a server, open it in the browser, and wait for Ctrl-C."""
    print(url, flush=True)
    print(f"graphexec: {state}; press Ctrl-C to stop", file=sys.stderr, flush=True)
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
    from graphexec.live.application import page_leading_to

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
