"""How a sync run waits: threads that can be abandoned, deadlines, and several calls at once.

Python can interrupt neither a blocking call nor a coroutine that ignores its cancellation. So a call with a deadline
runs in a thread or a task of its own, which is abandoned at the deadline: a daemon thread runs on to its end.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from queue import SimpleQueue
from typing import Generic, TypeVar, final

from graphexec.errors import AbandonedError
from graphexec.runtime.progress import Listener, heard_by

T = TypeVar("T")


@final
class NotDone:
    """What stands in the place of a result that did not come in time."""

    __slots__ = ()


NOT_DONE = NotDone()


@final
class Waiter:
    """Whoever waits for a call, as the call can know it: what it does is ended when nobody waits any more."""

    __slots__ = ("_listeners", "_lock", "gone")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[Callable[[], object]] = set()
        self.gone = False

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
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    @contextmanager
    def heard_by(self, listener: Callable[[], object]) -> Generator[None, None, None]:
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


_waiter: contextvars.ContextVar[Waiter | None] = contextvars.ContextVar("graphexec_waiter", default=None)


def waiter_here() -> Waiter | None:
    """Return who waits for what this thread does, if it is a call's."""
    return _waiter.get()


@contextmanager
def somebody_waits() -> Generator[Waiter, None, None]:
    """Wait as somebody who leaves at the end, or when whoever waits for this thread leaves."""
    waiter = Waiter()
    outer = _waiter.get()
    with outer.heard_by(waiter.leave) if outer else nullcontext():
        try:
            yield waiter
        finally:
            waiter.leave()


def in_thread(call: Callable[[], T], waiter: Waiter | None = None) -> Future[T]:
    """Start `call` in a daemon thread of its own (some 50 µs), with the caller's context variables; return its future.

    Not a pool: its threads would be joined at exit, and an abandoned call must not hold the program up.
    """
    future: Future[T] = Future()
    context = contextvars.copy_context()
    context.run(_waiter.set, waiter)

    def work() -> None:
        try:
            result = context.run(call)
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to whoever waits
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=work, name="graphexec-call", daemon=True).start()
    return future


def wait_for(call: Callable[[], T], seconds: float) -> T | NotDone:
    """Return what `call` returns, or `NOT_DONE` after `seconds`. What `call` raises is raised, a `TimeoutError` too."""
    if seconds <= 0:
        return NOT_DONE
    finished = threading.Event()
    with somebody_waits() as waiter:
        future = in_thread(call, waiter)
        future.add_done_callback(lambda _: finished.set())
        return future.result() if finished.wait(min(seconds, threading.TIMEOUT_MAX)) else NOT_DONE


@final
class _Batch(Generic[T]):
    """Calls that share a queue: at most `width` threads work it off, until it is closed."""

    def __init__(self, calls: Sequence[Callable[[], T]], width: int, waiter: Waiter) -> None:
        self.results: list[T | NotDone] = [NOT_DONE] * len(calls)
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self._calls = iter(enumerate(calls))
        self._left = len(calls)
        self._lock = threading.Lock()
        for _ in range(min(width, len(calls))):
            in_thread(self._work, waiter)

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
    with somebody_waits() as waiter:
        batch = _Batch(calls, at_once, waiter)
        try:
            batch.ended.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        finally:
            batch.close()
    if batch.error is not None:
        raise batch.error
    return tuple(batch.results)


def still_waited_for() -> None:
    """Raise `AbandonedError` if nobody waits any more for what this thread does: it is not to spend on."""
    waiter = _waiter.get()
    if waiter is not None:
        waiter.check()


def sleep_while_waited_for(seconds: float) -> None:
    """Sleep; raise `AbandonedError` as soon as nobody waits for what this thread does."""
    waiter = _waiter.get()
    gone = threading.Event()
    with nullcontext() if waiter is None else waiter.heard_by(gone.set):
        if gone.wait(seconds):
            still_waited_for()


def overheard(call: Callable[[], T]) -> Generator[object, None, T]:
    """Run `call` in a thread, yield its reports, and return its result. Closing this abandons the call."""
    coming: SimpleQueue[object] = SimpleQueue()
    ended = object()

    def heard() -> T:
        with heard_by(Listener(coming.put, pieces=True)):
            return call()

    with somebody_waits() as waiter:
        future = in_thread(heard, waiter)
        future.add_done_callback(lambda _: coming.put(ended))
        while (one := coming.get()) is not ended:
            yield one
        return future.result()


def own_loop(call: Callable[[], Awaitable[T]]) -> T:
    """Run something async from a sync run: on an event loop and in a thread of its own, so under a running loop too.

    What it awaits must not belong to another loop. It is cancelled when its caller stops waiting.
    """
    # asyncio is half of what there is to load, and a run may never need it.
    import asyncio

    with somebody_waits() as waiter:

        async def awaited() -> T:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None, "asyncio.run makes one"

            def cancel() -> None:
                # The loop may have closed just now.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(task.cancel)

            with waiter.heard_by(cancel):
                return await call()

        return in_thread(lambda: asyncio.run(awaited()), waiter).result()
