"""The policy of retries: a value without a clock or randomness, which `io.retry` follows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast, final

from graphexec._arguments import Constraint
from graphexec.errors import ModelConnectionError, ModelTimeoutError, RateLimitError, ServerError

# The failures of a model that may pass.
TRANSIENT_ERRORS: tuple[type[Exception], ...] = (
    RateLimitError,
    ServerError,
    ModelConnectionError,
    ModelTimeoutError,
)
# Which errors: classes, or a function that tells.
ErrorTest: TypeAlias = Sequence[type[Exception]] | Callable[[Exception], bool]


def is_error_test(value: object) -> bool:
    """Return whether a value is an `ErrorTest`."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return callable(value) and not isinstance(value, type) and not inspect.iscoroutinefunction(value)
    return all(isinstance(one, type) and issubclass(one, Exception) for one in cast("Sequence[object]", value))


# Users may pass a single class, or asyncio.CancelledError.
ERRORS = Constraint("a tuple of classes of exceptions, or a function (def) of the error", is_error_test)


def to_predicate(on: ErrorTest) -> Callable[[Exception], bool]:
    """Return the function that tells."""
    if callable(on):
        return on
    classes = tuple(on)
    return lambda error: isinstance(error, classes)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The number of attempts, the errors to retry, and the seconds to wait before each retry.

    There are at most `attempts`, while `may_pass` returns that an error is temporary. The wait is the one that the
    server `advised` (a longer one than `longest_advised` ends the retries), else `first_wait`, `factor` times as long
    after each attempt, up to `longest_wait`. A random part of it, up to the share `jitter`, is subtracted, so that
    callers that failed together do not retry together.
    """

    attempts: int
    may_pass: Callable[[Exception], bool]
    first_wait: float
    longest_wait: float
    factor: float = 2.0
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
        # A power within the range of a float: `FACTOR` allows at most ten.
        longest = min(self.longest_wait, self.first_wait * self.factor ** min(attempt - 1, 300))
        return longest * (1.0 - self.jitter * chance)
