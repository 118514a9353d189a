"""Retries that follow a `RetryPolicy`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from graphexec.runtime.io import IO
from graphexec.runtime.retry_policy import RetryPolicy

T = TypeVar("T")


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
