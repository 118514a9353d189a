"""Runs, tools and snapshots that the tests of the runtime share."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pytest

import graphexec as gx
from graphexec.kernel.effects import CallContext
from graphexec.kernel.execution import Execution
from graphexec.runtime import threads
from graphexec.runtime.calls import Listener, Scope, enter_call, reset_call
from graphexec.runtime.threads import CancelScope, run_in_thread
from tests.executor.actors import AnyTool
from tests.kernel.machines import INTERVIEW, Topic

T = TypeVar("T")

# Seconds that a test waits for an event that should happen at once.
LONG = 20.0


def ignore(event: object) -> None:
    """Observe an event, and do nothing."""


def tool_named(name: str, function: Callable[..., Any], **options: Any) -> AnyTool:
    made: AnyTool = gx.tool(name=name, description="A tool.", **options)(function)
    return made


def in_thread(work: Callable[[], Any]) -> Any:
    """Call a function in a bare thread."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join(LONG)
    return results[0]


def succeeds_in_fork(work: Callable[[], bool]) -> bool:
    """Return whether a function is true in a forked process, which is killed if it hangs."""
    child = os.fork()
    if not child:
        code = 1
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(LONG))
        with suppress(BaseException):
            code = 0 if work() else 2
        os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def count_abandoned() -> int:
    """Return the number of abandoned calls that still run in a thread."""
    abandoned: int = vars(threads)["_threads"].abandoned
    return abandoned


async def cancel_when(begun: Awaitable[Any], run: Coroutine[Any, Any, Any]) -> BaseException:
    """Cancel a run when it has begun, and return what it raises."""
    task = asyncio.create_task(run)
    await begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    return caught.value


def start_in_thread(call: Callable[[], T], scope: CancelScope | None = None) -> Future[T]:
    """Start `call` as `run_in_thread` does; return its future."""
    future: Future[T] = Future()

    def receive(end: Callable[[], T]) -> None:
        try:
            future.set_result(end())
        except BaseException as error:  # noqa: BLE001 - raised where the future is read
            future.set_exception(error)

    run_in_thread(call, scope or CancelScope(), receive)
    return future


class _Hears(Listener):
    def __init__(self, function: Callable[[object], None]) -> None:
        super().__init__(tokens=False)
        self.function = function

    def hear(self, news: object) -> None:
        self.function(news)


@contextmanager
def listening(hear: Callable[[object], None]) -> Generator[None, None, None]:
    """Be within a call of a run, whose reports `hear` receives."""
    scope = Scope("run", None, time.monotonic, None, None)
    scope.begin(Execution(INTERVIEW, gx.begin(INTERVIEW, Topic("tea")), gx.Limits(), scope=scope))
    call = CallContext[None](scope, "interview", None, None, 1, 0)
    call.listener = _Hears(hear)
    token = enter_call(call)
    try:
        yield
    finally:
        reset_call(token)
        if scope.loop is not None:
            scope.loop.close()
