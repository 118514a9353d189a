"""One call of a model: its attempts, its deadline, and whether to try once more."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphexec.errors import ModelError, RateLimited, ServerError
from graphexec.models.endpoint import Endpoint
from graphexec.models.failures import Failure, breakdown, refusal, timed_out
from graphexec.models.notices import Retried
from graphexec.reporting import report
from graphexec.waiting import sleep_while_waited_for

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState, Retrying

# Seconds. Half a second lets a server breathe; beyond eight, waiting longer has stopped helping.
FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
# Seconds. A server that is there takes a connection at once, however long it then thinks.
CONNECT = 10.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, and how it is let pass, in seconds. Tests have their own."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = sleep_while_waited_for
    asleep: Callable[[float], Awaitable[None]] = asyncio.sleep


# A model's `clock` where no test has its own.
REAL_TIME = Clock()


class Attempts:
    """The attempts of one call: raises the typed errors, and decides as tenacity's `stop`, `wait` and `retry`.

    `read` is the seconds that each attempt may wait for the server, `timeout` the seconds for all of them together.
    """

    def __init__(
        self, endpoint: Endpoint, clock: Clock, *, read: float, timeout: float | None, max_retries: int
    ) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._read = read
        self._deadline = math.inf if timeout is None else clock.monotonic() + timeout
        self._timeout = timeout
        self._retries_left = max_retries
        self._failure: Failure | None = None
        # Whether the connection may be one that lay idle, and whether that was already tried anew.
        self._reused = False
        self._tried_anew = False

    @property
    def left(self) -> float | None:
        """The seconds left for the whole call, or `None` where it has no deadline."""
        return None if math.isinf(self._deadline) else self._deadline - self._clock.monotonic()

    @property
    def timeouts(self) -> tuple[float, float, float, float]:
        """The client's timeouts for the next attempt, in seconds: connect, read, write, and for a free connection."""
        left = math.inf if self.left is None else max(self.left, 0.001)
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
                self._failure = Failure(error, transient=isinstance(error, ServerError | RateLimited))
            raise
        # Any exception of the client's; those of others go on as they are.
        except Exception as error:
            failure = breakdown(self.endpoint, error, seconds=self._allowed)
            if failure is None:
                raise
            self._failure = failure
            raise failure.error from error

    def check_time(self) -> None:
        """Raise `ModelTimeout` where the deadline has passed."""
        if self.left is not None and self.left <= 0:
            raise timed_out(self.endpoint, self._timeout or 0)

    def refuse(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        """Return the error of an answer that is no 200, and note whether another attempt may succeed."""
        self._failure = refusal(self.endpoint, status, headers, body, now=self._clock.wall())
        return self._failure.error

    def retrying(self) -> Retrying:
        """Return what makes the attempts of a blocking call."""
        from tenacity import Retrying

        return Retrying(sleep=self._clock.sleep, stop=self._stop, wait=self._wait, retry=self._again, reraise=True)

    def async_retrying(self) -> AsyncRetrying:
        """Return what makes the attempts of an async call."""
        from tenacity import AsyncRetrying

        return AsyncRetrying(
            sleep=self._clock.asleep, stop=self._stop, wait=self._wait, retry=self._again, reraise=True
        )

    def _again(self, state: RetryCallState) -> bool:
        """Whether what the attempt raised may pass. A cancellation, or a stranger's exception, is never retried."""
        raised = state.outcome.exception() if state.outcome is not None else None
        return self._failure is not None and self._failure.error is raised and self._failure.transient

    def _wait(self, state: RetryCallState) -> float:
        """Return the seconds before the next attempt: what the server asks for, else ever more, with jitter."""
        if self._anew:
            return 0.0
        advised = None if self._failure is None else self._failure.advised
        if advised is not None:
            return advised
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (state.attempt_number - 1))
        # Jitter keeps clients apart that failed together; it is no secret.
        return longest * random.uniform(0.5, 1.0)  # noqa: S311

    def _stop(self, state: RetryCallState) -> bool:
        """Whether to give up: no retries left, or the wait would pass the deadline. If not, the retry is reported."""
        if self._anew:
            # A connection that was closed while it lay idle says nothing about the server: this is no retry.
            self._tried_anew = True
            return False
        self._retries_left -= 1
        if self._retries_left < 0 or (self.left is not None and state.upcoming_sleep >= self.left):
            return True
        assert self._failure is not None, "only what failed is tried again"
        report(Retried(self._failure.error, state.attempt_number, state.upcoming_sleep))
        return False

    @property
    def _anew(self) -> bool:
        return self._reused and not self._tried_anew and self._failure is not None and self._failure.dropped

    @property
    def _allowed(self) -> float:
        return self._read if self._timeout is None else min(self._read, self._timeout)
