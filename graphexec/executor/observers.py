"""Deliver a run's events to its observers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from graphexec.errors import InputError
from graphexec.executor.console import ConsolePrinter
from graphexec.executor.result import Ending
from graphexec.executor.table import Ready
from graphexec.kernel.events import Event
from graphexec.kernel.snapshot import Snapshot
from graphexec.runtime.observers import Notifier, OnEvent

# A function of each event of every run. What it raises ends the run only if it has `raise_error = True`.
Observer: TypeAlias = Callable[[Event[Ending]], object]


@final
@dataclass(frozen=True, slots=True)
class Observers:
    """The observers of an executor's runs, called before the consumer."""

    observers: tuple[Observer, ...]
    verbose: bool

    def make_listeners(
        self,
        start: Ready | Snapshot,
        clock: Callable[[], float],
        consumer: OnEvent | None,
        goes_on: Callable[[], bool] | None = None,
    ) -> tuple[Notifier | None, OnEvent | None]:
        """Return what is called, and what is awaited, with the events of a run that begins at `start`.

        If the run `goes_on` in another stream when this one is closed, observers do not hear that it has failed.
        """
        observers = self.observers
        if self.verbose:
            observers = (*observers, ConsolePrinter(start=start if isinstance(start, Snapshot) else None))
        if not observers:
            return None, consumer
        notify = Notifier(observers, clock, goes_on)
        return notify, None if consumer is None else notify.reporting_to(consumer)


def validate_observers(observers: Sequence[Observer]) -> tuple[Observer, ...]:
    """Return the observers. Raises `InputError` for what cannot be one."""
    # Users without a type checker pass one function, objects with handler methods, and coroutine functions.
    if not isinstance(observers, Sequence) or isinstance(observers, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"observers is {observers!r}; pass a list of functions of an event")
    for observer in observers:
        called = getattr(observer, "__call__", None)  # noqa: B004 - whether what is called is a coroutine function
        if called is None or inspect.iscoroutinefunction(observer) or inspect.iscoroutinefunction(called):
            raise InputError(f"observers has {observer!r}; pass functions of an event, and no coroutine functions")
    return tuple(observers)
