"""Calling tools: the handler of `CallTool`. Whatever goes wrong is an observation that helps the model to mend it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from graphexec.effects import CallTool, ToolResult
from graphexec.handlers import Handler
from graphexec.tools.tool import AnyTool, BadArguments
from graphexec.waiting import NotDone, own_loop, wait_for


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
        if tool.timeout is None:
            return _called(tool, arguments)
        result = wait_for(partial(_called, tool, arguments), tool.timeout)
        return _timed_out(tool) if isinstance(result, NotDone) else result

    async def acall(effect: CallTool, left: float | None) -> ToolResult:
        del left
        found = _prepared(tools, effect)
        if isinstance(found, ToolResult):
            return found
        tool, arguments = found
        if tool.is_async and tool.timeout is None:
            return await _acalled(tool, arguments)
        # asyncio is loaded by those who have a loop.
        from graphexec.awaiting import await_for, from_thread

        called = _acalled(tool, arguments) if tool.is_async else from_thread(partial(_called, tool, arguments))
        result = await called if tool.timeout is None else await await_for(called, tool.timeout)
        return _timed_out(tool) if isinstance(result, NotDone) else result

    return Handler(call, acall)


def _called(tool: AnyTool, arguments: dict[str, Any]) -> ToolResult:
    function = partial(tool.function, **arguments)
    try:
        observation: Any = own_loop(function) if tool.is_async else function()
        # A decorator may hide that the function is `async def`.
        return _done(tool, own_loop(lambda: observation) if inspect.iscoroutine(observation) else observation)
    except BaseException as error:
        from asyncio import CancelledError

        # Nobody cancels a blocking call: a cancellation is one that the tool ran into by itself.
        if not isinstance(error, (Exception, CancelledError)):
            raise
        return _failed(tool, error)


async def _acalled(tool: AnyTool, arguments: dict[str, Any]) -> ToolResult:
    try:
        return _done(tool, await tool.function(**arguments))
    except BaseException as error:
        from asyncio import CancelledError, current_task

        if isinstance(error, GeneratorExit):
            # Closed, perhaps when there is no loop any more.
            raise
        # Our own cancellation goes on; one that the tool ran into by itself is its failure.
        task = current_task()
        ran_into = isinstance(error, CancelledError) and task is not None and not task.cancelling()
        if not isinstance(error, Exception) and not ran_into:
            raise
        return _failed(tool, error)


def _prepared(tools: Mapping[str, AnyTool], effect: CallTool) -> tuple[AnyTool, dict[str, Any]] | ToolResult:
    tool = tools.get(effect.name)
    if tool is None:
        return ToolResult(f"{effect.name} is not a valid tool, try one of [{', '.join(tools)}].", "unknown_tool")
    try:
        return tool, tool.read(effect.tool_input)
    except BadArguments as error:
        return ToolResult(str(error), "bad_arguments")
    except Exception as error:  # noqa: BLE001 - a validator of the user's may raise anything, as a tool may
        return _failed(tool, error)


def _done(tool: AnyTool, observation: object) -> ToolResult:
    return ToolResult(observation, "ok", tool.return_direct)


def _failed(tool: AnyTool, error: BaseException) -> ToolResult:
    if tool.on_error == "raise":
        raise error
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception of the user's may fail at that, too
        text = ""
    return ToolResult(f"{tool.name} failed: {type(error).__name__}{': ' if text else ''}{text}", "error")


def _timed_out(tool: AnyTool) -> ToolResult:
    return ToolResult(f"{tool.name} timed out: it did not answer within {tool.timeout:g} seconds.", "timed_out")
