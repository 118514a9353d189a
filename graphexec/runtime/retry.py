"""The policy of retries: a value without a clock or randomness, which `io.retry` follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final


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
        # A power of two within the range of a float.
        longest = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt - 1, 1000))
        return longest * (1.0 - self.jitter * chance)
