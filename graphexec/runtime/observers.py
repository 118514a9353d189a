"""Observers: functions that are called with each event of a run, and cannot end it unless `raise_error` is set."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from graphexec._arguments import Constraint
from graphexec.errors import described
from graphexec.kernel.events import Done, Event, Failed, Reported

# A function that is called with each event of a run. An exception of it ends the run only if the function has
# `raise_error = True`.
Observer: TypeAlias = Callable[[Event[Any]], object]

# Awaited with each event; it may wait until a consumer asks for the next one.
OnEvent: TypeAlias = Callable[[Event[Any]], Awaitable[None]]


@final
@dataclass(frozen=True, slots=True)
class ObserverFailed:
    """A report that an observer raised `error`. It still receives later events; its further errors are not reported."""

    observer: str
    error: Exception

    def __str__(self) -> str:
        return f"the observer {self.observer} failed with {described(self.error)}; its further errors are not reported"


class Notifier:
    """Calls the observers of one run with its events, in order.

    An exception of an observer is logged, and reported to the other observers and the consumer, once per observer and
    run. If the observer's attribute `raise_error` is `True`, it is raised instead. Other exceptions than `Exception`,
    such as `KeyboardInterrupt`, are always raised. If the run `continues` in another stream when this one is closed,
    there is no `Failed`.
    """

    __slots__ = ("_continues", "_ended", "_failed", "_observers", "_reports", "_unreported")

    def __init__(self, observers: Sequence[Observer], continues: Callable[[], bool] | None = None) -> None:
        self._observers = tuple(observers)
        self._continues = continues
        # The number of observers that were called with the last event, `Done` or `Failed`.
        self._ended = 0
        self._failed: list[object] = []
        self._unreported: list[tuple[object, ObserverFailed]] = []
        # Reports for the consumer.
        self._reports: list[Reported] = []

    # Any event but the last: it has a node.
    def __call__(self, event: Any) -> None:
        """Call the observers with an event, and with reports of other observers' errors."""
        for observer in self._observers:
            self._call(observer, event)
        while self._unreported:
            failed, news = self._unreported.pop(0)
            report = Reported(event.node, None, news, event.call)
            self._reports.append(report)
            for observer in self._observers:
                if observer is not failed:
                    self._call(observer, report)

    def end(self, event: Done[Any] | Failed) -> None:
        """Call the observers with the last event, except those that have already received one.

        After `Failed` an observer's exception is only logged, because the run's own exception is raised.
        """
        if type(event) is Failed and self._continues is not None and self._continues():
            return
        for observer in self._observers[self._ended :]:
            self._ended += 1
            self._call(observer, event)
        # The observers have received their last event, but the consumer has not.
        node = event.snapshot.node
        self._reports += [Reported(node, None, news, event.call) for _, news in self._unreported]

    def reporting_to(self, consumer: OnEvent) -> OnEvent:
        """Return a consumer that also receives reports of failed observers: after the event, but before `Done`."""

        async def deliver(event: Event[Any]) -> None:
            is_last = type(event) is Done
            if not is_last:
                await consumer(event)
            while self._reports:
                await consumer(self._reports.pop(0))
            if is_last:
                await consumer(event)

        return deliver

    def _call(self, observer: Observer, event: Event[Any]) -> None:
        try:
            observer(event)
        except Exception as error:
            if type(event) is not Failed and getattr(observer, "raise_error", False) is True:
                raise
            if any(one is observer for one in self._failed):
                return
            self._failed.append(observer)
            name: object = getattr(observer, "__qualname__", None)
            news = ObserverFailed(name if isinstance(name, str) else type(observer).__qualname__, error)
            self._unreported.append((observer, news))
            # A log handler writes its own failures to stderr, which may be closed.
            with contextlib.suppress(Exception):
                # Imported here because most runs do not need it.
                import logging

                logging.getLogger("graphexec").warning("%s", news, exc_info=error)


def _is_observer(value: object) -> bool:
    # The method that calls an object may be a coroutine function.
    called = getattr(value, "__call__", None)  # noqa: B004
    return callable(value) and not any(map(inspect.iscoroutinefunction, (value, called)))


OBSERVERS = Constraint(
    "a list of functions (def) that take an event",
    # A string has characters, which are no functions.
    lambda value: isinstance(value, Sequence) and all(map(_is_observer, value)),  # pyright: ignore[reportUnknownArgumentType]
)
