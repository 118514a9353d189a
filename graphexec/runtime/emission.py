"""Coroutines that hand out items while they run: `emit` suspends one, and the iterating caller takes the item.

A stream is an ordinary coroutine, stepped by hand or on an event loop, which is given whatever else it waits for.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, final


@final
class _Closed(BaseException):
    """Thrown into a coroutine on an event loop when its stream is closed.

    Not `GeneratorExit`: Python would close what the coroutine awaits, which then could not wait while it cleans up.
    """


@types.coroutine
def emit(item: object) -> Generator[Any, Any, None]:
    """Hand out an item of `stream_sync` or `stream_async`, and go on when the next one is asked for.

    Raises a `BaseException` where the stream is closed instead.
    """
    # In a tuple, which no event loop knows, and which costs less than a class of ours.
    yield (item,)


# Any: what a coroutine emits is not part of its type.
def stream_sync(begin: Callable[[], Coroutine[Any, Any, object]]) -> Generator[Any, None, None]:
    """Yield what a coroutine emits that waits through `BLOCKING`; closing this closes it.

    What the consumer throws is raised in the coroutine. Raises `RuntimeError` if it awaits something of an event loop.
    """
    coroutine = begin()
    step: Callable[[Any], Any] = coroutine.send
    value: Any = None
    try:
        while True:
            try:
                emitted = step(value)
            except StopIteration:
                return
            finally:
                # What was thrown has a traceback that holds this frame.
                value = None
            if type(emitted) is not tuple:
                raise RuntimeError("a sync stream has awaited an event loop; use its async form, such as astream")
            try:
                yield emitted[0]
                step, value = coroutine.send, None
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - it is for the coroutine to see
                step, value = coroutine.throw, error
    finally:
        coroutine.close()


# Any: as above.
async def stream_async(begin: Callable[[], Coroutine[Any, Any, object]]) -> AsyncGenerator[Any, None]:
    """Yield what a coroutine emits; closing this closes it, and waits while it cleans up."""
    coroutine = begin()
    step: Callable[[Any], Any] = coroutine.send
    value: Any = None
    try:
        while True:
            try:
                item = step(value)
            except StopIteration:
                return
            finally:
                value = None
            if type(item) is tuple:
                try:
                    yield item[0]
                    step, value = coroutine.send, None
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - as above
                    step, value = coroutine.throw, error
            else:
                step, value = await _wait(coroutine, item)
    finally:
        step, value = coroutine.throw, _Closed()
        # Closed before its end. What it emits while it cleans up is nobody's.
        while inspect.getcoroutinestate(coroutine) != inspect.CORO_CLOSED:
            try:
                item = step(value)
            except (StopIteration, _Closed):
                break
            step, value = (coroutine.send, None) if type(item) is tuple else await _wait(coroutine, item)


# Any: what an event loop understands, and what it answers with.
async def _wait(coroutine: Coroutine[Any, Any, object], item: Any) -> tuple[Callable[[Any], Any], Any]:
    """Have the event loop wait for what the coroutine waits for; return how to go on with the coroutine."""
    try:
        return coroutine.send, await _pass_on(item)
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - a cancellation, say, which is for the coroutine to see
        return coroutine.throw, error


@types.coroutine
def _pass_on(item: Any) -> Generator[Any, Any, Any]:
    return (yield item)
