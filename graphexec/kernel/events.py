"""What a run tells its watchers: news, in the order in which it happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar, final

from graphexec.kernel.effects import Request
from graphexec.kernel.journal import Journal
from graphexec.kernel.meters import Spent
from graphexec.kernel.snapshot import Snapshot

F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Entered:
    """The run is at `node` with `value`; `spent` does not yet contain this entry."""

    node: str
    value: object
    spent: Spent


@dataclass(frozen=True, slots=True)
class Asked:
    """`node` asks for `effect` (or several: `All`); it is charged already, and not carried out yet."""

    node: str
    effect: Request


@dataclass(frozen=True, slots=True)
class Reported:
    """While `effect` is being answered, its handler reports `news`: a `ReplyDelta` of the reply, or a notice.

    What a memory reports when the run has ended, at `node`, is about no effect.
    """

    node: str
    effect: Request | None
    # Whatever handlers report.
    news: Any


@dataclass(frozen=True, slots=True)
class Answered:
    """`effect` was answered with `reply` (a tuple for `All`) after `seconds`; `spent` contains what it cost."""

    node: str
    effect: Request
    # The reply of whatever effect it was.
    reply: Any
    seconds: float
    spent: Spent


@dataclass(frozen=True, slots=True)
class Moved:
    """`node` was left with `outcome` for `target`, a node's name or `"END"`: one edge of the table."""

    node: str
    outcome: object
    target: str


@final
@dataclass(frozen=True, slots=True)
class Done(Generic[F_co]):
    """The run is over, and `outcome` is its result: the last event, unless an exception ended the run.

    `snapshot` is the run at its last node, with all that it spent; `journal` has its replies, if it was driven whole.
    """

    outcome: F_co
    snapshot: Snapshot
    journal: Journal | None = field(default=None, compare=False, repr=False)

    @property
    def spent(self) -> Spent:
        """What the whole run spent."""
        return self.snapshot.spent


Event: TypeAlias = Entered | Asked | Reported | Answered | Moved | Done[F]
