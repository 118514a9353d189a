"""The log of a stored run, read: it is replayed, and becomes the run's journal."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, final

from graphexec.draw.runs.data import ending_data, read_limits
from graphexec.effects import CallTool
from graphexec.errors import InputError, SnapshotError
from graphexec.kernel.counters import add_amounts
from graphexec.kernel.effects import Batch, CallContext, InDoubt
from graphexec.kernel.events import Answered, JournalEntry, MemberReply, MemberStarted, Moved, Restarted
from graphexec.kernel.meters import Limits
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import Replay
from graphexec.runs.entries import decode_reply, describe_effect
from graphexec.runs.errors import CallInDoubtError, RunChangedError
from graphexec.runs.questions import RETRY, Question, make_question
from graphexec.runtime.stored import Opening

if TYPE_CHECKING:
    from graphexec.runs.store import Runs

# The place of a call in its run: the number of its request, and of the member.
Key = tuple[int, int]

# The states of a call without a reply: begun, waiting for an answer, ended with an exception.
BEGUN, WAITS, RAISED = "ask", "wait", "raised"
# The answer that makes a call in doubt again, as JSON.
AGAIN = json.dumps(RETRY)
# The place in the entry of a restart of what nested runs had charged, if they had.
_NESTED = 6


@final
@dataclass(slots=True)
class StoredHistory:
    """What a log says of a run: its journal, where it stands, and the calls that have no reply.

    `limits` are those that it began with. `written` is when its last row was, in seconds since the epoch.
    """

    opening: Opening
    start: Snapshot
    limits: Limits
    entries: list[JournalEntry] = field(default_factory=list[JournalEntry])
    rows: int = 0
    attempts: int = 0
    written: float = 0.0
    ended: bool = False
    # When an exception ended it, on its clock.
    stopped: float = 0.0
    # Of the request that waits: the states of its calls, how often each has begun, and those to make and charge again.
    open: dict[Key, str] = field(default_factory=dict[Key, str])
    begun: Counter[Key] = field(default_factory=Counter[Key])
    unpaid: Sequence[int] = ()
    # What nested runs have charged before a restart while their calls were open, by their ids and by meter.
    charged: dict[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    calls: Sequence[CallContext[Any]] = ()
    # The edges that it has taken since the last one in the log.
    moves: list[str] = field(default_factory=list[str])
    snapshot: Snapshot | None = None
    # Any: the data of the answer.
    ending: Any = None

    def require_ending(self, outcome: Any) -> None:
        """Raise `RunChangedError` if the run ended otherwise, as far as that can be seen in another process."""
        before, now = _canonical(self.ending), _canonical(json.loads(json.dumps(ending_data(outcome))))
        if before != now and not self.opening.migrate and " at 0x" not in f"{before}{now}":
            raise RunChangedError(
                self.opening.run_id,
                f"has ended with {before}, where the machine now ends with {now}; read it with the code that it "
                "ended with",
                ["the answer"],
            )

    @property
    def seconds(self) -> float:
        """The second of the run's clock."""
        assert self.snapshot is not None, "it was replayed"
        return max(self.snapshot.spent.seconds, self.stopped)

    def policy(self, call: CallContext[Any]) -> InDoubt | None:
        """Return what is to become of a call that may have been carried out; `None` for any other."""
        return self.in_doubt(call) if self.open.get((call.sequence, call.member)) == BEGUN else None

    def in_doubt(self, call: CallContext[Any]) -> InDoubt:
        """Return what is to become of a call if its process ends."""
        effect = call.effect
        assert effect is not None, "a call has an effect"
        kind: Any = type(effect)
        handler = self.opening.handlers_of(call.node).get(kind)
        return effect.in_doubt if handler is None or handler.in_doubt is None else handler.in_doubt(effect)

    def question(self, call: CallContext[Any], *, in_doubt: bool) -> Question:
        """Return the question that a call is, which is a new one each time that the call is in doubt."""
        effect, times = call.effect, self.begun[call.sequence, call.member]
        assert effect is not None, "a call has an effect"
        key = f"{call.id}#{times}" if in_doubt and times > 1 else str(call.id)
        root = self.opening.parent or self.opening.run_id
        return make_question(root, key, call.node, effect, time.time(), in_doubt=in_doubt)

    def choose_unpaid(self, store: Runs) -> list[int]:
        """Return the open calls that are made and charged again. Raises `CallInDoubtError`."""
        unpaid: list[int] = []
        for call in self.calls:
            policy = self.policy(call)
            if policy == "fail":
                name = call.effect.name if isinstance(call.effect, CallTool) else type(call.effect).__name__
                replies = sum(type(answer) not in (Restarted, MemberStarted) for answer, _, _ in self.entries)
                raise CallInDoubtError(
                    call.run_id,
                    f"was interrupted in {name} ({call.id}), which may have been carried out; continue it with "
                    f"in_doubt='tell' or 'ask', or run store.fork({call.run_id!r}, at={replies}), which makes it again",
                )
            again = policy == "ask" and store.ask(self.question(call, in_doubt=True)) == AGAIN
            if again or policy == "retry" or self.open.get((call.sequence, call.member)) == RAISED:
                unpaid.append(call.member)
        self.unpaid = unpaid
        return unpaid


