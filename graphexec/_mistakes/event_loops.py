"""Errors for what belongs to another event loop, in place of those of asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphexec.errors import EventLoopError

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
