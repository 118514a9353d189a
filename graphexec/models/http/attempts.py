"""One call to a model server: its attempts, its deadline, and the failures that are retried."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from graphexec._mistakes.event_loops import raise_loop_error
from graphexec.errors import ModelError, RateLimitError
from graphexec.models.http import failures
from graphexec.models.http.endpoint import Endpoint
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


# The waits of models; each model has attempts of its own, and errors to retry.
RETRIES = RetryPolicy(
    attempts=1,
    may_pass=lambda _: False,
    # Seconds. Half a second relieves a busy server; waits longer than eight seconds rarely help.
    first_wait=0.5,
    longest_wait=8.0,
    # The largest random reduction of a wait, as a fraction of it.
    jitter=0.5,
    advised=advised_wait,
    longest_advised=failures.LONGEST_ADVISED,
)


class Attempts:
    """The attempts of one call: raises typed errors, and decides which of them are retried.

    `timeout` is the time in seconds for all attempts and the waits between them. `answered` says whether the server's
    response has begun, for the text of a timeout.
    """

    def __init__(self, endpoint: Endpoint, clock: Clock, io: IO, *, timeout: float, max_retries: int) -> None:
        self.endpoint = endpoint
        self.io = io
        advised: Callable[[Exception], float | None] = lambda _: self.failure.advised  # noqa: E731
        self.policy = replace(RETRIES, attempts=max_retries + 1, may_pass=self._may_pass, advised=advised)
        self.answered = False
        self._clock = clock
        self._deadline: float = clock.monotonic() + timeout
        self._timeout = timeout
        # When the consumer of a stream received its last piece, while it has it.
        self._paused: float | None = None
        # The last one.
        self.failure = failures.CallFailure(ModelError(""))

    @property
    def seconds_left(self) -> float:
        """The remaining time of the whole call in seconds."""
        return self._deadline - self._clock.monotonic()

    @property
    def timeouts(self) -> tuple[float, float, float, float]:
        """The client's timeouts for the next attempt in seconds: connect, read, write, pool."""
        left = max(self.seconds_left, 0.001)
        if not self.io.blocking:
            # Before `IO.timeout`, because the client's own error says what the server did not do.
            left -= min(left / 10, 0.05)
        return min(failures.CONNECT, left), left, left, left

    def pause(self) -> None:
        """Stop the clock while the consumer of a stream has a piece: the timeout bounds the server's time only."""
        self._paused = self._clock.monotonic()

    def resume(self) -> None:
        """Start the clock again."""
        if self._paused is not None:
            self._deadline += self._clock.monotonic() - self._paused
            self._paused = None

    @contextmanager
    def attempt(self, *, within: float | None = None) -> Generator[None, None, None]:
        """Convert a failure inside to one typed error; it has the time that is left, but not more than `within`."""
        self.check_time()
        ends = self._deadline
        if within is not None:
            self._deadline = min(ends, self._clock.monotonic() + within)
        # On an event loop, `IO.timeout` bounds every wait.
        outer = _seconds_left.set(lambda: self.seconds_left) if self.io.blocking else None
        try:
            yield
        except ModelError as error:
            if self.failure.error is not error:
                # The server reported the error in a body or an event with status 200.
                self.failure = failures.to_failure(error, advised_wait(error))
            raise
        # Only the client's exceptions are converted.
        except Exception as error:
            failure = failures.classify_exception(self.endpoint, error, seconds=self._timeout, answered=self.answered)
            if failure is None:
                raise_loop_error(error, f"the async_client of {self.endpoint.model}")
                raise
            self.failure = failure
            raise failure.error from error
        finally:
            self._deadline = ends
            if outer is not None:
                _seconds_left.reset(outer)

    def check_time(self) -> None:
        """Raise `ModelTimeoutError` if the deadline has passed."""
        if self.seconds_left <= 0:
            raise failures.timeout_error(self.endpoint, self._timeout, answered=self.answered)

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        """Return the error for a response with a status other than 200, and note whether it may be retried."""
        self.failure = failures.classify_response(self.endpoint, status, headers, body, now=self._clock.wall())
        return self.failure.error

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds."""
        await self._clock.wait(seconds, self.io)

    def allows(self, seconds: float) -> bool:
        """Return whether the call may continue after that many seconds."""
        return seconds < self.seconds_left

    def _may_pass(self, error: Exception) -> bool:
        # Cancellations and exceptions of other code are never retried.
        return self.failure.error is error and self.failure.transient