@final
class _Reader:
    """The entries of a log, in their order, for a run that is replayed."""

    def __init__(self, rows: Iterable[str], history: StoredHistory) -> None:
        self._entries = self._parse(rows)
        # Entries that have been looked at, and are read next.
        self._next: list[list[Any]] = []
        self._history = history
        self.path: list[str] = []

    def _parse(self, rows: Iterable[str]) -> Iterator[list[Any]]:
        history = self._history
        for row in rows:
            written, *entries = json.loads(row)
            history.rows, history.written = history.rows + 1, written
            yield from entries

    def __iter__(self) -> Iterator[list[Any]]:
        return self

    def __next__(self) -> list[Any]:
        return self._next.pop() if self._next else next(self._entries)

    def is_stopped(self) -> bool:
        """Return whether the process ended before the next entry."""
        entry = next(self, None)
        if entry is not None:
            self._next.append(entry)
        return entry is None or entry[0] in ("begin", "stop")

    def first(self) -> None:
        """Read the first entry, with the limits that the run began with."""
        entry = next(self, None)
        if entry is not None:
            self._history.attempts = entry[1]
            self._history.limits = read_limits(entry[5])

    def __call__(self, item: CallContext[Any] | Batch | None) -> JournalEntry | None:
        history = self._history
        calls = () if item is None else (item,) if isinstance(item, CallContext) else item.calls
        journal: JournalEntry
        for entry in self:
            kind = entry[0]
            if kind == "move":
                self.path += entry[1]
                continue
            if kind == "end":
                # What the machine asks for now is refused when it does.
                continue
            if kind == "stop":
                history.stopped = entry[1]
                continue
            if kind == "begin":
                _, history.attempts, at, unpaid, crashed, limits, *nested = entry
                # The others stay in doubt until they have their replies, also if this process ended before.
                history.open = {key: state for key, state in history.open.items() if key[1] not in (unpaid or ())}
                more = add_charges(history.charged, nested[0] if nested else {})
                journal = Restarted(read_limits(limits), frozenset(unpaid or ()), crashed, more), at, 0.0
            else:
                call = self._find(calls, entry[1], entry[2])
                key = (call.sequence, call.member)
                if kind == "ask":
                    self._compare(call, entry)
                    history.open[key] = BEGUN
                    history.begun[key] += 1
                    if isinstance(item, CallContext):
                        continue
                    journal = MemberStarted(call.member), 0.0, 0.0
                elif kind == "reply":
                    history.open.pop(key, None)
                    journal = self._read_reply(call, item, entry)
                else:
                    history.open[key] = kind
                    continue
            history.entries.append(journal)
            return journal
        return None

    def read_rest(self) -> list[Any] | None:
        """Read what follows the end of the run, if its process ended before that was stored.

        Return the first call in it, which the run did not make.
        """
        history, asked = self._history, None
        for entry in self:
            if entry[0] == "move":
                self.path += entry[1]
            elif entry[0] == "begin":
                history.attempts = entry[1]
            elif entry[0] == "end":
                history.ending = entry[1]
            elif entry[0] == "ask":
                asked = asked or entry
        return asked

    def _find(self, calls: Sequence[CallContext[Any]], sequence: int, member: int) -> CallContext[Any]:
        if calls[0].sequence != sequence or member >= len(calls):
            raise RunChangedError(
                calls[0].run_id,
                f"has the call {sequence}.{member} in its log, where the machine now asks for {calls[0].id} at "
                f"{calls[0].node}; continue it with the code that it began with",
                [calls[0].node],
            )
        return calls[member]

    def _compare(self, call: CallContext[Any], entry: list[Any]) -> None:
        assert call.effect is not None, "a call has an effect"
        _, _, _, node, effect, details = entry
        before, now = json.dumps(details), describe_effect(call.effect)
        if (call.node, type(call.effect).__name__, now) == (node, effect, before):
            return
        raise RunChangedError(
            call.run_id,
            f"has asked for {effect} {before} at {node} ({call.id}), where the machine now asks for "
            f"{type(call.effect).__name__} {now} at {call.node}; continue it with the "
            f"code that it began with",
            [call.node],
        )

    def _read_reply(self, call: CallContext[Any], item: object, entry: list[Any]) -> JournalEntry:
        effect = call.effect
        assert effect is not None, "a call has an effect"
        _, _, _, at, seconds, data, *charged = entry
        try:
            reply = decode_reply(effect, data, charged[0] if charged else None, self._history.opening.graph.outcomes)
        except SnapshotError as error:
            raise RunChangedError(
                call.run_id, f"cannot be read ({call.id}): {error}", [type(effect).__name__]
            ) from error
        return reply if isinstance(item, CallContext) else MemberReply(call.member, reply), at, seconds


