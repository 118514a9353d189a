"""The display of pending calls: their clocks tick, and it is gone when they have returned."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from graphexec.cli.runs.pending import PendingCalls
from graphexec.cli.runs.trace import TracePrinter
from graphexec.cli.screen import Screen
from graphexec.cli.terminal import ASCII
from graphexec.effects import CallModel, CallTool, ToolResult
from graphexec.kernel import Answered, Asked, Spent
from graphexec.kernel.effects import CallId
from graphexec.messages import ChatRequest, UserMessage
from tests.cli.terminals import Terminal
from tests.cli.test_trace import HIDE_CURSOR, SHOW_CURSOR, printed, two_tools
from tests.parameters import cases

MODEL = CallModel(ChatRequest([UserMessage("Hi")]))
FETCH = CallTool("fetch", {"url": "https://example.org/a"})


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def shown(pending: PendingCalls, width: int = 70) -> list[str]:
    """Return the words of each line."""
    out = io.StringIO()
    Console(file=out, width=width).print(pending.render())
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def without_terminal(clock: Clock) -> PendingCalls:
    return PendingCalls(Screen(io.StringIO()), ASCII, clock)


def fetching(calls: int) -> PendingCalls:
    """Return the display of so many pending calls of one tool."""
    pending = without_terminal(Clock())
    for member in range(calls):
        pending.add(FETCH, CallId("a-run", 1, member))
    return pending


def test_clocks_tick_while_calls_are_pending() -> None:
    clock = Clock()
    pending = without_terminal(clock)
    clock.time += 1.5
    pending.add(MODEL, None)
    assert shown(pending) == ["/ asking the model 0.0 s", "the run 1.5 s"]
    clock.time += 2.25
    assert [line.split()[-2] for line in shown(pending)] == ["2.2", "3.8"]
    clock.time += 100
    assert shown(pending)[-1] == "the run 1:43"


def test_each_call_has_its_own_time() -> None:
    clock = Clock()
    pending = without_terminal(clock)
    pending.add(FETCH, CallId("a-run", 1, 0))
    clock.time += 3
    pending.add(CallTool("slow", "x"), CallId("a-run", 1, 1))
    first, second, _ = shown(pending)
    for line, call, seconds in ((first, "calling fetch(url=", "3.0 s"), (second, "calling slow(", "0.0 s")):
        assert call in line
        assert line.endswith(seconds)


def test_returned_and_failed_calls_are_counted() -> None:
    pending = fetching(3)
    pending.remove(ToolResult("503", "error"), CallId("a-run", 1, 0))
    pending.remove(ToolResult("ok"), CallId("a-run", 1, 1))
    assert shown(pending)[-1] == "2 of 3 returned | 1 failed | the run 0.0 s"
    pending.remove(ToolResult("ok"), CallId("a-run", 1, 2))
    # The next calls are counted anew; the failures are those of the run.
    pending.add(MODEL, None)
    assert shown(pending)[-1] == "1 failed | the run 0.0 s"


def test_many_calls_are_cut() -> None:
    lines = shown(fetching(12))
    assert (len(lines), lines[-1]) == (7, "and 6 more calls | the run 0.0 s")


@cases("width", [12, 30, 70])
def test_long_names_stay_on_one_line(width: int) -> None:
    pending = without_terminal(Clock())
    pending.add(CallTool("x" * 500, "\x1b[2J\n" * 99), None)
    assert len(shown(pending, width)) == 2
    assert "\x1b" not in "".join(shown(pending, width))


def test_display_is_gone_after_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    trace = TracePrinter(io.StringIO(), terminal, Clock())
    trace.on_event(Asked("plan", MODEL))
    assert HIDE_CURSOR in terminal.getvalue()
    assert "asking the model" in terminal.getvalue()
    trace.on_event(Answered("plan", MODEL, "Hello", 2.0, Spent()))
    assert terminal.getvalue().count(HIDE_CURSOR) == terminal.getvalue().count(SHOW_CURSOR) == 1


@cases("clock", ["\x1b", "the run"])
def test_trace_of_a_file_has_no_clocks(clock: str) -> None:
    assert clock not in printed(*two_tools())
