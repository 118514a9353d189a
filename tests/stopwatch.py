"""Real seconds on a machine that may be busy: what takes time is measured together with how late the machine is."""

import threading
import time
from collections.abc import Callable
from typing import Self

# Seconds that the measuring thread waits at a time.
_PERIOD = 0.01
# Seconds to wait at most for what should happen at once.
_LONG = 20.0


def eventually(holds: Callable[[], object], otherwise: str = "it never holds") -> None:
    """Wait until a condition holds."""
    ends = time.monotonic() + _LONG
    while not holds():
        assert time.monotonic() < ends, otherwise
        time.sleep(0.001)


class Stopwatch:
    """Measures the seconds of a `with` block, and the seconds that a thread was late in them that waits in periods.

    The thread competes for the same processors and for the same interpreter, so what ends late by more than a few times
    its lateness is not late because of other programs.
    """

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.lateness = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._wait_in_periods, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.elapsed = time.monotonic() - self._began
        self._stopped.set()
        self._thread.join()

    def extend(self, seconds: float) -> float:
        """Return the seconds that something may take on this machine which takes these on one that is not busy."""
        return seconds + 2 * self.lateness

    def _wait_in_periods(self) -> None:
        before = time.monotonic()
        stopped = False
        while not stopped:
            stopped = self._stopped.wait(_PERIOD)
            now = time.monotonic()
            self.lateness += max(0.0, now - before - _PERIOD)
            before = now
