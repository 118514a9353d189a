"""Running a graph: the loop around the engine, one coroutine for sync and async runs.

It hands effects to their handlers, keeps deadlines, reads the clock, and passes events on; an `IO` waits.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar, final

from graphexec.errors import MissingHandlerError
from graphexec.kernel.effects import All, Effect, Request
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Journal, Moved, Reported, keep
from graphexec.kernel.execution import Cut, Execution
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.ranks import Ranks
from graphexec.kernel.snapshot import Snapshot, remember
from graphexec.kernel.stepping import begin
from graphexec.runtime.emission import emit, stream_async, stream_sync
from graphexec.runtime.handlers import Handler, HandlerLike, Handlers, handler_of, handlers_for
from graphexec.runtime.io import ASYNC, BLOCKING, IO, run_sync
from graphexec.runtime.progress import Listener, heard_by
from graphexec.runtime.threads import NOT_DONE, waiter_here

S = TypeVar("S")
F = TypeVar("F")
T = TypeVar("T")

# What is awaited with each event; it may wait until a consumer wants the next one.
OnEvent: TypeAlias = Callable[[Event[Any]], Awaitable[None]]

# How many effects of one batch are carried out at a time, unless the caller says otherwise: enough for any sensible
# fan-out, few enough threads for a laptop.
AT_ONCE = 64

# An async run that is never made to wait gives the loop to others after so many replies.
TURN = 64

# What a path yields beside effects.
_EVENTS = frozenset({Entered, Asked, Answered, Moved})
_CUT = Cut()


@final
@dataclass(frozen=True, slots=True)
class RunContext:
    """The handlers, the limits, how many effects run at once, and a clock in seconds.

    With the `ranks` of a proof's certificate, every step is held to lower its rank (`CertificateError`).
    """

    handlers: Handlers
    limits: Limits
    at_once: int = AT_ONCE
    clock: Callable[[], float] = time.monotonic
    ranks: Ranks | None = None


def make_run_context(
    answers: Mapping[type[Effect[Any]], HandlerLike],
    *,
    limits: Limits | None = None,
    at_once: int = AT_ONCE,
    clock: Callable[[], float] = time.monotonic,
    ranks: Ranks | None = None,
) -> RunContext:
    """Make a context of functions: `make_run_context({AskHuman: lambda asked: input(asked.question)})`."""
    return RunContext(handlers_for(answers), limits or Limits(), at_once, clock, ranks)


def run(graph: Graph[S, F], value: S | Snapshot, run_context: RunContext) -> Done[F]:
    """Run `graph` from `value`, or a snapshot, to its end. If it raises, `snapshot_of(error)` is the run's state."""
    return run_sync(follow(graph, value, run_context, BLOCKING))


def stream(
    graph: Graph[S, F], value: S | Snapshot, run_context: RunContext, *, pieces: bool = False
) -> Generator[Event[F], None, None]:
    """Run `graph` like `run`, and yield each event, the last of which is `Done`. Closing the generator ends the run.

    With `pieces`, models that can stream do so, and each piece of a reply is an event: `Reported`, with a `ReplyDelta`.
    """
    return stream_sync(lambda: follow(graph, value, run_context, BLOCKING, emit, pieces=pieces))


async def arun(graph: Graph[S, F], value: S | Snapshot, run_context: RunContext) -> Done[F]:
    """Run like `run`, on the running event loop; functions that block run in threads."""
    return await follow(graph, value, run_context, ASYNC)


def astream(
    graph: Graph[S, F], value: S | Snapshot, run_context: RunContext, *, pieces: bool = False
) -> AsyncGenerator[Event[F], None]:
    """Run like `stream`, on the running event loop."""
    return stream_async(lambda: follow(graph, value, run_context, ASYNC, emit, pieces=pieces))


