"""What a handler reports while it answers: the pieces of a reply, a retry, a wait. It is news for whoever watches."""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

from graphexec.runtime.calls import listening_call


@dataclass(frozen=True, slots=True)
class Listener:
    """A receiver of reports: `hear` takes each one, from any thread. `pieces`: those of replies are wanted too.

    `room` waits, on an event loop, until what was heard is taken.
    """

    hear: Callable[[object], None]
    pieces: bool = False
    room: Callable[[], Awaitable[None]] | None = None


@final
class Reports(list[object]):
    """A listener that keeps what it hears, made and used in half the time of a `Listener` with a list."""

    __slots__ = ()
    hear = list[object].append
    pieces = False
    room = None


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("graphexec_listener", default=None)


def _current_listener() -> Listener | Reports | None:
    call = listening_call()
    return _listener.get() if call is None else call.listener


def report(news: object) -> None:
    """Report to whoever watches the run, if anybody does; for handlers, models and tools, while they answer."""
    listener = _current_listener()
    if listener is not None:
        listener.hear(news)


async def wait_for_capacity() -> None:
    """Wait, on an event loop, until whoever hears has taken what was reported; in a thread, `report` itself waits."""
    listener = _current_listener()
    if listener is not None and listener.room is not None:
        await listener.room()


def wants_pieces() -> bool:
    """Return whether somebody wants the pieces of a reply while they come, so that it is to be streamed."""
    listener = _current_listener()
    return listener is not None and listener.pieces


@contextmanager
def listen_with(listener: Listener) -> Generator[None, None, None]:
    """Let a listener hear what is reported outside of a run."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
