"""The loop of a run, around the engine: it passes calls to handlers, enforces deadlines, and delivers events.

One coroutine serves sync and async runs; an `IO` does the waiting.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar, final

from graphexec.errors import MissingHandlerError
from graphexec.kernel.effects import Batch, CallContext
from graphexec.kernel.events import CompactReply, Done, Failed, Journal, attach_journal
from graphexec.kernel.execution import Execution
from graphexec.kernel.graph import Graph
from graphexec.kernel.program import unfrozen
from graphexec.kernel.snapshot import Snapshot, attach_snapshot
from graphexec.kernel.stepping import begin, current
from graphexec.runtime.answering import CallAnswering, MemberCalls
from graphexec.runtime.calls import (
    Nesting,
    Scope,
    close_calls,
    describe_request,
    enter_call,
    host_call,
    keep_charged,
    leave_run,
    reset_call,
)
from graphexec.runtime.emission import Emission, emit
from graphexec.runtime.handlers import RunContext, RunOptions, check_context
from graphexec.runtime.io import BLOCKING, IO
from graphexec.runtime.observers import Notifier, Observer, OnEvent
from graphexec.runtime.threads import current_cancel_scope

S = TypeVar("S")
F = TypeVar("F")
R = TypeVar("R")

# An async run that never waits lets other tasks run after this number of replies.
TURN = 64

# The number of bytes of a run's id, which distinguishes runs in logs and stores.
_ID_BYTES = 8

_UnfrozenDone = unfrozen(Done)


def follow(  # noqa: PLR0913
    graph: Graph[S, F],
    value: S | Snapshot,
    run_context: RunContext,
    io: IO,
    on_event: OnEvent | None = None,
    *,
    observers: Sequence[Observer] = (),
    continues: Callable[[], bool] | None = None,
    pieces: bool = False,
    options: RunOptions,
) -> Coroutine[Any, Any, Done[F]]:
    """Return the coroutine that drives a run to its end, for every kind of run.

    The `observers` and those of the `options` are called with each event, then `on_event` is awaited with it, which may
    wait for a stream's consumer. `continues` returns whether the run goes on in another stream after this one is
    closed; if so, observers receive no `Failed`. A call with a deadline has its own thread or task, which is abandoned
    if it is late. Raises `EventLoopError` if an async run has no loop.
    """
    if not io.blocking:
        # Loads asyncio, which sync runs never need.
        from graphexec.runtime.tasks import require_event_loop

        require_event_loop()
    notify = None
    if observers or options.observers:
        notify = Notifier((*observers, *options.observers), run_context.clock, continues)
        on_event = on_event and notify.reporting_to(on_event)
    return RunLoop(graph, value, run_context, io, on_event, notify, options, pieces=pieces).follow()


async def conclude(run: Coroutine[Any, Any, Done[F]], finish: Callable[[Done[F]], R], io: IO) -> R:
    """Return what `finish` makes of a run's end; an exception in it, and an interrupt, have the run's last state."""
    done = await run
    # Python handles no signal between the end of the run and this block.
    try:
        result = finish(done)
        # A cancellation that came since the run waited last: asyncio would drop the result for it.
        await io.checkpoint()
    except BaseException as error:
        attach_snapshot(error, done.snapshot)
        if done.journal is not None:
            attach_journal(error, done.journal)
        raise
    return result


@final
class RunLoop(CallAnswering):
    """One run: its path and its journal."""

    __slots__ = ("_calls", "answers", "execution", "node_seconds", "path", "start", "times")

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
        host = options.host or host_call()
        run_id = options.run_id or start.run_id or os.urandom(_ID_BYTES).hex()
        self.scope = Scope(run_id, options.context, run_context.clock, host, run_context.limits.depth)
        outer = None if host is None else Nesting(self.scope, host, start.spent.seconds)
        self.execution = Execution(graph, start, run_context.limits, run_context.proof, scope=self.scope, outer=outer)
        self.embedded = run_context.handlers_of(graph)
        answering = (run_context.handlers, *self.embedded.values())
        check_context(answering, self.execution.program.context_types, options.context)
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

    def _journal(self) -> Journal:
        # Created at the end, to keep waiting runs small: it would take a hundredth of their memory.
        run, scope, limits, start = self.execution, self.scope, self.run_context.limits, self.start
        return Journal(run.graph, limits, start, self.answers, self.times, scope, began=scope.date, seconds=scope.now())

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

    async def follow(self) -> Done[Any]:
        """Drive the run to its end: carry out each call of the path, and deliver each event."""
        path, execution, io = self.path, self.execution, self.io
        clock, began = self.scope.clock, self.scope.began
        notify, on_event, handlers = self._notify, self._on_event, self.run_context.handlers
        answers, times, embedded, compact = self.answers, self.times, self.embedded, CompactReply.classes
        plain = not (self.observed or execution.timed or self.run_context.around_call is not None)
        cancel_scope = current_cancel_scope()
        members: MemberCalls | None = None
        item: Any = None
        answer: Any = None
        reply: Any
        kept: Any
        back = clock() - began  # When the current node started or resumed.
        try:
            self.scope.caller = current.get()
            enter_call(self.scope)
            try:
                # Before the loop: up to Python 3.12 an interrupt at `continue` misses a `try` that begins with one.
                asked = 0
                while True:
                    # An answer is in the journal, so the path takes it first.
                    if answer is None and cancel_scope is not None and cancel_scope.cancelled:
                        cancel_scope.check()
                    try:
                        # `answer` is None at the start of the path and after an event.
                        item = path.send(answer)  # pyright: ignore[reportArgumentType]
                    except StopIteration as end:
                        self.node_seconds += clock() - began - back
                        done = await self._end(self._make_done(end.value))
                        enter_call(self.scope.caller)
                        return done
                    # Not kept while the next call waits.
                    answer = reply = kept = None
                    # The caller may have been cancelled while a node was running.
                    if cancel_scope is not None and cancel_scope.cancelled:
                        cancel_scope.check()
                    kind: type[Any] = type(item)  # pyright: ignore[reportUnknownVariableType]
                    if kind is Batch:
                        self._calls = item.calls
                        if members is None or members.batch is not item:
                            if members is not None:
                                await members.close()
                            members = MemberCalls(self, item)
                        self.node_seconds += clock() - began - back
                        answer = await members.next_answer()
                        back = clock() - began
                        continue
                    if kind is not CallContext:
                        if notify is not None:
                            notify(item)
                        if on_event is not None:
                            await (Emission(((item,),)) if on_event is emit else on_event(item))
                        continue
                    asked += 1
                    if not asked % TURN:
                        await io.checkpoint()
                    asked_at = clock() - began
                    self.node_seconds += asked_at - back
                    try:
                        handler = (embedded.get(item.node, handlers) if embedded else handlers)[type(item.effect)]
                    except KeyError:
                        raise MissingHandlerError(item.effect) from None
                    if plain:
                        # `answer` written out, as each effect needs it.
                        token = enter_call(item)
                        try:
                            # Read apart from the call, which Python cannot make faster if both are one expression.
                            answer_call = handler.answer
                            reply = await answer_call(item.effect, item, BLOCKING if handler.instant else io)
                        finally:
                            # `leave_call`, inlined because it runs for each effect.
                            item.closed = True
                            if item.charged is not None:
                                close_calls((item,))
                            try:  # noqa: SIM105 - as in `leave_call`
                                reset_call(token)
                            except ValueError:
                                pass
                        back = clock() - began
                    else:
                        self._calls = (item,)
                        deadline = execution.deadline if execution.timed else None
                        left = None if deadline is None else deadline - asked_at
                        reply, back = await self.answer(handler, item, left)
                    answer = (reply, back, back - asked_at)
                    # `record` written out, as each effect needs it.
                    kept = reply if item.charged is None else keep_charged(reply, item)
                    answers += (type(kept), kept.compact()) if type(kept) in compact else (None, kept)
                    times.extend((back, back - asked_at))
            finally:
                if members is not None:
                    await members.close()
                if self.scope.loop is not None:
                    self.scope.loop.close()
                # An interrupt may arrive in a node; then the path cannot be closed.
                with suppress(ValueError):
                    path.close()
        except BaseException as error:
            try:
                leave_run(self.scope, self.scope)
                from graphexec._mistakes.event_loops import raise_loop_error

                raise_loop_error(error, describe_request(item))
                self._fail(error)
            # What explains the error, or an interrupt that arrived meanwhile.
            except BaseException as other:
                self._fail(other)
                raise
            finally:
                leave_run(self.scope, self.scope.caller)
            raise

    def record(self, answer: object, now: float, took: float) -> None:
        """Add an answer, which came at `now` after `took` seconds, to the journal."""
        self.answers += CompactReply.part_of(answer)
        self.times.extend((now, took))
