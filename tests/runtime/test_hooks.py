"""Hooks for every run: instruments of the process, `around_call` of a run, reports in mid-call, and cancellation."""

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from contextlib import aclosing, closing, contextmanager
from contextvars import copy_context
from typing import Any

import pytest

import graphexec as gx
from graphexec.effects import CallModel, ToolResult, agent_limits
from graphexec.errors import InputError
from graphexec.executor import make_model_handler
from graphexec.kernel import Answered, CallContext, Done, Event, Reported
from graphexec.messages import ModelReply, ReplyDelta
from graphexec.runtime import RunStart, instrument, on_cancel, report
from graphexec.testing import ScriptedModel
from tests.executor import actors
from tests.executor.actors import act, answer, delegate_to, make_executor, run_by, until
from tests.kernel.machines import INTERVIEW, PROMPTS, Prompt, Question, Topic
from tests.parameters import cases
from tests.runtime.actors import LONG, count_abandoned
from tests.stopwatch import eventually

WAYS = cases("way", "run", "arun", "stream", "astream", "batch", "abatch")


@pytest.fixture(autouse=True)
def end_calls() -> Generator[None]:
    """Wait for the calls that a test has left: another test counts them."""
    before = count_abandoned()
    yield
    eventually(lambda: count_abandoned() <= before)


class Watch:
    """An instrument that notes runs, their events, and their calls."""

    def __init__(self) -> None:
        self.starts: list[RunStart] = []
        self.events: list[Event[Any]] = []
        self.calls: list[str] = []

    def __call__(self, start: RunStart) -> Any:
        self.starts.append(start)
        return self.events.append, self.around

    @contextmanager
    def around(self, call: CallContext[Any]) -> Generator[None]:
        self.calls.append(call.node)
        yield


def ignore(start: RunStart) -> None:
    """An instrument that watches nothing."""


@contextmanager
def installed(function: Any) -> Generator[None]:
    remove = instrument(function)
    try:
        yield
    finally:
        remove()
        remove()


@cases("is_async", False, True)
@WAYS
def test_instrument_sees_every_run(way: str, is_async: bool) -> None:
    """A nested run, too, without its executor being named; nothing more once it is removed."""
    inner = delegate_to(lambda: make_executor(answer()), is_async=is_async)
    watch = Watch()
    outer = make_executor(act("delegate", text="x"), answer(), tools=[inner])
    inputs: Any = ["q"] if "batch" in way else "q"
    with installed(watch), installed(ignore):
        run_by(way, outer, inputs)
    run_by(way, outer, inputs)
    first, second = watch.starts
    assert (first.host, first.graph) == (None, outer.graph)
    host: Any = second.host
    assert (host.run_id, host.node) == (first.run_id, "dispatch_tools")
    assert [one.snapshot.run_id for one in watch.events if isinstance(one, Done)] == [second.run_id, first.run_id]
    assert watch.calls == ["plan", "dispatch_tools", "plan", "plan"]


def test_instrument_sees_a_machine_of_ones_own() -> None:
    watch, context = Watch(), object()
    with installed(watch):
        INTERVIEW.run(Topic("tea", 1), handlers={Question: lambda _: "42"}, context=context, run_id="mine")
    (start,) = watch.starts
    assert (start.run_id, start.context, start.value) == ("mine", context, Topic("tea", 1))
    assert watch.calls == ["interview"]


def test_failing_instrument_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(start: RunStart) -> None:
        raise OSError("no collector")

    def confused(start: RunStart) -> Any:
        return "an observer", 3

    with installed(broken), installed(confused), caplog.at_level(logging.WARNING, "graphexec"):
        assert make_executor(answer()).run("q").output == "done"
    assert "no collector" in caplog.text
    assert "return (observer, around_call)" in caplog.text
    with pytest.raises(InputError, match="instrument"):
        instrument("a name")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@WAYS
