"""A virtual clock: an event loop on which waiting takes no real time, so that a tool of 100 seconds is tested at once.

When all tasks wait, the clock jumps to the next timer. Calls in threads are waited for in real time. If nothing can
wake the loop, an error names the waiting tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import inspect
import math
import selectors
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, Unpack, final

from graphexec.runtime import emission
from graphexec.testing.failures import DeadlockError, NewThreads, WaitingTask, is_own

if TYPE_CHECKING:
    from graphexec.executor.executor import AgentExecutor

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Iterations of the loop at one instant after which a task is assumed to spin, and the clock advances to the next timer,
# as a real clock would. A run of a thousand steps takes about 5,000.
SPIN: Final = 20_000

# Real seconds between two checks of the running threads: threads rarely end without waking the loop.
_LOOK: Final = 0.01

# Virtual seconds that remaining tasks get to obey their cancellation at the end: asyncio.run would wait endlessly.
_ENDING: Final = 60.0

_STUCK: Final = "nothing can wake the loop at {seconds:g} virtual seconds; set the awaited event, or a time limit"
_SPINNING: Final = f"{SPIN} iterations of the loop at {{seconds:g}} virtual seconds, and there is no timer to cut them"

# The number of times that remaining tasks are cancelled at the end: some begin when others are cancelled.
_PASSES: Final = 3


@final
class VirtualClock:
    """A clock that stands still until all tasks of its loop wait, or `advance` is called.

    `run(machine, value, clock=clock)` reads it, and `clock.run(coroutine)` runs on it. A call in a thread may take
    `patience` real seconds.
    """

    __slots__ = ("patience", "seconds")

    def __init__(self, seconds: float = 0.0, *, patience: float = 10.0) -> None:
        self.seconds = seconds
        self.patience = patience

    def __call__(self) -> float:
        """Return the current virtual time in seconds."""
        return self.seconds

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.seconds:g} s>"

    def advance(self, seconds: float) -> None:
        """Advance the clock, as code that takes time without waiting would."""
        self.seconds += seconds

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end on this clock; its remaining tasks are cancelled.

        Raises `DeadlockError` if nothing can wake the loop, and if a call in a thread takes longer than `patience`.
        """
        __tracebackhide__ = True
        loop = _VirtualLoop(self)
        try:
            asyncio.set_event_loop(loop)
            return loop.run_until_complete(main)
        except DeadlockError as error:
            # The message says which task waits where; the frames of asyncio and graphexec would not help.
            raise error.with_traceback(None)  # noqa: B904 - it is the same exception
        finally:
            try:
                _end(loop)
            finally:
                asyncio.set_event_loop(None)
                loop.close()


def run_virtually(main: Coroutine[Any, Any, T], *, patience: float = 10.0) -> T:
    """Run `main` on a new `VirtualClock`. An executor in it uses that clock if it is made by `on_loop_time`."""
    __tracebackhide__ = True
    return VirtualClock(patience=patience).run(main)


def loop_time() -> float:
    """Return the time of the running event loop: `arun(machine, value, clock=loop_time)` uses its virtual time."""
    return asyncio.get_running_loop().time()


def on_loop_time(executor: AgentExecutor, clock: Callable[[], float] = loop_time) -> AgentExecutor:
    """Return a copy of the executor whose time limit uses the running event loop's clock (or `clock`)."""
    return executor.with_context(dataclasses.replace(executor.run_context, clock=clock))


class _VirtualLoop(asyncio.SelectorEventLoop):
    # Private attributes of asyncio's loop, unchanged since Python 3.4.
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.ending = False
        self._executing = 0
        self.threads = NewThreads()
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.clock.seconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._executing += 1

        def decrement(_: object) -> None:
            self._executing -= 1

        future.add_done_callback(decrement)
        return future

    def working(self) -> bool:
        return not self.ending and (self._executing > 0 or self.threads.have_calls())

    def jump(self, otherwise: str) -> None:
        """Advance the clock to the next timer; raise `DeadlockError` if there is none."""
        # asyncio takes cancelled timers from the head of this heap before it selects.
        when = self._scheduled[0].when() if self._scheduled else math.inf
        if not math.isfinite(when):
            raise DeadlockError(otherwise.format(seconds=self.time()), pending_tasks(self))
        self.clock.seconds = max(self.clock.seconds, when)
        # A timer fires if it is due within the resolution, which must not be lost to rounding at large times.
        self._clock_resolution = max(1e-9, math.ulp(self.clock.seconds))


