"""The visits of a run: which nodes it came to, what each asked and was answered, and where it went from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

from graphexec.draw.runs.data import Record
from graphexec.draw.runs.records import Recording
from graphexec.kernel.meters import ITERATIONS, Exhausted

# The events that happen at a node.
_AT_NODES = frozenset({"entered", "asked", "reported", "answered", "moved"})

# How a run is said to have come to an end of its own.
_ENDED = frozenset({"answered", "stopped"})


@final
@dataclass(slots=True)
class EffectRecord:
    """What a node asks for at once, and its `replies` (`None` while there are none), which took so many `seconds`.

    `news` is what was reported meanwhile, without the pieces of replies; a memory's is about no effects. Where the
    deadline cut all at once, there are fewer replies than effects.
    """

    effects: Sequence[Record]
    news: list[str] = field(default_factory=list[str])
    replies: Sequence[Record] | None = None
    seconds: float = 0.0

    def reply(self, index: int) -> Record | None:
        """Return the reply to the effect of this index."""
        return self.replies[min(index, len(self.replies) - 1)] if self.replies else None


@final
@dataclass(slots=True)
class Visit:
    """The run is at `node` from `began` to `ended`, in seconds of the run's clock, and leaves it to `target`.

    `iteration` is the number in the run of the one that the visit cost, if it did. `outcome` and `target` are `None`
    where the run came no further. `limit` says what was spent, where the outcome is due to that.
    """

    node: str
    began: float
    ended: float
    iteration: int | None = None
    exchanges: list[EffectRecord] = field(default_factory=list[EffectRecord])
    outcome: str | None = None
    target: str | None = None
    limit: str | None = None

    @property
    def waited(self) -> float:
        """The seconds in which it waited for replies."""
        return sum(exchange.seconds for exchange in self.exchanges)


def visits_of(recording: Recording) -> list[Visit]:
    """Return a run's visits, in order; what a run that is gone on with did before is not known."""
    visits = list(_visits(recording))
    for visit, following in pairwise(visits):
        visit.ended = max(visit.ended, following.began)
    if visits and recording.result is not None:
        # What was never answered took time, too.
        last, over = visits[-1], recording.result.get("seconds", 0.0)
        if last.exchanges and last.exchanges[-1].replies is None:
            last.exchanges[-1].seconds += max(0.0, over - last.ended)
        last.ended = max(last.ended, over)
    return visits


# Any: a value is whatever JSON holds.
def limit_text(value: Any) -> str | None:
    """What an outcome or a reply says of a spent limit, if it is about one."""
    match value:
        case {"limit": str() as limit, "value": int() | float() as most, "reached": int() | float() as reached}:
            wanted = value.get("wanted", 1)
            return str(Exhausted(limit, most, reached, wanted if isinstance(wanted, int) else 1))
        case {"limit": {"limit": _} as inner}:
            return limit_text(inner)
        case _:
            return None


def _visits(recording: Recording) -> Iterator[Visit]:
    picture = recording.machine
    metered = {box.name for box in picture.boxes if box.metered}
    exhausts = {(arrow.source, arrow.outcome) for arrow in picture.arrows if arrow.exhausts}
    resets = [arrow for arrow in picture.arrows if ITERATIONS.name in arrow.resets]
    iterations = _Iterations(frozenset((arrow.source, arrow.outcome) for arrow in resets))
    visit: Visit | None = None
    now = 0.0
    for record in recording.records:
        spent = record.get("spent")
        # Of a run that was broken off, it may not be known what the last visit cost.
        if spent is not None and (record["event"] != "result" or record["status"] in _ENDED):
            iterations.look(visit, spent["iterations"])
        if record["event"] not in _AT_NODES:
            continue
        if spent is not None:
            now = spent["seconds"]
        # A run that is gone on with may begin within a node.
        if visit is None or record["event"] == "entered" or visit.node != record["node"]:
            visit = Visit(record["node"], now, now)
            if record["event"] == "entered" and visit.node in metered:
                iterations.begin(visit)
            yield visit
        visit.ended = now
        _apply_record(visit, record)
        if (visit.node, visit.outcome) in exhausts and visit.limit is None:
            visit.limit = limit_text(record.get("value")) or "a limit is spent"
            visit.iteration = None if not visit.exchanges else visit.iteration


class _Iterations:
    """Numbers the iterations of a run; what is `spent` tells which visits of metered nodes cost one.

    Where nothing is asked and the edge that was taken makes the budget full again, that cannot be told: it counts.
    """

    def __init__(self, resets: frozenset[tuple[str, str]]) -> None:
        self._resets = resets
        self._last: int | None = None
        self._spent = self._before = 0

    def begin(self, visit: Visit) -> None:
        """Number a visit, as far as it is known."""
        visit.iteration = (self._last or 0) + 1
        self._before = self._spent

    def look(self, visit: Visit | None, spent: int) -> None:
        """Settle the number of the visit that ends or is answered here."""
        self._last = spent if self._last is None else self._last
        self._spent = spent
        if visit is None or visit.iteration != self._last + 1:
            return
        if spent > self._before or (visit.node, visit.outcome) in self._resets:
            self._last += 1
        else:
            # Its entry was charged to a budget of the machine's own.
            visit.iteration = None


def _apply_record(visit: Visit, record: Record) -> None:
    match record["event"]:
        case "asked":
            visit.exchanges.append(EffectRecord(record["effects"]))
        case "answered":
            if not visit.exchanges or visit.exchanges[-1].replies is not None:
                visit.exchanges.append(EffectRecord(record["replies"]))
            visit.exchanges[-1].replies = record["replies"]
            visit.exchanges[-1].seconds += record["seconds"]
        case "reported":
            if record["news"] != "ReplyDelta":
                if not visit.exchanges or not record["effects"]:
                    visit.exchanges.append(EffectRecord(()))
                visit.exchanges[-1].news.append(record["text"])
        case "moved":
            visit.outcome, visit.target = record["outcome"], record["target"]
        case _:
            pass
