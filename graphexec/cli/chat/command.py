"""The command `chat`, and the loop of its messages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import typer

from graphexec.cli.chat.session import COMMANDS, Chat
from graphexec.cli.exit_codes import ANSWERED, INTERRUPTED, Debug, Terminated, UsageError, exit_on_error
from graphexec.cli.runs.building import build_executor
from graphexec.cli.runs.parameters import AgentOptions, NamedInputs, Otel, OwnExecutor, with_agent_options
from graphexec.cli.runs.question import parse_inputs
from graphexec.cli.runs.servers import open_servers
from graphexec.cli.runs.termination import terminable
from graphexec.cli.screen import Screen
from graphexec.integrations.otel.exporting import exporting
from graphexec.memory import History


@with_agent_options
def chat(
    target: OwnExecutor = None,
    *,
    options: AgentOptions,
    named_input: NamedInputs = None,
    otel: Otel = False,
    debug: Debug = False,
) -> None:
    """Talk with an agent, which remembers the conversation.

    Answers appear as the model writes them. /help lists the commands of the
    chat, Ctrl-C interrupts an answer, and Ctrl-D leaves. With --memory FILE the
    next chat goes on with this conversation. If the input is not a terminal,
    each line is a message, and the answers go to stdout.
    """
    with (
        exit_on_error(debug=debug),
        terminable(),
        exporting(enabled=otel),
        open_servers(options.mcp or (), approved=bool(options.yes)) as servers,
    ):
        # A chat keeps the conversation of an executor without a memory, so a file is for that one, too.
        chosen = replace(options, target=target, memory=None if target else options.memory)
        named = build_executor(chosen, servers)
        if target and options.memory and named.executor.memory is not None:
            raise UsageError(f"--memory: {target} has its own memory; leave it out, or change {target}")
        session = Chat(named, options.memory, parse_inputs(named_input or ()), debug=debug)
        # Last: a download may take minutes, and wrong usage is reported before it.
        named.fetch_weights()
        named.executor.check_access()
        # What is not text must not end the chat, and a program may have no standard input at all.
        if reconfigure := getattr(sys.stdin, "reconfigure", None):
            reconfigure(encoding="utf-8-sig", errors="replace")
        interactive = getattr(sys.stdin, "isatty", bool)()
        read = prompt(session, f"{named.model}, {named.agent} agent") if interactive else iter(sys.stdin or ()).__next__
        if code := converse(session, read, interactive=interactive):
            raise typer.Exit(code)


def prompt(session: Chat, title: str) -> Callable[[], str]:
    """Greet a person, and return a function that reads a message; the arrow up shows earlier ones."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.output import create_output

    history: History | None = getattr(session.memory, "history", None)
    earlier = [] if history is None else [turn.input for turn in history.turns()]
    known = "takes no earlier messages" if session.memory is None else f"remembers turns: {len(earlier)}"
    Screen(sys.stderr).print(f"{title}, {known}; write a message, or /help. Ctrl-D leaves.", style="dim")
    return PromptSession[str](
        "> ",
        history=InMemoryHistory(earlier),
        completer=WordCompleter([*COMMANDS], sentence=True),
        complete_while_typing=False,
        # Ctrl-X Ctrl-E, for a message of several lines.
        enable_open_in_editor=True,
        # The answers may go to a file.
        output=None if sys.stdout.isatty() else create_output(sys.stderr),
    ).prompt


def converse(session: Chat, read: Callable[[], str], *, interactive: bool) -> int:
    """Answer messages until they end. Return the exit code: of a file or a pipe, the first that is not 0."""
    code = ANSWERED
    while not session.ended:
        try:
            last = session.answer(read().strip())
        except (EOFError, StopIteration):
            break
        except KeyboardInterrupt as error:
            if not interactive or isinstance(error, Terminated):
                raise
            print("(Ctrl-D or /quit leaves)", file=sys.stderr, flush=True)
            continue
        if last > 128 and not (interactive and last == INTERRUPTED):  # noqa: PLR2004 - a signal ended the run
            return last
        code = code or last
    return ANSWERED if interactive else code
