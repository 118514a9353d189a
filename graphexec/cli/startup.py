"""From a process's arguments to its exit: what the commands leave over is ended here."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.main import get_command

from graphexec.cli.checking import checks
from graphexec.cli.commands import app
from graphexec.cli.exit_codes import FAILED, INTERRUPTED, READER_GONE, USAGE, print_json_error
from graphexec.cli.terminal import let_go, make_writable

app.add_typer(checks)

# typer exports no name for it; it is click's, or since 0.26 typer's own copy of it.
_UsageError: Any = typer.BadParameter.__mro__[1]

# pydantic, with which newer typers read values, puts this before what is wrong with a choice.
_OF_PYDANTIC = "Value error, "


def enter(arguments: Sequence[str]) -> None:
    """Run the command that `arguments` name, and exit with its code."""
    make_writable()
    try:
        code = _flush(_exit_code(arguments))
    except BrokenPipeError:
        let_go()
        code = READER_GONE
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _flush(code: int) -> int:
    """Write what is still to be written; return the exit code, which says so if output is lost."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError:
            # A full disk.
            let_go()
            code = code or (FAILED if stream is sys.stdout else code)
    return code


@functools.cache
def _command() -> Any:  # typer exports no name for click's class
    """Return the commands as click has them, which takes as long to make as some of them take."""
    return get_command(app)


def _exit_code(arguments: Sequence[str]) -> int:
    try:
        code = _command()(list(arguments), prog_name="graphexec", standalone_mode=False)
    except _UsageError as error:
        return _print_usage_error(error, arguments)
    except typer.Abort:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


# Any of the two classes that typer's errors can have; both have these.
def _print_usage_error(error: object, arguments: Sequence[str]) -> int:
    message = str(getattr(error, "format_message", lambda: error)()).replace(_OF_PYDANTIC, "", 1).rstrip(".")
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "graphexec")
    if not message:
        # No command was given: typer has printed the help.
        return USAGE
    if "--json" in arguments:
        fault = ValueError(message)
        print_json_error(fault, USAGE, sys.stdout)
    else:
        print(f"graphexec: {message}; see {command} --help", file=sys.stderr)
    return USAGE
