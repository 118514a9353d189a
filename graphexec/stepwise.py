"""A run step by step, for callers who look at it, change it or leave it between two steps."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from typing import Any, final

from graphexec.actions import AgentStep, Run
from graphexec.errors import InputError
from graphexec.events import Done, Entered, Event
from graphexec.limits import Limits, Spent
from graphexec.result import Ending, RunResult, result_of
from graphexec.snapshot import Snapshot

# From where a run begins, or goes on (`None`: from its inputs), to its events.
Streaming = Callable[[Snapshot | None], Generator[Event[Ending], None, None]]
AsyncStreaming = Callable[[Snapshot | None], AsyncGenerator[Event[Ending], None]]


@final
class Stepwise:
    """Iterating over it runs the agent, and gives the new steps of each turn: `(action, observation)` each.

    Between two turns `run` is the run so far, which may be replaced: `turns.run = Run(inputs, Steps(...))`; what is
    spent stays spent. A caller who leaves the loop ends the run. After the last turn `result` is how it ended.
    Iterating again, in a sync or an async `for`, runs it again from its inputs.
    """

    __slots__ = ("_astreaming", "_entered", "_limits", "_result", "_run", "_seen", "_streaming")

    def __init__(self, streaming: Streaming, astreaming: AsyncStreaming, limits: Limits) -> None:
        self._streaming = streaming
        self._astreaming = astreaming
        self._limits = limits
        self._begin()

    def _begin(self) -> None:
        self._entered: Entered | None = None
        self._run: Run | None = None
        self._result: RunResult | None = None
        self._seen = 0

    @property
    def run(self) -> Run:
        """The run so far. Raises `InputError` before its first turn."""
        if self._run is None:
            raise InputError("the run has not begun; begin to iterate over it")
        return self._run

    @run.setter
    def run(self, run: Run) -> None:
        if self._run is None or self._result is not None:
            raise InputError("a run is changed between two of its turns; set it inside of the loop")
        self._run = run

    @property
    def spent(self) -> Spent:
        """What is spent so far."""
        if self._result is not None:
            return self._result.spent
        return Spent() if self._entered is None else self._entered.spent

    @property
    def result(self) -> RunResult:
        """How the run ended. Raises `InputError` before it has."""
        if self._result is None:
            raise InputError("the run has not ended; iterate over it to its end")
        return self._result

    def __iter__(self) -> Iterator[tuple[AgentStep, ...]]:
        self._begin()
        start: Snapshot | None = None
        while self._result is None:
            with closing(self._streaming(start)) as events:
                for event in events:
                    if (steps := self._turn(event)) is not None:
                        yield steps
                        if (start := self._changed()) is not None:
                            break

    async def __aiter__(self) -> AsyncIterator[tuple[AgentStep, ...]]:
        self._begin()
        start: Snapshot | None = None
        while self._result is None:
            async with aclosing(self._astreaming(start)) as events:
                async for event in events:
                    if (steps := self._turn(event)) is not None:
                        yield steps
                        if (start := self._changed()) is not None:
                            break

    def _turn(self, event: Event[Ending]) -> tuple[AgentStep, ...] | None:
        """The new steps, where the agent is about to decide again, or the run is over."""
        # Any: a node's value is whatever the graph's nodes hand on.
        value: Any = None
        if isinstance(event, Entered):
            self._entered, value = event, event.value
        elif isinstance(event, Done):
            self._result = result_of(event, self._limits)
            new, self._seen = self._result.steps[self._seen :], len(self._result.steps)
            return tuple(new) or None
        run = getattr(value, "run", None)
        if not isinstance(run, Run):
            return None
        self._run = run
        if len(run.steps) <= self._seen:
            return None
        new, self._seen = run.steps[self._seen :], len(run.steps)
        return tuple(new)

    def _changed(self) -> Snapshot | None:
        """Where to go on from, if the caller has replaced the run."""
        entered, run = self._entered, self._run
        # Any: a value with a run is a dataclass.
        value: Any = None if entered is None else entered.value
        if self._result is not None or entered is None or run is None or run is value.run:
            return None
        self._seen = len(run.steps)
        return Snapshot(entered.node, dataclasses.replace(value, run=run), spent=entered.spent)
