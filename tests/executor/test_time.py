"""The time limit cuts running calls and keeps finished results. Only these tests use real time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from graphexec import AgentExecutor, Exhausted, RunResult, Snapshot, StoppedResponse, create_react_agent, tool
from graphexec.errors import ModelTimeoutError
from graphexec.executor import Ready
from graphexec.executor.result import Ending
from graphexec.models import ScriptedModel
from graphexec.runtime import run
from tests.drivers import FakeClock, Script, limit_of, run_script
from tests.executor.actors import AnyTool, BlockingModel, act, answer, echo, script_of, scripted, until
from tests.parameters import cases
from tests.stopwatch import Stopwatch

# The calls before the slow one end in this time on a busy machine, too.
SECONDS = 1.5
AT_MOST = 1.7


def time_run(executor: AgentExecutor, how: str, released: threading.Event) -> tuple[RunResult, Stopwatch]:
    async def time_async() -> tuple[RunResult, Stopwatch]:
        try:
            with Stopwatch() as watch:
                result = await executor.arun("q")
            return result, watch
        finally:
            # Released before asyncio.run waits for running threads.
            released.set()

    if how == "async":
        return asyncio.run(time_async())
    with Stopwatch() as watch:
        result = executor.run("q")
    return result, watch


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


HOW = pytest.mark.parametrize("how", ["sync", "async"])


def make_slow_tool(kind: str, released: threading.Event) -> AnyTool:
    """Return a tool that takes half a minute, in a thread or in the loop, where it may ignore cancellation."""

    def block() -> str:
        """Take half a minute."""
        released.wait(30)
        return "late"

    async def wait() -> str:
        """Take half a minute."""
        await until(released)
        return "late"

    async def insist() -> str:
        """Take half a minute."""
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await until(released)
        return "late"

    functions: dict[str, Any] = {"blocking": block, "async": wait, "stubborn": insist}
    made: AnyTool = tool(name="slow")(functions[kind])
    return made


@pytest.mark.medium
@HOW
@pytest.mark.parametrize("kind", ["blocking", "async", "stubborn"])
def test_slow_tool_is_cut_without_losing_other_results(how: str, kind: str, released: threading.Event) -> None:
    turns = [act("echo", text="before"), [act("echo", text="first"), act("slow"), act("echo", text="last")]]
    executor = AgentExecutor(
        agent=scripted(*turns), tools=[echo, make_slow_tool(kind, released)], max_execution_time=SECONDS
    )
    result, watch = time_run(executor, how, released)
    assert SECONDS <= watch.elapsed < watch.extend(AT_MOST)
    assert result.reason == "seconds"
    assert [step.observation for step in result.steps if step.status == "ok"] == ["before", "first", "last"]
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
@HOW
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
@HOW
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


@pytest.mark.parametrize("kind", ["blocking", "async"])
@HOW
def test_timeout_of_a_tool_is_an_observation(how: str, kind: str, released: threading.Event) -> None:
    impatient = dataclasses.replace(make_slow_tool(kind, released), timeout=0.05)
    executor = AgentExecutor(agent=scripted([act("slow"), act("echo", text="a")], answer()), tools=[impatient, echo])
    result, watch = time_run(executor, how, released)
    assert watch.elapsed < watch.extend(0.7)
    assert result.output == "done"
    assert [(step.status, step.observation) for step in result.steps] == [
        ("timed_out", "slow timed out: it did not answer within 0.05 seconds."),
        ("ok", "a"),
    ]


@pytest.mark.parametrize("limit", [None, 20.0])
@HOW
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

    agent = scripted([act("blocking"), act("awaiting")], act("blocking"), act("awaiting"), answer())
    executor = AgentExecutor(agent=agent, tools=[blocking, awaiting], max_execution_time=limit)
    result, _ = time_run(executor, how, released)
    assert result.reason == "finished"
    assert [step.observation for step in result.steps] == [
        "blocking failed: TimeoutError: the socket's",
        "awaiting failed: TimeoutError",
    ] * 2


@HOW
def test_timeout_error_of_a_model_is_raised(how: str, released: threading.Event) -> None:
    agent = create_react_agent(ScriptedModel([TimeoutError("the model's")]), [])
    executor = AgentExecutor(agent=agent, tools=[], max_execution_time=20)
    with pytest.raises(TimeoutError, match="the model's"):
        time_run(executor, how, released)


@HOW
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


def test_time_continues_after_a_pause() -> None:
    def script() -> Script[Ready, Ending]:
        clock = FakeClock(1000)

        @tool
        def tick() -> float:
            """Take a second."""
            clock.advance(1)
            return clock.seconds

        limits: dict[str, Any] = {"max_iterations": None, "max_execution_time": 3, "allow_nonterminating": True}
        executor = AgentExecutor(agent=scripted(act("tick")), tools=[tick], **limits)
        context = dataclasses.replace(executor.run_context, clock=clock)
        return dataclasses.replace(script_of(executor), run_context=context)

    result = run_script(script)
    endings = [result.outcome]
    for text in result.texts:
        again = script()
        # Another clock, as in a later process.
        endings.append(run(again.graph, Snapshot.from_json(text, again.graph), again.run_context).outcome)
    for ending in endings:
        assert isinstance(ending, StoppedResponse)
        assert (ending.limit, len(ending.steps)) == (Exhausted("seconds", 3, 3), 3)


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

        agent = lambda steps, inputs: AgentAction("slow", {{}})
        executor = AgentExecutor(agent=agent, tools=[slow], max_execution_time=0.1)
        print({run}.reason)
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert (done.stdout, done.stderr) == ("seconds\n", "")
