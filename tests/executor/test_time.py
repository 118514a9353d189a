"""The time limit cuts running calls and keeps finished results. Only these tests use real time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from graphexec import AgentExecutor, Exhausted, RunResult, Snapshot, StoppedResponse, create_react_agent, tool
from graphexec.errors import ModelTimeoutError
from graphexec.executor import Ready
from graphexec.executor.result import Ending
from graphexec.kernel import Done
from graphexec.runtime import run
from tests.drivers import FakeClock, Script, limit_of, run_script
from tests.executor.actors import AnyTool, BlockingModel, act, answer, echo, script_of, scripted, until
from tests.parameters import cases
from tests.stopwatch import Stopwatch

# The calls before the slow one end in this time on a busy machine, too.
SECONDS = 1.5
AT_MOST = 1.7


def run_timed(executor: AgentExecutor) -> tuple[RunResult, Stopwatch]:
    with Stopwatch() as watch:
        result = executor.run("q")
    return result, watch


def arun_timed(executor: AgentExecutor, released: threading.Event) -> tuple[RunResult, Stopwatch]:
    async def time_run() -> tuple[RunResult, Stopwatch]:
        try:
            with Stopwatch() as watch:
                result = await executor.arun("q")
            return result, watch
        finally:
            # Released before asyncio.run waits for running threads.
            released.set()

    return asyncio.run(time_run())


def time_run(executor: AgentExecutor, how: str, released: threading.Event) -> tuple[RunResult, Stopwatch]:
    return run_timed(executor) if how == "sync" else arun_timed(executor, released)


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def make_blocking_tool(released: threading.Event) -> AnyTool:
    @tool
    def slow() -> str:
        """Take half a minute."""
        released.wait(30)
        return "late"

    return slow


def make_async_tool(released: threading.Event) -> AnyTool:
    @tool
    async def slow() -> str:
        """Take half a minute."""
        await until(released)
        return "late"

    return slow


def make_stubborn_tool(released: threading.Event) -> AnyTool:
    @tool
    async def slow() -> str:
        """Take half a minute, ignoring cancellation."""
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await until(released)
        return "late"

    return slow


@pytest.mark.medium
@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("make", [make_blocking_tool, make_async_tool, make_stubborn_tool])
def test_slow_tool_is_cut_without_losing_other_results(
    how: str, make: Callable[[threading.Event], AnyTool], released: threading.Event
) -> None:
    turns = [act("echo", text="before"), [act("echo", text="first"), act("slow"), act("echo", text="last")]]
    executor = AgentExecutor(agent=scripted(*turns), tools=[echo, make(released)], max_execution_time=SECONDS)
    result, watch = time_run(executor, how, released)
    assert SECONDS <= watch.elapsed < watch.extend(AT_MOST)
    assert result.reason == "seconds"
    assert [(step.status, step.observation) for step in result.steps if step.status == "ok"] == [
        ("ok", "before"),
        ("ok", "first"),
        ("ok", "last"),
    ]
    (cut,) = [step for step in result.steps if step.status == "cut"]
    assert cut.observation.startswith("slow was cut off: the limit of 1.5 seconds was reached")
    assert result.steps[2] is cut
    assert result.stopped is not None
    assert limit_of(result.stopped).value == SECONDS
    assert limit_of(result.stopped).reached >= SECONDS
    assert result.spent["tool_calls"] == 4


@pytest.mark.medium
@cases("how", ["sync", "async"])
def test_slow_model_is_cut_at_the_deadline(how: str) -> None:
    model = BlockingModel()
    executor = AgentExecutor(agent=create_react_agent(model, [echo]), tools=[echo], max_execution_time=SECONDS)
    try:
        result, watch = time_run(executor, how, model.released)
    finally:
        model.released.set()
    assert SECONDS <= watch.elapsed < watch.extend(AT_MOST)
    assert result.reason == "seconds"
    assert (result.spent["model_calls"], result.spent.iterations, len(result.steps)) == (1, 1, 0)


@pytest.mark.medium
@pytest.mark.parametrize("how", ["sync", "async"])
def test_slow_callable_agent_is_cut(how: str, released: threading.Event) -> None:
    def decide(steps: Any, inputs: Any) -> Any:
        if steps:
            released.wait(30)
        return act("echo", text="done before")

    executor = AgentExecutor(agent=decide, tools=[echo], max_execution_time=SECONDS)
    result, watch = time_run(executor, how, released)
    assert watch.elapsed < watch.extend(AT_MOST)
    assert [step.observation for step in result.steps] == ["done before"]
    assert result.reason == "seconds"


@pytest.mark.medium
@pytest.mark.parametrize("how", ["sync", "async"])
def test_queued_calls_do_not_start_after_the_deadline(how: str, released: threading.Event) -> None:
    started: list[int] = []

    @tool
    def slow(number: int) -> int:
        """Take half a minute."""
        started.append(number)
        released.wait(30)
        return number

    batch = [act("slow", number=number) for number in range(5)]
    executor = AgentExecutor(agent=scripted(batch), tools=[slow], max_execution_time=SECONDS, tool_concurrency=2)
    result, _ = time_run(executor, how, released)
    released.set()
    assert sorted(started) == [0, 1]
    assert [step.status for step in result.steps] == ["cut"] * 5


@pytest.mark.parametrize("make", [make_blocking_tool, make_async_tool])
@pytest.mark.parametrize("how", ["sync", "async"])
def test_timeout_of_a_tool_is_an_observation(
    how: str, make: Callable[[threading.Event], AnyTool], released: threading.Event
) -> None:
    patient = make(released)
    impatient = tool(timeout=0.05)(patient.function)
    executor = AgentExecutor(agent=scripted([act("slow"), act("echo", text="a")], answer()), tools=[impatient, echo])
    result, watch = time_run(executor, how, released)
    assert watch.elapsed < watch.extend(0.7)
    assert result.output == "done"
    assert [(step.status, step.observation) for step in result.steps] == [
        ("timed_out", "slow timed out: it did not answer within 0.05 seconds."),
        ("ok", "a"),
    ]


@pytest.mark.parametrize("limit", [None, 20.0])
@pytest.mark.parametrize("how", ["sync", "async"])
def test_timeout_error_of_a_tool_is_its_error(how: str, limit: float | None, released: threading.Event) -> None:
    @tool
    def blocking() -> str:
        """Fail with a timeout."""
        raise TimeoutError("the socket's")

    @tool
    async def awaiting() -> str:
        """Fail with a timeout."""
        async with asyncio.timeout(0):
            await asyncio.sleep(30)
        return "never"

    executor = AgentExecutor(
        agent=scripted([act("blocking"), act("awaiting")], act("blocking"), act("awaiting"), answer()),
        tools=[blocking, awaiting],
        max_execution_time=limit,
    )
    result, _ = time_run(executor, how, released)
    assert result.reason == "finished"
    assert [step.observation for step in result.steps] == [
        "blocking failed: TimeoutError: the socket's",
        "awaiting failed: TimeoutError",
    ] * 2


@pytest.mark.parametrize("how", ["sync", "async"])
def test_timeout_error_of_a_model_is_raised(how: str, released: threading.Event) -> None:
    class TimingOut(BlockingModel):
        def complete(self, request: Any, *, timeout: float | None = None) -> Any:
            raise TimeoutError("the model's")

        async def acomplete(self, request: Any, *, timeout: float | None = None) -> Any:
            raise TimeoutError("the model's")

    executor = AgentExecutor(agent=create_react_agent(TimingOut(), []), tools=[], max_execution_time=20)
    with pytest.raises(TimeoutError, match="the model's"):
        time_run(executor, how, released)


@pytest.mark.parametrize("how", ["sync", "async"])
def test_deadline_precedes_the_models_own_timeout(how: str, released: threading.Event) -> None:
    class Punctual(BlockingModel):
        """A model that waits for the given timeout, as an HTTP client does, on a clock that is slightly fast."""

        def complete(self, request: Any, *, timeout: float | None = None) -> Any:
            released.wait((timeout or 30) - 0.01)
            raise ModelTimeoutError("the server did not answer in time")

        async def acomplete(self, request: Any, *, timeout: float | None = None) -> Any:
            await asyncio.sleep((timeout or 30) - 0.01)
            raise ModelTimeoutError("the server did not answer in time")

    executor = AgentExecutor(agent=create_react_agent(Punctual(), []), tools=[], max_execution_time=0.3)
    result, _ = time_run(executor, how, released)
    assert result.reason == "seconds"


@pytest.mark.parametrize("limit", [0, 0.0])
@pytest.mark.parametrize("how", ["sync", "async"])
def test_time_limit_of_zero_stops_before_planning(how: str, limit: float, released: threading.Event) -> None:
    executor = AgentExecutor(agent=scripted(answer()), tools=[], max_execution_time=limit)
    result, _ = time_run(executor, how, released)
    assert result.reason == "seconds"
    assert result.output == "Agent stopped due to iteration limit or time limit."
    assert (result.spent.iterations, result.spent["model_calls"]) == (0, 0)


def test_time_of_the_streams_consumer_counts() -> None:
    clock = FakeClock()
    executor = AgentExecutor(agent=scripted(act("echo", text="a"), answer()), tools=[echo], max_execution_time=5)
    executor.run_context = dataclasses.replace(executor.run_context, clock=clock)
    events = executor.stream("q")
    first = next(events)
    clock.advance(6)
    *_, done = [first, *events]
    assert isinstance(done, Done)
    assert isinstance(done.outcome, StoppedResponse)
    assert (limit_of(done.outcome).limit, done.spent.seconds) == ("seconds", 6)


def make_ticking_tool(clock: FakeClock) -> AnyTool:
    @tool
    def tick() -> float:
        """Take a second."""
        clock.advance(1)
        return clock.seconds

    return tick


def test_seconds_are_counted_by_a_monotonic_clock() -> None:
    assert AgentExecutor(agent=scripted(answer()), tools=[]).run_context.clock is time.monotonic


def test_time_continues_after_a_pause() -> None:
    def script() -> Script[Ready, Ending]:
        clock = FakeClock(1000)
        executor = AgentExecutor(
            agent=scripted(act("tick")),
            tools=[make_ticking_tool(clock)],
            max_iterations=None,
            max_execution_time=3,
            allow_nonterminating=True,
        )
        return dataclasses.replace(
            script_of(executor), run_context=dataclasses.replace(executor.run_context, clock=clock)
        )

    result = run_script(script)
    assert isinstance(result.outcome, StoppedResponse)
    assert result.outcome.limit == Exhausted("seconds", 3, 3)
    assert len(result.outcome.steps) == 3
    for text in result.texts:
        again = script()
        # Another clock, as in a later process.
        paused = dataclasses.replace(again, value=Snapshot.from_json(text, again.graph))
        resumed = run(paused.graph, paused.value, paused.run_context)
        assert isinstance(resumed.outcome, StoppedResponse)
        assert resumed.outcome.limit == Exhausted("seconds", 3, 3)
        assert len(resumed.outcome.steps) == 3


def test_cancelled_run_cancels_its_tools() -> None:
    cancelled: list[str] = []

    async def cancelling() -> None:
        started = asyncio.Event()

        @tool
        async def slow() -> str:
            """Take half a minute."""
            started.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append("slow")
                raise
            return "late"

        executor = AgentExecutor(agent=scripted([act("slow"), act("slow")]), tools=[slow])
        task = asyncio.create_task(executor.arun("q"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelling())
    assert cancelled == ["slow", "slow"]


@pytest.mark.medium
@cases("how", ["run('q')", "arun('q')"])
@cases("kind", ["def", "async def"])
def test_abandoned_tool_does_not_delay_the_exit(how: str, kind: str) -> None:
    wait = "time.sleep(60)" if kind == "def" else "await asyncio.sleep(60)"
    run = f"executor.{how}" if how.startswith("run") else f"asyncio.run(executor.{how})"
    program = f"""
        import asyncio, time
        from graphexec import AgentAction, AgentExecutor, tool

        @tool
        {kind} slow() -> str:
            "Take a minute."
            {wait}
            return "late"

        executor = AgentExecutor(
            agent=lambda steps, inputs: AgentAction("slow", {{}}), tools=[slow], max_execution_time=0.1
        )
        print({run}.reason)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("seconds\n", "")