class _Selector(selectors.DefaultSelector):
    """A selector that waits for real while a thread works, and otherwise advances the virtual time."""

    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop, self._turns = loop, 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if timeout is not None and timeout <= 0:
            self._turns += 1
            if self._turns > SPIN:
                self._turns = 0
                self._loop.jump(_SPINNING)
            return ready
        self._turns = 0
        if ready:
            return ready
        deadline = time.monotonic() + self._loop.clock.patience
        while self._loop.working():
            if ready := super().select(_LOOK):
                return ready
            if time.monotonic() > deadline:
                raise _blocked(self._loop)
        # A thread may have woken the loop since the first check.
        if ready := super().select(0):
            return ready
        self._loop.jump(_STUCK)
        return []


def _blocked(loop: _VirtualLoop) -> DeadlockError:
    stacks = ([frame for frame in stack if is_own(frame)] for stack in loop.threads.stacks().values())
    calls = [frames[-1] for frames in stacks if frames]
    names = ", ".join(f"{one.f_code.co_qualname} at {one.f_code.co_filename}:{one.f_lineno}" for one in calls)
    verb = "have" if len(calls) > 1 else "has"
    tool = calls[0].f_code.co_name if calls else "tool"
    text = (
        f"{names or 'a call'} in a thread {verb} not returned after {loop.clock.patience:g} real seconds, which a "
        f"virtual clock cannot shorten; make it async def, script it with scripted_tool({tool}, [After(100, ...)]), or "
        f"pass patience="
    )
    return DeadlockError(text, pending_tasks(loop))


def pending_tasks(loop: asyncio.AbstractEventLoop) -> list[WaitingTask]:
    """Return the coroutines in which the loop's tasks wait."""
    tasks = sorted(asyncio.all_tasks(loop), key=lambda one: one.get_name())
    return [WaitingTask([*_await_chain(task.get_coro())]) for task in tasks]


# Any: coroutines and async generators, which have no common type.
def _await_chain(waiting: Any) -> Generator[Any]:
    """Yield a coroutine, the coroutine that it awaits, and so on."""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None)
        if frame is not None or inspect.isasyncgen(waiting):
            yield waiting
        if frame is not None and frame.f_globals is vars(emission) and "coroutine" in frame.f_locals:
            # A stream steps its run's coroutine itself.
            waiting = frame.f_locals["coroutine"]
            continue
        waiting = getattr(waiting, "cr_await", getattr(waiting, "ag_await", None))
        if waiting is not None and not hasattr(waiting, "cr_frame") and not inspect.isasyncgen(waiting):
            # Only the garbage collector knows the async generator that is iterated.
            waiting = next(filter(inspect.isasyncgen, gc.get_referents(waiting)), None)


def _end(loop: _VirtualLoop) -> None:
    loop.ending = True
    # Cancelled tasks may start others, for example to close an async generator.
    for _ in range(_PASSES):
        if left := asyncio.all_tasks(loop):
            loop.run_until_complete(_cancel_all(left))
    loop.run_until_complete(loop.shutdown_asyncgens())


async def _cancel_all(left: set[asyncio.Task[Any]]) -> None:
    for task in left:
        task.cancel()
    _, stubborn = await asyncio.wait(left, timeout=_ENDING)
    for task in left - stubborn:
        # Retrieve its exception, or asyncio would report it.
        _ = task.cancelled() or task.exception()
    for task in stubborn:
        # asyncio would report the task when it is collected, and its coroutine would be closed outside the loop.
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # pyright: ignore
        coroutine: Any = task.get_coro()
        with contextlib.suppress(RuntimeError):
            coroutine.close()
