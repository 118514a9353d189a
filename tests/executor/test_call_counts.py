"""The cost of one step of the executor, in calls of Python and C functions. The count is deterministic.

A step is one decision of an agent function and one call of a trivial tool. The count
includes resumed generators and coroutines, as the interpreter reports them to a profiler.
"""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import graphexec as gx
from graphexec.agents.reading.answers import READ_AHEAD
from graphexec.messages import ModelReply, ModelRequest, ToolCall
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.json_bodies import write
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from tests.counting import count_calls
from tests.executor.actors import act, answer, run_async, run_by, run_sync
from tests.parameters import cases

STEPS = 40
STEP, DONE = act("add_one", x=1), answer()


@gx.tool
def add_one(x: int) -> int:
    """Add one."""
    return x + 1


@gx.tool(name="add_one")
async def add_one_async(x: int) -> int:
    """Add one."""
    return x + 1


def executor_for(agent: gx.Agent | Callable[[Any, Any], Any], one: Any = add_one, **options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=agent, tools=[one], max_iterations=3 * STEPS, **options)


def deciding(steps: int, **options: Any) -> gx.AgentExecutor:
    """Return an executor of a function, which takes so many steps."""
    return executor_for(lambda done, _: STEP if len(done) < steps else DONE, **options)


def adeciding(steps: int, **options: Any) -> gx.AgentExecutor:
    """Return an executor of an async function, which takes so many steps."""

    async def decide(done: Any, inputs: dict[str, Any]) -> gx.AgentAction | gx.AgentFinish:
        return STEP if len(done) < steps else DONE

    return executor_for(decide, add_one_async, **options)


def asking(agent: gx.Agent, steps: int) -> gx.AgentExecutor:
    """Return an executor of an agent whose model calls the tool endlessly."""
    return gx.AgentExecutor(agent=agent, tools=[add_one], max_iterations=steps)


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


class Encodes(Calls):
    """A model that sends one id in every reply, and encodes each request, as a client does."""

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        write(CHAT_COMPLETIONS.encode(request, Sampling("tiny"), stream=False))
        return self.reply


class Writes(Calls):
    """A model that writes what the agent's format wants, each time anew: what was read of a reply is known."""

    def __init__(self, text: str) -> None:
        self.text = text

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        return ModelReply(self.text)


JSON = Writes('{"action": "add_one", "action_input": {"x": 1}}')
THOUGHT = Writes("I add.\nAction: add_one\nAction Input: 1")
OBSERVERS: list[Callable[[object], None]] = [lambda event: None]


# Measured on 3.11: 75, 77, 376, 253, 508, 139, 108, 539, 751, 538. Work done for each call would add 100.
PER_STEP: list[tuple[Callable[[int], gx.AgentExecutor], Callable[[gx.AgentExecutor], object], int]] = [
    (deciding, run_sync, 78),
    (adeciding, run_async, 80),
    # Each of its two calls has a task of its own.
    (lambda steps: adeciding(steps, max_execution_time=60.0), run_async, 400),
    # Each of its two calls has a thread or a task of its own, so that what it reports is streamed meanwhile.
    (deciding, partial(run_by, "stream"), 265),
    (adeciding, partial(run_by, "astream"), 530),
    (lambda steps: deciding(steps, observers=OBSERVERS), run_sync, 145),
    (lambda steps: asking(gx.create_tool_calling_agent(Calls(), [add_one]), steps), run_sync, 110),
    # 7,013, and twice as many in a run of twice the length, when the ids of all calls were made again at each step.
    (lambda steps: asking(gx.create_tool_calling_agent(Encodes(), [add_one]), steps), run_sync, 600),
    # Two replies a step, as the rule against repeated calls asks for an answer; each is read once, by 240 calls.
    (lambda steps: asking(gx.create_structured_agent(JSON, [add_one]), steps), run_sync, 1_050),
    (lambda steps: asking(gx.create_react_agent(THOUGHT, [add_one]), steps), run_sync, 600),
]


@pytest.mark.medium
@cases(("make", "run", "most"), *PER_STEP)
def test_calls_per_step(make: Callable[[int], gx.AgentExecutor], run: Any, most: int) -> None:
    # Replies of other tests, which are still referred to, may have been read ahead.
    READ_AHEAD.clear()
    long, short = make(2 * STEPS), make(STEPS)
    # The first runs fill caches.
    run(long)
    run(short)
    per_step = (count_calls(lambda: run(long)) - count_calls(lambda: run(short))) / STEPS
    assert 50 < per_step <= most


# Measured on 3.11: 5,487, 7,879 and 9,991 bytes.
@pytest.mark.medium
@cases(("steps", "most"), (0, 5_750), (5, 8_150), (10, 10_240))
def test_suspended_run_is_small(steps: int, most: int) -> None:
    """Measured in a separate process: other loaded modules would add to each task."""
    script = Path(__file__).parents[2] / "benchmarks" / "concurrency.py"
    code = f"import asyncio, runpy, sys; print(asyncio.run(runpy.run_path(sys.argv[1])['bytes_after']({steps}, 200)))"
    measured = subprocess.run([sys.executable, "-c", code, str(script)], capture_output=True, text=True, check=True)
    assert float(measured.stdout) <= most
