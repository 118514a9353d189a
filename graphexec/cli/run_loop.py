"""Following a run to its end, however it ends, for the displays that show it."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from graphexec.actions import AgentFinish, AgentStep, Steps, StoppedResponse
from graphexec.cli.exit_codes import ANSWERED, INTERRUPTED, STOPPED, code_of
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.memory_nodes import is_saving
from graphexec.executor.result import Ending
from graphexec.kernel.events import Done, Entered, Event, Moved
from graphexec.kernel.meters import Spent
from graphexec.kernel.snapshot import Snapshot, snapshot_of


@dataclass(frozen=True, slots=True)
class Setup:
    """A run to be: the question, the executor, and the names of its model and agent."""

    question: str
    executor: AgentExecutor
    model: str
    agent: str


@dataclass(frozen=True, slots=True)
class Reached:
    """The progress of a run: the node it is at, its steps, what it spent, and the seconds since it began.

    A run that came to its `ending` may still fail or be interrupted while its memory is saved.
    """

    node: str = ""
    steps: Sequence[AgentStep] = ()
    spent: Spent = field(default=Spent())
    seconds: float = 0.0
    ending: Ending | None = None


class RunDisplay(Protocol):
    """A display of a run. After `begun` come events (not `Done`), then exactly one of the three others."""

    def begun(self, setup: Setup) -> None:
        """Show that the run is about to begin."""

    def happened(self, event: Event[Ending]) -> None:
        """Show an event."""

    def ended(self, ending: Ending, reached: Reached) -> None:
        """Show the answer, or the limit that stopped the run."""

    def interrupted(self, reached: Reached) -> None:
        """Show that the person at the keyboard has ended the run."""

    def failed(self, error: Exception, reached: Reached) -> None:
        """Show the error that ended the run."""


def follow(setup: Setup, displays: Sequence[RunDisplay], *, debug: bool = False) -> int:
    """Run, show it on the displays in order, and return the exit code; `debug` prints tracebacks to stderr."""
    begun = time.monotonic()
    seen = Reached()
    events = setup.executor.stream(setup.question)
    try:
        # What a tool prints is not the answer.
        with redirect_stdout(sys.stderr):
            for display in displays:
                display.begun(setup)
            while True:
                try:
                    event = next(events)
                except Exception as error:  # noqa: BLE001 - a model or a tool may raise anything; it is told as one line
                    if debug:
                        traceback.print_exception(error, file=sys.stderr)
                    reached = _progress_at(error, seen, time.monotonic() - begun)
                    for display in displays:
                        display.failed(error, reached)
                    return code_of(error)
                if isinstance(event, Entered):
                    ending = seen.ending if is_saving(event.node) else None
                    seen = Reached(event.node, _steps(event.value), event.spent, ending=ending)
                if isinstance(event, Moved) and isinstance(event.outcome, (AgentFinish, StoppedResponse)):
                    seen = replace(seen, steps=event.outcome.steps, ending=event.outcome)
                if isinstance(event, Done):
                    ending = event.outcome
                    reached = Reached("END", ending.steps, event.spent, event.spent.seconds, ending)
                    for display in displays:
                        display.ended(ending, reached)
                    return STOPPED if isinstance(ending, StoppedResponse) else ANSWERED
                for display in displays:
                    display.happened(event)
    except KeyboardInterrupt as error:
        reached = _progress_at(error, seen, time.monotonic() - begun)
        for display in displays:
            display.interrupted(reached)
        return INTERRUPTED


def _progress_at(error: BaseException, seen: Reached, seconds: float) -> Reached:
    snapshot: Snapshot | None = snapshot_of(error)
    if snapshot is None:
        return replace(seen, seconds=seconds)
    steps = _steps(snapshot.value) if seen.ending is None else seen.steps
    return Reached(snapshot.node, steps, snapshot.spent, seconds, seen.ending)


# Any: a node's value is whatever the graph's nodes hand on.
def _steps(value: Any) -> Sequence[AgentStep]:
    return getattr(getattr(value, "run", None), "steps", Steps())