async def follow(
    graph: Graph[S, F],
    value: S | Snapshot,
    run_context: RunContext,
    io: IO,
    on_event: OnEvent | None = None,
    *,
    pieces: bool = False,
) -> Done[F]:
    """Follow a run to its end: the one loop of every kind of run. `on_event` is awaited with each event."""
    clock, limit = run_context.clock, run_context.limits.seconds
    start = value if isinstance(value, Snapshot) else begin(graph, value)
    execution = Execution(graph, start, run_context.limits, run_context.ranks)
    path = execution.path(observed=on_event is not None)
    # The clock of a resumed run goes on where it stood.
    began = clock() - execution.seconds
    replies: list[object] = []
    journal = Journal(graph, run_context.limits, start, replies)
    waiter = waiter_here()
    # What was asked for last is answered with: the reply, the second at which it came, and how many seconds it took.
    answer: Any = None
    asked = 0
    try:
        while True:
            if waiter is not None:
                waiter.check()
            try:
                item: Any = path.send(answer)
            except StopIteration as end:
                done: Done[F] = Done(end.value, execution.snapshot(), journal)
                break
            if on_event is not None and type(item) in _EVENTS:
                await on_event(item)
                answer = None
                continue
            asked += 1
            if not asked % TURN:
                await io.checkpoint()
            asked_at = clock() - began
            left = None if limit is None else limit + execution.grace - asked_at
            if on_event is None:
                reply = await _answer(run_context, io, item, left)
                now = clock() - began
            else:
                reply, now = await _answer_observed(
                    execution, run_context, io, item, left, began, on_event, pieces=pieces
                )
            answer = (reply, now, now - asked_at)
            replies.extend(answer)
        if on_event is not None:
            await on_event(done)
    except BaseException as error:
        remember(error, execution.snapshot())
        keep(error, journal)
        raise
    finally:
        path.close()
    return done


async def _answer_observed(
    execution: Execution,
    run_context: RunContext,
    io: IO,
    effect: Request,
    left: float | None,
    began: float,
    on_event: OnEvent,
    *,
    pieces: bool,
) -> tuple[object, float]:
    """Carry out an effect, and emit what its handler reports; return the reply, and the second at which it came."""

    async def timed() -> tuple[object, float]:
        return await _answer(run_context, io, effect, left), run_context.clock() - began

    async def report(news: object) -> None:
        await on_event(Reported(execution.node, effect, news))

    if pieces:
        return await io.overhear(timed, report)
    # Reports are passed on when the effect is answered, or has failed.
    heard: list[object] = []
    try:
        with heard_by(Listener(heard.append)):
            reply = await _answer(run_context, io, effect, left)
        now = run_context.clock() - began
    except Exception:
        # A copy: a call that was cut may still report.
        for news in tuple(heard):
            await report(news)
        raise
    for news in tuple(heard):
        await report(news)
    return reply, now


async def _answer(run_context: RunContext, io: IO, effect: Request, left: float | None) -> object:
    """Carry out an effect, or several; what is not there when no seconds are `left` is `Cut`."""
    if left is not None and left <= 0:
        return _CUT
    one: Any = effect
    if type(effect) is All:
        if left is not None or len(effect.effects) != 1:
            return await _answer_all(run_context, io, effect.effects, left)
        one = effect.effects[0]
    try:
        handler = run_context.handlers[type(one)]
    except KeyError:
        raise MissingHandlerError(one) from None
    if handler.instant:
        reply = await handler.answer(one, left, BLOCKING)
    elif left is None:
        reply = await handler.answer(one, left, io)
    else:
        reply = await io.within(partial(handler.answer, one, left, io), left)
        if reply is NOT_DONE:
            return _CUT
    return reply if one is effect else (reply,)


async def _answer_all(run_context: RunContext, io: IO, effects: Sequence[Effect[Any]], left: float | None) -> object:
    handlers = [handler_of(run_context.handlers, effect) for effect in effects]
    pairs = list(zip(handlers, effects, strict=True))
    results: tuple[object, ...]
    if _all_instant(handlers):
        results = tuple([await handler.answer(effect, left, BLOCKING) for handler, effect in pairs])
    else:
        # What is instant waits nowhere, beside others too.
        calls = [
            partial(handler.answer, effect, left, BLOCKING if handler.instant else io) for handler, effect in pairs
        ]
        results = await io.gather(calls, left, at_once=run_context.at_once)
    # By identity: what == means is the results' own affair.
    if not any(result is NOT_DONE or type(result) is Cut for result in results):
        return results
    return Cut(tuple(_CUT if result is NOT_DONE else result for result in results))


def _all_instant(handlers: Sequence[Handler]) -> bool:
    for handler in handlers:  # noqa: SIM110 - a generator for `all` costs more than the loop
        if not handler.instant:
            return False
    return True
