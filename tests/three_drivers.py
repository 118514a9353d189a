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
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from graphexec import All, Answered, Asked, Done, Effect, Event, Graph, Snapshot, Spent, advance, begin
from graphexec.kernel import Cut, PendingEffect
from graphexec.kernel.effects import CallContext
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
    def asked(self) -> tuple[Effect[Any], ...]:
        """The effects asked for, in order."""
        return self.asked_after(0)

    def asked_after(self, requests: int) -> tuple[Effect[Any], ...]:
        """The effects asked for after so many requests, batches being one each, were answered."""
        asked = [event for event in self.events if isinstance(event, Asked)]
        return tuple(event.effect for event in asked if event.call is None or event.call.sequence > requests)


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

    So the process that answers is never the one that asked, which is what a pause is. The members of a batch are
    answered one by one, the last one first.
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
        events += [Asked(call.node, call.effect, call) for call in state.calls if call.effect is not None]
        replies = _carried_out(world, state, began)
        at = world.clock() - began
        again = remembered()
        assert isinstance(again, PendingEffect), "a pure engine asks again what it asked"
        assert again.snapshot == state.snapshot
        if not isinstance(state.effect, All) or len(state.calls) == 1:
            (reply,) = replies
            whole = (reply,) if isinstance(state.effect, All) else reply
            after = again.cut(at=at) if isinstance(reply, Cut) else again.reply(whole, at=at)
            texts.append(after.to_json())
            continue
        for call, reply in reversed(list(zip(state.calls, replies, strict=True))):
            pending = advance(graph, again.snapshot, limits)
            assert isinstance(pending, PendingEffect), "the others wait"
            after = pending.reply_member(call.member, reply, at=at)
            again = dataclasses.replace(pending, snapshot=Snapshot.from_json(after.to_json(), graph))
        texts.append(again.snapshot.to_json())
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
    return _in_order([_without_seconds(event) for event in events])


def _in_order(events: list[Any]) -> list[object]:
    """The events, with those of each request in one order: the members of a batch begin and end in any."""
    ordered: list[object] = []
    for request, group in itertools.groupby(events, _of):
        several = list(group)
        if request:
            answered = [event for event in several if isinstance(event, Answered)]
            last = answered[-1].spent if answered else None
            several = [dataclasses.replace(one, spent=last) if one in answered else one for one in several]
            several.sort(key=lambda event: (type(event).__name__ == "Answered", event.call.member))
        ordered += several
    return ordered


def _of(event: Any) -> object:
    call = getattr(event, "call", None)
    return call and call.sequence


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


def _kinds(effects: Sequence[Effect[Any]]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


@dataclass(frozen=True)
class _Timed:
    """The scope of a run that is driven by hand, so many seconds before its deadline."""

    left: float | None
    run_id: str = ""
    context: Any = None

    def seconds_left(self) -> float | None:
        return self.left


def _answered(handler: Handler, call: CallContext[Any]) -> object:
    return run_sync(handler.answer(call.effect, call, BLOCKING))


def _carried_out(world: RunContext, state: PendingEffect, began: float) -> list[object]:
    """Answer as a driver does; a `Cut` says what the deadline cut."""
    left = None if state.deadline is None else state.deadline - (world.clock() - began)
    if left is not None and left <= 0:
        return [Cut() for _ in state.calls]
    scope = _Timed(left)
    calls: list[CallContext[Any]] = [
        CallContext(scope, call.node, call.effect, call.request, call.sequence, call.member) for call in state.calls
    ]
    answers = [partial(_answered, handler_of(world.handlers, call.effect), call) for call in calls]
    if left is None:
        return [answer() for answer in answers]
    replies = wait_for_all(answers, left, at_once=world.at_once)
    return [Cut() if reply is NOT_DONE else reply for reply in replies]
