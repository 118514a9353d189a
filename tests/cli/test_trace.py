"""The trace on a terminal, with its display of pending calls, whose clocks tick until they have returned."""

import io
from dataclasses import dataclass
from typing import Any

import pytest
from rich.console import Console

from graphexec import AgentAction, AgentFinish, AskHuman
from graphexec.actions import Run
from graphexec.cli.runs.loop import RunProgress
from graphexec.cli.runs.pending import PendingCalls, format_effects
from graphexec.cli.runs.trace import TracePrinter
from graphexec.cli.screen import Screen
from graphexec.cli.terminal import ASCII
from graphexec.effects import CallAgent, CallModel, CallTool, ToolResult
from graphexec.executor import Acted, Observed, Replied
from graphexec.kernel import All, Answered, Asked, Effect, Entered, Event, Moved, Perform, Reported, Spent
from graphexec.kernel.effects import CallContext, CallId, DetachedScope
from graphexec.messages import ChatRequest, ModelReply, Usage, UserMessage
from graphexec.testing import VirtualClock
from tests.cli.terminals import Terminal
from tests.parameters import cases

MODEL = CallModel(ChatRequest([UserMessage("Hi")]))

# The control sequences at the start and at the end of a progress display.
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@dataclass(frozen=True)
class Fetch(Effect[str]):
    page: str


@cases(
    ("waited", "expected"),
    ([MODEL], "asking the model"),
    ([CallAgent(Run({}))], "asking the agent"),
    ([CallTool("double", "2")], "calling double"),
    ([AskHuman("Go on?")], "asking a person"),
    ([Fetch("/")], "requesting Fetch"),
    ([Perform("polish", str, 1)], "running polish"),
    ([CallTool("double", "2"), CallTool("halve", "2")], "calling double, halve"),
    ([MODEL, MODEL], "asking the model"),
    ([Fetch("/"), AskHuman("?"), CallTool("double", "2")], "calling double, requesting Fetch, asking a person"),
    ([CallTool("\x1b[2Jdouble", "2")], "calling double"),
)
def test_pending_effects_are_described(waited: list[Effect[Any]], expected: str) -> None:
    assert format_effects(waited) == expected


def two_tools() -> list[Event[Any]]:
    """Return the events of a node that calls a quick tool and a slow one."""
    quick, slow = CallTool("quick", "x"), CallTool("slow", "y")
    calls = [
        CallContext[Any](DetachedScope("a-run"), "dispatch_tools", effect, All((quick, slow)), 1, member)
        for member, effect in enumerate((quick, slow))
    ]
    actions = (AgentAction("quick", "x", ""), AgentAction("slow", "y", ""))
    results = (ToolResult("one"), ToolResult("two"))
    return [
        Entered("dispatch_tools", None, Spent()),
        Asked("dispatch_tools", quick, calls[0]),
        Asked("dispatch_tools", slow, calls[1]),
        Answered("dispatch_tools", quick, results[0], 0.02, Spent(), calls[0]),
        Reported("dispatch_tools", slow, "half done", calls[1]),
        Answered("dispatch_tools", slow, results[1], 0.5, Spent(), calls[1]),
        Moved("dispatch_tools", Observed(Run({}), actions, results), "check_return_direct"),
    ]


def printed(*events: Event[Any], interrupted: RunProgress | None = None) -> str:
    """Return the trace of events in a file, and of the interrupt after them."""
    out = io.StringIO()
    trace = TracePrinter(io.StringIO(), out)
    for event in events:
        trace.on_event(event)
    if interrupted is not None:
        trace.on_interrupt(interrupted)
    return out.getvalue()


def replies(reply: ModelReply) -> list[Event[Any]]:
    return [Answered("plan", MODEL, reply, 0.5, Spent()), Moved("plan", Replied(Run({}), reply), "check")]


def test_concurrent_tools_have_their_own_times_in_a_file_without_clocks() -> None:
    out = printed(*two_tools())
    for part in ("quick 20 ms: one", "slow 0.50 s: two", "   slow: half done"):
        assert part in out
    for clock in ("\x1b", "the run"):
        assert clock not in out


def test_invented_text_is_shown_as_unread() -> None:
    action = AgentAction("echo", "a", unread="Observation: b")
    finish = AgentFinish({"output": "c"}, unread="Observation: d")
    out = printed(Moved("parse", Acted(Run({}), (action,)), "dispatch_tools"), Moved("parse", finish, "END"))
    unread = [line.split("it: ")[1] for line in out.splitlines() if "not read" in line]
    assert unread == ["Observation: b", "Observation: d"]


