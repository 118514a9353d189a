"""Models that recover from errors: one with retries is called again, one with fallbacks calls others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from graphexec import errors
from graphexec._arguments import FACTOR, MODEL, SECONDS, SHARE, Constraint, adapt, validate, whole
from graphexec.kernel.snapshot import add_note
from graphexec.messages import Model, ModelReply
from graphexec.models.http.attempts import REAL_TIME, RETRIES, Clock
from graphexec.models.progress_reports import FellBack, Retried
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel, model_name, require_access
from graphexec.runtime.calls import report
from graphexec.runtime.io import retry
from graphexec.runtime.retry import ERRORS, TRANSIENT_ERRORS, ErrorTest, to_predicate

_EACH = Constraint("models as separate arguments, not in a list, such as OpenAICompatible('gpt-5-mini')", MODEL.fits)


def retrying(
    model: Model,
    *,
    attempts: int = 3,
    on: ErrorTest = TRANSIENT_ERRORS,
    first_wait: float = RETRIES.first_wait,
    longest_wait: float = RETRIES.longest_wait,
    factor: float = RETRIES.factor,
    jitter: float = RETRIES.jitter,
    clock: Clock = REAL_TIME,
) -> WrappedModel:
    """Make a model that calls `model` up to `attempts` times while it fails with one of the errors `on`.

    `on` may be a function, too, from the error to whether another attempt may help. Between two attempts it waits as
    long as the server asks for (`RateLimitError.retry_after`). Otherwise it waits `first_wait` seconds, and then
    `factor` times as long each time (1 to 10), up to `longest_wait`, minus a random part, of which the largest is the
    share `jitter` (0 to 1).
    Each wait is reported as `Retried`. The last error is raised at once if a wait would exceed the `timeout` of the
    call, or if the server asks for more than 60 s. A stream is retried only before its first piece. Models behind a
    server have their own retries: give them `max_retries=0`. Raises `InputError` for fewer than one attempt, and for
    invalid waits.
    """
    model = adapt(model, "model")
    validate(
        "retrying",
        ("attempts", attempts, whole(1, "a whole number, 1 or more: the first attempt counts")),
        ("first_wait", first_wait, SECONDS),
        ("longest_wait", longest_wait, SECONDS),
        ("factor", factor, FACTOR),
        ("jitter", jitter, SHARE),
        ("on", on, ERRORS),
    )
    waits = replace(RETRIES, attempts=attempts, first_wait=first_wait, longest_wait=longest_wait)
    policy = replace(waits, may_pass=to_predicate(on), factor=factor, jitter=jitter)

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


def with_fallbacks(
    model: Model, *others: Model, on: ErrorTest = (errors.ModelError,), clock: Clock = REAL_TIME
) -> WrappedModel:
    """Make a model that calls `model`, and then the `others` in order while the previous one fails with an error `on`.

    `on` is as in `retrying`. Each fallback is reported as `FellBack`. If all fail, the last error is raised, with notes
    about the earlier ones. All models share the `timeout` of the call: give a model that may hang its own timeout. A
    stream falls back only before its first piece. A run begins if one of the models can be called, so a missing API key
    of the others is no error. Raises `InputError` without `others`, and for invalid models.
    """
    model, others = adapt(model, "model"), tuple(adapt(each, "model") for each in others)
    validate("with_fallbacks", *(("model", each, _EACH) for each in (model, *others)), ("on", on, ERRORS))
    if not others:
        raise errors.InputError(f"with_fallbacks has only {model_name(model)}; pass the model to call if it fails, too")
    is_recoverable = to_predicate(on)

    async def flow(call: ModelCall) -> ModelReply:
        earlier: list[str] = []
        for current, following in zip((model, *others), (*others, None), strict=True):
            try:
                return await call.ask(current)
            except Exception as error:
                if call.begun or not is_recoverable(error):
                    raise
                if following is None or not call.allows(0):
                    for note in earlier:
                        add_note(error, note)
                    raise
                earlier.append(f"before that, {model_name(current)} failed with {errors.described(error)}")
                report(FellBack(error, model_name(following)))
        raise AssertionError("the last model returns or raises")

    check = partial(require_access, (model, *others), is_recoverable)
    return WrappedModel("with_fallbacks", (model, *others), flow, instant=True, clock=clock, check=check)
