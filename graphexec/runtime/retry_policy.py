"""The policy of retries: a value, which has no clock and no randomness; `retry` follows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

# The highest power of two by which a first wait is multiplied; a float's own end is beyond.
_MOST_DOUBLINGS = 1000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often to try, after which errors, and how many seconds to wait before each retry.

    There are up to `attempts`, as long as `may_pass` says that an error may pass. The wait is what the other side
    `advised` (more than `longest_advised` ends the retries), else `first_wait`, doubled after each attempt up to
    `longest_wait`, less up to the share `jitter` of it by chance, which keeps callers apart that failed together.
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
