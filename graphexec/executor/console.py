"""`verbose=True`: what the agent says and does, readable, on stderr; coloured where that is a terminal."""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO, final

from graphexec.actions import AgentFinish, AgentStep, StoppedResponse, run_of, steps_of
from graphexec.agents.prompt import format_observation, observation_text
from graphexec.errors import described
from graphexec.executor.iteration import NewSteps, calls_tools, name_in_batch
from graphexec.executor.result import Ending
from graphexec.executor.table import EXCEPTION_TOOL, Acted
from graphexec.kernel.events import Asked, Done, Entered, Event, Failed, Reported
from graphexec.kernel.snapshot import Snapshot
from graphexec.messages import ReplyDelta

# ANSI's: grey, green, yellow, red, bold.
_COLOURS: Final = {"aside": "2", "said": "32", "seen": "33", "wrong": "31", "answer": "1"}

# How much of a text is printed, in characters: whole lines of a log, not a file that a tool has read.
_MOST = 2_000


@final
class ConsolePrinter:
    """An observer that prints a run's steps. `NO_COLOR` in the environment forbids colours."""

    __slots__ = ("_begun", "_last", "_new", "_out", "_value")

    def __init__(self, out: TextIO | None = None, *, start: Snapshot | None = None) -> None:
        self._out = out
        # A run that is gone on with has begun, and told its steps.
        self._begun = start is not None
        self._new = NewSteps(steps_of(None if start is None else start.value))
        self._last: AgentStep | None = None
        self._value = None if start is None else start.value

    def __call__(self, event: Event[Ending]) -> None:
        """Print what the event brings."""
        match event:
            case Entered(_, value):
                self._steps(value)
                self._value = value
            case Asked(_, effect) if isinstance(self._value, Acted) and calls_tools(effect):
                actions, self._value = self._value.actions, None
                for action in actions:
                    self._line(action.log.strip(), "said")
                    self._line(f"-> {action.tool}({format_observation(action.tool_input)})", "said")
            case Reported(news=news, call=call) if not isinstance(news, ReplyDelta):
                self._line(f"   {name_in_batch(call)}{news}", "aside")
            case Done(ending):
                self._steps(ending)
                self._print_ending(ending)
            case Failed(error, snapshot):
                self._steps(snapshot.value)
                self._print_failure(error)
            case _:
                pass

    def _steps(self, value: object) -> None:
        run = run_of(value)
        if run is None:
            return
        if not self._begun and not run.steps:
            self._line("> the run begins", "aside")
        self._begun = True
        new = self._new.of(run.steps)
        for step in new:
            self._line(self._observation(step), "seen" if step.status == "ok" else "wrong")
        last = run.steps[-1] if run.steps else None
        # A node such as notice_repeats may have something to add to what the model is told.
        if not new and last is not None and self._last is not None and last.model_text != self._last.model_text:
            self._line(self._observation(last), "aside")
        self._last = last

    def _observation(self, step: AgentStep) -> str:
        if step.action.tool == EXCEPTION_TOOL:
            return f"{step.action.log.strip()}\n<- could not be read: {observation_text(step)}"
        return f"<- {observation_text(step)}"

    def _print_ending(self, ending: Ending) -> None:
        match ending:
            case AgentFinish():
                self._line(format_observation(ending.answer), "answer")
            case StoppedResponse():
                self._line(f"{ending.output}\n{ending.reason}", "wrong")
        self._line("> the run ends", "aside")

    def _print_failure(self, error: BaseException) -> None:
        if not isinstance(error, Exception):
            self._line("> the run is interrupted", "aside")
            return
        self._line(described(error), "wrong")
        self._line("> the run fails", "aside")

    def _line(self, text: str, kind: str) -> None:
        if not text:
            return
        # Looked up now: tests and notebooks put another one in its place.
        out = self._out or sys.stderr
        text = text if len(text) <= _MOST else f"{text[:_MOST]} [... {len(text) - _MOST:,} more characters]"
        text = "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text)
        coloured = out.isatty() and not os.environ.get("NO_COLOR")
        print(f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if coloured else text, file=out, flush=True)
