"""The cost of replies."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.errors import InputError
from graphexec.messages import ModelReply, Usage
from graphexec.models import Price, ScriptedModel, priced
from tests.models.actors import HELLO
from tests.models.call_modes import Ask, Typewriter, all_modes

PRICES = {"gpt-4o": Price(2.5, 10), "gpt-4o-mini": Price(0.15, 0.6), "gpt": Price(100, 100)}
MILLIONS = Usage(1_000_000, 2_000_000)


def cost(name: str, prices: dict[str, Price] | Price) -> float | None:
    return priced(ScriptedModel([ModelReply("", usage=MILLIONS, model=name)]), prices).complete(HELLO).cost


@all_modes
def test_reply_has_its_cost(ask: Ask) -> None:
    reply = ask(priced(Typewriter(["four"], model="tw-1"), {"tw-1": Price(prompt=3, completion=15)}))
    assert reply.cost == pytest.approx(10 * 3e-6 + 4 * 15e-6)
    assert reply == ModelReply("four", usage=Usage(10, 4), model="tw-1", cost=reply.cost)


def test_price_has_exact_or_longest_matching_name() -> None:
    assert cost("gpt-4o", PRICES) == 22.5
    assert cost("gpt-4o-2024-08-06", PRICES) == 22.5
    assert cost("gpt-4o-mini-2024-07-18", PRICES) == pytest.approx(1.35)
    assert cost("gpt-3.5", PRICES) == 300


def test_single_price_holds_for_every_model() -> None:
    assert cost("", Price(1, 2)) == cost("anything", Price(1, 2)) == 5


@all_modes
@pytest.mark.parametrize("name", ["claude", "", "gp"])
def test_model_without_a_price_is_named(ask: Ask, name: str) -> None:
    model = priced(Typewriter(["hm"], model=name), PRICES)
    with pytest.raises(InputError, match=f"the model '{name}' has no price; add it to those of gpt, gpt-4o, gpt-4o-m"):
        ask(model)


def test_cached_tokens_have_their_price() -> None:
    usage = Usage(1_000_000, 1_000_000, 400_000)
    assert Price(10, 20).of(usage) == 30
    assert Price(10, 20, cached=1).of(usage) == pytest.approx(6 + 0.4 + 20)
    assert Price(10, 20, cached=0).of(usage) == 26
    # A provider's count may be wrong; a cost is never negative.
    assert Price(10, 0, cached=1).of(Usage(1_000_000, 0, 9_000_000)) == 1


def test_prices_are_copied() -> None:
    prices = {"a": Price(1, 1)}
    model = priced(ScriptedModel([ModelReply("", usage=MILLIONS, model="a")]), prices)
    prices.clear()
    assert model.complete(HELLO).cost == 3


@given(st.builds(Price, st.floats(0, 1e6), st.floats(0, 1e6)), st.integers(0, 10**9), st.integers(0, 10**9))
def test_cost_is_finite_and_monotonic(price: Price, prompt: int, completion: int) -> None:
    spent = price.of(Usage(prompt, completion))
    assert 0 <= spent <= price.of(Usage(prompt + 1, completion)) < math.inf
    assert spent <= price.of(Usage(prompt, completion + 1))
    assert price.of(Usage()) == 0
