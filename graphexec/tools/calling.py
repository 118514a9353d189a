"""Calling tools: the handler of `CallTool`. Whatever goes wrong is an observation that helps the model to mend it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import CoroutineType, GeneratorType
from typing import Any, Literal, TypeAlias, get_args

from graphexec.actions import Run
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import InputError, ToolDefinitionError, described
from graphexec.given import Kind, check, maybe
from graphexec.handlers import Handler
from graphexec.tools.retrying import Came, Raised, aretried, retried
from graphexec.tools.showing import told_instead
from graphexec.tools.tool import LENGTH, POLICY, AnyTool, BadArguments, ErrorPolicy
from graphexec.waiting import NotDone, own_loop, wait_for

# Sets, because a checker that narrowed to the class would not know what is in it.
_COROUTINES, _GENERATORS = frozenset[type]({CoroutineType}), frozenset[type]({GeneratorType})

# Whether the name of a tool must be called as it is written.
Lookup: TypeAlias = Literal["exact", "case_insensitive"]
_LOOKUP = Kind("'exact' or 'case_insensitive'", lambda value: value in get_args(Lookup))


def calling(
    tools: Mapping[str, AnyTool],
    *,
    on_error: ErrorPolicy = "observe",
    lookup: Lookup = "exact",
    max_observation: int | None = None,
) -> Handler:
    """Answer `CallTool` with these tools: unknown names, bad arguments and exceptions are observations.

    `on_error` and `max_observation` (characters) are for the tools that have none of their own. In an async run a
    blocking tool gets a thread; in a sync run an async tool gets an event loop.

    Raises `InputError` for an option that cannot be, and `ToolDefinitionError` for two tools whose names differ only in
    case where the lookup does not look at it.
    """
    # The names are those that the executor's options have.
    check(
        "",
        ("handle_tool_errors", on_error, POLICY),
        ("tool_lookup", lookup, _LOOKUP),
        ("max_observation", max_observation, maybe(LENGTH, "no limit")),
    )
    known = _by_name([_with_defaults(one, on_error, max_observation) for one in tools.values()], lookup)

    def prepared(effect: CallTool) -> tuple[AnyTool, dict[str, Any]] | ToolResult:
        tool = known.get(effect.name if lookup == "exact" else effect.name.casefold())
        if tool is None:
            return ToolResult(_unknown(effect.name, tools), "unknown_tool")
        try:
            arguments = tool.read(effect.tool_input)
        except BadArguments as error:
            return ToolResult(str(error), "bad_arguments")
        except Exception as error:  # noqa: BLE001 - a validator of the user's may raise anything, as a tool may
            return _failed(tool, error)
        if not tool.given_the_run:
            return tool, arguments
        run = Run({}) if effect.run is None else effect.run
        return tool, {**arguments, **dict.fromkeys(tool.given_the_run, run)}

    def call(effect: CallTool, left: float | None) -> ToolResult:
        del left
        found = prepared(effect)
        if isinstance(found, ToolResult):
            return found
        tool, arguments = found
        if tool.retry is None:
            came = _attempted(tool, arguments)
        else:
            came = retried(tool.name, tool.retry, partial(_attempted, tool, arguments))
        return _failed(tool, came.error) if isinstance(came, Raised) else came

    async def acall(effect: CallTool, left: float | None) -> ToolResult:
        del left
        found = prepared(effect)
        if isinstance(found, ToolResult):
            return found
        tool, arguments = found
        if tool.retry is None:
            came = await _aattempted(tool, arguments)
        else:
            came = await aretried(tool.name, tool.retry, partial(_aattempted, tool, arguments))
        return _failed(tool, came.error) if isinstance(came, Raised) else came

    return Handler(call, acall)


def _with_defaults(tool: AnyTool, on_error: ErrorPolicy, max_observation: int | None) -> AnyTool:
    return dataclasses.replace(
        tool,
        on_error=on_error if tool.on_error is None else tool.on_error,
        max_observation=max_observation if tool.max_observation is None else tool.max_observation,
    )


def _by_name(tools: Iterable[AnyTool], lookup: Lookup) -> Mapping[str, AnyTool]:
    if lookup == "exact":
        return {one.name: one for one in tools}
    folded: dict[str, AnyTool] = {}
    for one in tools:
        other = folded.setdefault(one.name.casefold(), one)
        if other is not one:
            raise ToolDefinitionError(
                f"two tools are named {other.name} and {one.name}, which differ only in case; "
                f"rename one with @tool(name=...)"
            )
    return folded


def _unknown(requested: str, names: Iterable[str]) -> str:
    """LangChain's text, and the closest name."""
    from difflib import get_close_matches

    text = f"{requested} is not a valid tool, try one of [{', '.join(names)}]."
    folded = {name.casefold(): name for name in names}
    closest = get_close_matches(requested.casefold(), folded, n=1)
    return f"{text} Did you mean {folded[closest[0]]}?" if closest else text


