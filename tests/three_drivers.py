"""One script, driven in every way there is, and required to come out the same: sync, async, streamed, and amnesiac.

::

    def script() -> Script[Ready, Ending]:
        executor = AgentExecutor(agent=create_react_agent(ScriptedModel([...]), tools), tools=tools)
        return Script(executor.graph, Ready(Run({"input": "..."})), executor.run_context)

    told = agreed(script)
    assert told.outcome.output == "..."

`script` is called once for each driver, since a scripted model is used up by a run. If the run raises, it has to raise
the same in every driver, and `agreed` raises it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from graphexec import All, Answered, Asked, Done, Effect, Event, Graph, Snapshot, Spent, advance, begin
from graphexec.kernel import Cut, PendingEffect
from graphexec.kernel.effects import Request
from graphexec.runtime import BLOCKING, Handler, RunContext, arun, astream, run, stream
from graphexec.runtime.handlers import handler_of
from graphexec.runtime.io import run_sync
from graphexec.runtime.threads import NOT_DONE, wait_for_all

S = TypeVar("S")
F = TypeVar("F")


class FakeClock:
    """A clock that stands still until it is told to go on: `RunContext(..., clock=FakeClock())`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass(frozen=True)
class Script(Generic[S, F]):
    """What is run, from which value (or snapshot), and in which world."""

    graph: Graph[S, F]
    value: S | Snapshot
    run_context: RunContext


@dataclass(frozen=True)
class Told(Generic[F]):
    """What came of a run: how it ended, its events where it was watched, and what it asked for."""

    done: Done[F]
    events: tuple[Event[F], ...] = ()
    # The state before each effect, as text: only the amnesiac driver has it.
    texts: tuple[str, ...] = ()

    @property
    def outcome(self) -> F:
        return self.done.outcome

    @property
    def spent(self) -> Spent:
        return self.done.spent

    @property
    def asked(self) -> tuple[Request, ...]:
        """The effects asked for, batches whole, in order."""
        return tuple(event.effect for event in self.events if isinstance(event, Asked))


Driver: TypeAlias = Callable[[Script[Any, Any]], Told[Any]]


def sync(script: Script[S, F]) -> Told[F]:
    return Told(run(script.graph, script.value, script.run_context))


def asynchronous(script: Script[S, F]) -> Told[F]:
    return Told(asyncio.run(arun(script.graph, script.value, script.run_context)))


def streamed(script: Script[S, F]) -> Told[F]:
    return _told(list(stream(script.graph, script.value, script.run_context)))


def astreamed(script: Script[S, F]) -> Told[F]:
    async def collected() -> list[Event[F]]:
        return [event async for event in astream(script.graph, script.value, script.run_context)]

    return _told(asyncio.run(collected()))


def amnesiac(script: Script[S, F]) -> Told[F]:
    """Drive by hand, forgetting everything but text: before each effect, and again before each reply.

    So the process that answers is never the one that asked, which is what a pause is.
    """
    graph, world = script.graph, script.run_context
    limits = world.limits
    first = script.value if isinstance(script.value, Snapshot) else begin(graph, script.value)
    began = world.clock() - first.spent.seconds
    texts = [first.to_json()]
    events: list[Event[F]] = []

    def remembered() -> PendingEffect | Done[F]:
        return advance(graph, Snapshot.from_json(texts[-1], graph), limits)

    while isinstance(state := remembered(), PendingEffect):
        left = None if state.deadline is None else state.deadline - (world.clock() - began)
        events.append(Asked(state.snapshot.node, state.effect))
        answer = _carried_out(world, state.effect, left)
        at = world.clock() - began
        again = remembered()
        assert isinstance(again, PendingEffect), "a pure engine asks again what it asked"
        assert again.snapshot == state.snapshot
        reply = again.cut(at=at, finished=answer.finished) if isinstance(answer, Cut) else again.reply(answer, at=at)
        texts.append(reply.to_json())
    return Told(state, tuple(events), tuple(texts))


LIVE: tuple[Driver, ...] = (sync, asynchronous, streamed, astreamed)
EVERY: tuple[Driver, ...] = (*LIVE, amnesiac)


