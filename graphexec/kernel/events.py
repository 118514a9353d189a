"""What a run tells its observers: news, in the order in which it happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar, final

from graphexec.kernel.effects import CallContext, Effect, RunScope
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits, Spent
from graphexec.kernel.snapshot import Snapshot, find_attached


@final
@dataclass(frozen=True, slots=True)
class MemberStarted:
    """Sent to the path of a run: the member at this position of the open batch is being carried out."""

    member: int


@final
@dataclass(frozen=True, slots=True)
class MemberReply:
    """Sent to the path of a run: the reply (or `Cut`) to the member at this position of the open batch."""

    member: int
    reply: object


@final
@dataclass(frozen=True, slots=True)
class ChargedReply:
    """A reply in a journal, with what runs within the call were charged, by meter."""

    reply: object
    charged: Mapping[str, float]


# What was sent to the run's path, the second of the run's clock, and how many seconds it took.
JournalEntry: TypeAlias = tuple[object, float, float]


@final
class Journal:
    """The replies of a run of `graph` within `limits`, in order, and the snapshot that it began with.

    It holds the very objects that handlers returned. It belongs to this process: a pickled result has none.
    """

    __slots__ = ("_parts", "graph", "limits", "scope", "start")

    def __init__(
        self,
        graph: Graph[Any, Any],
        limits: Limits,
        start: Snapshot,
        parts: Sequence[Any],
        scope: RunScope | None = None,
    ) -> None:
        # With the run's context, which nodes may have been given.
        self.scope = scope
        self.graph = graph
        self.limits = limits
        self.start = start
        # JournalEntry after reply, the three parts of each in turn: a tuple of each would cost a long run a tenth more.
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

    def __iter__(self) -> Iterator[JournalEntry]:
        parts = iter(self._parts)
        return zip(parts, parts, parts, strict=True)


def attach_journal(error: BaseException, journal: Journal) -> None:
    """Attach the replies of a run so far to the exception that ends it."""
    error.__dict__["graphexec_journal"] = journal


def journal_of(error: BaseException) -> Journal | None:
    """Return the journal of the run that this exception ended, or `None`: `recording_of(error)` draws it."""
    found = find_attached(error, "graphexec_journal")
    return found if isinstance(found, Journal) else None


F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Entered:
    """The run is at `node` with `value`; `spent` does not yet contain this entry."""

    node: str
    value: object
    spent: Spent
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Asked:
    """`node` asks for `effect`, which is charged already and is carried out now; of a batch each has its own event."""

    node: str
    effect: Effect[Any]
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Reported:
    """A handler reports `news` (a `ReplyDelta`, or a notice) while `effect` is answered."""

    node: str
    effect: Effect[Any] | None
    # Whatever handlers report.
    news: Any
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Answered:
    """`effect` was answered with `reply` after `seconds`; `spent` contains what it cost."""

    node: str
    effect: Effect[Any]
    # The reply of whatever effect it was.
    reply: Any
    seconds: float
    spent: Spent
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Moved:
    """`node` was left with `outcome` for `target`, a node's name or `"END"`: one edge of the table."""

    node: str
    outcome: object
    target: str
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Done(Generic[F_co]):
    """The run is over, with the result `outcome`: the last event, unless an exception ended the run.

    `snapshot` is the run at its last node, with all that it spent; `journal` has its replies, if it was driven whole.
    `observer_seconds` is the time that observers took before this event, and `node_seconds` that of the nodes, and of
    the policies that they call: neither can be cut. `call` is the last node's, as that of `Failed` is.
    """

    outcome: F_co
    snapshot: Snapshot
    journal: Journal | None = field(default=None, compare=False, repr=False)
    observer_seconds: float = field(default=0.0, compare=False)
    node_seconds: float = field(default=0.0, compare=False)
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)

    @property
    def spent(self) -> Spent:
        """What the whole run spent."""
        return self.snapshot.spent


@final
@dataclass(frozen=True, slots=True)
class Failed:
    """An exception ends the run at `snapshot`: the last event of observers; whoever iterates gets `error` itself.

    What is not an `Exception` has ended the run from outside: an interrupt, a cancellation, or a closed stream.
    """

    error: BaseException
    snapshot: Snapshot
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)

    @property
    def spent(self) -> Spent:
        """What the run has spent."""
        return self.snapshot.spent


Event: TypeAlias = Entered | Asked | Reported | Answered | Moved | Done[F] | Failed
