"""How the command line ends: its exit codes, and one readable line for what went wrong."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, TextIO

import typer

from graphexec.cli.terminal import clean, let_go
from graphexec.errors import InputError, LimitsError, ToolDefinitionError

ANSWERED = 0
FAILED = 1
USAGE = 2
STOPPED = 3
# Of `check`: some run may not end, and it is not shown that one does not.
UNPROVED = 3
INTERRUPTED = 130
# What a shell reports of a program that wrote to a closed pipe: 128 + SIGPIPE.
READER_GONE = 141

# The option of every command.
Debug = Annotated[
    bool,
    typer.Option("--debug", envvar="GRAPHEXEC_DEBUG", help="Show the traceback of an error.", rich_help_panel="Output"),
]


class UsageFault(Exception):
    """What was typed cannot be meant: options that exclude each other, or a name that nothing has.

    `each` are several things that are wrong there, which have lines of their own.
    """

    def __init__(self, text: str, *, each: Sequence[str] = ()) -> None:
        self.text = text
        self.each = tuple(each)
        super().__init__(f"{text}: {'; '.join(each)}" if each else text)


def code_of(error: Exception) -> int:
    """The exit code of an error: 2 if the command line caused it, else 1."""
    return USAGE if isinstance(error, (UsageFault, InputError, LimitsError, ToolDefinitionError)) else FAILED


def line_of(error: BaseException) -> str:
    """One line that says what went wrong; an error that is not graphexec's own has its class before it."""
    text = _flat(str(error))
    own = isinstance(error, UsageFault) or type(error).__module__.partition(".")[0] == "graphexec"
    return text if own and text else f"{type(error).__name__}: {text}" if text else type(error).__name__


def _flat(text: str) -> str:
    return " ".join(clean(text).split())


def tell(error: BaseException, *, debug: bool) -> None:
    """Print an error as one line, and one for each of its parts; with its traceback before it in `debug`."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, UsageFault) and error.each:
        lines = (f"graphexec: {_flat(error.text)}:", *(f"  {_flat(one)}" for one in error.each))
        print(*lines, sep="\n", file=sys.stderr)
    else:
        print(f"graphexec: {line_of(error)}", file=sys.stderr)


def tell_json(error: BaseException, code: int, out: TextIO) -> None:
    """Print an error, of before there was a run, as the only record of `--json`."""
    described = {"type": type(error).__name__, "message": line_of(error)}
    status = {USAGE: "usage", INTERRUPTED: "interrupted"}.get(code, "error")
    print(
        json.dumps({"event": "result", "status": status, "exit_code": code, "error": described}), file=out, flush=True
    )


@contextmanager
def ending_in_one_line(*, debug: bool, json_to: TextIO | None = None) -> Generator[None]:
    """Turn an error into one line (or one record) and its exit code."""
    try:
        yield
    except typer.Exit:
        raise
    except BrokenPipeError as error:
        # Before typer sees it, which would exit with 1.
        let_go()
        raise typer.Exit(READER_GONE) from error
    except KeyboardInterrupt as error:
        # Before there was a run, or while weights were fetched. A run's own interruption is its watcher's.
        if json_to is None:
            print("graphexec: interrupted", file=sys.stderr)
        else:
            tell_json(error, INTERRUPTED, json_to)
        raise typer.Exit(INTERRUPTED) from error
    except Exception as error:
        code = code_of(error)
        if json_to is None:
            tell(error, debug=debug)
        else:
            tell_json(error, code, json_to)
        raise typer.Exit(code) from error
