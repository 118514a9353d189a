"""The calls of a batch: they run at once, and are answered one by one as their replies come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, final

from graphexec.errors import RunSuspended, ThreadLimitError
from graphexec.kernel.effects import Batch
from graphexec.kernel.events import ChargedReply, Cut, MemberReply, MemberStarted
from graphexec.runtime.calls import close_calls, enter_call, reset_call
from graphexec.runtime.handlers import Handler, handler_of
from graphexec.runtime.io import run_sync
from graphexec.runtime.listeners import GroupListener
from graphexec.runtime.threads import MOST_REPORTS

if TYPE_CHECKING:
    from graphexec.runtime.io import CallGroup
    from graphexec.runtime.loop import RunLoop


@final
class MemberCalls:
    """The calls of one batch. They start as `at_once` allows, and are answered one by one as replies come."""

    def __init__(self, run: RunLoop[Any], batch: Batch) -> None:
        self.batch = batch
        self._run = run
        # In a stored run, those that have to wait for an answer are left until the others have theirs.
        self._suspended = False
        self._handlers = dict[int, Handler]()
        self._waiting = deque[int]()
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

    async def choose(self) -> None:
        """Choose the handlers. A batch with an effect that has none is refused before any of its calls begins."""
        run, batch = self._run, self.batch
        for member in batch.open:
            call = batch.calls[member]
            if run.log is None:
                self._handlers[member] = handler_of(call, run.run_context.handlers, run.embedded)
            elif (handler := await run.choose(call)) is not None:
                self._handlers[member] = handler
            else:
                self._suspended = True
        self._waiting += self._handlers

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
            elif self._suspended and not self._running:
                raise RunSuspended
            else:
                await self._take()

    def keep_charged(self, answer: object) -> object:
        """Return an answer as the journal records it: with the charges of the runs nested in its call."""
        if not isinstance(answer, MemberReply):
            return answer
        charged = self.batch.calls[answer.member].charged
        return MemberReply(answer.member, ChargedReply(answer.reply, charged)) if charged else answer

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
        in_turn = self._width == 1 and run.io.blocking and run.on_event is None
        if run.log is not None:
            ahead = islice(self._waiting, max(0, self._width - self._running - 1))
            await run.log.ask([call, *(self.batch.calls[one] for one in ahead)], run.io)
        if handler.instant or in_turn:
            self._inline.append(member)
            self._running += 1
            return True
        if self._group is None:
            self._group = await self._stack.enter_async_context(run.io.call_group())
            assert self._group is not None, "entered"
        group: CallGroup[object] = self._group
        if run.observed:
            call.listener = GroupListener(group, member, tokens=run.tokens)
        token = enter_call(call)
        try:
            group.start(member, partial(run.timed, handler, call))
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
            reply, now = run_sync(answer) if run.io.blocking and run.on_event is None else await answer
        except RunSuspended:
            self._suspended = True
        except Exception as error:  # noqa: BLE001 - raised once finished calls are recorded
            self._fail(member, error)
            await self._take_finished()
        else:
            await self._add_reply(member, reply, now)

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
            await self._run.report(call, news)
            return
        self._running -= 1
        close_calls((call,))
        try:
            reply, now = result()
        except RunSuspended:
            self._suspended = True
        except BaseException as error:  # noqa: BLE001 - raised once finished calls are recorded
            # An interrupt of this thread may come here, after the exception of a call.
            if self._error is None or isinstance(error, (KeyboardInterrupt, SystemExit)):
                self._fail(member, error)
        else:
            await self._add_reply(member, reply, now)

    def _fail(self, member: int, error: BaseException) -> None:
        self._error = error
        if self._run.log is not None and isinstance(error, Exception):
            self._run.log.note_error(self.batch.calls[member])

    async def _add_reply(self, member: int, reply: object, now: float) -> None:
        seconds = now - self._began[member]
        if self._run.log is not None:
            reply = await self._run.log.keep(self.batch.calls[member], reply, now, seconds, self._run.io)
        self._ready.append((MemberReply(member, reply), now, seconds))

    async def _cut_open_calls(self) -> None:
        """Cut all open calls, including those that have not begun, once those that can be cancelled have ended."""
        await self.close()
        for member in self.batch.open:
            if member not in self._began:
                self._ready.append(self._begin(member))
            await self._add_reply(member, Cut(), self._run.scope.now())

    def _begin(self, member: int) -> tuple[object, float, float]:
        self._began[member] = now = self._run.scope.now()
        return MemberStarted(member), now, 0.0
