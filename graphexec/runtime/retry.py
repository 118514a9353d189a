"""Retries: one coroutine, which follows a `RetryPolicy`."""

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
    """Return the result of the first attempt that does not fail, or raise what the last one raised.

    `announce` is called before each wait: the error, the number of the attempt, the seconds. `sleep` is `io.sleep`
    unless given. `allows` says whether there may be another attempt after so many seconds. A caller who has stopped
    waiting gets no retry: raises `AbandonedError`, or `CancelledError`, also where the attempt hid that it was
    cancelled.
    """
    check = io.make_check()
    number = 1
    while True:
        try:
            return await attempt()
        except Exception as error:
            # Not loaded by those for whom nothing ever fails. Jitter needs no secure randomness.
            import random

            wait = policy.wait_after(error, number, chance=random.random())  # noqa: S311
            if wait is None or not allows(wait):
                raise
            announce(error, number, wait)
        # Not in the handler, or the next error would have this one as its context.
        check()
        await (sleep or io.sleep)(wait)
        number += 1
