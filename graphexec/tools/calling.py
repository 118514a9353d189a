"""Calling tools: the handler of `CallTool`. Whatever goes wrong is an observation that helps the model to mend it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from graphexec.effects import CallTool, ToolResult
from graphexec.errors import ToolDefinitionError
from graphexec.handlers import Handler
from graphexec.tools.tool import AnyTool, BadArguments, Tool
from graphexec.waiting import NotDone, await_for, from_thread, own_loop, wait_for


def named(tools: Iterable[AnyTool]) -> Mapping[str, AnyTool]:
    """Return the tools by name. Raises `ToolDefinitionError` for what is no tool, and for a name given twice."""
    by_name: dict[str, AnyTool] = {}
    for one in tools:
        # Users without a type checker pass functions.
        if not isinstance(one, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            name = getattr(one, "__name__", repr(one))
            raise ToolDefinitionError(f"{name} is not a tool; decorate the function with @tool")
        if one.name in by_name:
            raise ToolDefinitionError(f"two tools are named {one.name}; rename one with @tool(name=...)")
        by_name[one.name] = one
    return by_name


def calling(tools: Mapping[str, AnyTool]) -> Handler:
    """Answer `CallTool` with these tools: unknown names, bad arguments and exceptions are observations.

    In an async run a blocking tool gets a thread; in a sync run an async tool gets an event loop.
    """

    def call(effect: CallTool, left: float | None) -> ToolResult:
        del left
        found = _prepared(tools, effect)
        if isinstance(found, ToolResult):
            return found
        tool, arguments = found
        # A coroutine function needs a loop; everything else is called as it is.
        function = partial(own_loop, partial(tool.function, **arguments)) if tool.is_async else None
        try:
            if tool.timeout is None:
                return _done(tool, function() if function else tool.function(**arguments))
            result = wait_for(function or partial(tool.function, **arguments), tool.timeout)
        except Exception as error:  # noqa: BLE001 - a tool may raise anything; it is told to the model
            return _failed(tool, error)
        return _timed_out(tool) if isinstance(result, NotDone) else _done(tool, result)

    async def acall(effect: CallTool, left: float | None) -> ToolResult:
        del left
        found = _prepared(tools, effect)
        if isinstance(found, ToolResult):
            return found
        tool, arguments = found
        called = tool.function(**arguments) if tool.is_async else from_thread(partial(tool.function, **arguments))
        try:
            if tool.timeout is None:
                return _done(tool, await called)
            result = await await_for(called, tool.timeout)
        except asyncio.CancelledError as error:
            # Our own cancellation goes on; one that the tool ran into by itself is its failure.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _failed(tool, error)
        except Exception as error:  # noqa: BLE001 - a tool may raise anything; it is told to the model
            return _failed(tool, error)
        return _timed_out(tool) if isinstance(result, NotDone) else _done(tool, result)

    return Handler(call, acall)


def _prepared(tools: Mapping[str, AnyTool], effect: CallTool) -> tuple[AnyTool, dict[str, Any]] | ToolResult:
    tool = tools.get(effect.name)
    if tool is None:
        return ToolResult(f"{effect.name} is not a valid tool, try one of [{', '.join(tools)}].", "unknown_tool")
    try:
        return tool, tool.read(effect.tool_input)
    except BadArguments as error:
        return ToolResult(str(error), "bad_arguments")


def _done(tool: AnyTool, observation: object) -> ToolResult:
    return ToolResult(observation, "ok", tool.return_direct)


def _failed(tool: AnyTool, error: BaseException) -> ToolResult:
    if tool.on_error == "raise":
        raise error
    text = str(error)
    return ToolResult(f"{tool.name} failed: {type(error).__name__}{': ' if text else ''}{text}", "error")


def _timed_out(tool: AnyTool) -> ToolResult:
    return ToolResult(f"{tool.name} timed out: it did not answer within {tool.timeout:g} seconds.", "timed_out")