def agreed(script: Callable[[], Script[S, F]], *, among: Sequence[Driver] = EVERY) -> Told[F]:
    """Run the script with each driver; return what they all agree on (with the events), or raise what they all raise.

    They agree on the outcome, on everything spent except seconds, on the effects asked for, and, where they tell any,
    on the events. `among=LIVE` leaves out the amnesiac driver, for values that JSON cannot express.
    """
    tellings = [(driver.__name__, _attempt(driver, script())) for driver in among]
    (first_name, first), *others = tellings
    for name, telling in others:
        if _gist(telling) != _gist(first):
            error = next((one for one in (telling, first) if isinstance(one, Exception)), None)
            raise AssertionError(f"{name}: {_gist(telling)}\n{first_name}: {_gist(first)}") from error
    told = [telling for _, telling in tellings if isinstance(telling, Told)]
    watched = [one for one in told if one.events and isinstance(one.events[-1], Done)]
    for one in watched[1:]:
        assert _timeless(one.events) == _timeless(watched[0].events), "the events are not the same"
    for one in told:
        if one.events and watched:
            assert _kinds(one.asked) == _kinds(watched[0].asked), "the effects are not the same"
    if isinstance(first, BaseException):
        raise first
    remembered = [one for one in told if one.texts]
    whole = watched[0] if watched else first
    return dataclasses.replace(whole, texts=remembered[0].texts if remembered else ())


def _told(events: Sequence[Event[F]]) -> Told[F]:
    done = events[-1]
    assert isinstance(done, Done)
    return Told(done, tuple(events))


def _attempt(driver: Driver, script: Script[S, F]) -> Told[F] | Exception:
    try:
        return driver(script)
    except AssertionError:
        raise
    # Whatever the run raises is what the drivers have to agree on.
    except Exception as error:  # noqa: BLE001
        return error


def _gist(telling: Told[Any] | Exception) -> object:
    """What drivers have to agree on, in a form that survives JSON."""
    if isinstance(telling, Exception):
        return type(telling), str(telling)
    outcome: object = telling.outcome
    return type(outcome).__name__, _plain(outcome), dataclasses.replace(telling.spent, seconds=0)


def _plain(outcome: object) -> object:
    try:
        return json.loads(Snapshot("end", outcome).to_json())["value"]
    except ValueError:
        # JSON cannot express it: then nothing but the same will do.
        return outcome


def _timeless(events: Sequence[Event[Any]]) -> list[object]:
    return [_without_seconds(event) for event in events]


def _without_seconds(event: Event[Any]) -> object:
    if isinstance(event, Answered):
        event = dataclasses.replace(event, seconds=0)
    if isinstance(event, Done):
        spent = dataclasses.replace(event.spent, seconds=0)
        return dataclasses.replace(event, snapshot=dataclasses.replace(event.snapshot, spent=spent))
    if hasattr(event, "spent"):
        # Of the events, those that say what is spent are dataclasses with that field.
        timed: Any = event
        return dataclasses.replace(timed, spent=dataclasses.replace(timed.spent, seconds=0))
    return event


def _kinds(requests: Sequence[Request]) -> list[object]:
    return [
        [type(effect).__name__ for effect in request.effects] if isinstance(request, All) else type(request).__name__
        for request in requests
    ]


def _answered(handler: Handler, effect: Effect[Any], left: float | None) -> object:
    return run_sync(handler.answer(effect, left, BLOCKING))


def _carried_out(world: RunContext, request: Request, left: float | None) -> object:
    """Answer as a driver does; a `Cut` says what the deadline cut."""
    if left is not None and left <= 0:
        return Cut()
    effects: Sequence[Effect[Any]] = request.effects if isinstance(request, All) else (request,)
    handlers = [handler_of(world.handlers, effect) for effect in effects]
    calls = [partial(_answered, handler, effect, left) for handler, effect in zip(handlers, effects, strict=True)]
    if left is None:
        replies: tuple[Any, ...] = tuple([call() for call in calls])
    else:
        replies = wait_for_all(calls, left, at_once=world.at_once)
    if NOT_DONE in replies and not isinstance(request, All):
        return Cut()
    if NOT_DONE in replies:
        return Cut(tuple(Cut() if reply is NOT_DONE else reply for reply in replies))
    return replies if isinstance(request, All) else replies[0]
