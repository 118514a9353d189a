"""Limits, findings and failures in pictures."""

from typing import Any

import pytest

from graphexec import Limits
from graphexec.draw import Marks, Recording, draw, marks_of, picture_of
from graphexec.draw.model.picture import legend_of
from graphexec.draw.runs.overlay import overlay_runs
from graphexec.executor import AGENT_EXECUTOR
from graphexec.verify import Finding, verify
from tests.draw.debugged import failed_run, sixty_steps, stopped_run, twelve_tools
from tests.parameters import cases
from tests.verify.writing import PERFECTIONIST, WRITER


def test_findings_with_an_edge_and_given_edges_are_marked() -> None:
    findings = [
        Finding("GX022", "error", "edit", "Book", "it does not fit", "fix it"),
        Finding("GX004", "error", "polish", None, "it cannot be reached", "fix it"),
        Finding("GX002", "error", "edit", "Letter", "no edge takes it", "fix it"),
    ]
    assert {str(edge): mark for edge, mark in marks_of(WRITER, findings).items()} == {"edit --Book--> END": "red"}
    # Any edge can have any mark.
    marks: Marks = dict(zip(AGENT_EXECUTOR.edges, ("red", "orange", "grey"), strict=False))
    drawn = draw(AGENT_EXECUTOR, "mermaid", marks=marks)
    for number, colour in ((1, "#d62728"), (2, "#ff7f0e"), (3, "#b0b0b0")):
        assert f"linkStyle {number} stroke:{colour}" in drawn
    assert [arrow.mark for arrow in picture_of(AGENT_EXECUTOR, marks).arrows[:4]] == ["red", "orange", "grey", None]


def test_loops_are_red_and_their_paths_orange() -> None:
    marks = {
        "write --Text--> criticize": "orange",
        "criticize --Poor--> polish": "red",
        "polish --Text--> criticize": "red",
    }
    verdict = verify(PERFECTIONIST)
    assert {str(edge): mark for edge, mark in marks_of(PERFECTIONIST, verdict.findings).items()} == marks
    found = picture_of(verdict)
    drawn = {f"{arrow.source} --{arrow.outcome}--> {arrow.target}": arrow.mark for arrow in found.arrows if arrow.mark}
    assert drawn == marks
    assert {box.name for box in found.boxes if box.mark == "red"} == {"criticize", "polish"}
    assert found.caption[0] == "Refuted."
    assert found.caption[1].startswith("GX010 at criticize")
    # Marks replace the findings.
    only = picture_of(verify(PERFECTIONIST), {PERFECTIONIST.edges[0]: "grey"})
    assert [arrow.mark for arrow in only.arrows if arrow.mark] == ["grey"]
    assert not any(box.mark for box in only.boxes)


@cases(
    "drawn, node, line",
    (verify(WRITER), "revise", "costs 1 of 2 revisions"),
    (verify(WRITER), "write", "costs 1 of 15 iterations"),
    (verify(WRITER, Limits(iterations=None)), "write", "counts iterations, without limit"),
    (WRITER, "write", "costs an iteration"),
)
def test_budgets_are_labelled_with_their_limits(drawn: Any, node: str, line: str) -> None:
    assert {box.name: box.lines for box in picture_of(drawn).boxes}[node] == (line,)
    (arrow,) = [arrow for arrow in picture_of(WRITER).arrows if arrow.resets]
    assert arrow.lines == ("Chapter", "resets revisions")


# ---- failures in pictures of runs


SIXTY, TWELVE, FAILED, STOPPED = sixty_steps(), twelve_tools(), failed_run(), stopped_run()


@cases(
    "runs, expected",
    ([SIXTY], {"dispatch_tools": "4 failed", "parse": "1 failed"}),
    ([TWELVE], {"dispatch_tools": "2 failed"}),
    ([FAILED], {"plan": "1 failed"}),
    ([STOPPED], {}),
    ([SIXTY, TWELVE, FAILED, STOPPED], {"dispatch_tools": "6 failed", "parse": "1 failed", "plan": "1 failed"}),
)
def test_failures_are_counted_at_their_nodes(runs: list[Recording], expected: dict[str, str]) -> None:
    picture = overlay_runs(SIXTY.machine, runs)
    assert {box.name: box.notes[-1] for box in picture.boxes if box.failed} == expected
    assert ("failed" in legend_of(picture)) == bool(expected)


@cases(
    ("format", "sign"),
    ("svg", '"node tools failed'),
    ("dot", "2 failed"),
    ("mermaid", "class n2 failed"),
    ("text", "✗ dispatch_tools"),
)
def test_every_format_shows_failures(format: str, sign: str) -> None:  # noqa: A002 - the name of draw's parameter
    pytest.importorskip("pygraphviz", reason="pictures are laid out with Graphviz")
    drawn = draw(TWELVE.machine, format, runs=TWELVE)
    assert sign in drawn
    assert "2 failed" in drawn
    assert sign not in draw(TWELVE.machine, format, runs=STOPPED)


def test_failures_are_described() -> None:
    assert overlay_runs(FAILED.machine, [FAILED]).caption[:2] == (
        "Failed with RuntimeError after 2 model calls, 1 tool call, 324 tokens, 4.50 s.",
        "RuntimeError: connection reset by peer while reading the reply",
    )
