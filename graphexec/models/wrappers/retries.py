"""A model with retries: it is called again after transient errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from graphexec._arguments import SECONDS, validate, whole
from graphexec.errors import ModelConnectionError, ModelTimeoutError, RateLimitError, ServerError
from graphexec.messages import Model, ModelReply
from graphexec.models.http.attempts import REAL_TIME, RETRIES, Clock
from graphexec.models.progress_reports import Retried
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel, recoverable_errors
from graphexec.runtime.progress import report
from graphexec.runtime.retry import retry

TRANSIENT_ERRORS: tuple[type[Exception], ...] = (RateLimitError, ServerError, ModelConnectionError, ModelTimeoutError)


def retrying(
    model: Model,
    *,
    attempts: int = 3,
    on: Sequence[type[Exception]] = TRANSIENT_ERRORS,
    first_wait: float = RETRIES.first_wait,
    longest_wait: float = RETRIES.longest_wait,
    clock: Clock = REAL_TIME,
) -> WrappedModel:
    """Make a model that calls `model` up to `attempts` times while it fails with one of the errors `on`.

    Between two attempts it waits as long as the server asks for (`RateLimitError.retry_after`). Otherwise it waits
    `first_wait` seconds, and then twice as long each time, up to `longest_wait`, minus a random part of up to half.
    Each wait is reported as `Retried`. The last error is raised at once if a wait would exceed the `timeout` of the
    call, or if the server asks for more than 60 s. A stream is retried only before its first piece. Models behind a
    server have their own retries: give them `max_retries=0`. Raises `InputError` for fewer than one attempt, and for
    invalid waits.
    """
    validate(
        "retrying",
        ("attempts", attempts, whole(1, "a whole number, 1 or more: the first attempt counts")),
        ("first_wait", first_wait, SECONDS),
        ("longest_wait", longest_wait, SECONDS),
    )
    recoverable = recoverable_errors("retrying", on)

    def may_pass(error: Exception) -> bool:
        return isinstance(error, recoverable)

    policy = replace(
        RETRIES,
        attempts=attempts,
        may_pass=may_pass,
        first_wait=first_wait,
        longest_wait=longest_wait,
    )

    async def flow(call: ModelCall) -> ModelReply:
        return await retry(
            partial(call.ask, model),
            policy,
            call.io,
            announce=lambda error, attempt, wait: report(Retried(error, attempt, wait)),
            sleep=call.sleep,
            allows=call.allows,
        )

    return WrappedModel("retrying", [model], flow, clock=clock)
