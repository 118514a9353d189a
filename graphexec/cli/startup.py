"""Run the command of a process's arguments, handle the errors that commands do not, and exit."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer
from typer.main import get_command

from graphexec.cli.commands import app, load_command
from graphexec.cli.exit_codes import FAILED, INTERRUPTED, READER_GONE, USAGE, TyperUsageError, flatten, print_json_error
from graphexec.cli.terminal import discard_streams, make_writable
from graphexec.errors import HistoryWarning

# Newer versions of typer parse values with pydantic, which adds this prefix to messages.
_PYDANTIC_PREFIX = "Value error, "


def enter(arguments: Sequence[str]) -> None:
    """Run the command that `arguments` name, and exit with its code."""
    make_writable()
    _show_warnings()
    try:
        code = _flush(_exit_code(arguments))
    except BrokenPipeError:
        discard_streams()
        code = READER_GONE
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _show_warnings() -> None:
    """Print warnings about the user's files on one line; others stay as Python prints them."""
    show = warnings.showwarning

    # As in the module `warnings`.
    def show_warning(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
        if issubclass(category, HistoryWarning):
            print(f"graphexec: {flatten(str(message))}", file=sys.stderr)
        else:
            show(message, category, *place, **options)

    warnings.showwarning = show_warning


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


@functools.cache
def _command() -> Any:  # typer does not export click's class
    """Return the click command. Making it is slow, so it is cached."""
    return get_command(app)


def _exit_code(arguments: Sequence[str]) -> int:
    try:
        code = _command()(list(arguments), prog_name="graphexec", standalone_mode=False)
    except TyperUsageError as error:
        return _print_usage_error(error, arguments)
    except typer.Abort:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


# What to write for options that other programs have.
_OPTIONS = {
    "-m": "write --model",
    "--provider": "write it before the model, as in --model openai:gpt-5-mini",
    "--api-key": "set the variable of the provider, such as OPENAI_API_KEY",
    **dict.fromkeys(("--system-prompt", "--instructions", "--prompt"), "write --system"),
    **dict.fromkeys(("--history", "--session", "--resume", "--continue"), "write --memory FILE"),
    "--tool": "write --tools",
    "--images": "write --image for each",
    "--max-steps": "write --max-iterations",
    "--verbose": "leave it out, or write --debug for tracebacks",
    "--stream": "leave it out, or write --json for each event",
}


# The commands for those that other programs have.
_COMMANDS = {
    **dict.fromkeys(("trace", "show", "open", "timeline"), "view"),
    "compare": "view",
    **dict.fromkeys(("verify", "prove", "lint", "validate", "audit"), "check"),
    **dict.fromkeys(("plot", "graph", "diagram", "picture", "visualize", "diff"), "draw"),
    **dict.fromkeys(("talk", "repl", "shell"), "chat"),
    **dict.fromkeys(("start", "exec"), "run"),
    **dict.fromkeys(("download", "pull", "list"), "models"),
}
_MODEL_COMMANDS = {
    **dict.fromkeys(("download", "install", "get", "fetch", "add"), "pull"),
    **dict.fromkeys(("ls", "show", "installed"), "list"),
}


def _options_of_run() -> set[str]:
    return {option for parameter in load_command("run").params for option in parameter.opts}


def _find_remedy(error: object, message: str, command: str) -> str:
    """Return what to write instead, if typer's message does not say it."""
    name: str | None = getattr(error, "option_name", None) if message.startswith("No such option") else None
    if name == "-V":
        return "; write --version"
    if name is not None and command == "graphexec" and name in _options_of_run():
        return f'; write options after the command, as in graphexec run {name} ... "What is 37 * 48?"'
    if name in _OPTIONS:
        return f"; {_OPTIONS[name]}"
    if message.startswith("No such command") and "Did you mean" not in message:
        given = message.split("'")[1]
        meant = (_COMMANDS if command == "graphexec" else _MODEL_COMMANDS).get(given)
        if meant or command != "graphexec":
            return f"; did you mean {meant}?" if meant else ""
        return "" if given == "help" else '; to ask a question, write graphexec run "What is 37 * 48?"'
    if message.startswith("Got unexpected extra argument") and command == "graphexec chat":
        return "; write messages at the prompt of the chat"
    return ""


# The class of typer's errors depends on its version; each has these attributes.
def _print_usage_error(error: object, arguments: Sequence[str]) -> int:
    message = str(getattr(error, "format_message", lambda: error)()).replace(_PYDANTIC_PREFIX, "", 1).rstrip(".")
    # typer 0.26 prints a tuple.
    # A choice is printed on several lines.
    message = " ".join(message.split())
    message = message.replace("('(Possible options: ", "(Possible options: ").removesuffix("',)")
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "graphexec")
    if not message:
        # No command was given: typer has printed the help.
        return USAGE
    if remedy := _find_remedy(error, message, command):
        # Names that merely look alike would contradict it.
        message = message.partition(" (Possible options: ")[0] + remedy
    if "--json" in arguments:
        fault = ValueError(message)
        print_json_error(fault, USAGE, sys.stdout)
    else:
        print(f"graphexec: {message}; see {command} --help", file=sys.stderr)
    return USAGE
