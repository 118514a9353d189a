"""`observers`: functions that receive each event of every run, sync or async, streamed or not."""

import asyncio
import gc
import io
import logging
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

import graphexec as gx
from graphexec import Answered, Asked, Done, Entered, Failed, Moved, Reported, actions, runtime, snapshot_of
from graphexec.errors import InputError
from graphexec.executor import Ready
from graphexec.integrations import langchain
from graphexec.runtime import run as run_table
from tests import garbage
from tests.drivers import options_of
from tests.executor import actors
from tests.executor.actors import WAYS, Running, act, answer, echo, run_async, run_by, run_sync, scripted
from tests.parameters import cases
from tests.semantics.endings import cancel_run, raising

# Seconds of a deadline that is not reached.
LONG = 20.0


def make_executor(*observers: Callable[[Any], object], agent: Any = None, **settings: Any) -> gx.AgentExecutor:
    agent = agent or scripted(act("echo", text="a"), answer())
    return gx.AgentExecutor(agent=agent, tools=[echo], observers=observers, **settings)


every_way = cases("way", *WAYS)


def kinds(events: list[Any]) -> list[type]:
    return [type(event) for event in events]


TURN = [Entered, Asked, Answered, Moved, Entered, Moved]
WHOLE = [*TURN, *TURN, *TURN, Done]


@every_way
def test_every_observer_receives_every_event_once(way: str) -> None:
    first, second = list[Any](), list[Any]()
    run_by(way, make_executor(first.append, second.append))
    assert first == second
    assert kinds(first) == WHOLE
    decided, acted = ["plan", "parse"], ["dispatch_tools", "check_return_direct"]
    assert [one.node for one in first if isinstance(one, Entered)] == [*decided, *acted, *decided]
    asked = [type(one.effect).__name__ for one in first if isinstance(one, Asked)]
    assert asked == ["CallAgent", "CallTool", "CallAgent"]


@every_way
def test_observer_receives_the_events_that_it_names(way: str) -> None:
    """Whoever else receives all."""

    class Answers:
        event_types = (Answered, Done, Failed)

        def __init__(self) -> None:
            self.seen: list[Any] = []

        def __call__(self, event: Any) -> None:
            self.seen.append(event)

    alone, beside, every = Answers(), Answers(), list[Any]()
    run_by(way, make_executor(alone))
    run_by(way, make_executor(beside, every.append))
    assert kinds(alone.seen) == kinds(beside.seen) == [Answered, Answered, Answered, Done]
    assert kinds(every) == WHOLE
    Answers.event_types = (Answered, "Done")  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(InputError, match="event_types"):
        make_executor(alone)


@every_way
def test_observers_of_one_run_come_behind_those_of_the_executor(way: str) -> None:
    seen = list[tuple[str, Any]]()
    executor = make_executor(lambda event: seen.append(("own", event)))

    def watch(event: object) -> None:
        seen.append(("run", event))

    run_by(way, executor, observers=[watch])
    assert [name for name, _ in seen] == ["own", "run"] * len(WHOLE)
    assert kinds([event for name, event in seen if name == "run"]) == WHOLE
    executor.run("q")
    assert [name for name, _ in seen[2 * len(WHOLE) :]] == ["own"] * len(WHOLE)


def test_machine_without_an_agent_has_observers_too() -> None:
    @gx.node
    def finish(ready: Ready) -> gx.AgentFinish:
        """End at once."""
        return gx.AgentFinish({"output": "done"}, run=ready.run)

    machine, seen = gx.graph(gx.edges(finish, gx.on(gx.AgentFinish, gx.END)), start=finish), list[Any]()
    machine.run(Ready(actions.Run({})), observers=[seen.append])
    assert kinds(seen) == [Entered, Moved, Done]
    invalid: Any = print
    with pytest.raises(InputError, match=r"^observers is <built-in function print>; give a list of functions"):
        machine.run(Ready(actions.Run({})), observers=invalid)


