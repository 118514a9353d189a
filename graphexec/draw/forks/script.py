"""The part of a recorded run that a fork replays: its records up to a step, and the calls of each step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from graphexec.draw.runs.data import Record
from graphexec.draw.runs.records import Recording
from graphexec.errors import InputError

# The number of a request in the run, and the index in the request.
CallKey: TypeAlias = tuple[int, int]

# The events that the engine makes again; the others are reports and the ends of runs.
_OF_CALLS = frozenset({"asked", "answered"})
_REPLAYED = _OF_CALLS | {"entered", "moved"}


@final
@dataclass(frozen=True, slots=True)
class ForkPoint:
    """The step after which a fork leaves the recorded run, and the call whose reply is replaced, if any."""

    step: int
    node: str
    changed: CallKey | None = None


@final
@dataclass(frozen=True, slots=True)
class _RecordedCall:
    key: CallKey
    name: str
    asked: bool
    answered: bool


def call_key(record: Record) -> CallKey:
    """Return the call of a record. Raises `InputError` for one without, as observers' own events may be."""
    call = record.get("call")
    if call is None:
        raise InputError(
            f"a record of {record['node']} does not say which call it belongs to; fork a run that graphexec run "
            "--record or a Recorder has recorded"
        )
    return call["sequence"], call["member"]


def cut_script(
    records: Sequence[Record], at: int, call: int | None, *, changes: bool
) -> tuple[tuple[Record, ...], ForkPoint]:
    """Return the records to replay for a fork at the step `at`, which end with its last reply, and where it forks.

    Steps are counted from 1. With `changes`, the reply to the call with the index `call` in the step will be replaced:
    then they end with the replies to its request. Raises `InputError` for a step or a call that the run does not have.
    """
    numbered = list(_number_steps(records))
    last = numbered[-1][0] if numbered else 0
    if not last:
        raise InputError("the run has not begun, so there is no step to go on from; run it again")
    if not 1 <= at <= last:
        many = "step 1" if last == 1 else f"steps 1 to {last}"
        raise InputError(f"there is no step {at}: the run has {many}; name one of them")
    here = [record for step, record in numbered if step == at]
    calls = list(_calls_of(here))
    point = ForkPoint(at, here[0]["node"])
    if changes:
        point = ForkPoint(at, point.node, _find_call(calls, call, at, point.node, numbered).key)
    elif call is not None:
        raise InputError(f"call {call} of step {at} is named, but no other reply; pass its reply, or leave call out")
    # The requests after that of the call are made again.
    last_request = math.inf if point.changed is None else point.changed[0]
    kept = [
        record
        for step, record in numbered
        if step < at or (step == at and (record["event"] not in _OF_CALLS or call_key(record)[0] <= last_request))
    ]
    if point.changed is not None and not any(one.answered for one in calls if one.key == point.changed):
        kept.append(_missing_reply(kept, point.node, point.changed))
    return tuple(_until_last_reply(kept)), point


def last_step(recording: Recording) -> int:
    """Return the number of the last step of a run; 0 if it has not begun."""
    return max((step for step, _ in _number_steps(recording.records)), default=0)


def _number_steps(records: Sequence[Record]) -> Iterator[tuple[int, Record]]:
    """Yield the records of nodes with their steps, as the run page counts them."""
    step = 0
    for record in records:
        if record["event"] in _REPLAYED:
            # A resumed run may begin within a node.
            step += record["event"] == "entered" or not step
            yield step, record


def _calls_of(here: Sequence[Record]) -> Iterator[_RecordedCall]:
    """Yield the calls of a step in the order in which the run page shows them."""
    found: dict[CallKey, list[Record]] = {}
    for record in here:
        if record["event"] in _OF_CALLS:
            found.setdefault(call_key(record), []).append(record)
    for key in sorted(found):
        events = [record["event"] for record in found[key]]
        (effect, *_) = found[key][0].get("effects") or found[key][0]["replies"]
        yield _RecordedCall(key, effect.get("tool", effect["effect"]), "asked" in events, "answered" in events)


def _find_call(
    calls: Sequence[_RecordedCall], call: int | None, at: int, node: str, numbered: Sequence[tuple[int, Record]]
) -> _RecordedCall:
    if not calls:
        asking = sorted({step for step, record in numbered if record["event"] == "asked"})
        some = f", such as step {min(asking, key=lambda step: abs(step - at))}" if asking else ""
        raise InputError(
            f"step {at} ({node}) makes no calls, so it has no reply to replace; name a step that does{some}"
        )
    if call is None and len(calls) > 1:
        names = ", ".join(f"{index} ({one.name})" for index, one in enumerate(calls))
        raise InputError(f"step {at} ({node}) makes {len(calls)} calls: {names}; name the one whose reply is replaced")
    index = call or 0
    if not 0 <= index < len(calls):
        raise InputError(f"step {at} ({node}) has no call {index}; its calls are 0 to {len(calls) - 1}")
    return calls[index]


def _missing_reply(kept: Sequence[Record], node: str, key: CallKey) -> Record:
    """Return the record of the reply that a call did not get, because it failed or the run was interrupted."""
    now = max(record["spent"]["seconds"] for record in kept if "spent" in record)
    call = {"run": "", "sequence": key[0], "member": key[1]}
    return {"event": "answered", "node": node, "call": call, "spent": {"seconds": now}, "replies": [{"seconds": 0.0}]}


def _until_last_reply(records: Sequence[Record]) -> Sequence[Record]:
    """Return the records up to the last reply, without the calls that have none: the fork makes these itself."""
    replies = [place for place, record in enumerate(records) if record["event"] == "answered"]
    kept: Sequence[Record] = records[: replies[-1] + 1] if replies else ()
    answered = {call_key(record) for record in kept if record["event"] == "answered"}
    return [record for record in kept if record["event"] != "asked" or call_key(record) in answered]
