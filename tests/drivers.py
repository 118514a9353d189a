"""Run one script with five drivers and require equal results: sync, async, both streams, and stepping from text.

::

    def script() -> Script[Ready, Ending]:
        executor = AgentExecutor(agent=create_react_agent(ScriptedModel([...]), tools), tools=tools)
        return Script(executor.graph, Ready(Run({"input": "..."})), executor.run_context)

    result = run_script(script)
    assert result.outcome.output == "..."

`script` is called once for each driver, because a run uses up its scripted model. If the run raises, every driver must
raise the same exception, and `run_script` raises it.
"""

import asyncio
import dataclasses
import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import graphexec as gx
from graphexec import advance, kernel
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Cut
from graphexec.runtime import BLOCKING, Handler, arun, astream, run, stream
from graphexec.runtime.handlers import HandlerLike, Handlers, RunContext, handler_of, handlers_for
from graphexec.runtime.io import run_sync
from graphexec.runtime.threads import ThreadGroup

S = TypeVar("S")
F = TypeVar("F")


def limit_of(ending: object) -> gx.Exhausted:
    """Return the limit that stopped a run; the ending has to have one."""
    assert isinstance(ending, gx.StoppedResponse)
    assert isinstance(ending.cause, gx.Exhausted)
    return ending.cause


