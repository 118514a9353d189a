"""Calls of one tool, for the tests of tools."""

from collections.abc import Callable
from typing import Any

from graphexec import tool
from graphexec.effects import CallTool, ToolResult
from graphexec.tools.calling import make_tool_handler
from tests.executor.actors import AnyTool, Running, act, answer, make_executor, reply_of, run_async, run_sync
from tests.parameters import cases

HOW = cases("run", run_sync, run_async)
KIND = cases("kind", "def", "async def")


class Mute(Exception):
    """An exception whose string is an error."""

    def __str__(self) -> str:
        raise ValueError("no words")


def call_tool(one: AnyTool, tool_input: Any = "", /, **defaults: Any) -> ToolResult:
    """Return the result of a call of a tool without an executor, whose defaults these are."""
    result: ToolResult = reply_of(make_tool_handler({one.name: one}, **defaults), CallTool(one.name, tool_input))
    return result


def observe(run: Running, one: AnyTool, /, **arguments: Any) -> Any:
    """Return what an agent observes that calls the tool once, in a sync or an async run."""
    return run(make_executor(act(one.name, **arguments), answer(), tools=[one])).steps[0].observation


def raising(error: BaseException, kind: str = "def", **options: Any) -> AnyTool:
    """Return a tool that raises this."""

    def blocking() -> str:
        """Raise."""
        raise error

    async def awaiting() -> str:
        """Raise."""
        raise error

    return tool(name="raises", **options)(blocking if kind == "def" else awaiting)


def tool_of(make: Callable[[], Any], *, is_async: bool = False, **options: Any) -> AnyTool:
    """Return a tool that gives what a function makes."""

    def give() -> Any:
        """Give it."""
        return make()

    async def give_async() -> Any:
        """Give it."""
        return make()

    return tool(name="give", **options)(give_async if is_async else give)