class Failing:
    """An observer that records its events, and raises at those of one class."""

    def __init__(self, kind: type, error: type[BaseException] = OSError, *, raise_error: bool = False) -> None:
        self.raise_error = raise_error
        self.kind, self.error = kind, error
        self.seen: list[Any] = []

    def __call__(self, event: object) -> None:
        self.seen.append(event)
        if isinstance(event, self.kind):
            raise self.error("enough")


@every_way
def test_marked_observer_ends_the_run(way: str) -> None:
    observer = Failing(Asked, raise_error=True)
    with pytest.raises(OSError, match="enough") as caught:
        run_by(way, make_executor(observer))
    # The effect is not carried out.
    assert kinds(observer.seen) == [Entered, Asked, Failed]
    if "batch" not in way:
        # The run may be resumed from there.
        snapshot = actors.snapshot_in(caught.value)
        assert (snapshot.node, snapshot.spent["model_calls"]) == ("plan", 1)
        assert make_executor().run(snapshot).reason == "finished"


@every_way
def test_ordinary_observer_ends_no_run(way: str, caplog: pytest.LogCaptureFixture) -> None:
    failing, others = Failing(Asked), list[Any]()
    run_by(way, make_executor(failing, others.append))
    assert kinds(failing.seen) == WHOLE
    # The error is reported once, after the event that it failed at, and logged once, with its traceback.
    assert kinds(others) == [*WHOLE[:2], Reported, *WHOLE[2:]]
    report = others[2]
    assert (report.node, report.effect, report.call) == ("plan", None, others[1].call)
    assert isinstance(report.news, runtime.ObserverFailed)
    assert str(report.news) == "the observer Failing failed with OSError: enough; its further errors are not reported"
    (logged,) = caplog.records
    assert (logged.name, logged.levelname) == ("graphexec", "WARNING")
    assert logged.getMessage() == str(report.news)
    assert logged.exc_info is not None
    assert logged.exc_info[1] is report.news.error


@cases("kind", Asked, Done)
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


@cases("run", run_sync, run_async)
@cases("seconds", None, LONG)
@cases("kind", Entered, Asked, Answered, Moved, Done)
def test_interrupt_in_an_observer_loses_nothing(run: Running, seconds: float | None, kind: type) -> None:
    """Answered effects are not asked for again: each of the two decisions is made once."""
    interrupts, decisions, seen = [kind], list[int](), list[Any]()
    decide = scripted(act("echo", text="a"), answer())

    def counted(steps: Any, inputs: Any) -> Any:
        decisions.append(len(steps))
        return decide(steps, inputs)

    def interrupt(event: object) -> None:
        if type(event) in interrupts:
            raise KeyboardInterrupt(interrupts.pop())

    executor = make_executor(interrupt, seen.append, agent=counted, max_execution_time=seconds)
    with pytest.raises(KeyboardInterrupt) as caught:
        run(executor)
    assert kinds(seen) == [*WHOLE[: WHOLE.index(kind)], Failed]
    snapshot = actors.snapshot_in(caught.value)
    assert run(executor, gx.Snapshot.from_json(snapshot.to_json(), executor.graph)).output == "done"
    assert decisions == [0, 1]


def test_closed_stderr_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    # So that the handler of last resort writes to stderr.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    assert make_executor(verbose=True).run("q").reason == "finished"


# ---- Done or Failed is the last event


raise_boom = raising(OSError("boom"))


@every_way
def test_failed_is_the_last_event_of_observers(way: str) -> None:
    seen: list[Any] = []
    with pytest.raises(OSError, match="boom") as caught:
        run_by(way, make_executor(seen.append, agent=raise_boom))
    assert kinds(seen) == [Entered, Asked, Failed]
    assert seen[-1].error is caught.value
    assert seen[-1].snapshot == snapshot_of(caught.value)
    assert seen[-1].spent["model_calls"] == 1


def test_iterating_consumer_receives_no_failed() -> None:
    received: list[Any] = []
    with pytest.raises(OSError, match="boom"):
        received.extend(make_executor(received.append, agent=raise_boom).stream("q"))
    assert kinds(received) == [Entered, Entered, Asked, Asked, Failed]


