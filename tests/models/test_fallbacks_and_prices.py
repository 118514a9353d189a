"""A model with fallbacks, and the cost of replies."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.errors import ContextOverflowError, InputError, ModelError, ModelTimeoutError, ServerError
from graphexec.messages import ModelReply, Usage
from graphexec.models import FellBack, Price, ScriptedModel, priced, with_fallbacks
from tests.models.actors import HELLO, FakeTime
from tests.models.call_modes import MODES, Ask, Typewriter, all_modes, record_reports
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


def is_slow(error: Exception) -> bool:
    return "slow" in str(error)


@all_modes
def test_other_errors_are_raised_at_once(ask: Ask) -> None:
    second = ScriptedModel(["unasked"])
    with pytest.raises(ValueError, match="a bug"):
        ask(with_fallbacks(ScriptedModel([ValueError("a bug")]), second))
    for others in ((ModelTimeoutError,), is_slow):
        with pytest.raises(ServerError):
            ask(with_fallbacks(ScriptedModel([DOWN]), second, on=others))
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


@all_modes
def test_reply_has_its_cost(ask: Ask) -> None:
    reply = ask(priced(Typewriter(["four"], model="tw-1"), Price(prompt=3, completion=15)))
    assert reply.cost == pytest.approx(10 * 3e-6 + 4 * 15e-6)
    assert reply == ModelReply("four", usage=Usage(10, 4), model="tw-1", cost=reply.cost)


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
