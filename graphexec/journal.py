"""The journal of a run: the replies it was given. Everything else follows from them, and is followed again.

A run is a walk through the table that only replies decide, so nothing but replies is kept while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, final

from graphexec.engine import Walk
from graphexec.events import Answered, Asked, Done, Entered, Event, Moved
from graphexec.graph import Graph
from graphexec.limits import Limits
from graphexec.snapshot import Snapshot

# What an effect was answered with (or that it was cut), the second of the run's clock, and how many seconds it took.
Reply: TypeAlias = tuple[object, float, float]


@final
class Journal:
    """The replies of a run of `graph` within `limits`, in their order, and the snapshot that it began with.

    It holds the very objects that models and tools returned: what is changed in them later is changed here, too. It is
    of this process: a result that is pickled is without it.
    """

    __slots__ = ("_parts", "graph", "limits", "start")

    def __init__(self, graph: Graph[Any, Any], limits: Limits, start: Snapshot, parts: Sequence[Any]) -> None:
        self.graph = graph
        self.limits = limits
        self.start = start
        # Reply after reply, the three parts of each in turn: a tuple of each would cost a long run a tenth more.
        self._parts = parts

    def __deepcopy__(self, memo: object) -> Journal:
        # Functions are in its graph, and nobody changes it.
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # Its graph is made of functions, which another process may not have.
        return (type(None), ())

    def __repr__(self) -> str:
        return f"<journal of {len(self)} replies from {self.start.node} on>"

    def __len__(self) -> int:
        return len(self._parts) // 3

    def __iter__(self) -> Iterator[Reply]:
        parts = iter(self._parts)
        return zip(parts, parts, parts, strict=True)

    def events(self) -> Iterator[Event[Any]]:
        """Follow the run again, and yield its events; what handlers reported on the way is not kept.

        Nothing is asked again, and no clock is read. Pure nodes are called anew: a function of yours within them, such
        as `handle_parsing_errors`, too.
        """
        walk = Walk(self.graph, self.start, self.limits)
        path = walk.path(watched=True)
        replies = iter(self)
        answer: Reply | None = None
        try:
            while True:
                # The path is sent nothing before it has begun, and after an event.
                item = path.send(answer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                if isinstance(item, (Entered, Asked, Answered, Moved)):
                    yield item
                    answer = None
                else:
                    answer = next(replies, None)
                    if answer is None:
                        return
        except StopIteration as end:
            yield Done(end.value, walk.snapshot(), self)
        finally:
            path.close()


def keep(error: BaseException, journal: Journal) -> None:
    """Attach to an exception that ends a run what the run was answered until then."""
    error.__dict__["graphexec_journal"] = journal


def journal_of(error: BaseException) -> Journal | None:
    """Return the journal of the run that this exception ended, or `None`: `recording_of(error)` draws it."""
    found = error.__dict__.get("graphexec_journal")
    return found if isinstance(found, Journal) else None
