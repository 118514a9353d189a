"""What a handler reports while it answers: the pieces of a reply, a retry, a wait. It is news for whoever watches."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from typing import final


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


@final
class heard_by:  # noqa: N801 - it is used as a function
    """Let a listener hear what is reported inside of `with heard_by(listener):`."""

    __slots__ = ("_listener", "_token")

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def __enter__(self) -> None:
        self._token = _listener.set(self._listener)

    def __exit__(self, *raised: object) -> None:
        try:  # noqa: SIM105 - three calls fewer at each effect that is observed
            _listener.reset(self._token)
        # A call that was abandoned while it waited is closed elsewhere, where it was never set.
        except ValueError:
            pass
