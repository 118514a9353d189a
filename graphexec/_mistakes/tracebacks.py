"""Where within a run an exception was raised, for records and pages."""

from __future__ import annotations

import traceback
from itertools import dropwhile

from graphexec.errors import described

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
