"""How an async run waits, as `threads` has it for a sync one, which need not load asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, NamedTuple, Self, TypeVar, final

from graphexec.kernel.meters import GRACE
from graphexec.runtime.threads import MOST_REPORTS, NOT_DONE, NotDone, in_thread, somebody_waits

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
        for task in tasks:
            # One that is done is not asked either, where this is cancelled.
            task.add_done_callback(look_at)
        await abandon([task for task in tasks if not task.done()])
        for call in calls:
            # One that never got through the gate would be reported as never awaited.
            if inspect.iscoroutine(call) and inspect.getcoroutinestate(call) == inspect.CORO_CREATED:
                call.close()


async def await_or_leave(call: Callable[[], Awaitable[T]], seconds: float) -> T | NotDone:
    """Return what `call()` returns, or `NOT_DONE` after `seconds`: then it runs on by itself, and is not cancelled.

    It is not begun without seconds. Cancelling this cancels it.
    """
    if seconds <= 0:
        return NOT_DONE
    task = asyncio.ensure_future(call())
    try:
        await asyncio.wait([task], timeout=seconds)
    except BaseException:
        await abandon([task])
        raise
    if task.done():
        return task.result()
    _keep(task)
    return NOT_DONE


@final
class _Held(NamedTuple):
    """What a thread reports, which makes room when it is taken."""

    news: object


@final
class TaskCrew(Generic[T]):
    """Calls in tasks, whose results and reports are taken one by one, as they come: `Crew` has it for threads."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._tasks: dict[int, asyncio.Future[T]] = {}
        self._coming: deque[tuple[int, asyncio.Future[T] | None, object]] = deque()
        self._news = asyncio.Event()
        self._taken = asyncio.Event()
        # For what threads report.
        self._room = threading.Semaphore(MOST_REPORTS)
        self._left = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._left = True
        self._room.release()
        await abandon([task for task in self._tasks.values() if not task.done()])

    def start(self, position: int, call: Callable[[], Awaitable[T]]) -> None:
        """Start a call."""
        task = self._tasks[position] = asyncio.ensure_future(call())
        task.add_done_callback(partial(self._end, position))

    def report(self, position: int, news: object) -> None:
        """Take in a report of the call at this position, from whatever thread; another one waits for room."""
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._put, (position, None, news))
            return
        self._room.acquire()
        if self._left:
            # Nobody hears it, nor what others wait to report.
            self._room.release()
            return
        # The loop may be closed when an abandoned call reports at last.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._put, (position, None, _Held(news)))

    async def room(self) -> None:
        """Wait until the reports are taken."""
        # What was reported just now is put by the loop.
        await asyncio.sleep(0)
        while len(self._coming) >= MOST_REPORTS:
            self._taken.clear()
            await self._taken.wait()

    async def take(self, seconds: float | None) -> tuple[int, asyncio.Future[T] | None, object] | None:
        """Return what comes next, or `None` after `seconds`."""
        if not self._coming and (seconds is None or seconds > 0):
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        # asyncio tells a turn later that a task is done.
        while not self._coming and any(task.done() for task in self._tasks.values()):  # noqa: ASYNC110 - it is soon
            await asyncio.sleep(0)
        if not self._coming:
            return None
        position, done, news = self._coming.popleft()
        self._taken.set()
        if type(news) is _Held:
            self._room.release()
            news = news.news
        return position, done, news

    def _end(self, position: int, done: asyncio.Future[T]) -> None:
        look_at(done)
        del self._tasks[position]
        self._put((position, done, None))

    def _put(self, came: tuple[int, asyncio.Future[T] | None, object]) -> None:
        self._coming.append(came)
        self._news.set()


# The loop keeps none of its tasks alive: one that is abandoned and waits on is kept here until it is done.
_abandoned: set[asyncio.Future[Any]] = set()


async def abandon(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait a moment for them; one that goes on is nobody's."""
    for task in tasks:
        task.cancel()
        _keep(task)
    if tasks:
        await asyncio.wait(tasks, timeout=GRACE)


def _keep(task: asyncio.Future[Any]) -> None:
    _abandoned.add(task)
    task.add_done_callback(_abandoned.discard)
    # An abandoned task's exception is nobody's.
    task.add_done_callback(look_at)


def look_at(done: asyncio.Future[Any]) -> None:
    """Look at a task's exception, so that asyncio does not report it as lost where nobody asks for it."""
    if not done.cancelled():
        done.exception()
