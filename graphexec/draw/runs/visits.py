"""The visits of a run: each node that it entered, with requests, replies, and the edge that it took."""

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
_AT_NODES = frozenset({"entered", "asked", "reported", "answered", "moved", "failed"})

# The statuses of runs that reached END.
_ENDED = frozenset({"answered", "stopped"})


@final
@dataclass(slots=True)
class CallRecord:
    """An effect that was requested at `began`, in seconds of the run's clock, and its `reply` after `seconds`.

    `reply` is `None` while the call is pending. `news` are the reports about the call, without streamed parts of
    replies; `within` is the usage of nested runs, by meter.
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
    """The calls that a node requests together: one or several; `at_once` says that some of them overlap.

    `news` are reports that concern no single call.
    """

    sequence: int | None = None
    calls: list[CallRecord] = field(default_factory=list[CallRecord])
    at_once: bool = False
    news: list[str] = field(default_factory=list[str])

    @property
    def seconds(self) -> float:
        """The seconds from when the first call began until the last one ended."""
        if len(self.calls) < 2:  # noqa: PLR2004 - the recorded duration is more exact than a difference of times
            return sum(call.seconds for call in self.calls)
        return max(call.began + call.seconds for call in self.calls) - min(call.began for call in self.calls)

    def waiting(self) -> list[CallRecord]:
        """Return the calls without a reply."""
        return [call for call in self.calls if call.reply is None]


@final
@dataclass(slots=True)
class Visit:
    """A visit of `node` from `began` to `ended`, in seconds of the run's clock, after which the run goes to `target`.

    `iteration` is the number of the iteration that the visit consumed, if any. `outcome` and `target` are `None` if the
    run did not leave the node. `limit` describes the limit that caused the outcome, if one did. `unread` is the rest of
    the reply that the visit did not read. `unasked` are the steps that it added without a call: replies that could not
    be parsed. `error` is the exception that ended the run there.
    """

    node: str
    began: float
    ended: float
    iteration: int | None = None
    requests: list[RequestRecord] = field(default_factory=list[RequestRecord])
    outcome: str | None = None
    target: str | None = None
    limit: str | None = None
    unread: str = ""
    unasked: list[Record] = field(default_factory=list[Record])
    error: Record | None = None

    @property
    def failures(self) -> int:
        """The number of calls that failed, replies that could not be parsed, and exceptions."""
        replies = [call.reply for request in self.requests for call in request.calls if call.reply is not None]
        failed = len([reply for reply in replies if reply.get("status", "ok") != "ok"])
        return failed + len(self.unasked) + (self.error is not None)

    @property
    def waited(self) -> float:
        """The seconds spent waiting for replies."""
        return sum(request.seconds for request in self.requests)


def visits_of(recording: Recording) -> list[Visit]:
    """Return a run's visits in order; those before a resume are not known."""
    visits = list(_visits(recording))
    for visit, following in pairwise(visits):
        visit.ended = max(visit.ended, following.began)
    if visits and recording.result is not None:
        # Calls without a reply took time, too.
        last, over = visits[-1], recording.result.get("seconds", 0.0)
        for call in (call for request in last.requests for call in request.waiting()):
            call.seconds = max(0.0, over - call.began)
        last.ended = max(last.ended, over)
    return visits


# Any: a JSON value.
def limit_text(value: Any) -> str | None:
    """Return the description of the limit in an outcome or a reply, or `None` if there is none."""
    match value:
        case {"limit": str() as limit, "value": int() | float() as most, "reached": int() | float() as reached}:
            # A user's outcome may have fields of the same names.
            with suppress(SnapshotError):
                return str(Exhausted(limit, most, reached, value.get("wanted", 1)))
            return None
        case {"limit": {"limit": _} as inner}:
            return limit_text(inner)
        case _:
            return None


# Any: a JSON value.
def unread_text(value: Any) -> str:
    """Return the rest of a reply that was not read, in an outcome with actions or an answer; empty if there is none."""
    match value:
        case {"unread": str() as text, "return_values": _}:
            return text
        case {"actions": [*actions]}:
            found = [unread_text({"return_values": None, **one}) for one in actions if isinstance(one, dict)]
            return next(filter(None, found), "")
        case _:
            return ""


def _visits(recording: Recording) -> Iterator[Visit]:
    picture = recording.machine
    metered = {box.name for box in picture.boxes if box.metered}
    exhausts = {(arrow.source, arrow.outcome) for arrow in picture.arrows if arrow.exhausts}
    resets = [arrow for arrow in picture.arrows if ITERATIONS.name in arrow.resets]
    iterations = _Iterations(frozenset((arrow.source, arrow.outcome) for arrow in resets))
    visit: Visit | None = None
    now, unread = 0.0, ""
    for record in recording.records:
        spent = record.get("spent")
        # The cost of an interrupted run's last visit may be unknown.
        if spent is not None and (record["event"] != "result" or record["status"] in _ENDED):
            iterations.look(visit, spent["iterations"])
        if record["event"] not in _AT_NODES:
            continue
        if spent is not None:
            now = spent["seconds"]
        # A resumed run may begin within a node.
        if visit is None or record["event"] == "entered" or visit.node != record["node"]:
            visit = Visit(record["node"], now, now)
            if record["event"] == "entered" and visit.node in metered:
                iterations.begin(visit)
            yield visit
        visit.ended = now
        _apply_record(visit, record)
        if record["event"] == "moved":
            # Later nodes pass the same decision on.
            left, unread = unread, unread_text(record.get("value"))
            visit.unread = unread if unread != left else ""
        if (visit.node, visit.outcome) in exhausts and visit.limit is None:
            visit.limit = limit_text(record.get("value")) or "a limit is used up"
            visit.iteration = None if not visit.requests else visit.iteration


class _Iterations:
    """Number the iterations of a run; the usage in records shows which visits of metered nodes consumed one.

    If a node requests nothing and its edge resets the budget, the usage does not show it: the visit counts.
    """

    def __init__(self, resets: frozenset[tuple[str, str]]) -> None:
        self._resets = resets
        self._last: int | None = None
        self._spent = self._before = 0

    def begin(self, visit: Visit) -> None:
        """Give a visit its provisional number."""
        visit.iteration = (self._last or 0) + 1
        self._before = self._spent

    def look(self, visit: Visit | None, spent: int) -> None:
        """Confirm or drop the number of a visit when it ends or receives a reply."""
        self._last = spent if self._last is None else self._last
        self._spent = spent
        if visit is None or visit.iteration != self._last + 1:
            return
        if spent > self._before or (visit.node, visit.outcome) in self._resets:
            self._last += 1
        else:
            # The visit was charged to one of the machine's own budgets.
            visit.iteration = None


def _apply_record(visit: Visit, record: Record) -> None:
    # Records without call ids come in the order of the calls.
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
            visit.unasked = record.get("steps", [])
        case "failed":
            visit.error = record["error"]
        case _:
            pass


def _apply_answer(visit: Visit, request: RequestRecord | None, record: Record, member: int) -> None:
    if request is None:
        request = RequestRecord(record.get("call", {}).get("sequence"))
        visit.requests.append(request)
    for place, reply in enumerate(record["replies"], member):
        call = next((one for one in request.waiting() if one.member == place), None)
        if call is None:
            # The run was resumed: the request was recorded before.
            call = CallRecord(place, reply, reply["began"])
            request.calls.append(call)
        call.reply, call.seconds, call.began = reply, reply["seconds"], reply["began"]
        call.within = record.get("within", {})
