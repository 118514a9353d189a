"""Errors for what belongs to another event loop, in place of those of asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphexec.errors import EventLoopError

_FOREIGN = "awaited something that belongs to another event loop; create it in the function that awaits it"
_MISSING = "needs an event loop and ran in a thread without one; write an async def"
# What asyncio says, and what to say instead; Python 3.11 to 3.13 say the same. The third one follows when a future is
# awaited again after the first one.
_TEXTS = {
    "attached to a different loop": _FOREIGN,
    "bound to a different event loop": _FOREIGN,
    "await wasn't used with future": _FOREIGN,
    "The future belongs to a different loop": _FOREIGN,
    "The futures belong to different loops": _FOREIGN,
    "Event loop is closed": "used something of an event loop that is closed; create it in the function that uses it",
    "no running event loop": _MISSING,
    "There is no current event loop in thread": _MISSING,
}


def explain_loop_error(error: BaseException, subject: str) -> BaseException:
    """Return an `EventLoopError` caused by the error if that is about an event loop, or else the error itself.

    The `subject` is whose code it is: `the tool weather`.
    """
    for inner in _members(error):
        if isinstance(inner, EventLoopError) or not isinstance(inner, (RuntimeError, ValueError)):
            continue
        if what := next((text for words, text in _TEXTS.items() if words in str(inner)), None):
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
