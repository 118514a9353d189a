"""Read a long reply within the call of the model, where it blocks no event loop and a deadline cuts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import ReferenceType

from graphexec.actions import Decision
from graphexec.errors import ParseError
from graphexec.messages import ModelReply

# What reads a reply, or another thing that decides.
Read: TypeAlias = Callable[[Any], Decision]

# The most replies whose decisions are kept: enough for the runs of a batch. Each is dropped with its reply, too.
_MOST = 256

# What was read ahead, by the reply's id: the reply, its reader, and the decision or the error. It is usually empty.
READ_AHEAD: dict[int, tuple[ReferenceType[ModelReply], Read, Decision | ParseError]] = {}


def read_ahead(read: Read, reply: ModelReply) -> ModelReply:
    """Read a reply, for `read_reply`, and return it. Any other error than a `ParseError` is left to `read_reply`."""
    try:
        found: Decision | ParseError = read(reply)
    except Exception as error:  # noqa: BLE001 - raised where the reply is read
        if type(error) is not ParseError:
            return reply
        found = _copy(error)
    key = id(reply)
    READ_AHEAD[key] = ReferenceType(reply, lambda _: READ_AHEAD.pop(key, None)), read, found
    while len(READ_AHEAD) > _MOST:
        READ_AHEAD.pop(next(iter(READ_AHEAD), key), None)
    return reply


def read_reply(read: Read, reply: Any) -> Decision:
    """Return what `read(reply)` returns, or what was read ahead. Raises `ParseError`."""
    known = READ_AHEAD.get(id(reply))
    if known is None or known[0]() is not reply or known[1] is not read:
        return read(reply)
    if isinstance(known[2], ParseError):
        raise _copy(known[2])
    return known[2]


def _copy(error: ParseError) -> ParseError:
    """Return the error without its traceback, whose frames refer to the reply."""
    return ParseError(str(error), observation=error.observation, llm_output=error.llm_output, prose=error.prose)
