"""The exit codes of the command line, and its errors on one line."""

from __future__ import annotations

import json
import signal
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

import typer

from graphexec.cli.terminal import clean, discard_streams
from graphexec.errors import InputError, LimitsError, MissingHandlerError, Portable, ToolDefinitionError

ANSWERED = 0
FAILED = 1
USAGE = 2
STOPPED = 3
# A stored run waits for answers.
WAITING = 4
# Only `check`: termination is neither proved nor refuted.
UNPROVED = 3
INTERRUPTED = 130
# The exit code of a program that wrote to a closed pipe: 128 + SIGPIPE.
READER_GONE = 141


# Any: as in typer.
def option(panel: str | None, metavar: str | None, text: str, *names: str, **settings: Any) -> Any:
    """Describe an option for the help, without its default."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, show_default=False, **settings)


# The option of every command.
Debug = Annotated[
    bool,
    typer.Option("--debug", envvar="GRAPHEXEC_DEBUG", help="Show the traceback of an error.", rich_help_panel="Output"),
]


# typer does not export this class: it is click's, or since typer 0.26 a copy of it.
TyperUsageError: Any = typer.BadParameter.__mro__[1]


class UsageError(Portable, Exception):
    """An invalid command line, such as an unknown name. `each` are its problems, printed on lines of their own."""

    def __init__(self, text: str, *, each: Sequence[str] = ()) -> None:
        self.text = text
        self.each = tuple(each)
        super().__init__(f"{text}: {'; '.join(each)}" if each else text)


class Terminated(KeyboardInterrupt):
    """A signal such as SIGTERM ends the command. `number` is the signal's, `code` the exit code: 128 and the number."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)

    def __str__(self) -> str:
        return f"terminated by {self.name}"

    @property
    def name(self) -> str:
        """The name of the signal."""
        return signal.Signals(self.number).name

    @property
    def code(self) -> int:
        """The exit code of a command that this signal ended."""
        return 128 + self.number


def code_of(error: BaseException) -> int:
    """Return the exit code of an error: 2 if the command line caused it, 130 for Ctrl-C, that of a signal, else 1."""
    if isinstance(error, Terminated):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return USAGE if isinstance(error, (UsageError, InputError, LimitsError, ToolDefinitionError)) else FAILED


def error_line(error: BaseException) -> str:
    """Return the message of an error as one line; other libraries' errors have their class before it."""
    text = flatten(str(error))
    if isinstance(error, MissingHandlerError):
        kind = type(error.effect).__name__
        text = f"no handler answers {kind}; add one, or let the run wait for an answer: graphexec run --runs runs.db"
    own = isinstance(error, UsageError) or type(error).__module__.partition(".")[0] == "graphexec"
    return text if own and text else f"{type(error).__name__}: {text}" if text else type(error).__name__


def flatten(text: str) -> str:
    """Return text on one line, without what could control a terminal."""
    return " ".join(clean(text).split())


def print_error(error: BaseException, *, debug: bool) -> None:
    """Print an error on one line, and each of its problems on another; `debug` prints its traceback first."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, UsageError) and error.each:
        lines = (f"graphexec: {flatten(error.text)}:", *(f"  {flatten(one)}" for one in error.each))
        print(*lines, sep="\n", file=sys.stderr)
    else:
        print(f"graphexec: {error_line(error)}", file=sys.stderr)


def print_json_error(error: BaseException, code: int, out: TextIO) -> None:
    """Print an error that prevented the run as the only record of `--json`."""
    described = {"type": type(error).__name__, "message": error_line(error)}
    status = "interrupted" if isinstance(error, KeyboardInterrupt) else "usage" if code == USAGE else "error"
    print(
        json.dumps({"event": "result", "status": status, "exit_code": code, "error": described}), file=out, flush=True
    )


@contextmanager
def exit_on_error(*, debug: bool, json_to: TextIO | None = None) -> Generator[None]:
    """Print an error as one line (or one record) and exit with its code."""
    try:
        yield
    except typer.Exit:
        raise
    except BrokenPipeError as error:
        # typer itself would exit with 1.
        discard_streams()
        raise typer.Exit(READER_GONE) from error
    # `KeyboardInterrupt` comes from before the run; the displays handle interruptions of a run.
    except (Exception, KeyboardInterrupt) as error:
        code = code_of(error)
        if json_to is not None:
            print_json_error(error, code, json_to)
        elif isinstance(error, KeyboardInterrupt):
            print(f"graphexec: {error if isinstance(error, Terminated) else 'interrupted'}", file=sys.stderr)
        else:
            print_error(error, debug=debug)
        raise typer.Exit(code) from error
