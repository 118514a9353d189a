"""Tools for everyday questions: a calculator and the date. They need no network and no API key."""

from __future__ import annotations

import ast
import datetime as dt
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from graphexec._mistakes import explain_names
from graphexec.tools.tool import AnyTool, Tool, tool

Number: TypeAlias = int | float

# Characters: more than these tools need, few enough that none of them is worth attacking.
MAX_INPUT = 2_000
# Characters of an expression. Long enough for anything a person types, short enough that deep nesting cannot exhaust
# the parser.
LONGEST = 300
# The range of floats, so that integers and floats can always be mixed.
LARGEST = 10**308
# Powers are checked before they are calculated; LARGEST has 1024 bits.
_BITS = 1024

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@tool(max_tool_input=MAX_INPUT)
def calculator(expression: str) -> str:
    """Calculate an arithmetic expression, such as (2 + 3) * 4."""
    return format_number(evaluate(expression))


def make_today(clock: Callable[[], dt.date]) -> Tool[[], str]:
    """Make a tool that returns the date given by `clock`."""

    @tool(max_tool_input=MAX_INPUT)
    def today() -> str:
        """Tell today's date and weekday."""
        date = clock()
        # The weekday names of strftime depend on the locale of the process.
        return f"{_WEEKDAYS[date.weekday()]}, {date.isoformat()}"

    return today


today = make_today(dt.date.today)

EVERYDAY_TOOLS: tuple[AnyTool, ...] = (calculator, today)


class ExpressionError(ValueError):
    """A string is not an arithmetic expression or has no value; the message says how to write it."""


# Spellings that people and models use, and Python's. The text after `=` is a guess at the value and is dropped.
_SPELLINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), spelled)
    for pattern, spelled in (
        (r"=.*", ""),
        (r"[×·∙⋅]|\btimes\b|\bmultiplied by\b", "*"),
        (r"(?<=[\d)])\s*(?<!\b0)x\s*(?=[\d(])", "*"),
        (r"÷|\bdivided by\b", "/"),
        (r"[−–]|\bminus\b", "-"),  # noqa: RUF001 - the typographic minus and dash are meant
        (r"\bplus\b", "+"),
        (r"\^|\bto the power of\b", "**"),
        (r"%\s*of\b|\bpercent of\b", "/ 100 *"),
    )
)
_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])")
# The tokens of an expression. Python's parser never sees other syntax, so it cannot warn about it.
_TOKEN = re.compile(r"\s*(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])|\*\*|//|[-+*/%()])\s*", re.ASCII)
_REMEDY = "write numbers with + - * / // % ** ( )"


def evaluate(text: str) -> Number:
    """Return the value of the expression `text`, with the precedence of Python's operators.

    Other common spellings are accepted, too: `37 x 48`, `2^10`, `15% of 80`, `1,234`, `2 + 2 = ?`. Raises
    `ExpressionError` if the text is not arithmetic or has no value (`1 / 0`), and for numbers beyond 10**308. The time
    is bounded for every input.
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"the expression has {len(text)} characters; write at most {LONGEST}")
    # Text copied from a web page may contain other kinds of spaces.
    spelled = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), " ".join(text.split()))
    for pattern, replacement in _SPELLINGS:
        spelled = pattern.sub(replacement, spelled)
    _check_tokens(spelled)
    try:
        return _value(ast.parse(spelled.strip(), mode="eval").body)
    except SyntaxError:
        raise ExpressionError(f"{_quote(text)} is not a whole expression; write one such as (2 + 3) * 4") from None
    except ZeroDivisionError:
        raise ExpressionError(f"{_quote(text)} divides by zero; divide by another number") from None
    except OverflowError:
        raise ExpressionError("the number is too large; stay below 10**308") from None
    except (MemoryError, RecursionError):
        # Python's parser raises these if the nesting is too deep.
        raise ExpressionError("the expression is nested too deeply; write it with fewer parentheses") from None


def format_number(number: Number) -> str:
    """Return a number as text: integers without a decimal point, others with at most 12 significant digits."""
    # Beyond 2**53 the last digits of a float are not exact.
    if isinstance(number, int) or (number.is_integer() and abs(number) < 2**53):
        return str(int(number))
    return f"{number:.12g}"


def _quote(text: str) -> str:
    return repr(textwrap.shorten(text, 40, placeholder="...") or text[:40])


def _check_tokens(text: str) -> None:
    if not text.strip():
        raise ExpressionError("the expression is empty; write one such as (2 + 3) * 4")
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            odd = text[position:].split(maxsplit=1)[0]
            raise ExpressionError(f"{_quote(odd)} is not arithmetic; {_REMEDY}")
        position = found.end()


def _value(tree: ast.expr) -> Number:
    match tree:
        case ast.Constant(value=int() | float() as value):
            return _check_range(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            return _check_range(_OPERATIONS[type(operation)](_value(left), _value(right)))
        case _:
            raise ExpressionError(f"{_quote(ast.unparse(tree))} is not arithmetic; {_REMEDY}")


def _check_range(number: Number) -> Number:
    if not (abs(number) <= LARGEST and math.isfinite(number)):
        raise OverflowError
    return number


def _power(base: Number, exponent: Number) -> Number:
    bits = base.bit_length() if isinstance(base, int) and abs(base) > 1 else 0
    if isinstance(exponent, int) and exponent * bits > 2 * _BITS:
        raise OverflowError
    power: complex = base**exponent
    if isinstance(power, complex):
        raise ExpressionError(
            f"{format_number(base)} ** {format_number(exponent)} is not a real number; use a base of 0 or more"
        )
    return power


_OPERATIONS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
    ast.Pow: _power,
}

if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
