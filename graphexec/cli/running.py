"""The command that runs an agent, and its options."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from graphexec.cli.exit_codes import ANSWERED, FAILED, Debug, ending_in_one_line, option, write_proof
from graphexec.cli.records import Records, records_in
from graphexec.cli.run_loop import RunDisplay, Setup, follow
from graphexec.cli.run_options import AgentName, chosen_memory, chosen_model, chosen_tools, fetch_weights, made_agent
from graphexec.cli.trace import AnswerPrinter, TracePrinter
from graphexec.executor.executor import AgentExecutor

_MODEL, _LIMITS, _KEPT, _OUTPUT = "Model and tools", "Limits", "Kept for the next time", "Output"


def _check_question(question: str) -> str:
    if not question.strip():
        raise typer.BadParameter("it is empty; write what you want to know, in quotes")
    return question


def _check_finite(seconds: float | None) -> float | None:
    if seconds is not None and not math.isfinite(seconds):
        raise typer.BadParameter("it is no number of seconds; leave the option out for no limit")
    return seconds


def run(  # noqa: PLR0913 - each is an option
    question: Annotated[
        str, typer.Argument(help="The question, in quotes.", callback=_check_question, show_default=False)
    ],
    *,
    model: Annotated[
        str | None,
        option(
            _MODEL,
            "NAME",
            "A model of an OpenAI-compatible server, or one that `graphexec models` lists. Without it a small "
            "local model answers, downloaded at first use.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        option(
            _MODEL,
            "URL",
            "The server's address, such as http://127.0.0.1:8080/v1. Without it OPENAI_BASE_URL, else OpenAI's; "
            "the key is OPENAI_API_KEY.",
        ),
    ] = None,
    retries: Annotated[
        int | None, option(_MODEL, "N", "How often a request that failed is sent again to a server; 2.", min=0)
    ] = None,
    gguf: Annotated[Path | None, option(_MODEL, "PATH", "A local model of your own, a GGUF file, instead.")] = None,
    agent: Annotated[
        AgentName | None,
        option(
            _MODEL,
            "NAME",
            "How the model decides: structured, tool_calling or react, or as LangChain's mrkl, conversational, "
            "chat, structured_chat, json_chat or xml. Without it structured for a local model, else tool_calling.",
        ),
    ] = None,
    trim: Annotated[
        int | None,
        option(_MODEL, "N", "Show the model the last N steps only, of a run that grows too long for it.", min=1),
    ] = None,
    tools: Annotated[
        list[str] | None,
        option(
            _MODEL,
            "MODULE:OBJECT",
            "A tool, or a list of tools, instead of the built-in ones (calculator, convert_units, today). "
            "May be repeated; file.py:object works too.",
        ),
    ] = None,
    max_iterations: Annotated[
        int, typer.Option(min=0, metavar="N", help="Decisions of the agent.", rich_help_panel=_LIMITS)
    ] = 15,
    max_seconds: Annotated[
        float | None, option(_LIMITS, "SECONDS", "Seconds, by the clock.", min=0, callback=_check_finite)
    ] = None,
    max_model_calls: Annotated[int | None, option(_LIMITS, "N", "Calls of the model.", min=0)] = None,
    max_tool_calls: Annotated[int | None, option(_LIMITS, "N", "Calls of tools.", min=0)] = None,
    max_tokens: Annotated[int | None, option(_LIMITS, "N", "Tokens, prompts and replies.", min=0)] = None,
    early_stopping: Annotated[
        Literal["force", "generate"],
        typer.Option(
            help="When a limit is spent: stop, or ask the model once more for an answer from what is known.",
            rich_help_panel=_LIMITS,
        ),
    ] = "force",
    memory: Annotated[
        Path | None,
        option(
            _KEPT,
            "FILE",
            "A conversation: what was said before is known, and this is added. Delete the file to forget it.",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        option(_KEPT, "FILE", "Replies: what this model was asked before, word for word, it is not asked again."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object per event, the result last.", rich_help_panel=_OUTPUT)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="The answer alone, no trace.", rich_help_panel=_OUTPUT)
    ] = False,
    record: Annotated[
        Path | None,
        option(
            _OUTPUT,
            "FILE",
            "Write what --json prints there too, as it happens: for graphexec view, draw --run and audit. A full disk "
            "does not end the run.",
        ),
    ] = None,
    certificate: Annotated[
        Path | None, option(_OUTPUT, "FILE", "Write the proof that the run ends there, for graphexec audit.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Ask an agent, and watch the machine at work.

    The trace goes to stderr, the answer to stdout: a pipe gets the answer alone.
    """
    out = sys.stdout
    with ending_in_one_line(debug=debug, json_to=out if json else None):
        of_tools = chosen_tools(tools or ())
        chosen = chosen_model(model, base_url, gguf, retries=retries, cache=cache)
        name: AgentName = agent or ("structured" if chosen.local else "tool_calling")
        made = made_agent(name, chosen.model, of_tools)
        executor = AgentExecutor(
            agent=made,
            tools=of_tools,
            max_iterations=max_iterations,
            max_execution_time=max_seconds,
            max_model_calls=max_model_calls,
            max_tool_calls=max_tool_calls,
            max_tokens=max_tokens,
            handle_parsing_errors=True,
            early_stopping_method=early_stopping,
            trim_intermediate_steps=trim or -1,
            memory=chosen_memory(name, made, memory),
        )
        if certificate is not None:
            from graphexec.verify import verify

            write_proof(verify(executor.graph, executor.limits).certificate, certificate)
        with records_in(record) as recording:
            # Last: it may take minutes, after which nothing is to be found wrong with what was typed.
            fetch_weights(chosen)
            printed = Records(out) if json else None
            display: RunDisplay = printed or (AnswerPrinter if quiet else TracePrinter)(out, sys.stderr)
            # The file is written first: who is shown the end may look at the file next.
            displays = [display] if recording is None else [recording, display]
            code = follow(Setup(question, executor, chosen.name, name), displays, debug=debug)
        if printed is not None and printed.report_missing():
            # The answer may be among what is missing.
            code = code or FAILED
        if code != ANSWERED:
            raise typer.Exit(code)
