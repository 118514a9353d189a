"""A model with a limit on the rate of its calls.

The libraries for rate limits support either threads or one event loop; a model is used by both at the same time.
"""

from __future__ import annotations

from collections import deque

from graphexec._arguments import adapt, optional, validate, whole
from graphexec.errors import InputError, TurnTimeoutError
from graphexec.messages import Model, ModelReply
from graphexec.models.http.attempts import REAL_TIME, Clock
from graphexec.models.progress_reports import Waited
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel
from graphexec.runtime.calls import ForkSafeLock, report


def rate_limited(
    model: Model, *, per_second: int | None = None, per_minute: int | None = None, clock: Clock = REAL_TIME
) -> WrappedModel:
    """Make a model that limits the calls of `model` in any second and any minute.

    All its calls share the limits, in all threads and event loops, and proceed in the order in which they started. A
    call that waited reports `Waited`. A call whose turn would come after its `timeout` raises `TurnTimeoutError`. The
    model's own retries are not counted; to count them, use `retrying(rate_limited(...))`. Raises `InputError` without a
    limit, and for a limit that is not a whole number above 0.
    """
    model = adapt(model, "model")
    limits = (("per_second", per_second), ("per_minute", per_minute))
    if per_second is per_minute is None:
        raise InputError("rate_limited has no limit; pass per_second or per_minute")
    validate("rate_limited", *((name, limit, optional(whole(1), "no limit")) for name, limit in limits))
    pace = Pace([(count, span) for count, span in ((per_second, 1.0), (per_minute, 60.0)) if count is not None])

    async def flow(call: ModelCall) -> ModelReply:
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
        return await call.ask(model)

    return WrappedModel("rate_limited", [model], flow, clock=clock)


class Pace:
    """The start times of calls: for each limit `(count, seconds)`, at most `count` calls in any span of `seconds`.

    Each call reserves its start time in advance, so no call must be woken up, and the times are in the calls' order.
    """

    def __init__(self, limits: list[tuple[int, float]]) -> None:
        self._limits = limits
        self._longest = max(span for _, span in limits)
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
        self._starts.append(start)
        return start, why

    def give_back(self, start: float) -> None:
        """Release a reserved time that is not used. Later reservations do not change."""
        with self._lock:
            if start in self._starts:
                self._starts.remove(start)