def test_interrupted_or_cancelled_run_has_failed() -> None:
    seen: list[Any] = []
    with pytest.raises(KeyboardInterrupt) as caught:
        make_executor(seen.append, agent=raising(KeyboardInterrupt())).run("q")
    assert kinds(seen) == [Entered, Asked, Failed]
    assert seen[-1].error is caught.value
    cancel_run(lambda agent: make_executor(seen.append, agent=agent))
    assert kinds(seen[3:]) == [Entered, Asked, Failed]
    assert isinstance(seen[-1].error, asyncio.CancelledError)


def close_stream(executor: gx.AgentExecutor, after: type = Entered) -> None:
    events = executor.stream("q")
    assert any(isinstance(event, after) for event in events)
    events.close()


async def aclose_stream(executor: gx.AgentExecutor) -> None:
    async with aclosing(executor.astream("q")) as events:
        await anext(events)


def leave_iteration(executor: gx.AgentExecutor) -> None:
    for _ in langchain.iterate(executor, "q"):
        break
    garbage.collect()


LEFT: list[tuple[Callable[[gx.AgentExecutor], None], list[type]]] = [
    (close_stream, [Entered, Failed]),
    (lambda executor: asyncio.run(aclose_stream(executor)), [Entered, Failed]),
    (leave_iteration, [*TURN, *TURN, Entered, Failed]),
    # At its end it is done.
    (lambda executor: close_stream(executor, Done), WHOLE),
]


@cases(("leave", "events"), *LEFT)
def test_run_that_is_left_has_one_end(leave: Callable[[gx.AgentExecutor], None], events: list[type]) -> None:
    seen: list[Any] = []
    leave(make_executor(seen.append))
    assert kinds(seen) == events
    assert not isinstance(getattr(seen[-1], "error", None), Exception)


def test_failing_observers_do_not_hide_the_error() -> None:
    first, second = Failing(Failed, raise_error=True), Failing(Failed)
    with pytest.raises(OSError, match="boom"):
        make_executor(first, second, agent=raise_boom).run("q")
    assert kinds(first.seen) == kinds(second.seen) == [Entered, Asked, Failed]


def test_marked_observer_fails_at_the_end() -> None:
    before, after = list[Any](), list[Any]()
    failing = Failing(Done, raise_error=True)
    with pytest.raises(OSError, match="enough"):
        make_executor(before.append, failing, after.append).run("q")
    # Each observer receives one last event, and nothing after it.
    assert [kinds(seen)[-1] for seen in (before, failing.seen, after)] == [Done, Done, Failed]
    assert len(before) == len(failing.seen) == len(after)


def test_observers_are_called_before_the_consumer() -> None:
    order: list[str] = []
    executor = make_executor(lambda event: order.append(f"watcher {type(event).__name__}"))
    for event in executor.stream("q"):
        order.append(f"iterates {type(event).__name__}")  # noqa: PERF401 - observers append meanwhile
    assert order[::2] == [line.replace("iterates", "watcher") for line in order[1::2]]


def test_observers_belong_to_the_executor() -> None:
    seen: list[Any] = []
    executor = make_executor(seen.append)
    # The graph, run without the executor, has no observers.
    run_table(executor.graph, Ready(actions.Run({"input": "q"})), **options_of(executor.run_context))
    assert seen == []
    watched, unwatched = executor.run("q"), make_executor().run("q")
    assert (watched.ending, watched.steps) == (unwatched.ending, unwatched.steps)
    assert watched.spent.iterations == unwatched.spent.iterations
    executor.run("q")
    assert kinds(seen) == [*WHOLE, *WHOLE]
    executor.with_limits(gx.Limits(iterations=1)).run("q")
    assert kinds(seen).count(Done) == 3


@cases("run", run_sync, run_async)
def test_observed_run_keeps_no_events(run: Running) -> None:
    alive: list[int] = []

    def watch(event: object) -> None:
        if isinstance(event, Done):
            alive.append(sum(type(one) is Asked for one in gc.get_objects()))

    executor = make_executor(watch, agent=scripted(*[act("echo", text="a")] * 20, answer()), max_iterations=30)
    before = sum(type(one) is Asked for one in gc.get_objects())
    assert len(run(executor).steps) == 20
    assert alive[0] - before <= 2
