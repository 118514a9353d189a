"""Run a machine under one attack with each driver: async and observed, sync, and resumed from JSON."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from graphexec.errors import Portable, SnapshotError
from graphexec.kernel.effects import All
from graphexec.kernel.events import Asked, Done, Entered, Event, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.program import Proof
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import advance, begin
from graphexec.runtime.handlers import RunOptions, handler_of
from graphexec.runtime.io import BLOCKING, run_sync
from graphexec.runtime.runner import arun, astream, run
from graphexec.testing.adversary import PARTS, Adversary, Attack, Part
from graphexec.testing.clock import VirtualClock
from graphexec.testing.failures import DeadlockError
from graphexec.testing.setup import Trial

# The number of requests in one visit after which a node without a declared number is assumed to ask endlessly.
MOST_ASKS = 100


class AskedTooOftenError(Portable, AssertionError):
    """A node asks endlessly in one visit: `node` is its name, `fact` what it does, and `remedy` what to change."""

    def __init__(self, node: str, fact: str, remedy: str) -> None:
        self.node, self.fact, self.remedy = node, fact, remedy
        super().__init__(f"{node} {fact}; {remedy}")


@final
class AskCounter:
    """Counts the requests of each visit. Raises `AskedTooOftenError` for too many, unless the node declares them."""

    def __init__(self, graph: Graph[Any, Any]) -> None:
        self._graph = graph
        self._requests: set[int] = set()

    def see(self, event: Event[Any]) -> None:
        """Process an event of the run."""
        if isinstance(event, Entered):
            self._requests = set()
        elif isinstance(event, Asked) and event.call is not None:
            self._requests.add(event.call.sequence)
            if len(self._requests) >= MOST_ASKS and self._graph[event.node].most is None:
                fact = f"asks for {type(event.effect).__name__} {MOST_ASKS} times in one visit"
                remedy = (
                    "let it return after some replies, and declare asks= in its @charged or @metered, or set a "
                    "lower max_fan_out"
                )
                raise AskedTooOftenError(event.node, fact, remedy)


@dataclass(frozen=True)
class RunReport:
    """The result of one run: its events, the outcome or the exception that ended it, and its adversary."""

    events: tuple[Event[Any], ...]
    outcome: object
    error: Exception | None
    seconds: float
    adversary: Adversary
    # True if it waits endlessly for a reply, and has no time limit.
    endless: bool = False

    @property
    def summary(self) -> object:
        """The part that is equal in two runs under one attack."""
        return (
            [*moves_of(self.events)],
            comparable(self.outcome or self.error),
            self.endless,
            self.seconds,
            self.adversary.log,
        )


def run_report_async(trial: Trial, attack: Attack, limits: Limits, proof: Proof | None = None) -> RunReport:
    """Report one async run under a virtual clock."""
    trial.watchdog.script = attack.describe()
    clock = VirtualClock()
    adversary = Adversary(attack, trial.oracle)
    run_context = dataclasses.replace(adversary.run_context(trial.graph, limits, clock), proof=proof)
    events: list[Event[Any]] = []
    counter = AskCounter(trial.graph)

    seconds = 0.0

    async def watched() -> None:
        nonlocal seconds
        try:
            made = astream(trial.graph, trial.start, run_context, options=RunOptions(trial.context))
            async with contextlib.aclosing(made) as stream:
                async for event in stream:
                    events.append(event)
                    counter.see(event)
        finally:
            # Before the clock advances for remaining tasks.
            seconds = clock.seconds

    error: Exception | None = None
    endless = False
    try:
        clock.run(watched())
    except DeadlockError:
        endless = limits.seconds is None and math.isinf(attack.seconds)
        if not endless:
            raise
    except AskedTooOftenError:
        raise
    except Exception as raised:  # noqa: BLE001 - the caller judges the exception of the run
        error = raised
    last = events[-1] if events else None
    outcome = last.outcome if isinstance(last, Done) else None
    return RunReport(tuple(events), outcome, error, seconds, adversary, endless)


def outcome_async(trial: Trial, attack: Attack, limits: Limits) -> object:
    """Return the outcome of an unobserved async run, or the exception that ends it. The attack has no delays."""
    clock = VirtualClock()
    run_context = Adversary(attack, trial.oracle).run_context(trial.graph, limits, clock)
    options = RunOptions(trial.context)
    return _outcome_or_error(lambda: clock.run(arun(trial.graph, trial.start, run_context, options=options)))


def outcome_sync(
    trial: Trial, attack: Attack, limits: Limits, paused: Snapshot | None = None, seen: dict[Part, int] | None = None
) -> object:
    """Return the outcome of a sync run, or the exception that ends it."""
    adversary = Adversary(attack, trial.oracle, dict(seen) if seen else dict.fromkeys(PARTS, 0))
    run_context = adversary.run_context(trial.graph, limits, VirtualClock())
    value, options = trial.start if paused is None else paused, RunOptions(trial.context)
    return _outcome_or_error(lambda: run(trial.graph, value, run_context, options=options))


def _outcome_or_error(drive: Callable[[], Done[Any]]) -> object:
    try:
        return drive().outcome
    except Exception as error:  # noqa: BLE001 - compared with the exception of another run
        return error


def pauses(trial: Trial, attack: Attack, limits: Limits) -> list[tuple[str, dict[Part, int]]]:
    """Return the run as JSON before each effect, with the counts of answers so far."""
    adversary = Adversary(attack, trial.oracle)
    handlers = adversary.run_context(trial.graph, limits, VirtualClock()).handlers
    found: list[tuple[str, dict[Part, int]]] = []
    snapshot = begin(trial.graph, trial.start)
    try:
        while True:
            # Before it asks: an unanswered request would be charged again, as after a crash.
            found.append((snapshot.to_json(), dict(adversary.seen)))
            state = advance(trial.graph, snapshot, limits)
            if isinstance(state, Done):
                break
            answers = tuple(
                run_sync(handler_of(handlers, call.effect).answer(call.effect, call, BLOCKING)) for call in state.calls
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


def moves_of(events: Sequence[Event[Any]]) -> list[str]:
    """Return the path of a run."""
    return [f"{event.node} --{type(event.outcome).__name__}-->" for event in events if isinstance(event, Moved)]


def comparable(outcome: object) -> object:
    """Return an outcome in a form that can be compared after it was stored."""
    if isinstance(outcome, BaseException):
        return type(outcome).__name__, str(outcome)
    try:
        return json.loads(Snapshot("end", outcome).to_json())["value"]
    except SnapshotError:
        return repr(outcome)
