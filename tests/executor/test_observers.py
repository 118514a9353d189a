"""`observers`: functions that receive each event of every run, sync or async, streamed or not."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import io
import logging
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from graphexec import (
    AgentExecutor,
    Answered,
    Asked,
    Done,
    Entered,
    Event,
    Failed,
    Limits,
    Moved,
    Reported,
    Snapshot,
    snapshot_of,
    tool,
    wrap,
)
from graphexec.actions import Run, Steps
from graphexec.errors import InputError, ParseError
from graphexec.executor import Ready, parse
from graphexec.runtime import ObserverFailed
from graphexec.runtime import run as run_table
from tests.drivers import FakeClock
from tests.executor.actors import Running, act, answer, echo, run_async, run_sync, scripted
from tests.parameters import cases

# Seconds of a deadline that is not reached.
LONG = 20.0


def make_executor(*observers: Callable[[Any], object], **settings: Any) -> AgentExecutor:
    return AgentExecutor(agent=scripted(act("echo", text="a"), answer()), tools=[echo], observers=observers, **settings)


async def _collect(executor: AgentExecutor) -> list[Any]:
    return [event async for event in executor.astream("q")]


async def _iterate(executor: AgentExecutor) -> list[Any]:
    return [steps async for steps in executor.iter("q")]


async def _collect_chunks(executor: AgentExecutor) -> list[Any]:
    return [chunk async for chunk in executor.astream_chunks("q")]


ENTRY_POINTS: dict[str, Callable[[AgentExecutor], object]] = {
    "run": lambda executor: executor.run("q"),
    "arun": lambda executor: asyncio.run(executor.arun("q")),
    "invoke": lambda executor: executor.invoke("q"),
    "ainvoke": lambda executor: asyncio.run(executor.ainvoke("q")),
    "batch": lambda executor: executor.batch(["q"]),
    "abatch": lambda executor: asyncio.run(executor.abatch(["q"])),
    "stream": lambda executor: list(executor.stream("q")),
    "astream": lambda executor: asyncio.run(_collect(executor)),
    "stream_chunks": lambda executor: list(executor.stream_chunks("q")),
    "astream_chunks": lambda executor: asyncio.run(_collect_chunks(executor)),
    "iter": lambda executor: list(executor.iter("q")),
    "aiter": lambda executor: asyncio.run(_iterate(executor)),
}

every_entry_point = cases("entry_point", ENTRY_POINTS)


def kinds(events: list[Any]) -> list[type]:
    return [type(event) for event in events]


WHOLE = [Entered, Asked, Answered, Moved, Entered, Moved, Entered, Asked, Answered, Moved, Entered, Moved]


@every_entry_point
def test_every_observer_receives_every_event_once(entry_point: str) -> None:
    first: list[Any] = []
    second: list[Any] = []
    ENTRY_POINTS[entry_point](make_executor(first.append, second.append))
    assert first == second
    assert kinds(first) == [*WHOLE, Entered, Asked, Answered, Moved, Entered, Moved, Done]


class Failing:
    """An observer that records its events, and raises at those of one class."""

    def __init__(self, kind: type, *, raise_error: bool = False) -> None:
        self.raise_error = raise_error
        self.kind = kind
        self.seen: list[Any] = []

    def __call__(self, event: object) -> None:
        self.seen.append(event)
        if isinstance(event, self.kind):
            raise OSError("enough")


@every_entry_point
def test_marked_observer_ends_the_run(entry_point: str) -> None:
    observer = Failing(Asked, raise_error=True)
    with pytest.raises(OSError, match="enough") as caught:
        ENTRY_POINTS[entry_point](make_executor(observer))
    # The effect is not carried out.
    assert kinds(observer.seen) == [Entered, Asked, Failed]
    if "batch" not in entry_point:
        # The run may be resumed from there.
        snapshot = snapshot_of(caught.value)
        assert snapshot is not None
        assert (snapshot.node, snapshot.spent["model_calls"]) == ("plan", 1)
        assert make_executor().run(snapshot).reason == "finished"


@every_entry_point
def test_ordinary_observer_ends_no_run(entry_point: str, caplog: pytest.LogCaptureFixture) -> None:
    failing, others = Failing(Asked), list[Any]()
    ENTRY_POINTS[entry_point](make_executor(failing, others.append))
    whole = [*WHOLE, Entered, Asked, Answered, Moved, Entered, Moved, Done]
    assert kinds(failing.seen) == whole
    # The error is reported once, after the event that it failed at, and logged once, with its traceback.
    assert kinds(others) == [*whole[:2], Reported, *whole[2:]]
    report = others[2]
    assert (report.node, report.effect, report.call) == ("plan", None, others[1].call)
    assert isinstance(report.news, ObserverFailed)
    assert str(report.news) == "the observer Failing failed with OSError: enough; its further errors are not reported"
    (logged,) = caplog.records
    assert (logged.name, logged.levelname) == ("graphexec", "WARNING")
    assert logged.getMessage() == str(report.news)
    assert logged.exc_info is not None
    assert logged.exc_info[1] is report.news.error


@cases("kind", [Asked, Done])
def test_consumer_receives_the_report_once(kind: type) -> None:
    events = list(make_executor(Failing(kind), Failing(Reported)).stream("q"))
    reports = [event for event in events if isinstance(event, Reported)]
    # The second observer fails at the report of the first.
    assert len(reports) == (2 if kind is Asked else 1)
    assert isinstance(events[-1], Done)


def test_observer_that_fails_always_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    observers = Failing(object), Failing(object)
    assert make_executor(*observers).run("q").reason == "finished"
    assert len(caplog.records) == 2
    # Once in each run.
    make_executor(*observers).run("q")
    assert len(caplog.records) == 4


def test_interrupt_in_an_observer_ends_the_run() -> None:
    seen: list[Any] = []

    def interrupt(event: object) -> None:
        if isinstance(event, Asked):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_executor(interrupt, seen.append).run("q")
    assert kinds(seen) == [Entered, Failed]


@cases("run", [run_sync, run_async])
@cases("seconds", [None, LONG])
@cases("kind", [Entered, Asked, Answered, Moved, Done])
def test_interrupt_in_an_observer_loses_nothing(run: Running, seconds: float | None, kind: type) -> None:
    """Answered effects are not asked for again: each of the two decisions is made once."""
    interrupts, decisions = [kind], list[int]()
    decide = scripted(act("echo", text="a"), answer())

    def counted(steps: Any, inputs: Any) -> Any:
        decisions.append(len(steps))
        return decide(steps, inputs)

    def interrupt(event: object) -> None:
        if type(event) in interrupts:
            raise KeyboardInterrupt(interrupts.pop())

    executor = AgentExecutor(agent=counted, tools=[echo], observers=[interrupt], max_execution_time=seconds)
    with pytest.raises(KeyboardInterrupt) as caught:
        run(executor)
    snapshot = snapshot_of(caught.value)
    assert snapshot is not None
    assert run(executor, Snapshot.from_json(snapshot.to_json(), executor.graph)).output == "done"
    assert decisions == [0, 1]


@cases("seconds", [None, LONG])
@cases("stream", [False, True])
@cases("count", [1, 2])
def test_interrupt_in_an_async_tool_leaves_a_snapshot(
    seconds: float | None, stream: bool, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """`asyncio` raises it directly out of the event loop, past the code that awaits the tool's task."""

    @tool
    async def interrupt() -> None:
        """Interrupt the program."""
        raise KeyboardInterrupt

    seen: list[Any] = []
    agent = scripted([act("interrupt"), act("echo", text="a")][:count], answer())
    executor = AgentExecutor(agent=agent, tools=[interrupt, echo], observers=[seen.append], max_execution_time=seconds)
    with pytest.raises(KeyboardInterrupt) as caught:
        asyncio.run(_collect(executor)) if stream else asyncio.run(executor.arun("q"))
    snapshot = snapshot_of(caught.value)
    assert snapshot is not None
    assert (snapshot.node, snapshot.spent["tool_calls"]) == ("dispatch_tools", count)
    assert [event.error for event in seen if isinstance(event, Failed)] == [caught.value]
    # asyncio logs no task whose exception was never retrieved.
    del caught
    gc.collect()
    assert caplog.records == []


