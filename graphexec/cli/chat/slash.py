"""The slash commands of a chat."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from graphexec.cli.chat.session import Chat
from graphexec.cli.exit_codes import ANSWERED, UsageError, code_of, print_error
from graphexec.cli.files import write
from graphexec.cli.screen import Screen
from graphexec.cli.terminal import clean, encodable, print_path
from graphexec.cli.viewing import make_temporary_file, open_in_browser
from graphexec.draw.runs.data import limits_data, read_limits, spent_data
from graphexec.errors import did_you_mean
from graphexec.executor.executor import AgentExecutor
from graphexec.verify import UnprovedError


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command: its arguments, its description for the help, and its function of the chat and the arguments."""

    arguments: str
    description: str
    function: Callable[[Chat, Sequence[str]], None]


def is_command(message: str) -> bool:
    """Return whether a message is a slash command; two slashes stand for one that is not."""
    return message.startswith("/") and not message.startswith("//")


def unescape(message: str) -> str:
    """Return a message for the model: of two slashes at its beginning, the second."""
    return message[1:] if message.startswith("//") else message


def run_command(chat: Chat, line: str) -> int:
    """Run a slash command and return its exit code; an error is printed. `/quit` is none of these: it ends the loop."""
    try:
        command, arguments = _find(line)
        command.function(chat, arguments)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - an error of one command does not end the chat
        print_error(error, debug=chat.debug)
        return code_of(error)
    return ANSWERED


def _find(line: str) -> tuple[SlashCommand, Sequence[str]]:
    """Return the command of a line and its arguments. Raises `UsageError`."""
    name, _, rest = line.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise UsageError(_unknown(name))
    if rest.strip() and not command.arguments:
        raise UsageError(f"{name} takes no arguments; write {name} alone, or begin a message with two slashes")
    try:
        return command, shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"{name}: {error}; close the quotes") from error


# What other programs call these commands.
_OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("/exit", "/bye", "/q", "/stop"), "/quit"),
    **dict.fromkeys(("/new", "/reset", "/forget", "/restart"), "/clear"),
    **dict.fromkeys(("/h", "/?", "/commands"), "/help"),
    **dict.fromkeys(("/graph", "/draw", "/show"), "/machine"),
    **dict.fromkeys(("/view", "/trace", "/html", "/open"), "/page"),
    **dict.fromkeys(("/bounds", "/cost", "/usage", "/budget", "/set"), "/limits"),
}


def _unknown(name: str) -> str:
    meant = _OTHER_NAMES.get(name)
    otherwise = "see /help, or write two slashes to send this as a message"
    remedy = f"did you mean {meant}?" if meant else did_you_mean(name, tuple(COMMANDS), otherwise)
    return f"there is no command {name}; {remedy}"


def _print_help(chat: Chat, _arguments: Sequence[str]) -> None:
    table = _table()
    for name, command in COMMANDS.items():
        table.add_row(f"{name} {command.arguments}".rstrip(), command.description)
    screen = Screen(chat.out)
    screen.print(table)
    screen.print(
        "Any other line is a message to the agent. A line that ends with \\ continues on the next one, and several "
        'lines may stand between """ and """. Ctrl-C interrupts an answer, Ctrl-D leaves.',
        soft_wrap=not screen.is_terminal,
    )


def _draw_machine(chat: Chat, _arguments: Sequence[str]) -> None:
    from graphexec.draw import draw

    chat.out.write(encodable(draw(chat.executor.verify(), "text"), chat.out, drawn=True))


def _write_page(chat: Chat, arguments: Sequence[str]) -> None:
    files = [one for one in arguments if one != "--open"]
    if len(files) > 1 or any(one.startswith("-") for one in files):
        raise UsageError("/page takes one file and --open; write /page run.html, or quote a name with spaces")
    if chat.recording is None:
        raise UsageError("/page: there is no run yet; ask something first")
    from graphexec.draw.page import html

    page = html(chat.recording.machine, chat.recording)
    file = Path(files[0]).expanduser() if files else make_temporary_file()
    write(page, file, private=True)
    print_path(file, chat.out)
    if len(files) < len(arguments):
        open_in_browser(file.resolve().as_uri())


