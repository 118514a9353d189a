"""The commands that verify and compare machines without running them: check, audit, export and diff."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from graphexec import __version__
from graphexec.cli.exit_codes import FAILED, UNPROVED, USAGE, Debug, UsageError, exit_on_error, option, print_error
from graphexec.cli.files import read, write, write_bytes, write_proof
from graphexec.cli.runs.advice import replace_limit_code
from graphexec.cli.terminal import encodable, write_utf8
from graphexec.errors import CertificateError, InputError, did_you_mean
from graphexec.verify.proof.findings import CODES
from graphexec.verify.reports import Subject, document, github, sarif, status_of, text

if TYPE_CHECKING:
    from graphexec.verify.proof.certificate import Certificate

_COLOURS: Mapping[str, str] = {
    r"(?<=  )PROVED(?=  )": "bold green",
    r"(?<=  )REFUTED(?=  )": "bold red",
    r"(?<=  )ERROR(?=  )": "bold red",
    r"(?<=  )UNPROVED(?=  )": "bold yellow",
    r"(?m)^  GX\d{3}": "bold",
    r"\(warning\)": "yellow",
}


def print_report(
    subjects: Sequence[Subject], output_format: Literal["text", "json", "sarif", "github"], out: TextIO
) -> None:
    """Print the subjects to `out`; paths of files in the current folder are relative."""
    here = str(Path.cwd())
    match output_format:
        case "json":
            write_utf8(document(subjects, root=here), out)
        case "sarif":
            write_utf8(sarif(subjects, root=here, version=__version__), out)
        case "github":
            write_utf8(github(subjects, root=here), out)
        case "text":
            plain = _format_subjects(subjects, here)
            if not out.isatty():
                out.write(encodable(plain, out))
                return
            from rich.text import Text

            from graphexec.cli.screen import Screen

            coloured = Text(encodable(plain, out).rstrip("\n"))
            for pattern, style in _COLOURS.items():
                coloured.highlight_regex(pattern, style)
            # The terminal wraps long lines itself, so that people can copy them.
            Screen(out).print(coloured, soft_wrap=True)


def _format_subjects(subjects: Sequence[Subject], root: str) -> str:
    """Return the report for people. The limits of graphs are options, and those of executors Python."""
    from graphexec.cli.check_targets import GraphSubject

    whole = text(subjects, root=root)
    for subject in subjects:
        if isinstance(subject, GraphSubject):
            part = text([subject], root=root)
            whole = whole.replace(part, replace_limit_code(part), 1)
    return whole


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
        "of the machine's own budgets; NAME=none removes it. May be repeated.",
        "--limit",
    ),
]


def check(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET",
            help=f"{_TARGET} A module or file without an object means every graph and executor at its top level.",
            show_default=False,
        ),
    ],
    *,
    output_format: Annotated[
        Literal["text", "json", "sarif", "github"],
        typer.Option(
            "--format",
            help="Output for people, for programs, for code scanning, or for a GitHub workflow's log.",
            rich_help_panel=_OUTPUT,
        ),
    ] = "text",
    certificate: Annotated[
        Path | None, option(_OUTPUT, "FILE", "Write the proof of a single target to this file, for graphexec audit.")
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
        subjects, faults = subjects_at(targets, parse_limits(max_iterations, limit or ()))
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
            write_proof(None if verdict is None else verdict.certificate, certificate)
        print_report(subjects, output_format, sys.stdout)
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


def audit(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="The file of graphexec run --record, or the output of --json; - is the standard input.",
            show_default=False,
        ),
    ],
    certificate: Annotated[
        Path,
        typer.Argument(
            metavar="CERTIFICATE", help="The file that graphexec check --certificate wrote.", show_default=False
        ),
    ],
    *,
    debug: Debug = False,
) -> None:
    """Check a run's trace against a proof, without the code that ran and without importing anything."""
    with exit_on_error(debug=debug):
        from graphexec.verify.audit.audit import audit as audit_records

        records = _records(trace)
        found = audit_records(records, _proof(str(certificate)))
        print(encodable(f"{'standard input' if trace == '-' else trace}  {found}", sys.stdout))
        if not found.conforms:
            raise typer.Exit(FAILED)


def _records(trace: str) -> list[dict[str, Any]]:
    """Read the records of a trace, with or without a machine. Raises `UsageError` that names an invalid line."""
    from graphexec.draw.runs.lines import read_record
    from graphexec.draw.runs.record_schema import validate_record

    records: list[dict[str, Any]] = []
    for number, line in enumerate(read(trace).splitlines(), 1):
        place = f"line {number} of {trace}"
        try:
            records.append(read_record(line, place))
            validate_record(records[-1], place)
        except InputError as error:
            raise UsageError(str(error)) from None
    return records


def _proof(file: str) -> Certificate:
    from graphexec.verify.proof.certificate import Certificate

    try:
        return Certificate.from_json(read(file))
    except CertificateError as error:
        fact = str(error).partition("; ")[0]
        raise UsageError(f"{file}: {fact}; pass the file that graphexec check --certificate wrote") from error


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
            write(promela(flow, limits, bound=steps, file=name), output, data=True)
        elif output is None:
            write(tla(flow, limits, bound=steps), None, data=True)
        else:
            # TLC requires that the module has the file's name.
            write(tla(flow, limits, bound=steps, name=output.stem), output)
            write(tla_config(bound=steps), output.with_suffix(".cfg"))


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=_TARGET, show_default=False)],
    new: Annotated[
        str,
        typer.Argument(
            metavar="NEW", help="The machine to compare OLD with, which is imported, too.", show_default=False
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        option(
            _OUTPUT,
            "FILE",
            "Also draw both machines in one picture: added parts are green, removed ones red and dashed. The suffix "
            "sets the format: .svg, .png, .html, .mmd, .dot, .txt.",
            "--output",
            "-o",
        ),
    ] = None,
    max_iterations: MaxIterations = None,
    limit: OtherLimits = None,
    debug: Debug = False,
) -> None:
    """Compare two machines: nodes, edges, limits and proved bounds."""
    with exit_on_error(debug=debug):
        from graphexec.cli.check_targets import limits_of, parse_limits
        from graphexec.cli.targets import machine_at
        from graphexec.verify import diff as compare

        limits = parse_limits(max_iterations, limit or ())
        picture_format = None if output is None else _format_of(output)
        before, after = machine_at(old), machine_at(new)
        found = compare(before.graph, after.graph, limits_of(after, limits), limits_before=limits_of(before, limits))
        if output is not None and picture_format is not None:
            from graphexec.draw import render

            write_bytes(render(found, picture_format), output)
        print(encodable(str(found), sys.stdout))
        if found:
            raise typer.Exit(FAILED)


def _format_of(picture: Path) -> str:
    from graphexec.draw import format_of

    try:
        return format_of(picture)
    except InputError as error:
        raise UsageError(str(error).removesuffix(", or pass the format")) from error
