"""The trace on a terminal, with a line about the pending calls until they have returned."""

import io
from dataclasses import dataclass, replace
from typing import Any

import pytest

from graphexec import AgentAction, AgentFinish, AskHuman
from graphexec.actions import Cause, Refusal, Run
from graphexec.cli.runs.loop import RunProgress
from graphexec.cli.runs.trace import TracePrinter, describe_effect
from graphexec.effects import CallAgent, CallModel, CallTool, ToolResult
from graphexec.executor import Acted, Observed, Replied, Stopped
from graphexec.kernel import All, Answered, Asked, Effect, Entered, Event, Exhausted, Moved, Reported, Spent
from graphexec.kernel.effects import CallContext, DetachedScope, Perform
from graphexec.messages import ChatRequest, ModelReply, Usage, UserMessage
from tests.cli.terminals import Terminal
from tests.parameters import cases

MODEL = CallModel(ChatRequest([UserMessage("Hi")]))

# The control sequences at the start and at the end of a progress display.
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@dataclass(frozen=True)
class Fetch(Effect[str]):
    page: str


@cases(
    ("effect", "expected"),
    (MODEL, "asking the model"),
    (CallAgent(Run({})), "asking the agent"),
    (CallTool("double", "2"), "calling double"),
    (AskHuman("Go on?"), "asking a person"),
    (Fetch("/"), "requesting Fetch"),
    (Perform("polish", str, 1), "running polish"),
    (CallTool("\x1b[2Jdouble", "2"), "calling double"),
)
def test_pending_effect_is_described(effect: Effect[Any], expected: str) -> None:
    assert describe_effect(effect) == expected


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
        trace.on_end(replace(interrupted, error=KeyboardInterrupt()))
    return out.getvalue()


@cases(
    ("cause", "line"),
    (Exhausted("iterations", 3, 3), "the limit of 3 iterations was reached (3 spent)"),
    (Refusal("guard", "no deletions"), "refused by guard: no deletions"),
)
def test_stop_shows_its_cause(cause: Cause, line: str) -> None:
    assert line in printed(Moved("plan", Stopped(Run({}), cause), "stopped_response"))


def replies(reply: ModelReply) -> list[Event[Any]]:
    return [Answered("plan", MODEL, reply, 0.5, Spent()), Moved("plan", Replied(Run({}), reply), "check")]


def test_concurrent_tools_have_their_own_times_in_a_file() -> None:
    out = printed(*two_tools())
    for part in ("quick 20 ms: one", "slow 0.50 s: two", "   slow: half done"):
        assert part in out
    assert "\x1b" not in out


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
    assert "0.50 s · 12 + 3 tokens" in first
    assert second.split() == ["check", "→", "Replied"]
    progress = RunProgress(spent=Spent(iterations=1, meters={"model_calls": 1, "tokens": 1}))
    out = printed(*replies(ModelReply("Hello")), interrupted=progress)
    assert out.splitlines()[0].split()[-3:] == ["Replied", "0.50", "s"]
    assert "1 model call · 0 tool calls · tokens not reported · " in out
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
    (TWO[:3], TWO[3:], ["calling quick, and 1 more call"]),
    (TWO[:4], TWO[4:6], ["calling slow"]),
)
def test_display_is_there_during_the_calls(
    monkeypatch: pytest.MonkeyPatch, before: list[Event[Any]], after: list[Event[Any]], parts: list[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    trace = TracePrinter(io.StringIO(), terminal)
    for event in before:
        trace.on_event(event)
    # What is pending is drawn now and then, and with each line.
    trace.screen.print()
    meanwhile = terminal.getvalue()
    for event in after:
        trace.on_event(event)
    for part in (HIDE_CURSOR, *parts):
        assert part in meanwhile
    assert SHOW_CURSOR not in meanwhile
    assert terminal.getvalue().count(HIDE_CURSOR) == terminal.getvalue().count(SHOW_CURSOR) == 1
