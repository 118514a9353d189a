"""The visits of a run: which nodes it came to, what each asked and was answered, and where it went from there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

from graphexec.draw.runs.data import Record
from graphexec.draw.runs.records import Recording
from graphexec.errors import SnapshotError
from graphexec.kernel.meters import ITERATIONS, Exhausted

# The events that happen at a node.
_AT_NODES = frozenset({"entered", "asked", "reported", "answered", "moved"})

# How a run is said to have come to an end of its own.
_ENDED = frozenset({"answered", "stopped"})


@final
@dataclass(slots=True)
class CallRecord:
    """An effect that was asked for at `began`, in seconds of the run's clock, and its `reply` after so many `seconds`.

    The reply is `None` while there is none. `news` is what was reported meanwhile, without the pieces of replies;
    `within` is what runs within the call were charged, by meter.
    """

    member: int
    effect: Record
    began: float
    seconds: float = 0.0
    reply: Record | None = None
    news: list[str] = field(default_factory=list[str])
    within: Record = field(default_factory=Record)


@final
@dataclass(slots=True)
class RequestRecord:
    """What a node asks for together: one call, or several, of which some may run `at_once`.

    `news` is what was reported about none of them.
    """

    sequence: int | None = None
    calls: list[CallRecord] = field(default_factory=list[CallRecord])
    at_once: bool = False
    news: list[str] = field(default_factory=list[str])

    @property
    def seconds(self) -> float:
        """The seconds from when the first call began until the last one ended."""
        if len(self.calls) < 2:  # noqa: PLR2004 - the difference of two times is less exact than what is recorded
            return sum(call.seconds for call in self.calls)
        return max(call.began + call.seconds for call in self.calls) - min(call.began for call in self.calls)

    def waiting(self) -> list[CallRecord]:
        """Return the calls without a reply."""
        return [call for call in self.calls if call.reply is None]


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
    requests: list[RequestRecord] = field(default_factory=list[RequestRecord])
    outcome: str | None = None
    target: str | None = None
    limit: str | None = None

    @property
    def waited(self) -> float:
        """The seconds in which it waited for replies."""
        return sum(request.seconds for request in self.requests)


def visits_of(recording: Recording) -> list[Visit]:
    """Return a run's visits, in order; what a run that is gone on with did before is not known."""
    visits = list(_visits(recording))
    for visit, following in pairwise(visits):
        visit.ended = max(visit.ended, following.began)
    if visits and recording.result is not None:
        # What was never answered took time, too.
        last, over = visits[-1], recording.result.get("seconds", 0.0)
        for call in (call for request in last.requests for call in request.waiting()):
            call.seconds = max(0.0, over - call.began)
        last.ended = max(last.ended, over)
    return visits


# Any: a value is whatever JSON holds.
def limit_text(value: Any) -> str | None:
    """What an outcome or a reply says of a spent limit, if it is about one."""
    match value:
        case {"limit": str() as limit, "value": int() | float() as most, "reached": int() | float() as reached}:
            # An outcome of the user's may have such fields, too.
            with suppress(SnapshotError):
                return str(Exhausted(limit, most, reached, value.get("wanted", 1)))
            return None
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
            visit.iteration = None if not visit.requests else visit.iteration


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
    # Where the recorder was not told which call it is, its records come in turn.
    call: Record = record.get("call", {})
    sequence, member = call.get("sequence"), call.get("member", 0)
    last = visit.requests[-1] if visit.requests and visit.requests[-1].sequence == sequence else None
    match record["event"]:
        case "asked":
            if last is None or sequence is None:
                last = RequestRecord(sequence)
                visit.requests.append(last)
            last.at_once = last.at_once or bool(last.waiting()) or len(record["effects"]) > 1
            last.calls += [CallRecord(place, one, visit.ended) for place, one in enumerate(record["effects"], member)]
        case "answered":
            _apply_answer(visit, last, record, member)
        case "reported" if record["news"] != "ReplyDelta":
            found = [one for one in last.waiting() if one.member == member] if last and record["effects"] else []
            if last is None or not (found or record["effects"]):
                last = RequestRecord()
                visit.requests.append(last)
            (found[0] if found else last).news.append(record["text"])
        case "moved":
            visit.outcome, visit.target = record["outcome"], record["target"]
        case _:
            pass


def _apply_answer(visit: Visit, request: RequestRecord | None, record: Record, member: int) -> None:
    seconds, ended = record["seconds"], record["spent"]["seconds"]
    if request is None:
        request = RequestRecord(record.get("call", {}).get("sequence"))
        visit.requests.append(request)
    for place, reply in enumerate(record["replies"], member):
        call = next((one for one in request.waiting() if one.member == place), None)
        if call is None:
            # The run is gone on with; it was asked for before.
            call = CallRecord(place, reply, ended)
            request.calls.append(call)
        call.reply, call.seconds, call.began = reply, seconds, ended - seconds
        call.within = record.get("within", {})
