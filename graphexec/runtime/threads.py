"""Waiting in sync runs: threads that can be abandoned, deadlines, and concurrent calls.

Python can interrupt neither a blocking call nor a coroutine that ignores its cancellation. So a call with a deadline
runs in a separate thread or task, which is abandoned at the deadline: a daemon thread continues to its end. Threads are
reused; at most `MOST_ABANDONED` abandoned calls may still run.

The main thread waits by a `SimpleQueue` and holds only an `RLock`, which a signal cannot leave locked: an `Event`, a
`Semaphore` or a `Future` is code in Python, and an interrupt there may keep its lock for ever. It is reentrant because
Python may collect an abandoned call while its thread holds a lock, and closing the call takes the same lock.
"""

from __future__ import annotations

import contextvars
import math
import os
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import CoroutineType
from typing import Any, Generic, NoReturn, Self, TypeAlias, TypeVar, final

from graphexec.errors import AbandonedError, ThreadLimitError
from graphexec.runtime.calls import Listener, adopt

C = TypeVar("C")
T = TypeVar("T")

# The number of abandoned calls that may still run: more of them probably never end, and each takes memory.
MOST_ABANDONED = 256

# The number of idle threads, and the seconds after which an idle thread ends.
_MOST_IDLE, _IDLE_SECONDS = 64, 10.0

# Seconds after which a wait looks for signals: Python misses one between its last look and the wait itself.
_LOOK = 0.2

# The number of reports that may wait to be taken.
MOST_REPORTS = 64


@final
class NotDone:
    """The placeholder for a result that did not come in time."""


NOT_DONE = NotDone()


@final
class CancelScope:
    """Stops calls in threads when their caller is cancelled; a context manager, at whose end it is cancelled.

    Within the block it is cancelled with the scope around it, too, if there is an `outer` one.
    """

    __slots__ = ("_listeners", "_lock", "_outer", "_running", "cancelled")

    def __init__(self, outer: CancelScope | None = None) -> None:
        self._outer = outer
        self._lock = threading.RLock()
        self._listeners: set[Callable[[], object]] = set()
        self._running = 0
        self.cancelled = False

    def __enter__(self) -> Self:
        if self._outer is not None:
            self._outer.add(self.cancel)
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        if self._outer is not None:
            self._outer.remove(self.cancel)

    def add(self, listener: Callable[[], object]) -> None:
        """Call `listener` when the caller is cancelled, or at once if it already is."""
        with self._lock:
            self._listeners.add(listener)
            cancelled = self.cancelled
        if cancelled:
            listener()

    def remove(self, listener: Callable[[], object]) -> None:
        """Do not call `listener` any more."""
        with self._lock:
            self._listeners.discard(listener)

    def run(self, call: Callable[[], T]) -> T:
        """Return what a call returns, in its thread. Raises `AbandonedError` if the caller has been cancelled."""
        with self._lock:
            self.check()
            self._running += 1
        try:
            return call()
        finally:
            with self._lock:
                self._running -= 1
                cancelled = self.cancelled
            if cancelled:
                _threads.abandon(-1)

    def check(self) -> None:
        """Raise `AbandonedError` if the caller has been cancelled: further work would be wasted."""
        if self.cancelled:
            raise AbandonedError("the caller of this call has been cancelled, so the call stops")

    def cancel(self) -> None:
        """Mark the caller as cancelled, and call the listeners."""
        with self._lock:
            if self.cancelled:
                return
            self.cancelled = True
            listeners, running = list(self._listeners), self._running
        if running:
            _threads.abandon(running)
        for listener in listeners:
            listener()

    @contextmanager
    def on_cancel(self, listener: Callable[[], object]) -> Generator[None, None, None]:
        """Call `listener` when the caller is cancelled during the `with` block, or at once if it already is."""
        self.add(listener)
        try:
            yield
        finally:
            self.remove(listener)


_cancel_scope = contextvars.ContextVar[CancelScope | None]("graphexec_cancel_scope", default=None)


def current_cancel_scope() -> CancelScope | None:
    """Return the cancel scope of the call that this thread runs, if any."""
    return _cancel_scope.get()


def open_cancel_scope() -> CancelScope:
    """Return a cancel scope that is cancelled at the end of its `with` block, or together with this thread's scope."""
    return CancelScope(_cancel_scope.get())


def on_cancel(listener: Callable[[], object]) -> AbstractContextManager[None]:
    """Call `listener` when this code's call is cancelled during the `with` block, or at once if it already is.

    For a tool or a handler that blocks: at the deadline of its call, or when a stream is closed or a task cancelled, it
    can cancel what it waits for. The listener is called in another thread, and must return at once. Outside of calls
    that can be cancelled it is never called; an `async def` is cancelled by its event loop instead.
    """
    scope = _cancel_scope.get()
    return nullcontext() if scope is None else scope.on_cancel(listener)


