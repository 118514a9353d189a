"""The observer of an executor for `verbose=True`, which prints its runs to stderr."""

from __future__ import annotations

import sys
from typing import Any, final

from graphexec.actions import NO_STEPS, AgentFinish, AgentStep, Steps, run_of, steps_of
from graphexec.agents.prompt import format_observation
from graphexec.effects import CallTool
from graphexec.errors import described
from graphexec.executor.nodes import EXCEPTION_TOOL
from graphexec.executor.outcomes import Acted
from graphexec.executor.result import Ending
from graphexec.kernel.effects import CallContext, Request, members_of
from graphexec.kernel.events import Asked, Done, Entered, Event, Failed, Reported
from graphexec.kernel.snapshot import Snapshot
from graphexec.messages import ReplyDelta

# The most characters that are printed of one string: enough for a log, less than a file that a tool has read.
_MAX_LENGTH = 2_000


@final
class StepTracker:
    """Finds the new steps of a run, including those of embedded agents. The `known` steps are not new.

    Steps are compared by identity, because two steps may be equal. A step that a node replaces, with the same action,
    is not new.
    """

    def __init__(self, known: Steps = NO_STEPS) -> None:
        self._known = {id(step): step for step in known}
        self._last = known

    def take_new(self, steps: Steps) -> tuple[AgentStep, ...]:
        """Return the steps that are new, and remember them."""
        last, self._last = self._last, steps
        new: list[AgentStep] = []
        for position in reversed(range(len(steps))):
            step = steps[position]
            if id(step) in self._known or (position < len(last) and last[position].action is step.action):
                break
            self._known[id(step)] = step
            new.append(step)
        return tuple(reversed(new))


def calls_tools(effect: Request) -> bool:
    """Return whether an effect calls a tool, or several."""
    return any(isinstance(member, CallTool) for member in members_of(effect))


def name_in_batch(call: CallContext[Any] | None) -> str:
    """Return the prefix that names one of several calls, such as `look_up: `; empty if there is only one call."""
    if call is None or call.request is None or len(members_of(call.request)) == 1:
        return ""
    effect = call.effect
    return f"{effect.name if isinstance(effect, CallTool) else type(effect).__name__}: "


@final
class ConsolePrinter:
    """An observer that prints a run's steps to stderr."""

    def __init__(self, start: Snapshot | None = None) -> None:
        # The steps of a resumed run have been printed before.
        self._has_begun = start is not None
        self._new = StepTracker(steps_of(None if start is None else start.value))
        self._last: AgentStep | None = None
        self._value = None if start is None else start.value

    def __call__(self, event: Event[Ending]) -> None:
        """Print the actions, steps, news or ending that the event carries."""
        match event:
            case Entered(_, value):
                self._steps(value)
                self._value = value
            case Asked(_, effect) if isinstance(self._value, Acted) and calls_tools(effect):
                actions, self._value = self._value.actions, None
                for action in actions:
                    self._line(action.log.strip())
                    self._line(f"-> {action.tool}({format_observation(action.tool_input)})")
                    self._print_unread(action.unread)
            case Reported(news=news, call=call) if not isinstance(news, ReplyDelta):
                self._line(f"   {name_in_batch(call)}{news}")
            case Done(ending):
                self._steps(ending)
                if isinstance(ending, AgentFinish):
                    self._print_unread(ending.unread)
                    self._line(format_observation(ending.answer))
                else:
                    self._line(f"{ending.output}\n{ending.reason}")
                self._line("> the run ends")
            case Failed(error, snapshot):
                self._steps(snapshot.value)
                fails = isinstance(error, Exception)
                self._line(described(error) if fails else "")
                self._line("> the run fails" if fails else "> the run is interrupted")
            case _:
                pass

    def _steps(self, value: object) -> None:
        run = run_of(value)
        if run is None:
            return
        if not self._has_begun and not run.steps:
            self._line("> the run begins")
        self._has_begun = True
        new = self._new.take_new(run.steps)
        for step in new:
            self._line(self._observation(step))
        last = run.steps[-1] if run.steps else None
        # A node such as notice_repeats may have changed what the model sees of the last step.
        if not new and last is not None and self._last is not None and last.excerpt != self._last.excerpt:
            self._line(self._observation(last))
        self._last = last

    def _observation(self, step: AgentStep) -> str:
        if step.action.tool == EXCEPTION_TOOL:
            return f"{step.action.log.strip()}\n<- could not be read: {step.text}"
        return f"<- {step.text}"

    def _print_unread(self, text: str) -> None:
        if text:
            self._line(f"   not read, since the model invented it: {text.strip()}")

    def _line(self, text: str) -> None:
        if not text:
            return
        if len(text) > _MAX_LENGTH:
            text = f"{text[:_MAX_LENGTH]} [... {len(text) - _MAX_LENGTH:,} more characters]"
        text = "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text)
        print(text, file=sys.stderr, flush=True)
