"""How a sync run waits: threads that can be abandoned, deadlines, and several calls at once.

Python can interrupt neither a blocking call nor a coroutine that ignores its cancellation. So a call with a deadline
runs in a thread or a task of its own, which is abandoned at the deadline: a daemon thread runs on to its end. Threads
are used again; calls that were abandoned and still run are counted, and are no more than `MOST_ABANDONED`.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, Self, TypeAlias, TypeVar, final

from graphexec.errors import AbandonedError, ThreadLimitError

T = TypeVar("T")

# How many calls may have been abandoned and still run: past it something never ends, and each takes memory.
MOST_ABANDONED = 256

# Threads that wait for work, and for how many seconds: then they end.
_MOST_IDLE, _IDLE_SECONDS = 64, 10.0

# Reports that a call may be ahead of whoever takes them.
MOST_REPORTS = 64


@final
class NotDone:
    """What stands in the place of a result that did not come in time."""

    __slots__ = ()


NOT_DONE = NotDone()


@final
class CancelScope:
    """Whoever waits for a call, as the call can know it: what it does is ended when nobody waits any more."""

    __slots__ = ("_listeners", "_lock", "_running", "gone")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[Callable[[], object]] = set()
        self._running = 0
        self.gone = False

    def begin(self) -> None:
        """Take note that a thread begins a call. Raises `AbandonedError` if nobody waits for it any more."""
        with self._lock:
            self.check()
            self._running += 1

    def end(self) -> None:
        """Take note of the end of such a call."""
        with self._lock:
            self._running -= 1
            gone = self.gone
        if gone:
            _threads.abandon(-1)

    def check(self) -> None:
        """Raise `AbandonedError` if nobody waits any more: what goes on would be spent for nobody."""
        if self.gone:
            raise AbandonedError("nobody waits for this call any more, so it goes no further")

    def leave(self) -> None:
        """Tell those who listen that nobody waits any more."""
        with self._lock:
            if self.gone:
                return
            self.gone = True
            listeners, running = list(self._listeners), self._running
        if running:
            _threads.abandon(running)
        for listener in listeners:
            listener()

    @contextmanager
    def on_cancel(self, listener: Callable[[], object]) -> Generator[None, None, None]:
        """Call `listener` when the waiter leaves meanwhile, or has left already."""
        with self._lock:
            self._listeners.add(listener)
            gone = self.gone
        if gone:
            listener()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)


_waiter: contextvars.ContextVar[CancelScope | None] = contextvars.ContextVar("graphexec_waiter", default=None)


def current_cancel_scope() -> CancelScope | None:
    """Return who waits for what this thread does, if it is a call's."""
    return _waiter.get()


@contextmanager
def open_cancel_scope() -> Generator[CancelScope, None, None]:
    """Wait as somebody who leaves at the end, or when whoever waits for this thread leaves."""
    waiter = CancelScope()
    outer = _waiter.get()
    with outer.on_cancel(waiter.leave) if outer else nullcontext():
        try:
            yield waiter
        finally:
            waiter.leave()


# What a thread takes its work from: the number of a call, and the call.
_Job: TypeAlias = tuple[int, Callable[[], Callable[[], object]]]
_Inbox: TypeAlias = "SimpleQueue[_Job]"