# A job: the number of a call, and the call. A thread takes jobs from its inbox.
_Job: TypeAlias = tuple[int, Callable[[], Callable[[], object]]]
_Inbox: TypeAlias = "SimpleQueue[_Job]"


@final
class _Threads:
    """Daemon threads that are reused. Not a ThreadPoolExecutor: Python joins its threads at exit."""

    def __init__(self) -> None:
        # The number of the last call, and the threads of the unfinished calls.
        self.abandoned = self.last = 0
        self.running: dict[int, int | None] = {}
        self._lock = threading.RLock()
        self._idle: list[_Inbox] = []

    def run(self, work: Callable[[], Callable[[], object]]) -> None:
        """Call `work` in a thread, then call its result once the thread can be reused.

        Raises `ThreadLimitError` if no thread can be started, or too many abandoned calls still run.
        """
        if self.abandoned >= MOST_ABANDONED:
            raise ThreadLimitError(
                f"{self.abandoned} abandoned calls still run in their threads, so no more calls start; give the "
                "functions that hang their own timeout (an HTTP timeout, for example)"
            )
        with self._lock:
            self.last += 1
            job = self.last, work
            # The thread's id is set once it has started.
            self.running[self.last] = None
            if self._idle:
                # Python handles signals after a call: no interrupt finds a thread that is neither idle nor at work.
                inbox = self._idle[-1]
                del self._idle[-1]
                inbox.put(job)
                return
        inbox = SimpleQueue[_Job]()
        inbox.put(job)
        try:
            # `Thread.start` waits by an `Event`: an interrupt there may be lost, or keep the new thread waiting.
            start_new_thread(self._begin, (inbox,))
        except RuntimeError as error:
            self.running.pop(job[0], None)
            raise ThreadLimitError(
                f"no thread can be started ({error}); run fewer calls at once (tool_concurrency=8, for example)"
            ) from error

    def abandon(self, number: int) -> None:
        """Add `number` to the count of abandoned calls; a negative number counts those that have ended."""
        with self._lock:
            self.abandoned += number

    def _begin(self, inbox: _Inbox) -> None:
        """Serve the inbox in a thread of `threading`, which debuggers know, or here if no more can be started."""
        try:
            threading.Thread(target=self._serve, args=(inbox,), name="graphexec-call", daemon=True).start()
        except RuntimeError:
            self._serve(inbox)

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
            # Before the result is delivered, because its receiver may need a thread at once.
            with self._lock:
                idle = len(self._idle) < _MOST_IDLE
                if idle:
                    self._idle.append(inbox)
            deliver()
            del self.running[number], work, deliver
            if not idle:
                return

    def reset(self) -> None:
        """Discard all threads, because a forked process has none of them."""
        self.__init__()


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.reset)


def last_call() -> int:
    """Return the number of the last call in a thread."""
    return _threads.last


def threads_since(number: int) -> list[int | None]:
    """Return the thread ids of unfinished later calls; `None` for a call that has not started."""
    return [thread for call, thread in list(_threads.running.items()) if call > number]


# Returns the result of a call, or raises its exception.
End: TypeAlias = Callable[[], T]


def run_in_thread(
    call: Callable[[], T], scope: CancelScope, receive: Callable[[End[T]], object]
) -> contextvars.Context:
    """Start `call` in a daemon thread, with a copy of the caller's context variables; `receive` its end there.

    Returns the copy, for `adopt`. If the scope is cancelled before the thread starts, the call is not made. Raises
    `ThreadLimitError` if no thread is available.
    """
    context = contextvars.copy_context()
    context.run(_cancel_scope.set, scope)

    def work() -> Callable[[], object]:
        try:
            result = context.run(scope.run, call)
        except BaseException as error:  # noqa: BLE001 - raised in the waiting caller
            return partial(receive, partial(_raise, error))
        close_if_cancelled(result, scope)
        return partial(receive, lambda: result)

    _threads.run(work)
    return context


def _raise(error: BaseException) -> NoReturn:
    try:
        raise error
    finally:
        del error  # Its traceback refers to this frame.


def close_if_cancelled(result: object, scope: CancelScope | None) -> None:
    """Close a coroutine that a function has returned, if nobody will await it: Python would warn of it."""
    if scope is not None and scope.cancelled and isinstance(result, CoroutineType):
        result.close()


def check_cancelled() -> None:
    """Raise `AbandonedError` if this thread's call has been cancelled, so that it must stop."""
    scope = _cancel_scope.get()
    if scope is not None:
        scope.check()


