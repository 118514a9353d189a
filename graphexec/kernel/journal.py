"""The journal of a run: the replies it was given. Everything else follows from them (`stepping.replay`).

Only replies decide which way a run takes through its graph, so nothing but replies is kept while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, final

from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.snapshot import Snapshot

# What an effect was answered with (or that it was cut), the second of the run's clock, and how many seconds it took.
Reply: TypeAlias = tuple[object, float, float]


@final
class Journal:
    """The replies of a run of `graph` within `limits`, in their order, and the snapshot that it began with.

    It holds the very objects that handlers returned: what is changed in them later is changed here, too. It is
    of this process: a result that is pickled is without it.
    """

    __slots__ = ("_parts", "graph", "limits", "start")

    def __init__(self, graph: Graph[Any, Any], limits: Limits, start: Snapshot, parts: Sequence[Any]) -> None:
        self.graph = graph
        self.limits = limits
        self.start = start
        # Reply after reply, the three parts of each in turn: a tuple of each would cost a long run a tenth more.
        self._parts = parts

    def __copy__(self) -> Journal:
        return self

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


def keep(error: BaseException, journal: Journal) -> None:
    """Attach the replies of a run so far to the exception that ends it."""
    error.__dict__["graphexec_journal"] = journal


def journal_of(error: BaseException) -> Journal | None:
    """Return the journal of the run that this exception ended, or `None`: `recording_of(error)` draws it."""
    found = error.__dict__.get("graphexec_journal")
    return found if isinstance(found, Journal) else None
