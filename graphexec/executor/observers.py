"""Deliver a run's events to its observers."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from graphexec.errors import InputError
from graphexec.executor.console import ConsolePrinter
from graphexec.executor.result import Ending
from graphexec.executor.table import Ready
from graphexec.kernel.events import Event
from graphexec.kernel.meters import Limits
from graphexec.kernel.snapshot import Snapshot
from graphexec.runtime.observers import Notifier, OnEvent

# A function that is called with each event of every run. An exception of it ends the run only if the function has
# `raise_error = True`.
Observer: TypeAlias = Callable[[Event[Ending]], object]


class RunObserver(ABC):
    """An observer that makes another one for each run, which knows the limits of the run."""

    __slots__ = ()

    @abstractmethod
    def watch(self, limits: Limits | None = None) -> Observer:
        """Return the observer of one run within `limits`."""


@final
@dataclass(frozen=True, slots=True)
class Observers:
    """The observers of an executor's runs. They receive each event before the consumer does."""

    observers: tuple[Observer, ...]
    verbose: bool

    def make_listeners(
        self,
        start: Ready | Snapshot,
        limits: Limits,
        clock: Callable[[], float],
        consumer: OnEvent | None,
        continues: Callable[[], bool] | None = None,
        watch: Observer | None = None,
    ) -> tuple[Notifier | None, OnEvent | None]:
        """Return the function that is called, and the one that is awaited, with each event of a run from `start`.

        `watch` is an observer of this run alone, which stands for those that watch runs. `continues` returns whether
        the run continues in another stream after this one is closed; if so, observers receive no `Failed`.
        """
        observers = tuple(
            one.watch(limits) if isinstance(one, RunObserver) else one
            for one in self.observers
            if watch is None or not isinstance(one, RunObserver)
        )
        if watch is not None:
            observers = (*observers, watch)
        if self.verbose:
            observers = (*observers, ConsolePrinter(start=start if isinstance(start, Snapshot) else None))
        if not observers:
            return None, consumer
        notify = Notifier(observers, clock, continues)
        return notify, None if consumer is None else notify.reporting_to(consumer)


def validate_observers(observers: Sequence[Observer]) -> tuple[Observer, ...]:
    """Return the observers as a tuple. Raises `InputError` for an invalid one."""
    # Callers without a type checker may pass one function, an object with handler methods, or a coroutine function.
    if not isinstance(observers, Sequence) or isinstance(observers, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"observers is {observers!r}; pass a list of functions that take an event")
    for observer in observers:
        called = getattr(observer, "__call__", None)  # noqa: B004 - the method itself may be a coroutine function
        if called is None or inspect.iscoroutinefunction(observer) or inspect.iscoroutinefunction(called):
            raise InputError(
                f"observers has {observer!r}; pass functions that take an event and are not coroutine functions"
            )
    return tuple(observers)
