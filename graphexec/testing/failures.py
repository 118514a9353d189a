"""What a failing test raises and shows: exceptions, values by their `repr`, tracebacks of the user's own frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final, TypeVar, final

from graphexec.errors import GraphexecError


class ScriptExhaustedError(BaseException):
    """A scripted tool was called more often than it has results.

    No `Exception`, because that would be an observation for the model, and the test would go on.
    """


@final
@dataclass(frozen=True, slots=True)
class WaitingTask:
    """The coroutines that one task waits in, from its own to the innermost."""

    # Any: coroutines and async generators, which have no common type.
    coroutines: Sequence[Any]

    @property
    def own_place(self) -> str:
        """Where the innermost coroutine of the user's stands, or nothing where all of them are graphexec's."""
        frames = [frame for one in self.coroutines if (frame := _frame_of(one)) is not None and is_own(frame)]
        # A coroutine of a library's, asyncio's say, is in the user's.
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
    """Nothing can go on under a virtual clock. `waiting` says who waits, and where; `own_places` the user's lines."""

    def __init__(self, text: str, waiting: Sequence[WaitingTask]) -> None:
        self.waiting = tuple(map(str, waiting))
        self.own_places = tuple(place for one in waiting if (place := one.own_place))
        super().__init__(f"{text}; waiting: {', '.join(self.waiting) or 'nobody'}")


class Readable:
    """Shown by its `repr` in a failure of Hypothesis, too, where it would take a dataclass apart."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: FBT001 - IPython's protocol
        del cycle
        printer.text(repr(self))


E = TypeVar("E", bound=BaseException)

# Packages whose frames are on the way from a test to the user's function.
_ON_THE_WAY: Final = frozenset(
    {"graphexec", "asyncio", "concurrent", "contextlib", "contextvars", "functools", "pydantic", "threading"}
)


def is_own(frame: FrameType) -> bool:
    """Return whether the frame is of the user's code, or of something that it calls."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _ON_THE_WAY


def with_own_frames(error: E) -> E:
    """Return the exception, with none but the user's frames in its traceback."""
    own: TracebackType | None = None
    for one in reversed(_own(error)):
        own = TracebackType(own, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return error.with_traceback(own)


def place_of(error: BaseException) -> str:
    """The file and the line where the user's code was when it was raised, or nothing where it was none of theirs."""
    own = _own(error)
    return f"{own[0].tb_frame.f_code.co_filename}:{own[0].tb_lineno}" if own else ""


def _own(error: BaseException) -> list[TracebackType]:
    found: list[TracebackType] = []
    at = error.__traceback__
    while at is not None:
        if is_own(at.tb_frame):
            found.append(at)
        at = at.tb_next
    return found
