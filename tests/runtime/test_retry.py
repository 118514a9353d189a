"""One policy of retries, and the coroutine that follows it. No test waits: sleeping is a list of seconds."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.errors import AbandonedError
from graphexec.runtime import ASYNC, BLOCKING, IO
from graphexec.runtime.io import retry, run_sync
from graphexec.runtime.retry import RetryPolicy
from graphexec.runtime.threads import open_cancel_scope
from tests.parameters import cases
from tests.runtime.actors import cancel_when, start_in_thread

waits = st.floats(0, 1e300)


def os_errors(error: Exception) -> bool:
    return isinstance(error, OSError)


def policy(**settings: Any) -> RetryPolicy:
    return replace(RetryPolicy(attempts=3, may_pass=os_errors, first_wait=0.5, longest_wait=8.0), **settings)


class Try:
    """An attempt that raises these errors and then returns its number; it records announcements and sleeps."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.made = 0
        self.announced: list[tuple[Exception, int, float]] = []
        self.slept: list[float] = []

    async def __call__(self) -> int:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.made

    def announce(self, error: Exception, attempt: int, wait: float) -> None:
        self.announced.append((error, attempt, wait))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def retry(self, by: RetryPolicy, io: IO, **settings: Any) -> int:
        return await retry(self, by, io, announce=self.announce, sleep=self.sleep, **settings)


def in_sync(one: Try, by: RetryPolicy, **settings: Any) -> int:
    return run_sync(one.retry(by, BLOCKING, **settings))


def in_a_loop(one: Try, by: RetryPolicy, **settings: Any) -> int:
    return asyncio.run(one.retry(by, ASYNC, **settings))


HOW = cases("how", in_sync, in_a_loop)
How = Callable[..., int]


@given(st.integers(1, 10), st.integers(1, 10_000), waits, waits, st.floats(0, 1), st.floats(0, 1))
def test_waits_double_up_to_the_longest(
    attempts: int, attempt: int, first: float, longest: float, jitter: float, chance: float
) -> None:
    made = policy(attempts=attempts, first_wait=first, longest_wait=longest, jitter=jitter)
    wait = made.wait_after(OSError(), attempt, chance=chance)
    if attempt >= attempts:
        assert wait is None
        return
    assert wait is not None
    whole = min(longest, first * 2 ** (attempt - 1))
    assert whole * (1 - jitter) <= wait * (1 + 1e-9)
    assert 0 <= wait <= whole
    assert made.wait_after(OSError(), attempt, chance=0) == whole
    assert math.isfinite(wait)


@given(advised=st.none() | waits, longest=waits)
def test_advice_replaces_the_wait(advised: float | None, longest: float) -> None:
    def advise(_: Exception) -> float | None:
        return advised

    made = policy(advised=advise, longest_advised=longest)
    expected = 0.5 if advised is None else advised if advised <= longest else None
    assert made.wait_after(OSError(), 1, chance=0) == expected


@given(st.integers(1, 6), st.integers(0, 8), st.sampled_from([in_sync, in_a_loop]))
def test_attempts_are_as_many_as_allowed(attempts: int, failures: int, how: How) -> None:
    errors = [OSError(number) for number in range(failures)]
    one = Try(*errors)
    if failures < attempts:
        assert how(one, policy(attempts=attempts)) == failures + 1
    else:
        with pytest.raises(OSError, match=str(attempts - 1)):
            how(one, policy(attempts=attempts))
    retries = min(failures, attempts - 1)
    assert one.made == min(failures + 1, attempts)
    assert one.announced == [(errors[number], number + 1, one.slept[number]) for number in range(retries)]
    assert one.slept == [min(8.0, 0.5 * 2**number) for number in range(retries)]


@HOW
def test_each_wait_has_its_own_jitter(how: How) -> None:
    one = Try(*[OSError()] * 20)
    how(one, policy(attempts=21, jitter=0.5, longest_wait=0.5))
    assert all(0.25 <= seconds <= 0.5 for seconds in one.slept)
    assert len(set(one.slept)) > 1


@HOW
def test_no_wait_exceeds_the_allowed_time(how: How) -> None:
    asked: list[float] = []

    def allows(seconds: float) -> bool:
        asked.append(seconds)
        return seconds < 1

    one = Try(OSError("a"), OSError("b"), OSError("c"))
    with pytest.raises(OSError, match="b"):
        how(one, policy(), allows=allows)
    assert (asked, one.slept) == ([0.5, 1.0], [0.5])


@HOW
def test_errors_are_not_chained(how: How) -> None:
    first, last = OSError("first"), OSError("last")
    with pytest.raises(OSError, match="last"):
        how(Try(first, last), policy(attempts=2))
    assert last.__context__ is None
    assert last.__cause__ is None


def test_an_abandoned_thread_makes_no_further_attempt() -> None:
    one = Try(OSError(), OSError())

    def leave(_: Exception, __: int, ___: float) -> None:
        scope.cancel()

    async def run() -> int:
        return await retry(one, policy(), BLOCKING, announce=leave, sleep=one.sleep)

    with open_cancel_scope() as scope:
        error = start_in_thread(lambda: run_sync(run()), scope).exception(10)
    assert isinstance(error, AbandonedError)
    assert (one.made, one.slept) == (1, [])


def test_a_hidden_cancellation_ends_the_attempts() -> None:
    made: list[int] = []

    async def attempt() -> None:
        made.append(1)
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            raise OSError("in other words") from None

    def announce(*_: object) -> None: ...

    asyncio.run(cancel_when(asyncio.sleep(0), retry(attempt, policy(), ASYNC, announce=announce)))
    assert made == [1]
