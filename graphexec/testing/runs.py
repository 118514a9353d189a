"""Run a machine with each driver: async and sync, observed, and resumed from JSON."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from graphexec.errors import Portable, SnapshotError
from graphexec.kernel.effects import All
from graphexec.kernel.events import Asked, Done, Entered, Event
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.program import Proof
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import advance, begin
from graphexec.runtime.handlers import handler_of
from graphexec.runtime.io import BLOCKING, run_sync
from graphexec.runtime.runner import arun, astream, run
from graphexec.testing.adversary import Adversary, Attack, Part
from graphexec.testing.clock import VirtualClock
from graphexec.testing.failures import DeadlockError
from graphexec.testing.setup import Trial

# The number of requests in one visit after which a node without a declared number is assumed to ask endlessly.
MOST_ASKS = 100


class BrokenPromiseError(Portable, AssertionError):
    """A run shows a fault of the user's code: `who` is the code at fault, `fact` what it does; and the `remedy`."""

    def __init__(self, who: str, fact: str, remedy: str) -> None:
        self.who, self.fact, self.remedy = who, fact, remedy
        super().__init__(f"{who} {fact}; {remedy}")


@dataclass(frozen=True)
class RunReport:
    """The result of one run: its events, the exception that ended it, and its adversary."""

    events: tuple[Event[Any], ...]
    error: Exception | None
    adversary: Adversary
    # Virtual seconds, or those of a sync run.
    seconds: float
    # True if it waits endlessly for a reply, and has no time limit.
    endless: bool = False
    # Calls of the user's code that started runs which are not charged to them.
    uncharged: tuple[str, ...] = ()

    @property
    def outcome(self) -> object:
        """The outcome; `None` if the run has not ended with one."""
        last = self.events[-1] if self.events else None
        return last.outcome if isinstance(last, Done) else None


def report_run(
    trial: Trial,
    adversary: Adversary,
    clock: VirtualClock,
    made: AsyncGenerator[Event[Any], None] | Generator[Event[Any], None, None],
) -> RunReport:
    """Report an async run under the virtual clock, or a sync one in real time. Its exception is part of the report.

    Raises `BrokenPromiseError` for a visit with too many requests that no node declares.
    """
    events: list[Event[Any]] = []
    error: Exception | None = None
    # Of the current visit.
    requests: set[int] = set()
    begun, seconds = time.monotonic(), clock.seconds

    def record(event: Event[Any]) -> None:
        events.append(event)
        if isinstance(event, Entered):
            requests.clear()
        elif isinstance(event, Asked) and event.call is not None:
            requests.add(event.call.sequence)
            if len(requests) >= MOST_ASKS and trial.graph[event.node].most is None:
                fact = f"asks for {type(event.effect).__name__} {MOST_ASKS} times in one visit"
                remedy = "let it return after some replies, and declare asks= in its @node, or set a lower max_fan_out"
                raise BrokenPromiseError(event.node, fact, remedy)

    async def follow(stream: AsyncGenerator[Event[Any], None]) -> None:
        nonlocal seconds
        try:
            async with contextlib.aclosing(stream):
                async for event in stream:
                    record(event)
        finally:
            # Before the clock advances for remaining tasks.
            seconds = clock.seconds

    try:
        if isinstance(made, AsyncGenerator):
            clock.run(follow(made))
        else:
            with contextlib.closing(made):
                for event in made:
                    record(event)
    except BrokenPromiseError:
        raise
    except Exception as raised:  # noqa: BLE001 - the caller judges the exception of the run
        error = raised
    if not isinstance(made, AsyncGenerator):
        seconds = time.monotonic() - begun
    return RunReport(tuple(events), error, adversary, seconds)


def report_attack(trial: Trial, attack: Attack, limits: Limits, proof: Proof | None = None) -> RunReport:
    """Report one async run in which the adversary answers all effects."""
    clock, adversary = VirtualClock(), Adversary(attack, trial.oracle)
    trial.watchdog.log = adversary.log
    overrides = adversary.handlers(trial.graph)
    made = astream(
        trial.graph, trial.start, overrides=overrides, limits=limits, clock=clock, proof=proof, context=trial.context
    )
    report = report_run(trial, adversary, clock, made)
    if not isinstance(report.error, DeadlockError):
        return report
    if limits.seconds is None and math.isinf(attack.seconds):
        return dataclasses.replace(report, error=None, endless=True)
    raise report.error


def outcome_of(
    trial: Trial,
    attack: Attack,
    limits: Limits,
    value: object,
    seen: Mapping[Part, int] | None = None,
    *,
    is_async: bool = False,
) -> object:
    """Return the outcome of an unobserved run from a value or a snapshot, or the exception that ends it.

    The attack has no delays; `seen` are the counts of its answers before a snapshot.
    """
    overrides, clock = Adversary(attack, trial.oracle, Counter(seen)).handlers(trial.graph), VirtualClock()
    try:
        if is_async:
            done = clock.run(
                arun(trial.graph, value, overrides=overrides, limits=limits, clock=clock, context=trial.context)
            )
        else:
            done = run(trial.graph, value, overrides=overrides, limits=limits, clock=clock, context=trial.context)
    except Exception as error:  # noqa: BLE001 - compared with the exception of another run
        return error
    return done.outcome


def pauses(trial: Trial, attack: Attack, limits: Limits) -> list[tuple[str, Mapping[Part, int]]]:
    """Return the run as JSON before each effect, with the counts of answers so far."""
    adversary = Adversary(attack, trial.oracle)
    handlers = adversary.handlers(trial.graph)
    found: list[tuple[str, Mapping[Part, int]]] = []
    snapshot = begin(trial.graph, trial.start)
    try:
        while True:
            # Before it asks: an unanswered request would be charged again, as after a crash.
            found.append((snapshot.to_json(), Counter(adversary.seen)))
            state = advance(trial.graph, snapshot, limits)
            if isinstance(state, Done):
                break
            answers = tuple(
                run_sync(handler_of(call, handlers).answer(call.effect, call, BLOCKING)) for call in state.calls
            )
            snapshot = state.reply(answers if isinstance(state.effect, All) else answers[0])
    except SnapshotError as error:
        raise AssertionError(f"a run cannot be paused: {error}") from error
    except Exception:  # noqa: BLE001, S110 - the run ends here; its outcome is compared elsewhere
        pass
    return found


def measured_by(graph: Graph[Any, Any]) -> frozenset[str]:
    """Return the meters of which replies may report more than was charged."""
    return frozenset(meter.name for node in graph for effect in node.effects for meter in effect.measures)


def comparable(outcome: object) -> object:
    """Return an outcome in a form that can be compared after it was stored."""
    if isinstance(outcome, BaseException):
        return type(outcome).__name__, str(outcome)
    try:
        return json.loads(Snapshot("end", outcome).to_json())["value"]
    except SnapshotError:
        return repr(outcome)
