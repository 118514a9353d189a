"""One policy of retries, and the coroutine that follows it; callers are in tests/models and tests/tools."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.runtime import ASYNC, BLOCKING, IO
from graphexec.runtime.io import retry, run_sync
from graphexec.runtime.retry import RetryPolicy
from tests.parameters import cases
from tests.runtime.actors import cancel_when

waits = st.floats(0, 1e300)


def policy(**settings: Any) -> RetryPolicy:
    options = RetryPolicy(attempts=3, may_pass=lambda _: True, first_wait=0.5, longest_wait=8.0)
    return replace(options, **settings)


def announce(*_: object) -> None: ...


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


def in_sync(work: Callable[[IO], Coroutine[Any, Any, object]]) -> None:
    run_sync(work(BLOCKING))


def in_a_loop(work: Callable[[IO], Coroutine[Any, Any, object]]) -> None:
    asyncio.run(work(ASYNC))


@cases("how", in_sync, in_a_loop)
def test_each_wait_has_its_own_jitter_and_no_error_the_one_before(
    how: Callable[[Callable[[IO], Coroutine[Any, Any, object]]], None],
) -> None:
    errors, slept = [OSError(number) for number in range(20)], list[float]()
    left = iter(errors)

    async def attempt() -> None:
        raise next(left)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    settings = policy(attempts=20, jitter=0.5, longest_wait=0.5)
    with pytest.raises(OSError, match="19"):
        how(lambda io: retry(attempt, settings, io, announce=announce, sleep=sleep))
    assert all(0.25 <= seconds <= 0.5 for seconds in slept)
    assert len(set(slept)) > 1
    assert (errors[-1].__context__, errors[-1].__cause__) == (None, None)


def test_a_hidden_cancellation_ends_the_attempts() -> None:
    made: list[int] = []

    async def attempt() -> None:
        made.append(1)
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            raise OSError("in other words") from None

    asyncio.run(cancel_when(asyncio.sleep(0), retry(attempt, policy(), ASYNC, announce=announce)))
    assert made == [1]
