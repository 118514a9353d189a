"""The everyday tools: a calculator that accepts any text, and the date."""

import datetime as dt

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphexec.cli.runs.options import EVERYDAY_EXAMPLES
from graphexec.tools import everyday
from graphexec.tools.everyday import LARGEST, LONGEST, ExpressionError, calculator, evaluate, today
from tests.kernel.machines import error_message
from tests.parameters import cases, examples

_NUMBERS = st.one_of(
    st.integers(0, 10**6).map(str), st.floats(0, 10**6, allow_subnormal=False).map(lambda number: f"{number:.6f}")
)
_EXPRESSIONS = st.recursive(
    _NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", " + ", " - "]), inner).map("".join),
        st.tuples(inner, st.sampled_from(["**2", "**0.5", " ** 3", "**-1"])).map("".join),
        inner.map("({})".format),
        inner.map("-{}".format),
    ),
    max_leaves=12,
)


@given(_EXPRESSIONS.filter(lambda text: len(text) <= LONGEST))
@example("2 ** 3 ** 2")
@example("-2**2")
@example("7 // -2 % 3")
def test_calculator_agrees_with_python(expression: str) -> None:
    try:
        expected = eval(expression, {"__builtins__": {}})
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
@example("9" * LONGEST + "**" + "9")
@example("(" * 150 + ")" * 150)
@example("-" * LONGEST)
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
        message = everyday.format_number(number)
    assert "\n" not in message
    assert len(message) <= 310


@cases(
    ("expression", "answer"),
    ("37 * 48", "1776"),
    ("10 / 2", "5"),
    ("0.1 + 0.2", "0.3"),
    ("1 / 3", "0.333333333333"),
    ("2 ** 100", "1267650600228229401496703205376"),
    ("2 ** 0.5", "1.41421356237"),
    ("1e21", "1e+21"),
    ("37 × 48", "1776"),
    ("37 x 48 = ?", "1776"),
    ("37 times 48", "1776"),
    ("10 ÷ 4", "2.5"),
    ("2^10", "1024"),
    ("5 − 7", "-2"),  # noqa: RUF001
    ("15% of 80", "12"),
    ("17 % 5", "2"),
    ("1,234,567 + 1", "1234568"),
)
def test_common_spellings_are_accepted(expression: str, answer: str) -> None:
    assert calculator(expression) == answer


@cases(
    ("expression", "message"),
    ("", "is empty; write one such as (2 + 3) * 4"),
    ("five plus three", "'five' is not arithmetic; write numbers with + - * /"),
    ("2 +", "'2 +' is not a whole expression; write"),
    ("1 / 0", "divides by zero"),
    ("(-8) ** 0.5", "is not a real number; use a base of 0 or more"),
    ("10 ** 400", "too large; stay below"),
    ("sqrt(4)", "'sqrt(4)' is not arithmetic; write numbers with"),
    ("1, 2", "',' is not arithmetic"),
    ("2(3)", "'2(3)' is not arithmetic"),
    ("1" * 301, "has 301 characters; write at most 300"),
    ("0x10", ""),
)
def test_invalid_use_has_a_remedy(expression: str, message: str) -> None:
    assert message in error_message(ExpressionError, calculator, expression)


def test_today_returns_date_and_weekday_of_its_clock() -> None:
    assert everyday.make_today(lambda: dt.date(2026, 2, 28))() == "Saturday, 2026-02-28"
    # The clock is not in the schema.
    assert today.parameters["properties"] == {}
    assert everyday.make_today(dt.date.today).signature == "today()"


def test_worked_examples_are_true() -> None:
    tools = {tool.name: tool for tool in everyday.EVERYDAY_TOOLS}
    for worked in EVERYDAY_EXAMPLES:
        for name, arguments, observation in worked.calls:
            found = tools[name].read(arguments)
            if name != today.name:
                assert tools[name](**found) == observation, worked.question
            assert observation.split("= ")[-1].split()[0].rstrip(",") in worked.answer, worked.question