def _show_limits(chat: Chat, arguments: Sequence[str]) -> None:
    if arguments:
        chat.executor = _change_limits(chat.executor, arguments)
    verdict = chat.executor.verify()
    limits = limits_data(chat.executor.limits)
    limits |= limits.pop("budgets")
    bounds = {} if verdict.bounds is None else {name: str(bound) for name, bound in verdict.bounds.rows()}
    spent: dict[str, Any] = {} if chat.spent is None else dict(spent_data(chat.spent))
    spent |= spent.pop("budgets", {})
    table = _table("", "limit", "proved: at most", "the last run")
    for name in dict.fromkeys([*limits, *bounds]):
        row = (_amount(limits[name]) if name in limits else "", bounds.get(name, ""), _amount(spent.get(name, "")))
        table.add_row(name, *row)
    screen = Screen(chat.out)
    screen.print(table)
    proof = (
        "Every run ends: this is proved." if verdict.proved else f"It is not proved that every run ends: {verdict.why}"
    )
    screen.print(
        f"{proof} Change a limit with /limits iterations=30, or seconds=none for no limit.",
        soft_wrap=not screen.is_terminal,
    )


def _amount(value: float | str | None) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else f"{value:,.3f}".rstrip("0").rstrip(".")


def _change_limits(executor: AgentExecutor, assignments: Sequence[str]) -> AgentExecutor:
    limits = limits_data(executor.limits)
    budgets = limits["budgets"]
    names = [*(name for name in {**limits, **executor.graph.meters} if name != "budgets"), *budgets]
    for assignment in assignments:
        name, _, text = assignment.partition("=")
        # As the option is written.
        name = name.removeprefix("--").replace("-", "_").removeprefix("max_")
        if name not in names:
            near = did_you_mean(name, names, f"the limits are {', '.join(names)}")
            raise UsageError(f"/limits: there is no limit {name}; {near}")
        (budgets if name in budgets else limits)[name] = _parse_amount(name, text)
    try:
        return executor.with_limits(read_limits(limits))
    except UnprovedError as error:
        raise UsageError(
            "/limits: with these limits it is not proved that every run ends, so nothing was changed; keep a limit on "
            "iterations"
        ) from error


def _parse_amount(name: str, text: str) -> float | None:
    if text == "none":
        return None
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    raise UsageError(f"/limits: {name} needs a number; write {name}=10, or {name}=none for no limit")


def _list_tools(chat: Chat, _arguments: Sequence[str]) -> None:
    screen = Screen(chat.out)
    if not chat.executor.tools:
        screen.print("The agent has no tools.")
    for tool in chat.executor.tools.values():
        screen.print(Text(clean(tool.signature), "bold"), soft_wrap=not screen.is_terminal)
        table = _table()
        table.add_row("", Text(clean(tool.description).strip()))
        for name, schema in tool.parameters.get("properties", {}).items():
            # `true` is a schema, too.
            if isinstance(schema, dict) and "description" in schema:
                table.add_row("", Text(clean(f"{name}: {schema['description']}")))
        screen.print(table)


def _clear(chat: Chat, _arguments: Sequence[str]) -> None:
    chat.earlier.clear()
    file = "" if chat.earlier.file is None else f"; {chat.earlier.file} is empty"
    print(f"The conversation is forgotten{file}", file=sys.stderr)


def _quit(chat: Chat, _arguments: Sequence[str]) -> None:
    chat.ended = True


COMMANDS: Mapping[str, SlashCommand] = {
    "/help": SlashCommand("", "List these commands.", _print_help),
    "/machine": SlashCommand("", "Draw the state machine of the agent, with its proof.", _draw_machine),
    "/page": SlashCommand(
        "[FILE] [--open]",
        "Write the page of the last run to FILE, or to a temporary file, and print its path; --open shows it in the "
        "browser.",
        _write_page,
    ),
    "/limits": SlashCommand(
        "[NAME=N ...]",
        "Show the limits of each run, what is proved, and what the last run spent; or change limits.",
        _show_limits,
    ),
    "/tools": SlashCommand("", "List the tools with their arguments and descriptions.", _list_tools),
    "/clear": SlashCommand("", "Forget the conversation; with --memory, empty its file.", _clear),
    "/quit": SlashCommand("", "Leave; so does Ctrl-D.", _quit),
}


def _table(*headers: str) -> Table:
    table = Table(box=None, show_header=bool(headers), header_style="dim", padding=(0, 2, 0, 0))
    first, *others = headers or ("", "")
    # Names are not broken, whatever the width.
    table.add_column(first, no_wrap=bool(headers))
    for header in others:
        table.add_column(header, overflow="fold")
    return table
