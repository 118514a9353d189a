"""SIGTERM and SIGHUP end a run as Ctrl-C does: the displays get its last state, and the exit code names the signal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from graphexec.cli.exit_codes import Terminated

# Windows has no SIGHUP, and its SIGTERM comes from this process alone.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

# Seconds between repetitions of a signal: Python misses one that arrives between its last check and a system call.
_AGAIN = 0.2
# Seconds for the end of a run, after which the process exits; supervisors kill a process after 10.
_GRACE = 5.0

# Seconds for the last words of a process that does not end.
_LAST_WORDS = 1.0

_held = 0
_pending: list[int] = []


@contextmanager
def uninterrupted() -> Generator[None]:
    """Raise `Terminated` only after the statements inside, such as the write of a line."""
    global _held  # noqa: PLW0603 - signals belong to the process
    _held += 1
    try:
        yield
    finally:
        _held -= 1
        if _pending and not _held:
            raise Terminated(_pending.pop())


def _forget_after_fork() -> None:
    # A signal to a child, as of `Process.terminate`, ends the child, and does not reach the watcher of its parent.
    for one in _SIGNALS:
        if getattr(signal.getsignal(one), "__module__", None) == __name__:
            signal.set_wakeup_fd(-1)
            signal.signal(one, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


@contextmanager
def terminable(when_stuck: Callable[[Terminated], None] = lambda _: None) -> Generator[None]:
    """Raise `Terminated` in the statements inside at SIGTERM or SIGHUP, also while they block; later ones are ignored.

    If they have not ended after 5 seconds, because a tool catches every exception or does not return to Python, another
    thread calls `when_stuck` and ends the process. A signal that the process ignores (nohup) stays ignored. On Windows,
    and in another thread than the main one, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield
        return
    signals = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    raised, left = threading.Event(), threading.Event()

    def handle(number: int, _: FrameType | None) -> None:
        if raised.is_set():
            return
        raised.set()
        if _held:
            _pending.append(number)
        else:
            raise Terminated(number)

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    main = threading.get_ident()

    def watch() -> None:
        for number in _received(reading, signals):
            while not left.is_set() and not raised.wait(_AGAIN):
                signal.pthread_kill(main, number)
            if not left.wait(_GRACE):
                # The output that it writes to may be blocked, too.
                last_words = threading.Thread(target=when_stuck, args=[Terminated(number)], daemon=True)
                last_words.start()
                last_words.join(_LAST_WORDS)
                os._exit(Terminated(number).code)

    watcher = threading.Thread(target=watch, name="graphexec-signals", daemon=True)
    watcher.start()
    with ExitStack() as restoring:
        restoring.callback(os.close, reading)
        restoring.callback(watcher.join)
        restoring.callback(os.close, writing)
        restoring.callback(left.set)
        for one in signals:
            restoring.callback(signal.signal, one, signal.signal(one, handle))
        restoring.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(writing, warn_on_full_buffer=False))
        yield


def _received(descriptor: int, signals: list[signal.Signals]) -> Iterator[int]:
    """Yield the numbers of these signals as they arrive, until the writing end is closed."""
    while received := os.read(descriptor, 1):
        if received[0] in signals:
            yield received[0]
