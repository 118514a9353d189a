"""Answer the calls of a run by their handlers, within their deadlines, one by one or many at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, final

from graphexec.errors import InputError, ThreadLimitError
from graphexec.kernel.effects import Batch, CallContext
from graphexec.kernel.events import Cut, MemberReply, MemberStarted, Reported
from graphexec.runtime.calls import Scope, close_calls, enter_call, keep_charged, leave_call, reset_call, within_call
from graphexec.runtime.handlers import Handler, Handlers, RunContext, handler_of
from graphexec.runtime.io import BLOCKING, IO, CallGroup, run_sync
from graphexec.runtime.observers import Notifier, OnEvent
from graphexec.runtime.progress import Listener, Reports
from graphexec.runtime.threads import MOST_REPORTS, NOT_DONE

if TYPE_CHECKING:
    from graphexec.runtime.loop import RunLoop

CUT = Cut()


class CallAnswering:
    """What answers the calls of a run; the run itself sets the fields."""

    __slots__ = (
        "_notify",
        "_on_event",
        "embedded",
        "io",
        "observed",
        "pieces",
        "run_context",
        "scope",
    )
    _notify: Notifier | None
    _on_event: OnEvent | None
    io: IO
    # Observers or the consumer of a stream receive the events.
    observed: bool
    pieces: bool
    run_context: RunContext
    scope: Scope
    # The handlers of the nodes of embedded machines, by the node's name.
    embedded: Mapping[str, Handlers]

    @property
    def streams(self) -> bool:
        """True if the run waits for the consumer of its events."""
        return self._on_event is not None

    def handler_of(self, call: CallContext[Any]) -> Handler:
        """Return the handler of a call: of its embedded machine, or of the run. Raises `MissingHandlerError`."""
        return handler_of(self.embedded.get(call.node, self.run_context.handlers), call.effect)

    async def answer(self, handler: Handler, call: CallContext[Any], left: float | None) -> tuple[object, float]:
        """Return the reply to a call, or `CUT` after `left` seconds, and the time then; deliver its reports."""
        scope = self.scope
        if handler.timed:
            left = None
        elif left is not None and left <= 0:
            return CUT, scope.now()
        if self.pieces:
            return await self._answer_with_reports(handler, call, left)
        # Reports are delivered when the call is answered or has failed.
        reports = None
        if self.observed:
            reports = call.listener = Reports()
        try:
            token = enter_call(call)
            try:
                if handler.instant or left is None:
                    if self.run_context.around_call is not None:
                        reply = await self.handle(handler, call)
                    else:
                        reply = await handler.answer(call.effect, call, BLOCKING if handler.instant else self.io)
                else:
                    reply = await self.io.within(partial(self.handle, handler, call), left)
                    if reply is NOT_DONE:
                        reply = CUT
                now = scope.clock() - scope.began
            finally:
                leave_call(call, token)
        except Exception:
            if reports:
                await self.report(call, reports)
            raise
        if reports:
            await self.report(call, reports)
        return reply, now

    async def report(self, call: CallContext[Any], reports: Iterable[object]) -> None:
        """Deliver the reports of a call."""
        # A copy, because a call that was cut may still report.
        for news in tuple(reports):
            event = Reported(call.node, call.effect, news, call)
            if self._notify is not None:
                self._notify(event)
            if self._on_event is not None:
                await self._on_event(event)

    async def handle(self, handler: Handler, call: CallContext[Any]) -> object:
        """Call the handler, inside `around_call`."""
        io = BLOCKING if handler.instant else self.io
        around = self.run_context.around_call
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

    async def _answer_with_reports(
        self, handler: Handler, call: CallContext[Any], left: float | None
    ) -> tuple[object, float]:
        """Return the reply to a call as `answer` does; deliver its reports as they come."""
        ends = None if left is None else self.scope.now() + left

        async def timed() -> tuple[object, float]:
            return await self.handle(handler, call), self.scope.now()

        async with self.io.call_group() as group:
            call.listener = Listener(partial(group.report, 0), pieces=True, room=group.room)
            with within_call(call):
                group.start(0, timed)
            try:
                while True:
                    update = await group.take(None if ends is None else ends - self.scope.now())
                    if update is None:
                        return CUT, self.scope.now()
                    _, result, news = update
                    if result is not None:
                        answered: tuple[object, float] = result()
                        return answered
                    await self.report(call, (news,))
            finally:
                close_calls((call,))


@final
class MemberCalls:
    """The calls of one batch. They start as `at_once` allows, and are answered one by one as replies come."""

    def __init__(self, run: RunLoop, batch: Batch) -> None:
        self.batch = batch
        self._run = run
        # A batch with an effect that has no handler is refused before any of its calls begins.
        self._handlers = {member: run.handler_of(batch.calls[member]) for member in batch.open}
        self._waiting = deque(batch.open)
        self._width = run.run_context.at_once
        # By the clock of the IO: the run's clock stands still in some tests, and other calls advance it.
        until = run.execution.deadline
        self._ends = None if until is None else run.io.now() + until - run.scope.now()
        # The member to start next; the path has already received its MemberBegun.
        self._next: int | None = None
        self._began: dict[int, float] = {}
        # Members that run in the loop itself: they are instant, or run one at a time.
        self._inline: deque[int] = deque()
        self._running = 0
        self._ready: deque[tuple[object, float, float]] = deque()
        self._error: BaseException | None = None
        self._stack = AsyncExitStack()
        self._group: CallGroup[object] | None = None

    async def next_answer(self) -> tuple[object, float, float]:
        """Return the next answer for the path. Raises a call's exception once finished calls are recorded."""
        while True:
            if self._ready:
                return self._ready.popleft()
            if self._error is not None:
                # If no thread is available, no more calls begin, and those in threads end before the error is raised:
                # a blocking call cannot be cancelled, and must not continue after the run.
                if not (self._running and isinstance(self._error, ThreadLimitError)):
                    raise self._error
                await self._take()
            elif self._next is not None and await self._start(self._next):
                self._next = None
            elif self._next is None and self._waiting and self._running < self._width:
                self._next = self._waiting.popleft()
                return self._begin(self._next)
            elif self._inline:
                await self._carry_out(self._inline.popleft())
            else:
                await self._take()

    async def close(self) -> None:
        """Abandon the unfinished calls."""
        close_calls(self.batch.calls)
        await self._stack.aclose()

    def _seconds_left(self) -> float | None:
        return None if self._ends is None else self._ends - self._run.io.now()

    async def _start(self, member: int) -> bool:
        """Start a call, or queue it to run in the loop; return False if no thread is available."""
        run, call, left = self._run, self.batch.calls[member], self._seconds_left()
        if left is not None and left <= 0:
            await self._cut_open_calls()
            return True
        handler = self._handlers[member]
        in_turn = self._width == 1 and run.io.blocking and not run.streams
        if handler.instant or in_turn:
            self._inline.append(member)
            self._running += 1
            return True
        if self._group is None:
            self._group = await self._stack.enter_async_context(run.io.call_group())
            assert self._group is not None, "entered"
        group: CallGroup[object] = self._group
        if run.observed:
            call.listener = Listener(partial(group.report, member), pieces=run.pieces, room=group.room)
        # `within_call` written out, as each member needs it.
        token = enter_call(call)
        try:
            group.start(member, partial(self._timed, handler, call))
        except ThreadLimitError:
            if not self._running:
                raise
            return False
        finally:
            reset_call(token)
        self._running += 1
        return True

    async def _carry_out(self, member: int) -> None:
        """Carry out a call in the loop itself."""
        run, call = self._run, self.batch.calls[member]
        self._running -= 1
        answer = run.answer(self._handlers[member], call, self._seconds_left())
        try:
            # run_sync isolates the context variables that each call sets.
            reply, now = run_sync(answer) if run.io.blocking and not run.streams else await answer
        except Exception as error:  # noqa: BLE001 - raised once finished calls are recorded
            self._error = error
            await self._take_finished()
        else:
            self._add_reply(member, reply, now)

    async def _timed(self, handler: Handler, call: CallContext[Any]) -> tuple[object, float]:
        return await self._run.handle(handler, call), self._run.scope.now()

    async def _take(self) -> None:
        """Wait for the next reply, report, exception, or the deadline."""
        assert self._group is not None, "calls are running"
        update = await self._group.take(self._seconds_left())
        if update is None:
            await self._cut_open_calls()
            return
        await self._take_in(*update)
        if self._error is not None:
            await self._take_finished()

    async def _take_finished(self) -> None:
        """Record the calls that finished before another one failed."""
        # Bounded, because unfinished calls may report endlessly.
        for _ in range(MOST_REPORTS + len(self.batch.calls)):
            if self._group is None or not self._running or (update := await self._group.take(0)) is None:
                return
            await self._take_in(*update)

    async def _take_in(self, member: int, result: Callable[[], Any] | None, news: object) -> None:
        call = self.batch.calls[member]
        if result is None:
            await self._run.report(call, (news,))
            return
        self._running -= 1
        close_calls((call,))
        try:
            reply, now = result()
        except BaseException as error:  # noqa: BLE001 - raised once finished calls are recorded
            # An interrupt of this thread may come here, after the exception of a call.
            if self._error is None or isinstance(error, (KeyboardInterrupt, SystemExit)):
                self._error = error
        else:
            self._add_reply(member, reply, now)

    def _add_reply(self, member: int, reply: object, now: float) -> None:
        took = now - self._began[member]
        kept = keep_charged(reply, self.batch.calls[member])
        self._run.record(MemberReply(member, kept), now, took)
        self._ready.append((MemberReply(member, reply), now, took))

    async def _cut_open_calls(self) -> None:
        """Cut all open calls, including those that have not begun, once those that can be cancelled have ended."""
        await self.close()
        for member in self.batch.open:
            if member not in self._began:
                self._ready.append(self._begin(member))
            self._add_reply(member, CUT, self._run.scope.now())

    def _begin(self, member: int) -> tuple[object, float, float]:
        self._began[member] = now = self._run.scope.now()
        answer = (MemberStarted(member), now, 0.0)
        self._run.record(*answer)
        return answer
