"""A run step by step, for callers who look at it, change it or leave it between two steps."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any, final

from graphexec.actions import NO_STEPS, AgentStep, Run, Steps, run_of
from graphexec.effects import CallTool
from graphexec.errors import InputError
from graphexec.executor.memory_nodes import is_saving
from graphexec.executor.result import Ending, RunResult, result_of
from graphexec.kernel.effects import CallContext, Request, members_of
from graphexec.kernel.events import Asked, Done, Entered, Event
from graphexec.kernel.meters import Limits, Spent
from graphexec.kernel.snapshot import Snapshot
from graphexec.runtime.io import ASYNC, BLOCKING, IO, Items, iterate_sync


@final
class NewSteps:
    """Tells the new steps of a run, and of the agents that are embedded in it, from `known` ones.

    Steps are told apart by identity: two may be equal. One that a node has changed in its place is not new.
    """

    __slots__ = ("_known", "_last")

    def __init__(self, known: Steps = NO_STEPS) -> None:
        self._known = {id(step): step for step in known}
        self._last = known

    def of(self, steps: Steps) -> tuple[AgentStep, ...]:
        """The steps that are new."""
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
    """Whether it is a call of a tool, or several."""
    return any(isinstance(member, CallTool) for member in members_of(effect))


def name_in_batch(call: CallContext[Any] | None) -> str:
    """Return which call of several a report is about, `look_up: `; nothing where there is only one."""
    if call is None or call.request is None or len(members_of(call.request)) == 1:
        return ""
    effect = call.effect
    return f"{effect.name if isinstance(effect, CallTool) else type(effect).__name__}: "


# From where a run goes on (`None`: from its beginning), to its events. The function says whether the run goes on when
# its stream is closed, so that observers do not hear of an end.
Streaming = Callable[[Snapshot | None, IO, Callable[[], bool]], Items[Event[Ending]]]


@final
class Stepwise:
    """Iterating over it runs the agent, and yields the new steps of each turn: `(action, observation)` each.

    Between two turns `run` may be replaced, `turns.run = Run(inputs, Steps(...))`: its node is entered again, what is
    spent stays spent, and the clock goes on. Leaving the loop ends the run; `result` is the result of one that has
    `ended`, which may be with its last turn. Iterating again, in a sync or an async `for`, runs it from its beginning.
    """

    __slots__ = (
        "_began",
        "_clock",
        "_entered",
        "_known",
        "_limits",
        "_new",
        "_result",
        "_run",
        "_sequence",
        "_streaming",
    )

    def __init__(self, streaming: Streaming, *, limits: Limits, clock: Callable[[], float], known: Steps) -> None:
        self._streaming = streaming
        self._limits = limits
        self._clock = clock
        self._known = known
        self._begin()

    def _begin(self) -> None:
        self._began = 0.0
        self._entered: Entered | None = None
        # That of the last request, which no later one has.
        self._sequence = 0
        self._run: Run | None = None
        self._result: RunResult | None = None
        self._new = NewSteps(self._known)

    @property
    def run(self) -> Run:
        """The run so far. Raises `InputError` before its first turn."""
        if self._run is None:
            raise InputError("the run has not begun; begin to iterate over it")
        return self._run

    @run.setter
    def run(self, run: Run) -> None:
        if self._result is not None:
            raise InputError("the run has ended and cannot be changed; look whether it has (ended) before you set run")
        if self._run is None:
            raise InputError("the run has not begun; set run between two of its turns, inside of the loop")
        self._run = run

    @property
    def spent(self) -> Spent:
        """What is spent so far."""
        if self._result is not None:
            return self._result.spent
        return Spent() if self._entered is None else self._entered.spent

    @property
    def ended(self) -> bool:
        """Whether the run is over: true in the loop's last turn already, where its steps came with its end."""
        return self._result is not None

    @property
    def result(self) -> RunResult:
        """How the run ended. Raises `InputError` before it has."""
        if self._result is None:
            raise InputError("the run has not ended; iterate over it to its end")
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
            async with aclosing(self._streaming(start, io, lambda: resumed is not None)) as events:  # noqa: B023 - asked before the next turn
                async for event in events:
                    if (steps := self._take_event(event)) is not None:
                        yield steps
                        if (resumed := self._resume_point()) is not None:
                            break
            start = resumed

    def _take_event(self, event: Event[Ending]) -> tuple[AgentStep, ...] | None:
        # Any: a node's value is whatever the graph's nodes hand on.
        value: Any = None
        if isinstance(event, Entered):
            if self._entered is None:
                self._began = self._clock() - event.spent.seconds
            self._entered = event
            # Behind the last step there is nothing but the end: with that, its steps come.
            value = None if is_saving(event.node) else event.value
        elif isinstance(event, Asked):
            if event.call is not None:
                self._sequence = event.call.sequence
        elif isinstance(event, Done):
            self._result = result_of(event, self._limits)
            return self._new.of(self._result.steps) or None
        run = run_of(value)
        if run is None:
            return None
        self._run = run
        return self._new.of(run.steps) or None

    def _resume_point(self) -> Snapshot | None:
        entered, run = self._entered, self._run
        # Any: a value with a run is a dataclass.
        value: Any = None if entered is None else entered.value
        if self._result is not None or entered is None or run is None or run is value.run:
            return None
        value = dataclasses.replace(value, run=run)
        self._new.of(run.steps)
        spent = dataclasses.replace(entered.spent, seconds=max(entered.spent.seconds, self._clock() - self._began))
        run_id = "" if entered.call is None else entered.call.run_id
        return Snapshot(entered.node, value, spent=spent, sequence=self._sequence, run_id=run_id)
