"""What a handler reports while it answers: the pieces of a reply, a retry, a wait. It is news for whoever watches."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears: `hear` takes each piece of news, from whatever thread. `pieces`: those of replies are wanted too."""

    hear: Callable[[object], None]
    pieces: bool = False


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("graphexec_listener", default=None)


def report(news: object) -> None:
    """Report to whoever watches the run, if anybody does; for handlers, models and tools, while they answer."""
    listener = _listener.get()
    if listener is not None:
        listener.hear(news)


def pieces_wanted() -> bool:
    """Whether somebody wants the pieces of a reply while they come, so that it is to be streamed."""
    listener = _listener.get()
    return listener is not None and listener.pieces


@contextmanager
def heard_by(listener: Listener) -> Generator[None, None, None]:
    """Let a listener hear what is reported inside."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
