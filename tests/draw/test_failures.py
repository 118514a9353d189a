"""Failures in pictures of runs and in heat maps."""

from __future__ import annotations

import re

import pytest

from graphexec.draw import draw, timeline
from graphexec.draw.model.picture import Picture, legend_of
from graphexec.draw.runs.overlay import overlay_runs
from tests.draw.debugged import failed_run, sixty_steps, stopped_run, twelve_tools
from tests.parameters import cases

pytest.importorskip("pygraphviz", reason="pictures are laid out with Graphviz")


def failures(picture: Picture) -> dict[str, str]:
    """Return the last note of each node that failed."""
    return {box.name: box.notes[-1] for box in picture.boxes if box.failed}


def test_failures_are_counted_at_their_nodes() -> None:
    sixty, twelve, failed, stopped = sixty_steps(), twelve_tools(), failed_run(), stopped_run()
    machine = sixty.machine
    assert failures(overlay_runs(machine, [sixty])) == {"dispatch_tools": "4 failed", "parse": "1 failed"}
    assert failures(overlay_runs(machine, [twelve])) == {"dispatch_tools": "2 failed"}
    assert failures(overlay_runs(machine, [failed])) == {"plan": "1 failed"}
    assert failures(overlay_runs(machine, [stopped])) == {}
    every = overlay_runs(machine, [sixty, twelve, failed, stopped])
    assert failures(every) == {"dispatch_tools": "6 failed", "parse": "1 failed", "plan": "1 failed"}
    assert "failed" in legend_of(every)


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
    run = twelve_tools()
    drawn = draw(run.machine, format, runs=run)
    assert sign in drawn
    assert "2 failed" in drawn
    assert sign not in draw(run.machine, format, runs=stopped_run())


def test_only_the_number_of_failures_is_red() -> None:
    run = twelve_tools()
    drawn = draw(run.machine, "svg", runs=run)
    assert re.findall('class="faint notes failures"[^>]*>([^<]*)<', drawn) == ["2 failed"]
    assert ".gx .failures{fill:#c21d1b" in drawn
    assert "failures" not in draw(run.machine, "svg", runs=stopped_run())


def test_caption_has_the_error_of_a_failed_run() -> None:
    run = failed_run()
    assert overlay_runs(run.machine, [run]).caption[:2] == (
        "Failed with RuntimeError after 2 model calls, 1 tool call, 324 tokens, 4.50 s.",
        "RuntimeError: connection reset by peer while reading the reply",
    )


def test_timeline_shows_failures() -> None:
    assert "could not be parsed: The arguments of the call to fetch" in timeline(sixty_steps(), width=200)
    assert "failed: RuntimeError: connection reset by peer" in timeline(failed_run(), width=200)
