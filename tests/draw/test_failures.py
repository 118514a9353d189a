"""Failures in pictures of runs and in heat maps."""

from __future__ import annotations

import re

import pytest

from graphexec.draw import Recording, draw, timeline
from graphexec.draw.model.picture import legend_of
from graphexec.draw.runs.overlay import overlay_runs
from tests.draw.debugged import failed_run, sixty_steps, stopped_run, twelve_tools
from tests.parameters import cases

pytest.importorskip("pygraphviz", reason="pictures are laid out with Graphviz")


SIXTY, TWELVE, FAILED, STOPPED = sixty_steps(), twelve_tools(), failed_run(), stopped_run()


@cases(
    "runs, expected",
    [
        ([SIXTY], {"dispatch_tools": "4 failed", "parse": "1 failed"}),
        ([TWELVE], {"dispatch_tools": "2 failed"}),
        ([FAILED], {"plan": "1 failed"}),
        ([STOPPED], {}),
        ([SIXTY, TWELVE, FAILED, STOPPED], {"dispatch_tools": "6 failed", "parse": "1 failed", "plan": "1 failed"}),
    ],
)
def test_failures_are_counted_at_their_nodes(runs: list[Recording], expected: dict[str, str]) -> None:
    picture = overlay_runs(SIXTY.machine, runs)
    assert {box.name: box.notes[-1] for box in picture.boxes if box.failed} == expected
    assert ("failed" in legend_of(picture)) == bool(expected)


@cases(
    ("format", "sign"),
    [
        ("svg", '"node tools failed'),
        ("dot", 'color="#c21d1b", penwidth=3'),
        ("mermaid", "class n2 failed"),
        ("text", "✗ dispatch_tools"),
        ("markdown", "2 failed"),
    ],
)
def test_every_format_shows_failures(format: str, sign: str) -> None:  # noqa: A002 - the name of draw's parameter
    drawn = draw(TWELVE.machine, format, runs=TWELVE)
    assert sign in drawn
    assert "2 failed" in drawn
    assert sign not in draw(TWELVE.machine, format, runs=STOPPED)


def test_failures_are_described() -> None:
    assert overlay_runs(FAILED.machine, [FAILED]).caption[:2] == (
        "Failed with RuntimeError after 2 model calls, 1 tool call, 324 tokens, 4.50 s.",
        "RuntimeError: connection reset by peer while reading the reply",
    )
    assert "could not be parsed: The arguments of the call to fetch" in timeline(SIXTY, width=200)
    assert "failed: RuntimeError: connection reset by peer" in timeline(FAILED, width=200)
    # Only their number is red.
    drawn = draw(TWELVE.machine, "svg", runs=TWELVE)
    assert re.findall('class="faint notes failures"[^>]*>([^<]*)<', drawn) == ["2 failed"]
    assert ".gx .failures{fill:#c21d1b" in drawn
    assert "failures" not in draw(TWELVE.machine, "svg", runs=STOPPED)
