"""The trace on a terminal, where what is waited for is shown meanwhile."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest

from graphexec import AskHuman
from graphexec.actions import Run
from graphexec.cli.trace import TracePrinter, format_request
from graphexec.effects import CallAgent, CallModel, CallTool
from graphexec.kernel import All, Answered, Asked, Effect, Perform, Reported, Spent
from graphexec.kernel.effects import Request
from graphexec.messages import ChatRequest, UserMessage

# What a terminal is told at the beginning of something that moves, and at its end.
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@dataclass(frozen=True)
class Fetch(Effect[str]):
    """An effect of a user's own."""

    page: str


ASKING = CallModel(ChatRequest((UserMessage("Hello"),)))


@pytest.mark.parametrize(
    ("waited", "said"),
    [
        (ASKING, "asking the model"),
        (CallAgent(Run({})), "asking the agent"),
        (CallTool("double", "2"), "calling double"),
        (AskHuman("Go on?"), "asking a person"),
        (Fetch("/"), "asking for Fetch"),
        (Perform("polish", str, 1), "running polish"),
        (All((CallTool("double", "2"), CallTool("halve", "2"))), "calling double, halve"),
        (All((ASKING, ASKING)), "asking the model"),
        (
            All((Fetch("/"), AskHuman("Go on?"), CallTool("double", "2"))),
            "calling double, asking for Fetch, asking a person",
        ),
        (CallTool("\x1b[2Jdouble", "2"), "calling double"),
    ],
)
def test_what_is_waited_for_is_said_as_what_it_is(waited: Request, said: str) -> None:
    assert format_request(waited) == said


class Terminal(io.StringIO):
    """A stream of Python's own that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_what_is_reported_does_not_end_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal, question = Terminal(), AskHuman("Go on?")
    trace = TracePrinter(io.StringIO(), terminal)
    trace.happened(Asked("plan", question))
    trace.happened(Reported("plan", question, "waited 2.0 s for a turn"))
    meanwhile = terminal.getvalue()
    trace.happened(Answered("plan", question, "yes", 2.0, Spent()))
    assert HIDE_CURSOR in meanwhile
    assert "   waited 2.0 s for a turn" in meanwhile
    assert SHOW_CURSOR not in meanwhile
    assert SHOW_CURSOR in terminal.getvalue()
