"""The log of a stored run: read, it is the run's journal; written, it is one row for each effect."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, final

from pydantic import ValidationError

from graphexec.actions import StoppedResponse
from graphexec.draw.runs.data import limits_data, read_limits
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import InputError, RunSuspended, SnapshotError, described
from graphexec.kernel.effects import Batch, CallContext, Effect, InDoubt, members_of
from graphexec.kernel.events import Done, JournalEntry, MemberReply, MemberStarted, Moved, Restarted
from graphexec.kernel.meters import Limits
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import Replay, restart
from graphexec.messages.observations import format_observation
from graphexec.runs.entries import ask_entry, decode_reply, describe_effect, encode_reply
from graphexec.runs.errors import CallInDoubtError, RunChangedError
from graphexec.runs.questions import RETRY, Waiting, load_answer, make_question
from graphexec.runtime.handlers import Handler, Handlers
from graphexec.runtime.io import IO
from graphexec.runtime.stored import Opening

if TYPE_CHECKING:
    from graphexec.runs.store import Runs

# The place of a call in its run: the number of its request, and of the member.
_Key = tuple[int, int]

# The states of a call without a reply: begun, waiting for an answer, ended with an exception.
_BEGUN, _WAITS, _RAISED = "ask", "wait", "raised"


@final
@dataclass(slots=True)
class History:
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
    # Of the request that waits.
    open: dict[_Key, str] = field(default_factory=dict[_Key, str])
    calls: Sequence[CallContext[Any]] = ()
    # The edges that it has taken since the last one in the log.
    moves: list[str] = field(default_factory=list[str])
    snapshot: Snapshot | None = None

    @property
    def seconds(self) -> float:
        """The second of the run's clock."""
        assert self.snapshot is not None, "it was replayed"
        return self.snapshot.spent.seconds

    def policy(self, call: CallContext[Any]) -> InDoubt:
        """Return what is to become of a call that may have been carried out."""
        effect = call.effect
        assert effect is not None, "a call has an effect"
        kind: Any = type(effect)
        handler = self.opening.handlers_of(call.node).get(kind)
        return effect.in_doubt if handler is None or handler.in_doubt is None else handler.in_doubt(effect)

    def choose_unpaid(self) -> list[int]:
        """Return the open calls that are made and charged again. Raises `CallInDoubtError`."""
        unpaid: list[int] = []
        for call in self.calls:
            state = self.open.get((call.sequence, call.member))
            policy = self.policy(call) if state == _BEGUN else None
            if policy == "fail":
                name = call.effect.name if isinstance(call.effect, CallTool) else type(call.effect).__name__
                raise CallInDoubtError(
                    call.run_id,
                    f"was interrupted in {name} ({call.id}), which may have been carried out; fork it before that "
                    "call, or continue it with in_doubt='tell', 'ask' or 'retry'",
                )
            if state == _RAISED or policy == "retry":
                unpaid.append(call.member)
        return unpaid


@final
class _Reader:
    """The entries of a log, in their order, for a run that is replayed."""

    def __init__(self, rows: Iterable[str], history: History) -> None:
        self._entries = self._parse(rows)
        self._history = history
        self.path: list[str] = []

    def _parse(self, rows: Iterable[str]) -> Iterator[list[Any]]:
        history = self._history
        for row in rows:
            written, *entries = json.loads(row)
            history.rows, history.written = history.rows + 1, written
            yield from entries

    def first(self) -> None:
        """Read the first entry, with the limits that the run began with."""
        entry = next(self._entries, None)
        if entry is not None:
            self._history.attempts = entry[1]
            self._history.limits = read_limits(entry[5])

    def __call__(self, item: CallContext[Any] | Batch) -> JournalEntry | None:
        history = self._history
        calls = (item,) if isinstance(item, CallContext) else item.calls
        for entry in self._entries:
            kind = entry[0]
            if kind == "move":
                self.path += entry[1]
                continue
            if kind == "begin":
                _, history.attempts, at, unpaid, crashed, limits = entry
                history.open = {key: state for key, state in history.open.items() if state == _WAITS}
                journal = Restarted(read_limits(limits), frozenset(unpaid or ()), crashed), at, 0.0
            else:
                call = self._find(calls, entry[1], entry[2])
                key = (call.sequence, call.member)
                if kind == "ask":
                    self._compare(call, entry)
                    history.open[key] = _BEGUN
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
        before, now = json.dumps(details, ensure_ascii=False), describe_effect(call.effect)
        if (call.node, type(call.effect).__name__, now) == (node, effect, before):
            return
        raise RunChangedError(
            call.run_id,
            f"has asked for {effect} {before} at {node} ({call.id}), where the machine now asks for "
            f"{type(call.effect).__name__} {now} at {call.node}; continue it with the "
            f"code that it began with",
            [call.node],
        )

    def _read_reply(self, call: CallContext[Any], item: CallContext[Any] | Batch, entry: list[Any]) -> JournalEntry:
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


