"""Run an agent and pass its events to displays, until it ends, fails or is interrupted."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from graphexec.actions import AgentFinish, AgentStep, Steps, StoppedResponse
from graphexec.cli.exit_codes import ANSWERED, STOPPED, Terminated, code_of
from graphexec.cli.runs.termination import terminable
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.plugging.memory import is_save_node
from graphexec.executor.result import Ending
from graphexec.kernel.effects import Effect
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Moved
from graphexec.kernel.meters import Spent
from graphexec.kernel.snapshot import Snapshot, snapshot_of


@dataclass(frozen=True, slots=True)
class RunSetup:
    """The parameters of a run: its inputs, the executor, and the names of its model and agent.

    `inputs` are by name, or the only one as a string; `tokens` streams the replies.
    """

    # Any: the inputs of an executor.
    inputs: Mapping[str, Any] | str
    executor: AgentExecutor
    model: str
    agent: str
    tokens: bool = False

    @property
    def recorded_inputs(self) -> Mapping[str, Any] | str:
        """The inputs as the records have them: the only one without its name."""
        inputs = self.inputs
        if isinstance(inputs, str) or len(inputs) != 1:
            return inputs
        only: str = next(iter(inputs.values()))
        return only


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run: its current node, its steps, its usage, and the seconds since it began.

    A run with an `ending` may still fail or be interrupted while its memory is saved. `terminated_by` is the signal
    that interrupted it, unless it was Ctrl-C.
    """

    node: str = ""
    steps: Sequence[AgentStep] = ()
    spent: Spent = field(default=Spent())
    seconds: float = 0.0
    ending: Ending | None = None
    terminated_by: Terminated | None = None


class RunDisplay(Protocol):
    """A display of a run: `on_start`, then `on_event` for each event but `Done`, then exactly one of the others."""

    def on_start(self, setup: RunSetup) -> None:
        """Handle the start of the run."""

    def on_event(self, event: Event[Ending]) -> None:
        """Handle an event."""

    def on_end(self, ending: Ending, progress: RunProgress) -> None:
        """Handle the answer, or the limit that stopped the run."""

    def on_interrupt(self, progress: RunProgress) -> None:
        """Handle an interruption from the keyboard, or by a signal."""

    def on_error(self, error: Exception, progress: RunProgress) -> None:
        """Handle the error that ended the run."""


def follow(setup: RunSetup, displays: Sequence[RunDisplay], *, debug: bool = False) -> int:
    """Run the agent, pass events to the displays in order, and return the exit code; `debug` prints tracebacks."""
    begun = time.monotonic()
    seen = RunProgress()
    ended = threading.Event()

    def interrupt(error: KeyboardInterrupt) -> None:
        if ended.is_set():
            return
        ended.set()
        by = error if isinstance(error, Terminated) else None
        progress = replace(_progress_at(error, seen, time.monotonic() - begun), terminated_by=by)
        for display in displays:
            display.on_interrupt(progress)

    events = setup.executor.stream(setup.inputs, tokens=setup.tokens)
    # Output of tools must not mix with the answer. A display that redirects it, too, ends within.
    with redirect_stdout(sys.stderr):
        try:
            # A run whose display is interrupted ends, too.
            with terminable(interrupt), closing(events):
                for display in displays:
                    display.on_start(setup)
                while True:
                    try:
                        event = next(events)
                    except Exception as error:  # noqa: BLE001 - a model or a tool may raise anything; it is reported on one line
                        if debug:
                            traceback.print_exception(error, file=sys.stderr)
                        progress = _progress_at(error, seen, time.monotonic() - begun)
                        for display in displays:
                            display.on_error(error, progress)
                        return code_of(error)
                    if isinstance(event, Entered):
                        ending = seen.ending if is_save_node(event.node) else None
                        seen = RunProgress(event.node, _steps(event.value), event.spent, ending=ending)
                    elif isinstance(event, Asked):
                        seen = replace(seen, spent=_charge(seen.spent, event.effect))
                    elif isinstance(event, Answered):
                        seen = replace(seen, spent=event.spent)
                    if isinstance(event, Moved) and isinstance(event.outcome, (AgentFinish, StoppedResponse)):
                        seen = replace(seen, steps=event.outcome.steps, ending=event.outcome)
                    if isinstance(event, Done):
                        ending = event.outcome
                        progress = RunProgress("END", ending.steps, event.spent, event.spent.seconds, ending)
                        for display in displays:
                            display.on_end(ending, progress)
                        return STOPPED if isinstance(ending, StoppedResponse) else ANSWERED
                    for display in displays:
                        display.on_event(event)
        except KeyboardInterrupt as error:
            interrupt(error)
            return code_of(error)


def _progress_at(error: BaseException, seen: RunProgress, seconds: float) -> RunProgress:
    snapshot: Snapshot | None = snapshot_of(error)
    if snapshot is None:
        return replace(seen, seconds=seconds)
    steps = _steps(snapshot.value) if seen.ending is None else seen.steps
    return RunProgress(snapshot.node, steps, snapshot.spent, seconds, seen.ending)


def _charge(spent: Spent, effect: Effect[Any]) -> Spent:
    """Return the spending with the charges of an effect, as its event has none: it may be the last event."""
    meters = dict(spent.meters)
    for meter, amount in effect.charges.items():
        meters[meter.name] = meters.get(meter.name, 0) + amount
    return replace(spent, meters=meters)


# Any: the values of a graph's nodes are arbitrary.
def _steps(value: Any) -> Sequence[AgentStep]:
    return getattr(getattr(value, "run", None), "steps", Steps())