def _attempted(tool: AnyTool, arguments: dict[str, Any]) -> Came:
    """Call a tool once, within its timeout."""
    if tool.timeout is None:
        return _called(tool, arguments)
    came = wait_for(partial(_called, tool, arguments), tool.timeout)
    return _timed_out(tool) if isinstance(came, NotDone) else came


async def _aattempted(tool: AnyTool, arguments: dict[str, Any]) -> Came:
    if tool.is_async and tool.timeout is None:
        return await _acalled(tool, arguments)
    # asyncio is loaded by those who have a loop.
    from graphexec.awaiting import await_for, from_thread

    called = _acalled(tool, arguments) if tool.is_async else from_thread(partial(_called, tool, arguments))
    came = await called if tool.timeout is None else await await_for(called, tool.timeout)
    return _timed_out(tool) if isinstance(came, NotDone) else came


def _called(tool: AnyTool, arguments: dict[str, Any]) -> Came:
    try:
        if tool.is_async:
            return _done(tool, own_loop(partial(tool.function, **arguments)))
        observation: Any = tool.function(**arguments)
        # A decorator may hide that the function is `async def`.
        return _done(tool, own_loop(lambda: observation) if type(observation) in _COROUTINES else observation)
    except BaseException as error:
        from asyncio import CancelledError

        # Nobody cancels a blocking call: a cancellation is one that the tool ran into by itself.
        if not isinstance(error, (Exception, CancelledError)):
            raise
        return Raised(error)


async def _acalled(tool: AnyTool, arguments: dict[str, Any]) -> Came:
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
        return Raised(error)


# Any: whatever a tool returned.
def _done(tool: AnyTool, returned: Any) -> ToolResult:
    # A tool that yields is still at work; what it yields can be read only once, and the model reads it in every prompt.
    observation: Any = list(returned) if type(returned) in _GENERATORS else returned
    most = tool.max_observation
    told = None if most is None else told_instead(observation, most)
    return ToolResult(observation, "ok", tool.return_direct, told)


def _failed(tool: AnyTool, error: BaseException) -> ToolResult:
    policy = tool.on_error
    if policy == "raise":
        raise error
    # A cancellation that the tool ran into by itself is no Exception, which is what the function takes.
    if callable(policy) and isinstance(error, Exception):
        observation = _said_by(policy, tool, error)
    else:
        observation = f"{tool.name} failed: {described(error)}"
    return ToolResult(observation, "error", told=told_instead(observation, tool.max_observation))


def _said_by(policy: Callable[[Exception], str], tool: AnyTool, error: Exception) -> str:
    observation = policy(error)
    # Users without a type checker return what they like.
    if not isinstance(observation, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"on_error of {tool.name} returned {observation!r}; return the text that the model is told")
    return observation


def _timed_out(tool: AnyTool) -> ToolResult:
    return ToolResult(f"{tool.name} timed out: it did not answer within {tool.timeout:g} seconds.", "timed_out")
