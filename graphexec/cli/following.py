"""Following a run to its end, however it ends, for a watcher that shows it."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from graphexec.actions import AgentFinish, AgentStep, Steps, StoppedResponse
from graphexec.cli.exits import ANSWERED, INTERRUPTED, STOPPED, code_of
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.result import Ending
from graphexec.kernel.events import Done, Entered, Event, Moved
from graphexec.kernel.meters import Spent
from graphexec.kernel.node import END
from graphexec.kernel.snapshot import Snapshot, snapshot_of


@dataclass(frozen=True, slots=True)
class Setup:
    """What is run: the question, the executor, and what model and agent it was made of, by name."""

    question: str
    executor: AgentExecutor
    model: str
    agent: str


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a run came: the node it was at, its steps, what it spent, and the seconds since it began.

    One that came to its `ending` may fail or be interrupted all the same, while its memory is told of it.
    """

    node: str = ""
    steps: Sequence[AgentStep] = ()
    spent: Spent = field(default=Spent())
    seconds: float = 0.0
    ending: Ending | None = None


class RunDisplay(Protocol):
    """Who shows a run. After `begun` come events, then exactly one of the three others."""

    def begun(self, setup: Setup) -> None:
        """The run is about to begin."""
        ...

    def happened(self, event: Event[Ending]) -> None:
        """Something happened; the last event of a run that ends is `Done`, which `ended` is told instead."""
        ...

    def ended(self, ending: Ending, reached: Reached) -> None:
        """The run has an answer, or a limit stopped it."""
        ...

    def interrupted(self, reached: Reached) -> None:
        """The person at the keyboard has ended the run."""
        ...

    def failed(self, error: Exception, reached: Reached) -> None:
        """An error ended the run."""
        ...


class RunDisplays:
    """A watcher that tells several, in their order."""

    def __init__(self, *observers: RunDisplay) -> None:
        self._watchers = observers

    def begun(self, setup: Setup) -> None:
        """Tell that the run is about to begin."""
        for watcher in self._watchers:
            watcher.begun(setup)

    def happened(self, event: Event[Ending]) -> None:
        """Tell what happened."""
        for watcher in self._watchers:
            watcher.happened(event)

    def ended(self, ending: Ending, reached: Reached) -> None:
        """Tell that the run ended by itself."""
        for watcher in self._watchers:
            watcher.ended(ending, reached)

    def interrupted(self, reached: Reached) -> None:
        """Tell that the person has ended the run."""
        for watcher in self._watchers:
            watcher.interrupted(reached)

    def failed(self, error: Exception, reached: Reached) -> None:
        """Tell that an error ended the run."""
        for watcher in self._watchers:
            watcher.failed(error, reached)


def follow(setup: Setup, watcher: RunDisplay, *, debug: bool = False) -> int:
    """Run, tell the watcher, and return the exit code. Raises only what the watcher raises.

    With `debug`, an error's traceback goes to stderr.
    """
    begun = time.monotonic()
    seen = Reached()
    events = setup.executor.stream(setup.question)
    try:
        # What a tool prints is not the answer.
        with redirect_stdout(sys.stderr):
            watcher.begun(setup)
            while True:
                try:
                    event = next(events)
                except Exception as error:  # noqa: BLE001 - a model or a tool may raise anything; it is told as one line
                    if debug:
                        traceback.print_exception(error, file=sys.stderr)
                    watcher.failed(error, _reached(error, seen, time.monotonic() - begun))
                    return code_of(error)
                if isinstance(event, Entered):
                    seen = Reached(event.node, _steps(event.value), event.spent)
                if isinstance(event, Moved) and event.target == END.name:
                    seen = _ended(seen, event.outcome)
                if isinstance(event, Done):
                    ending = event.outcome
                    watcher.ended(ending, Reached("END", ending.steps, event.spent, event.spent.seconds, ending))
                    return STOPPED if isinstance(ending, StoppedResponse) else ANSWERED
                watcher.happened(event)
    except KeyboardInterrupt as error:
        watcher.interrupted(_reached(error, seen, time.monotonic() - begun))
        return INTERRUPTED


def _ended(seen: Reached, outcome: object) -> Reached:
    assert isinstance(outcome, (AgentFinish, StoppedResponse)), "an executor's runs end in one of these"
    return replace(seen, steps=outcome.steps, ending=outcome)


def _reached(error: BaseException, seen: Reached, seconds: float) -> Reached:
    """What the error knows of the run, or, if it came between two events, what was seen."""
    snapshot: Snapshot | None = snapshot_of(error)
    if snapshot is None:
        return replace(seen, seconds=seconds)
    steps = _steps(snapshot.value) if seen.ending is None else seen.steps
    return Reached(snapshot.node, steps, snapshot.spent, seconds, seen.ending)


# Any: a node's value is whatever the graph's nodes hand on.
def _steps(value: Any) -> Sequence[AgentStep]:
    run = getattr(value, "run", None)
    return getattr(run, "steps", Steps())
