"""`verbose=True`: what the agent says and does, readable, on stderr; coloured where that is a terminal."""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO, final

from graphexec.actions import AgentFinish, AgentStep, Run, StoppedResponse
from graphexec.agents.prompt import observed, shown
from graphexec.events import Asked, Done, Entered, Event, Reported
from graphexec.machine import EXCEPTION_TOOL, Acted
from graphexec.messages import ReplyDelta
from graphexec.result import Ending

# ANSI's: grey, green, yellow, red, bold.
_COLOURS: Final = {"aside": "2", "said": "32", "seen": "33", "wrong": "31", "answer": "1"}

# How much of a text is printed, in characters: whole lines of a log, not a file that a tool has read.
_MOST = 2_000


@final
class Printed:
    """A watcher that prints a run's steps. `NO_COLOR` in the environment forbids colours."""

    __slots__ = ("_out", "_seen", "_value")

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        self._seen = 0
        self._value: object = None

    def __call__(self, event: Event[Ending]) -> None:
        """Print what the event brings."""
        match event:
            case Entered(_, value):
                self._steps(value)
                self._value = value
            case Asked() if isinstance(self._value, Acted):
                for action in self._value.actions:
                    self._line(action.log.strip(), "said")
                    self._line(f"-> {action.tool}({shown(action.tool_input)})", "said")
            case Reported(news=news) if not isinstance(news, ReplyDelta):
                self._line(f"   {news}", "aside")
            case Done(ending):
                self._steps(ending)
                self._ended(ending)
            case _:
                pass

    def _steps(self, value: object) -> None:
        run = getattr(value, "run", None)
        if not isinstance(run, Run):
            return
        if not run.steps and not self._seen and self._value is None:
            self._line("> the run begins", "aside")
        for step in run.steps[self._seen :]:
            self._line(self._observation(step), "seen" if step.status == "ok" else "wrong")
        self._seen = max(self._seen, len(run.steps))

    def _observation(self, step: AgentStep) -> str:
        if step.action.tool == EXCEPTION_TOOL:
            return f"{step.action.log.strip()}\n<- could not be read: {observed(step)}"
        return f"<- {observed(step)}"

    def _ended(self, ending: Ending) -> None:
        match ending:
            case AgentFinish():
                self._line(shown(ending.answer), "answer")
            case StoppedResponse():
                self._line(f"{ending.output}\n{ending.reason}", "wrong")
        self._line("> the run ends", "aside")

    def _line(self, text: str, kind: str) -> None:
        if not text:
            return
        # Looked up now: tests and notebooks put another one in its place.
        out = self._out or sys.stderr
        text = text if len(text) <= _MOST else f"{text[:_MOST]} [... {len(text) - _MOST:,} more characters]"
        text = "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text)
        coloured = out.isatty() and not os.environ.get("NO_COLOR")
        print(f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if coloured else text, file=out, flush=True)
