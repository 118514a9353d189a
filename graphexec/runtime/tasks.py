"""Waiting in async runs. `threads` does the same for sync runs, which do not import asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, NamedTuple, Self, TypeVar, final

from graphexec.errors import EventLoopError
from graphexec.kernel.meters import GRACE
from graphexec.runtime.calls import adopt, current_listener, run_of_call, scope_of
from graphexec.runtime.threads import (
    MOST_REPORTS,
    NOT_DONE,
    CallUpdate,
    End,
    NotDone,
    Room,
    current_cancel_scope,
    open_cancel_scope,
    run_in_thread,
    wait_for,
)

T = TypeVar("T")


def require_event_loop() -> None:
    """Raise `EventLoopError` unless a task on asyncio's event loop runs this code."""
    if has_event_loop() and asyncio.current_task() is not None:
        return
    raise EventLoopError(
        "an async call of graphexec needs asyncio, and no event loop of asyncio runs it; call a sync method, such as "
        "executor.invoke(inputs) (under trio: await trio.to_thread.run_sync(executor.invoke, inputs)), or run it with "
        "asyncio.run(...)"
    )


def _call_on(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    """Let a loop call a function soon, from any thread; not if the loop has been closed meanwhile."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


async def call_in_thread(call: Callable[[], T]) -> T:
    """Run `call` in a separate thread and await its result; cancelling this abandons the thread."""
    require_event_loop()
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[End[T]] = loop.create_future()

    def deliver(end: End[T]) -> None:
        # It may be cancelled; and not asked before, since a signal handler of asyncio may cancel it in between.
        with contextlib.suppress(asyncio.InvalidStateError):
            ended.set_result(end)

    with open_cancel_scope() as scope:
        context = run_in_thread(call, scope, partial(_call_on, loop, deliver))
        try:
            return (await ended)()
        finally:
            if not scope.cancelled:
                adopt(context)


@final
class _Interrupted(BaseException):
    """Carries an interrupt from a task to its caller; asyncio would raise it out of the loop."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def has_event_loop() -> bool:
    """Return whether an event loop runs; none does where a coroutine is closed that has outlived its loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _carry(call: Callable[[], Awaitable[T]]) -> T:
    try:
        return await call()
    except GeneratorExit:
        # Closed, perhaps after the loop has ended.
        raise
    except BaseException as error:
        if not has_event_loop():
            # Closed after its loop, and a function failed in its cleanup. Python would report any other exception.
            raise GeneratorExit from None
        is_interrupt = isinstance(error, (KeyboardInterrupt, SystemExit))
        if asyncio.current_task() not in _abandoned:
            if not is_interrupt:
                raise
            raise _Interrupted(error) from None
        if is_interrupt:
            raise
        # No caller is left; `asyncio.run` would report it when it cancels the remaining tasks.
        raise asyncio.CancelledError from None


def start(call: Callable[[], Awaitable[T]], context: Context | None = None) -> asyncio.Task[T]:
    """Start a task for `result_of`; asyncio does not report its exception as never retrieved."""
    task = asyncio.create_task(_carry(call), context=context)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def result_of(task: asyncio.Task[T]) -> T:
    """Return the result of a task made by `start`, or raise its exception, including an interrupt."""
    if not task.cancelled() and isinstance(carried := task.exception(), _Interrupted):
        raise carried.error
    return task.result()


def make_check() -> Callable[[], None]:
    """Return a function that raises `CancelledError` if the current task was cancelled since and suppressed it."""
    require_event_loop()
    task = asyncio.current_task()
    assert task is not None, "it runs this code"
    cancelled = task.cancelling()

    def check() -> None:
        if task.cancelling() > cancelled:
            raise asyncio.CancelledError

    return check


async def await_for(call: Callable[[], Awaitable[T]], seconds: float, *, detach: bool = False) -> T | NotDone:
    """Return the result of `call()`, or `NOT_DONE` after `seconds`; then it is cancelled, unless it is to `detach`.

    It does not start if `seconds` is 0 or less. Cancelling this cancels it. Unlike `asyncio.wait_for`, it neither waits
    for a task that ignores its cancellation nor raises `TimeoutError`.
    """
    if seconds <= 0:
        return NOT_DONE
    context = copy_context()
    task = start(call, context)
    try:
        await asyncio.wait([task], timeout=seconds)
        if task.done():
            adopt(context)
            return result_of(task)
        if detach:
            _keep(task)
        return NOT_DONE
    finally:
        if not (task.done() or task in _abandoned):
            await abandon([task])


@final
class _ThreadReport(NamedTuple):
    """A report from a thread; taking it makes room for another one."""

    news: object


@final
class CallTaskGroup(Generic[T]):
    """Calls in tasks, whose results and reports are taken one by one as they come, as in `ThreadGroup`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._tasks: dict[int, asyncio.Task[T]] = {}
        self._coming: deque[CallUpdate] = deque()
        self._news = asyncio.Event()
        self._taken = asyncio.Event()
        # Limits the reports from threads.
        self._room = Room()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        self._room.give()
        await abandon([task for task in self._tasks.values() if not task.done()])

    def start(self, position: int, call: Callable[[], Awaitable[T]]) -> None:
        """Start a call."""
        task = self._tasks[position] = start(call)
        task.add_done_callback(partial(self._end, position))

    def report(self, position: int, news: object) -> None:
        """Add a report of the call at this position, from any thread; other threads than the loop's wait for room."""
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._add, (position, None, news))
            return
        self._room.take()
        if self._closed:
            # The report is dropped, and so are those of other waiting threads.
            self._room.give()
            return
        _call_on(self._loop, self._add, (position, None, _ThreadReport(news)))

    async def room(self) -> None:
        """Wait until the reports are taken."""
        # The loop adds pending reports first.
        await asyncio.sleep(0)
        while len(self._coming) >= MOST_REPORTS:
            self._taken.clear()
            await self._taken.wait()

    async def take(self, seconds: float | None) -> CallUpdate | None:
        """Return the next result or report, or `None` after `seconds`."""
        if not self._coming and (seconds is None or seconds > 0):
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        # asyncio runs done callbacks one iteration later.
        while not self._coming and any(task.done() for task in self._tasks.values()):  # noqa: ASYNC110 - this is brief
            await asyncio.sleep(0)
        if not self._coming:
            return None
        position, result, news = self._coming.popleft()
        self._taken.set()
        if type(news) is _ThreadReport:
            self._room.give()
            news = news.news
        # As in `ThreadGroup`: a call that reports endlessly ends, too.
        return None if result is None and self._room.is_late(seconds) else (position, result, news)

    def _end(self, position: int, done: asyncio.Task[T]) -> None:
        del self._tasks[position]
        self._add((position, partial(result_of, done), None))

    def _add(self, update: CallUpdate) -> None:
        self._coming.append(update)
        # As in `call_in_thread`.
        with contextlib.suppress(asyncio.InvalidStateError):
            self._news.set()


