"""Retries, and their policy: a value without a clock or randomness."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, final

from graphexec.runtime.io import IO

T = TypeVar("T")

# The highest power of two that multiplies the first wait, within the range of a float.
_MOST_DOUBLINGS = 1000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The number of attempts, the errors to retry, and the seconds to wait before each retry.

    There are at most `attempts`, while `may_pass` returns that an error is temporary. The wait is the one that the
    server `advised` (a longer one than `longest_advised` ends the retries), else `first_wait`, doubled after each
    attempt up to `longest_wait`. A random part of it, up to the share `jitter`, is subtracted, so that callers that
    failed together do not retry together.
    """

    attempts: int
    may_pass: Callable[[Exception], bool]
    first_wait: float
    longest_wait: float
    jitter: float = 0.0
    advised: Callable[[Exception], float | None] = lambda _: None
    longest_advised: float = 60.0

    def wait_after(self, error: Exception, attempt: int, *, chance: float) -> float | None:
        """Return the seconds to wait after the attempt (from 1), or `None`; `chance` (0 to 1) scales the jitter."""
        if attempt >= self.attempts or not self.may_pass(error):
            return None
        advised = self.advised(error)
        if advised is not None:
            return advised if advised <= self.longest_advised else None
        longest = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS))
        return longest * (1.0 - self.jitter * chance)


async def retry(
    attempt: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    io: IO,
    *,
    announce: Callable[[Exception, int, float], None],
    sleep: Callable[[float], Awaitable[None]] | None = None,
    allows: Callable[[float], bool] = lambda _: True,
) -> T:
    """Return the result of the first attempt that succeeds, or raise the last attempt's exception.

    `announce` is called before each wait with the error, the number of the attempt and the seconds. `sleep` defaults to
    `io.sleep`. `allows` returns whether another attempt may follow after a wait of so many seconds. If the caller has
    been cancelled there is no retry: raises `AbandonedError` or `CancelledError`, even if the attempt suppressed the
    cancellation.
    """
    check = io.make_check()
    number = 1
    while True:
        try:
            return await attempt()
        except Exception as error:
            # Imported here because most runs do not need it. Jitter needs no secure randomness.
            import random

            wait = policy.wait_after(error, number, chance=random.random())  # noqa: S311
            if wait is None or not allows(wait):
                raise
            announce(error, number, wait)
        # Outside the except block, or the next error would have this one as its context.
        check()
        await (sleep or io.sleep)(wait)
        number += 1
