"""A verdict in a notebook: a table of bounds, and the findings."""

from __future__ import annotations

from collections.abc import Iterator

from graphexec.draw.notebook.elements import Tone, badge, block, code, collapsible, escape_line, remark, table
from graphexec.errors import format_number
from graphexec.verify.proof.certificate import Bound, Bounds
from graphexec.verify.proof.findings import Finding, Verdict
from graphexec.verify.reports.subject import Subject, SubjectStatus, subject_of
from graphexec.verify.reports.text import MEANINGS, bound_text

_TONES: dict[SubjectStatus, Tone] = {"proved": "good", "refuted": "bad", "unproved": "warning", "error": "bad"}
# A machine of many nodes may have thousands of findings of one kind.
_MOST_FINDINGS = 50


def verdict_bundle(verdict: Verdict) -> dict[str, str]:
    """Return the bounds as a table with the status as its caption, the findings with their codes, and assumptions."""
    return {"text/html": _display(subject_of("", verdict)), "text/plain": str(verdict)}


def subject_bundle(subject: Subject) -> dict[str, str]:
    """Return the same for a named target, also for one that could not be checked."""
    return {"text/html": _display(subject), "text/plain": repr(subject)}


def _display(subject: Subject) -> str:
    name = f"{code(subject.name)} " if subject.name else ""
    unbuilt = subject.verdict is None and subject.error is None
    meaning = "its table cannot be built" if unbuilt else MEANINGS[subject.status]
    caption = f"{name}{badge(subject.status.upper(), _TONES[subject.status])} {escape_line(meaning)}"
    verdict = subject.verdict
    bounds = None if verdict is None else verdict.bounds
    tables = [] if bounds is None else [table(caption, ("", "at most", "formula", ""), list(_bounds(bounds)))]
    if subject.findings:
        tables.append(table("" if tables else caption, ("finding", "node", "fact and remedy"), _rows(subject.findings)))
    return block(
        *(tables or [caption]),
        "" if subject.error is None else escape_line(subject.error),
        collapsible("assumptions", () if verdict is None else verdict.assumptions),
    )


def _bounds(bounds: Bounds) -> Iterator[tuple[str, ...]]:
    for name, bound in bounds.rows():
        yield (escape_line(name.replace("_", " ")), *_format_bound(name, bound))


def _format_bound(name: str, bound: Bound) -> tuple[str, str, str]:
    if bound.number is None:
        return "", "" if bound.form is None else code(bound.form), remark(bound_text(name, bound))
    number = format_number(bound.number)
    form = "" if bound.form in (None, number) else code(bound.form or "")
    how = "some run reaches it" if bound.exact else ""
    return f"<b>{escape_line(number)}</b>", form, remark(how + bound.condition)


def _rows(findings: tuple[Finding, ...]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            badge(finding.code, "bad" if finding.severity == "error" else "warning"),
            code(finding.node or ""),
            f"<b>{escape_line(finding.title)}</b><br>{escape_line(finding.fact)}<br>{remark(finding.remedy)}",
        )
        for finding in findings[:_MOST_FINDINGS]
    ]
    left = len(findings) - _MOST_FINDINGS
    return rows if left <= 0 else [*rows, ("", "", remark(f"... and {left:,} more findings; see verdict.findings"))]
