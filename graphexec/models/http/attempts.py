"""One call of a model's server: its attempts, its deadline, and what may be tried again."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from graphexec.errors import ModelError, RateLimitError, ServerError
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.failures import (
    LONGEST_ADVISED,
    CallFailure,
    classify_exception,
    classify_response,
    timeout_error,
)
from graphexec.runtime.io import IO
from graphexec.runtime.retry_policy import RetryPolicy
from graphexec.runtime.threads import sleep_unless_cancelled

# Seconds. Half a second lets a server breathe; beyond eight, waiting longer has stopped helping.
FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
# The share of a wait that chance may take off.
JITTER = 0.5
# Seconds. A server that is there takes a connection at once, however long it then thinks.
CONNECT = 10.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, and how it is let pass, in seconds. Tests have their own."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = sleep_unless_cancelled
    asleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def wait(self, seconds: float, io: IO) -> None:
        """Let that many seconds pass: by `sleep`, or on an event loop by `asleep`."""
        await io.either(lambda: self.sleep(seconds), lambda: self.asleep(seconds))


# A model's `clock` where no test has its own.
REAL_TIME = Clock()


class Attempts:
    """The attempts of one call: raises the typed errors, and knows which of them may pass.

    `read` is the seconds that each attempt may wait for the server, `timeout` the seconds for all of them together.
    """

    def __init__(
        self, endpoint: Endpoint, clock: Clock, io: IO, *, read: float, timeout: float | None, max_retries: int
    ) -> None:
        self.endpoint = endpoint
        self.io = io
        self.policy = RetryPolicy(
            attempts=max_retries + 1,
            may_pass=self._may_pass,
            first_wait=FIRST_WAIT,
            longest_wait=LONGEST_WAIT,
            jitter=JITTER,
            advised=self._advised,
            longest_advised=LONGEST_ADVISED,
        )
        self._clock = clock
        self._read = read
        self._deadline = math.inf if timeout is None else clock.monotonic() + timeout
        self._timeout = timeout
        self._failure: CallFailure | None = None
        # Whether the connection may be one that lay idle, and whether that was already tried anew.
        self._reused = False
        self._tried_anew = False

    @property
    def seconds_left(self) -> float | None:
        """The seconds left for the whole call, or `None` where it has no deadline."""
        return None if math.isinf(self._deadline) else self._deadline - self._clock.monotonic()

    @property
    def timeouts(self) -> tuple[float, float, float, float]:
        """The client's timeouts for the next attempt, in seconds: connect, read, write, and for a free connection."""
        left = math.inf if self.seconds_left is None else max(self.seconds_left, 0.001)
        return min(CONNECT, left), min(self._read, left), min(self._read, left), min(self._read, left)

    @contextmanager
    def attempt(self, *, reused: bool = False) -> Generator[None, None, None]:
        """Turn what goes wrong inside into one typed error. `reused`: the connection may have lain idle before."""
        self._reused = reused
        self.check_time()
        try:
            yield
        except ModelError as error:
            if self._failure is None or self._failure.error is not error:
                # Told in a body or an event that came with status 200.
                self._failure = CallFailure(error, transient=isinstance(error, ServerError | RateLimitError))
            raise
        # Any exception of the client's; those of others go on as they are.
        except Exception as error:
            failure = classify_exception(self.endpoint, error, seconds=min(self._read, self._timeout or math.inf))
            if failure is None:
                raise
            self._failure = failure
            raise failure.error from error

    def check_time(self) -> None:
        """Raise `ModelTimeoutError` where the deadline has passed."""
        if self.seconds_left is not None and self.seconds_left <= 0:
            raise timeout_error(self.endpoint, self._timeout or 0)

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        """Return the error of an answer that is no 200, and note whether another attempt may succeed."""
        self._failure = classify_response(self.endpoint, status, headers, body, now=self._clock.wall())
        return self._failure.error

    async def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""
        await self._clock.wait(seconds, self.io)

    def allows(self, seconds: float) -> bool:
        """Return whether the call may go on after that many seconds."""
        left = self.seconds_left
        return left is None or seconds < left

    def should_reconnect(self) -> bool:
        """Return whether to try anew because a connection was closed while it lay idle: at most once for a call.

        That says nothing about the server, so it is no retry.
        """
        if not self._reused or self._tried_anew or self._failure is None or not self._failure.dropped:
            return False
        self._tried_anew = True
        return True

    def _may_pass(self, error: Exception) -> bool:
        # A cancellation, or a stranger's exception, is never retried.
        return self._failure is not None and self._failure.error is error and self._failure.transient

    def _advised(self, _: Exception) -> float | None:
        return None if self._failure is None else self._failure.advised
