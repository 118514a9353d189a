"""Agents, models and tools for the executor's tests."""

import asyncio
import dataclasses
import json
import threading
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import partial
from typing import Any, TypeAlias

import pytest

import graphexec as gx
from graphexec import AgentAction, AgentExecutor, AgentFinish, Effect, Snapshot, Tool, kernel, models, snapshot_of, tool
from graphexec.actions import Run, Steps
from graphexec.executor import Ready
from graphexec.executor.result import Ending
from graphexec.integrations import langchain
from graphexec.kernel.effects import CallContext, DetachedScope
from graphexec.kernel.stepping import replay
from graphexec.messages import ChatRequest, Message, ModelReply, ModelRequest, ToolCall, ToolMessage, Usage
from graphexec.runtime import BLOCKING, Handler
from graphexec.runtime.io import run_sync as run_coroutine
from tests.drivers import ALL_DRIVERS, Driver, DriverResult, Script, run_script
from tests.parameters import cases

AnyTool: TypeAlias = Tool[..., Any]
Decide: TypeAlias = Callable[[Steps, dict[str, Any]], Any]


def scripted(*turns: Any) -> Decide:
    """Return a stateless agent: the number of steps selects its next turn. The last turn repeats endlessly."""
    # A list counts one step per action; an empty one is a parse error, which is one step.
    sizes = [max(1, len(turn)) if isinstance(turn, Sized) else 1 for turn in turns]

    def decide(steps: Steps, inputs: dict[str, Any]) -> Any:
        position = len(steps)
        for turn, size in zip(turns[:-1], sizes, strict=False):
            if position <= 0:
                return turn
            position -= size
        return turns[-1]

    return decide


def act(name: str, **arguments: Any) -> AgentAction:
    return AgentAction(name, arguments)


def answer(output: Any = "done") -> AgentFinish:
    return AgentFinish({"output": output})


def call(name: str, call_id: str = "c1", /, **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, json.dumps(arguments))


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
def fail(text: str) -> str:
    """Never work."""
    raise ValueError(f"no {text}")


@tool(return_direct=True)
def direct(text: str) -> str:
    """Answer."""
    return text


@tool(name="Intermediate Answer")
def search(question: str) -> str:
    """Look it up."""
    return question


def script_of(executor: AgentExecutor, inputs: Mapping[str, Any] | None = None) -> Script[Ready, Ending]:
    return Script(executor.graph, Ready(Run(inputs or {"input": "q"})), executor.run_context)


def run_executor(make: Callable[[], AgentExecutor], *, drivers: Sequence[Driver] = ALL_DRIVERS) -> DriverResult[Ending]:
    """Run a fresh executor with each driver, and return what all of them agree on."""
    return run_script(lambda: script_of(make()), drivers=drivers)


def observations(result: DriverResult[Ending]) -> list[Any]:
    return [step.observation for step in result.outcome.steps]


def statuses(result: DriverResult[Ending]) -> list[str]:
    return [step.status for step in result.outcome.steps]


def messages(request: ModelRequest) -> list[Message]:
    assert isinstance(request, ChatRequest)
    return list(request.messages)


def prompt(request: ModelRequest) -> str:
    """Return the whole prompt of a react agent."""
    if not isinstance(request, ChatRequest):
        return request.prompt
    (message,) = request.messages
    return message.content


class BlockingModel:
    """A model that answers when it is released, or after half a minute."""

    def __init__(self, reply: str = "late") -> None:
        self.released = threading.Event()
        self.reply = reply
        self.calls = 0

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        self.calls += 1
        self.released.wait(30)
        return ModelReply(self.reply)

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        self.calls += 1
        await until(self.released)
        return ModelReply(self.reply)


class Caller:
    """A model that calls its first tool `at_once` times per reply, until it has `answers_after` results, or endlessly.

    `calls` counts its replies; `argument` is the tools' parameter. Threads and runs may share it.
    """

    instant = True

    def __init__(
        self, at_once: int = 1, *, answers_after: int | None = None, usage: Usage | None = None, argument: str = "text"
    ) -> None:
        self.calls = 0
        self.argument = argument
        self.at_once = at_once
        self.answers_after = answers_after
        self.usage = usage or Usage()
        self._lock = threading.Lock()

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        assert isinstance(request, ChatRequest)
        with self._lock:
            self.calls += 1
            number = self.calls
        results = [one.content for one in request.messages if isinstance(one, ToolMessage)]
        if self.answers_after is not None and len(results) >= self.answers_after:
            return ModelReply(results[-1] if results else "done", usage=self.usage)
        name = request.tools[0].name
        calls = tuple(call(name, f"c{number}.{place}", **{self.argument: "hello"}) for place in range(self.at_once))
        return ModelReply("", calls, finish_reason="tool_calls", usage=self.usage)

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        return self.complete(request, timeout=timeout)


