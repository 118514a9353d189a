"""Verdicts as text, a paragraph for each target and each finding, and as annotations for GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphexec.errors import format_number
from graphexec.verify.proof.certificate import Bound, Bounds
from graphexec.verify.proof.findings import CODES, Finding, Witness, meter_limit
from graphexec.verify.proof.flow import Transition
from graphexec.verify.reports.subject import SourceLocation, Subject, SubjectStatus

# The meaning of each status.
MEANINGS: Mapping[SubjectStatus, str] = {
    "proved": "every run ends",
    "refuted": "the table allows an endless run, or is invalid",
    "unproved": "it is not known whether every run ends",
    "error": "it could not be checked",
}

# Remedies for missing bounds: parameters of the executor.
_REMEDIES = {
    "transitions": "measures end the run; for a number, meter a node of each of its loops",
    "model_calls": "set max_model_calls",
    "tool_calls": "set max_tool_calls or max_fan_out",
    "seconds": "set max_execution_time, or Limits(seconds=30)",
}


# The longest repeated block of transitions that is searched for. Agents' loops are shorter; each length takes a pass.
_LONGEST_ROUND = 20


def text(subjects: Sequence[Subject], *, root: str = "") -> str:
    """Return the subjects as text; paths of files inside the folder `root` are relative to it.

    A last line counts the subjects if there are several.
    """
    paragraphs = [paragraph for subject in subjects for paragraph in _paragraphs(subject, root)]
    if len(subjects) > 1:
        paragraphs.append(_summary(subjects))
    return "\n\n".join(paragraphs) + "\n"


def _paragraphs(subject: Subject, root: str) -> Iterator[str]:
    where = "" if subject.error is None else _where(subject.place, root)
    answer = subject.answer
    unbuilt = subject.verdict is None and subject.error is None and answer is None
    means = "its table cannot be built" if unbuilt else MEANINGS[subject.status] if answer is None else answer.text
    lines = [f"{subject.name}  {subject.status.upper()}  {means}{where}"]
    if subject.error is not None:
        lines.append(f"  {subject.error}")
    lines += [f"  {note}" for note in (() if answer is None else answer.notes)]
    verdict = subject.verdict
    if verdict is not None and verdict.bounds is not None:
        lines += bound_lines(verdict.bounds)
        lines += [f"  {text}" for text in (verdict.exits_text,) if text]
    for number, one in enumerate(() if verdict is None else verdict.assumptions):
        lines.append(f"  {'' if number else 'assuming':<11}  {one}")
    yield "\n".join(lines)
    for finding in subject.findings:
        yield "\n".join(f"  {line}".rstrip() for line in _finding(subject, finding, root))


def bound_lines(bounds: Bounds) -> list[str]:
    """Return the bounds, one on a line, in two columns."""
    return [f"  {name.replace('_', ' '):<11}  {bound_text(name, bound)}" for name, bound in bounds.rows()]


def bound_text(name: str, bound: Bound) -> str:
    """Return a bound in closed form and as a number, or the remedy if there is none."""
    if bound.number is not None or bound.form is not None:
        return str(bound)
    return f"no bound; {_REMEDIES.get(name) or f'set {meter_limit(name)} or Limits(fan_out=5)'}"


def _finding(subject: Subject, finding: Finding, root: str) -> Iterator[str]:
    at = "" if finding.node is None else f" at {finding.node}"
    where = _where(subject.place_of(finding, root), root)
    kind = "" if finding.severity == "error" else f" ({finding.severity})"
    yield f"{finding.code}{at}{kind}: {CODES[finding.code]}{where}"
    witness = finding.witness
    fact = finding.fact
    listed = witness is not None and len(witness.stem) + len(witness.loop) > 1
    if witness is not None and listed:
        # The list below shows the loop.
        fact = fact.replace(f": {', '.join(dict.fromkeys(map(str, witness.loop)))}", "", 1)
    yield f"  {_sentence(fact, finding.node)}"
    if witness is not None and listed:
        yield from _list_steps(witness)
    yield f"  {_sentence(finding.remedy, finding.node)}"


def _where(place: SourceLocation | None, root: str) -> str:
    return "" if place is None else f"  {place.within(root)}:{place.line}"


def _list_steps(witness: Witness) -> Iterator[str]:
    width = max((len(str(step)) for step in (*witness.stem, *witness.loop)), default=0)
    for steps, name in ((witness.stem, "the path"), (witness.loop, "the loop")):
        remark = name
        for block, times in _rounds(steps):
            for step in block[:-1]:
                yield f"      {step!s:<{width}}  {remark}"
                remark = ""
            these = "" if len(block) == 1 else f"these {len(block)}, "
            often = "" if times == 1 else f"{these}{times} times"
            yield f"      {block[-1]!s:<{width}}  {', '.join(filter(None, (remark, often)))}"
            remark = ""


def _rounds(steps: Sequence[Transition]) -> Iterator[tuple[Sequence[Transition], int]]:
    """Yield the steps in blocks, each with the number of its repetitions."""
    at = 0
    while at < len(steps):
        block, times = steps[at : at + 1], 1
        for size in range(1, min(_LONGEST_ROUND, (len(steps) - at) // 2) + 1):
            one, count = steps[at : at + size], 1
            while steps[at + size * count : at + size * (count + 1)] == one:
                count += 1
            if count > 1:
                block, times = one, count
                break
        yield block, times
        at += len(block) * times


def _sentence(words: str, node: str | None) -> str:
    # A name keeps its case at the beginning of a sentence.
    named = words.partition(" ")[0] == node
    return f"{words[:1] if named else words[:1].upper()}{words[1:]}."


def _summary(subjects: Sequence[Subject]) -> str:
    statuses = [subject.status for subject in subjects]
    counts = [
        f"{statuses.count(status)} {'not checked' if status == 'error' else status}"
        for status in MEANINGS
        if status in statuses
    ]
    return f"{len(subjects)} machines: {', '.join(counts)}"


def github(subjects: Sequence[Subject], *, root: str = "") -> str:
    """Return the findings as workflow commands: `::error file=my_agent.py,line=41,title=GX010::...`, one on a line.

    Paths of files inside `root` are relative to it. A proof is a notice; a target that could not be checked, an error.
    """
    return "".join(f"{line}\n" for subject in subjects for line in _commands(subject, root))


def _commands(subject: Subject, root: str) -> Iterator[str]:
    if subject.error is not None:
        yield _command("error", "graphexec", f"{subject.name}: {subject.error}", subject.place, root)
    for finding in subject.findings:
        place = subject.place_of(finding, root)
        yield _command(finding.severity, finding.code, f"{subject.name}: {finding}", place, root)
    if subject.status == "proved":
        bounds = None if subject.verdict is None else subject.verdict.bounds
        most = None if bounds is None else bounds.transitions
        number = None if most is None else most.form if most.number is None else format_number(most.number)
        within = "" if number is None else f" after at most {number} transitions"
        fact = f"proved, every run ends{within}" if subject.answer is None else subject.answer.text
        yield _command("notice", "graphexec", f"{subject.name}: {fact}")


def _command(level: str, title: str, message: str, place: SourceLocation | None = None, root: str = "") -> str:
    where = "" if place is None else f"file={_property(place.within(root))},line={place.line},"
    return f"::{level} {where}title={_property(title)}::{_data(message)}"


# The runner's own escapes: https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
