"""The event loop of a sync run, on which its async functions run: a connection that one has opened serves the next."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, final

from graphexec.runtime.calls import adopt, run_of_call
from graphexec.runtime.threads import NotDone, current_cancel_scope, wait_for

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


@final
class OwnLoop:
    """An event loop that runs one async function after another, each in the thread of its call.

    A function that begins while another one runs has a loop of its own.
    """

    def __init__(self) -> None:
        # The loop, unless a call has it.
        self._free: asyncio.Runner | None = None
        self._closed = False
        self._lock = threading.RLock()

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what the function returns; context variables that it sets are set here."""
        # Importing asyncio takes half of the import time, and a run may never need it; the same below.
        import asyncio

        with self._lock:
            runner, self._free = self._free or asyncio.Runner(), None
        context = contextvars.copy_context()
        try:
            result: T = runner.run(main(), context=context)
            return result
        finally:
            adopt(context)
            with self._lock:
                keeps = self._free is None and not self._closed
                self._free = runner if keeps else self._free
            if not keeps:
                runner.close()

    def close(self) -> None:
        """Cancel what still runs on the loop, and close it, in a thread, since this one may have a loop."""
        with self._lock:
            runner, self._free, self._closed = self._free, None, True
        if runner is not None:
            wait_for(runner.close, None)


def run_on_own_loop(call: Callable[[], Awaitable[T]]) -> T:
    """Run an async function in a sync run: in a separate thread, on the event loop of the run, or on another one.

    It is cancelled with its caller. Raises `EventLoopError` if another thread, such as that of another loop, sets what
    it awaits.
    """
    import asyncio

    from graphexec._mistakes.event_loops import guard_loop

    async def main() -> T:
        loop, task, scope = asyncio.get_running_loop(), asyncio.current_task(), current_cancel_scope()
        assert task is not None, "a loop runs tasks"
        assert scope is not None, "a call in a thread has one"

        def cancel() -> None:
            # The loop may have been closed meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)

        with scope.on_cancel(cancel):
            return await guard_loop(loop, task, call)

    run, own = run_of_call(), OwnLoop()
    if run is not None:
        run.loop = own = run.loop or own
    try:
        result = wait_for(lambda: own.run(main), None)
    finally:
        if run is None:
            own.close()
    assert not isinstance(result, NotDone), "it has no limit"
    return result
