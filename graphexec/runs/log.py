"""The log of a stored run that goes on: one row for each effect."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

from graphexec.actions import StoppedResponse
from graphexec.draw.runs.data import ending_data, limits_data
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import AbandonedError, InputError, RunSuspended, SnapshotError, described
from graphexec.kernel.effects import CallContext, Effect, members_of
from graphexec.kernel.events import Done, JournalEntry, Moved, Restarted
from graphexec.kernel.stepping import restart
from graphexec.messages.observations import format_observation
from graphexec.runs.entries import ask_entry, encode_reply
from graphexec.runs.errors import RunChangedError
from graphexec.runs.history import AGAIN, RAISED, WAITS, Key, StoredHistory, add_charges, name_move
from graphexec.runs.questions import Waiting, load_answer
from graphexec.runtime.handlers import Handler, Handlers
from graphexec.runtime.io import BLOCKING, IO, run_sync
from graphexec.runtime.stored import Opening, RunStore

if TYPE_CHECKING:
    from graphexec.runs.store import Runs


@final
class StoredLog:
    """The log of a run that goes on, a `RunLog`: each row is one commit, of a reply and the calls that begin after it.

    It observes the edges that the run takes.
    """

    event_types = (Moved,)
    raise_error = True

    def __init__(self, store: Runs, opening: Opening, history: StoredHistory, serial: int, token: int) -> None:
        self.store: RunStore = store
        self._store = store
        self.root = opening.parent or opening.run_id
        self.start, self.limits = history.start, history.limits
        self.entries: Sequence[JournalEntry] = history.entries
        self.charged: Mapping[str, Mapping[str, float]] = history.charged
        self._opening, self._history, self._serial, self._token = opening, history, serial, token
        self._number = history.rows
        self._pending: list[str] = []
        # A row that is being written.
        self._unsure: str | None = None
        self._moves = history.moves
        # Calls that are answered from the store, or have begun in this process.
        self._known: set[Key] = set()
        self._begun: dict[Key, None] = {}
        # Those that wait for an answer from now on.
        self._asking: dict[Key, CallContext[Any]] = {}
        self._status: tuple[str, str | None] = ("failed", None)
        self.snapshot = history.snapshot or history.start
        self.failure: Exception | None = None

    def begin(self, attempt: list[Any]) -> None:
        """Store that this process carries the run on.

        `attempt` has its second, its unpaid calls, the crash, and what nested runs have charged that no entry has yet.
        """
        at, unpaid, crashed, nested = attempt
        limits = self._opening.limits
        snapshot = self._history.snapshot
        assert snapshot is not None, "it was replayed"
        entry = ["begin", self._token, at, unpaid, crashed, limits_data(limits, self._opening.graph.own)]
        entry += [nested] * bool(nested)
        self._pending.append(json.dumps(entry))
        run_sync(self._commit(BLOCKING))
        if self._history.attempts:
            more = add_charges(self._history.charged, nested)
            restarted = Restarted(limits, frozenset(unpaid or ()), crashed, more)
            self.entries = [*self.entries, (restarted, at, 0.0)]
            snapshot = restart(snapshot, restarted, at)
        self.snapshot = snapshot

    async def _commit(self, io: IO, *, durable: bool = True) -> None:
        # The time in milliseconds.
        row = self._unsure = f"[{time.time():.3f},{','.join(self._pending)}]"
        self._pending = []
        # In an async run, the loop does not wait for the disk, nor for other processes that write.
        await io.call(self._append, row, durable=durable)
        self._number, self._unsure = self._number + 1, None

    def _append(self, row: str, *, durable: bool = True) -> None:
        try:
            self._store.append(self._opening.run_id, self._serial, self._token, self._number, row, durable=durable)
        except Exception as error:
            self.failure = error
            raise

    async def choose(self, call: CallContext[Any], handlers: Handlers, io: IO) -> Handler | None:
        """Return the handler of a call, or one that answers it from the store; `None` if it has to wait."""
        effect, key, history = call.effect, (call.sequence, call.member), self._history
        assert effect is not None, "a call has an effect"
        kind: Any = type(effect)
        handler = handlers.get(kind)
        policy = None if call.member in history.unpaid else history.policy(call)
        if policy == "tell":
            self._known.add(key)
            return _answering(effect.interrupted())
        if handler is not None and policy != "ask":
            return handler
        question = history.question(call, in_doubt=policy == "ask")
        answer = await io.call(self._store.ask, question)
        # A call that was to be made again since this process began has not been charged again.
        if answer is None or (policy == "ask" and answer == AGAIN):
            if key not in history.open:
                self._asking[key] = call
            return None
        try:
            reply = load_answer(effect, answer)
            encode_reply(effect, reply, None, {})
        except (InputError, SnapshotError) as error:
            problem = str(error).removesuffix(".")
            again = replace(question, text=f"The last answer was invalid: {problem}.\n{question.text}")
            await io.call(self._store.reopen, again)
            return None
        self._known.add(key)
        return _answering(reply)

    async def ask(self, calls: Iterable[CallContext[Any]], io: IO) -> None:
        """Store that calls begin, with the reply before them, in one commit."""
        new = durable = False
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
            # What is made again in any case may be forgotten with the power of the machine.
            durable = durable or self._history.in_doubt(call) != "retry"
        if new:
            await self._commit(io, durable=durable)

    async def keep(self, call: CallContext[Any], reply: object, at: float, seconds: float, io: IO) -> object:
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
        key = (call.sequence, call.member)
        if key in self._known and key not in self._history.open:
            # What was asked is compared with what other code asks, so that no answer is given to another question.
            self._pending.append(ask_entry(call, effect))
        self._pending.append(f'["reply",{call.sequence},{call.member},{at!r},{seconds!r},{text}]')
        self._begun.pop(key, None)
        request = call.request
        if self._opening.eager or (request is not effect and request is not None and len(members_of(request)) > 1):
            await self._commit(io, durable=False)
        return stored

    def note_error(self, call: CallContext[Any]) -> None:
        """Note that a call of a batch has raised, so that a resume makes it again."""
        key = call.sequence, call.member
        if key in self._begun:
            del self._begun[key]
            self._pending.append(json.dumps([RAISED, *key]))

    def __call__(self, event: Moved) -> None:
        """Note an edge that the run takes, unless it had ended before: then it takes its last one again."""
        if not self._history.ended:
            self._moves.append(name_move(event))

    def _add_moves(self) -> None:
        if self._moves:
            self._pending.append(f'["move",{json.dumps(self._moves)}]')
            self._moves = []

    async def done(self, done: Done[Any], io: IO) -> None:
        """Store that the run has ended."""
        outcome = done.outcome
        text = format_observation(getattr(outcome, "output", outcome))
        note = f"stopped: {text}" if isinstance(outcome, StoppedResponse) else text
        if self._token:
            self._add_moves()
            self._pending.append(f'["end",{json.dumps(ending_data(outcome))}]')
            await self._commit(io)
        elif self._history.ending is not None:
            self._history.require_ending(outcome)
        # A lone surrogate cannot be stored.
        self._status = "done", note[:500].encode(errors="backslashreplace").decode()

    def fail(self, error: BaseException, calls: Sequence[CallContext[Any]], at: float) -> None:
        """Store that an exception ends the run here: it can be continued."""
        # A stream is closed at its last event.
        if not self._token or self._status[0] == "done":
            return
        self._add_moves()
        suspended = isinstance(error, RunSuspended)
        if not suspended:
            self._pending.append(f'["stop",{at!r}]')
        # A call whose caller was cancelled may go on, in its thread.
        raised = isinstance(error, Exception) and not isinstance(error, AbandonedError) and len(calls) == 1
        state = WAITS if suspended else RAISED if raised else None
        if suspended:
            self._pending += [ask_entry(call, call.effect) for call in self._asking.values() if call.effect is not None]
            self._begun |= dict.fromkeys(self._asking)
        if state is not None:
            self._pending += [json.dumps([state, *key]) for key in self._begun]
        # The run's own exception is raised, whatever becomes of the store.
        with contextlib.suppress(Exception):
            if self._unsure is not None:
                # It may be written or not, or a thread may be about to; it is the same row.
                self._append(self._unsure)
                self._number, self._unsure = self._number + 1, None
            if self._pending:
                run_sync(self._commit(BLOCKING))
        if suspended:
            texts = [one.text for one in self._store.questions(self.root)]
            self._status = "waiting", texts[0][:500] if texts else None
        else:
            self._status = "failed", described(error)[:500]

    def suspended(self) -> Waiting:
        """Return the open questions of the run."""
        return Waiting(self.root, tuple(self._store.questions(self.root)))

    def close(self) -> None:
        """Give the run up, so that others may continue it; a store that fails does so when the lease ends."""
        token, self._token = self._token, 0
        if token:
            with contextlib.suppress(Exception):
                self._store.release(self._serial, token, *self._status)


def _answering(reply: object) -> Handler:
    async def answer(effect: Effect[Any], call: CallContext[Any], io: IO) -> object:
        del effect, call, io
        return reply

    return Handler(answer, instant=True)
