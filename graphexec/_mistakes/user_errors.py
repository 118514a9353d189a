"""Errors of users' code: where within a run they were raised, and what those of asyncio's event loops mean."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from itertools import dropwhile
from typing import Any

from graphexec.errors import EventLoopError, described

# Where the frames of graphexec are.
_PACKAGE = __file__.removesuffix(__name__.removeprefix("graphexec.").replace(".", "/") + ".py")
# The last frames of a traceback, and characters of it, that are kept: a recursion has a thousand.
_FRAMES = 30
_TRACEBACK = 8000
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"


def format_traceback(error: BaseException) -> str | None:
    """Return where within a run an exception was raised, as Python prints it, or `None` if it has no traceback.

    The frames of the run's caller are left out, and those of graphexec if there are others. The exception that was the
    cause comes first. A long traceback keeps its end.
    """
    parts = [_format_frames(one) for one in (error.__cause__, error) if one is not None and one.__traceback__]
    text = _CAUSED.join(parts)
    if not parts:
        return None
    return text if len(text) <= _TRACEBACK else f"…{text[1 - _TRACEBACK :]}"


def _format_frames(error: BaseException) -> str:
    frames = list(traceback.extract_tb(error.__traceback__))
    within = list(dropwhile(lambda frame: not frame.filename.startswith(_PACKAGE), frames)) or frames
    others = [frame for frame in within if not frame.filename.startswith(_PACKAGE)]
    lines = traceback.format_list(others[-_FRAMES:] or within[-1:])
    return "".join(["Traceback (most recent call last):\n", *lines, described(error), "\n"])


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
