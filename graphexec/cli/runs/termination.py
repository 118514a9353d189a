"""SIGTERM and SIGHUP end a run as Ctrl-C does: the displays get its last state, and the exit code names the signal."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from types import FrameType

from graphexec.cli.exit_codes import Terminated

# Windows has no SIGHUP, and its SIGTERM comes from this process alone.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

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


@contextmanager
def terminable() -> Generator[None]:
    """Raise `Terminated` in the statements inside at SIGTERM or SIGHUP, also while they block; later ones are ignored.

    A signal that the process ignores (nohup) stays ignored. On Windows, and in another thread than the main one, this
    does nothing.
    """
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield
        return
    raised = threading.Event()

    def handle(number: int, _: FrameType | None) -> None:
        if raised.is_set():
            return
        raised.set()
        if _held:
            _pending.append(number)
        else:
            raise Terminated(number)

    with ExitStack() as restoring:
        for one in _SIGNALS:
            if signal.getsignal(one) is not signal.SIG_IGN:
                restoring.callback(signal.signal, one, signal.signal(one, handle))
        yield
