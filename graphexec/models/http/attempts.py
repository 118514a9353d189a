"""The clock of a call to a model server, the time that it has left, and the waits between its attempts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from graphexec.errors import RateLimitError
from graphexec.models.http.failures import LONGEST_ADVISED
from graphexec.runtime.io import IO
from graphexec.runtime.retry import RetryPolicy
from graphexec.runtime.threads import sleep_unless_cancelled


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock and its sleep functions, in seconds. Tests pass their own."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = sleep_unless_cancelled
    asleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def wait(self, seconds: float, io: IO) -> None:
        """Wait for that many seconds: with `sleep`, or with `asleep` on an event loop."""
        await io.either(lambda: self.sleep(seconds), lambda: self.asleep(seconds))


# The remaining time of the call that this context runs: the connections of a blocking call bound every wait by it.
_seconds_left: ContextVar[Callable[[], float] | None] = ContextVar("graphexec_seconds_left", default=None)


@contextmanager
def bound_waits(seconds_left: Callable[[], float]) -> Generator[None, None, None]:
    """Bound each wait of the connections in the block by this time."""
    outer = _seconds_left.set(seconds_left)
    try:
        yield
    finally:
        _seconds_left.reset(outer)


def bound_seconds(seconds: float | None) -> float | None:
    """Return at most the remaining time of the current call, 0 or more; `None` is no bound."""
    left = _seconds_left.get()
    if left is None:
        return seconds
    bounded = max(left(), 0.0)
    return bounded if seconds is None else min(seconds, bounded)


# The default `clock` of a model.
REAL_TIME = Clock()


def advised_wait(error: Exception) -> float | None:
    """Return the seconds that the server asks for in an error, if it does."""
    return error.retry_after if isinstance(error, RateLimitError) else None


# The waits of models; each call has attempts of its own, and errors to retry.
RETRIES = RetryPolicy(
    attempts=1,
    may_pass=lambda _: False,
    # Seconds. Half a second relieves a busy server; waits longer than eight seconds rarely help.
    first_wait=0.5,
    longest_wait=8.0,
    # The largest random reduction of a wait, as a fraction of it.
    jitter=0.5,
    advised=advised_wait,
    longest_advised=LONGEST_ADVISED,
)
