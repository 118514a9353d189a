"""A model with fallbacks, which calls others after an error."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from graphexec import errors
from graphexec._arguments import MODEL, Constraint, validate
from graphexec.kernel.snapshot import add_note
from graphexec.messages import Model, ModelReply
from graphexec.models.http.attempts import REAL_TIME, Clock
from graphexec.models.progress_reports import FellBack
from graphexec.models.wrappers.wrapping import ERRORS, ModelCall, WrappedModel, model_name, require_access
from graphexec.runtime.progress import report

_EACH = Constraint("models as separate arguments, not in a list, such as OpenAICompatible('gpt-5-mini')", MODEL.fits)


def with_fallbacks(
    model: Model, *others: Model, on: Sequence[type[Exception]] = (errors.ModelError,), clock: Clock = REAL_TIME
) -> WrappedModel:
    """Make a model that calls `model`, and then the `others` in order while the previous one fails with an error `on`.

    Each fallback is reported as `FellBack`. If all fail, the last error is raised, with notes about the earlier ones.
    All models share the `timeout` of the call: give a model that may hang its own timeout. A stream falls back only
    before its first piece. A run begins if one of the models can be called, so a missing API key of the others is no
    error. Raises `InputError` without `others`, and for invalid models.
    """
    validate("with_fallbacks", *(("model", each, _EACH) for each in (model, *others)), ("on", on, ERRORS))
    if not others:
        raise errors.InputError(f"with_fallbacks has only {model_name(model)}; pass the model to call if it fails, too")
    recoverable = tuple(on)

    async def flow(call: ModelCall) -> ModelReply:
        earlier: list[str] = []
        for current, following in pairwise((model, *others, None)):
            assert current is not None, "only the last item is None"
            try:
                return await call.ask(current)
            except recoverable as error:
                if call.begun:
                    raise
                if following is None or not call.allows(0):
                    for note in earlier:
                        add_note(error, note)
                    raise
                earlier.append(f"before that, {model_name(current)} failed with {errors.described(error)}")
                report(FellBack(error, model_name(following)))
        raise AssertionError("the last model returns or raises")

    check = partial(require_access, (model, *others), recoverable)
    return WrappedModel("with_fallbacks", (model, *others), flow, instant=True, clock=clock, check=check)
