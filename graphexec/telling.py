"""Who is told of a run: its watchers of each event, and its memory of the end."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

from graphexec.errors import InputError
from graphexec.events import Done, Event, Reported
from graphexec.inputs import inputs_of, outputs_of
from graphexec.machine import Ready
from graphexec.reporting import Listener, heard_by
from graphexec.result import Ending
from graphexec.snapshot import Snapshot
from graphexec.verbose import Printed

if TYPE_CHECKING:
    from graphexec.memory import Memory

# Whoever is told of each event of every run.
Watcher: TypeAlias = Callable[[Event[Ending]], object]

Events: TypeAlias = Generator[Event[Ending], None, None]
AsyncEvents: TypeAlias = AsyncGenerator[Event[Ending], None]


@final
@dataclass(frozen=True, slots=True)
class Audience:
    """Everybody who is told of a run before its caller is; of the end the memory is told first."""

    memory: Memory | None
    watchers: tuple[Watcher, ...]
    verbose: bool

    def __bool__(self) -> bool:
        return self.memory is not None or self.verbose or bool(self.watchers)

    def told(self, events: Events, start: Ready | Snapshot) -> Events:
        """Yield the events of a run, each when everybody has been told."""
        watchers = self._watching(start)
        with closing(events):
            for event in events:
                try:
                    news: list[object] = []
                    if isinstance(event, Done) and self.memory is not None:
                        with heard_by(Listener(news.append)):
                            self.memory.save(inputs_of(start), outputs_of(event.outcome))
                    with_news = _with_news(event, news)
                    _tell(watchers, with_news)
                except Exception as error:
                    # The run ends with it there, and is remembered.
                    events.throw(error)
                    raise
                yield from with_news

    async def atold(self, events: AsyncEvents, start: Ready | Snapshot) -> AsyncEvents:
        """Yield the events like `told`, on the running event loop."""
        watchers = self._watching(start)
        async with aclosing(events):
            async for event in events:
                try:
                    news: list[object] = []
                    if isinstance(event, Done) and self.memory is not None:
                        with heard_by(Listener(news.append)):
                            await self.memory.asave(inputs_of(start), outputs_of(event.outcome))
                    with_news = _with_news(event, news)
                    _tell(watchers, with_news)
                except Exception as error:
                    await events.athrow(error)
                    raise
                for one in with_news:
                    yield one

    def _watching(self, start: Ready | Snapshot) -> tuple[Watcher, ...]:
        if not self.verbose:
            return self.watchers
        return (*self.watchers, Printed(start=start if isinstance(start, Snapshot) else None))


def _with_news(event: Event[Ending], news: Sequence[object]) -> list[Event[Ending]]:
    """What a memory has reported, and the end that it was told of."""
    node = event.snapshot.node if isinstance(event, Done) else event.node
    return [*(Reported(node, None, one) for one in news), event]


def _tell(watchers: Sequence[Watcher], events: Sequence[Event[Ending]]) -> None:
    for event in events:
        for watcher in watchers:
            watcher(event)


def watching(watchers: Sequence[Watcher]) -> tuple[Watcher, ...]:
    """Return the watchers. Raises `InputError` for what cannot be one."""
    # Users without a type checker pass one function, objects with handler methods, and coroutine functions.
    if not isinstance(watchers, Sequence) or isinstance(watchers, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"watchers is {watchers!r}; pass a list of functions of an event")
    for watcher in watchers:
        called = getattr(watcher, "__call__", None)  # noqa: B004 - whether what is called is a coroutine function
        if called is None or inspect.iscoroutinefunction(watcher) or inspect.iscoroutinefunction(called):
            raise InputError(f"watchers has {watcher!r}; pass functions of an event, and no coroutine functions")
    return tuple(watchers)
