"""The cost of one step of the executor, in calls of Python and C functions. The count is deterministic.

A step is one decision of an agent function and one call of a trivial tool. The count
includes resumed generators and coroutines, as the interpreter reports them to a profiler.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import graphexec as gx
from graphexec.messages import ModelReply, ModelRequest, ToolCall
from tests.counting import count_calls
from tests.parameters import cases

STEPS = 40


@gx.tool
def add_one(x: int) -> int:
    """Add one."""
    return x + 1


@gx.tool(name="add_one")
async def add_one_async(x: int) -> int:
    """Add one."""
    return x + 1


def agent_for(steps: int) -> Callable[[Any, dict[str, Any]], gx.AgentAction | gx.AgentFinish]:
    def decide(done: Any, inputs: dict[str, Any]) -> gx.AgentAction | gx.AgentFinish:
        return gx.AgentAction("add_one", {"x": 1}) if len(done) < steps else gx.AgentFinish({"output": len(done)})

    return decide


def async_agent_for(steps: int) -> Callable[[Any, dict[str, Any]], Any]:
    decide = agent_for(steps)

    async def decide_async(done: Any, inputs: dict[str, Any]) -> gx.AgentAction | gx.AgentFinish:
        return decide(done, inputs)

    return decide_async


def executor_for(agent: Any, one: Any, **options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=agent, tools=[one], max_iterations=3 * STEPS, **options)


def run(steps: int) -> Callable[[], object]:
    executor = executor_for(agent_for(steps), add_one)
    return lambda: executor.run("go")


def arun(steps: int) -> Callable[[], object]:
    executor = executor_for(async_agent_for(steps), add_one_async)

    return lambda: asyncio.run(executor.arun("go"))


def arun_in_time(steps: int) -> Callable[[], object]:
    executor = executor_for(async_agent_for(steps), add_one_async, max_execution_time=60.0)
    return lambda: asyncio.run(executor.arun("go"))


def stream(steps: int) -> Callable[[], object]:
    executor = executor_for(agent_for(steps), add_one)
    return lambda: list(executor.stream("go"))


def astream(steps: int) -> Callable[[], object]:
    executor = executor_for(async_agent_for(steps), add_one_async)

    async def collect() -> list[Any]:
        return [event async for event in executor.astream("go")]

    return lambda: asyncio.run(collect())


def observe(steps: int) -> Callable[[], object]:
    executor = executor_for(agent_for(steps), add_one, observers=[ignore])
    return lambda: executor.run("go")


def ignore(event: object) -> None:
    """Ignore an event."""


def test_calls_to_make_an_executor() -> None:
    """Its machine was proved for another executor."""
    agent = gx.create_tool_calling_agent(Calls(), [add_one])
    executor_for(agent, add_one)
    # 2,570 when each executor's table was checked three times.
    assert count_calls(lambda: executor_for(agent, add_one)) <= 1_300


class Calls:
    """A model that calls the tool endlessly."""

    reply = ModelReply("", (ToolCall("call_1", "add_one", '{"x": 1}'),))

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        return self.reply

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        return self.reply


class Writes(Calls):
    """A model that writes what the agent's format wants."""

    def __init__(self, text: str) -> None:
        self.reply = ModelReply(text)


def run_agent(agent: gx.Agent, steps: int) -> Callable[[], object]:
    executor = gx.AgentExecutor(agent=agent, tools=[add_one], max_iterations=steps)
    return lambda: executor.run("go")


def call_tools(steps: int) -> Callable[[], object]:
    return run_agent(gx.create_tool_calling_agent(Calls(), [add_one]), steps)


def write_json(steps: int) -> Callable[[], object]:
    model = Writes('{"action": "add_one", "action_input": {"x": 1}}')
    return run_agent(gx.create_structured_agent(model, [add_one]), steps)


def write_thoughts(steps: int) -> Callable[[], object]:
    return run_agent(gx.create_react_agent(Writes("I add.\nAction: add_one\nAction Input: 1"), [add_one]), steps)


# Measured on 3.11: 73, 74, 92, 155, 156, 151, 99, 762, 551. Work done per call instead of per run would add 100.
@cases(
    ("way", "most"),
    [
        (run, 80),
        (arun, 84),
        (arun_in_time, 100),
        (stream, 160),
        (astream, 160),
        (observe, 160),
        (call_tools, 100),
        (write_json, 850),
        (write_thoughts, 600),
    ],
)
def test_calls_per_step(way: Callable[[int], Callable[[], object]], most: int) -> None:
    long, short = way(2 * STEPS), way(STEPS)
    # The first runs fill caches.
    long()
    short()
    per_step = (count_calls(long) - count_calls(short)) / STEPS
    assert 50 < per_step <= most


# Measured on 3.11: 5,487, 7,895 and 9,991 bytes.
@cases(("steps", "most"), [(0, 6_000), (5, 8_500), (10, 10 * 1024)])
def test_suspended_run_is_small(steps: int, most: int) -> None:
    """Measured in a separate process: other loaded modules would add to each task."""
    script = Path(__file__).parents[2] / "benchmarks" / "concurrency.py"
    code = f"import asyncio, runpy, sys; print(asyncio.run(runpy.run_path(sys.argv[1])['bytes_after']({steps}, 200)))"
    measured = subprocess.run([sys.executable, "-c", code, str(script)], capture_output=True, text=True, check=True)
    assert float(measured.stdout) <= most
