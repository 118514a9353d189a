"""A model that is asked again when it fails with what may pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from graphexec._arguments import SECONDS, validate, whole
from graphexec.errors import ModelConnectionError, ModelTimeoutError, RateLimitError, ServerError
from graphexec.messages import Model, ModelReply
from graphexec.models.http.attempts import FIRST_WAIT, JITTER, LONGEST_WAIT, REAL_TIME, Clock
from graphexec.models.http.failures import LONGEST_ADVISED
from graphexec.models.progress_reports import report_retry
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel, recoverable_errors
from graphexec.runtime.retry import retry
from graphexec.runtime.retry_policy import RetryPolicy

MAY_PASS: tuple[type[Exception], ...] = (RateLimitError, ServerError, ModelConnectionError, ModelTimeoutError)


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

    Between two attempts it waits as long as the server asks for (`RateLimitError.retry_after`), else `first_wait`
    seconds and then twice as long each time, up to `longest_wait`, less up to a half by chance. Each wait is reported
    as `Retried`. The last error is raised at once where a wait would pass the call's `timeout`, or where the server
    asks for more than 60 s. A stream is retried only until its first piece. The clients of servers retry by themselves:
    give them `max_retries=0`. Raises `InputError` for fewer than one attempt, and for invalid waits.
    """
    validate(
        "retrying",
        ("attempts", attempts, whole(1, "a whole number, 1 or more: the first attempt counts")),
        ("first_wait", first_wait, SECONDS),
        ("longest_wait", longest_wait, SECONDS),
    )
    recoverable = recoverable_errors("retrying", on)
    policy = RetryPolicy(
        attempts=attempts,
        may_pass=lambda error: isinstance(error, recoverable),
        first_wait=first_wait,
        longest_wait=longest_wait,
        jitter=JITTER,
        # The seconds that the server asks to wait, where it says.
        advised=lambda error: error.retry_after if isinstance(error, RateLimitError) else None,
        longest_advised=LONGEST_ADVISED,
    )

    async def flow(call: ModelCall) -> ModelReply:
        return await retry(
            partial(call.ask, model), policy, call.io, announce=report_retry, sleep=call.sleep, allows=call.allows
        )

    return WrappedModel("retrying", [model], flow, clock=clock)
