"""Calling tools: the handler of `CallTool`. Whatever goes wrong is an observation that helps the model to mend it."""

from __future__ import annotations

import dataclasses
from collections.abc import Coroutine, Iterable, Mapping
from functools import partial
from types import CoroutineType, GeneratorType
from typing import Any, Literal, TypeAlias, get_args

from graphexec._arguments import Constraint, optional, validate
from graphexec.actions import Run
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import InputError, ToolDefinitionError, close_names, described, qualified_name
from graphexec.kernel.effects import CallContext
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO
from graphexec.runtime.progress import report
from graphexec.runtime.retry import retry
from graphexec.runtime.threads import NotDone, run_on_own_loop
from graphexec.tools.formatting import shorten_observation
from graphexec.tools.tool import (
    LENGTH,
    POLICY,
    AnyTool,
    ErrorPolicy,
    InvalidArgumentsError,
    ToolRaisedError,
    ToolRetried,
)

# Sets, because a checker that narrowed to the class would not know what is in it.
_COROUTINES, _GENERATORS = frozenset[type]({CoroutineType}), frozenset[type]({GeneratorType})

# What comes of an attempt.
AttemptResult: TypeAlias = ToolResult | ToolRaisedError

# Whether the name of a tool must be called as it is written.
Lookup: TypeAlias = Literal["exact", "case_insensitive"]
_LOOKUP = Constraint("'exact' or 'case_insensitive'", lambda value: value in get_args(Lookup))


def make_tool_handler(
    tools: Mapping[str, AnyTool],
    *,
    on_error: ErrorPolicy = "observe",
    lookup: Lookup = "exact",
    max_observation: int | None = None,
) -> Handler:
    """Answer `CallTool` with these tools: unknown names, bad arguments and exceptions are observations.

    `on_error` and `max_observation` (characters) are the defaults of the tools. In an async run a blocking tool gets a
    thread; in a sync run an async tool gets an event loop. Raises `InputError` for an invalid option, and
    `ToolDefinitionError` for two tools whose names differ only in case where the lookup ignores it.
    """
    # The names are those that the executor's options have.
    validate(
        "",
        ("handle_tool_errors", on_error, POLICY),
        ("tool_lookup", lookup, _LOOKUP),
        ("max_observation", max_observation, optional(LENGTH, "no limit")),
    )
    exact = lookup == "exact"
    with_defaults = [
        dataclasses.replace(
            one,
            on_error=on_error if one.on_error is None else one.on_error,
            max_observation=max_observation if one.max_observation is None else one.max_observation,
        )
        for one in tools.values()
    ]
    known = _by_name(with_defaults, lookup)

    # Written as one function: each call in between is one more for every step of a run.
    async def answer(effect: CallTool, call: CallContext[Any], io: IO) -> ToolResult:
        tool = known.get(effect.name if exact else effect.name.casefold())
        if tool is None:
            return ToolResult(_unknown(effect.name, tools), "unknown_tool")
        try:
            arguments = tool.read(effect.tool_input)
        except InvalidArgumentsError as error:
            return ToolResult(str(error), "bad_arguments")
        except Exception as error:  # noqa: BLE001 - a validator of the user's may raise anything, as a tool may
            return _failed(tool, error)
        if tool.given_the_run:
            arguments.update(dict.fromkeys(tool.given_the_run, Run({}) if effect.run is None else effect.run))
        if tool.call_parameter is not None:
            arguments[tool.call_parameter] = call
        if tool.timeout is None and tool.retry is None:
            came = await _call(tool, arguments, io)
        else:
            came = await _retry(tool, arguments, io)
        if type(came) is not ToolRaisedError:
            return came
        try:
            return _failed(tool, came.error)
        finally:
            # From Python 3.13 on the traceback of the error holds this frame, too.
            del came

    wanted = {kind for one in known.values() for kind in one.context_types}
    return Handler(answer, context_types=tuple(wanted))


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
    text = f"{requested} is not a valid tool, try one of [{', '.join(names)}]."
    folded = {name.casefold(): name for name in names}
    closest = close_names(requested.casefold(), folded)
    return f"{text} Did you mean {folded[closest[0]]}?" if closest else text


