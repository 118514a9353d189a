"""The commands that verify machines without running them: check and export."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from graphexec import __version__
from graphexec.cli.exit_codes import FAILED, UNPROVED, USAGE, Debug, UsageError, exit_on_error, option, print_error
from graphexec.cli.files import write
from graphexec.errors import did_you_mean
from graphexec.verify.proof.findings import CODES
from graphexec.verify.reports import document, github, sarif, status_of, text

Form: TypeAlias = Literal["text", "json", "sarif", "github"]


_LIMITS, _OUTPUT = "Limits of a graph (an executor has its own)", "Output"
_TARGET = (
    "module:object or file.py:object: a Graph, or an object whose .graph is one, such as an executor. The file is "
    "imported, and so run."
)

MaxIterations = Annotated[
    int | None, option(_LIMITS, "N", "Iterations: entries into metered nodes. Default: 15.", min=0)
]
OtherLimits = Annotated[
    list[str] | None,
    option(
        _LIMITS,
        "NAME=N",
        "Another limit: model_calls, tool_calls, tokens, cost, seconds, fan_out, restarts, depth, nested_runs, or one "
        "of the machine's own meters; NAME=none removes it. May be repeated.",
        "--limit",
    ),
]


def check(  # noqa: PLR0913 - its parameters are the options
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET",
            help=f"{_TARGET} A module or file without an object means every graph and executor at its top level. "
            "Also a graph of LangGraph or pydantic-graph; all graphs of a langgraph.json, or langgraph.json:name.",
            show_default=False,
        ),
    ],
    *,
    output_format: Annotated[
        Form,
        typer.Option(
            "--format",
            help="Output for people, for programs, for code scanning, or for a GitHub workflow's log.",
            rich_help_panel=_OUTPUT,
        ),
    ] = "text",
    certificate: Annotated[
        Path | None, option(_OUTPUT, "FILE", "Write the proof of a single target to this file.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for warnings as well.", rich_help_panel=_OUTPUT)
    ] = False,
    ignore: Annotated[
        list[str] | None,
        option(_OUTPUT, "CODE", "The code of a warning that --strict allows, such as GX027. May be repeated."),
    ] = None,
    max_iterations: MaxIterations = None,
    limit: OtherLimits = None,
    max_rounds: Annotated[
        int | None,
        option(
            _LIMITS,
            "N",
            "Rounds that a loop of LangGraph or pydantic-graph may have: a loop passes if its guard, or "
            "recursion_limit, allows no more, and fails otherwise.",
            min=0,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Prove that every run ends and within how many steps, or show a run that does not end.

    The file of a target is imported, and so run: check only files that you trust. No agent is run. Invalid tables and
    executors are reported with their findings.
    """
    with exit_on_error(debug=debug):
        from graphexec.cli.check_targets import parse_limits, subjects_at

        # Codes may be separated by commas, too.
        ignored = [code for one in ignore or () for code in one.split(",")]
        _check_codes(ignored, strict=strict)
        subjects, faults = subjects_at(targets, parse_limits(max_iterations, limit or ()), max_rounds)
        # Do not print an empty report for people.
        alone = output_format == "text" and len(faults) == len(subjects)
        for fault in faults if alone or debug else ():
            print_error(fault, debug=debug)
        if alone:
            raise typer.Exit(USAGE)
        if certificate is not None:
            if len(subjects) > 1:
                raise UsageError(f"--certificate writes one proof, and there are {len(subjects)}; name one machine")
            verdict = subjects[0].verdict
            if verdict is None or verdict.certificate is None:
                print(f"graphexec: there is no proof, so {certificate} is not written", file=sys.stderr)
            else:
                write(f"{verdict.certificate.to_json()}\n", certificate)
        reports: dict[Form, Callable[..., str]] = {"text": text, "json": document, "github": github}
        reports["sarif"] = partial(sarif, version=__version__)
        # Paths of files in the current folder are relative.
        write(reports[output_format](subjects, root=str(Path.cwd())), None)
        code = {"proved": 0, "refuted": FAILED, "unproved": UNPROVED, "error": USAGE}[status_of(subjects)]
        if strict and not code:
            warnings = [one.code for subject in subjects for one in subject.findings if one.severity == "warning"]
            if warnings := [one for one in dict.fromkeys(warnings) if one not in ignored]:
                codes, allowed = ", ".join(warnings), " ".join(f"--ignore {one}" for one in warnings)
                print(f"graphexec: --strict allows no warnings: {codes}; fix them, or pass {allowed}", file=sys.stderr)
                code = FAILED
        if code:
            raise typer.Exit(code)


def _check_codes(codes: Sequence[str], *, strict: bool) -> None:
    if codes and not strict:
        raise UsageError("--ignore has no effect without --strict; add --strict")
    for code in codes:
        if code not in CODES:
            raise UsageError(
                f"--ignore {code} is not the code of a finding; {did_you_mean(code, CODES, 'pass one such as GX027')}"
            )


def export(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=_TARGET, show_default=False)],
    *,
    output_format: Annotated[
        Literal["promela", "tla"], typer.Option("--format", help="promela for SPIN, tla for TLC.")
    ],
    output: Annotated[
        Path | None,
        option(
            _OUTPUT, "FILE", "Write to this file, not to stdout; TLC's configuration goes beside it.", "--output", "-o"
        ),
    ] = None,
    bound: Annotated[
        bool, typer.Option("--bound", help="Add the claim that runs end within the proved number of transitions.")
    ] = False,
    max_iterations: MaxIterations = None,
    limit: OtherLimits = None,
    debug: Debug = False,
) -> None:
    """Write a machine for an independent model checker, whose verdict must be the same."""
    with exit_on_error(debug=debug):
        from graphexec.cli.check_targets import parse_limits, verdict_at
        from graphexec.verify.export.promela import promela
        from graphexec.verify.export.tla import tla, tla_config
        from graphexec.verify.proof.flow import flow_of

        verdict = verdict_at(target, parse_limits(max_iterations, limit or ()))
        flow, limits = flow_of(verdict.graph), verdict.limits
        steps = None
        if bound:
            if verdict.bounds is None or verdict.bounds.transitions.number is None:
                raise UsageError(f"{target} is {verdict.status}, without a number of transitions; leave out --bound")
            steps = int(verdict.bounds.transitions.number)
        if output_format == "promela":
            name = "machine.pml" if output is None else output.name
            write(promela(flow, limits, bound=steps, file=name), output)
        elif output is None:
            write(tla(flow, limits, bound=steps), None)
        else:
            # TLC requires that the module has the file's name.
            write(tla(flow, limits, bound=steps, name=output.stem), output)
            write(tla_config(bound=steps), output.with_suffix(".cfg"))