def check_before_awaiting(coroutine: object) -> None:
    """Raise `AbandonedError` as `check_cancelled` does, and close the coroutine, which nobody will await then."""
    close_if_cancelled(coroutine, _cancel_scope.get())
    check_cancelled()


def get_within(queue: SimpleQueue[T], seconds: float | None) -> T:
    """Return the next item of a queue. Raises `Empty` after `seconds`."""
    ends = math.inf if seconds is None else time.monotonic() + seconds
    while True:
        try:
            return queue.get(timeout=max(0.0, min(_LOOK, ends - time.monotonic())))
        except Empty:
            if time.monotonic() >= ends:
                raise


def sleep_unless_cancelled(seconds: float) -> None:
    """Sleep; raise `AbandonedError` as soon as this thread's call is cancelled."""
    cancelled = SimpleQueue[None]()
    with on_cancel(partial(cancelled.put, None)), suppress(Empty):
        get_within(cancelled, seconds)
        check_cancelled()


# The position of a call, with a function that returns its result or raises, or with a report.
CallUpdate: TypeAlias = tuple[int, End[Any] | None, object]


@final
class Room:
    """Room for the reports that may wait to be taken. Few calls report, so the first one makes the queue."""

    __slots__ = ("_free", "_late")

    def __init__(self) -> None:
        self._late = 0
        # The queue, with an item for each report that has room; two threads may add one at once, and the first counts.
        self._free: list[SimpleQueue[None]] = []

    def take(self) -> None:
        """Wait for room for a report."""
        if not self._free:
            free = SimpleQueue[None]()
            for _ in range(MOST_REPORTS):
                free.put(None)
            self._free.append(free)
        self._free[0].get()

    def give(self) -> None:
        """Make room for another report."""
        if self._free:
            self._free[0].put(None)

    def is_late(self, seconds: float | None) -> bool:
        """Count a report that is taken with so many seconds left; return whether more came late than may wait."""
        self._late += seconds is not None and seconds < 0
        return self._late > MOST_REPORTS


@final
class ThreadGroup(Generic[C, T]):
    """Calls in threads, each made by `run`, whose results and reports are taken one by one as they come.

    A call that reports too fast waits. At the end of the block the unfinished calls are abandoned. No method suspends.
    """

    def __init__(self, run: Callable[[C], T]) -> None:
        self._run = run
        self._coming: SimpleQueue[CallUpdate | None] = SimpleQueue()
        self._room = Room()
        self._scope = open_cancel_scope()

    async def __aenter__(self) -> Self:
        self._scope.__enter__()
        # The caller may be cancelled while this thread waits here.
        self._scope.add(self._wake)
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._scope.__exit__(*raised)
        self._scope.remove(self._wake)

    def start(self, position: int, call: C) -> None:
        """Start a call. Raises `ThreadLimitError`."""
        # A future would make some twenty calls more.
        run_in_thread(partial(self._run, call), self._scope, lambda end: self._coming.put((position, end, None)))

    def report(self, position: int, news: object) -> None:
        """Add a report of the call at this position, from its thread."""
        self._room.take()
        if self._scope.cancelled:
            # Wake the next thread that waits for room, so that it stops, too.
            self._room.give()
            self._scope.check()
        self._coming.put((position, None, news))

    async def room(self) -> None:
        """Return at once: `report` waits."""

    async def take(self, seconds: float | None) -> CallUpdate | None:
        """Return the next result or report, or `None` after `seconds`. Raises `AbandonedError` if cancelled."""
        try:
            update = get_within(self._coming, seconds)
        except Empty:
            return None
        if update is None:
            self._scope.check()  # Sent by `_wake`: this raises.
            return None
        if update[1] is None:
            self._room.give()
            if self._room.is_late(seconds):
                return None
        return update

    def _wake(self) -> None:
        self._coming.put(None)
        self._room.give()


def wait_for(call: Callable[[], T], seconds: float | None, listener: Listener | None = None) -> T | NotDone:
    """Return the result of `call`, or `NOT_DONE` after `seconds`. Raises the exception of `call`.

    It does not start if `seconds` is 0 or less. Raises `AbandonedError` when this thread's call is cancelled. Without a
    limit, a `listener` in this thread is delivered what the call reports.
    """
    if seconds is not None and seconds <= 0:
        return NOT_DONE
    ended = SimpleQueue[End[T] | None]()
    wake = partial(ended.put, None)
    with open_cancel_scope() as scope, scope.on_cancel(wake):
        with nullcontext() if listener is None else listener.waking(wake):
            context = run_in_thread(call, scope, ended.put)
            try:
                while (end := get_within(ended, seconds)) is None:
                    scope.check()
                    assert listener is not None, "only it and the end of the scope put it"
                    listener.flush()
            except Empty:
                return NOT_DONE
        scope.check()
    adopt(context)
    return end()
