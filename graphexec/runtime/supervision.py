"""Deadlines: a run's loop has a thread or a task of its own, and the run goes on without it when a call is late.

A call with a deadline needs no thread of its own so: one thread serves the run until one of its calls is cut.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, final

from graphexec.kernel.meters import GRACE
from graphexec.runtime.threads import open_cancel_scope, start_in_thread

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

# Seconds between two looks at a late loop that is in no call: it is in a node, which cannot be cut.
_LOOK_AGAIN = 0.01


@final
class Loop:
    """One that follows a run's path, and whether the run goes on without it."""

    __slots__ = ("abandoned",)

    def __init__(self) -> None:
        self.abandoned = False


@final
class Deadline:
    """The deadline of the call that a loop is in: set by the loop, and watched from outside of it."""

    __slots__ = ("_at", "_lock", "_now", "_watched", "wake")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._at: float | None = None
        self._watched = 0.0
        # Called where a deadline is nearer than the one that is watched.
        self.wake: Callable[[], object] = lambda: None

    def begin(self, seconds: float) -> None:
        """Take note that the loop begins a call that may take so many seconds."""
        self._at = at = self._now() + seconds
        if at < self._watched:
            self.wake()

    def end(self, loop: Loop) -> bool:
        """Take note that the call has its reply; return whether the loop is still the one that goes on."""
        with self._lock:
            if loop.abandoned:
                return False
            self._at = None
            return True

    def watch(self, seconds: float | None) -> float:
        """Return how many seconds to wait before looking whether the call is late; at first `seconds`."""
        at = self._at
        now = self._now()
        if at is None:
            left = _LOOK_AGAIN if seconds is None else seconds
        else:
            left = max(at - now, 0.0) if seconds is None else min(seconds, max(at - now, 0.0))
        self._watched = now + left
        return left

    def cut(self, loop: Loop) -> bool:
        """Have the run go on without the loop, if the call that it is in is late; return whether it is."""
        with self._lock:
            if self._at is None or self._now() < self._at:
                return False
            self._at = None
            loop.abandoned = True
            return True

    def leave(self, loop: Loop) -> bool:
        """Have the loop go no further: whoever waited for the run has left; return whether it is in a call."""
        with self._lock:
            loop.abandoned = True
            return self._at is not None


def supervise(follow: Callable[[Loop, Deadline, bool], T], seconds: float) -> T:
    """Return what `follow` returns, in a thread; where a call is late, cut it and follow on in another thread.

    `seconds` are left to the run at its beginning.
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
            with open_cancel_scope() as waiter:
                future = start_in_thread(partial(follow, loop, deadline, cut), waiter, capped=not cut)
                future.add_done_callback(partial(_set, bell))
                while not future.done():
                    bell.wait(min(deadline.watch(first), threading.TIMEOUT_MAX))
                    bell.clear()
                    first = None
                    if not future.done() and deadline.cut(loop):
                        break
                else:
                    return future.result()
        except BaseException:
            # Interrupted, or what the run itself has raised.
            in_call = deadline.leave(loop)
            bell.clear()
            if future is not None and not future.done() and not in_call:
                # It ends at the next call. Until then the run's state changes, which is wanted as it stands.
                bell.wait(GRACE)
            raise
        cut = True


async def supervise_async(follow: Callable[[Loop, Deadline, bool], Coroutine[Any, Any, T]], seconds: float) -> T:
    """Return what `follow` returns, in a task, as `supervise` does."""
    # asyncio is half of what there is to load; a sync run never needs it.
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
                if not task.done() and deadline.cut(loop):
                    break
            else:
                return result_of(task)
        except BaseException:
            if not task.done():
                deadline.leave(loop)
            raise
        finally:
            if not task.done():
                await abandon([task])
        cut = True


def _set(bell: threading.Event, _: object) -> None:
    bell.set()


def _ring(bell: asyncio.Future[None]) -> None:
    if not bell.done():
        bell.set_result(None)
