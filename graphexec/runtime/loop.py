"""The loop of a run, around the engine: it passes calls to handlers, enforces deadlines, and delivers events.

One coroutine serves sync and async runs; an `IO` does the waiting.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from graphexec.errors import InputError, RunSuspended
from graphexec.kernel.effects import Batch, CallContext
from graphexec.kernel.events import (
    EVENT_TYPES,
    ChargedReply,
    CompactReply,
    Cut,
    Done,
    Failed,
    Journal,
    Reported,
    attach_journal,
)
from graphexec.kernel.execution import Execution
from graphexec.kernel.graph import Graph
from graphexec.kernel.snapshot import Snapshot, attach_snapshot
from graphexec.kernel.stepping import begin, current
from graphexec.runtime.calls import (
    Nesting,
    Scope,
    calls_of,
    close_calls,
    describe_request,
    enter_call,
    host_call,
    leave_run,
    reset_call,
)
from graphexec.runtime.handlers import Handler, RunContext, RunOptions, check_context, handler_of
from graphexec.runtime.io import BLOCKING, IO
from graphexec.runtime.listeners import GroupListener, OwnListener
from graphexec.runtime.members import MemberCalls
from graphexec.runtime.observers import Notifier, OnEvent, RunStart, find_hooks, instruments
from graphexec.runtime.threads import NOT_DONE, current_cancel_scope

if TYPE_CHECKING:
    from graphexec.runtime.io import CallGroup
    from graphexec.runtime.stored import RunLog

S = TypeVar("S")
F = TypeVar("F")
R = TypeVar("R")

# An async run that never waits lets other tasks run after this number of replies.
TURN = 64


@final
class RunLoop(Generic[R]):
    """One run: its path, the answers to its calls, and its journal. `follow` drives it to its end.

    The observers of the `options` are called with each event, then `on_event` is awaited with it, which may wait for a
    stream's consumer. A call with a deadline has its own thread or task, which is abandoned if it is late. What
    `follow` returns is what `finish` makes of the last event.
    """

    __slots__ = (
        "_finish",
        "_notify",
        "answers",
        "around_call",
        "embedded",
        "execution",
        "io",
        "log",
        "observed",
        "on_event",
        "path",
        "reports_at_once",
        "run_context",
        "scope",
        "start",
        "times",
        "tokens",
    )

    def __init__(  # noqa: PLR0913
        self,
        graph: Graph[S, F],
        value: S | Snapshot,
        run_context: RunContext,
        io: IO,
        on_event: OnEvent | None = None,
        *,
        tokens: bool = False,
        options: RunOptions,
        finish: Callable[[Done[F]], R],
        log: RunLog | None = None,
    ) -> None:
        """Begin the run, or continue that of a `log`. Raises `EventLoopError` if an async run has no loop."""
        if not io.blocking:
            # Loads asyncio, which sync runs never need.
            from graphexec.runtime.tasks import require_event_loop

            require_event_loop()
        if log is not None:
            start = log.snapshot
        else:
            start = value.retried() if isinstance(value, Snapshot) else begin(graph, value)
        self.start, self.log = start, log
        host = options.host or host_call()
        # The id distinguishes runs in logs and stores.
        run_id = options.run_id or start.run_id or os.urandom(8).hex()
        self.scope = Scope(run_id, options.context, run_context.clock, host, run_context.limits.depth)
        outer = None if host is None else Nesting(self.scope, host, start.spent.seconds)
        self.execution = Execution(graph, start, run_context.limits, run_context.proof, scope=self.scope, outer=outer)
        # The handlers of the nodes of embedded machines, by the node's name.
        self.embedded = run_context.handlers_of(graph)
        # The answers for the journal, and their times, which take a third of the memory in an array.
        self.answers: list[object] = []
        self.times = array("d")
        check_context(run_context.context_types(graph), options.context)
        if log is not None:
            self._continue(log, outer)
        # The clock of a resumed run continues from its snapshot.
        self.scope.begin(self.execution)
        observers, self.around_call = options.observers, run_context.around_call
        if instruments or options.around_call is not None:
            run_start = RunStart(run_id, graph, value, host, options.context)
            observers, self.around_call = find_hooks(run_start, observers, (self.around_call, options.around_call))
        notify: Notifier | None = None
        wanted: Collection[type[Any]] = () if on_event is None else EVENT_TYPES
        if observers:
            notify = Notifier(observers, options.continues, own=len(options.observers))
            wanted = wanted or notify.wanted
            on_event = on_event and notify.reporting_to(on_event)
        # Without a consumer to wait for, the engine calls the observers directly.
        called = notify if on_event is None else None
        # Observers or the consumer of a stream receive what calls report.
        self.observed = Reported in wanted
        # If at once, each call that waits has a thread or a task, which costs as much as a call.
        self.reports_at_once = on_event is not None or (notify is not None and notify.reports_at_once)
        self.path = self.execution.run(observed=wanted, by_member=True, notify=called)
        self.io = io
        self.run_context = run_context
        self.tokens = tokens
        self.on_event = on_event
        self._notify = notify
        self._finish = finish

    def _continue(self, log: RunLog, outer: Nesting | None) -> None:
        """Continue a stored run: with its journal, and with its earlier charges charged to the runs around it.

        The run around it was charged for them already if its log says so.
        """
        self.scope.log = log
        for answer, at, seconds in log.entries:
            self.answers += (None, answer)
            self.times += array("d", (at, seconds))
        if outer is not None:
            charged, spent = outer.charged_before(self.scope.run_id, log.store), log.snapshot.spent.meters
            more = {name: spent.get(name, 0) - charged.get(name, 0) for name in self.execution.program.meters}
            outer.settle({name: amount for name, amount in more.items() if amount > 0})

    def _journal(self) -> Journal:
        # Created at the end, to keep waiting runs small: it would take a hundredth of their memory.
        run, scope, log = self.execution, self.scope, self.log
        limits, start = (self.run_context.limits, self.start) if log is None else (log.limits, log.start)
        return Journal(run.graph, limits, start, self.answers, self.times, scope, began=scope.date, seconds=scope.now())

    async def _end(self, outcome: Any) -> Done[Any]:
        done: Done[Any] = Done(outcome, self.execution.snapshot(), self._journal(), self.execution.call())
        if self.log is not None:
            await self.log.done(done, self.io)
        if self._notify is not None:
            self._notify.end(done)
        if self.on_event is not None:
            await self.on_event(done)
        return done

    def _fail(self, error: BaseException, request: CallContext[Any] | Batch | None) -> None:
        """Attach the run's last state to the error that ends it after its last request, and notify the observers."""
        close_calls(calls_of(request))
        # The time of the call that failed or was interrupted is spent, too: a resume does not give it back.
        self.execution.stop_clock(self.scope.now())
        snapshot, journal = self.execution.snapshot(), self._journal()
        if self.log is not None:
            self.log.fail(error, calls_of(request), snapshot.spent.seconds)
        attach_snapshot(error, snapshot)
        attach_journal(error, journal)
        if self._notify is not None:
            self._notify.end(Failed(error, snapshot, self.execution.call(), journal.seconds))

    async def follow(self) -> R:
        """Drive the run to its end: carry out each call of the path, and deliver each event; return its result."""
        path, execution, cancel_scope = self.path, self.execution, current_cancel_scope()
        clock, began = self.scope.clock, self.scope.began
        compact, log = CompactReply.classes, self.log
        members: MemberCalls | None = None
        item: Any = None
        kept: Any
        request: CallContext[Any] | Batch | None = None
        answer: Any = None
        done: Done[Any] | None = None
        try:
            self.scope.caller = current.get()
            enter_call(self.scope)
            try:
                # Before the loop: up to Python 3.12 an interrupt at `continue` misses a `try` that begins with one.
                asked = 0
                while True:
                    # An answer is in the journal, so the path takes it first.
                    if answer is None and cancel_scope is not None:
                        cancel_scope.check()
                    try:
                        # `answer` is None at the start of the path and after an event.
                        item = path.send(answer)  # pyright: ignore[reportArgumentType]
                    except StopIteration as end:
                        outcome = end.value
                        break
                    # Not kept while the next call waits.
                    answer = reply = kept = None
                    # The caller may have been cancelled while a node was running.
                    if cancel_scope is not None:
                        cancel_scope.check()
                    kind: type[Any] = type(item)  # pyright: ignore[reportUnknownVariableType]
                    if kind is not CallContext and kind is not Batch:
                        if self._notify is not None:
                            self._notify(item)
                        if self.on_event is not None:
                            await self.on_event(item)
                        continue
                    request = item
                    if kind is CallContext:
                        asked += 1
                        if not asked % TURN:
                            await self.io.checkpoint()
                        asked_at = clock() - began
                        deadline = execution.deadline if execution.timed else None
                        left = None if deadline is None else deadline - asked_at
                        if log is None:
                            handler = handler_of(item, self.run_context.handlers, self.embedded)
                        elif (chosen := await self.choose(item)) is None:
                            raise RunSuspended
                        else:
                            handler = chosen
                            await log.ask((item,), self.io)
                        reply, now = await self.answer(handler, item, left)
                        if log is not None:
                            reply = await log.keep(item, reply, now, now - asked_at, self.io)
                        answer = reply, now, now - asked_at
                        kept = ChargedReply(reply, item.charged) if item.charged else reply
                    else:
                        if members is None or members.batch is not item:
                            if members is not None:
                                await members.close()
                            members = MemberCalls(self, item)
                            await members.choose()
                        answer = await members.next_answer()
                        kept = members.keep_charged(answer[0])
                    reply_class = kept.__class__
                    self.answers += (reply_class, kept.compact()) if reply_class in compact else (None, kept)
                    self.times += array("d", answer[1:])
                done = await self._end(outcome)
                enter_call(self.scope.caller)
                result = self._finish(done)
                if self.on_event is None:
                    # A cancellation that came since the run waited last: asyncio would drop the result for it.
                    await self.io.checkpoint()
                return result
            finally:
                if members is not None:
                    await members.close()
                if self.scope.loop is not None:
                    self.scope.loop.close()
                # An interrupt may arrive in a node; then the path cannot be closed.
                with suppress(ValueError):
                    path.close()
        except BaseException as error:
            if done is not None:
                # What makes the result has failed, or an interrupt came.
                leave_run(self.scope, self.scope.caller)
                attach_snapshot(error, done.snapshot)
                attach_journal(error, self._journal())
                raise
            try:
                leave_run(self.scope, self.scope)
                from graphexec._mistakes.user_errors import raise_loop_error

                raise_loop_error(error, describe_request(item))
                self._fail(error, request)
            # What explains the error, or an interrupt that arrived meanwhile.
            except BaseException as other:
                self._fail(other, request)
                raise
            finally:
                leave_run(self.scope, self.scope.caller)
            raise

    async def answer(self, handler: Handler, call: CallContext[Any], left: float | None) -> tuple[object, float]:
        """Return the reply to a call, or `Cut()` after `left` seconds, and the time then; deliver its reports."""
        if handler.timed:
            left = None
        elif left is not None and left <= 0:
            return Cut(), self.scope.now()
        waits = not (handler.timed or handler.instant)
        if waits and self.reports_at_once and (self.on_event is not None or left is not None or not self.io.blocking):
            return await self._answer_apart(handler, call, left)
        listener: OwnListener | None = None
        if self.observed:
            listener = call.listener = OwnListener(self, call, get_ident() if waits else None)
        try:
            token = enter_call(call)
            try:
                if left is not None and not handler.instant:
                    reply = await self.io.within(partial(self.handle, handler, call), left)
                    if reply is NOT_DONE:
                        reply = Cut()
                elif self.around_call is not None:
                    reply = await self.handle(handler, call)
                else:
                    # As `handle` does, which would keep another coroutine for each waiting call.
                    reply = await handler.answer(call.effect, call, BLOCKING if handler.instant else self.io)
                now = self.scope.clock() - self.scope.began
            finally:
                # Nothing more is charged within it.
                call.closed = True
                if call.charged is not None:
                    close_calls((call,))
                try:  # noqa: SIM105 - a context manager would add three calls
                    reset_call(token)
                # A stream or a task may be closed in a context in which the token was not created.
                except ValueError:
                    pass
        except Exception:
            if listener is not None:
                await listener.deliver()
            raise
        if listener is not None and listener.waiting:
            await listener.deliver()
        return reply, now

    async def choose(self, call: CallContext[Any]) -> Handler | None:
        """Return the handler of a call of a stored run; `None` if the run has to wait for its reply."""
        assert self.log is not None, "the run is stored"
        return await self.log.choose(call, self.embedded.get(call.node, self.run_context.handlers), self.io)

    def notify(self, call: CallContext[Any], news: object) -> Reported:
        """Call the observers with a report of a call; return the event."""
        event = Reported(call.node, call.effect, news, call)
        if self._notify is not None:
            self._notify(event)
        return event

    async def report(self, call: CallContext[Any], news: object) -> None:
        """Deliver a report of a call."""
        event = self.notify(call, news)
        if self.on_event is not None:
            await self.on_event(event)

    async def handle(self, handler: Handler, call: CallContext[Any]) -> object:
        """Call the handler, inside `around_call`."""
        io = BLOCKING if handler.instant else self.io
        around = self.around_call
        if around is None:
            return await handler.answer(call.effect, call, io)
        failed: BaseException | None = None
        with around(call):
            try:
                return await handler.answer(call.effect, call, io)
            except BaseException as error:
                failed = error
                raise
        raise InputError(
            f"around_call suppressed the {type(failed).__name__} of a {type(call.effect).__name__} at {call.node}, and "
            "the call has no reply; let its context manager pass exceptions on"
        ) from failed

    async def _answer_apart(self, handler: Handler, call: CallContext[Any], left: float | None) -> tuple[object, float]:
        """Return the reply to a call as `answer` does, in a thread or a task; deliver its reports as they come."""
        ends = None if left is None else self.io.now() + left
        group: CallGroup[tuple[object, float]]
        async with self.io.call_group() as group:
            call.listener = GroupListener(group, 0, tokens=self.tokens)
            token = enter_call(call)
            try:
                group.start(0, partial(self.timed, handler, call))
            finally:
                reset_call(token)
            try:
                while True:
                    update = await group.take(None if ends is None else ends - self.io.now())
                    if update is None:
                        break
                    _, result, news = update
                    if result is not None:
                        answer: tuple[object, float] = result()
                        return answer
                    await self.report(call, news)
            finally:
                close_calls((call,))
        return Cut(), self.scope.now()

    async def timed(self, handler: Handler, call: CallContext[Any]) -> tuple[object, float]:
        """Return the reply to a call, and the time when it came."""
        return await self.handle(handler, call), self.scope.now()
