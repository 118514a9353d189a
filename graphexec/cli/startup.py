"""Run the command of a process's arguments, handle the errors that commands do not, and exit."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

from graphexec.cli.commands import app
from graphexec.cli.exit_codes import FAILED, INTERRUPTED, READER_GONE, USAGE, TyperUsageError, print_json_error
from graphexec.cli.terminal import discard_streams, make_writable

# Newer versions of typer parse values with pydantic, which adds this prefix to messages.
_PYDANTIC_PREFIX = "Value error, "


def enter(arguments: Sequence[str]) -> None:
    """Run the command that `arguments` name, and exit with its code."""
    make_writable()
    try:
        code = _flush(_exit_code(arguments))
    except BrokenPipeError:
        discard_streams()
        code = READER_GONE
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _flush(code: int) -> int:
    """Flush the streams; return the exit code, which becomes an error if output is lost."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError:
            # The disk is full.
            discard_streams()
            code = code or (FAILED if stream is sys.stdout else code)
    return code


def _exit_code(arguments: Sequence[str]) -> int:
    try:
        code = get_command(app)(list(arguments), prog_name="graphexec", standalone_mode=False)
    except TyperUsageError as error:
        return _print_usage_error(error, arguments)
    except typer.Abort:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


# The class of typer's errors depends on its version; each has these attributes.
def _print_usage_error(error: object, arguments: Sequence[str]) -> int:
    message = str(getattr(error, "format_message", lambda: error)()).replace(_PYDANTIC_PREFIX, "", 1).rstrip(".")
    # A choice is printed on several lines, and options by typer 0.26 as a tuple.
    message = " ".join(message.split()).replace("('(Possible options: ", "(Possible options: ").removesuffix("',)")
    command = getattr(getattr(error, "ctx", None), "command_path", "graphexec")
    if not message:
        # No command was given: typer has printed the help.
        return USAGE
    if "--json" in arguments:
        print_json_error(ValueError(message), USAGE, sys.stdout)
    else:
        print(f"graphexec: {message}; see {command} --help", file=sys.stderr)
    return USAGE
