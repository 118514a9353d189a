"""Run an agent turn by turn, so that the caller can inspect, change or leave the run between two turns."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any, Generic, final

from graphexec.actions import NO_STEPS, AgentStep, Run, Steps, run_of
from graphexec.effects import CallTool
from graphexec.errors import InputError
from graphexec.executor.plugging import Output
from graphexec.executor.plugging.memory_nodes import is_save_node
from graphexec.executor.result import Ending, RunResult, T_co, make_result
from graphexec.kernel.effects import CallContext, Request, members_of
from graphexec.kernel.events import Asked, Done, Entered, Event
from graphexec.kernel.meters import Limits, Spent
from graphexec.kernel.snapshot import Snapshot
from graphexec.runtime.io import ASYNC, BLOCKING, IO, Items, iterate_sync


@final
class StepTracker:
    """Finds the new steps of a run, including those of embedded agents. The `known` steps are not new.

    Steps are compared by identity, because two steps may be equal. A step that a node replaces, with the same action,
    is not new.
    """

    __slots__ = ("_known", "_last")

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


# Opens the stream of a run's events, from a snapshot or from the beginning (`None`). The callback returns whether the
# run continues in another stream after this one is closed; if so, observers receive no `Failed`.
StreamFactory = Callable[[Snapshot | None, IO, Callable[[], bool]], Items[Event[Ending]]]


@final
class Stepwise(Generic[T_co]):
    """An iterable that runs the agent and yields the new steps of each turn, each as `(action, observation)`.

    Between two turns, `run` may be replaced: `turns.run = replace(turns.run, steps=Steps(...))`. The current node is
    then entered again; usage and elapsed time are kept. Leaving the loop ends the run. `result` is available when the
    run has `ended`, possibly already in the last turn. Iterating again, with `for` or `async for`, starts from the
    beginning.
    """

    __slots__ = (
        "_began",
        "_clock",
        "_entered",
        "_known",
        "_limits",
        "_new",
        "_output",
        "_result",
        "_run",
        "_sequence",
        "_stream",
    )

    def __init__(
        self,
        stream: StreamFactory,
        *,
        limits: Limits,
        clock: Callable[[], float],
        known: Steps,
        output: Output | None = None,
    ) -> None:
        self._stream = stream
        self._output = output
        self._limits = limits
        self._clock = clock
        self._known = known
        self._begin()

    def _begin(self) -> None:
        self._began = 0.0
        self._entered: Entered | None = None
        # The sequence number of the last request; a resumed run continues after it.
        self._sequence = 0
        self._run: Run | None = None
        self._result: RunResult[T_co] | None = None
        self._new = StepTracker(self._known)

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
        start: Snapshot | None = None
        while self._result is None:
            resumed: Snapshot | None = None
            async with aclosing(self._stream(start, io, lambda: resumed is not None)) as events:  # noqa: B023 - asked before the next turn
                async for event in events:
                    if (steps := self._take_event(event)) is not None:
                        yield steps
                        if (resumed := self._resume_point()) is not None:
                            break
            start = resumed

    def _take_event(self, event: Event[Ending]) -> tuple[AgentStep, ...] | None:
        # Any: a user's nodes may pass values of any class.
        value: Any = None
        if isinstance(event, Entered):
            if self._entered is None:
                self._began = self._clock() - event.spent.seconds
            self._entered = event
            # Nodes that save the memory add no steps; the last steps are yielded with the ending.
            value = None if is_save_node(event.node) else event.value
        elif isinstance(event, Asked):
            if event.call is not None:
                self._sequence = event.call.sequence
        elif isinstance(event, Done):
            self._result = make_result(event, self._limits, self._output)
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
        spent = dataclasses.replace(entered.spent, seconds=max(entered.spent.seconds, self._clock() - self._began))
        run_id = "" if entered.call is None else entered.call.run_id
        return Snapshot(entered.node, value, spent=spent, sequence=self._sequence, run_id=run_id, frames=entered.frames)
