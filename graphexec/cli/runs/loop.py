"""Run an agent and pass its events to displays, until it ends, fails or is interrupted."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any

from graphexec.actions import AgentFinish, AgentStep, Steps, StoppedResponse
from graphexec.cli.exit_codes import ANSWERED, STOPPED, WAITING, code_of
from graphexec.cli.runs.stores import StoredAs
from graphexec.cli.runs.termination import terminable
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.plugging.memory import is_save_node
from graphexec.executor.result import Ending
from graphexec.kernel.effects import Effect
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Moved
from graphexec.kernel.meters import Spent
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.runs.questions import Waiting


@dataclass(frozen=True, slots=True)
class RunSetup:
    """The parameters of a run: its inputs, the executor, and the names of its model and agent.

    `inputs` are by name, or the only one as a string, or `None` for those of a run that is `stored`; `tokens` streams
    the replies.
    """

    # Any: the inputs of an executor.
    inputs: Mapping[str, Any] | str | None
    executor: AgentExecutor
    model: str
    agent: str
    tokens: bool = False
    stored: StoredAs | None = None


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run: its current node, its steps, its usage, and the seconds since it began.

    `error` is what ended it early, such as Ctrl-C or a signal. A run with an `ending` may still fail or be interrupted
    while its memory is saved. A stored run may be `waiting` for answers.
    """

    node: str = ""
    steps: Sequence[AgentStep] = ()
    spent: Spent = field(default=Spent())
    seconds: float = 0.0
    ending: Ending | None = None
    error: BaseException | None = None
    waiting: Waiting | None = None

    @property
    def code(self) -> int:
        """The exit code of a run that is over."""
        if self.error is not None:
            return code_of(self.error)
        if self.waiting is not None:
            return WAITING
        return STOPPED if isinstance(self.ending, StoppedResponse) else ANSWERED


class RunDisplay:
    """A display of a run, here of nothing: `on_start`, then `on_event` for each event but `Done`, then `on_end`."""

    def on_start(self, setup: RunSetup) -> None:
        """Handle the start of the run."""

    def on_event(self, event: Event[Ending]) -> None:
        """Handle an event."""

    def on_end(self, progress: RunProgress) -> None:
        """Handle the answer, the limit that stopped the run, or the error or interruption that ended it."""


def follow(setup: RunSetup, displays: Sequence[RunDisplay], *, debug: bool = False) -> int:
    """Run the agent, pass events to the displays in order, and return the exit code; `debug` prints tracebacks."""
    begun = time.monotonic()
    seen = RunProgress()
    ended = threading.Event()

    def end(progress: RunProgress) -> int:
        for display in displays:
            display.on_end(progress)
        return progress.code

    def end_early(error: BaseException) -> int:
        return end(_progress_at(error, seen, time.monotonic() - begun))

    def interrupt(error: KeyboardInterrupt) -> None:
        if not ended.is_set():
            ended.set()
            end_early(error)

    events = _begin(setup)
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
                        return end_early(error)
                    if isinstance(event, Done):
                        return end(
                            RunProgress("END", event.outcome.steps, event.spent, event.spent.seconds, event.outcome)
                        )
                    if isinstance(event, Waiting):
                        return end(replace(seen, seconds=time.monotonic() - begun, waiting=event))
                    seen = _progress_after(event, seen)
                    for display in displays:
                        display.on_event(event)
        except KeyboardInterrupt as error:
            interrupt(error)
            return code_of(error)


def _begin(setup: RunSetup) -> Generator[Event[Ending] | Waiting]:
    stored = setup.stored
    if stored is None:
        return setup.executor.stream(setup.inputs, tokens=setup.tokens)
    return setup.executor.stream(
        setup.inputs, tokens=setup.tokens, runs=stored.store, run_id=stored.run_id, migrate=stored.migrate
    )


def _progress_after(event: Event[Ending], seen: RunProgress) -> RunProgress:
    match event:
        case Entered():
            ending = seen.ending if is_save_node(event.node) else None
            return RunProgress(event.node, _steps(event.value), event.spent, ending=ending)
        case Asked():
            return replace(seen, spent=_charge(seen.spent, event.effect))
        case Answered():
            return replace(seen, spent=event.spent)
        case Moved(outcome=AgentFinish() | StoppedResponse() as ending):
            return replace(seen, steps=ending.steps, ending=ending)
        case _:
            return seen


def _progress_at(error: BaseException, seen: RunProgress, seconds: float) -> RunProgress:
    snapshot: Snapshot | None = snapshot_of(error)
    if snapshot is None:
        return replace(seen, seconds=seconds, error=error)
    steps = _steps(snapshot.value) if seen.ending is None else seen.steps
    return RunProgress(snapshot.node, steps, snapshot.spent, seconds, seen.ending, error)


def _charge(spent: Spent, effect: Effect[Any]) -> Spent:
    """Return the spending with the charges of an effect, as its event has none: it may be the last event."""
    meters = dict(spent.meters)
    for meter, amount in effect.charges.items():
        meters[meter.name] = meters.get(meter.name, 0) + amount
    return replace(spent, meters=meters)


# Any: the values of a graph's nodes are arbitrary.
def _steps(value: Any) -> Sequence[AgentStep]:
    return getattr(getattr(value, "run", None), "steps", Steps())
