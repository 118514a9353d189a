"""Coroutines that emit items while they run: `emit` suspends one until its consumer asks for the next item.

A stream is an ordinary coroutine. `stream_sync` steps it itself; `stream_async` passes everything else that it awaits
to the event loop. It runs in a copy of the context variables, as a task does: its consumer is not within the run.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, final


@final
class _Closed(BaseException):
    """Thrown into a coroutine on an event loop when its stream is closed.

    With `GeneratorExit` Python would close the awaited object, which then could not await anything while it cleans up.
    """


class _Emission(tuple[tuple[object]]):
    """What a coroutine awaits to emit an item, which is in a tuple, because no event loop uses one."""

    __slots__ = ()
    # Not a generator, which would cost two calls for each event of a run.
    __await__: Any = tuple.__iter__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def emit(item: object) -> _Emission:
    """Emit an item of `stream_sync` or `stream_async` when awaited; continue when the consumer asks for the next one.

    Raises a `BaseException` if the stream is closed instead.
    """
    return _Emission(((item,),))


# Any: what a coroutine emits is not part of its type.
def stream_sync(begin: Callable[[], Coroutine[Any, Any, object]]) -> Generator[Any, None, None]:
    """Yield the items emitted by a coroutine that waits through `BLOCKING`; closing this closes the coroutine.

    An exception thrown by the consumer is raised in the coroutine. Raises `RuntimeError` if it awaits an event loop.
    """
    run = copy_context().run
    coroutine = run(begin)
    step: Callable[[Any], Any] = coroutine.send
    value: Any = None
    try:
        while True:
            try:
                item = run(step, value)
            except StopIteration:
                return
            finally:
                # A thrown exception has a traceback that refers to this frame.
                value = None
            if type(item) is not tuple:
                raise RuntimeError(  # noqa: TRY301 - the coroutine receives it, too
                    "something in this sync stream awaited the event loop; use the async form, such as astream"
                )
            step = coroutine.send
            try:
                yield item[0]
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - the coroutine receives it
                step, value = coroutine.throw, error
    except GeneratorExit:
        raise
    except BaseException as error:
        # An interrupt between two items: the run adds its state to it.
        if inspect.getcoroutinestate(coroutine) == inspect.CORO_SUSPENDED:
            run(coroutine.throw, error)
        raise
    finally:
        run(coroutine.close)


# Any: as above.
async def stream_async(begin: Callable[[], Coroutine[Any, Any, object]]) -> AsyncGenerator[Any, None]:
    """Yield the items emitted by a coroutine; closing this closes the coroutine, and waits while it cleans up."""
    run = copy_context().run
    coroutine = run(begin)
    step: Callable[[Any], Any] = coroutine.send
    try:
        value: Any = None  # Before the loop; see `RunLoop.follow`.
        while True:
            try:
                item = run(step, value)
            except StopIteration:
                return
            finally:
                value = None
            if type(item) is not tuple:
                step, value = await _wait(coroutine, item)
                continue
            step = coroutine.send
            try:
                yield item[0]
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - as above
                step, value = coroutine.throw, error
    finally:
        step, value = coroutine.throw, _Closed()
        # Closed before its end. Items emitted during cleanup are discarded.
        while inspect.getcoroutinestate(coroutine) != inspect.CORO_CLOSED:
            try:
                item = run(step, value)
            except (StopIteration, _Closed):
                break
            step, value = (coroutine.send, None) if type(item) is tuple else await _wait(coroutine, item)


# Any: the event loop defines what it accepts and returns.
async def _wait(coroutine: Coroutine[Any, Any, object], item: Any) -> tuple[Callable[[Any], Any], Any]:
    """Wait on the event loop for what the coroutine awaits; return how to resume the coroutine."""
    try:
        return coroutine.send, await _pass_on(item)
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - the coroutine receives it: a cancellation, for example
        return coroutine.throw, error


@types.coroutine
def _pass_on(item: Any) -> Generator[Any, Any, Any]:
    return (yield item)
