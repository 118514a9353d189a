"""An event loop in a thread of its own, for async clients in sync runs: their connections belong to one loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import aclosing, nullcontext, suppress
from queue import SimpleQueue
from typing import Any, TypeVar, final

from graphexec.runtime.calls import ForkSafeLock, reset_after_fork
from graphexec.runtime.io import IO
from graphexec.runtime.threads import check_cancelled, current_cancel_scope, get_within

T = TypeVar("T")


@final
class BackgroundLoop:
    """Runs async functions for blocking callers, all on one loop, whose thread starts with the first call."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = ForkSafeLock()
        reset_after_fork(self)

    def reset_after_fork(self) -> None:
        """Forget the loop, whose thread is not in the forked process."""
        self._loop = None

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what `call()` gives when it is awaited. It is cancelled with the caller."""

        async def once() -> AsyncGenerator[T, None]:
            yield await call()

        (result,) = self.iterate(once)
        return result

    def iterate(self, begin: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
        """Yield the items of `begin()`, which runs in one task; closing this, or cancelling the caller, cancels it."""
        items: SimpleQueue[tuple[T] | None] = SimpleQueue()

        async def pump() -> None:
            async with aclosing(begin()) as given:
                async for item in given:
                    items.put((item,))

        task = asyncio.run_coroutine_threadsafe(pump(), self.start())
        task.add_done_callback(lambda _: items.put(None))
        scope = current_cancel_scope()
        try:
            with nullcontext() if scope is None else scope.on_cancel(task.cancel):
                while (item := get_within(items, None)) is not None:
                    yield item[0]
            check_cancelled()
            task.result()
        finally:
            task.cancel()

    def start(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs in its thread from now on."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="graphexec clients", daemon=True).start()
            return self._loop


BACKGROUND = BackgroundLoop()


async def call_client(io: IO, blocking: Callable[[], Any] | None, awaiting: Callable[[], Any] | None) -> Any:
    """Return the result of a client that has one of both forms, in a sync or an async run."""
    if blocking is not None:
        return await io.call(blocking)
    assert awaiting is not None, "a client has one of both"
    return await io.either(lambda: BACKGROUND.run(awaiting), awaiting)


async def iterate_client(
    io: IO, blocking: Callable[[], Iterable[Any]] | None, awaiting: Callable[[], AsyncGenerator[Any, None]] | None
) -> AsyncGenerator[Any, None]:
    """Yield the items of a client that has one of both forms, in a sync or an async run."""
    if awaiting is not None:
        async with aclosing(io.iterate(lambda: BACKGROUND.iterate(awaiting), awaiting)) as items:
            async for item in items:
                yield item
        return
    assert blocking is not None, "a client has one of both"
    given = iter(await io.call(blocking))
    end = object()
    try:
        while (item := await io.call(next, given, end)) is not end:
            yield item
    finally:
        # A thread that still waits for the next item closes them at its own timeout.
        with suppress(ValueError):
            await io.call(getattr(given, "close", lambda: None))
