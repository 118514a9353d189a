"""Async functions for blocking callers: results, errors, context variables, and what is cancelled."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextvars import ContextVar

import pytest

from graphexec.runtime.background_loop import BACKGROUND, BackgroundLoop
from graphexec.runtime.threads import NOT_DONE, wait_for

PLACE: ContextVar[str] = ContextVar("place")


async def count(ended: threading.Event) -> AsyncGenerator[int, None]:
    try:
        for number in range(3):
            yield number
        await asyncio.sleep(60)
    finally:
        ended.set()


def test_all_calls_run_on_one_loop_in_the_callers_context() -> None:
    async def tell() -> tuple[str, int]:
        return PLACE.get(), id(asyncio.get_running_loop())

    PLACE.set("here")
    first, second = BACKGROUND.run(tell), BACKGROUND.run(tell)
    assert (first, first[0]) == (second, "here")


def test_error_is_raised_in_the_caller() -> None:
    async def fail() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        BACKGROUND.run(fail)


def test_closed_iteration_cancels_its_task() -> None:
    ended = threading.Event()
    items = BACKGROUND.iterate(lambda: count(ended))
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    items.close()
    assert ended.wait(10)


def test_cancelled_caller_cancels_its_task() -> None:
    ended = threading.Event()
    assert wait_for(lambda: list(BACKGROUND.iterate(lambda: count(ended))), 0.05) is NOT_DONE
    assert ended.wait(10)


def test_forked_process_has_a_loop_of_its_own() -> None:
    loop = BackgroundLoop()

    async def tell() -> int:
        return threading.get_ident()

    before = loop.run(tell)
    loop.reset_after_fork()
    assert loop.run(tell) != before
