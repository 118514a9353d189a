"""A model with fallbacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.errors import ContextOverflowError, InputError, ModelError, ModelTimeoutError, ServerError
from graphexec.models import FellBack, ScriptedModel, with_fallbacks
from tests.models.actors import HELLO, FakeTime
from tests.models.call_modes import Ask, Typewriter, all_modes, both_streams, record_reports
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


@all_modes
def test_models_share_the_timeout(ask: Ask) -> None:
    time = FakeTime()
    first, second = Typewriter([DOWN], time, takes=4), Typewriter([DOWN], time, takes=4)
    third = Typewriter(["yes"], time)
    assert ask(with_fallbacks(first, second, third, clock=time.clock), timeout=10).content == "yes"
    assert (first.timeouts, second.timeouts, third.timeouts) == ([10], [6], [2])


@all_modes
def test_no_model_is_called_after_the_timeout(ask: Ask) -> None:
    time = FakeTime()
    first, second = Typewriter([ModelTimeoutError("slow")], time, takes=10), ScriptedModel(["too late"])
    with record_reports() as reports, pytest.raises(ModelTimeoutError) as caught:
        ask(with_fallbacks(first, second, clock=time.clock), timeout=10)
    assert (reports, second.requests) == ([], [])
    assert not hasattr(caught.value, "__notes__")


@both_streams
def test_stream_falls_back_only_before_first_piece(ask: Ask) -> None:
    second, third = Typewriter([("ha", DOWN)]), Typewriter(["unasked"])
    with pytest.raises(ServerError):
        ask(with_fallbacks(Typewriter([DOWN]), second, third))
    assert (second.handed_out, third.timeouts) == ("ha", [])


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


@cases(("second", "instant"), [(ScriptedModel([]), True), (Typewriter([]), False)])
def test_instant_needs_instant_models(second: ScriptedModel | Typewriter, instant: bool) -> None:
    assert with_fallbacks(ScriptedModel([]), second).instant is instant


@cases(("second", "identity"), [(Typewriter([], identity="b"), "a or b"), (ScriptedModel([]), "")])
def test_identity_needs_identities_of_all_models(second: ScriptedModel | Typewriter, identity: str) -> None:
    assert with_fallbacks(Typewriter([], identity="a"), second).identity == identity


def test_invalid_options_are_rejected() -> None:
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