def read_log(rows: Iterable[str], opening: Opening, start: Snapshot) -> History:
    """Replay the rows of a run's log. Raises `RunChangedError` where the machine now asks for something else."""
    history = History(opening, start, opening.limits, snapshot=start)
    reader = _Reader(rows, history)
    reader.first()
    if not history.attempts:
        return history
    run = Replay(opening.graph, start, history.limits, reader, observed=(Moved,))
    taken = [_name_move(event) for event in run]
    for number, move in enumerate(reader.path):
        if taken[number : number + 1] != [move]:
            now = taken[number] if number < len(taken) else "no edge"
            raise RunChangedError(
                opening.run_id,
                f"has taken the edge {move}, where the machine now takes {now}; continue it with the code that it "
                "began with",
                [move.partition(">")[0]],
            )
    history.moves = taken[len(reader.path) :]
    history.snapshot, history.ended = run.execution.snapshot(), run.ended
    item = run.waiting
    calls = () if item is None else (item,) if isinstance(item, CallContext) else item.calls
    members = item.open if isinstance(item, Batch) else (0,)
    history.calls = [call for call in calls if call.member in members]
    return history


def _name_move(event: Moved) -> str:
    return _move_name(event.node, type(event.outcome))


@cache
def _move_name(node: str, outcome: type) -> str:
    return f"{node}>{outcome.__name__}"


