"""The events of a run, in order, and the journal of its replies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, final

from graphexec.kernel.effects import CallContext, Effect, RunScope, fill_slots
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits, Spent
from graphexec.kernel.snapshot import NO_FRAMES, Snapshot, find_attached


@final
@dataclass(frozen=True, slots=True)
class MemberStarted:
    """Sent to `Execution.run`: this member of the open batch has started."""

    member: int


@final
@dataclass(frozen=True, slots=True)
class MemberReply:
    """Sent to `Execution.run`: the reply (or `Cut`) to this member of the open batch."""

    member: int
    reply: object


@final
@dataclass(frozen=True, slots=True)
class ChargedReply:
    """A reply in a journal, with the charges of the call's nested runs, by meter."""

    reply: object
    charged: Mapping[str, float]


class CompactReply:
    """A reply of which a journal may keep a part, and restore it from that.

    A journal keeps the replies of the whole run, and the garbage collector visits each object that is kept again and
    again. A part that is a text it does not visit; another one is kept by the run in any case.
    """

    __slots__ = ()

    # Replies are recognised by their class, without a call.
    classes: ClassVar[set[type]] = set()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        CompactReply.classes.add(cls)

    @abstractmethod
    def compact(self) -> object:
        """Return a part of this reply from which it can be restored, or the reply itself if there is none."""

    @classmethod
    @abstractmethod
    def restore(cls, part: Any) -> Self:
        """Return the reply that has this part."""


@final
@dataclass(frozen=True, slots=True)
class Restarted:
    """In a journal: the run's process has ended, and the run goes on in another one within `limits`.

    The open calls that are `unpaid`, by member, are made and charged again. If it `counts`, as after a crash, and if a
    call is unpaid, it is one of the run's `restarts`. `charged` is what the nested runs of open calls have charged, by
    meter: these calls have no reply yet that reports it.
    """

    limits: Limits
    unpaid: frozenset[int] = frozenset()
    counts: bool = False
    charged: Mapping[str, float] = field(default_factory=dict[str, float], hash=False)


# What was sent to `Execution.run`, or a `Restarted`, the second of the run's clock, and how many seconds the call took.
JournalEntry: TypeAlias = tuple[object, float, float]


@final
class Journal:
    """The replies of a run of `graph` within `limits`, in order, and the snapshot that the run started from.

    `began` is when the run began, in seconds since the epoch, and `seconds` how long it has taken until now, on its own
    clock. It has the replies that handlers returned, or equal ones. It belongs to this process: pickling a result drops
    its journal.
    """

    __slots__ = ("_answers", "_times", "began", "graph", "limits", "scope", "seconds", "start")

    def __init__(
        self,
        graph: Graph[Any, Any],
        limits: Limits,
        start: Snapshot,
        answers: Sequence[object],
        times: Sequence[float],
        scope: RunScope | None = None,
        *,
        began: float | None = None,
        seconds: float | None = None,
    ) -> None:
        # It has the run's context, because nodes may receive it.
        self.scope = scope
        self.graph = graph
        self.limits = limits
        self.start = start
        self.began = began
        self.seconds = seconds
        # For each answer the class that restores it, or `None`, and its part; and the two times of each, one by one.
        self._answers = answers
        self._times = times

    def __copy__(self) -> Journal:
        return self

    def __deepcopy__(self, memo: object) -> Journal:
        # It never changes, and its graph contains functions.
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # Its graph contains functions, which another process may not have.
        return (type(None), ())

    def __repr__(self) -> str:
        return f"<journal of {len(self)} replies from {self.start.node} on>"

    def __len__(self) -> int:
        return len(self._answers) // 2

    def __iter__(self) -> Iterator[JournalEntry]:
        kept, times = iter(self._answers), iter(self._times)
        # Any: the class is that of the reply that has the part.
        kind: Any
        for kind, part, at, seconds in zip(kept, kept, times, times, strict=True):
            yield part if kind is None or type(part) is kind else kind.restore(part), at, seconds


def attach_journal(error: BaseException, journal: Journal) -> None:
    """Attach the journal of a run to the exception that ends it."""
    error.__dict__["graphexec_journal"] = journal


def journal_of(error: BaseException) -> Journal | None:
    """Return the journal of the run that this exception ended, or `None`: `recording_of(error)` draws it."""
    found = find_attached(error, "graphexec_journal")
    return found if isinstance(found, Journal) else None


@final
@dataclass(frozen=True, slots=True)
class Cut:
    """The answer to an effect, to a batch, or to a member of one that was cut off by the deadline."""


F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)


@fill_slots
@dataclass(frozen=True, slots=True)
class Entered:
    """The run arrives at `node` with `value`; `spent` does not include the entry yet. `frames` are the snapshot's."""

    node: str
    value: object
    spent: Spent
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)

    @property
    def frames(self) -> Mapping[str, object]:
        """The frames of the run at this visit."""
        frames = None if self.call is None else self.call.frames
        return NO_FRAMES if frames is None else frames


@fill_slots
@dataclass(frozen=True, slots=True)
class Asked:
    """`node` asks for `effect`, which is charged and starts now. Each effect of a batch has its own event."""

    node: str
    effect: Effect[Any]
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Reported:
    """A handler reports `news` (a `ReplyDelta`, or a notice) while `effect` is answered."""

    node: str
    effect: Effect[Any] | None
    # Any: handlers may report any value.
    news: Any
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)


@fill_slots
@dataclass(frozen=True, slots=True)
class Answered:
    """`effect` was answered with `reply` after `seconds`; `spent` includes its cost."""

    node: str
    effect: Effect[Any]
    # Any: its class depends on the effect.
    reply: Any
    seconds: float
    spent: Spent
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)


@fill_slots
@dataclass(frozen=True, slots=True)
class Moved:
    """The run moves along one edge: from `node` with `outcome` to `target`, a node's name or `"END"`."""

    node: str
    outcome: object
    target: str
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Done(Generic[F_co]):
    """The run has ended with the result `outcome`. This is the last event, unless an exception ends the run.

    `snapshot` is the run at its last node, with everything it spent. `journal` has the replies; manual stepping has
    none. `call` belongs to the last node.
    """

    outcome: F_co
    snapshot: Snapshot
    journal: Journal | None = field(default=None, compare=False, repr=False)
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)

    @property
    def spent(self) -> Spent:
        """The spending of the whole run."""
        return self.snapshot.spent


@final
@dataclass(frozen=True, slots=True)
class Failed:
    """An exception ends the run at `snapshot`, after `seconds` on its clock, `None` if these are not known.

    This is the last event of observers; a stream raises `error` instead.

    An `error` that is not an `Exception` comes from outside: an interrupt, a cancellation, or a closed stream.
    """

    error: BaseException
    snapshot: Snapshot
    call: CallContext[Any] | None = field(default=None, compare=False, repr=False)
    seconds: float | None = field(default=None, compare=False)

    @property
    def spent(self) -> Spent:
        """The spending of the run until then."""
        return self.snapshot.spent


Event: TypeAlias = Entered | Asked | Reported | Answered | Moved | Done[F] | Failed

# The classes of all events, for an observer that receives each.
EVENT_TYPES = (Entered, Asked, Reported, Answered, Moved, Done, Failed)
