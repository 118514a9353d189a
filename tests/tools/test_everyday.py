"""The everyday tools: a calculator that accepts any text, units, and the date."""

import contextlib
import datetime as dt
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphexec.cli.runs.options import EVERYDAY_EXAMPLES
from graphexec.tools.arithmetic import LARGEST, LONGEST, ExpressionError, evaluate, format_number
from graphexec.tools.everyday import EVERYDAY_TOOLS, calculator, convert_units, make_today, today
from graphexec.tools.units import UNITS, UnknownUnitError, convert, find_unit
from tests.kernel.machines import error_message
from tests.parameters import cases, examples

_NUMBERS = st.one_of(
    st.integers(0, 10**6).map(str), st.floats(0, 10**6, allow_subnormal=False).map(lambda number: f"{number:.6f}")
)
_EXPRESSIONS = st.recursive(
    _NUMBERS | st.sampled_from(["pi", "e"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", " + ", " - "]), inner).map("".join),
        st.tuples(inner, st.sampled_from(["**2", "**0.5", " ** 3", "**-1"])).map("".join),
        inner.map("({})".format),
        inner.map("-{}".format),
        inner.map("abs({})".format),
        inner.map("round({}, 2)".format),
        st.tuples(inner, inner).map(lambda pair: f"max({pair[0]}, {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"min({pair[0]}, {pair[1]})"),
    ),
    max_leaves=12,
)
# The names in the evaluated expressions.
_PYTHON: dict[str, Any] = {"pi": math.pi, "e": math.e, "abs": abs, "round": round, "max": max, "min": min}
_PYTHON["__builtins__"] = {}


@given(_EXPRESSIONS.filter(lambda text: len(text) <= LONGEST))
@example("2 ** 3 ** 2")
@example("-2**2")
@example("7 // -2 % 3")
def test_calculator_agrees_with_python(expression: str) -> None:
    try:
        expected = eval(expression, dict(_PYTHON))
    except (ZeroDivisionError, OverflowError):
        expected = None
    if expected is None or isinstance(expected, complex) or not abs(expected) <= LARGEST:
        with pytest.raises(ExpressionError):
            evaluate(expression)
    else:
        try:
            assert evaluate(expression) == expected
        except ExpressionError:
            # An intermediate result may be out of range although the final result is not.
            assert "**" in expression


_SIGNS = st.text("0123456789.,+-*/%()^×÷−xeE πasqrtbound=?_\x00\n")  # noqa: RUF001 - people type these


@given(st.text() | _SIGNS)
@example("9**9**9**9")
@example("(((9**99)**99)**99)")
@example("10**308*" * 30 + "1")
@example("round(10**300, -10**300)")
@example("9" * LONGEST + "**" + "9")
@example("(" * 150 + ")" * 150)
@example("-" * LONGEST)
@example("round(1, -10**300)")
@example("1 " * 150)
@example("2**-" * 60 + "2")
@example("__import__('os')")
@example("0.5" + "**0.5" * 50)
@settings(max_examples=examples(500), deadline=200)
def test_calculator_handles_any_text(text: str) -> None:
    try:
        number = evaluate(text)
    except ExpressionError as error:
        message = str(error)
    else:
        assert abs(number) <= LARGEST
        message = format_number(number)
    assert "\n" not in message
    assert len(message) <= 310


@cases(
    ("use", "arguments", "answer"),
    (calculator, ("37 * 48",), "1776"),
    (calculator, ("10 / 2",), "5"),
    (calculator, ("0.1 + 0.2",), "0.3"),
    (calculator, ("1 / 3",), "0.333333333333"),
    (calculator, ("2 ** 100",), "1267650600228229401496703205376"),
    (calculator, ("sqrt(144)",), "12"),
    (calculator, ("sqrt(2)",), "1.41421356237"),
    (calculator, ("1e21",), "1e+21"),
    (calculator, ("37 × 48",), "1776"),
    (calculator, ("37 x 48 = ?",), "1776"),
    (calculator, ("37 times 48",), "1776"),
    (calculator, ("10 ÷ 4",), "2.5"),
    (calculator, ("2^10",), "1024"),
    (calculator, ("5 − 7",), "-2"),  # noqa: RUF001
    (calculator, ("15% of 80",), "12"),
    (calculator, ("17 % 5",), "2"),
    (calculator, ("1,234,567 + 1",), "1234568"),
    (calculator, ("max(1,200)",), "200"),
    (convert_units, (5, "miles", "km"), "5 mi = 8.04672 km"),
    (convert_units, (1, "Foot", "inches"), "1 ft = 12 in"),
    (convert_units, (70, "kg", "pounds"), "70 kg = 154.324 lb"),
    (convert_units, (100, "°F", "degrees Celsius"), "100 °F = 37.7778 °C"),
    (convert_units, (-40, "fahrenheit", "C"), "-40 °F = -40 °C"),
    (convert_units, (0, "Celsius", "kelvin"), "0 °C = 273.15 K"),
    (convert_units, (3, "cups", "ml"), "3 cup = 709.765 mL"),
    (convert_units, (1, "year", "seconds"), "1 yr = 31536000 s"),
    (convert_units, (100, "kilometers per hour", "mph"), "100 km/h = 62.1371 mph"),
    (convert_units, (60, "miles/hour", "km per hour"), "60 mph = 96.5606 km/h"),
    (convert_units, (8, "Mb", "MB"), "8 Mbit = 1 MB"),
    (convert_units, (8, "mb", "kb"), "8 MB = 8000 kB"),
    (convert_units, (1, "m³", "liters"), "1 m3 = 1000 L"),
    (convert_units, (1234567.5, "m", "km"), "1234568 m = 1234.57 km"),
)
def test_common_spellings_are_accepted(use: Any, arguments: tuple[Any, ...], answer: str) -> None:
    assert use(*arguments) == answer


@cases(
    ("use", "arguments", "message"),
    (calculator, ("",), "is empty; write one such as (2 + 3) * 4"),
    (calculator, ("five plus three",), "'five' is not known here; write numbers with + - * /"),
    (calculator, ("2 +",), "'2 +' is not a whole expression; write"),
    (calculator, ("1 / 0",), "divides by zero"),
    (calculator, ("(-8) ** 0.5",), "is not a real number; use a base of 0 or more"),
    (calculator, ("sqrt(-1)",), "take the root of 0 or more"),
    (calculator, ("10 ** 400",), "too large; stay below"),
    (calculator, ("sqrt()",), "sqrt takes one number, and got 0; write sqrt(2.5), say"),
    (calculator, ("round(1, 2, 3)",), "round takes one or two numbers, and got 3"),
    (calculator, ("round(2.5, 1.5)",), "write round(2.345, 2), say"),
    (calculator, ("1, 2",), "'(1, 2)' is not arithmetic"),
    (calculator, ("2(3)",), "'2(3)' is not arithmetic"),
    (calculator, ("1" * 301,), "has 301 characters; write at most 300"),
    (calculator, ("0x10",), ""),
    (convert_units, (1, "kilometrs", "m"), "'kilometrs' is not a unit that is known here; did you mean kilometers?"),
    (convert_units, (1, "zorkmid", "m"), "use one of meters, "),
    (convert_units, (1, "", "m"), "'' is not a unit that is known here"),
    (convert_units, (1, "km", "kg"), "kilometers measure length and kilograms mass; convert to one of meters, "),
    (convert_units, (math.nan, "km", "m"), "nan is not a number that can be converted; give a finite one"),
    (convert_units, (math.inf, "km", "m"), "inf is not a number"),
    (convert_units, (1.7e308, "km", "nm"), "convert a smaller number"),
)
def test_invalid_use_has_a_remedy(use: Any, arguments: tuple[Any, ...], message: str) -> None:
    error = ExpressionError if use is calculator else UnknownUnitError
    assert message in error_message(error, use, *arguments)


@given(st.floats(-1e9, 1e9), st.sampled_from(UNITS), st.data())
def test_conversion_is_reversible(value: float, source: object, data: st.DataObject) -> None:
    origin = next(one for one in UNITS if one is source)
    target = data.draw(st.sampled_from([one for one in UNITS if one.dimension == origin.dimension]))
    back = convert(convert(value, origin, target), target, origin)
    assert math.isclose(back, value, rel_tol=1e-9, abs_tol=1e-9)


def test_every_unit_is_found_by_its_names() -> None:
    for one in UNITS:
        for name in one.names:
            assert find_unit(name) is one, name
            assert find_unit(f" {name.upper()} ").dimension == one.dimension, name


@given(st.text())
def test_any_unit_is_found_or_unknown(name: str) -> None:
    with contextlib.suppress(UnknownUnitError):
        assert find_unit(name) in UNITS


def test_today_returns_date_and_weekday_of_its_clock() -> None:
    assert make_today(lambda: dt.date(2026, 2, 28))() == "Saturday, 2026-02-28"
    # The clock is not in the schema.
    assert today.parameters["properties"] == {}
    assert make_today(dt.date.today).signature == "today()"


def test_worked_examples_are_true() -> None:
    tools = {tool.name: tool for tool in EVERYDAY_TOOLS}
    for worked in EVERYDAY_EXAMPLES:
        for name, arguments, observation in worked.calls:
            found = tools[name].read(arguments)
            if name != today.name:
                assert tools[name](**found) == observation, worked.question
            assert observation.split("= ")[-1].split()[0].rstrip(",") in worked.answer, worked.question
