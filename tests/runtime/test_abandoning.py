"""Calls whose caller is cancelled end: nested async calls, and whole runs between two effects."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, errors, tool
from graphexec.integrations.langchain import runnable_agent
from tests.executor.actors import Running, act, make_executor, scripted
from tests.parameters import cases
from tests.runtime.actors import HOW, LONG, tool_named


@pytest.mark.medium
@HOW
@cases("timeout", None, 3 * LONG)
@cases("kind", "async def", "def that returns a coroutine")
def test_an_async_tool_is_cancelled_at_the_deadline(run: Running, timeout: float | None, kind: str) -> None:
    cancelled = threading.Event()

    async def endless() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    def hidden() -> Any:
        return endless()

    used = tool_named("endless", endless if kind == "async def" else hidden, timeout=timeout)
    assert run(make_executor(act("endless"), tools=[used], max_execution_time=0.1)).reason == "seconds"
    assert cancelled.wait(LONG)


@pytest.mark.medium
@HOW
@cases("of", "tool", "async tool", "yielding async tool", "tool with a timeout", "runnable")
def test_endless_generator_ends_with_its_call(run: Running, of: str) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless() -> Generator[AgentAction, None, None]:
        begun.set()
        try:
            while True:
                yield AgentAction("generate", "")
        finally:
            ended.set()

    async def yielding() -> AsyncGenerator[AgentAction, None]:
        for item in endless():
            yield item

    async def generate() -> Any:
        return endless()

    class Endless:
        def invoke(self, inputs: Any, config: Any = None) -> Any: ...

        def stream(self, inputs: Any, config: Any = None) -> Any:
            return endless()

    agents: dict[str, Any] = {"runnable": runnable_agent(Endless())}
    timeout = LONG if of == "tool with a timeout" else None
    functions: dict[str, Any] = {"async tool": generate, "yielding async tool": yielding}
    used = tool_named("generate", functions.get(of, endless), timeout=timeout)
    # On a busy machine the call may not begin in the shorter ones.
    for seconds in (0.05, 0.5, 5):
        executor = AgentExecutor(
            agent=agents.get(of, scripted(act("generate"))), tools=[used], max_execution_time=seconds
        )
        assert begun.is_set() or run(executor).reason == "seconds"
    assert ended.wait(LONG)


@pytest.mark.medium
def test_nested_run_in_a_cut_tool_stops() -> None:
    asked: list[int] = []
    held, ended = threading.Event(), threading.Event()

    def agent(steps: Any, _inputs: Any) -> AgentAction:
        asked.append(len(steps))
        held.wait(LONG)
        return AgentAction("nothing", "")

    inner = AgentExecutor(agent=agent, tools=[], max_iterations=50)

    @tool
    def delegate() -> str:
        """Let another agent do it."""
        try:
            return str(inner.run("?").output)
        finally:
            # The nested run is abandoned, or has stopped at the shared deadline.
            ended.set()

    outer = make_executor(act("delegate"), tools=[delegate], max_execution_time=0.5)
    assert outer.run("?").reason == "seconds"
    held.set()
    assert ended.wait(LONG)
    assert asked == [0]


def test_other_runs_of_a_failed_batch_stop() -> None:
    begun, held, ended = threading.Event(), threading.Event(), threading.Event()
    asked: list[str] = []

    def agent(_steps: Any, inputs: dict[str, Any]) -> AgentAction:
        if inputs["input"] == "bad":
            begun.wait(LONG)
            raise OSError("it broke")
        asked.append(inputs["input"])
        begun.set()
        held.wait(LONG)
        return AgentAction("nothing", "")

    class Watched(AgentExecutor):
        async def _invoke(self, *arguments: Any, **options: Any) -> Any:
            try:
                return await super()._invoke(*arguments, **options)
            except errors.AbandonedError:
                ended.set()
                raise

    with pytest.raises(OSError, match="it broke"):
        Watched(agent=agent, tools=[], max_iterations=50).batch(["good", "bad"])
    held.set()
    assert ended.wait(LONG)
    assert asked == ["good"]