@final
class StoredLog:
    """The log of a run that goes on, a `RunLog`: each row is one commit, of a reply and the calls that begin after it.

    It observes the edges that the run takes.
    """

    event_types = (Moved,)
    raise_error = True

    def __init__(self, store: Runs, opening: Opening, history: History, serial: int, token: int) -> None:
        self.store = store
        self.root = opening.parent or opening.run_id
        self.start, self.entries, self.limits = history.start, history.entries, history.limits
        self._opening, self._history, self._serial, self._token = opening, history, serial, token
        self._number = history.rows
        self._pending: list[str] = []
        self._moves = history.moves
        # Calls that are answered from the store, or have begun in this process.
        self._known: set[_Key] = set()
        self._begun: dict[_Key, None] = {}
        self._status: tuple[str, str | None] = ("failed", None)
        self.snapshot = history.snapshot or history.start

    def begin(self, attempt: list[Any]) -> None:
        """Store that this process carries the run on: `attempt` has its second, its unpaid calls, and the crash."""
        at, unpaid, crashed = attempt
        limits = self._opening.limits
        snapshot = self._history.snapshot
        assert snapshot is not None, "it was replayed"
        entry = ["begin", self._token, at, unpaid, crashed, limits_data(limits, self._opening.graph.own)]
        self._pending.append(json.dumps(entry))
        self._commit()
        if self._history.attempts:
            restarted = Restarted(limits, frozenset(unpaid or ()), crashed)
            self.entries = [*self.entries, (restarted, at, 0.0)]
            snapshot = restart(snapshot, restarted, at)
        self.snapshot = snapshot

    def _commit(self) -> None:
        # The time in milliseconds.
        row = f"[{time.time():.3f},{','.join(self._pending)}]"
        self.store.append(self._opening.run_id, self._serial, self._token, self._number, row)
        self._number += 1
        self._pending = []

    def choose(self, call: CallContext[Any], handlers: Handlers) -> Handler | None:
        """Return the handler of a call, or one that answers it from the store; `None` if it has to wait."""
        effect, key = call.effect, (call.sequence, call.member)
        assert effect is not None, "a call has an effect"
        kind: Any = type(effect)
        handler = handlers.get(kind)
        policy = self._history.policy(call) if self._history.open.get(key) == _BEGUN else None
        if policy == "tell" and isinstance(effect, CallTool):
            self._known.add(key)
            return _answering(_tell(effect))
        if handler is not None and policy != "ask":
            return handler
        question = make_question(self.root, str(call.id), call.node, effect, time.time(), in_doubt=policy == "ask")
        answer = self.store.ask(question)
        if answer is None:
            return None
        if policy == "ask" and isinstance(effect, CallTool):
            text = json.loads(answer)
            if text == RETRY:
                return handler
            self._known.add(key)
            return _answering(ToolResult(text))
        try:
            reply = load_answer(effect, answer)
        except (ValidationError, InputError):
            self.store.reopen(self.root, question.key)
            return None
        self._known.add(key)
        return _answering(reply)

    def ask(self, calls: Iterable[CallContext[Any]]) -> None:
        """Store that calls begin, with the reply before them, in one commit."""
        new = False
        self._add_moves()
        for call in calls:
            key = (call.sequence, call.member)
            if key in self._known or key in self._begun:
                continue
            assert call.effect is not None, "a call has an effect"
            if not self._token:
                raise RunChangedError(
                    call.run_id,
                    f"has ended, where the machine now asks for {type(call.effect).__name__} at {call.node}; read it "
                    "with the code that it ended with",
                    [call.node],
                )
            self._pending.append(ask_entry(call, call.effect))
            self._begun[key] = None
            new = True
        if new:
            self._commit()

    def keep(self, call: CallContext[Any], reply: object, at: float, seconds: float) -> object:
        """Store the reply to a call: at once if others are open, or if a consumer may keep the run waiting."""
        effect = call.effect
        assert effect is not None, "a call has an effect"
        try:
            text, stored = encode_reply(effect, reply, call.charged, self._opening.graph.outcomes)
        except SnapshotError as error:
            if not isinstance(effect, CallTool):
                raise
            # The call is over, so that a resume must not make it again.
            told = ToolResult(f"{effect.name} was called, and its result cannot be stored: {error}", "error")
            text, stored = encode_reply(effect, told, call.charged, {})
        self._pending.append(f'["reply",{call.sequence},{call.member},{at!r},{seconds!r},{text}]')
        self._begun.pop((call.sequence, call.member), None)
        request = call.request
        if self._opening.eager or (request is not effect and request is not None and len(members_of(request)) > 1):
            self._commit()
        return stored

    def __call__(self, event: Moved) -> None:
        """Note an edge that the run takes."""
        self._moves.append(_name_move(event))

    def _add_moves(self) -> None:
        if self._moves:
            self._pending.append(f'["move",{json.dumps(self._moves)}]')
            self._moves = []

    def done(self, done: Done[Any]) -> None:
        """Store that the run has ended."""
        outcome = done.outcome
        text = format_observation(getattr(outcome, "output", outcome))
        note = f"stopped: {text}" if isinstance(outcome, StoppedResponse) else text
        if self._token:
            self._add_moves()
            self._pending.append('["end"]')
            self._commit()
        self._status = "done", note[:500]

    def fail(self, error: BaseException, calls: Sequence[CallContext[Any]], at: float) -> None:
        """Store that an exception ends the run here: it can be continued."""
        del at
        if not self._token:
            return
        self._add_moves()
        suspended = isinstance(error, RunSuspended)
        state = _WAITS if suspended else _RAISED if isinstance(error, Exception) and len(calls) == 1 else None
        if state is not None:
            self._pending += [json.dumps([state, *key]) for key in self._begun]
        # The run's own exception is raised, whatever becomes of the store.
        with contextlib.suppress(Exception):
            if self._pending:
                self._commit()
        self._status = ("waiting", None) if suspended else ("failed", described(error)[:500])

    def suspended(self) -> Waiting:
        """Return the open questions of the run."""
        return Waiting(self.root, tuple(self.store.questions(self.root)))

    def close(self) -> None:
        """Give the run up, so that others may continue it."""
        if self._token:
            self.store.release(self._opening.run_id, self._token, *self._status)


def _answering(reply: object) -> Handler:
    async def answer(effect: Effect[Any], call: CallContext[Any], io: IO) -> object:
        del effect, call, io
        return reply

    return Handler(answer, instant=True)


def _tell(effect: CallTool) -> ToolResult:
    fact = f"{effect.name} was interrupted, and it is not known whether it was carried out."
    return ToolResult(f"{fact} Find out before you call it again.", "error")


def cut_log(rows: Sequence[str], at: int | None, run_id: str) -> list[str]:
    """Return the rows with the first `at` replies, all by default. Raises `InputError` if there are fewer."""
    kept: list[str] = []
    replies = 0
    for row in rows:
        written, *entries = json.loads(row)
        taken: list[Any] = []
        for entry in entries:
            if entry[0] == "end" or (at is not None and replies >= at and entry[0] != "begin"):
                break
            taken.append(entry)
            replies += entry[0] == "reply"
        kept.append(json.dumps([written, *taken], ensure_ascii=False))
        if at is not None and replies >= at:
            break
    if at is not None and not 0 <= at <= replies:
        raise InputError(f"the run {run_id} has {replies} replies, so it cannot be forked at {at}; give 0 to {replies}")
    return kept