class FakeClock:
    """A clock that moves only when it is advanced: `run(..., clock=FakeClock())`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


def make_run_context(
    answers: Mapping[type[gx.Effect[Any]], HandlerLike], *, limits: gx.Limits | None = None, **options: Any
) -> RunContext:
    """Return a context with these handlers."""
    return RunContext(handlers_for(answers), limits or gx.Limits(), **options)


def options_of(context: RunContext) -> dict[str, Any]:
    """Return the context as keyword arguments of a run of a graph."""
    return {one.name: getattr(context, one.name) for one in dataclasses.fields(context)}


@dataclass(frozen=True)
class Script(Generic[S, F]):
    """A graph, the value or snapshot to start from, and the context of the run."""

    graph: gx.Graph[S, F]
    value: S | gx.Snapshot
    run_context: RunContext


@dataclass(frozen=True)
class DriverResult(Generic[F]):
    """The result of a run with one driver: its end, and its events if the driver observed them."""

    done: gx.Done[F]
    events: tuple[gx.Event[F], ...] = ()
    # The snapshot before each effect, as JSON; only `drive_from_text` sets it.
    texts: tuple[str, ...] = ()

    @property
    def outcome(self) -> F:
        return self.done.outcome

    @property
    def spent(self) -> gx.Spent:
        return self.done.spent

    @property
    def asked(self) -> tuple[gx.Effect[Any], ...]:
        """The requested effects, in order."""
        return self.asked_after(0)

    def asked_after(self, requests: int) -> tuple[gx.Effect[Any], ...]:
        """Return the effects requested after the first `requests` requests; a batch is one request."""
        asked = [event for event in self.events if isinstance(event, gx.Asked)]
        return tuple(event.effect for event in asked if event.call is None or event.call.sequence > requests)


Driver: TypeAlias = Callable[[Script[Any, Any]], DriverResult[Any]]


def drive_sync(script: Script[S, F]) -> DriverResult[F]:
    return DriverResult(run(script.graph, script.value, **options_of(script.run_context)))


def drive_async(script: Script[S, F]) -> DriverResult[F]:
    return DriverResult(asyncio.run(arun(script.graph, script.value, **options_of(script.run_context))))


def drive_stream(script: Script[S, F]) -> DriverResult[F]:
    return _result_of(list(stream(script.graph, script.value, **options_of(script.run_context))))


def drive_astream(script: Script[S, F]) -> DriverResult[F]:
    async def collected() -> list[gx.Event[F]]:
        return [event async for event in astream(script.graph, script.value, **options_of(script.run_context))]

    return _result_of(asyncio.run(collected()))


def drive_from_text(script: Script[S, F]) -> DriverResult[F]:
    """Step through the run, and reload it from JSON before each effect and before each reply.

    So the process that answers need not be the one that asked, as after a pause. The members of a batch are answered
    one by one, the last one first.
    """
    graph, context = script.graph, script.run_context
    limits = context.limits
    first = script.value if isinstance(script.value, gx.Snapshot) else gx.begin(graph, script.value)
    began = context.clock() - first.spent.seconds
    texts = [first.to_json()]
    events: list[gx.Event[F]] = []

    def reload() -> kernel.PendingEffect | gx.Done[F]:
        return advance(graph, gx.Snapshot.from_json(texts[-1], graph), limits)

    while isinstance(state := reload(), kernel.PendingEffect):
        events += [gx.Asked(call.node, call.effect, call) for call in state.calls if call.effect is not None]
        handlers = context.handlers_of(graph).get(state.snapshot.node, context.handlers)
        replies = _answer_pending(context, handlers, state, began)
        at = context.clock() - began
        again = reload()
        assert isinstance(again, kernel.PendingEffect), "after a reload, the engine asks for the same effect"
        assert again.snapshot == state.snapshot
        if not isinstance(state.effect, gx.All) or len(state.calls) == 1:
            (reply,) = replies
            whole = (reply,) if isinstance(state.effect, gx.All) else reply
            after = again.cut(at=at) if isinstance(reply, Cut) else again.reply(whole, at=at)
            texts.append(after.to_json())
            continue
        for call, reply in reversed(list(zip(state.calls, replies, strict=True))):
            pending = advance(graph, again.snapshot, limits)
            assert isinstance(pending, kernel.PendingEffect), "the other members are pending"
            after = pending.reply_member(call.member, reply, at=at)
            again = dataclasses.replace(pending, snapshot=gx.Snapshot.from_json(after.to_json(), graph))
        texts.append(again.snapshot.to_json())
    return DriverResult(state, tuple(events), tuple(texts))


LIVE: tuple[Driver, ...] = (drive_sync, drive_async, drive_stream, drive_astream)
ALL_DRIVERS: tuple[Driver, ...] = (*LIVE, drive_from_text)


def run_script(script: Callable[[], Script[S, F]], *, drivers: Sequence[Driver] = ALL_DRIVERS) -> DriverResult[F]:
    """Run the script with each driver; return their common result (with the events), or raise their common exception.

    The outcome, everything spent except seconds, the requested effects and any events must be equal. `drivers=LIVE`
    leaves out `drive_from_text`, for values that JSON cannot express.
    """
    attempts = [(driver.__name__, _attempt(driver, script())) for driver in drivers]
    (first_name, first), *others = attempts
    for name, attempt in others:
        if _summarize(attempt) != _summarize(first):
            error = next((one for one in (attempt, first) if isinstance(one, Exception)), None)
            raise AssertionError(f"{name}: {_summarize(attempt)}\n{first_name}: {_summarize(first)}") from error
    results = [attempt for _, attempt in attempts if isinstance(attempt, DriverResult)]
    observed = [one for one in results if one.events and isinstance(one.events[-1], gx.Done)]
    for one in observed[1:]:
        assert _without_times(one.events) == _without_times(observed[0].events), "the events differ"
    for one in results:
        if one.events and observed:
            assert _class_names(one.asked) == _class_names(observed[0].asked), "the effects differ"
    if isinstance(first, BaseException):
        raise first
    stored = [one for one in results if one.texts]
    whole = observed[0] if observed else first
    return dataclasses.replace(whole, texts=stored[0].texts if stored else ())


def _result_of(events: Sequence[gx.Event[F]]) -> DriverResult[F]:
    done = events[-1]
    assert isinstance(done, gx.Done)
    return DriverResult(done, tuple(events))


def _attempt(driver: Driver, script: Script[S, F]) -> DriverResult[F] | Exception:
    try:
        return driver(script)
    except AssertionError:
        raise
    # The drivers must raise the same exception.
    except Exception as error:  # noqa: BLE001
        return error


def _summarize(attempt: DriverResult[Any] | Exception) -> object:
    """Return what must be equal for all drivers, in a form that survives JSON."""
    if isinstance(attempt, Exception):
        return type(attempt), str(attempt)
    outcome: object = attempt.outcome
    return type(outcome).__name__, _to_json(outcome), dataclasses.replace(attempt.spent, seconds=0)


def _to_json(outcome: object) -> object:
    try:
        return json.loads(gx.Snapshot("end", outcome).to_json())["value"]
    except ValueError:
        # JSON cannot express it: compare the objects themselves.
        return outcome


def _without_times(events: Sequence[gx.Event[Any]]) -> list[object]:
    return _sort_batches([_without_seconds(event) for event in events])


def _sort_batches(events: list[Any]) -> list[object]:
    """Return the events in a fixed order within each request; the members of a batch start and end in any order."""
    ordered: list[object] = []
    for request, group in itertools.groupby(events, _request_of):
        several = list(group)
        if request:
            answered = [event for event in several if isinstance(event, gx.Answered)]
            last = answered[-1].spent if answered else None
            several = [dataclasses.replace(one, spent=last) if one in answered else one for one in several]
            several.sort(key=lambda event: (type(event).__name__ == "Answered", event.call.member))
        ordered += several
    return ordered


def _request_of(event: Any) -> object:
    call = getattr(event, "call", None)
    return call and call.sequence


def _without_seconds(event: gx.Event[Any]) -> object:
    if isinstance(event, gx.Answered):
        event = dataclasses.replace(event, seconds=0)
    if isinstance(event, gx.Done):
        spent = dataclasses.replace(event.spent, seconds=0)
        return dataclasses.replace(event, snapshot=dataclasses.replace(event.snapshot, spent=spent))
    if hasattr(event, "spent"):
        # Every event with `spent` is a dataclass.
        timed: Any = event
        return dataclasses.replace(timed, spent=dataclasses.replace(timed.spent, seconds=0))
    return event


def _class_names(effects: Sequence[gx.Effect[Any]]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


@dataclass
class _TimedScope:
    """The scope of a run that the caller steps."""

    deadline: float | None
    elapsed: Callable[[], float]
    run_id: str = ""
    context: Any = None

    def seconds_left(self) -> float | None:
        return None if self.deadline is None else self.deadline - self.elapsed()


def _answer_call(handler: Handler, call: CallContext[Any]) -> object:
    return run_sync(handler.answer(call.effect, call, BLOCKING))


def _answer_pending(context: RunContext, handlers: Handlers, state: kernel.PendingEffect, began: float) -> list[object]:
    """Return a reply to each pending call; a `Cut` for each call that the deadline cut."""
    scope = _TimedScope(state.deadline, lambda: context.clock() - began)
    left = scope.seconds_left()
    if left is not None and left <= 0:
        return [Cut() for _ in state.calls]
    calls: list[CallContext[Any]] = [
        CallContext(scope, call.node, call.effect, call.request, call.sequence, call.member) for call in state.calls
    ]
    answers = [partial(_answer_call, handler_of(call, handlers), call) for call in calls]
    if left is None:
        return [answer() for answer in answers]
    return run_sync(_answer_in_time(answers, left, context.at_once))


async def _answer_in_time(answers: Sequence[Callable[[], object]], left: float, at_once: int) -> list[object]:
    replies: list[object] = [Cut()] * len(answers)
    waiting, running, ends = deque(enumerate(answers)), 0, time.monotonic() + left
    async with ThreadGroup[Callable[[], object], object](lambda answer: answer()) as group:
        while waiting or running:
            if waiting and running < at_once:
                group.start(*waiting.popleft())
                running += 1
            elif (update := await group.take(ends - time.monotonic())) is None:
                break
            elif update[1] is not None:
                replies[update[0]] = update[1]()
                running -= 1
    return replies
