"""The loop of a run, around the engine: it passes calls to handlers, enforces deadlines, and delivers events.

One coroutine serves sync and async runs; an `IO` does the waiting.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar, final

from graphexec.errors import EventLoopError, MissingHandlerError
from graphexec.kernel.effects import Batch, CallContext, members_of
from graphexec.kernel.events import CompactReply, Done, Failed, Journal, MemberReply, attach_journal
from graphexec.kernel.execution import Execution
from graphexec.kernel.graph import Graph
from graphexec.kernel.program import unfrozen
from graphexec.kernel.snapshot import Snapshot, attach_snapshot
from graphexec.kernel.stepping import begin
from graphexec.runtime.answering import CUT, CallAnswering, MemberCalls
from graphexec.runtime.calls import (
    Nesting,
    Scope,
    close_calls,
    current_call,
    describe_request,
    enter_call,
    keep_charged,
    reset_call,
)
from graphexec.runtime.emission import Emission, emit
from graphexec.runtime.handlers import NO_OPTIONS, NO_WORLDS, RunContext, RunOptions, check_context
from graphexec.runtime.io import BLOCKING, IO
from graphexec.runtime.observers import Notifier, OnEvent
from graphexec.runtime.supervision import (
    Deadline,
    Loop,
    Superseded,
    go_on_in_thread,
    has_room_for_run,
    supervise,
    supervise_async,
)
from graphexec.runtime.threads import current_cancel_scope

S = TypeVar("S")
F = TypeVar("F")

# An async run that never waits lets other tasks run after this number of replies.
TURN = 64
# One that goes on in a thread lets the event loop's thread run after this number.
TURN_IN_THREAD = 16

# The number of bytes of a run's id, which distinguishes runs in logs and stores.
_ID_BYTES = 8

# The classes of requests that a path yields, besides events.
_CALLS = frozenset({CallContext, Batch})

# Shared by all runs that nobody supervises: the loops that a supervisor or a thread made are abandoned, and no others.
_UNSUPERVISED = Loop()

_UnfrozenDone = unfrozen(Done)


def follow(
    graph: Graph[S, F],
    value: S | Snapshot,
    run_context: RunContext,
    io: IO,
    on_event: OnEvent | None = None,
    *,
    notify: Notifier | None = None,
    pieces: bool = False,
    options: RunOptions = NO_OPTIONS,
) -> Coroutine[Any, Any, Done[F]]:
    """Return the coroutine that drives a run to its end, for every kind of run.

    `notify` is called with each event, then `on_event` is awaited with it. `on_event` may wait for a stream's consumer,
    so a call with a deadline gets its own thread or task then. Raises `EventLoopError` if an async run has no loop.
    """
    if not io.blocking:
        # Loads asyncio, which sync runs never need.
        from graphexec.runtime.tasks import require_event_loop

        require_event_loop()
    # Any: in a thread of an async run the loop may return before the end.
    loop: Any = RunLoop(graph, value, run_context, io, on_event, notify, options, pieces=pieces)
    driving: Coroutine[Any, Any, Done[F]] = loop.follow(_UNSUPERVISED)
    return driving


@final
class RunLoop(CallAnswering):
    """One run: its path and its journal."""

    __slots__ = ("_calls", "_waiting", "answers", "execution", "node_seconds", "path", "start", "times")

    def __init__(
        self,
        graph: Graph[Any, Any],
        value: Any,
        run_context: RunContext,
        io: IO,
        on_event: OnEvent | None,
        notify: Notifier | None,
        options: RunOptions,
        *,
        pieces: bool,
    ) -> None:
        self.start = start = value.retried() if isinstance(value, Snapshot) else begin(graph, value)
        host = options.host or current_call()
        run_id = options.run_id or start.run_id or os.urandom(_ID_BYTES).hex()
        self.scope = Scope(run_id, options.context, run_context.clock, host, run_context.limits.depth)
        outer = None if host is None else Nesting(self.scope, host, start.spent.seconds)
        self.execution = Execution(graph, start, run_context.limits, run_context.proof, scope=self.scope, outer=outer)
        # The handlers of nodes that belong to embedded executors, by the node's name.
        program = self.execution.program
        self.worlds = run_context.handlers_of(program.worlds) if program.worlds else NO_WORLDS
        answering = (run_context.handlers, *self.worlds.values()) if self.worlds else (run_context.handlers,)
        check_context(answering, program.context_types, options.context)
        # The clock of a resumed run continues from its snapshot.
        self.scope.begin(self.execution)
        # The time between a reply and the next call: in nodes, policies and observers.
        self.node_seconds = 0.0
        # Without a consumer to wait for, the engine calls the observers directly.
        called = notify if on_event is None else None
        self.observed = notify is not None or on_event is not None
        self.path = self.execution.run(observed=self.observed, by_member=True, notify=called)
        # What the journal keeps of the answers, and their times, which take a third of the memory in an array.
        self.answers: list[object] = []
        self.times = array("d")
        self.io = io
        self.run_context = run_context
        self.pieces = pieces
        self._on_event = on_event
        self._notify = notify
        # The most recent calls.
        self._calls: Sequence[CallContext[Any]] = ()
        self._call = None
        self._asked_at = 0.0
        # The request at which the next loop begins, when the run changes its thread or task.
        self._waiting: CallContext[Any] | Batch | None = None

    def _journal(self) -> Journal:
        # Created at the end, to keep waiting runs small: it would take a hundredth of their memory.
        run, scope, limits, start = self.execution, self.scope, self.run_context.limits, self.start
        return Journal(run.graph, limits, start, self.answers, self.times, scope, began=scope.date, seconds=scope.now())

    async def _follow_on(self, loop: Loop, deadline: Deadline, cut: bool) -> Done[Any] | None:  # noqa: FBT001
        """Drive the run under supervision: from the request that it waits for, or from the call that was `cut`."""
        waiting, self._waiting = self._waiting, None
        if not cut:
            return await self.follow(loop, deadline, waiting=waiting)
        assert self._call is not None, "it is a call that is cut"
        close_calls((self._call,))
        return await self.follow(loop, deadline, self.cut_call(self._call, self._asked_at))

    async def _follow_in_thread(self, io: IO, loop: Loop, deadline: Deadline) -> Done[Any] | None:
        """Drive the run in a thread, from the request that it waits for."""
        waiting, self._waiting = self._waiting, None
        return await self.follow(loop, deadline, waiting=waiting, thread=io)

    async def _go_on_in_thread(self) -> Done[Any] | None:
        """Drive the run in a thread, which is abandoned if this is cancelled."""
        try:
            return await go_on_in_thread(self._follow_in_thread)
        finally:
            # Nothing more is charged within an abandoned call.
            if self._call is not None:
                close_calls((self._call,))
                self._call = None

    async def _supervise(self) -> Done[Any] | None:
        """Drive the run in a separate thread or task, which is abandoned if a call is late."""
        left = self.scope.seconds_left() or 0.0
        return supervise(self._follow_on, left) if self.io.blocking else await supervise_async(self._follow_on, left)

    def _make_done(self, outcome: Any) -> Done[Any]:
        watched = 0.0 if self._notify is None else self._notify.seconds
        taken = max(0.0, self.node_seconds - watched)
        done = _UnfrozenDone(outcome, self.execution.snapshot(), self._journal(), watched, taken, self.execution.call())
        done.__class__ = Done
        return done

    async def _end(self, done: Done[Any]) -> Done[Any]:
        if self._notify is not None:
            self._notify.end(done)
        if self._on_event is not None:
            await self._on_event(done)
        return done

    def _fail(self, error: BaseException) -> None:
        close_calls(self._calls)
        # The time of the call that failed or was interrupted is spent, too: a resume does not give it back.
        self.execution.stop_clock(self.scope.now(), self.scope.clock())
        snapshot, journal = self.execution.snapshot(), self._journal()
        attach_snapshot(error, snapshot)
        attach_journal(error, journal)
        if self._notify is not None:
            self._notify.end(Failed(error, snapshot, self.execution.call(), journal.seconds))

    async def follow(
        self,
        loop: Loop,
        deadline: Deadline | None = None,
        answer: tuple[object, float, float] | None = None,
        waiting: CallContext[Any] | Batch | None = None,
        thread: IO | None = None,
    ) -> Done[Any] | None:
        """Drive the run to its end. `answer` answers its last request; `waiting` is a request without an answer.

        Without a supervising `deadline` this drives the whole run: from the first call that may be cut it continues
        under supervision; it reports the end, and adds the run's snapshot to an exception. In a `thread` of an async
        run it goes on to the next request that may have to be awaited, and returns `None` if there is one.
        """
        path, execution, io = self.path, self.execution, thread or self.io
        clock, began = self.scope.clock, self.scope.began
        notify, on_event, handlers = self._notify, self._on_event, self.run_context.handlers
        answers, times, worlds, compact = self.answers, self.times, self.worlds, CompactReply.classes
        timed = execution.deadline is not None
        left: float | None
        ended: Done[Any] | None
        supervised = timed and deadline is None and on_event is None
        plain = not self.observed and self.run_context.around_call is None
        # To begin a call in another thread takes longer than a step: at the second that blocks the run goes on in one.
        may_go_on = plain and not timed and not io.blocking and self.run_context.may_go_on_in_thread and thread is None
        blocked = False
        turn = TURN if thread is None else TURN_IN_THREAD
        cancel_scope = current_cancel_scope()
        members: MemberCalls | None = None
        item: Any = None
        reply: Any
        kept: Any
        asked = 0
        back = clock() - began  # When the current node started or resumed.
        try:
            while True:
                # An answer is in the journal, so the path takes it first.
                if answer is None and cancel_scope is not None and cancel_scope.cancelled:
                    cancel_scope.check()
                if waiting is None:
                    try:
                        # `answer` is None at the start of the path and after an event.
                        item = path.send(answer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                    except StopIteration as end:
                        self.node_seconds += clock() - began - back
                        ended = self._make_done(end.value)
                        return await self._end(ended) if deadline is None else ended
                else:
                    item, waiting = waiting, None
                # Not kept while the next call waits.
                answer = reply = kept = None
                # The caller may have been cancelled while a node was running.
                if cancel_scope is not None and cancel_scope.cancelled:
                    cancel_scope.check()
                kind: type[Any] = type(item)  # pyright: ignore[reportUnknownVariableType]
                if supervised and kind in _CALLS and self._may_be_cut(item):
                    self._waiting = item
                    self.node_seconds += clock() - began - back
                    ended = await self._supervise()
                    assert ended is not None, "a supervised loop drives the run to its end"
                    return await self._end(ended)
                if may_go_on or thread is not None:
                    blocking = kind is CallContext and self._may_block(item)
                    if thread is not None and not blocking:
                        self._waiting = item
                        self.node_seconds += clock() - began - back
                        return None
                    if may_go_on and blocking and blocked and has_room_for_run():
                        self._waiting = item
                        self.node_seconds += clock() - began - back
                        ended = await self._go_on_in_thread()
                        if ended is not None:
                            return await self._end(ended)
                        answer, waiting, self._waiting = None, self._waiting, None
                        back = clock() - began
                        blocked = False
                        continue
                    blocked = blocking
                if kind is Batch:
                    self._calls = item.calls
                    if members is None or members.batch is not item:
                        if members is not None:
                            await members.close()
                        members = MemberCalls(self, item, loop, deadline)
                    self.node_seconds += clock() - began - back
                    answer = await members.next_answer()
                    back = clock() - began
                    continue
                if kind is not CallContext:
                    answer = None
                    if notify is not None:
                        notify(item)
                    if on_event is not None:
                        await (Emission(((item,),)) if on_event is emit else on_event(item))
                    continue
                asked += 1
                if not asked % turn:
                    await io.checkpoint()
                asked_at = clock() - began
                self.node_seconds += asked_at - back
                if plain:
                    try:
                        handler = (worlds.get(item.node, handlers) if worlds else handlers)[type(item.effect)]
                    except KeyError:
                        raise MissingHandlerError(item.effect) from None
                    # The supervisor cuts a handler that waits and is not timed; then this loop is abandoned.
                    hurried = timed and not handler.timed
                    if hurried:
                        left = execution.deadline
                        assert left is not None, "the run has a time limit"
                        left -= asked_at
                        if left <= 0:
                            answer = self.cut_call(item, asked_at)
                            continue
                        hurried = not handler.instant
                        if hurried:
                            assert deadline is not None, "the run is supervised"
                            self._call, self._asked_at = item, asked_at
                            deadline.begin(left)
                    elif thread is not None:
                        # No call in a thread is late, but it may be abandoned.
                        assert deadline is not None, "it knows of the call"
                        hurried = True
                        self._call = item
                        deadline.begin(math.inf)
                        if loop.abandoned:
                            raise Superseded  # noqa: TRY301 - nothing else handles it
                    token = enter_call(item)
                    try:
                        # Read apart from the call, which Python cannot make faster if both are one expression.
                        answer_call = handler.answer
                        reply = await answer_call(item.effect, item, BLOCKING if handler.instant else io)
                    finally:
                        mine = deadline is None or not hurried or deadline.end(loop)
                        # `leave_call`, inlined because it runs for each effect.
                        item.closed = True
                        if item.charged is not None:
                            close_calls((item,))
                        try:  # noqa: SIM105 - as in `leave_call`
                            reset_call(token)
                        except ValueError:
                            pass
                    if not mine:
                        raise Superseded  # noqa: TRY301 - nothing else handles it
                    now = clock() - began
                else:
                    self._calls = (item,)
                    left = execution.deadline
                    if left is not None:
                        left -= asked_at
                    reply, now = await self.answer(item, loop, deadline, left)
                back = now
                took = now - asked_at
                answer = (reply, now, took)
                # `record` written out, as each effect needs it.
                kept = reply if item.charged is None else keep_charged(reply, item)
                answers += (type(kept), kept.compact()) if type(kept) in compact else (None, kept)
                times.extend((now, took))
        except BaseException as error:
            from graphexec._mistakes.event_loops import raise_loop_error

            try:
                raise_loop_error(error, describe_request(item))
            except EventLoopError as explained:
                if deadline is None:
                    self._fail(explained)
                raise
            if deadline is None:
                self._fail(error)
            raise
        finally:
            if members is not None:
                await members.close()
            if deadline is None:
                # An interrupted loop may be in a node; then the path cannot be closed.
                with suppress(ValueError):
                    path.close()

    def record(self, answer: object, now: float, took: float) -> None:
        """Add an answer, which came at `now` after `took` seconds, to the journal."""
        self.answers += CompactReply.part_of(answer)
        self.times.extend((now, took))

    def _may_block(self, call: CallContext[Any]) -> bool:
        may_block = self.handler_of(call).may_block
        return may_block is not None and may_block(call.effect)

    def _may_be_cut(self, item: CallContext[Any] | Batch) -> bool:
        calls = item.calls if isinstance(item, Batch) else (item,)
        return not all(self.handler_of(call).instant for call in calls)

    def cut_call(self, call: CallContext[Any], asked_at: float) -> tuple[object, float, float]:
        """Record in the journal that a call is cut now, with its charges; return the answer for the path."""
        now = self.scope.now()
        in_batch = call.request is not None and len(members_of(call.request)) > 1
        kept = keep_charged(CUT, call)
        self.record(MemberReply(call.member, kept) if in_batch else kept, now, now - asked_at)
        return MemberReply(call.member, CUT) if in_batch else CUT, now, now - asked_at
