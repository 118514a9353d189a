"""Replay the records of a run with an executor's machine: pure nodes are called again, models and tools are not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

from graphexec.draw.forks.script import call_key
from graphexec.draw.runs.data import Record, effect_data
from graphexec.draw.runs.prompts import PromptHistory
from graphexec.effects import ModelEffect
from graphexec.errors import InputError
from graphexec.kernel.effects import Batch, CallContext
from graphexec.kernel.events import (
    Answered,
    Asked,
    ChargedReply,
    Entered,
    Event,
    JournalEntry,
    MemberReply,
    MemberStarted,
    Moved,
)
from graphexec.kernel.execution import Execution
from graphexec.kernel.serialization import format_json, parse_json
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import restore_charges

# Returns the reply to a call, whose record is the second argument.
ReplySource: TypeAlias = Callable[[CallContext[Any], Record], object]


@final
@dataclass(frozen=True, slots=True)
class Replayed:
    """The replayed part of a run: its events, the entries of its journal, and the run after it.

    `changed_request` is the first step whose request to a model differs from the recorded one, if any.
    """

    events: tuple[Event[Any], ...]
    entries: tuple[JournalEntry, ...]
    snapshot: Snapshot
    changed_request: int | None


def replay_records(execution: Execution, records: Sequence[Record], source: ReplySource) -> Replayed:
    """Replay the records of a run, which end with a reply, or are empty.

    Raises `InputError` where the run of this machine differs from the recorded one, and any exception of a node.
    """
    return _Replay(execution, records, source).run()


@final
class _Replay:
    def __init__(self, execution: Execution, records: Sequence[Record], source: ReplySource) -> None:
        self._execution = execution
        self._left = deque(records)
        self._source = source
        self._events: list[Event[Any]] = []
        self._entries: list[JournalEntry] = []
        self._prompts = PromptHistory()
        self._changed_request: int | None = None
        self._step = 0
        # The second of the run's clock, and the batch without all of its replies.
        self._now = execution.seconds
        self._batch: Batch | None = None

    def run(self) -> Replayed:
        path = self._execution.run(observed=True, by_member=True)
        answer: tuple[object, float, float] | None = None
        # Any: an event, a call or a batch.
        item: Any
        try:
            while self._left:
                try:
                    # A new generator, and one that yielded an event, is sent `None`.
                    item = path.send(answer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                except StopIteration:
                    raise self._divergence("it ends") from None
                if isinstance(item, (CallContext, Batch)):
                    asked: CallContext[Any] | Batch = item  # pyright: ignore[reportUnknownVariableType] - narrowed
                    entry = self._answer(asked)
                    self._entries.append(entry)
                    answer = (restore_charges(self._execution, asked, entry[0]), *entry[1:])
                else:
                    answer = None
                    self._take_event(item)
            snapshot = _refund(self._execution.snapshot(), self._batch)
        finally:
            path.close()
        return Replayed(tuple(self._events), tuple(self._entries), snapshot, self._changed_request)

    def _take_event(self, event: Any) -> None:
        record = self._left[0]
        self._step += isinstance(event, Entered) or not self._step
        if not _is_same(event, record):
            raise self._divergence(_describe_event(event))
        if isinstance(event, Asked) and isinstance(event.effect, ModelEffect):
            self._compare_request(event.effect, record)
        self._left.popleft()
        self._events.append(event)

    def _compare_request(self, effect: ModelEffect[Any], record: Record) -> None:
        request = _as_json(self._prompts.record(effect.request))
        recorded = {name: one for name, one in record["effects"][0].items() if name in ("prompt", "request")}
        if self._changed_request is None and request != recorded:
            self._changed_request = self._step

    def _answer(self, asked: CallContext[Any] | Batch) -> tuple[object, float, float]:
        """Return the answer to a request from the next record."""
        record = self._left[0]
        calls = asked.calls if isinstance(asked, Batch) else (asked,)
        called = [f"{call.node} calls {_describe_effect(effect_data(call.effect))}" for call in calls if call.effect]
        if record["event"] not in ("asked", "answered"):
            raise self._divergence(called[0])
        sequence, member = call_key(record)
        open_members = asked.open if isinstance(asked, Batch) else {0: None}
        if sequence != calls[0].sequence or member not in open_members:
            raise self._divergence(called[0])
        self._batch = asked if isinstance(asked, Batch) else None
        if record["event"] == "asked":
            return MemberStarted(member), self._now, 0.0
        self._now = max(self._now, record["spent"]["seconds"])
        try:
            reply = self._source(calls[member], record)
        except InputError as error:
            raise InputError(f"step {self._step} ({calls[member].node}): {error}") from error
        within = record.get("within")
        reply = reply if isinstance(reply, ChargedReply) or not within else ChargedReply(reply, within)
        answer = MemberReply(member, reply) if isinstance(asked, Batch) else reply
        return answer, self._now, record["replies"][0]["seconds"]

    def _divergence(self, here: str) -> InputError:
        return InputError(
            f"step {max(1, self._step)}: {_describe_record(self._left[0])} in the recorded run, and {here} in that of "
            "this executor; pass the executor that ran, with the same tools and limits, or fork an earlier step"
        )


def _refund(snapshot: Snapshot, batch: Batch | None) -> Snapshot:
    """Return the snapshot without the charges of calls without a reply: who resumes it is charged for them again."""
    if batch is None or not batch.open:
        return snapshot
    meters = dict(snapshot.spent.meters)
    for member in batch.open:
        for meter, amount in batch.request.effects[member].charges.items():
            meters[meter.name] -= amount
    return replace(snapshot, spent=replace(snapshot.spent, meters=meters))


def _is_same(event: Any, record: Record) -> bool:
    if record["event"] != type(event).__name__.lower() or record["node"] != event.node:
        return False
    match event:
        case Asked(_, effect):
            return _named_parts(_as_json(effect_data(effect))) == _named_parts(record["effects"][0])
        case Moved(_, outcome, target):
            return (type(outcome).__name__, target) == (record["outcome"], record["target"])
        case _:
            return True


def _named_parts(effect: Record) -> Record:
    """Return what identifies an effect. The value of a user's own effect may be an address in memory."""
    return {name: effect.get(name) for name in ("effect", "tool", "tool_input", "question")}


def _as_json(data: Record) -> Record:
    """Return data as they are when they have been written and read."""
    read: Record = parse_json(format_json(data))
    return read


def _describe_event(event: Any) -> str:
    match event:
        case Entered(node):
            return f"{node} is entered"
        case Asked(node, effect):
            return f"{node} calls {_describe_effect(effect_data(effect))}"
        case Moved(node, outcome, target):
            return f"{node} leads to {target} with {type(outcome).__name__}"
        case Answered(node):
            return f"{node} gets a reply"
        case _:
            raise AssertionError(event)


def _describe_effect(data: Record) -> str:
    return f"{data['tool']}({format_json(data.get('tool_input'))})" if "tool" in data else str(data["effect"])


def _describe_record(record: Record) -> str:
    node = record["node"]
    match record:
        case {"event": "entered"}:
            return f"{node} is entered"
        case {"event": "asked", "effects": [effect, *_]}:
            return f"{node} calls {_describe_effect(effect)}"
        case {"event": "moved"}:
            return f"{node} leads to {record['target']} with {record['outcome']}"
        case _:
            return f"{node} gets a reply"
