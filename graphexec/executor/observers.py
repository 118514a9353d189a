"""The observers of an executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from graphexec.executor.console import ConsolePrinter
from graphexec.executor.table import Ready
from graphexec.kernel.snapshot import Snapshot
from graphexec.runtime.observers import Observer, RunObserver


@final
@dataclass(frozen=True, slots=True)
class Observers:
    """The observers of an executor's runs."""

    observers: tuple[Observer, ...]
    verbose: bool

    def of_run(self, start: Ready | Snapshot, watch: Observer | None = None) -> tuple[Observer, ...]:
        """Return the observers of a run from `start`; `watch` is one that stands for those that watch runs."""
        observers = self.observers
        if watch is not None:
            observers = (*(one for one in observers if not isinstance(one, RunObserver)), watch)
        if self.verbose:
            observers = (*observers, ConsolePrinter(start=start if isinstance(start, Snapshot) else None))
        return observers