def test_usage_is_shown_where_a_model_was_called() -> None:
    reply = ModelReply("Hello", usage=Usage(12, 3))
    checked: list[Event[Any]] = [Entered("check", Run({}), Spent()), Moved("check", Replied(Run({}), reply), "parse")]
    first, second = printed(*replies(reply), *checked).splitlines()
    assert "0.50 s | 12 + 3 tokens" in first
    assert second.split() == ["check", "->", "Replied"]
    progress = RunProgress(spent=Spent(iterations=1, meters={"model_calls": 1, "tokens": 1}))
    out = printed(*replies(ModelReply("Hello")), interrupted=progress)
    assert out.splitlines()[0].split()[-3:] == ["Replied", "0.50", "s"]
    assert "1 model call | 0 tool calls | tokens not reported | " in out
    progress = RunProgress(spent=Spent(iterations=10**5000, meters={"prompt_tokens": 10**5000}))
    out = printed(*replies(ModelReply("Hello", usage=Usage(10**5000, 1))), interrupted=progress)
    assert "1.0e+5000 + 1 tokens" in out
    assert "1.0e+5000 tokens (1.0e+5000 + 0)" in out


TWO = two_tools()


@cases(
    ("before", "after", "parts"),
    (
        [Asked("plan", MODEL), Reported("plan", MODEL, "waited 2.0 s for a turn")],
        [Answered("plan", MODEL, "Hello", 2.0, Spent())],
        ["asking the model", "   waited 2.0 s for a turn"],
    ),
    (TWO[:4], TWO[4:], ["calling quick"]),
)
def test_display_is_there_during_the_calls(
    monkeypatch: pytest.MonkeyPatch, before: list[Event[Any]], after: list[Event[Any]], parts: list[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    trace = TracePrinter(io.StringIO(), terminal, VirtualClock())
    for event in before:
        trace.on_event(event)
    meanwhile = terminal.getvalue()
    for event in after:
        trace.on_event(event)
    for part in (HIDE_CURSOR, *parts):
        assert part in meanwhile
    assert SHOW_CURSOR not in meanwhile
    assert terminal.getvalue().count(HIDE_CURSOR) == terminal.getvalue().count(SHOW_CURSOR) == 1


# ---- pending calls


FETCH = CallTool("fetch", {"url": "https://example.org/a"})


def shown(pending: PendingCalls, width: int = 70) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(pending.render())
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def without_terminal(clock: VirtualClock) -> PendingCalls:
    return PendingCalls(Screen(io.StringIO()), ASCII, clock)


def fetching(calls: int) -> PendingCalls:
    """Return the display of so many pending calls of one tool."""
    pending = without_terminal(VirtualClock())
    for member in range(calls):
        pending.add(FETCH, CallId("a-run", 1, member))
    return pending


def test_clocks_tick_while_calls_are_pending() -> None:
    clock = VirtualClock()
    pending = without_terminal(clock)
    clock.advance(1.5)
    pending.add(MODEL, None)
    assert shown(pending) == ["/ asking the model 0.0 s", "the run 1.5 s"]
    clock.advance(2.25)
    assert [line.split()[-2] for line in shown(pending)] == ["2.2", "3.8"]
    clock.advance(100)
    assert shown(pending)[-1] == "the run 1:43"
    clock = VirtualClock()
    pending = without_terminal(clock)
    pending.add(FETCH, CallId("a-run", 1, 0))
    clock.advance(3)
    pending.add(CallTool("slow", "x"), CallId("a-run", 1, 1))
    first, second, _ = shown(pending)
    for line, call, seconds in ((first, "calling fetch(url=", "3.0 s"), (second, "calling slow(", "0.0 s")):
        assert call in line
        assert line.endswith(seconds)


def test_calls_are_counted_and_cut() -> None:
    pending = fetching(3)
    pending.remove(ToolResult("503", "error"), CallId("a-run", 1, 0))
    pending.remove(ToolResult("ok"), CallId("a-run", 1, 1))
    assert shown(pending)[-1] == "2 of 3 returned | 1 failed | the run 0.0 s"
    pending.remove(ToolResult("ok"), CallId("a-run", 1, 2))
    # The next calls are counted anew; the failures are those of the run.
    pending.add(MODEL, None)
    assert shown(pending)[-1] == "1 failed | the run 0.0 s"
    lines = shown(fetching(12))
    assert (len(lines), lines[-1]) == (7, "and 6 more calls | the run 0.0 s")


@cases("width", 12, 30, 70)
def test_long_names_stay_on_one_line(width: int) -> None:
    pending = without_terminal(VirtualClock())
    pending.add(CallTool("x" * 500, "\x1b[2J\n" * 99), None)
    assert len(shown(pending, width)) == 2
    assert "\x1b" not in "".join(shown(pending, width))
