"""A watchdog in real time, which reports code that does not return with its node, its effect and its line."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar, final

from graphexec.effects import CallTool
from graphexec.kernel.effects import CallContext
from graphexec.kernel.execution import Execution
from graphexec.runtime.calls import Scope
from graphexec.runtime.loop import RunLoop
from graphexec.testing.failures import NewThreads, describe_frame, is_own

T = TypeVar("T")

# The default number of real seconds that one call of the user's code may take.
PATIENCE: Final = 5.0

# The number of replies in a message: a run that hangs may have had many.
_REPLIES: Final = 16

# Real seconds between two looks at the threads, and how often those that hang are interrupted: in half a second even a
# busy machine lets them run.
_LOOK: Final = 0.05
_INTERRUPTS: Final = 10


class HangError(AssertionError):
    """The user's code does not return."""


@final
class _GivenUpError(BaseException):
    """Raised in a thread that hangs, to end its loop after the check has failed."""


# The watchdog whose check runs here; an abandoned check may go on.
_watching: ContextVar[Watchdog | None] = ContextVar("graphexec_watching", default=None)


@final
@dataclass(eq=False)
class Watchdog:
    """Runs a check in a daemon thread, and stops if a call of the user's code takes more than `patience` real seconds.

    `log` are the effects of the current run with their replies.
    """

    patience: float = PATIENCE
    log: Sequence[str] = ()
    # The names of the code that answers effects, by effect class; tools have their own names.
    names: Mapping[type, str] = field(default_factory=dict[type, str])
    # The current calls, and those that started a run which is not charged to theirs.
    open: list[CallContext[Any]] = field(default_factory=list[CallContext[Any]])
    uncharged: list[str] = field(default_factory=list[str])
    # True once the check has been abandoned.
    ended: bool = False

    @contextlib.contextmanager
    def around_call(self, call: CallContext[Any]) -> Generator[None]:
        """Record a call while it is carried out."""
        self.open.append(call)
        try:
            yield
        finally:
            # A call of an earlier run has been cleared.
            with contextlib.suppress(ValueError):
                self.open.remove(call)

    def describe_call(self, call: CallContext[Any]) -> str:
        """Return the node of a call with the code that answers it: `dispatch_tools: the tool search`."""
        effect = call.effect
        kind = type(effect)
        usual = f"the tool {effect.name}" if isinstance(effect, CallTool) else f"the handler of {kind.__name__}"
        return f"{call.node}: {self.names.get(kind, usual)}"

    def describe_hang(self, who: str, place: str) -> str:
        """Return the error message for code that does not return."""
        return (
            f"{who} does not return: it is at {place} after {self.patience:g} seconds{self.describe_replies()}; let it "
            f"return, or pass patience= if it may take longer than {self.patience:g} seconds"
        )

    def describe_replies(self) -> str:
        """Return the last replies of the current run, for an error message."""
        return f"; with the replies {', '.join(self.log[-_REPLIES:])}" if self.log else ""

    def run(self, check: Callable[[], T]) -> T:
        """Return the result of the check, or raise its exception, or `HangError` if it hangs."""
        __tracebackhide__ = True
        context, result = copy_context(), Future[T]()

        def work() -> None:
            context.run(_watching.set, self)
            try:
                result.set_result(context.run(check))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                result.set_exception(error)

        threads = NewThreads()
        threading.Thread(target=work, name="graphexec check", daemon=True).start()
        try:
            with self._recorded():
                self._watch(result, threads)
        finally:
            if not result.done():
                self.ended = True
                _interrupt(threads)
        error = result.exception()
        if error is not None:
            # Without the frames of the thread, which do not concern the check.
            raise error.with_traceback(None)
        return result.result()

    def _watch(self, result: Future[Any], threads: NewThreads) -> None:
        """Wait for the result. Raises `HangError` if one call of the user's code takes too long."""
        __tracebackhide__ = True
        since: dict[FrameType, float] = {}
        while not wait((result,), _LOOK).done:
            now, stacks = time.monotonic(), list(_user_stacks(threads).values())
            # A call that continues keeps its frame.
            since = {stack[-1]: since.get(stack[-1], now) for stack in stacks}
            for stack in stacks:
                if now - since[stack[-1]] > self.patience:
                    # The user's own line rather than one in a library that it calls, or in a tracer.
                    lines = [frame for frame in stack if not _is_installed(frame)] or stack
                    raise HangError(self.describe_hang(self._describe_caller(stack[-1]), describe_frame(lines[0])))

    def _describe_caller(self, frame: FrameType) -> str:
        """Return the node, and the effect if any, for which graphexec has called the user's function."""
        at = frame.f_back
        while at is not None:
            # Any: a local variable of any function.
            inside: dict[str, Any] = at.f_locals
            engine = inside.get("self")
            engine = engine.execution if isinstance(engine, RunLoop) else engine
            if isinstance(engine, Execution):
                # Without a call, the engine runs nodes, policies and observers.
                return engine.snapshot().node
            if isinstance(inside.get("call"), CallContext):
                return self.describe_call(inside["call"])
            at = at.f_back
        # A thread of a call knows neither.
        return next(map(self.describe_call, self.open[:1]), "the user's code")

    @contextlib.contextmanager
    def _recorded(self) -> Generator[None]:
        """Record the calls in which a run begins that is not nested in them."""
        # Any: type checkers do not allow a method to be replaced.
        kind: Any = Execution
        original = Execution.run

        def run(begun: Execution, **options: Any) -> Any:
            watching, scope = _watching.get(), begun.scope
            if watching is not None and watching.ended:
                raise _GivenUpError
            # A thread that the user starts has no context.
            if watching in (None, self) and isinstance(scope, Scope) and scope.host is None:
                self.uncharged += [self.describe_call(call) for call in self.open[:1]]
            return original(begun, **options)

        kind.run = run
        try:
            yield
        finally:
            kind.run = original


def _user_stacks(threads: NewThreads) -> dict[int, list[FrameType]]:
    """Return the user's frames in each thread that runs their code, the innermost first; graphexec called the last.

    Callers of the check, such as Hypothesis, are not included.
    """
    found: dict[int, list[FrameType]] = {}
    for ident, whole in threads.stacks().items():
        engine = [place for place, frame in enumerate(whole) if _is_engine(frame)]
        if own := [frame for frame in whole[: engine[-1] if engine else 0] if is_own(frame)]:
            found[ident] = own
    return found


def _interrupt(threads: NewThreads) -> None:
    """End the loops of threads that hang; one in a blocking call continues as a daemon.

    A tracer may hold a lock in Python code, which an exception would leave locked: beside one, nothing is ended.
    """
    # More than once: a run that fails tells its observers, and one of these may be what hangs.
    for _ in range(_INTERRUPTS if sys.gettrace() is None else 0):
        for ident in _user_stacks(threads):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(_GivenUpError))
        time.sleep(_LOOK)


def _is_installed(frame: FrameType) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(frame.f_code.co_filename).parts)


def _is_engine(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.startswith("graphexec.") and not module.startswith("graphexec.testing")