# The event loop keeps only weak references to tasks; an abandoned task is kept here until it is done.
_abandoned: set[asyncio.Task[Any]] = set()


async def abandon(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait briefly for them; one that ignores its cancellation continues unattended."""
    for task in tasks:
        task.cancel()
        _keep(task)
    if tasks:
        await asyncio.wait(tasks, timeout=GRACE)


def _keep(task: asyncio.Task[Any]) -> None:
    _abandoned.add(task)
    task.add_done_callback(_abandoned.discard)


@final
class OwnLoop:
    """An event loop that runs one async function after another, each in the thread of its call.

    A function that begins while another one runs has a loop of its own.
    """

    def __init__(self) -> None:
        # The loop, unless a call has it.
        self._free: asyncio.Runner | None = None
        self._closed = False
        self._lock = threading.RLock()

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what the function returns; context variables that it sets are set here."""
        with self._lock:
            runner, self._free = self._free or asyncio.Runner(), None
        context = copy_context()
        try:
            result: T = runner.run(main(), context=context)
            return result
        finally:
            adopt(context)
            with self._lock:
                keeps = self._free is None and not self._closed
                self._free = runner if keeps else self._free
            if not keeps:
                runner.close()

    def close(self) -> None:
        """Cancel what still runs on the loop, and close it, in a thread, since this one may have a loop.

        In a context of its own: a caller that has been cancelled closes it, too.
        """
        with self._lock:
            runner, self._free, self._closed = self._free, None, True
        if runner is not None:
            Context().run(wait_for, runner.close, None)


def run_on_own_loop(call: Callable[[], Awaitable[T]]) -> T:
    """Run an async function in a sync run: in a separate thread, on the event loop of the run, or on another one.

    It is cancelled with its caller.
    """

    async def main() -> T:
        loop, task, scope = asyncio.get_running_loop(), asyncio.current_task(), current_cancel_scope()
        assert task is not None, "a loop runs tasks"
        assert scope is not None, "a call in a thread has one"

        with scope.on_cancel(partial(_call_on, loop, task.cancel)):
            return await call()

    run = run_of_call()
    while run is not None and run.host is not None:
        # A connection serves the runs that are nested in a run, too.
        run = scope_of(run.host)
    own: OwnLoop = OwnLoop() if run is None or run.loop is None else run.loop
    if run is not None:
        run.loop = own
    try:
        result = wait_for(lambda: own.run(main), None, current_listener())
    finally:
        if run is None:
            own.close()
    assert not isinstance(result, NotDone), "it has no limit"
    return result
