"""A model with fallbacks, and the cost of replies."""

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.errors import (
    ContextOverflowError,
    InputError,
    InvalidReplyError,
    ModelError,
    ModelTimeoutError,
    ServerError,
)
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, Usage
from graphexec.models import FellBack, FunctionModel, Price, ScriptedModel, priced, with_fallbacks
from tests.models.actors import HELLO, FakeTime
from tests.models.call_modes import MODES, Ask, Typewriter, all_modes, both_streams, record_reports, stream_blocking
from tests.parameters import cases

DOWN = ServerError("503: busy")


@all_modes
def test_next_model_is_called_after_a_failure(ask: Ask) -> None:
    long = ContextOverflowError("too long")
    second, third = Typewriter([long], identity="second"), Typewriter(["yes"], identity="third")
    unasked = ScriptedModel([])
    with record_reports() as reports:
        assert ask(with_fallbacks(ScriptedModel([DOWN]), second, third, unasked)).content == "yes"
    assert reports == [FellBack(DOWN, "<second>"), FellBack(long, "<third>")]
    assert unasked.requests == []


@all_modes
def test_last_error_has_notes_about_the_others(ask: Ask) -> None:
    last = ServerError("the last")
    first, second = Typewriter([DOWN], identity="first"), Typewriter([ModelTimeoutError("slow")], identity="second")
    with pytest.raises(ServerError) as caught:
        ask(with_fallbacks(first, second, ScriptedModel([last])))
    assert caught.value is last
    assert caught.value.__notes__ == [
        "before that, <first> failed with ServerError: 503: busy",
        "before that, <second> failed with ModelTimeoutError: slow",
    ]


@all_modes
def test_other_errors_are_raised_at_once(ask: Ask) -> None:
    second = ScriptedModel(["unasked"])
    with pytest.raises(ValueError, match="a bug"):
        ask(with_fallbacks(ScriptedModel([ValueError("a bug")]), second))
    with pytest.raises(ServerError):
        ask(with_fallbacks(ScriptedModel([DOWN]), second, on=(ModelTimeoutError,)))
    assert second.requests == []
    if ask in MODES[2:]:
        # A stream falls back only before its first piece.
        broken, unasked = Typewriter([("ha", DOWN)]), Typewriter(["unasked"])
        with pytest.raises(ServerError):
            ask(with_fallbacks(Typewriter([DOWN]), broken, unasked))
        assert (broken.handed_out, unasked.timeouts) == ("ha", [])


@all_modes
def test_models_share_the_timeout(ask: Ask) -> None:
    time = FakeTime()
    first, second = Typewriter([DOWN], time, takes=4), Typewriter([DOWN], time, takes=4)
    third = Typewriter(["yes"], time)
    assert ask(with_fallbacks(first, second, third, clock=time.clock), timeout=10).content == "yes"
    assert (first.timeouts, second.timeouts, third.timeouts) == ([10], [6], [2])
    # None is called after it.
    late, unasked = Typewriter([ModelTimeoutError("slow")], time, takes=10), ScriptedModel(["too late"])
    with record_reports() as reports, pytest.raises(ModelTimeoutError) as caught:
        ask(with_fallbacks(late, unasked, clock=time.clock), timeout=10)
    assert (reports, unasked.requests) == ([], [])
    assert not hasattr(caught.value, "__notes__")


@given(st.lists(st.booleans(), min_size=2, max_size=8))
def test_first_successful_model_is_the_last_called(up: list[bool]) -> None:
    models = [ScriptedModel([str(number) if it else ServerError(str(number))]) for number, it in enumerate(up)]
    with record_reports() as reports:
        try:
            text, notes = with_fallbacks(*models).complete(HELLO).content, len(up) - 1
        except ModelError as error:
            text, notes = str(error), len(getattr(error, "__notes__", []))
    assert notes == len(up) - 1
    last = up.index(True) if any(up) else len(up) - 1
    assert text == str(last)
    assert [len(model.requests) for model in models] == [1] * (last + 1) + [0] * (len(up) - last - 1)
    assert len(reports) == last


@both_streams
@cases("way", "stream", "astream")
def test_model_may_have_only_one_stream_method(ask: Ask, way: str) -> None:
    inner = Typewriter(["hello"])

    class Half:
        complete, acomplete = inner.complete, inner.acomplete

    setattr(Half, way, staticmethod(getattr(inner, way)))
    assert ask(with_fallbacks(Half(), Half())).content == "hello"
    assert inner.handed_out == ("hello" if (way == "stream") == (ask is stream_blocking) else "")