def test_contexts_of_a_run_are_within_those_of_its_executor(way: str) -> None:
    entered: list[str] = []

    def named(name: str) -> Callable[[CallContext[Any]], Any]:
        @contextmanager
        def around(call: CallContext[Any]) -> Generator[None]:
            entered.append(name)
            yield
            entered.append(f"/{name}")

        return around

    def instrument_calls(start: RunStart) -> Any:
        return None, named("process")

    executor = make_executor(answer(), around_call=named("executor"))
    inputs: Any = ["q"] if "batch" in way else "q"
    with installed(instrument_calls):
        run_by(way, executor, inputs, around_call=named("run"))
    assert entered == ["executor", "run", "process", "/process", "/run", "/executor"]
    wrong: Any = 3
    with pytest.raises(InputError, match="around_call"):
        executor.run("q", around_call=wrong)


# ---- reports in mid-call

# Reports that take far longer than a deadline here.
MANY = 20_000


@cases("is_async", False, True)
@cases("options", {}, {"max_execution_time": LONG}, {"tool_concurrency": 1})
@cases("way", "run", "arun", "stream", "astream")
def test_observer_hears_a_report_in_mid_call(way: str, options: dict[str, Any], is_async: bool) -> None:
    """The tool waits until it is heard."""
    heard, threads = threading.Event(), set[int]()
    answers: list[Event[Any]] = []

    def observe(event: Event[Any]) -> None:
        if isinstance(event, Reported):
            threads.add(threading.get_ident())
            heard.set()

    @gx.tool
    def work() -> bool:
        """Work."""
        report("half done")
        return heard.wait(LONG)

    @gx.tool(name="work")
    async def awork() -> bool:
        """Work."""
        report("half done")
        await until(heard)
        return heard.is_set()

    executor = make_executor(act("work"), answer(), tools=[awork if is_async else work], **options)
    run_by(way, executor, "q", observers=[observe, answers.append])
    assert [one.reply for one in answers if isinstance(one, Answered)][1] == ToolResult(True)
    # In the thread of the run, where an observer may have a connection.
    assert threads == {threading.get_ident()}


def test_observer_that_can_wait_for_reports_makes_no_task() -> None:
    tasks, news = list[object](), list[object]()

    class Patient:
        event_types = (Reported,)
        reports_at_end = True

        def __call__(self, event: Event[Any]) -> None:
            assert isinstance(event, Reported)
            news.append(event.news)

    @gx.tool
    async def work() -> str:
        """Work."""
        tasks.append(asyncio.current_task())
        report("half done")
        return "done"

    async def run() -> None:
        tasks.append(asyncio.current_task())
        await make_executor(act("work"), answer(), tools=[work]).arun("q", observers=[Patient()])

    asyncio.run(run())
    assert tasks[0] is tasks[1]
    assert news == ["half done"]


@cases("is_async", False, True)
def test_consumer_of_a_stream_receives_a_report_in_mid_call(is_async: bool) -> None:
    received = threading.Event()

    @gx.tool
    def work() -> bool:
        """Work."""
        report("half done")
        assert received.wait(LONG)
        return True

    executor = make_executor(act("work"), answer(), tools=[work])

    async def consume() -> None:
        async for event in executor.astream("q"):
            if isinstance(event, Reported):
                received.set()

    if is_async:
        asyncio.run(consume())
    else:
        for event in executor.stream("q"):
            if isinstance(event, Reported):
                received.set()
    assert received.is_set()


@pytest.mark.medium
@cases("way", "run", "stream", "astream")
def test_deadline_ends_a_tool_that_reports_endlessly(way: str) -> None:
    """Although each report comes before its observer, or the consumer, is ready for it."""
    reports, made = list[object](), threading.Semaphore(0)

    @gx.tool
    def work() -> None:
        """Work."""
        for number in range(MANY):
            report(number)
            made.release()
        made.release()

    executor = make_executor(act("work"), answer(), tools=[work], max_execution_time=0.01)

    def observe(event: Event[Any]) -> None:
        if isinstance(event, Reported):
            # The next one has come.
            for _ in range(1 if reports else 2):
                assert made.acquire(timeout=LONG)
            reports.append(event.news)

    async def consume() -> None:
        async for event in executor.astream("q"):
            await asyncio.to_thread(observe, event)

    if way == "astream":
        asyncio.run(consume())
    else:
        run_by(way, executor, "q", observers=[observe])
    assert len(reports) < MANY