@final
class _Threads:
    """Daemon threads that are used again. No pool of the library's: its threads would be joined at exit."""

    def __init__(self) -> None:
        self.abandoned = 0
        # The number of the last call, and the threads of those that are not done.
        self.last = 0
        self.running: dict[int, int | None] = {}
        self._lock = threading.Lock()
        self._idle: list[_Inbox] = []

    def run(self, work: Callable[[], Callable[[], object]], *, capped: bool) -> None:
        """Run something in a thread, and then what it returns, when the thread may be used again.

        Raises `ThreadLimitError` where too many were abandoned, if it is `capped`, or none can be had.
        """
        if capped and self.abandoned >= MOST_ABANDONED:
            raise ThreadLimitError(
                f"{self.abandoned} calls that were cut off still run in their threads, so no more are begun; give what "
                "hangs a time limit of its own (an HTTP timeout, say)"
            )
        with self._lock:
            self.last += 1
            job = self.last, work
            # Which thread it is in, once it is.
            self.running[self.last] = None
            inbox = self._idle.pop() if self._idle else None
        if inbox is not None:
            inbox.put(job)
            return
        inbox = SimpleQueue[_Job]()
        inbox.put(job)
        try:
            threading.Thread(target=self._serve, args=(inbox,), name="graphexec-call", daemon=True).start()
        except RuntimeError as error:
            del self.running[job[0]]
            raise ThreadLimitError(
                f"no thread can be started ({error}); run fewer calls at once (tool_concurrency=8, say)"
            ) from error

    def abandon(self, number: int) -> None:
        """Count calls that nobody waits for any more, or, below 0, that have ended since."""
        with self._lock:
            self.abandoned += number

    def _serve(self, inbox: _Inbox) -> None:
        while True:
            try:
                number, work = inbox.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue
            self.running[number] = threading.get_ident()
            deliver = work()
            # Before the result is there: whoever has it may ask for a thread at once.
            with self._lock:
                idle = len(self._idle) < _MOST_IDLE
                if idle:
                    self._idle.append(inbox)
            deliver()
            del self.running[number], work, deliver
            if not idle:
                return

    def reset(self) -> None:
        """Forget the threads: a forked process has none of them."""
        self.__init__()


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.reset)


def count_abandoned() -> int:
    """Return how many calls were abandoned and still run in a thread."""
    return _threads.abandoned


def last_call() -> int:
    """Return the number of the last call in a thread."""
    return _threads.last


def threads_since(number: int) -> list[int | None]:
    """Return the threads of later calls that are not done; `None` for one that no thread has begun."""
    return [thread for call, thread in list(_threads.running.items()) if call > number]


def start_in_thread(call: Callable[[], T], waiter: CancelScope | None = None, *, capped: bool = True) -> Future[T]:
    """Start `call` in a daemon thread, with a copy of the caller's context variables; return its future.

    Where the `waiter` leaves before the thread has begun it is not called. Raises `ThreadLimitError` where there is no
    thread for it; then the call has not begun. One that is not `capped` goes on for a call that was abandoned.
    """
    future: Future[T] = Future()
    context = contextvars.copy_context()
    context.run(_waiter.set, waiter)

    def counted() -> T:
        if waiter is None:
            return call()
        waiter.begin()
        try:
            return call()
        finally:
            waiter.end()

    def work() -> Callable[[], object]:
        try:
            result = context.run(counted)
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to whoever waits
            failure = error
            return lambda: future.set_exception(failure)
        return lambda: future.set_result(result)

    _threads.run(work, capped=capped)
    return future


def wait_for(call: Callable[[], T], seconds: float) -> T | NotDone:
    """Return what `call` returns, or `NOT_DONE` after `seconds`. What `call` raises is raised, a `TimeoutError` too."""
    if seconds <= 0:
        return NOT_DONE
    finished = threading.Event()
    with open_cancel_scope() as waiter:
        future = start_in_thread(call, waiter)
        future.add_done_callback(lambda _: finished.set())
        return future.result() if finished.wait(min(seconds, threading.TIMEOUT_MAX)) else NOT_DONE


@final
class _Batch(Generic[T]):
    """Calls that share a queue: at most `width` threads work it off, until it is closed."""

    def __init__(self, calls: Sequence[Callable[[], T]], width: int, waiter: CancelScope) -> None:
        self.results: list[T | NotDone] = [NOT_DONE] * len(calls)
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self._calls = iter(enumerate(calls))
        self._left = len(calls)
        self._lock = threading.Lock()
        for _ in range(min(width, len(calls))):
            start_in_thread(self._work, waiter)

    def _work(self) -> None:
        while (claimed := self._claim()) is not None:
            position, call = claimed
            try:
                # A context of its own, as a task has: what one call sets, the next one in this thread does not see.
                result: T | NotDone = contextvars.copy_context().run(call)
            except BaseException as error:  # noqa: BLE001 - the first error is raised where the batch is waited for
                with self._lock:
                    # What is raised after the end, a cancellation say, is nobody's.
                    if not self.ended.is_set():
                        self.error = error
                        self.ended.set()
                return
            with self._lock:
                if not self.ended.is_set():
                    self.results[position] = result
                self._left -= 1
                if not self._left:
                    self.ended.set()

    def _claim(self) -> tuple[int, Callable[[], T]] | None:
        with self._lock:
            return None if self.ended.is_set() else next(self._calls, None)

    def close(self) -> None:
        """Take in no more results, and start no more calls."""
        with self._lock:
            self.ended.set()


