"""The cost of a model's replies, calculated from their tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from graphexec._arguments import MODEL, Constraint, number, optional, validate
from graphexec.messages import Model, ModelReply, Usage, check_reply
from graphexec.models.wrappers.wrapping import ModelCall, WrappedModel, model_name

_MONEY = number("money per million tokens, 0 or more")


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens of prompts and of replies, in any currency; use it with `priced`.

    `cached` is the price of those tokens of prompts that the provider has stored (`Usage.cached_tokens`); the default
    is that of other tokens. Raises `InputError` for a price that is not a number, negative or not finite.
    """

    prompt: float
    completion: float
    cached: float | None = None

    def __post_init__(self) -> None:
        cached = ("cached", self.cached, optional(_MONEY, "the price of prompts"))
        validate("Price", ("prompt", self.prompt, _MONEY), ("completion", self.completion, _MONEY), cached)

    def of(self, usage: Usage) -> float:
        """Return the cost of these tokens; infinity if it is too large for a float."""
        # The provider may report more cached tokens than tokens of the prompt.
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        try:
            prompt = (usage.prompt_tokens - cached) * self.prompt
            stored = cached * (self.prompt if self.cached is None else self.cached)
            return (prompt + stored + usage.completion_tokens * self.completion) / 1_000_000
        except OverflowError:
            return math.inf


_PRICE = Constraint("Price(prompt, completion)", lambda value: isinstance(value, Price))


def priced(model: Model, price: Price) -> WrappedModel:
    """Make a model whose replies have a cost, calculated from their `usage` and the `price` of the model.

    Of several models with prices of their own, such as fallbacks, each is `priced` itself. The cost of a model that is
    not `priced` counts as zero, and a run with a `max_cost` rejects it. Raises `InputError` for an invalid price.
    """
    validate("priced", ("model", model, MODEL), ("price", price, _PRICE))

    async def flow(call: ModelCall) -> ModelReply:
        reply = await call.ask(model)
        return check_reply(replace(reply, cost=price.of(reply.usage)), model_name(model))

    return WrappedModel("priced", [model], flow, instant=True)
