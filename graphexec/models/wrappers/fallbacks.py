"""A model in whose place others are asked when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from graphexec._arguments import MODEL, Constraint, validate
from graphexec.errors import InputError, ModelError, described
from graphexec.messages import Model, ModelReply
from graphexec.models.http.attempts import REAL_TIME, Clock
from graphexec.models.progress_reports import FellBack
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel, model_name, recoverable_errors
from graphexec.runtime.progress import report

_EACH = Constraint("models one after the other and not in a list, such as OpenAICompatible('gpt-5-mini')", MODEL.fits)


def with_fallbacks(
    model: Model, *others: Model, on: Sequence[type[Exception]] = (ModelError,), clock: Clock = REAL_TIME
) -> WrappedModel:
    """Make a model that asks `model`, and the `others` in their order while the one before failed with an error `on`.

    Each fallback is reported as `FellBack`. Where all fail, the last error is raised, with notes of the earlier ones.
    They share the call's `timeout`: give a model that may hang a timeout of its own. A stream falls back only until its
    first piece. Raises `InputError` without `others`, and for invalid models.
    """
    validate("with_fallbacks", *(("model", each, _EACH) for each in (model, *others)))
    if not others:
        raise InputError(f"with_fallbacks was given no model but {model_name(model)}; name the one to ask in its place")
    recoverable = recoverable_errors("with_fallbacks", on)

    async def flow(call: ModelCall) -> ModelReply:
        earlier: list[str] = []
        for asked, following in pairwise((model, *others, None)):
            assert asked is not None, "only the last has no follower"
            try:
                return await call.ask(asked)
            except recoverable as error:
                if call.begun:
                    raise
                if following is None or not call.allows(0):
                    for note in earlier:
                        error.add_note(note)
                    raise
                earlier.append(f"before that, {model_name(asked)} failed with {described(error)}")
                report(FellBack(error, model_name(following)))
        raise AssertionError("the last model answers or raises")

    return WrappedModel("with_fallbacks", (model, *others), flow, instant=True, clock=clock)
