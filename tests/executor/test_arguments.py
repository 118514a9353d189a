"""The constraints on options, and the error message for a value that violates one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphexec import _arguments as arguments
from graphexec._arguments import FLAG, MODEL, NAME, PATH, SECONDS, STRING, TIMEOUT, optional, validate, whole
from graphexec.errors import InputError, ToolDefinitionError, format_value
from graphexec.models import ScriptedModel
from tests.parameters import cases

numbers = st.one_of(st.integers(), st.floats(), st.integers().map(lambda n: n * 10**400))


@given(numbers, st.integers(-3, 3))
def test_numbers_must_be_finite_and_large_enough(value: float, least: int) -> None:
    # Waiting for more seconds than a float can hold would raise an OverflowError.
    finite = abs(value) <= sys.float_info.max
    assert whole(least).fits(value) == (isinstance(value, int) and value >= least)
    assert SECONDS.fits(value) == (finite and value >= 0)
    assert TIMEOUT.fits(value) == (finite and value > 0)


@cases("value", [None, True, "3", [], int, 1j])
def test_other_values_are_not_numbers(value: object) -> None:
    assert not any(kind.fits(value) for kind in (whole(0), SECONDS, TIMEOUT))


@cases(
    ("kind", "fits", "others"),
    [
        (STRING, ["", "a"], [b"a", None, str]),
        (NAME, ["a", " a"], ["", " \n", None, 3]),
        (FLAG, [True, False], [0, 1, None, "no"]),
        (PATH, ["a", Path("a")], ["", b"a", 3, None, Path]),
        (arguments.has_methods("a list", "append", "pop"), [[]], [(), list, None]),
        (optional(STRING), ["a", None], [3]),
    ],
)
def test_constraint_accepts_only_its_values(kind: arguments.Constraint, fits: list[Any], others: list[Any]) -> None:
    assert [kind.fits(value) for value in [*fits, *others]] == [True] * len(fits) + [False] * len(others)


@given(st.one_of(st.text(), st.lists(st.text()), st.from_type(type)))
@example("long" * 50)
def test_any_value_is_formatted_on_one_short_line(value: object) -> None:
    text = format_value(value)
    assert len(text) <= 120
    assert len(text.splitlines()) == 1


def test_all_invalid_arguments_are_reported_at_once() -> None:
    wrong = ("size", 2.5, whole(1)), ("name", "a", STRING), ("when", None, SECONDS)
    with pytest.raises(InputError) as raised:
        validate("box", *wrong)
    text = "box has size=2.5; give a whole number, 1 or more; box has when=None; give seconds, 0 or more"
    assert str(raised.value) == text
    with pytest.raises(ToolDefinitionError, match=r"^size is 2\.5; give a whole number, 1 or more$"):
        validate("", wrong[0], error=ToolDefinitionError)
    validate("box", wrong[1])


class HalfAModel:
    """A model without `acomplete`."""

    complete = len

    def __repr__(self) -> str:
        return "<half>"


def test_missing_method_of_a_model_is_named() -> None:
    for kind, remedy in ((MODEL, ""), (optional(MODEL), ", or None for none")):
        with pytest.raises(InputError) as raised:
            validate("", ("the model", HalfAModel(), kind))
        text = f"the model is <half>, which has no acomplete; give {MODEL.words}"
        assert str(raised.value) == f"{text}{remedy}"
    assert MODEL.lacks(3) == MODEL.lacks(ScriptedModel([])) == ()


@cases("several", [["a", "b"], ("a", "b"), {"a": 1, "b": 2}, iter("ab")])
def test_several_values_become_a_tuple(several: Any) -> None:
    assert arguments.validate_each("stop", several, str, "strings") == ("a", "b")


@cases("wrong", ["ab", b"ab", None, 3, ["a", 3]])
def test_single_value_is_refused_where_a_list_belongs(wrong: Any) -> None:
    with pytest.raises(InputError) as raised:
        arguments.validate_each("stop", wrong, str, "strings")
    assert str(raised.value) == f"stop is {wrong!r}; give a list of strings"
