"""A model that is asked again when it fails with what may pass."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphexec.errors import ConnectionFailed, ModelTimeout, RateLimited, ServerError
from graphexec.given import SECONDS, check, whole
from graphexec.messages import Model, ModelReply, ModelRequest
from graphexec.models.attempts import FIRST_WAIT, LONGEST_WAIT, REAL_TIME, Clock
from graphexec.models.failures import LONGEST_ADVISED
from graphexec.models.notices import Retried
from graphexec.models.wrapping import Ask, Deadline, Flow, Sleep, WrappedModel, errors_to_mend
from graphexec.reporting import report

if TYPE_CHECKING:
    from tenacity import RetryCallState

MAY_PASS: tuple[type[Exception], ...] = (RateLimited, ServerError, ConnectionFailed, ModelTimeout)


def retrying(
    model: Model,
    *,
    attempts: int = 3,
    on: Sequence[type[Exception]] = MAY_PASS,
    first_wait: float = FIRST_WAIT,
    longest_wait: float = LONGEST_WAIT,
    clock: Clock = REAL_TIME,
) -> WrappedModel:
    """Make a model that asks `model` up to `attempts` times while it fails with one of the errors `on`.

    Between two attempts it waits as long as the server asks for (`RateLimited.retry_after`), else `first_wait` seconds
    and then twice as long each time, up to `longest_wait`, less up to a half by chance. Each wait is reported as
    `Retried`. The last error is raised at once where a wait would pass the call's `timeout`, or where the server asks
    for more than 60 s. A stream is tried again only until its first piece. A run's limit counts the call once.

    The clients of servers retry by themselves: give them `max_retries=0`, or the attempts multiply. Raises `InputError`
    for fewer than one attempt, and for waits that are negative or infinite.
    """
    check(
        "retrying",
        ("attempts", attempts, whole(1, "a whole number, 1 or more: the first attempt counts")),
        ("first_wait", first_wait, SECONDS),
        ("longest_wait", longest_wait, SECONDS),
    )
    mendable = errors_to_mend("retrying", on)

    def again(state: RetryCallState) -> bool:
        return isinstance(_raised(state), mendable)

    def wait(state: RetryCallState) -> float:
        advised = _advised(state)
        if advised is not None:
            return advised
        # An exponent beyond a float's would raise.
        longest = min(longest_wait, first_wait * 2.0 ** min(state.attempt_number - 1, 1000))
        # Jitter keeps clients apart that failed together; it is no secret.
        return longest * random.uniform(0.5, 1.0)  # noqa: S311

    def told(state: RetryCallState) -> None:
        error = _raised(state)
        assert isinstance(error, Exception), "again saw one"
        report(Retried(error, state.attempt_number, state.upcoming_sleep))

    # The request is the driver's to send.
    def flow(_: ModelRequest, deadline: Deadline) -> Flow:
        from tenacity import Retrying

        def stop(state: RetryCallState) -> bool:
            return (
                state.attempt_number >= attempts
                or (_advised(state) or 0) > LONGEST_ADVISED
                or not deadline.allows(state.upcoming_sleep)
            )

        # tenacity decides; that its `sleep` only notes the seconds lets the flow yield them.
        waits: list[float] = []
        for attempt in Retrying(sleep=waits.append, stop=stop, wait=wait, retry=again, before_sleep=told, reraise=True):
            if waits:
                yield Sleep(waits.pop())
            with attempt:
                reply: ModelReply = yield Ask(model, deadline.left)
                return reply
        raise AssertionError("tenacity gives up by raising")

    return WrappedModel("retrying", [model], flow, clock=clock)


def _raised(state: RetryCallState) -> BaseException | None:
    return None if state.outcome is None else state.outcome.exception()


def _advised(state: RetryCallState) -> float | None:
    """The seconds that the server asks to wait, where it says."""
    error = _raised(state)
    return error.retry_after if isinstance(error, RateLimited) else None
