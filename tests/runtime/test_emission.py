"""Coroutines that emit items, in sync streams and on an event loop."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.models import retrying
from graphexec.runtime import ASYNC, BLOCKING, IO
from graphexec.runtime.emission import emit, stream_async, stream_sync
from graphexec.runtime.io import iterate_sync
from tests import garbage
from tests.models.actors import HELLO
from tests.models.call_modes import Typewriter
from tests.parameters import cases

Work = Callable[[IO], Coroutine[Any, Any, None]]


def in_sync(work: Work) -> list[Any]:
    return list(stream_sync(lambda: work(BLOCKING)))


def in_a_loop(work: Work) -> list[Any]:
    async def collect() -> list[Any]:
        return [item async for item in stream_async(lambda: work(ASYNC))]

    return asyncio.run(collect())


HOW = cases("how", in_sync, in_a_loop)
How = Callable[[Work], list[Any]]


@given(st.lists(st.one_of(st.integers(), st.just("wait"))), st.integers(0, 3), st.sampled_from([in_sync, in_a_loop]))
def test_items_come_in_order(script: list[int | str], depth: int, how: How) -> None:
    """At any depth, and with any waiting in between."""

    async def work(io: IO, left: int = depth) -> None:
        if left:
            await work(io, left - 1)
            return
        for step in script:
            if step == "wait":
                await io.sleep(0)
            else:
                await emit(step)

    assert how(work) == [step for step in script if step != "wait"]


@HOW
def test_errors_come_after_the_items(how: How) -> None:
    async def work(io: IO) -> None:
        await emit(1)
        await io.sleep(0)
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        how(work)


def begin_sync(work: Work) -> object:
    return stream_sync(lambda: work(BLOCKING))


def begin_async(work: Work) -> object:
    return stream_async(lambda: work(ASYNC))


@cases("begin", begin_sync, begin_async)
def test_unused_streams_never_begin(begin: Callable[[Work], object]) -> None:
    async def work(_: IO) -> None:
        raise AssertionError

    begin(work)
    garbage.collect()


def test_closing_a_sync_stream_cleans_up() -> None:
    cleaned: list[str] = []

    async def work(io: IO) -> None:
        try:
            await emit(1)
        finally:
            await io.sleep(0)
            cleaned.append("yes")

    items = stream_sync(lambda: work(BLOCKING))
    assert next(items) == 1
    items.close()
    assert (cleaned, list(items)) == (["yes"], [])


@cases("closing", "aclose", "forget", "end of the loop")
def test_closing_an_async_stream_waits_for_its_cleanup(closing: str) -> None:
    cleaned: list[str] = []

    async def work(io: IO) -> None:
        try:
            await emit(1)
        finally:
            await io.sleep(0.001)
            # The consumer has gone.
            await emit(2)
            await io.sleep(0)
            cleaned.append("yes")

    held: list[Any] = []

    async def main() -> None:
        items = stream_async(lambda: work(ASYNC))
        assert await anext(items) == 1
        if closing == "aclose":
            await items.aclose()
            assert cleaned == ["yes"]
        elif closing == "forget":
            del items
            garbage.collect()
            await asyncio.sleep(0.05)
            assert cleaned == ["yes"]
        else:
            held.append(items)

    asyncio.run(main())
    assert cleaned == ["yes"]


def test_a_cancellation_reaches_the_coroutine() -> None:
    seen: list[str] = []

    async def work(io: IO) -> None:
        await emit(1)
        try:
            await io.sleep(1000)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main() -> None:
        items = stream_async(lambda: work(ASYNC))
        await anext(items)
        task = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [item async for item in items] == []

    asyncio.run(main())
    assert seen == ["cancelled"]


def test_sync_stream_must_not_await_an_event_loop() -> None:
    async def work() -> None:
        await emit(1)
        await asyncio.sleep(0)

    items = stream_sync(work)
    assert next(items) == 1
    with pytest.raises(RuntimeError, match="something in this sync stream awaited the event loop; use the async form"):
        next(items)


def numbers() -> Generator[int, None, None]:
    async def count(io: IO) -> AsyncGenerator[int, None]:
        items = io.iterate(lambda: range(3), no_items)
        async with aclosing(items):
            async for item in items:
                yield item

    async def no_items() -> AsyncGenerator[int, None]:
        raise AssertionError
        yield

    return iterate_sync(count(BLOCKING))


@cases("begin", numbers, lambda: retrying(Typewriter(["abc"])).stream(HELLO))
def test_sync_streams_outlive_the_loop_they_began_under(begin: Callable[[], Generator[Any, None, None]]) -> None:
    """An event loop closes async generators that began under it, but not a sync stream."""

    async def main() -> tuple[Any, Generator[Any, None, None]]:
        items = begin()
        return next(items), items

    first, rest = asyncio.run(main())
    assert [first, *rest] == list(begin())
