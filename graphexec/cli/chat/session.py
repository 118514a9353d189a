"""A chat: the turns of a conversation, and the slash commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from graphexec.cli.chat.display import TurnDisplay
from graphexec.cli.check_targets import parse_limits
from graphexec.cli.exit_codes import ANSWERED, UsageError, code_of, print_error
from graphexec.cli.files import write
from graphexec.cli.records import RunRecorder
from graphexec.cli.runs.building import NamedExecutor, apply_limits
from graphexec.cli.runs.loop import RunSetup, follow
from graphexec.cli.runs.options import make_memory
from graphexec.cli.runs.question import name_inputs
from graphexec.cli.screen import print_table
from graphexec.cli.terminal import clean, print_path, write_utf8
from graphexec.cli.viewing import make_temporary_file
from graphexec.draw.runs.data import limits_data
from graphexec.draw.runs.records import Recording
from graphexec.errors import did_you_mean
from graphexec.messages.observations import format_observation


class Chat:
    """A conversation with an executor, whose other inputs are `given`.

    For an executor without a memory the chat keeps the turns, in the `file` if one is named. `recording` is that of the
    last run. When the chat has `ended`, no more messages are read. Raises `UsageError` for an executor that takes other
    inputs and for a file that cannot be used.
    """

    def __init__(self, named: NamedExecutor, file: Path | None, given: Mapping[str, str], *, debug: bool) -> None:
        self.executor = executor = named.executor
        self.ended = False
        self.recording: Recording | None = None
        self._kept = make_memory(executor.agent, file) if executor.memory is None else None
        self.memory = self._kept if executor.memory is None else executor.memory
        known = {**given, **({} if self._kept is None else {self._kept.key: ""})}
        [self._question] = name_inputs(executor, "", known, named.target or "the agent").keys() - known
        self._given = given
        self._named = named
        self._debug = debug

    def answer(self, line: str) -> int:
        """Answer a message, or run a slash command; return the exit code that it alone would have."""
        try:
            if line.startswith("/") and not line.startswith("//"):
                self._run_command(line)
            elif line:
                # Of two slashes at the beginning of a message, the model gets the second.
                return self._ask(line.removeprefix("/"))
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - a memory may raise anything, and the chat goes on
            print_error(error, debug=self._debug)
            return code_of(error)
        return ANSWERED

    def _ask(self, message: str) -> int:
        inputs: dict[str, object] = {**self._given, self._question: message}
        if self._kept is not None:
            inputs |= self._kept.load(inputs)
        named, recorder, display = self._named, RunRecorder(), TurnDisplay(self.executor, sys.stdout, sys.stderr)
        setup = RunSetup(inputs, self.executor, named.model, named.agent, tokens=True)
        code = follow(setup, [recorder, display], debug=self._debug)
        self.recording = recorder.recording
        # All of a turn is saved, or nothing of it.
        if self._kept is not None and display.ending is not None:
            try:
                self._kept.save({self._kept.input_key: message}, {"output": format_observation(display.ending.output)})
            except Exception:
                print("graphexec: this turn is not remembered:", file=sys.stderr)
                raise
        return code

    def _run_command(self, line: str) -> None:
        name, _, arguments = line.partition(" ")
        if name not in COMMANDS:
            near = did_you_mean(name, COMMANDS, "see /help, or write two slashes to send this as a message")
            raise UsageError(f"there is no command {name}; {near}")
        taken, _, command = COMMANDS[name]
        if arguments and not taken:
            raise UsageError(f"{name} takes no arguments; write {name} alone, or begin a message with two slashes")
        command(self, arguments.strip())


def _print_help(_chat: Chat, _arguments: str) -> None:
    rows = ((f"{name} {arguments}".rstrip(), description) for name, (arguments, description, _) in COMMANDS.items())
    print_table(("command", "what it does"), rows, sys.stdout)


def _draw_machine(chat: Chat, _arguments: str) -> None:
    from graphexec.draw import draw

    write_utf8(draw(chat.executor.verify(), "text"), sys.stdout)


def _write_page(chat: Chat, name: str) -> None:
    from graphexec.draw.page import html

    if chat.recording is None:
        raise UsageError("/page: there is no run yet; ask something first")
    file = Path(name).expanduser() if name else make_temporary_file()
    write(html(chat.recording.machine, chat.recording), file, private=True)
    print_path(file, sys.stdout)


def _show_limits(chat: Chat, assignments: str) -> None:
    if assignments:
        chat.executor = apply_limits(chat.executor, parse_limits(None, assignments.split()) or {})
    verdict, limits = chat.executor.verify(), limits_data(chat.executor.limits, ())
    spent = ((chat.recording and chat.recording.result) or {}).get("spent", {})
    bounds = dict(() if verdict.bounds is None else verdict.bounds.rows())
    columns = (limits | limits.pop("budgets"), bounds, spent | spent.get("budgets", {}))
    names = dict.fromkeys((*columns[0], *bounds))
    rows = [[name, *(_amount(column.get(name, "")) for column in columns)] for name in names]
    print_table(("", "limit", "proved: at most", "the last run"), rows, sys.stdout)
    print("Every run ends: this is proved." if verdict.proved else f"Not proved: {verdict.why}", file=sys.stdout)


def _amount(value: object) -> str:
    return "none" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _list_tools(chat: Chat, _arguments: str) -> None:
    rows = ((clean(tool.signature), clean(tool.description).strip()) for tool in chat.executor.tools.values())
    print_table(("tool", "what it does"), rows, sys.stdout)


def _clear(chat: Chat, _arguments: str) -> None:
    clear = getattr(chat.memory, "clear", None)
    if clear is None:
        raise UsageError("/clear: the executor has no memory with a method clear; start a new chat")
    clear()
    print("The conversation is forgotten", file=sys.stderr)


def _quit(chat: Chat, _arguments: str) -> None:
    chat.ended = True


# The arguments of each command, its description, and its function of the chat and the arguments.
COMMANDS: Mapping[str, tuple[str, str, Callable[[Chat, str], None]]] = {
    "/help": ("", "List these commands.", _print_help),
    "/machine": ("", "Draw the state machine of the agent, with its proof.", _draw_machine),
    "/page": ("[FILE]", "Write the page of the last run to a file, and print its path.", _write_page),
    "/limits": ("[NAME=N ...]", "Show limits, proof and spending of a run; or change limits.", _show_limits),
    "/tools": ("", "List the tools.", _list_tools),
    "/clear": ("", "Forget the conversation; with --memory, empty its file.", _clear),
    "/quit": ("", "Leave; so does Ctrl-D.", _quit),
}
