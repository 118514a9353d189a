"""Driving a run: the loop around the engine, once with and once without an `await`.

What is to be done is decided by the engine; here effects are handed to their handlers, deadlines are kept, the clock is
read, and events are passed on. (What loads asyncio is imported where it is used: a sync run does not need it.)
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar, final

from graphexec.by_hand import begin
from graphexec.effects import All, Effect, Request
from graphexec.engine import Cut, Walk
from graphexec.errors import Abandoned
from graphexec.events import Answered, Asked, Done, Entered, Event, Moved, Reported
from graphexec.graph import Graph
from graphexec.handlers import Answer, Handler, Handlers, handler_of, handlers_for
from graphexec.journal import Journal, Reply, keep
from graphexec.limits import Limits
from graphexec.rank import Ranks
from graphexec.reporting import Listener, heard_by
from graphexec.snapshot import Snapshot, remember
from graphexec.waiting import NOT_DONE, overheard, wait_for, wait_for_all, waiter_here

S = TypeVar("S")
F = TypeVar("F")

# How many effects of one batch are carried out at a time, unless the caller says otherwise: enough for any sensible
# fan-out, few enough threads for a laptop.
AT_ONCE = 64

# An async run that is never made to wait gives the loop to others after so many replies.
TURN = 64

_END = frozenset({Done})
_NEWS = frozenset({Entered, Asked, Answered, Moved, Done})
_CUT = Cut()


@final
@dataclass(frozen=True, slots=True)
class World:
    """What a run is driven with: the handlers, the limits, how many effects at once, and a clock in seconds.

    With `ranks`, those of a proof's certificate for these limits, every step is held to lower its rank
    (`CertificateError`).
    """

    handlers: Handlers
    limits: Limits
    at_once: int = AT_ONCE
    clock: Callable[[], float] = time.monotonic
    ranks: Ranks | None = None


def world(
    answers: Mapping[type[Effect[Any]], Answer],
    *,
    limits: Limits | None = None,
    at_once: int = AT_ONCE,
    clock: Callable[[], float] = time.monotonic,
    ranks: Ranks | None = None,
) -> World:
    """Make a world of functions that answer effects: `world({AskHuman: lambda asked: input(asked.question)})`."""
    return World(handlers_for(answers), limits or Limits(), at_once, clock, ranks)


def run(graph: Graph[S, F], value: S | Snapshot, world: World) -> Done[F]:
    """Run `graph` from `value`, or on from a snapshot, to its end.

    Raises what a node or a handler raises; `snapshot_of(error)` is the run's state then.
    """
    *_, done = _drive(graph, value, world, watched=False)
    assert isinstance(done, Done), "Done is the last event"
    return done


def stream(
    graph: Graph[S, F], value: S | Snapshot, world: World, *, pieces: bool = False
) -> Generator[Event[F], None, None]:
    """Run `graph` like `run`, and yield each event when it happens; the last is `Done`.

    With `pieces`, models that can stream do so, and each piece of a reply is an event: `Reported`, with a `ReplyDelta`.
    The run goes on only while it is iterated; closing the generator ends it.
    """
    return _drive(graph, value, world, watched=True, pieces=pieces)


async def arun(graph: Graph[S, F], value: S | Snapshot, world: World) -> Done[F]:
    """Run like `run`, on the running event loop; functions that block run in threads."""
    *_, done = [event async for event in _adrive(graph, value, world, watched=False)]
    assert isinstance(done, Done), "Done is the last event"
    return done


def astream(
    graph: Graph[S, F], value: S | Snapshot, world: World, *, pieces: bool = False
) -> AsyncGenerator[Event[F], None]:
    """Run like `stream`, on the running event loop."""
    return _adrive(graph, value, world, watched=True, pieces=pieces)


def _drive(
    graph: Graph[S, F], value: S | Snapshot, world: World, *, watched: bool, pieces: bool = False
) -> Generator[Event[F], None, None]:
    # What is for whoever watches, and no request.
    told = _NEWS if watched else _END
    limited = world.limits.seconds is not None
    with _Ride(graph, value, world, watched=watched) as ride:
        item = ride.on()
        while True:
            if type(item) in told:
                yield item
                if type(item) is Done:
                    return
                item = ride.on()
            else:
                began = ride.seconds()
                if watched:
                    answer, now = yield from _overheard(ride, world, item, ride.left(began), pieces=pieces)
                else:
                    answer, now = _answer(world, item, ride.left(began) if limited else None), ride.seconds()
                item = ride.on((answer, now, now - began))


async def _adrive(
    graph: Graph[S, F], value: S | Snapshot, world: World, *, watched: bool, pieces: bool = False
) -> AsyncGenerator[Event[F], None]:
    # What is for whoever watches, and no request.
    told = _NEWS if watched else _END
    with _Ride(graph, value, world, watched=watched) as ride:
        item = ride.on()
        while True:
            if type(item) in told:
                yield item
                if type(item) is Done:
                    return
                item = ride.on()
            else:
                if ride.in_turn():
                    await _turn()
                began = ride.seconds()
                if not watched:
                    answer, now = await _aanswer(world, item, ride.left(began)), ride.seconds()
                elif pieces:
                    from graphexec.awaiting import Overheard

                    call = Overheard(_timed(ride, _aanswer(world, item, ride.left(began))))
                    async with aclosing(call.news()) as news:
                        async for one in news:
                            yield Reported(ride.node, item, one)
                    answer, now = call.result
                else:
                    heard: list[object] = []
                    try:
                        with heard_by(Listener(heard.append)):
                            answer, now = await _aanswer(world, item, ride.left(began)), ride.seconds()
                    except Exception:
                        for one in heard:
                            yield Reported(ride.node, item, one)
                        raise
                    for one in heard:
                        yield Reported(ride.node, item, one)
                item = ride.on((answer, now, now - began))


@final
class _Ride:
    """What both drivers do alike: the run's clock, the way along its path, and what an exception leaves behind."""

    __slots__ = ("_began", "_clock", "_journal", "_limit", "_path", "_replies", "_waiter", "_walk")

    def __init__(self, graph: Graph[Any, Any], value: Any, world: World, *, watched: bool) -> None:
        start = value if isinstance(value, Snapshot) else begin(graph, value)
        self._walk = Walk(graph, start, world.limits, world.ranks)
        self._path = self._walk.path(watched=watched)
        self._limit = world.limits.seconds
        self._clock = world.clock
        # The clock of a resumed run goes on where it stood.
        self._began = world.clock() - self._walk.seconds
        self._replies: list[object] = []
        self._journal = Journal(graph, world.limits, start, self._replies)
        self._waiter = waiter_here()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            remember(error, self._walk.snapshot())
            keep(error, self._journal)
        self._path.close()

    def on(self, answer: Reply | None = None) -> Any:
        """Go on with what was asked for answered; return the next request, the next event, or `Done`.

        Raises `Abandoned` if the run is in a thread that nobody waits for any more: it is not to spend on.
        """
        if self._waiter is not None and self._waiter.gone:
            raise Abandoned("nobody waits for this run any more, so it goes no further")
        if answer is not None:
            self._replies.extend(answer)
        try:
            # The path is sent nothing before it has begun, and after an event.
            return self._path.send(answer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        except StopIteration as end:
            return Done(end.value, self._walk.snapshot(), self._journal)

    @property
    def node(self) -> str:
        """The node that the run is at."""
        return self._walk.node

    def seconds(self) -> float:
        """The run's clock."""
        return self._clock() - self._began

    def left(self, now: float) -> float | None:
        """The seconds until the run's deadline."""
        # The node may have time beyond the run's limit.
        deadline = None if self._limit is None else self._walk.deadline
        return None if deadline is None else deadline - now

    def in_turn(self) -> bool:
        """Whether it is time to let others have the event loop."""
        return not (len(self._replies) // 3 + 1) % TURN


def _overheard(
    ride: _Ride, world: World, effect: Request, left: float | None, *, pieces: bool
) -> Generator[Reported, None, tuple[object, float]]:
    """Carry out an effect, and yield what its handler reports; return the answer, and when it came."""
    news = overheard(lambda: (_answer(world, effect, left), ride.seconds()), pieces=pieces)
    with closing(news):
        while True:
            try:
                one = next(news)
            except StopIteration as end:
                answered: tuple[object, float] = end.value
                return answered
            yield Reported(ride.node, effect, one)


async def _timed(ride: _Ride, answer: Awaitable[object]) -> tuple[object, float]:
    return await answer, ride.seconds()


def _answer(world: World, effect: Request, left: float | None) -> object:
    """Carry out an effect, or several; what is not there when no seconds are `left` is `Cut`."""
    if left is not None and left <= 0:
        return _CUT
    if isinstance(effect, All):
        if left is None and len(effect.effects) == 1:
            return (_answer(world, effect.effects[0], left),)
        handlers = [handler_of(world.handlers, member) for member in effect.effects]
        pairs = list(zip(handlers, effect.effects, strict=True))
        if _instant(handlers):
            return tuple([handler.call(member, left) for handler, member in pairs])
        calls = [partial(handler.call, member, left) for handler, member in pairs]
        return _finished(wait_for_all(calls, left, at_once=world.at_once))
    handler = handler_of(world.handlers, effect)
    if left is None or handler.instant:
        return handler.call(effect, left)
    reply = wait_for(partial(handler.call, effect, left), left)
    return _CUT if reply is NOT_DONE else reply


async def _aanswer(world: World, effect: Request, left: float | None) -> object:
    if left is not None and left <= 0:
        return _CUT
    if isinstance(effect, All):
        if left is None and len(effect.effects) == 1:
            return (await _aanswer(world, effect.effects[0], left),)
        handlers = [handler_of(world.handlers, member) for member in effect.effects]
        pairs = list(zip(handlers, effect.effects, strict=True))
        if _instant(handlers):
            return tuple([handler.call(member, left) for handler, member in pairs])
        from graphexec.awaiting import await_all

        calls = [handler.acall(member, left) for handler, member in pairs]
        return _finished(await await_all(calls, left, at_once=world.at_once))
    handler = handler_of(world.handlers, effect)
    if handler.instant:
        return handler.call(effect, left)
    if left is None:
        return await handler.acall(effect, left)
    from graphexec.awaiting import await_for

    reply = await await_for(handler.acall(effect, left), left)
    return _CUT if reply is NOT_DONE else reply


async def _turn() -> None:
    import asyncio

    await asyncio.sleep(0)


def _instant(handlers: Sequence[Handler]) -> bool:
    for handler in handlers:  # noqa: SIM110 - a generator for `all` costs more than the loop
        if not handler.instant:
            return False
    return True


def _finished(results: tuple[object, ...]) -> object:
    # By identity: what == means is the results' own affair.
    if not any(result is NOT_DONE or type(result) is Cut for result in results):
        return results
    return Cut(tuple(_CUT if result is NOT_DONE else result for result in results))
