"""The output of failing tests: exceptions, values by their `repr`, tracebacks with only the user's frames."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final, TypeVar, final

from graphexec.errors import GraphexecError
from graphexec.runtime.threads import last_call, threads_since


class ScriptExhaustedError(BaseException):
    """A scripted tool was called more often than it has results.

    This is not an `Exception`, which would become an observation for the model, and the test would continue.
    """


@final
@dataclass(frozen=True, slots=True)
class WaitingTask:
    """The coroutines in which one task waits, from the outermost to the innermost."""

    # Any: coroutines and async generators, which have no common type.
    coroutines: Sequence[Any]

    @property
    def own_place(self) -> str:
        """The line of the user's innermost coroutine, or "" if all of them belong to graphexec."""
        frames = [frame for one in self.coroutines if (frame := _frame_of(one)) is not None and is_own(frame)]
        # Frames of other libraries, such as asyncio, are skipped.
        return describe_frame(frames[-1]) if frames else ""

    def __str__(self) -> str:
        inner = self.coroutines[-1]
        frame = _frame_of(inner)
        where = f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
        return f"{getattr(inner, '__qualname__', repr(inner))}{where}"


# Any: as above.
def _frame_of(waiting: Any) -> FrameType | None:
    frame: FrameType | None = getattr(waiting, "cr_frame", getattr(waiting, "ag_frame", None))
    return frame


def describe_frame(frame: FrameType) -> str:
    """Return the line that a frame is at, and its function."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


class DeadlockError(GraphexecError, RuntimeError):
    """No task can continue under a virtual clock.

    `waiting` describes the waiting tasks and their lines; `own_places` are the user's lines.
    """

    def __init__(self, text: str, waiting: Sequence[WaitingTask]) -> None:
        self.waiting = tuple(map(str, waiting))
        self.own_places = tuple(place for one in waiting if (place := one.own_place))
        super().__init__(f"{text}; waiting: {', '.join(self.waiting) or 'no task'}")


class Readable:
    """A value that Hypothesis also shows by its `repr`, instead of as a dataclass."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: FBT001 - IPython's protocol
        del cycle
        printer.text(repr(self))


E = TypeVar("E", bound=BaseException)

# Packages whose frames lie between a test and the user's function.
_ON_THE_WAY: Final = frozenset(
    {"graphexec", "asyncio", "concurrent", "contextlib", "contextvars", "functools", "pydantic", "threading"}
)


def is_own(frame: FrameType) -> bool:
    """Return whether the frame belongs to the user's code, or to a library that it calls."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _ON_THE_WAY


@final
class NewThreads:
    """The threads that have started, or have received a call, since this object was created: threads are reused."""

    def __init__(self) -> None:
        self._before = frozenset(threading.enumerate())
        self._last_call = last_call()

    def have_calls(self) -> bool:
        """Return whether one of them carries out a call."""
        return bool(threads_since(self._last_call))

    def stacks(self) -> dict[int, list[FrameType]]:
        """Return the frames of each, by its identifier; the innermost comes first."""
        # There is no public way to read a thread's frame.
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
        called = threads_since(self._last_call)
        return {
            thread.ident: [frame for frame, _ in traceback.walk_stack(frames[thread.ident])]
            for thread in threading.enumerate()
            if thread.ident in frames and (thread not in self._before or thread.ident in called)
        }


def with_own_frames(error: E) -> E:
    """Return the exception with only the user's frames in its traceback."""
    own: TracebackType | None = None
    for one in reversed(_own(error)):
        own = TracebackType(own, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return error.with_traceback(own)


def place_of(error: BaseException) -> str:
    """Return the file and line of the user's code where the exception was raised, or "" if there is none."""
    own = _own(error)
    return f"{own[0].tb_frame.f_code.co_filename}:{own[0].tb_lineno}" if own else ""


def describe_error(error: BaseException) -> str:
    """Return that code raises the exception, with the line of the user's code: `raises KeyError('a') at mine.py:3`."""
    place = place_of(error)
    return f"raises {error!r}{f' at {place}' if place else ''}"


def _own(error: BaseException) -> list[TracebackType]:
    found: list[TracebackType] = []
    at = error.__traceback__
    while at is not None:
        if is_own(at.tb_frame):
            found.append(at)
        at = at.tb_next
    return found