def make_executor(*turns: Any, tools: Sequence[AnyTool] = (echo, fail), **options: Any) -> AgentExecutor:
    """Return an executor of an agent that takes these turns."""
    return AgentExecutor(agent=scripted(*turns), tools=tools, **options)


def make_react(*replies: Any, tools: Sequence[AnyTool] = (echo, fail), **options: Any) -> AgentExecutor:
    """Return an executor of a react agent whose model gives these replies."""
    return AgentExecutor(agent=gx.create_react_agent(models.ScriptedModel(replies), tools), tools=tools, **options)


def caller_of(model: Any, *tools: AnyTool, **options: Any) -> AgentExecutor:
    """Return an executor of an agent that calls tools natively."""
    return AgentExecutor(agent=gx.create_tool_calling_agent(model, tools), tools=tools, **options)


def look_by(look: Callable[[CallContext[Any]], object]) -> tuple[AgentExecutor, list[Any]]:
    """Return an executor whose tool is called once, and what it sees of its call."""
    seen: list[Any] = []

    @tool(name="look")
    def look_at(text: str, call: CallContext[Any]) -> str:
        """Look."""
        seen.append(look(call))
        return text

    return caller_of(Caller(answers_after=1), look_at), seen


def delegate_to(inner: Callable[[], AgentExecutor], *, is_async: bool) -> AnyTool:
    """Return a tool that runs another executor."""

    def delegate(text: str) -> Any:
        return inner().run(text).output

    async def adelegate(text: str) -> Any:
        return (await inner().arun(text)).output

    make = tool(name="delegate", description="Let another agent do it.")
    return make(adelegate) if is_async else make(delegate)


async def until(released: threading.Event) -> None:
    """Wait for an event without blocking the loop, for half a minute at most."""
    # A threading.Event is set by other threads. The wait is bounded, so that a defect fails instead of hanging.
    for _ in range(6_000):
        if released.is_set():
            return
        await asyncio.sleep(0.005)


def run_async(executor: AgentExecutor, inputs: Any = "q", **options: Any) -> Any:
    return asyncio.run(executor.arun(inputs, **options))


def run_sync(executor: AgentExecutor, inputs: Any = "q", **options: Any) -> Any:
    return executor.run(inputs, **options)


# The ways to run an executor: methods of its, and what users of LangChain have; `aiter` is `iterate` with `async for`.
_WAYS = ["run", "invoke", "batch", "stream", "stream_chunks", "stream_answer", "iter"]
WAYS = [*_WAYS, *(f"a{way}" for way in _WAYS)]


def run_by(way: str, executor: AgentExecutor, *inputs: Any, **options: Any) -> Any:
    """Run an executor by a method to its end, and return the result, or a list of what is streamed."""
    inputs = inputs or (["q"] if way.endswith("batch") else "q",)
    others: dict[str, Callable[..., Any]] = {
        **dict.fromkeys(("iter", "aiter"), langchain.iterate),
        "stream_chunks": langchain.stream_chunks,
        "astream_chunks": langchain.astream_chunks,
    }
    start = partial(others[way], executor) if way in others else getattr(executor, way)
    running = start(*inputs, **options)
    if way in ("run", "invoke", "batch"):
        return running
    if way in ("arun", "ainvoke", "abatch"):
        return asyncio.run(running)

    async def collect() -> list[Any]:
        return [one async for one in running]

    return asyncio.run(collect()) if way.startswith("a") else list(running)


def snapshot_in(error: BaseException) -> Snapshot:
    """Return the snapshot of the run that raised this error."""
    snapshot = snapshot_of(error)
    assert snapshot is not None
    return snapshot


def snapshot_after(error: type[BaseException], run: Callable[[], object], match: str | None = None) -> Snapshot:
    """Return the snapshot of a run that raises this error."""
    with pytest.raises(error, match=match) as raised:
        run()
    return snapshot_in(raised.value)


# Ways to run an executor, for tests in which they make no difference.
Running: TypeAlias = Callable[..., Any]
HOW = cases("run", run_sync, run_async)
# Sync and async tools in sync and async runs.
MIXED = cases(("run", "is_async"), *[(run, is_async) for run in (run_sync, run_async) for is_async in (False, True)])


def call_of(effect: Effect[Any]) -> CallContext[Any]:
    """Return the call of an effect in a run without a deadline."""
    return CallContext(DetachedScope("run"), "node", effect, effect, 1, 0)


def reply_of(handler: Handler, effect: Effect[Any]) -> Any:
    """Return the reply of a handler in a sync run."""
    reply: Any = run_coroutine(handler.answer(effect, call_of(effect), BLOCKING))
    return reply


def timed(executor: AgentExecutor, clock: Callable[[], float]) -> AgentExecutor:
    """Return the executor, whose runs take the time of this clock."""
    return executor.with_context(dataclasses.replace(executor.run_context, clock=clock))


def replayed(result: Any) -> kernel.Spent:
    """Return what a run has spent according to its journal."""
    *_, last = replay(result.journal)
    assert isinstance(last, gx.Done)
    return last.spent