def wait_for_all(calls: Sequence[Callable[[], T]], seconds: float | None, *, at_once: int) -> tuple[T | NotDone, ...]:
    """Return the results of `calls` in their order, at most `at_once` running at a time.

    After `seconds`, missing results are `NOT_DONE`, and no more calls begin. The first exception abandons the other
    calls and is raised.
    """
    if not calls or (seconds is not None and seconds <= 0):
        return (NOT_DONE,) * len(calls)
    with open_cancel_scope() as waiter:
        batch = _Batch(calls, at_once, waiter)
        try:
            batch.ended.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        finally:
            batch.close()
    if batch.error is not None:
        raise batch.error
    return tuple(batch.results)


def check_cancelled() -> None:
    """Raise `AbandonedError` if nobody waits any more for what this thread does: it is not to spend on."""
    waiter = _waiter.get()
    if waiter is not None:
        waiter.check()


def sleep_unless_cancelled(seconds: float) -> None:
    """Sleep; raise `AbandonedError` as soon as nobody waits for what this thread does."""
    waiter = _waiter.get()
    gone = threading.Event()
    with nullcontext() if waiter is None else waiter.on_cancel(gone.set):
        if gone.wait(seconds):
            check_cancelled()


# What comes of calls: the position of one with what returns its result, or raises, or a report with its position.
Came: TypeAlias = tuple[int, Callable[[], Any] | None, object]


@final
class ThreadGroup(Generic[T]):
    """Calls in threads, whose results and reports are taken one by one, as they come.

    Who reports faster than that is made to wait. Used in `with`: at its end the calls that still run are abandoned.
    """

    def __init__(self) -> None:
        self._coming: SimpleQueue[Came | None] = SimpleQueue()
        self._room = threading.Semaphore(MOST_REPORTS)
        self._waiting = open_cancel_scope()

    def __enter__(self) -> Self:
        self._waiter = self._waiting.__enter__()
        # Whoever waits for this thread may leave while it waits here.
        self._listening = self._waiter.on_cancel(self._wake)
        self._listening.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._waiting.__exit__(None, None, None)
        self._listening.__exit__(None, None, None)

    def start(self, position: int, call: Callable[[], T]) -> None:
        """Start a call. Raises `ThreadLimitError`."""
        future = start_in_thread(call, self._waiter)
        future.add_done_callback(lambda done: self._coming.put((position, done.result, None)))

    def report(self, position: int, news: object) -> None:
        """Take in a report of the call at this position, from its thread."""
        self._room.acquire()
        if self._waiter.gone:
            # Whoever else waits for room is told that nobody waits, too.
            self._room.release()
            self._waiter.check()
        self._coming.put((position, None, news))

    def take(self, seconds: float | None) -> Came | None:
        """Return what comes next, or `None` after `seconds`. Raises `AbandonedError` if nobody waits any more."""
        try:
            came = self._coming.get(timeout=None if seconds is None else min(max(seconds, 0.0), threading.TIMEOUT_MAX))
        except Empty:
            return None
        if came is None:
            # Woken by `_wake`: it raises.
            self._waiter.check()
            return None
        if came[1] is None:
            self._room.release()
        return came

    def _wake(self) -> None:
        self._coming.put(None)
        self._room.release()


def run_on_own_loop(call: Callable[[], Awaitable[T]]) -> T:
    """Run something async from a sync run: on an event loop and in a thread of its own, so under a running loop too.

    What it awaits must not belong to another loop. It is cancelled when its caller stops waiting.
    """
    # asyncio is half of what there is to load, and a run may never need it.
    import asyncio

    with open_cancel_scope() as waiter:

        async def awaited() -> T:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None, "asyncio.run makes one"

            def cancel() -> None:
                # The loop may have closed just now.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(task.cancel)

            with waiter.on_cancel(cancel):
                return await call()

        return start_in_thread(lambda: asyncio.run(awaited()), waiter).result()