def read_log(rows: Iterable[str], opening: Opening, start: Snapshot) -> StoredHistory:
    """Replay the rows of a run's log. Raises `RunChangedError` where the machine now asks for something else."""
    history = StoredHistory(opening, start, opening.limits, snapshot=start)
    reader = _Reader(rows, history)
    reader.first()
    if not history.attempts:
        return history
    run = Replay(opening.graph, start, history.limits, reader, observed=(Moved, Answered), is_stopped=reader.is_stopped)
    taken = [name_move(event) for event in run if isinstance(event, Moved)]
    asked = reader.read_rest()
    for number, move in enumerate(reader.path):
        if taken[number : number + 1] != [move]:
            now = taken[number] if number < len(taken) else "no edge"
            raise RunChangedError(
                opening.run_id,
                f"has taken the edge {move}, where the machine now takes {now}; continue it with the code that it "
                "began with",
                [move.partition(">")[0]],
            )
    if asked is not None:
        raise RunChangedError(
            opening.run_id,
            f"has asked for {asked[4]} at {asked[3]}, where the machine now ends; continue it with the code that it "
            "began with",
            [asked[3]],
        )
    history.moves = taken[len(reader.path) :]
    history.snapshot, history.ended = run.execution.snapshot(), run.ended
    item = run.waiting
    calls = () if item is None else (item,) if isinstance(item, CallContext) else item.calls
    members = item.open if isinstance(item, Batch) else (0,)
    history.calls = [call for call in calls if call.member in members]
    return history


def add_charges(charged: dict[str, Mapping[str, float]], more: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Add what nested runs have charged since, by their ids and by meter; return the sum of it by meter."""
    total: dict[str, float] = {}
    for run_id, amounts in more.items():
        charged[run_id] = add_amounts(charged.get(run_id, {}), amounts)
        total = add_amounts(total, amounts)
    return total


# Any: JSON data.
def _canonical(data: Any) -> str:
    """Return data as JSON in which lists are sorted, as those of a set have another order in each process."""
    # Any: pyright narrows it to unknown types.
    held: Any = data
    if isinstance(data, list):
        return json.dumps(sorted(map(_canonical, held)))
    if isinstance(data, dict):
        return json.dumps({name: _canonical(held[name]) for name in sorted(held)})
    return json.dumps(data)


def name_move(event: Moved) -> str:
    """Return the name of an edge in a log."""
    kind: Any = event.outcome.__class__
    return _move_name(event.node, kind)


# Any: mypy does not take a class for hashable.
@cache
def _move_name(node: str, outcome: Any) -> str:
    return f"{node}>{outcome.__name__}"


def cut_log(rows: Sequence[str], at: int | None, run_id: str) -> list[str]:
    """Return the rows with the first `at` replies, all by default. Raises `InputError` if there are fewer."""
    kept: list[list[Any]] = []
    replied: set[tuple[int, int]] = set()
    for row in rows:
        written, *entries = json.loads(row)
        taken: list[Any] = []
        for entry in entries:
            if entry[0] == "end" or (at is not None and len(replied) >= at and entry[0] != "begin"):
                break
            taken.append(entry)
            if entry[0] == "reply":
                replied.add((entry[1], entry[2]))
        kept.append([written, *taken])
        if at is not None and len(replied) >= at:
            break
    if at is None:
        return [*map(json.dumps, kept)]
    most = len(replied)
    if not 0 <= at <= most:
        raise InputError(f"the run {run_id} has {most} replies, so it cannot be forked at {at}; give 0 to {most}")
    # The copy makes the calls without a reply, which in the original are begun: they are in no doubt.
    for stored in kept:
        stored[1:] = [one for one in stored[1:] if one[0] not in (BEGUN, WAITS, RAISED) or (one[1], one[2]) in replied]
        for one in stored[1:]:
            if one[0] == "begin" and len(one) > _NESTED:
                one[_NESTED] = {key: charged for key, charged in one[_NESTED].items() if place_of(key) in replied}
    return [*map(json.dumps, kept)]


def place_of(key: str) -> Key:
    """Return the request and the member of the call that has this id."""
    sequence, _, member = key.rpartition("/")[2].partition(".")
    return int(sequence), int(member)
