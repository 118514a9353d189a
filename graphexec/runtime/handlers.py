"""Handlers: which function answers which class of effects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphexec.errors import InputError, MissingHandlerError
from graphexec.kernel.effects import Effect, Perform
from graphexec.runtime.io import IO


@dataclass(frozen=True, slots=True)
class Handler:
    """Answers one class of effects, in sync and in async runs.

    `answer` is a coroutine function of the effect, the seconds left until the run's deadline (`None`: no deadline), and
    the `IO`; it returns the reply. The runner enforces the deadline. An `instant` handler never waits: it runs without
    a thread or a task.
    """

    # Effects and replies are paired by type only where a handler is made: a mapping cannot say it.
    answer: Callable[[Any, float | None, IO], Coroutine[Any, Any, Any]]
    instant: bool = False


# A plain function from an effect to its reply, `def` or `async def`, or a whole handler.
HandlerLike: TypeAlias = Handler | Callable[[Any], Any]
Handlers: TypeAlias = Mapping[type[Effect[Any]], Handler]


def answering(function: HandlerLike) -> Handler:
    """Make a handler of a function: a blocking one runs in a thread where it must not block, an async one anywhere."""
    if isinstance(function, Handler):
        return function
    is_async = inspect.iscoroutinefunction(function)

    async def answer(effect: Any, left: float | None, io: IO) -> Any:
        del left
        return await _call_or_await(function, effect, io, is_async=is_async)

    return Handler(answer)


# Any: the function's own argument and result.
async def _call_or_await(function: Callable[[Any], Any], argument: Any, io: IO, *, is_async: bool) -> Any:
    if is_async:
        return await io.call_async(function, argument)
    result = await io.call(function, argument)
    # A lambda may hide that what it calls is async.
    return await io.call_async(lambda: result) if inspect.iscoroutine(result) else result


async def _perform(effect: Perform, left: float | None, io: IO) -> Any:
    del left
    return await _call_or_await(
        effect.function, effect.value, io, is_async=inspect.iscoroutinefunction(effect.function)
    )


PERFORMING = Handler(_perform)


def handlers_for(answers: Mapping[type[Effect[Any]], HandlerLike]) -> Handlers:
    """Make handlers of `answers`, and add the one that performs opaque nodes. Raises `InputError` for invalid ones."""
    # Users without a type checker write {"Fetch": fetch} and {Fetch: page}.
    for effect, answer in answers.items():
        if not isinstance(effect, type) or not issubclass(effect, Effect):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"handlers has the key {effect!r}; write the class of an effect")
        if not isinstance(answer, Handler) and not callable(answer):
            raise InputError(f"{effect.__name__} is answered by {answer!r}; give a function from it to its reply")
    return {Perform: PERFORMING, **{effect: answering(answer) for effect, answer in answers.items()}}


def handler_of(handlers: Handlers, effect: object) -> Handler:
    """Return who answers `effect`. Raises `MissingHandlerError` if nobody does."""
    # The keys are classes of effects; any class may be looked up.
    kind: Any = type(effect)
    try:
        return handlers[kind]
    except KeyError:
        raise MissingHandlerError(effect) from None
