"""How an async run waits, as `threads` has it for a sync one, which need not load asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar, final

from graphexec.kernel.meters import GRACE
from graphexec.runtime.progress import Listener, heard_by
from graphexec.runtime.threads import NOT_DONE, NotDone, in_thread, somebody_waits

T = TypeVar("T")


async def from_thread(call: Callable[[], T]) -> T:
    """Await `call`, run in a thread of its own; cancelling this abandons the thread."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[T] = loop.create_future()

    def deliver(future: Future[T]) -> None:
        if waiter.done():
            return
        error = future.exception()
        if isinstance(error, StopIteration):
            # asyncio cannot carry one in a future; PEP 479 turns it into the same.
            waiter.set_exception(RuntimeError(f"{call} raised StopIteration"))
        elif error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(future.result())

    def wake(future: Future[T]) -> None:
        # The loop may be closed when an abandoned call ends at last.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, future)

    with somebody_waits() as somebody:
        in_thread(call, somebody).add_done_callback(wake)
        return await waiter


def make_check() -> Callable[[], None]:
    """Return a function that raises `CancelledError` if the running task was cancelled after this call, and hid it."""
    task = asyncio.current_task()
    assert task is not None, "a coroutine waits in a task"
    cancelled = task.cancelling()

    def check() -> None:
        if task.cancelling() > cancelled:
            raise asyncio.CancelledError

    return check


async def await_for(call: Awaitable[T], seconds: float) -> T | NotDone:
    """Return what `call` returns, or `NOT_DONE` after `seconds`.

    Unlike `asyncio.wait_for`, it does not wait for a task that ignores its cancellation, nor raise a `TimeoutError`.
    """
    return (await await_all([call], seconds, at_once=1))[0]


async def await_all(calls: Sequence[Awaitable[T]], seconds: float | None, *, at_once: int) -> tuple[T | NotDone, ...]:
    """Return the results of `calls` in their order, as `wait_for_all` does; cancelling this cancels the calls."""
    gate = asyncio.Semaphore(at_once)

    async def through(call: Awaitable[T]) -> T:
        async with gate:
            return await call

    tasks = [asyncio.ensure_future(through(call) if at_once < len(calls) else call) for call in calls]
    late = set(tasks)
    try:
        if tasks and (seconds is None or seconds > 0):
            finished, late = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
            # Asked of every one: what nobody asks for, the loop reports as never retrieved.
            failed = [one for one in tasks if one in finished and not one.cancelled() and one.exception() is not None]
            for task in failed[:1]:
                # raises what the call raised
                task.result()
        return tuple(NOT_DONE if task in late else task.result() for task in tasks)
    finally:
        await _abandon([task for task in tasks if not task.done()])
        for call in calls:
            # One that never got through the gate would be reported as never awaited.
            if inspect.iscoroutine(call) and inspect.getcoroutinestate(call) == inspect.CORO_CREATED:
                call.close()


@final
class Overheard(Generic[T]):
    """A call in a task, and what is reported meanwhile: go through the `news`, then take the `result`."""

    __slots__ = ("_call", "_task")

    def __init__(self, call: Awaitable[T]) -> None:
        self._call = call
        self._task: asyncio.Future[T] | None = None

    async def news(self) -> AsyncGenerator[object, None]:
        """What is reported, when it is; last, what the call raises is raised. Closing it abandons the call."""
        coming: asyncio.Queue[object] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        ended = object()

        def hear(one: object) -> None:
            # From whatever thread; the loop may be closed when an abandoned call reports at last.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(coming.put_nowait, one)

        async def heard() -> T:
            with heard_by(Listener(hear, pieces=True)):
                return await self._call

        task = self._task = asyncio.ensure_future(heard())
        task.add_done_callback(lambda _: hear(ended))
        try:
            while (one := await coming.get()) is not ended:
                yield one
            task.result()
        finally:
            if not task.done():
                await _abandon([task])

    @property
    def result(self) -> T:
        """What the call returned."""
        assert self._task is not None, "asked for behind the news"
        return self._task.result()


# The loop keeps none of its tasks alive: one that is abandoned and waits on is kept here until it is done.
_abandoned: set[asyncio.Future[Any]] = set()


async def _abandon(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
        _abandoned.add(task)
        task.add_done_callback(_abandoned.discard)
        # An abandoned task's exception is nobody's: look at it, so that asyncio does not report it as lost.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    if tasks:
        await asyncio.wait(tasks, timeout=GRACE)
