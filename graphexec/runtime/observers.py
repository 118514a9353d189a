"""Observers, which are called with each event of a run, and instruments, which watch every run of the process.

An observer cannot end a run unless its `raise_error` is set.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, final

from graphexec._arguments import FUNCTION, Constraint, validate
from graphexec.errors import InputError, described
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import EVENT_TYPES, Done, Event, Failed, Reported
from graphexec.kernel.graph import Graph

# A function that is called with each event of a run, or with those of the classes in its attribute `event_types`, if it
# has one: the engine makes no others. With `reports_at_end = True` it may receive what a call reports at its end,
# which saves a thread or a task. An exception of it ends the run only if the function has `raise_error = True`.
Observer: TypeAlias = Callable[[Event[Any]], object]

# Makes a context manager around each call.
AroundCall: TypeAlias = Callable[[CallContext[Any]], AbstractContextManager[object]]

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
    the first `own` observers, those of the run, receive no `Failed`; those of instruments watch this stream alone.
    """

    __slots__ = ("_by_type", "_continues", "_ended", "_failed", "_observers", "_own", "_reports", "_unreported")

    def __init__(
        self, observers: Sequence[Observer], continues: Callable[[], bool] | None = None, *, own: int = 0
    ) -> None:
        self._observers = tuple(observers)
        self._own = own
        self._by_type = {kind: tuple(one for one in observers if kind in _event_types(one)) for kind in EVENT_TYPES}
        self._continues = continues
        # The number of observers that were called with the last event, `Done` or `Failed`.
        self._ended = 0
        self._failed: list[object] = []
        self._unreported: list[tuple[object, ObserverFailed]] = []
        # Reports for the consumer.
        self._reports: list[Reported] = []

    @property
    def wanted(self) -> Collection[type[Any]]:
        """The classes of the events that an observer receives."""
        return [kind for kind, receivers in self._by_type.items() if receivers]

    @property
    def reports_at_once(self) -> bool:
        """Whether an observer receives what a call reports while it runs, and not at its end."""
        return any(not getattr(one, "reports_at_end", False) for one in self._by_type[Reported])

    # Any event but the last: it has a node.
    def __call__(self, event: Any) -> None:
        """Call the observers with an event, and with reports of other observers' errors."""
        for observer in self._by_type[type(event)]:
            self._call(observer, event)
        while self._unreported:
            failed, news = self._unreported.pop(0)
            report = Reported(event.node, None, news, event.call)
            self._reports.append(report)
            for observer in self._by_type[Reported]:
                if observer is not failed:
                    self._call(observer, report)

    def end(self, event: Done[Any] | Failed) -> None:
        """Call the observers with the last event, except those that have already received one.

        After `Failed` an observer's exception is only logged, because the run's own exception is raised.
        """
        if type(event) is Failed and self._continues is not None and self._continues():
            self._ended = max(self._ended, self._own)
        for observer in self._observers[self._ended :]:
            self._ended += 1
            if type(event) in _event_types(observer):
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
            _log(news, error)


def _log(message: object, error: Exception) -> None:
    # A log handler writes its own failures to stderr, which may be closed.
    with contextlib.suppress(Exception):
        # Imported here because most runs do not need it.
        import logging

        logging.getLogger("graphexec").warning("%s", message, exc_info=error)


def _event_types(observer: object) -> Collection[object]:
    return getattr(observer, "event_types", EVENT_TYPES)


def _is_observer(value: object) -> bool:
    # The method that calls an object may be a coroutine function.
    called = getattr(value, "__call__", None)  # noqa: B004
    types = _event_types(value)
    known = isinstance(types, Collection) and {*types} <= {*EVENT_TYPES}  # pyright: ignore[reportUnnecessaryIsInstance]
    return known and callable(value) and not any(map(inspect.iscoroutinefunction, (value, called)))


OBSERVERS = Constraint(
    "a list of functions (def) that take an event, whose event_types are classes of events if they have any",
    # A string has characters, which are no functions.
    lambda value: isinstance(value, Sequence) and all(map(_is_observer, value)),  # pyright: ignore[reportUnknownArgumentType]
)


@final
@dataclass(frozen=True, slots=True)
class RunStart:
    """A run that begins, as an instrument receives it.

    `value` is the value or the snapshot that it starts from, and `host` the call that contains it, if it is nested. The
    agent and the tools of an executor are among the `settings` of the graph and of its nodes.
    """

    run_id: str
    graph: Graph[Any, Any]
    value: object = field(repr=False)
    host: CallContext[Any] | None
    context: Any = field(repr=False)


# Returns an observer of the run and what makes a context manager around each of its calls; `None` for neither.
Instrument: TypeAlias = Callable[[RunStart], "tuple[Observer | None, AroundCall | None] | None"]

# Those that are installed.
instruments: list[Instrument] = []


def instrument(function: Instrument) -> Callable[[], None]:
    """Call `function` at the start of every run of this process, in its caller's context; return what undoes this.

    It may return an observer and an `around_call` for the run, each of which may be `None`. Nested runs are included,
    and those of machines without an agent. An exception of the function is logged, and the run goes on without it.
    Raises `InputError` unless it is a function.
    """
    validate("instrument", ("function", function, FUNCTION))
    own: Instrument = partial(function)
    instruments.append(own)

    def remove() -> None:
        with contextlib.suppress(ValueError):
            instruments.remove(own)

    return remove


def find_hooks(
    start: RunStart, observers: Sequence[Observer], arounds: Sequence[AroundCall | None]
) -> tuple[Sequence[Observer], AroundCall | None]:
    """Return the observers of a run with those of the instruments, and one function that makes all its contexts."""
    for function in tuple(instruments):
        try:
            observer, around = function(start) or (None, None)
            if not all(one is None or callable(one) for one in (observer, around)):
                raise InputError("it returned what is no pair of functions; return (observer, around_call)")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - a run does not depend on who watches it
            _log(f"an instrument failed with {described(error)}; the run goes on without it", error)
            continue
        observers = observers if observer is None else (*observers, observer)
        arounds = (*arounds, around)
    several = [around for around in arounds if around is not None]
    return observers, partial(_enter_all, several) if len(several) > 1 else several[0] if several else None


@contextlib.contextmanager
def _enter_all(arounds: Sequence[AroundCall], call: CallContext[Any]) -> Generator[None, None, None]:
    with contextlib.ExitStack() as stack:
        for around in arounds:
            stack.enter_context(around(call))
        yield