def test_closed_stderr_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    # So that the handler of last resort writes to stderr.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    assert make_executor(verbose=True).run("q").reason == "finished"


# ---- Done or Failed is the last event


def raise_boom(steps: Any, inputs: Any) -> Any:
    raise OSError("boom")


@every_entry_point
def test_failed_is_the_last_event_of_observers(entry_point: str) -> None:
    seen: list[Any] = []
    with pytest.raises(OSError, match="boom") as caught:
        ENTRY_POINTS[entry_point](AgentExecutor(agent=raise_boom, tools=[], observers=[seen.append]))
    assert kinds(seen) == [Entered, Asked, Failed]
    assert seen[-1].error is caught.value
    assert seen[-1].snapshot == snapshot_of(caught.value)
    assert seen[-1].spent["model_calls"] == 1


def test_iterating_consumer_receives_no_failed() -> None:
    received: list[Any] = []
    with pytest.raises(OSError, match="boom"):
        received.extend(AgentExecutor(agent=raise_boom, tools=[], observers=[received.append]).stream("q"))
    assert kinds(received) == [Entered, Entered, Asked, Asked, Failed]


def test_interrupted_run_has_failed() -> None:
    seen: list[Any] = []

    def interrupt(steps: Any, inputs: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        AgentExecutor(agent=interrupt, tools=[], observers=[seen.append]).run("q")
    assert kinds(seen) == [Entered, Asked, Failed]
    assert seen[-1].error is caught.value


def test_cancelled_run_has_failed() -> None:
    seen: list[Any] = []

    async def cancel() -> None:
        begun = asyncio.Event()

        async def wait(steps: Any, inputs: Any) -> Any:
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(AgentExecutor(agent=wait, tools=[], observers=[seen.append]).arun("q"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert kinds(seen) == [Entered, Asked, Failed]
    assert isinstance(seen[-1].error, asyncio.CancelledError)


@cases("how", ["sync", "async"])
def test_closed_stream_has_failed(how: str) -> None:
    seen: list[Any] = []
    executor = make_executor(seen.append)

    async def leave() -> None:
        async with aclosing(executor.astream("q")) as events:
            await anext(events)

    if how == "async":
        asyncio.run(leave())
    else:
        events = executor.stream("q")
        next(events)
        events.close()
    assert kinds(seen) == [Entered, Failed]
    assert not isinstance(seen[-1].error, Exception)


def test_stream_closed_at_its_end_is_done() -> None:
    seen: list[Any] = []
    events = make_executor(seen.append).stream("q")
    assert any(isinstance(event, Done) for event in events)
    events.close()
    assert isinstance(seen[-1], Done)
    assert Failed not in kinds(seen)


def test_failing_observers_do_not_hide_the_error() -> None:
    first, second = Failing(Failed, raise_error=True), Failing(Failed)
    with pytest.raises(OSError, match="boom"):
        AgentExecutor(agent=raise_boom, tools=[], observers=[first, second]).run("q")
    assert kinds(first.seen) == kinds(second.seen) == [Entered, Asked, Failed]


def test_marked_observer_fails_at_the_end() -> None:
    before, after = list[Any](), list[Any]()
    failing = Failing(Done, raise_error=True)
    with pytest.raises(OSError, match="enough"):
        make_executor(before.append, failing, after.append).run("q")
    # Each observer receives one last event, and nothing after it.
    assert [kinds(seen)[-1] for seen in (before, failing.seen, after)] == [Done, Done, Failed]
    assert len(before) == len(failing.seen) == len(after)


@cases("how", ["sync", "async"])
def test_changed_iteration_has_one_end(how: str) -> None:
    seen: list[Any] = []
    turns = make_executor(seen.append).iter("q")

    def change() -> None:
        if not turns.ended:
            turns.run = Run(turns.run.inputs, Steps(turns.run.steps))

    async def iterate() -> None:
        async for _ in turns:
            change()

    if how == "async":
        asyncio.run(iterate())
    else:
        for _ in turns:
            change()
    assert kinds(seen).count(Entered) > kinds(seen).count(Moved)
    assert isinstance(seen[-1], Done)
    assert Failed not in kinds(seen)


def test_left_iteration_has_failed() -> None:
    seen: list[Any] = []
    for _ in make_executor(seen.append).iter("q"):
        break
    gc.collect()
    assert isinstance(seen[-1], Failed)


# ---- time


@every_entry_point
def test_time_of_observers_is_measured(entry_point: str) -> None:
    clock, seen = FakeClock(), list[Any]()

    def dawdle(event: object) -> None:
        clock.advance(2)
        seen.append(event)

    executor = make_executor(dawdle)
    executor.run_context = dataclasses.replace(executor.run_context, clock=clock)
    ENTRY_POINTS[entry_point](executor)
    # The time of the last event is not included.
    assert seen[-1].observer_seconds == 2 * (len(seen) - 1)


def test_result_has_the_time_of_observers() -> None:
    clock = FakeClock()
    executor = make_executor(lambda event: clock.advance(1))
    executor.run_context = dataclasses.replace(executor.run_context, clock=clock)
    assert executor.run("q").observer_seconds == 18
    assert make_executor().run("q").observer_seconds == 0


@cases("run", [run_sync, run_async])
@cases("observed", [True, False])
@cases("seconds", [None, 1e6])
def test_time_of_nodes_and_policies_is_measured(run: Running, observed: bool, seconds: float | None) -> None:
    """It does not include the time of calls and observers."""
    clock = FakeClock()

    def decide(steps: Any, inputs: Any) -> Any:
        clock.advance(100)
        if steps:
            return answer()
        raise ParseError("what?")

    def handle(error: ParseError) -> str:
        clock.advance(3)
        return "again"

    def finish(outcome: Any) -> Any:
        clock.advance(20)
        return outcome

    def watch(event: Event[Any]) -> None:
        clock.advance(1000)

    executor = AgentExecutor(
        agent=decide,
        tools=[],
        handle_parsing_errors=handle,
        observers=[watch] * observed,
        max_execution_time=seconds,
    )
    executor = executor.with_graph(wrap(executor.graph, parse, after=finish))
    executor.run_context = dataclasses.replace(executor.run_context, clock=clock)
    result = run(executor)
    assert (result.output, result.node_seconds) == ("done", 20 + 3 + 20)
    assert result.observer_seconds == 1000 * observed * 12


def test_observers_are_called_before_the_consumer() -> None:
    order: list[str] = []
    executor = make_executor(lambda event: order.append(f"watcher {type(event).__name__}"))
    for event in executor.stream("q"):
        order.append(f"iterates {type(event).__name__}")  # noqa: PERF401 - observers append meanwhile
    assert order[::2] == [line.replace("iterates", "watcher") for line in order[1::2]]


def test_observer_is_shared_by_runs() -> None:
    seen: list[Any] = []
    executor = make_executor(seen.append)
    executor.run("q")
    executor.run("q")
    assert sum(isinstance(event, Done) for event in seen) == 2


def test_copy_with_other_limits_keeps_its_observers() -> None:
    seen: list[Any] = []
    make_executor(seen.append).with_limits(Limits(iterations=1)).run("q")
    assert isinstance(seen[-1], Done)


def test_observers_do_not_change_the_result() -> None:
    watched, unwatched = make_executor(lambda event: None), make_executor()
    one, other = watched.run("q"), unwatched.run("q")
    assert (one.ending, one.steps) == (other.ending, other.steps)
    assert one.spent.iterations == other.spent.iterations


def test_unobserved_run_emits_no_events() -> None:
    # The graph, run without the executor, has no observers.
    seen: list[Any] = []
    executor = make_executor(seen.append)
    run_table(executor.graph, Ready(Run({"input": "q"})), executor.run_context)
    assert seen == []


@cases("how", ["sync", "async"])
def test_observed_run_keeps_no_events(how: str) -> None:
    alive: list[int] = []

    def watch(event: object) -> None:
        if isinstance(event, Done):
            alive.append(sum(type(one) is Asked for one in gc.get_objects()))

    executor = AgentExecutor(agent=scripted(*[act("echo", text="a")] * 20, answer()), tools=[echo], observers=[watch])
    executor = executor.with_limits(Limits(iterations=30))
    before = sum(type(one) is Asked for one in gc.get_objects())
    result = executor.run("q") if how == "sync" else asyncio.run(executor.arun("q"))
    assert len(result.steps) == 20
    assert alive[0] - before <= 2


class Awaited:
    """An object with an async `__call__`."""

    async def __call__(self, event: object) -> None:
        """Return a coroutine, which would not be awaited."""


WRONG: dict[str, object] = {
    "one function": print,
    "no functions": [1],
    "a text": "print",
    "a coroutine function": [asyncio.sleep],
    "an object that is called like one": [Awaited()],
}


@cases("what", WRONG)
def test_invalid_observer_is_refused(what: str) -> None:
    observers: Any = WRONG[what]
    with pytest.raises(InputError, match=r"^observers (is|has) .*; pass"):
        AgentExecutor(agent=scripted(answer()), tools=[], observers=observers)
