"""The command `run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from graphexec.cli.exit_codes import ANSWERED, FAILED, Debug, TyperUsageError, UsageError, exit_on_error, option
from graphexec.cli.records import Records, record_to
from graphexec.cli.runs import parameters
from graphexec.cli.runs.building import AgentOptions, NamedExecutor, build_executor
from graphexec.cli.runs.loop import RunDisplay, RunSetup, follow
from graphexec.cli.runs.options import load_images
from graphexec.cli.runs.question import describe_inputs, find_question, name_inputs, parse_inputs, split_words
from graphexec.cli.runs.termination import terminable
from graphexec.cli.runs.trace import AnswerPrinter, TracePrinter


def _check_words(words: list[str] | None) -> list[str]:
    if not words:
        raise TyperUsageError("Missing argument 'QUESTION'; write it in quotes, or - to read it from standard input")
    decoded = [*words[:-1], parameters.decode_argument(words[-1])]
    if not decoded[-1].strip():
        raise typer.BadParameter("it is empty; write a question, in quotes", param_hint="QUESTION")
    return decoded


def run(  # noqa: PLR0913 - each is an option
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET] QUESTION",
            help="The question, in quotes; - reads it from standard input. Before it, an executor of your own, as "
            "my_agent.py:executor or package.module:executor, or a function without parameters that makes one. The "
            "file is imported, and so run.",
            callback=_check_words,
            show_default=False,
        ),
    ] = None,
    *,
    model: parameters.ModelName = None,
    base_url: parameters.BaseURL = None,
    retries: parameters.Retries = None,
    gguf: parameters.GGUF = None,
    agent: parameters.AgentOption = None,
    system: parameters.System = None,
    temperature: parameters.Temperature = None,
    timeout: parameters.Timeout = None,
    max_reply_tokens: parameters.MaxReplyTokens = None,
    example: parameters.Examples = None,
    trim: parameters.Trim = None,
    tools: parameters.Tools = None,
    image: Annotated[
        list[str] | None,
        option(parameters.MODEL, "PATH", "An image for the model, as a file or an https:// address. May be repeated."),
    ] = None,
    named_input: parameters.NamedInputs = None,
    max_iterations: parameters.MaxIterations = None,
    max_seconds: parameters.MaxSeconds = None,
    max_model_calls: parameters.MaxModelCalls = None,
    max_tool_calls: parameters.MaxToolCalls = None,
    max_tokens: parameters.MaxTokens = None,
    limit: parameters.OtherLimits = None,
    early_stopping: parameters.EarlyStopping = None,
    memory: parameters.MemoryFile = None,
    cache: parameters.CacheFile = None,
    json: parameters.PrintJSON = False,
    quiet: parameters.Quiet = False,
    record: parameters.RecordFile = None,
    debug: Debug = False,
) -> None:
    """Ask an agent a question, and trace its state machine.

    The agent is the built-in one with the options below, or your own. The trace goes to stderr, the answer to stdout: a
    pipe receives only the answer.
    """
    out = sys.stdout
    with exit_on_error(debug=debug, json_to=out if json else None), terminable():
        target, text = split_words(words or ())
        given = parse_inputs(named_input or ())
        if target is None and given:
            raise UsageError("--input is for an executor of your own, and there is no target; leave it out")
        built = build_executor(
            AgentOptions(
                target=target,
                model=model,
                base_url=base_url,
                gguf=gguf,
                retries=retries,
                agent=agent,
                system=system,
                temperature=temperature,
                timeout=timeout,
                max_reply_tokens=max_reply_tokens,
                example=example,
                trim=trim,
                tools=tools,
                cache=cache,
                memory=memory,
                early_stopping=early_stopping,
                max_iterations=max_iterations,
                max_seconds=max_seconds,
                max_model_calls=max_model_calls,
                max_tool_calls=max_tool_calls,
                max_tokens=max_tokens,
                limit=limit,
            )
        )
        executor, images = built.executor, load_images(image or ())
        question = find_question(text, target, given)
        inputs = name_inputs(executor, question, given, target or "the agent")
        setup = RunSetup(
            describe_inputs(inputs),
            executor,
            built.model,
            built.agent,
            images,
            inputs,
            # A live page of the recorded run shows replies as they come.
            tokens=record is not None,
        )
        show_run(setup, built, json=json, quiet=quiet, record=record, debug=debug)


def show_run(
    setup: RunSetup, built: NamedExecutor, *, json: bool, quiet: bool, record: Path | None, debug: bool
) -> None:
    """Run, show and record a run as the options of the command say. Raises `typer.Exit` unless it is answered."""
    out = sys.stdout
    with record_to(record) as recording:
        # Last: a download may take minutes, and wrong usage is reported before it.
        built.fetch_weights()
        printed = Records(out) if json else None
        display: RunDisplay = printed or (AnswerPrinter if quiet else TracePrinter)(out, sys.stderr)
        # The file is written first: it is complete when the result is shown.
        displays = [display] if recording is None else [recording, display]
        code = follow(setup, displays, debug=debug)
    if printed is not None and printed.report_missing():
        # The answer may be in a missing record.
        code = code or FAILED
    if code != ANSWERED:
        raise typer.Exit(code)
