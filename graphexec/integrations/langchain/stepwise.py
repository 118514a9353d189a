"""Run an agent turn by turn, so that the caller can inspect, change or leave the run between two turns."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from graphexec.actions import NO_STEPS, AgentStep, Run, run_of, steps_of
from graphexec.errors import InputError
from graphexec.executor.console import StepTracker
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.inputs import Inputs
from graphexec.executor.plugging.memory import is_save_node
from graphexec.executor.result import Ending, RunResult, T_co
from graphexec.kernel.events import Asked, Done, Entered, Event
from graphexec.kernel.meters import Spent
from graphexec.kernel.snapshot import Snapshot
from graphexec.runtime.handlers import RunOptions
from graphexec.runtime.io import ASYNC, BLOCKING, IO, iterate_sync

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from graphexec.runtime.handlers import AnySettings

T = TypeVar("T")


def iterate(executor: AgentExecutor[T], inputs: Inputs | Snapshot, **options: Unpack[AnySettings]) -> Stepwise[T]:
    """Run an executor turn by turn: `for steps in iterate(executor, ...)`, or `async for`; see `Stepwise`.

    The options and the errors raised are those of `executor.stream`.
    """
    # An invalid option is reported here, not when the run begins.
    RunOptions(**options)
    return Stepwise(executor, inputs, options)


@final
class Stepwise(Generic[T_co]):
    """An iterable that runs the agent and yields the new steps of each turn, each as `(action, observation)`.

    Between two turns, `run` may be replaced: `turns.run = replace(turns.run, steps=Steps(...))`. The current node is
    then entered again; usage and elapsed time are kept. Leaving the loop ends the run. `result` is available when the
    run has `ended`, possibly already in the last turn. Iterating again, with `for` or `async for`, starts from the
    beginning. A stored run cannot be replaced, and the loop raises a `RunStoreError` with the questions if it has to
    wait.
    """

    __slots__ = ("_began", "_entered", "_executor", "_inputs", "_new", "_options", "_result", "_run", "_sequence")

    def __init__(self, executor: AgentExecutor[T_co], inputs: Inputs | Snapshot, options: AnySettings) -> None:
        self._executor = executor
        self._inputs = inputs
        self._options = options
        self._begin()

    def _begin(self) -> None:
        self._began = 0.0
        self._entered: Entered | None = None
        # The sequence number of the last request; a resumed run continues after it.
        self._sequence = 0
        self._run: Run | None = None
        self._result: RunResult[T_co] | None = None
        given = self._inputs
        self._new = StepTracker(steps_of(given.value) if isinstance(given, Snapshot) else NO_STEPS)

    @property
    def run(self) -> Run:
        """The run so far. Raises `InputError` before its first turn."""
        if self._run is None:
            raise InputError("the run has not begun; iterate over it first")
        return self._run

    @run.setter
    def run(self, run: Run) -> None:
        if self._result is not None:
            raise InputError("the run has ended and cannot be changed; check that ended is False before you set run")
        if self._run is None:
            raise InputError("the run has not begun; set run inside the loop, between two turns")
        self._run = run

    @property
    def spent(self) -> Spent:
        """The usage so far."""
        if self._result is not None:
            return self._result.spent
        return Spent() if self._entered is None else self._entered.spent

    @property
    def ended(self) -> bool:
        """True if the run has ended. This may be so already in the last turn, if its steps came with the ending."""
        return self._result is not None

    @property
    def result(self) -> RunResult[T_co]:
        """The result of the run. Raises `InputError` until the run has ended."""
        if self._result is None:
            raise InputError("the run has not ended; iterate over it to the end")
        return self._result

    def __iter__(self) -> Iterator[tuple[AgentStep, ...]]:
        return iterate_sync(self._turns(BLOCKING))

    def __aiter__(self) -> AsyncIterator[tuple[AgentStep, ...]]:
        return self._turns(ASYNC)

    async def _turns(self, io: IO) -> AsyncGenerator[tuple[AgentStep, ...], None]:
        self._begin()
        start, executor = self._inputs, self._executor
        while self._result is None:
            resumed: Snapshot | None = None
            # Asked when the stream is closed, which is before the next turn.
            options: dict[str, Any] = {**self._options, "continues": lambda: resumed is not None}  # noqa: B023
            forms = partial(executor.stream, start, **options), partial(executor.astream, start, **options)
            # Any: the last item of a stored run may be a `Waiting`.
            event: Any = None
            async with aclosing(io.iterate(*forms)) as events:
                async for event in events:
                    if (steps := self._take_event(event)) is not None:
                        yield steps
                        if (resumed := self._resume_point()) is not None:
                            break
            if resumed is None and self._result is None:
                raise event.to_error()
            start = start if resumed is None else resumed

    def _take_event(self, event: Event[Ending]) -> tuple[AgentStep, ...] | None:
        # Any: a user's nodes may pass values of any class.
        value: Any = None
        if isinstance(event, Entered):
            if self._entered is None:
                self._began = self._executor.run_context.clock() - event.spent.seconds
            self._entered = event
            # Nodes that save the memory add no steps; the last steps are yielded with the ending.
            value = None if is_save_node(event.node) else event.value
        elif isinstance(event, Asked):
            if event.call is not None:
                self._sequence = event.call.sequence
        elif isinstance(event, Done):
            self._result = self._executor.make_result(event)
            return self._new.take_new(self._result.steps) or None
        run = run_of(value)
        if run is None:
            return None
        self._run = run
        return self._new.take_new(run.steps) or None

    def _resume_point(self) -> Snapshot | None:
        entered, run = self._entered, self._run
        # Any: a value with a run is a dataclass.
        value: Any = None if entered is None else entered.value
        if self._result is not None or entered is None or run is None or run is value.run:
            return None
        value = dataclasses.replace(value, run=run)
        self._new.take_new(run.steps)
        seconds = max(entered.spent.seconds, self._executor.run_context.clock() - self._began)
        spent = dataclasses.replace(entered.spent, seconds=seconds)
        run_id = "" if entered.call is None else entered.call.run_id
        return Snapshot(entered.node, value, spent=spent, sequence=self._sequence, run_id=run_id, frames=entered.frames)
