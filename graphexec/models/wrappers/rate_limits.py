"""A model with a limit on the rate of its calls and on the number of concurrent calls.

The libraries for rate limits support either threads or one event loop; a model is used by both at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from graphexec._arguments import optional, validate, whole
from graphexec.errors import InputError, TurnTimeoutError
from graphexec.messages import Model, ModelReply
from graphexec.models.http.attempts import REAL_TIME, Clock
from graphexec.models.progress_reports import Waited
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel
from graphexec.runtime.calls import ForkSafeLock, report, reset_after_fork


def rate_limited(
    model: Model,
    *,
    per_second: int | None = None,
    per_minute: int | None = None,
    at_once: int | None = None,
    clock: Clock = REAL_TIME,
) -> WrappedModel:
    """Make a model that limits the calls of `model` in any second and any minute, and the concurrent calls (`at_once`).

    All its calls share the limits, in all threads and event loops, and proceed in the order in which they started. A
    call that waited reports `Waited`. A call whose turn would come after its `timeout` raises `TurnTimeoutError`. A
    stream counts as a call until it ends or is closed. The model's own retries are not counted; to count them, use
    `retrying(rate_limited(...))`. Raises `InputError` without a limit, and for a limit that is not a whole number
    above 0.
    """
    limits = (("per_second", per_second), ("per_minute", per_minute), ("at_once", at_once))
    if all(limit is None for _, limit in limits):
        raise InputError("rate_limited has no limit; pass per_second, per_minute or at_once")
    validate("rate_limited", *((name, limit, optional(whole(1), "no limit")) for name, limit in limits))
    gate = Gate(at_once)
    pace = Pace([(count, span) for count, span in ((per_second, 1.0), (per_minute, 60.0)) if count is not None])

    async def flow(call: ModelCall) -> ModelReply:
        turn = object()
        try:
            gate.turns[turn] = None
            if not gate.admits(turn):
                await wait_for_turn(turn, call)
            await wait_for_pace(call)
            return await call.ask(model)
        finally:
            # Apart from the ring, because an interrupt may come as soon as a function begins.
            gate.turns.pop(turn, None)
            gate.ring()

    async def wait_for_turn(turn: object, call: ModelCall) -> None:
        began, left = clock.monotonic(), call.seconds_left
        try:
            await call.io.wait(partial(gate.call_at, turn), None if left is None else max(left, 0.0))
        except TimeoutError:
            raise TurnTimeoutError(
                f"a call had to wait longer than its timeout of {call.timeout:g} s for other calls "
                f"({at_once} at once); allow a longer timeout, or more calls at once"
            ) from None
        report(Waited(clock.monotonic() - began, f"{at_once} at once"))

    async def wait_for_pace(call: ModelCall) -> None:
        began, left = clock.monotonic(), call.seconds_left
        start, why = pace.take(began, latest=None if left is None else began + left)
        if start is None:
            raise TurnTimeoutError(
                f"a call would have to wait longer than its timeout of {call.timeout:g} s ({why}); allow a longer "
                f"timeout, or make fewer calls"
            )
        try:
            # A sleep may end a little early.
            while (wait := start - clock.monotonic()) > 0:
                await call.sleep(wait)
        except BaseException:
            pace.give_back(start)
            raise
        if start > began:
            report(Waited(start - began, why))

    return WrappedModel("rate_limited", [model], flow, clock=clock)


class Gate:
    """A semaphore that admits waiting callers in their order, and without a number of `places` all at once.

    Threads and event loops may share it. A turn enters as a key of `turns`, and leaves when it is removed: the first
    ones have the places. So an interrupt loses no place. A forked process has places of its own: the threads that have
    taken or await one are not there.
    """

    def __init__(self, places: int | None) -> None:
        self._places = places
        # What to call when a turn has a place.
        self.turns: dict[object, Callable[[], object] | None] = {}
        reset_after_fork(self)

    def reset_after_fork(self) -> None:
        """Free all places."""
        self.turns.clear()

    def admits(self, turn: object) -> bool:
        """Return whether a turn has a place; all have in a forked process that have entered in the old one."""
        turns = list(self.turns)
        return turn in turns[: self._places] or turn not in turns

    def call_at(self, turn: object, ring: Callable[[], object]) -> None:
        """Call `ring`, perhaps more than once, when the turn has a place."""
        self.turns[turn] = ring
        self.ring()

    def ring(self) -> None:
        """Call for the turns that have a place what they wait for."""
        for turn in list(self.turns)[: self._places]:
            ring = self.turns.get(turn)
            if ring is not None:
                ring()


class Pace:
    """The start times of calls: for each limit `(count, seconds)`, at most `count` calls in any span of `seconds`.

    Each call reserves its start time in advance, so no call must be woken up, and the times are in the calls' order.
    """

    def __init__(self, limits: list[tuple[int, float]]) -> None:
        self._limits = limits
        self._longest = max((span for _, span in limits), default=0.0)
        # The reserved times that still matter, in ascending order.
        self._starts: deque[float] = deque()
        self._lock = ForkSafeLock()

    def take(self, now: float, *, latest: float | None) -> tuple[float | None, str]:
        """Reserve the time at which a call may start; return it with the limit that the call waits for.

        The time is `None`, and nothing is reserved, if the call could not start before `latest`.
        """
        # In a function of its own: an interrupt in a loop may miss the end of the block.
        with self._lock:
            return self._take(now, latest)

    def _take(self, now: float, latest: float | None) -> tuple[float | None, str]:
        while self._starts and self._starts[0] + self._longest <= now:
            self._starts.popleft()
        start, why = now, ""
        if self._starts and self._starts[-1] > start:
            start, why = self._starts[-1], "earlier calls"
        for count, span in self._limits:
            if len(self._starts) >= count and self._starts[-count] + span > start:
                start = self._starts[-count] + span
                why = f"{count} per {'second' if span == 1 else 'minute'}"
        if start > now and latest is not None and start >= latest:
            return None, why
        if self._limits:
            self._starts.append(start)
        return start, why

    def give_back(self, start: float) -> None:
        """Release a reserved time that is not used. Later reservations do not change."""
        with self._lock:
            if start in self._starts:
                self._starts.remove(start)
