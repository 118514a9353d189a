"""The command `chat`, and the loop of its messages."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer

from graphexec.cli.chat.reading import MessageReader, is_terminal, make_reader
from graphexec.cli.chat.session import Chat
from graphexec.cli.chat.slash import COMMANDS, is_command, run_command, unescape
from graphexec.cli.chat.turns import make_earlier_turns
from graphexec.cli.exit_codes import (
    ANSWERED,
    INTERRUPTED,
    Debug,
    Terminated,
    UsageError,
    exit_on_error,
    option,
)
from graphexec.cli.runs import parameters
from graphexec.cli.runs.building import AgentOptions, NamedExecutor, build_executor
from graphexec.cli.runs.question import parse_inputs, split_words
from graphexec.cli.runs.shared_options import with_agent_options
from graphexec.cli.runs.termination import terminable
from graphexec.cli.screen import Screen
from graphexec.cli.terminal import symbols_for
from graphexec.errors import GraphexecError


def _check_target(target: str | None) -> str | None:
    # A name that ends as a file's gets the error of a missing file.
    if target is not None and not target.endswith(".py") and split_words([target])[0] is None:
        raise typer.BadParameter(
            f"{target!r} is not an executor such as my_agent.py:executor; write messages at the prompt of graphexec "
            "chat, or ask one question with graphexec run"
        )
    return target


@with_agent_options
def chat(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="An executor of your own, as my_agent.py:executor or package.module:executor, or a function without "
            "parameters that makes one. The file is imported, and so run. Default: the built-in agent.",
            callback=_check_target,
            show_default=False,
        ),
    ] = None,
    *,
    options: AgentOptions,
    named_input: Annotated[
        list[str] | None,
        option(
            parameters.MODEL,
            "NAME=TEXT",
            "An input of your own executor that is not the message, the same for each. May be repeated.",
            "--input",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print no tool calls and no notices.", rich_help_panel="Output")
    ] = False,
    debug: Debug = False,
) -> None:
    """Talk with an agent, which remembers the conversation.

    Answers appear as the model writes them. /help lists the commands of the
    chat, Ctrl-C interrupts an answer, and Ctrl-D leaves. With --memory FILE the
    next chat goes on with this conversation. If the input is not a terminal,
    each line is a message, and the answers go to stdout.
    """
    with exit_on_error(debug=debug), terminable():
        # A chat keeps the conversation of an executor without a memory, so a file is for that one, too.
        built = replace(options, target=target, memory=None if target else options.memory)
        named = build_executor(built)
        if target and options.memory and named.executor.memory is not None:
            raise UsageError(f"--memory: {target} has its own memory; leave it out, or change {target}")
        given = parse_inputs(named_input or ())
        conversation = make_earlier_turns(named.executor, options.memory, given, target or "the agent")
        # Last: a download may take minutes, and wrong usage is reported before it.
        named.fetch_weights()
        _check_access(named)
        session = Chat(named, conversation, sys.stdout, sys.stderr, quiet=quiet, debug=debug)
        reader = make_reader(tuple(COMMANDS))
        interactive = is_terminal(sys.stdin)
        if interactive:
            _greet(session, named.model, named.agent)
        if code := (hold_chat if interactive else answer_lines)(session, reader):
            raise typer.Exit(code)


def hold_chat(session: Chat, reader: MessageReader) -> int:
    """Read messages from a person until they leave. Ctrl-C ends an answer or a line, and not the chat.

    Returns the exit code: 0, or that of the signal that ended the chat.
    """
    while not session.ended:
        try:
            message = reader.read()
            if message is None:
                # Ctrl-D leaves the cursor behind the prompt.
                print(file=sys.stderr)
                break
            code = _answer(session, message)
            if session.terminated:
                return code
        except Terminated:
            raise
        except KeyboardInterrupt:
            print("\n(Ctrl-D or /quit leaves)", file=sys.stderr, flush=True)
    return ANSWERED


def answer_lines(session: Chat, reader: MessageReader) -> int:
    """Answer the messages of a file or a pipe, and return the first exit code of a turn that is not 0."""
    code = ANSWERED
    while not session.ended and (message := reader.read()) is not None:
        ended = _answer(session, message)
        if ended == INTERRUPTED or session.terminated:
            return ended
        code = code or ended
    return code


def _answer(session: Chat, message: str) -> int:
    if not message:
        return ANSWERED
    if is_command(message):
        return run_command(session, message)
    return session.ask(unescape(message))


def _check_access(named: NamedExecutor) -> None:
    """Raise the error of a missing key or missing weights before the first message, not after it."""
    try:
        named.executor.check_access()
    except GraphexecError as error:
        raise named.explain(error) from error.__cause__


def _greet(session: Chat, model: str, agent: str) -> None:
    err = Screen(sys.stderr)
    tools = ", ".join(session.executor.tools) or "no tools"
    dot = symbols_for(sys.stderr).dot
    err.print(f"{model} {dot} {agent} agent {dot} {tools}", style="dim")
    conversation = session.earlier
    if conversation.memory is None:
        err.print("This agent takes no earlier messages: each question stands alone.", style="yellow")
    elif length := conversation.length:
        where = "" if conversation.file is None else f" in {conversation.file}"
        err.print(f"Continues the conversation{where}: {length} turn{'s' if length > 1 else ''}.", style="dim")
    err.print("Write a message, or /help for the commands. Ctrl-D leaves.", style="dim")
