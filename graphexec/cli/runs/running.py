"""The command `run`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from graphexec.cli.exit_codes import ANSWERED, FAILED, Debug, TyperUsageError, UsageError, exit_on_error, option
from graphexec.cli.records import Records, record_to
from graphexec.cli.runs.building import build_executor
from graphexec.cli.runs.loop import RunDisplay, RunSetup, follow
from graphexec.cli.runs.options import load_image
from graphexec.cli.runs.parameters import (
    MODEL,
    OUTPUT,
    SAVED,
    AgentOptions,
    NamedInputs,
    Otel,
    decode_argument,
    decode_optional,
    with_agent_options,
)
from graphexec.cli.runs.question import name_inputs, parse_inputs, read_question, split_words
from graphexec.cli.runs.servers import open_servers
from graphexec.cli.runs.stores import storing
from graphexec.cli.runs.termination import terminable
from graphexec.cli.runs.trace import AnswerPrinter, TracePrinter
from graphexec.integrations.otel.exporting import exporting


def _check_words(words: list[str] | None) -> list[str]:
    if not words:
        raise TyperUsageError("Missing argument 'QUESTION'; write it in quotes, or - to read it from standard input")
    decoded = [*words[:-1], decode_argument(words[-1])]
    if not decoded[-1].strip():
        raise typer.BadParameter("it is empty; write a question, in quotes", param_hint="QUESTION")
    return decoded


# Each parameter is an option.
@with_agent_options
def run(  # noqa: PLR0913
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
    options: AgentOptions,
    image: Annotated[
        list[str] | None,
        option(MODEL, "PATH", "An image for the model, as a file or an https:// address. May be repeated."),
    ] = None,
    named_input: NamedInputs = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object per event; the result is the last.", rich_help_panel=OUTPUT),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the answer, no trace.", rich_help_panel=OUTPUT)
    ] = False,
    record: Annotated[
        Path | None,
        option(
            OUTPUT,
            "FILE",
            "Also write a trace of the run to this file during the run, for graphexec view and draw --run: the "
            "records of --json. A full disk does not end the run.",
        ),
    ] = None,
    runs: Annotated[
        str | None,
        option(
            SAVED,
            "FILE",
            "Store the run while it goes on, in an SQLite database or at postgresql://... It outlives its process: the "
            "same command with its --id continues it, or prints its answer. A question that nobody answers now ends "
            "the command with the exit code 4; graphexec runs reply answers it.",
        ),
    ] = None,
    run_id: Annotated[
        str | None,
        option(SAVED, "ID", "The id of the stored run. Default: a new one.", "--id", callback=decode_optional),
    ] = None,
    otel: Otel = False,
    debug: Debug = False,
) -> None:
    """Ask an agent a question, and trace its state machine.

    The agent is the built-in one with the options below, or your own. The trace goes to stderr, the answer to stdout: a
    pipe receives only the answer.
    """
    out = sys.stdout
    with (
        exit_on_error(debug=debug, json_to=out if json else None),
        terminable(),
        open_servers(options.mcp or (), approved=bool(options.yes)) as servers,
    ):
        target, text = split_words(words or ())
        given = parse_inputs(named_input or ())
        if target is None and given:
            raise UsageError("--input is for an executor of your own, and there is no target; leave it out")
        built = build_executor(replace(options, target=target), servers)
        images = tuple(map(load_image, image or ()))
        # Inputs that are given by name may be all.
        question = read_question() if text == "-" or (text is None and not given) else text
        named = name_inputs(built.executor, question, given, target or "the agent")
        inputs = {**named, "images": images} if images else named
        # A live page of the recorded run shows replies as they come.
        tokens = record is not None
        with (
            storing(built.executor, runs, run_id, target) as stored,
            record_to(record) as recording,
            exporting(enabled=otel),
        ):
            setup = RunSetup(inputs, built.executor, built.model, built.agent, tokens=tokens, stored=stored)
            # Last: a download may take minutes, and wrong usage is reported before it.
            built.fetch_weights()
            printed = Records(out) if json else None
            display: RunDisplay = printed or (AnswerPrinter if quiet else TracePrinter)(out, sys.stderr)
            # The file is written first: it is complete when the result is shown.
            displays = [display] if recording is None else [recording, display]
            code = follow(setup, displays, debug=debug)
        if printed is not None and printed.is_incomplete:
            # The answer may be in a missing record.
            code = code or FAILED
        if code != ANSWERED:
            raise typer.Exit(code)
