"""A model that asks one of several models, which a function of the request chooses."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from graphexec._arguments import FUNCTION, NAME, adapt, validate
from graphexec.errors import InputError, did_you_mean, format_value
from graphexec.messages import Model, ModelReply, check_access
from graphexec.models.http.attempts import REAL_TIME, Clock
from graphexec.models.progress_reports import Routed
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel, model_name
from graphexec.runtime.calls import report

# Any: agents send a ChatRequest or a CompletionRequest, so functions may be annotated with one of them.
Choose: TypeAlias = Callable[[Any], "str | Awaitable[str]"]


def routed(choose: Choose, models: Mapping[str, Model], *, clock: Clock = REAL_TIME) -> WrappedModel:
    """Make a model that asks the one of `models` whose name `choose(request)` returns, for each request anew.

        def choose(request):
            return "big" if len(request.messages) > 6 else "small"

        model = routed(choose, {"small": priced(small, Price(0.1, 0.4)), "big": priced(big, Price(2, 10))})

    `choose` may be `async def`; a blocking one is called in a thread in async runs. What it asks itself, such as a
    model that classifies the question, is not counted. Each choice is reported as `Routed`. A run begins only if all
    models can be called. Raises `InputError` without models and for invalid ones, and in a call for a name that is
    none.
    """
    validate("routed", ("choose", choose, FUNCTION), *(("a name", name, NAME) for name in models))
    if not models:
        raise InputError("routed has no models; pass a dict of them by name")
    models = {name: adapt(model, "model") for name, model in models.items()}

    async def flow(call: ModelCall) -> ModelReply:
        # Any: a user's function may return any value.
        awaitable: Any = await call.io.call(choose, call.request)
        chosen: Any = awaitable
        if inspect.isawaitable(awaitable):
            chosen = await call.io.call_async(lambda: awaitable)
        if not isinstance(chosen, str) or chosen not in models:
            hint = did_you_mean(str(chosen), models, f"return one of {', '.join(models)}")
            raise InputError(f"routed: the function returned {format_value(chosen)}, which names no model; {hint}")
        report(Routed(chosen, model_name(models[chosen])))
        return await call.ask(models[chosen])

    def check() -> None:
        for one in models.values():
            check_access(one)

    return WrappedModel("routed", [*models.values()], flow, clock=clock, check=check)
