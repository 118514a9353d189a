"""The observer that shows progress: it adds up runs, limits how often the view changes, and keeps a clock running."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import final

from graphexec.errors import InputError
from graphexec.executor.progress.counts import Amount, EndingKind, RunWatch, Status, amounts_of, sort_amounts
from graphexec.executor.progress.views import View, choose_view
from graphexec.executor.result import Ending
from graphexec.kernel.events import Event
from graphexec.kernel.meters import Limits
from graphexec.runtime.observers import RunObserver

# Seconds between two changes of a view; and between two looks at the clock while a call takes long.
_INTERVAL = 0.1
_TICK = 0.25


@final
class Progress(RunObserver):
    """An observer that shows runs while they go on: `AgentExecutor(..., observers=[Progress()])`.

    It shows the node, the pending call, and what is spent of each limit; of several runs at once the number of those
    that are running, finished, stopped by a limit, failed and interrupted. In a notebook this is a display that changes
    in place, in a terminal a line (with rich, if it is installed). Elsewhere each end is logged as INFO by the logger
    `graphexec`.

    The view changes at most ten times a second by `clock`, and a last time when no run is left, also after an exception
    or an interrupt. If it raises, this is logged, it is not called again, and the runs continue. Threads, tasks and
    executors may share a `Progress`; a forked process shows nothing. `view` is an object of your own with a method
    `show(status)`. Raises `InputError` for another one.
    """

    __slots__ = (
        "_clock",
        "_counts",
        "_direct",
        "_is_batch",
        "_last",
        "_lock",
        "_process",
        "_running",
        "_shown_at",
        "_spent",
        "_started_at",
        "_ticker",
        "_total",
        "_view",
        "_view_failed",
        "_wanted",
    )

    def __init__(self, view: View | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        # Users without a type checker pass functions.
        if view is not None and not callable(getattr(view, "show", None)):
            raise InputError(f"Progress was given {view!r}; pass an object with a method show(status), or nothing")
        self._wanted = view
        self._clock = clock
        # The view may run the executor, too.
        self._lock = threading.RLock()
        self._process = os.getpid()
        # The observer of events that are passed without an executor.
        self._direct: RunWatch | None = None
        self._is_batch = False
        self._total: int | None = None
        self._view: View | None = None
        self._reset()

    def _reset(self) -> None:
        self._counts: Counter[EndingKind] = Counter()
        self._spent: Counter[str] = Counter()
        # A run that is paused for good, or whose stream is dropped, disappears with its observer.
        self._running: weakref.WeakSet[RunWatch] = weakref.WeakSet()
        self._last: RunWatch | None = None
        self._ticker: _Ticker | None = None
        self._view_failed = False
        self._started_at = self._shown_at = self._clock()

    def __repr__(self) -> str:
        return "<Progress>"

    def __call__(self, event: Event[Ending]) -> None:
        """Take an event of a run without an executor: `for event in graph.stream(...): progress(event)`."""
        watch = self._direct = self._direct or self.watch()
        watch(event)
        if watch.ending is not None:
            self._direct = None

    def watch(self, limits: Limits | None = None) -> RunWatch:
        """Return the observer of one run within `limits`."""
        return RunWatch(self._change, limits)

    @contextlib.contextmanager
    def batch(self, total: int) -> Generator[None, None, None]:
        """Show the runs inside the `with` block as one batch of `total` runs."""
        with self._lock:
            self._is_batch, self._total = True, total
            self._open()
            self._show(self._clock())
        try:
            yield
        finally:
            with self._lock:
                self._is_batch = False
                ticker = self._close()
                self._total = None
            _end(ticker)

    def _change(self, watch: RunWatch) -> None:
        if os.getpid() != self._process:
            return
        ticker: _Ticker | None = None
        with self._lock:
            if self._view is None:
                self._open()
            self._last = watch
            if watch.ending is None:
                self._running.add(watch)
            else:
                self._running.discard(watch)
                self._counts[watch.ending] += 1
                self._spent.update(amounts_of(watch.spent))
            if watch.ending is not None and not self._running and not self._is_batch:
                ticker = self._close()
            else:
                self._show_in_time()
        _end(ticker)

    def _open(self) -> None:
        self._reset()
        self._view = self._wanted or choose_view(is_batch=self._is_batch)
        # So that the first event is shown.
        self._shown_at -= _INTERVAL
        if getattr(self._view, "ticks", False):
            self._ticker = _Ticker(self._tick)

    def _close(self) -> _Ticker | None:
        """Show the last status; return the ticker, which is ended without the lock that it waits for."""
        self._show(self._clock(), has_ended=True)
        ticker, self._ticker, self._view = self._ticker, None, None
        return ticker

    def _tick(self, ticker: _Ticker) -> bool:
        """Show how time passes; return whether the ticker continues."""
        with self._lock:
            if self._ticker is not ticker:
                return False
            if self._running or self._is_batch:
                self._show_in_time()
                return True
            self._close()
            return False

    def _show_in_time(self) -> None:
        now = self._clock()
        if now - self._shown_at >= _INTERVAL:
            self._show(now)

    def _show(self, now: float, *, has_ended: bool = False) -> None:
        if self._view is None or self._view_failed:
            return
        self._shown_at = now
        try:
            self._view.show(self._status(now, has_ended=has_ended))
        except Exception as error:
            self._view_failed = True
            # A log handler writes its own failures to stderr, which may be closed.
            with contextlib.suppress(Exception):
                import logging

                logging.getLogger("graphexec").warning("the progress view failed and is not shown", exc_info=error)

    def _status(self, now: float, *, has_ended: bool) -> Status:
        running = list(self._running)
        spent = Counter(self._spent)
        for watch in running:
            spent.update(amounts_of(watch.spent))
        counts = self._counts
        status = Status(
            seconds=max(0.0, now - self._started_at),
            total=self._total,
            running=len(running),
            finished=counts["finished"],
            stopped=counts["stopped"],
            failed=counts["failed"],
            interrupted=counts["interrupted"],
            amounts=tuple(Amount(name, spent[name]) for name in sort_amounts(spent) if spent[name]),
            activity="",
            seconds_limit=None,
            has_ended=has_ended,
        )
        last = self._last
        if last is None or not status.is_single:
            return status
        return replace(status, amounts=last.amounts, activity=last.activity, seconds_limit=last.seconds_limit)


@final
class _Ticker:
    """A thread that calls `tick` regularly, until that returns false or the ticker is ended."""

    def __init__(self, tick: Callable[[_Ticker], bool]) -> None:
        self._tick = tick
        # Not an Event, which an interrupt may leave locked.
        self._stopped = SimpleQueue[None]()
        # A display belongs to the cell whose code runs in this context.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="graphexec-progress", daemon=True)
        # Without a free thread the clock stands still.
        with contextlib.suppress(RuntimeError):
            self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                return self._stopped.get(timeout=_TICK)
            except Empty:
                if not self._tick(self):
                    return None

    def end(self) -> None:
        """End the thread, and wait for that."""
        self._stopped.put(None)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()


def _end(ticker: _Ticker | None) -> None:
    if ticker is not None:
        ticker.end()
