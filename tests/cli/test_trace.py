"""The trace on a terminal, where what is waited for is shown meanwhile."""

from __future__ import annotations

import io

import pytest

from graphexec import AskHuman
from graphexec.cli.trace import Trace
from graphexec.events import Answered, Asked, Reported
from graphexec.limits import Spent

# What a terminal is told at the beginning of something that moves, and at its end.
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Terminal(io.StringIO):
    """A stream of Python's own that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_what_is_reported_does_not_end_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal, asked = Terminal(), AskHuman("Go on?")
    trace = Trace(io.StringIO(), terminal)
    trace.happened(Asked("plan", asked))
    trace.happened(Reported("plan", asked, "waited 2.0 s for a turn"))
    meanwhile = terminal.getvalue()
    trace.happened(Answered("plan", asked, "yes", 2.0, Spent()))
    assert HIDE_CURSOR in meanwhile
    assert "   waited 2.0 s for a turn" in meanwhile
    assert SHOW_CURSOR not in meanwhile
    assert SHOW_CURSOR in terminal.getvalue()