async def _retry(tool: AnyTool, arguments: dict[str, Any], io: IO) -> AttemptResult:
    if tool.retry is None:
        return await _attempt(tool, arguments, io)

    async def attempt() -> ToolResult:
        came = await _attempt(tool, arguments, io)
        if isinstance(came, ToolRaisedError):
            try:
                raise came
            finally:
                # Its traceback holds this frame, which is not to hold it.
                del came
        return came

    def announce(raised: Exception, attempt: int, wait: float) -> None:
        assert isinstance(raised, ToolRaisedError), "nothing else may pass"
        assert isinstance(raised.error, Exception), "only such classes are called again after"
        report(ToolRetried(tool.name, raised.error, attempt, wait))

    try:
        return await retry(attempt, tool.retry, io, announce=announce)
    except ToolRaisedError as raised:
        return raised.with_traceback(None)


async def _attempt(tool: AnyTool, arguments: dict[str, Any], io: IO) -> AttemptResult:
    if tool.timeout is None:
        return await _call(tool, arguments, io)
    came = await io.within(partial(_call, tool, arguments, io), tool.timeout)
    if isinstance(came, NotDone):
        late = f"{tool.name} timed out: it did not answer within {tool.timeout:g} seconds."
        return ToolResult(late, "timed_out", error=qualified_name(TimeoutError))
    return came


def _call(tool: AnyTool, arguments: dict[str, Any], io: IO) -> Coroutine[Any, Any, AttemptResult]:
    if not io.blocking and (tool.is_async or tool.async_function is not None):
        # Not through `io.either`, whose coroutine each waiting call would keep.
        return _await_tool(tool, arguments)
    return io.call(_call_tool, tool, arguments)


def _call_tool(tool: AnyTool, arguments: dict[str, Any]) -> AttemptResult:
    try:
        if tool.is_async:
            return _make_result(tool, run_on_own_loop(partial(tool.function, **arguments)))
        observation: Any = tool.function(**arguments)
        # A decorator may hide that the function is `async def`.
        is_coroutine = type(observation) in _COROUTINES
        return _make_result(tool, run_on_own_loop(lambda: observation) if is_coroutine else observation)
    except BaseException as error:
        from asyncio import CancelledError

        # Nobody cancels a blocking call: a cancellation is one that the tool ran into by itself.
        if not isinstance(error, (Exception, CancelledError)):
            raise
        return ToolRaisedError(error)


async def _await_tool(tool: AnyTool, arguments: dict[str, Any]) -> AttemptResult:
    try:
        return _make_result(tool, await (tool.async_function or tool.function)(**arguments))
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
        return ToolRaisedError(error)


# Any: whatever a tool returned.
def _make_result(tool: AnyTool, returned: Any) -> ToolResult:
    # A tool that yields is still at work; what it yields can be read only once, and the model reads it in every prompt.
    observation: Any = list(returned) if type(returned) in _GENERATORS else returned
    most = tool.max_observation
    told = None if most is None else shorten_observation(observation, most)
    return ToolResult(observation, "ok", tool.return_direct, told)


def _failed(tool: AnyTool, error: BaseException) -> ToolResult:
    policy = tool.on_error
    if policy == "raise":
        raise error
    observation: object = f"{tool.name} failed: {described(error)}"
    # A cancellation that the tool ran into by itself is no Exception, which is what the function takes.
    if callable(policy) and isinstance(error, Exception):
        observation = policy(error)
        # Users without a type checker return what they like.
        if not isinstance(observation, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"on_error of {tool.name} returned {observation!r}; return the text that the model is told"
            )
    told = shorten_observation(observation, tool.max_observation)
    return ToolResult(observation, "error", model_text=told, error=qualified_name(type(error)))
