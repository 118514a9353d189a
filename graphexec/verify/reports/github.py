"""Findings as annotations for GitHub Actions: `::error file=my_agent.py,line=41,title=GX010::...`, one on a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphexec.errors import format_number
from graphexec.verify.reports.subject import SourceLocation, Subject


def github(subjects: Sequence[Subject], *, root: str = "") -> str:
    """Return the findings as workflow commands; paths of files inside `root` are relative to it.

    A proof is a notice, and a target that could not be checked is an error.
    """
    return "".join(f"{line}\n" for subject in subjects for line in _lines(subject, root))


def _lines(subject: Subject, root: str) -> Iterator[str]:
    if subject.error is not None:
        yield _command("error", "graphexec", f"{subject.name}: {subject.error}", _where(subject.place, root))
    for finding in subject.findings:
        where = _where(subject.place_of(finding, root), root)
        yield _command(finding.severity, finding.code, f"{subject.name}: {finding}", where)
    if subject.status == "proved":
        bounds = None if subject.verdict is None else subject.verdict.bounds
        most = None if bounds is None else bounds.transitions
        number = None if most is None else most.form if most.number is None else format_number(most.number)
        within = "" if number is None else f" after at most {number} transitions"
        yield _command("notice", "graphexec", f"{subject.name}: proved, every run ends{within}", {})


def _where(place: SourceLocation | None, root: str) -> dict[str, str]:
    return {} if place is None else {"file": place.within(root), "line": str(place.line)}


def _command(level: str, title: str, message: str, where: dict[str, str]) -> str:
    properties = ",".join(f"{name}={_property(value)}" for name, value in {**where, "title": title}.items())
    return f"::{level} {properties}::{_data(message)}"


# The runner's own escapes: https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
