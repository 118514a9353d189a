"""The listeners of calls, which take what these report while they run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any, final

from graphexec.kernel.effects import CallContext
from graphexec.runtime.calls import Listener, enter_call, reset_call

if TYPE_CHECKING:
    from graphexec.runtime.io import CallGroup
    from graphexec.runtime.loop import RunLoop


@final
class GroupListener(Listener):
    """The listener of a call in a thread or a task of a group, which takes its reports."""

    __slots__ = ("_group", "_position")

    def __init__(self, group: CallGroup[Any], position: int, *, tokens: bool) -> None:
        self.tokens = tokens
        self._group, self._position = group, position

    def hear(self, news: object) -> None:
        """Pass the report on to the group, which may wait for room in a thread."""
        self._group.report(self._position, news)

    async def room(self) -> None:
        """Wait until the group has room."""
        await self._group.room()


@final
class OwnListener(Listener):
    """The listener of a call that is answered in the run's own thread.

    Observers hear its reports at once from this `thread`, if it is given. Those of other threads wait for the next one
    from here, until this thread waits for an async function, or for the call's end.
    """

    __slots__ = ("_call", "_error", "_run", "_thread", "_wakes", "waiting")

    def __init__(self, run: RunLoop[Any], call: CallContext[Any], thread: int | None) -> None:
        self.tokens = run.tokens
        self._run, self._call, self._thread = run, call, thread
        self.waiting: list[object] = []
        self._wakes: tuple[Callable[[], object], ...] = ()
        self._error: Exception | None = None

    def hear(self, news: object) -> None:
        """Keep the report; deliver it, if this is the run's thread."""
        self.waiting.append(news)
        if get_ident() == self._thread:
            self.flush()
            return
        for wake in self._wakes:
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Generator[None, None, None]:
        """Call `wake` when a report waits, during the `with` block."""
        before = self._wakes
        self._wakes = (*before, wake)
        try:
            yield
        finally:
            self._wakes = before

    def flush(self) -> None:
        """Deliver what waits, if this is the run's thread; keep an observer's exception for `deliver`."""
        if get_ident() != self._thread:
            return
        # As in the run itself, an observer may start no run.
        token = enter_call(self._run.scope)
        try:
            while self.waiting:
                self._run.notify(self._call, self.waiting[0])
                del self.waiting[0]
        except Exception as error:  # noqa: BLE001 - raised by the run, and not in the function that reports
            self._error, self._thread = error, None
        finally:
            reset_call(token)

    async def deliver(self) -> None:
        """Deliver what has waited. Raises what an observer has raised."""
        if self._error is not None:
            raise self._error
        # Not those of a call that was cut and still reports.
        for _ in range(len(self.waiting)):
            await self._run.report(self._call, self.waiting.pop(0))
