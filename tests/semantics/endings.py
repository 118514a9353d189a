"""Runs of scripted agents, the endings that a test expects, and LangChain's texts."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import graphexec as gx
from graphexec.executor.result import Ending
from graphexec.models import ScriptedModel
from tests.drivers import DriverResult
from tests.executor import actors
from tests.executor.actors import AnyTool, act, direct, echo, run_executor, scripted

# What a run says that is stopped by its iterations or its time, and what asks it for its last word.
STOPPED = "Agent stopped due to iteration limit or time limit."
FINAL = "I now need to return a final answer based on the previous steps:"

TOOLS: list[AnyTool] = [echo, actors.fail, direct]
A, B, C = (act("echo", text=letter) for letter in "abc")


def run_agent(agent: Any, tools: Sequence[AnyTool] = TOOLS, **options: Any) -> DriverResult[Ending]:
    """Run a callable agent with each driver."""
    return run_executor(lambda: gx.AgentExecutor(agent=agent, tools=tools, **options))


def run_turns(*turns: Any, **options: Any) -> DriverResult[Ending]:
    """Run an agent that takes these turns, the last of them endlessly, with each driver."""
    return run_agent(scripted(*turns), **options)


def run_replies(
    *replies: Any, make: Callable[..., gx.Agent] = gx.create_react_agent, tools: Any = TOOLS, **options: Any
) -> DriverResult[Ending]:
    """Run an agent whose model replies this with each driver."""
    return run_executor(lambda: gx.AgentExecutor(agent=make(ScriptedModel(replies), tools), tools=tools, **options))


def raising(error: BaseException) -> Callable[..., Any]:
    """Return an agent, a policy or an observer that raises an exception."""

    def fail(*given: Any) -> Any:
        raise error

    return fail


def cancel_run(make: Callable[[Any], gx.AgentExecutor]) -> None:
    """Cancel the async run of an executor of an agent that waits."""

    async def scenario() -> None:
        begun = asyncio.Event()

        async def wait(steps: Any, inputs: Any) -> Any:
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(make(wait).arun("q"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def noting_tool(name: str = "note", **options: Any) -> tuple[AnyTool, list[str]]:
    """Return a tool that returns its text, and the list of the texts."""
    texts: list[str] = []

    @gx.tool(name=name, **options)
    def note(text: str) -> str:
        """Note it."""
        texts.append(text)
        return text

    return note, texts


def stop_of(result: DriverResult[Ending]) -> gx.StoppedResponse:
    """The stopped response of a run that has to have been stopped."""
    assert isinstance(result.outcome, gx.StoppedResponse)
    return result.outcome
