"""The cost of a model's replies, calculated from their tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from graphexec._arguments import MODEL, Constraint, number, optional, validate
from graphexec.errors import InputError
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


def _are_prices(value: object) -> bool:
    # isinstance does not narrow the type arguments, so each item is checked.
    by_name: Mapping[object, object] = value if isinstance(value, Mapping) else {}  # pyright: ignore[reportUnknownVariableType]
    of_names = [isinstance(name, str) and isinstance(price, Price) for name, price in by_name.items()]
    return isinstance(value, Price) or (bool(of_names) and all(of_names))


_PRICES = Constraint("Price(prompt, completion), or a dict with one for each model's name", _are_prices)


def priced(model: Model, prices: Mapping[str, Price] | Price) -> WrappedModel:
    """Make a model whose replies have a cost, calculated from their `usage` and the `prices` of the models.

    The price is found by the `model` of the reply: its exact name, or else the longest name that it begins with (the
    price of `gpt-4o` holds for `gpt-4o-2024-08-06`, and for `gpt-4o-mini` if that has no price). A single `Price` holds
    for every model. A reply of a model without a price raises `InputError` after the call. The cost of a model that is
    not `priced` counts as zero, and a run with a `max_cost` rejects it. Raises `InputError` for invalid prices.
    """
    validate("priced", ("model", model, MODEL), ("prices", prices, _PRICES))
    known = prices if isinstance(prices, Price) else dict(prices)

    async def flow(call: ModelCall) -> ModelReply:
        reply = await call.ask(model)
        price = known if isinstance(known, Price) else _price_of(reply.model, known)
        return check_reply(replace(reply, cost=price.of(reply.usage)), model_name(model))

    return WrappedModel("priced", [model], flow, instant=True)


def _price_of(name: str, prices: Mapping[str, Price]) -> Price:
    known = max((key for key in prices if name.startswith(key)), key=len, default=None)
    if known is None:
        remedy = f"add it to those of {', '.join(sorted(prices))}, or give a single Price"
        raise InputError(f"the model {name!r} has no price; {remedy}")
    return prices[known]
