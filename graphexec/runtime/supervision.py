"""Loops in a thread or task of their own, which is abandoned when a call is late, or when the caller is cancelled.

So each call with a deadline does not need its own thread: one thread serves the run until one of its calls is cut. And
calls that block one after the other, in an async run, share a thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, final

from graphexec.kernel.meters import GRACE
from graphexec.runtime.io import IO, ThreadIO, run_sync
from graphexec.runtime.threads import open_cancel_scope, start_in_thread

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")

# Seconds between two checks of a late loop that is in a node, which cannot be cut.
_RECHECK = 0.01


@final
class Loop:
    """One execution of a run's loop, which may be `abandoned`."""

    __slots__ = ("abandoned",)

    def __init__(self) -> None:
        self.abandoned = False


@final
class Deadline:
    """The deadline of the loop's current call: set by the loop, and watched by its supervisor."""

    __slots__ = ("_at", "_lock", "_now", "_watched", "wake")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._at: float | None = None
        self._watched = 0.0
        # Called if a deadline is earlier than the one that is watched.
        self.wake: Callable[[], object] = lambda: None

    def begin(self, seconds: float) -> None:
        """Record that the loop begins a call that may take so many seconds."""
        self._at = at = self._now() + seconds
        if at < self._watched:
            self.wake()

    def end(self, loop: Loop) -> bool:
        """Record that the call has its reply; return False if the loop has been abandoned."""
        with self._lock:
            if loop.abandoned:
                return False
            self._at = None
            return True

    def watch(self, seconds: float | None) -> float:
        """Return the seconds to wait before checking whether the call is late; at most `seconds` the first time."""
        at = self._at
        now = self._now()
        if at is None:
            left = _RECHECK if seconds is None else seconds
        else:
            left = max(at - now, 0.0) if seconds is None else min(seconds, max(at - now, 0.0))
        self._watched = now + left
        return left

    def abandon_late(self, loop: Loop) -> bool:
        """Abandon the loop if its current call is late; return whether it is."""
        with self._lock:
            if self._at is None or self._now() < self._at:
                return False
            self._at = None
            loop.abandoned = True
            return True

    def abandon(self, loop: Loop) -> bool:
        """Abandon the loop because the run's caller has been cancelled; return whether it is in a call."""
        with self._lock:
            loop.abandoned = True
            return self._at is not None


@final
class Superseded(BaseException):
    """The deadline cut this loop's call, and another loop continues the run."""


def supervise(follow: Callable[[Loop, Deadline, bool], Coroutine[Any, Any, T]], seconds: float) -> T:
    """Return the result of `follow` in a thread; if a call is late, cut it and continue in another thread.

    The run has `seconds` left when it begins.
    """
    deadline = Deadline(time.monotonic)
    first: float | None = seconds
    cut = False
    while True:
        loop = Loop()
        bell = threading.Event()
        deadline.wake = bell.set
        future: Future[T] | None = None
        try:
            with open_cancel_scope() as scope:
                future = start_in_thread(partial(_run, follow, loop, deadline, cut), scope, capped=not cut)
                future.add_done_callback(partial(_set, bell))
                while not future.done():
                    bell.wait(min(deadline.watch(first), threading.TIMEOUT_MAX))
                    bell.clear()
                    first = None
                    if not future.done() and deadline.abandon_late(loop):
                        break
                else:
                    return future.result()
        except BaseException:
            # An interrupt, or an exception of the run itself.
            in_call = deadline.abandon(loop)
            bell.clear()
            if future is not None and not future.done() and not in_call:
                # The loop ends at its next call. Wait for it, so that the run's state no longer changes.
                bell.wait(GRACE)
            raise
        cut = True


async def supervise_async(follow: Callable[[Loop, Deadline, bool], Coroutine[Any, Any, T]], seconds: float) -> T:
    """Return the result of `follow` in a task, as `supervise` does."""
    # Importing asyncio takes half of the import time, and a sync run never needs it.
    import asyncio

    from graphexec.runtime.tasks import abandon, result_of, start

    events = asyncio.get_running_loop()
    deadline = Deadline(events.time)
    first: float | None = seconds
    cut = False
    while True:
        loop = Loop()
        task = start(partial(follow, loop, deadline, cut))
        try:
            while not task.done():
                bell = events.create_future()
                deadline.wake = partial(_ring, bell)
                await asyncio.wait({task, bell}, timeout=deadline.watch(first), return_when=asyncio.FIRST_COMPLETED)
                first = None
                if not task.done() and deadline.abandon_late(loop):
                    break
            else:
                return result_of(task)
        except BaseException:
            if not task.done():
                deadline.abandon(loop)
            raise
        finally:
            if not task.done():
                await abandon([task])
        cut = True


# Runs that go on in a thread at once. More would keep Python's lock from the event loop for longer than a step takes.
_MOST_RUNNING = 4


@final
class _Running:
    """The number of runs that go on in a thread."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start at 0, in a forked process, which has none of the threads."""
        self._lock = threading.Lock()
        self.count = 0

    def enter(self) -> Callable[[], None]:
        """Count one more; return a function that counts it no longer, however often it is called."""
        once = iter((1,))

        def leave() -> None:
            with self._lock:
                self.count -= next(once, 0)

        with self._lock:
            self.count += 1
        return leave


_running = _Running()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.reset)


def count_running() -> int:
    """Return the number of runs that go on in a thread."""
    return _running.count


def has_room_for_run() -> bool:
    """Return whether another run may go on in a thread."""
    return _running.count < _MOST_RUNNING


async def go_on_in_thread(follow: Callable[[IO, Loop, Deadline], Coroutine[Any, Any, T]]) -> T:
    """Return the result of `follow` in a thread, which makes its calls itself; it is abandoned if this is cancelled."""
    import asyncio

    from graphexec.runtime.tasks import call_in_thread

    io = ThreadIO(asyncio.get_running_loop())
    # Without a limit: it records whether the thread is in a call.
    deadline, loop = Deadline(time.monotonic), Loop()
    is_idle = threading.Event()
    is_idle.set()
    leave = _running.enter()

    def run() -> T:
        is_idle.clear()
        try:
            return _run(follow, io, loop, deadline)
        finally:
            leave()
            is_idle.set()

    try:
        return await call_in_thread(run)
    except BaseException:
        # The loop ends at its next call. Wait for it, as above.
        if not deadline.abandon(loop):
            is_idle.wait(GRACE)
        if is_idle.is_set():
            # The thread may not have begun.
            leave()
        raise


def _run(follow: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> T:
    return run_sync(follow(*given))


def _set(bell: threading.Event, _: object) -> None:
    bell.set()


def _ring(bell: asyncio.Future[None]) -> None:
    if not bell.done():
        bell.set_result(None)
