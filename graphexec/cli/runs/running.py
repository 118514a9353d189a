"""The command `run`, and its options."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from graphexec.cli.exit_codes import ANSWERED, FAILED, Debug, exit_on_error, option, write_proof
from graphexec.cli.records import Records, record_to
from graphexec.cli.runs.building import AgentOptions, build_executor
from graphexec.cli.runs.loop import RunDisplay, RunSetup, follow
from graphexec.cli.runs.options import AgentName, load_images
from graphexec.cli.trace import AnswerPrinter, TracePrinter

_MODEL, _LIMITS, _SAVED, _OUTPUT = "Model and tools", "Limits", "Saved between runs", "Output"


def _check_question(question: str) -> str:
    if not question.strip():
        raise typer.BadParameter("it is empty; write a question, in quotes")
    return question


def _check_finite(seconds: float | None) -> float | None:
    if seconds is not None and not math.isfinite(seconds):
        raise typer.BadParameter("it is not a finite number of seconds; leave the option out for no limit")
    return seconds


def run(  # noqa: PLR0913 - each is an option
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION", help="The question, in quotes.", callback=_check_question, show_default=False
        ),
    ],
    *,
    model: Annotated[
        str | None,
        option(
            _MODEL,
            "NAME",
            "A provider and its model, such as openai:gpt-5-mini, anthropic:claude-sonnet-4-5 or ollama:llama3.2:3b; "
            "local:FILE.gguf, or a local model that `graphexec models` lists. Providers: openai, openai-responses, "
            "anthropic, groq, mistral, deepseek, gemini, xai, openrouter, together, fireworks, cerebras, perplexity, "
            "nvidia, moonshot, cohere, dashscope, huggingface, and on this machine ollama, lmstudio, vllm, llamacpp, "
            "local. With --base-url the whole name is that of a model at this address, such as llama3.2:3b, and with "
            "OPENAI_BASE_URL a name without a provider is. Default: a small local model, downloaded at first use.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        option(
            _MODEL,
            "URL",
            "The address of an OpenAI-compatible server, such as http://127.0.0.1:8080/v1. Default: OPENAI_BASE_URL, "
            "else OpenAI's server. The key is read from OPENAI_API_KEY, or from the variable of the named provider.",
        ),
    ] = None,
    retries: Annotated[
        int | None, option(_MODEL, "N", "Retries of a failed request to a server. Default: 2.", min=0)
    ] = None,
    gguf: Annotated[Path | None, option(_MODEL, "PATH", "A local model of your own: a GGUF file.")] = None,
    agent: Annotated[
        AgentName | None,
        option(
            _MODEL,
            "NAME",
            "The kind of agent: structured, tool_calling, react, or LangChain's mrkl, conversational, chat, "
            "structured_chat, json_chat or xml. Default: tool_calling for a model that is known to call tools, else "
            "structured.",
        ),
    ] = None,
    trim: Annotated[
        int | None,
        option(_MODEL, "N", "Show the model only the last N steps, for runs that exceed its context.", min=1),
    ] = None,
    tools: Annotated[
        list[str] | None,
        option(
            _MODEL,
            "MODULE:OBJECT",
            "A tool or a list of tools, as module:object or file.py:object, instead of the built-in ones (calculator, "
            "convert_units, today). An object may be a function with annotations and a docstring; a module or a file "
            "alone means all its tools. May be repeated.",
        ),
    ] = None,
    image: Annotated[
        list[str] | None,
        option(_MODEL, "PATH", "An image for the model, as a file or an https:// address. May be repeated."),
    ] = None,
    max_iterations: Annotated[
        int, typer.Option(min=0, metavar="N", help="Iterations: decisions of the agent.", rich_help_panel=_LIMITS)
    ] = 15,
    max_seconds: Annotated[
        float | None, option(_LIMITS, "SECONDS", "Elapsed seconds.", min=0, callback=_check_finite)
    ] = None,
    max_model_calls: Annotated[int | None, option(_LIMITS, "N", "Model calls.", min=0)] = None,
    max_tool_calls: Annotated[int | None, option(_LIMITS, "N", "Tool calls.", min=0)] = None,
    max_tokens: Annotated[int | None, option(_LIMITS, "N", "Tokens of prompts and replies.", min=0)] = None,
    early_stopping: Annotated[
        Literal["force", "generate"],
        typer.Option(
            help="When a limit is used up: stop, or ask the model once more for an answer from the steps so far.",
            rich_help_panel=_LIMITS,
        ),
    ] = "force",
    memory: Annotated[
        Path | None,
        option(
            _SAVED,
            "FILE",
            "The file of a conversation: the agent sees its earlier turns, and this one is added. Delete the file to "
            "forget it.",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        option(_SAVED, "FILE", "A file of cached replies: an identical request to this model is not sent again."),
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON object per event; the result is the last.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the answer, no trace.", rich_help_panel=_OUTPUT)
    ] = False,
    record: Annotated[
        Path | None,
        option(
            _OUTPUT,
            "FILE",
            "Also write the records of --json to this file during the run, for graphexec view, draw --run and audit. A "
            "full disk does not end the run.",
        ),
    ] = None,
    certificate: Annotated[
        Path | None, option(_OUTPUT, "FILE", "Write the proof of termination to this file, for graphexec audit.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Ask an agent a question, and trace its state machine.

    The trace goes to stderr, the answer to stdout: a pipe receives only the answer.
    """
    out = sys.stdout
    with exit_on_error(debug=debug, json_to=out if json else None):
        images = load_images(image or ())
        built = build_executor(
            AgentOptions(
                model=model,
                base_url=base_url,
                gguf=gguf,
                retries=retries,
                agent=agent,
                trim=trim,
                tools=tools,
                cache=cache,
                memory=memory,
                max_iterations=max_iterations,
                max_seconds=max_seconds,
                max_model_calls=max_model_calls,
                max_tool_calls=max_tool_calls,
                max_tokens=max_tokens,
                early_stopping=early_stopping,
            )
        )
        executor = built.executor
        if certificate is not None:
            from graphexec.verify import verify

            write_proof(verify(executor.graph, executor.limits).certificate, certificate)
        with record_to(record) as recording:
            # Last: a download may take minutes, and wrong usage is reported before it.
            built.fetch_weights()
            printed = Records(out) if json else None
            display: RunDisplay = printed or (AnswerPrinter if quiet else TracePrinter)(out, sys.stderr)
            # The file is written first: it is complete when the result is shown.
            displays = [display] if recording is None else [recording, display]
            setup = RunSetup(question, executor, built.model, built.agent, images)
            code = follow(setup, displays, debug=debug)
        if printed is not None and printed.report_missing():
            # The answer may be in a missing record.
            code = code or FAILED
        if code != ANSWERED:
            raise typer.Exit(code)
