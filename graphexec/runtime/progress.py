"""Reports of a handler while it answers, such as pieces of a reply, retries and waits, for observers and streams."""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from graphexec.runtime.calls import listening_call


@dataclass(frozen=True, slots=True)
class Listener:
    """A receiver of reports: `hear` is called with each one, from any thread.

    With `pieces` it also receives the pieces of replies. `room` waits on an event loop until earlier reports are taken.
    """

    hear: Callable[[object], None]
    pieces: bool = False
    room: Callable[[], Awaitable[None]] | None = None


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("graphexec_listener", default=None)


def _current_listener() -> Listener | None:
    call = listening_call()
    listener: Listener | None = _listener.get() if call is None else call.listener
    return listener


def report(news: object) -> None:
    """Report progress to the run's observers and streams, if any; for handlers, models and tools while they answer."""
    listener = _current_listener()
    if listener is not None:
        listener.hear(news)


async def wait_for_capacity() -> None:
    """Wait on an event loop until the listener has taken earlier reports; in a thread, `report` itself waits."""
    listener = _current_listener()
    if listener is not None and listener.room is not None:
        await listener.room()


def wants_pieces() -> bool:
    """Return whether the listener receives pieces of a reply, so that the model should stream it."""
    listener = _current_listener()
    return listener is not None and listener.pieces


@contextmanager
def listen_with(listener: Listener) -> Generator[None, None, None]:
    """Send reports made outside a run to this listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