@all_modes
@cases("reply", "a text", None)
def test_invalid_return_value_is_an_error(ask: Ask, reply: Any) -> None:
    class Wrong:
        def complete(self, request: ModelRequest, *, timeout: float | None = None) -> Any:
            return reply

        async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> Any:
            return reply

    with pytest.raises(InvalidReplyError, match=r"the model Wrong returned .*; return a ModelReply"):
        ask(with_fallbacks(Wrong(), Wrong()))


def test_closing_a_stream_closes_the_inner_stream() -> None:
    inner = Typewriter(["hello", "hello"])
    pieces = with_fallbacks(inner, inner).stream(HELLO)
    assert next(pieces) == ReplyDelta("h")
    pieces.close()
    assert (inner.handed_out, inner.closed) == ("h", 1)

    async def run() -> None:
        pieces = with_fallbacks(inner, inner).astream(HELLO)
        assert await anext(pieces) == ReplyDelta("h")
        await pieces.aclose()

    asyncio.run(run())
    assert (inner.handed_out, inner.closed) == ("hh", 2)


def test_cancelled_or_interrupted_call_does_not_fall_back() -> None:
    asked = asyncio.Event()
    unasked = ScriptedModel(["unasked"])

    async def wait(_: ModelRequest) -> str:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets it")

    async def run() -> None:
        task = asyncio.create_task(with_fallbacks(FunctionModel(wait), unasked, on=(Exception,)).acomplete(HELLO))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    with pytest.raises(KeyboardInterrupt):
        with_fallbacks(ScriptedModel([KeyboardInterrupt()]), unasked, on=(Exception,)).complete(HELLO)
    assert unasked.requests == []


@cases(("second", "instant", "name"), (ScriptedModel([]), True, ""), (Typewriter([], identity="b"), False, "a or b"))
def test_model_is_what_all_of_its_models_are(second: ScriptedModel | Typewriter, instant: bool, name: str) -> None:
    assert with_fallbacks(ScriptedModel([]), second).instant is instant
    assert with_fallbacks(Typewriter([], identity="a"), second).identity == name
    with pytest.raises(InputError, match="has only <ScriptedModel: 0 of 0 replies left>; pass the model to call"):
        with_fallbacks(ScriptedModel([]))


def test_progress_is_readable() -> None:
    class Plain:
        """A model without a name."""

        complete, acomplete = Typewriter([""]).complete, Typewriter([""]).acomplete

    with record_reports() as reports:
        with_fallbacks(ScriptedModel([DOWN]), Plain()).complete(HELLO)
    assert [str(each) for each in reports] == ["a model failed with ServerError: 503: busy; Plain is called instead"]
    assert repr(with_fallbacks(Plain(), Typewriter([]))) == "with_fallbacks(Plain, <typewriter>)"


PRICES = {"gpt-4o": Price(2.5, 10), "gpt-4o-mini": Price(0.15, 0.6), "gpt": Price(100, 100)}


@all_modes
def test_reply_has_its_cost(ask: Ask) -> None:
    reply = ask(priced(Typewriter(["four"], model="tw-1"), {"tw-1": Price(prompt=3, completion=15)}))
    assert reply.cost == pytest.approx(10 * 3e-6 + 4 * 15e-6)
    assert reply == ModelReply("four", usage=Usage(10, 4), model="tw-1", cost=reply.cost)


def cost(name: str, prices: dict[str, Price] | Price) -> float | None:
    model = priced(ScriptedModel([ModelReply("", usage=Usage(1_000_000, 2_000_000), model=name)]), prices)
    if isinstance(prices, dict):
        # They are copied.
        prices.clear()
    return model.complete(HELLO).cost


def test_price_has_exact_or_longest_matching_name() -> None:
    assert [cost(name, {**PRICES}) for name in ("gpt-4o", "gpt-4o-2024-08-06", "gpt-3.5")] == [22.5, 22.5, 300]
    assert cost("gpt-4o-mini-2024-07-18", {**PRICES}) == pytest.approx(1.35)
    # A single price holds for every model.
    assert cost("", Price(1, 2)) == cost("anything", Price(1, 2)) == 5


@all_modes
@cases("name", "claude", "", "gp")
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


@given(st.builds(Price, st.floats(0, 1e6), st.floats(0, 1e6)), st.integers(0, 10**9), st.integers(0, 10**9))
def test_cost_is_finite_and_monotonic(price: Price, prompt: int, completion: int) -> None:
    spent = price.of(Usage(prompt, completion))
    assert 0 <= spent <= price.of(Usage(prompt + 1, completion)) < math.inf
    assert spent <= price.of(Usage(prompt, completion + 1))
    assert price.of(Usage()) == 0
