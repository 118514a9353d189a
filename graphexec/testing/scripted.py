"""Scripted tools, as `ScriptedModel` is a scripted model."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from pydantic import TypeAdapter

from graphexec.testing.failures import Readable, ScriptExhaustedError
from graphexec.tools import AnyTool, Tool


@final
@dataclass(frozen=True, slots=True, repr=False)
class After(Readable):
    """A result that comes after `seconds`; `math.inf` means never.

    A `stubborn` one ignores its cancellation, like a call that suppresses `CancelledError`.
    """

    seconds: float
    result: object = None
    stubborn: bool = False

    def __repr__(self) -> str:
        result = "" if math.isinf(self.seconds) else repr(self.result)
        return f"{result}{delay(self.seconds, stubborn=self.stubborn)}".lstrip()


NEVER = After(math.inf)


class ScriptedError(Exception):
    """An exception that a script raises, which is neither an error of graphexec nor of a model."""


# A result, an exception to raise, or one of these after some seconds.
Result: TypeAlias = object


def delay(seconds: float, *, stubborn: bool) -> str:
    """Return the description of a delay."""
    if not seconds:
        return ""
    when = " never" if math.isinf(seconds) else f" after {seconds:g} s"
    return f"{when}, stubborn" if stubborn else when


async def pause(seconds: float, *, stubborn: bool = False) -> None:
    """Wait so many seconds, or endlessly; a stubborn pause ignores its cancellation."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0:
        try:
            # The timer keeps the task alive, even for infinity: asyncio itself keeps only weak references to tasks.
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            if not stubborn:
                raise


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ScriptedTool(Tool[..., Any]):
    """A tool that returns its results in their order. Made by `scripted_tool`.

    `calls` are the arguments of each call, by name. A call with invalid arguments does not count.
    """

    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    left: list[Result] = field(default_factory=list[Result])

    def assert_complete(self) -> None:
        """Raise `AssertionError` if unused results are left."""
        if self.left:
            raise AssertionError(
                f"{self.name} has {len(self.left)} of {len(self.left) + len(self.calls)} results left after "
                f"{len(self.calls)} calls; next is {self.left[-1]!r}; script fewer, or find out why the run ended early"
            )


def scripted_tool(
    tool: AnyTool | str,
    results: Iterable[Result],
    *,
    repeat_last: bool = False,
    return_direct: bool = False,
    timeout: float | None = None,
) -> ScriptedTool:
    """Make a tool that returns `results` in order: a value, an exception to raise, or one of these `After` a while.

    Given a tool, the new one has its name, schema and settings; given a name, it takes any arguments (and a string as
    `input`). After the last result it raises `ScriptExhaustedError`, or repeats that result with `repeat_last`. If
    there is an `After` among the results, it is `async def`. Raises `ValueError` if there is no result to repeat.
    """
    scripted = list(results)
    name = tool if isinstance(tool, str) else tool.name
    if repeat_last and not scripted:
        raise ValueError(f"{name} has no result to repeat; pass at least one result, or omit repeat_last")
    last = scripted[-1:] if repeat_last else []
    # Popped from the end, an atomic operation, so that two threads never get the same result.
    left = list(reversed(scripted))
    calls: list[dict[str, Any]] = []

    def next_result(arguments: dict[str, Any]) -> Result:
        calls.append(arguments)
        try:
            return left.pop()
        except IndexError:
            if last:
                return last[0]
            raise ScriptExhaustedError(
                f"{name} was called {len(calls)} times but has {len(scripted)} results; script another one, or pass "
                "repeat_last=True"
            ) from None

    def answer(**arguments: Any) -> Result:
        return _raise_or_return(next_result(arguments))

    async def delayed(**arguments: Any) -> Result:
        result = next_result(arguments)
        if isinstance(result, After):
            await pause(result.seconds, stubborn=result.stubborn)
            result = result.result
        return _raise_or_return(result)

    waits = any(isinstance(result, After) for result in scripted)
    function: Callable[..., Any] = delayed if waits else answer
    own = _anything(tool) if isinstance(tool, str) else tool
    return ScriptedTool(
        name=name,
        description=own.description,
        parameters=own.parameters,
        function=function,
        arguments=own.arguments,
        return_direct=return_direct or own.return_direct,
        timeout=own.timeout if timeout is None else timeout,
        on_error=own.on_error,
        retry=own.retry,
        max_observation=own.max_observation,
        max_tool_input=own.max_tool_input,
        is_async=waits,
        calls=calls,
        left=left,
    )


def _anything(name: str) -> AnyTool:
    schema: dict[str, Any] = {"type": "object", "properties": {"input": {}}, "additionalProperties": True}
    description = f"A scripted tool named {name}."
    arguments: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
    return Tool(name, description=description, parameters=schema, function=print, arguments=arguments)


def _raise_or_return(result: Result) -> Result:
    if isinstance(result, BaseException):
        raise result
    return result