def test_reports_of_other_threads_wait_for_the_own_one() -> None:
    heard: list[object] = []

    @gx.tool
    def work() -> list[object]:
        """Work."""
        thread = threading.Thread(target=copy_context().run, args=(report, "from a thread"))
        thread.start()
        thread.join()
        before = [*heard]
        report("from here")
        return [before, [*heard]]

    def observe(event: Event[Any]) -> None:
        if isinstance(event, Reported):
            heard.append(event.news)

    result = make_executor(act("work"), answer(), tools=[work]).run("q", observers=[observe])
    assert result.steps[0].observation == [[], ["from a thread", "from here"]]


@actors.HOW
def test_error_of_an_observer_is_not_the_tool_s(run: actors.Running) -> None:
    """The tool does not see it, and its remaining work is done."""
    done: list[str] = []

    @gx.tool
    def work() -> str:
        """Work."""
        report(1)
        report(2)
        done.append("all")
        return "ok"

    class Strict:
        raise_error = True

        def __call__(self, event: Event[Any]) -> None:
            if isinstance(event, Reported):
                raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run(make_executor(act("work"), answer(), tools=[work]), "q", observers=[Strict()])
    assert done == ["all"]


@cases("way", "stream", "astream")
def test_own_machine_streams_tokens(way: str) -> None:
    """As an executor does, and the events are the same without."""

    class Model(ScriptedModel):
        def stream(self, request: Any, *, timeout: float | None = None) -> Any:
            yield from (ReplyDelta("It is "), ReplyDelta("42"), ModelReply("It is 42"))

    options: dict[str, Any] = {"handlers": {CallModel: make_model_handler(Model(["It is 42"]))}}
    options |= {"limits": agent_limits(model_calls=1), "allow_nonterminating": True}

    async def collect(**more: Any) -> list[Event[Any]]:
        return [event async for event in PROMPTS.astream(Prompt(), **options, **more)]

    def events(**more: Any) -> list[Event[Any]]:
        return asyncio.run(collect(**more)) if way == "astream" else list(PROMPTS.stream(Prompt(), **options, **more))

    deltas = [event.news for event in events(tokens=True) if isinstance(event, Reported)]
    assert "".join(one.content for one in deltas if isinstance(one, ReplyDelta)) == "It is 42"
    assert not any(isinstance(event, Reported) for event in events())


# ---- cancellation


@cases("is_async", False, True)
def test_blocking_tool_hears_that_it_is_cut(is_async: bool) -> None:
    """Here by a consumer that leaves the stream once the tool is at work."""
    cancelled = threading.Event()

    @gx.tool
    def wait() -> bool:
        """Wait."""
        with on_cancel(cancelled.set):
            report("at work")
            return cancelled.wait(LONG)

    executor = make_executor(act("wait"), answer(), tools=[wait])

    async def leave() -> None:
        async with aclosing(executor.astream("q")) as events:
            async for event in events:
                if isinstance(event, Reported):
                    return

    if is_async:
        asyncio.run(leave())
    else:
        with closing(executor.stream("q")) as events:
            next(event for event in events if isinstance(event, Reported))
    assert cancelled.wait(LONG)


def test_run_that_nobody_cancels_calls_no_listener() -> None:
    @gx.tool
    def wait() -> str:
        """Wait."""
        with on_cancel(lambda: pytest.fail("cancelled")):
            return "here"

    assert make_executor(act("wait"), answer(), tools=[wait]).run("q").steps[0].observation == "here"
