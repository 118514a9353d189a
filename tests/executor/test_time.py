"""The limits of a run. Only the tests of its time use real time: it cuts running calls and keeps finished results."""

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

import graphexec as gx
from graphexec import errors
from graphexec.models import ScriptedModel
from tests.drivers import drive_async, drive_sync, limit_of
from tests.executor import actors
from tests.executor.actors import BlockingModel, act, answer, echo, scripted
from tests.parameters import cases
from tests.semantics.endings import stop_of
from tests.stopwatch import Stopwatch

# The calls before the slow one end in this time on a busy machine, too.
SECONDS = 1.5
AT_MOST = 1.7


def time_run(executor: gx.AgentExecutor, how: str, released: threading.Event) -> tuple[gx.RunResult, Stopwatch]:
    async def time_async() -> tuple[gx.RunResult, Stopwatch]:
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


HOW = pytest.mark.parametrize("how", ["sync", "async"])


def make_slow_tool(kind: str, released: threading.Event) -> actors.AnyTool:
    """Return a tool that takes half a minute, in a thread or in the loop, where it may ignore cancellation."""

    def block() -> str:
        """Take half a minute."""
        released.wait(30)
        return "late"

    async def wait() -> str:
        """Take half a minute."""
        await actors.until(released)
        return "late"

    async def insist() -> str:
        """Take half a minute."""
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await actors.until(released)
        return "late"

    functions: dict[str, Any] = {"blocking": block, "async": wait, "stubborn": insist}
    made: actors.AnyTool = gx.tool(name="slow")(functions[kind])
    return made


@pytest.mark.medium
@HOW
@pytest.mark.parametrize("kind", ["blocking", "async", "stubborn"])
def test_slow_tool_is_cut_without_losing_other_results(how: str, kind: str, released: threading.Event) -> None:
    turns = [act("echo", text="before"), [act("echo", text="first"), act("slow"), act("echo", text="last")]]
    executor = gx.AgentExecutor(
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
@HOW
@cases("kind", "model", "function")
def test_slow_agent_is_cut_at_the_deadline(how: str, kind: str, released: threading.Event) -> None:
    def decide(steps: Any, inputs: Any) -> Any:
        if steps:
            released.wait(30)
        return act("echo", text="done before")

    model = BlockingModel()
    agent: Any = decide if kind == "function" else gx.create_react_agent(model, [echo])
    executor = gx.AgentExecutor(agent=agent, tools=[echo], max_execution_time=SECONDS)
    try:
        result, watch = time_run(executor, how, released if kind == "function" else model.released)
    finally:
        model.released.set()
    assert SECONDS <= watch.elapsed < watch.extend(AT_MOST)
    assert result.reason == "seconds"
    assert [step.observation for step in result.steps] == ["done before"] * (kind == "function")
    calls = 1 + (kind == "function")
    assert (result.spent["model_calls"], result.spent.iterations) == (calls, calls)


@pytest.mark.parametrize("kind", ["blocking", "async"])
@HOW
def test_timeout_of_a_tool_is_an_observation(how: str, kind: str, released: threading.Event) -> None:
    impatient = dataclasses.replace(make_slow_tool(kind, released), timeout=0.05)
    executor = gx.AgentExecutor(agent=scripted([act("slow"), act("echo", text="a")], answer()), tools=[impatient, echo])
    result, watch = time_run(executor, how, released)
    assert watch.elapsed < watch.extend(0.7)
    assert result.output == "done"
    assert [(step.status, step.error, step.observation) for step in result.steps] == [
        ("timed_out", "TimeoutError", "slow timed out: it did not answer within 0.05 seconds."),
        ("ok", None, "a"),
    ]


@HOW
def test_deadline_precedes_the_models_own_timeout(how: str, released: threading.Event) -> None:
    class Punctual(BlockingModel):
        """A model that waits for the given timeout, as an HTTP client does, on a clock that is slightly fast."""

        def complete(self, request: Any, *, timeout: float | None = None) -> Any:
            released.wait((timeout or 30) - 0.01)
            raise errors.ModelTimeoutError("the server did not answer in time")

        async def acomplete(self, request: Any, *, timeout: float | None = None) -> Any:
            await asyncio.sleep((timeout or 30) - 0.01)
            raise errors.ModelTimeoutError("the server did not answer in time")

    executor = gx.AgentExecutor(agent=gx.create_react_agent(Punctual(), []), tools=[], max_execution_time=0.3)
    result, _ = time_run(executor, how, released)
    assert result.reason == "seconds"


@pytest.mark.medium
@cases("how", "run('q')", "arun('q')")
@cases("kind", "def", "async def")
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


# ---- iterations, calls and tokens: tests/semantics/test_differential.py has what each limit does


@pytest.mark.medium
@cases("reply", "Action: echo\nAction Input: hi", "Well.", "Action: nope\nAction Input: x")
def test_a_thousand_iterations_are_a_thousand_model_calls(reply: str) -> None:
    for driver in (drive_sync, drive_async):
        model = ScriptedModel([reply], repeat_last=True)
        agent = make_agent_without_scratchpad(model)
        executor = gx.AgentExecutor(agent=agent, tools=[echo], max_iterations=1000, handle_parsing_errors=True)
        result = driver(actors.script_of(executor))
        assert len(model.requests) == len(result.outcome.steps) == 1000
        assert stop_of(result).cause == gx.Exhausted("iterations", 1000, 1000)


def make_agent_without_scratchpad(model: ScriptedModel) -> gx.Agent:
    """Return an agent whose prompt does not grow with the steps, so that the test is fast."""
    agent = gx.create_react_agent(model, [echo])
    return gx.Agent(lambda run: agent.ask(type(run)(run.inputs)), agent.read, model=model)
