"""Errors for what belongs to another event loop, in place of those of asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from graphexec.errors import EventLoopError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

T = TypeVar("T")

# What asyncio says of a future, a lock or a queue of another loop; Python 3.11 to 3.13 say the same. The third one
# follows when a future is awaited again after the first one.
_FOREIGN = (
    "attached to a different loop",
    "bound to a different event loop",
    "await wasn't used with future",
    "The future belongs to a different loop",
    "The futures belong to different loops",
)
_CLOSED = "Event loop is closed"
# What it says in a function that runs in a thread.
_MISSING = ("no running event loop", "There is no current event loop in thread")


def explain_loop_error(error: BaseException, subject: str) -> BaseException:
    """Return an `EventLoopError` caused by the error if that is about an event loop, or else the error itself.

    The `subject` is whose code it is: `the tool weather`.
    """
    for inner in _members(error):
        message = str(inner) if isinstance(inner, (RuntimeError, ValueError)) else ""
        if isinstance(inner, EventLoopError) or not message:
            continue
        if any(words in message for words in _FOREIGN):
            what = "awaited something that belongs to another event loop; create it in the function that awaits it"
        elif message == _CLOSED:
            what = "used something of an event loop that is closed; create it in the function that uses it"
        elif message.startswith(_MISSING):
            what = "needs an event loop and ran in a thread without one; write an async def"
        else:
            continue
        explained = EventLoopError(f"{subject} {what}")
        explained.__cause__ = error
        return explained
    return error


def raise_loop_error(error: BaseException, subject: str) -> None:
    """Raise what `explain_loop_error` returns, unless that is the error itself."""
    explained = explain_loop_error(error, subject)
    try:
        if explained is not error:
            raise explained from error
    finally:
        # The traceback refers to this frame; this avoids a reference cycle.
        del explained


def _members(error: BaseException) -> Iterator[BaseException]:
    # Any: isinstance does not know the class of a group's exceptions.
    group: Any = error
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in group.exceptions:
        yield from _members(inner)


# Seconds in which the other thread leaves the lock or queue that it has changed.
_MOMENT = 0.01


async def guard_loop(loop: AbstractEventLoop, task: Task[Any], call: Callable[[], Awaitable[T]]) -> T:
    """Return what `call` returns in the `task` of a loop of ours, in which nothing else runs.

    Raises `EventLoopError` as soon as another thread sets what the call awaits. asyncio would notice that only when
    something else wakes the loop, perhaps a deadline; other threads may only use `call_soon_threadsafe`.
    """
    from asyncio import CancelledError
    from threading import get_ident

    thread, plain, misused = get_ident(), loop.call_soon, False

    def cancel(resume: Callable[[], object]) -> None:
        nonlocal misused
        misused = True
        task.cancel()
        resume()

    def call_soon(callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        if get_ident() == thread:
            return plain(callback, *args, context=context)
        return loop.call_soon_threadsafe(
            loop.call_later, _MOMENT, cancel, partial(plain, callback, *args, context=context)
        )

    # An attribute of this one loop hides the method of its class.
    setattr(loop, "call_soon", call_soon)  # noqa: B010 - a method is no attribute to a type checker
    try:
        return await call()
    except CancelledError:
        if not misused:
            raise
        raise EventLoopError(
            "the call awaited something that another thread has set, perhaps another event loop; create it and set it "
            "in the function that awaits it, or set it with loop.call_soon_threadsafe"
        ) from None
    finally:
        # What another thread sets too late is no error.
        setattr(loop, "call_soon", plain)  # noqa: B010 - as above
