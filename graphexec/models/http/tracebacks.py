"""Errors without keys: a traceback shows the variables of its frames, and those of an HTTP client hold the request."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TypeVar

from graphexec.errors import GraphexecError
from graphexec.kernel.snapshot import add_note
from graphexec.models.secret import Secret, redact

E = TypeVar("E", bound=BaseException)

_CLIENTS = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})
# Packages whose frames hold a request, its bytes or its response.
_TRANSPORTS = _CLIENTS | {"graphexec", "httpx_sse", "h11", "h2", "anyio", "asyncio", "ssl", "socket", "contextlib"}
# The attributes in which the errors of a client hold the request and the response.
_HELD = ("_request", "request", "response")


def remove_secrets(error: E, secrets: Iterable[Secret]) -> E:
    """Remove from an error, and from its causes, the frames and requests that hold a secret; return the error.

    It is called where the call of a model ends, so all frames are those of the call. Of our own errors, all frames are
    removed. Of their causes, errors of the client and of the system are kept, without frames and with `***` for secrets
    in their messages; others may quote the reply, and are dropped. Of any other exception, such as one that a user's
    client raised, only the user's frames are kept.
    """
    known = tuple(secrets)
    pending: list[BaseException] = [error]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(error, GraphexecError):
            one.__traceback__ = None
            _drop_causes(one)
            _clean(one, known)
        else:
            _filter_frames(one)
            _clean(one, known)
        pending += [cause for cause in (one.__cause__, one.__context__) if cause is not None]
    return error


def _drop_causes(error: BaseException) -> None:
    suppressed = error.__suppress_context__
    if error.__cause__ is not None and not _is_harmless(error.__cause__):
        error.__cause__ = None
    if error.__context__ is not None and not _is_harmless(error.__context__):
        error.__context__ = None
    # Setting a cause suppresses the context.
    error.__suppress_context__ = suppressed


def _is_harmless(error: BaseException) -> bool:
    return isinstance(error, GraphexecError | OSError) or type(error).__module__.partition(".")[0] in _CLIENTS


def _clean(error: BaseException, secrets: tuple[Secret, ...]) -> None:
    if type(error).__module__.partition(".")[0] in _CLIENTS:
        vars(error).update({name: None for name in _HELD if name in vars(error)})
    cleaned = tuple(redact(part, secrets) if isinstance(part, str) else part for part in error.args)
    if cleaned != error.args:
        error.args = cleaned


def _filter_frames(error: BaseException) -> None:
    kept: list[TracebackType] = []
    removed: list[str] = []
    traceback = error.__traceback__
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in _TRANSPORTS:
            removed.append(f"{module}:{traceback.tb_lineno}")
        else:
            kept.append(traceback)
        traceback = traceback.tb_next
    if not removed:
        return
    rebuilt: TracebackType | None = None
    for one in reversed(kept):
        rebuilt = TracebackType(rebuilt, one.tb_frame, one.tb_lasti, one.tb_lineno)
    error.__traceback__ = rebuilt
    if isinstance(error, Exception):
        add_note(error, f"Frames that hold the request and its API key were removed: {', '.join(removed)}")
