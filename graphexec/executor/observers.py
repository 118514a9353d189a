"""Deliver a run's events to its observers, and its result to its memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

from graphexec.errors import InputError
from graphexec.executor.console import Printed
from graphexec.executor.inputs import inputs_of, outputs_of
from graphexec.executor.result import Ending
from graphexec.executor.table import Ready
from graphexec.kernel.events import Done, Event, Reported
from graphexec.kernel.snapshot import Snapshot
from graphexec.runtime.io import IO
from graphexec.runtime.progress import Listener, heard_by
from graphexec.runtime.runner import OnEvent

if TYPE_CHECKING:
    from graphexec.memory import Memory

# A function of each event of every run.
Observer: TypeAlias = Callable[[Event[Ending]], object]


@final
@dataclass(frozen=True, slots=True)
class Observers:
    """The observers of an executor's runs, called before the consumer, and the memory, saved before `Done`."""

    memory: Memory | None
    observers: tuple[Observer, ...]
    verbose: bool

    def make_listener(self, start: Ready | Snapshot, io: IO, consumer: OnEvent | None) -> OnEvent | None:
        """Return what receives the events of a run that begins at `start`, or `None` if nobody observes it."""
        observers = self.observers
        if self.verbose:
            observers = (*observers, Printed(start=start if isinstance(start, Snapshot) else None))
        memory = self.memory
        if not observers and memory is None:
            return consumer

        async def deliver(*events: Event[Ending]) -> None:
            for event in events:
                for observer in observers:
                    observer(event)
            # Who leaves the stream here leaves no observer behind.
            if consumer is not None:
                for event in events:
                    await consumer(event)

        if memory is None:
            return deliver
        saved_in = memory

        async def save(done: Done[Ending]) -> list[Reported]:
            reports: list[object] = []
            saved = inputs_of(start), outputs_of(done.outcome)
            with heard_by(Listener(reports.append)):
                await io.either(lambda: saved_in.save(*saved), lambda: saved_in.asave(*saved))
            return [Reported(done.snapshot.node, None, report) for report in reports]

        async def save_and_deliver(event: Event[Ending]) -> None:
            reports = await save(event) if isinstance(event, Done) else []
            await deliver(*reports, event)

        return save_and_deliver


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
