"""Evaluate arithmetic expressions safely; an error says what is wrong and how to write it."""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import TypeAlias

Number: TypeAlias = int | float

# Characters. Long enough for anything a person types, short enough that deep nesting cannot exhaust the parser.
LONGEST = 300
# The range of floats, so that integers and floats can always be mixed.
LARGEST = 10**308
# Powers are checked before they are calculated; LARGEST has 1024 bits.
_BITS = 1024
_DECIMALS = 30

SYNTAX = "+ - * / // % ** ( ), sqrt, abs, round, min, max, pi and e"


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
        (r"π", "pi"),
    )
)
_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])")
_CALL = re.compile(r"[a-z]\s*\(", re.IGNORECASE)
# The tokens of an expression. Python's parser never sees other syntax, so it cannot warn about it.
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))|(?P<name>[A-Za-z]\w*)|\*\*|//|[-+*/%(),])\s*",
    re.ASCII,
)


def evaluate(text: str) -> Number:
    """Return the value of the expression `text`, with the precedence of Python's operators.

    Other common spellings are accepted, too: `37 x 48`, `2^10`, `15% of 80`, `1,234`, `2 + 2 = ?`. Raises
    `ExpressionError` if the text is not arithmetic or has no value (`1 / 0`), and for numbers beyond 10**308. The time
    is bounded for every input.
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"the expression has {len(text)} characters; write at most {LONGEST}")
    # Text copied from a web page may contain other kinds of spaces.
    spelled = _normalize(" ".join(text.split()))
    _check(spelled)
    try:
        tree = ast.parse(spelled.strip(), mode="eval")
        return _value(tree.body)
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


def _normalize(text: str) -> str:
    if not _CALL.search(text):
        text = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text)
    for pattern, spelled in _SPELLINGS:
        text = pattern.sub(spelled, text)
    return text


def _check(text: str) -> None:
    if not text.strip():
        raise ExpressionError("the expression is empty; write one such as (2 + 3) * 4")
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            odd = text[position:].split(maxsplit=1)[0]
            raise ExpressionError(f"{_quote(odd)} is not arithmetic; write numbers with {SYNTAX}")
        name = found["name"]
        if name is not None and name not in _FUNCTIONS and name not in _CONSTANTS:
            raise ExpressionError(f"{_quote(name)} is not known here; write numbers with {SYNTAX}")
        position = found.end()


def _value(tree: ast.expr) -> Number:
    match tree:
        case ast.Constant(value=int() | float() as value):
            return _check_range(value)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _check_range(_power(_value(left), _value(right)))
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            return _check_range(_OPERATIONS[type(operation)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _check_range(_call_function(name, [_value(argument) for argument in arguments]))
        case _:
            raise ExpressionError(f"{_quote(ast.unparse(tree))} is not arithmetic; write numbers with {SYNTAX}")


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


def _call_function(name: str, arguments: list[Number]) -> Number:
    function, least, most = _FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        takes = "one number" if most == 1 else "one or two numbers" if most == 2 else "one number or more"  # noqa: PLR2004
        raise ExpressionError(f"{name} takes {takes}, and got {len(arguments)}; write {name}(2.5), say")
    return function(*arguments)


def _sqrt(number: Number) -> Number:
    if number < 0:
        raise ExpressionError(f"sqrt({format_number(number)}) is not a real number; take the root of 0 or more")
    if isinstance(number, int) and math.isqrt(number) ** 2 == number:
        return math.isqrt(number)
    return math.sqrt(number)


def _abs(number: Number) -> Number:
    return abs(number)


def _round(number: Number, decimals: Number | None = None) -> Number:
    if decimals is None:
        return round(number)
    if not isinstance(decimals, int) or abs(decimals) > _DECIMALS:
        raise ExpressionError(f"round takes a whole number of decimals up to {_DECIMALS}; write round(2.345, 2), say")
    return round(number, decimals)


_OPERATIONS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
}
_CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e}
# Each function with its minimum and maximum number of arguments.
_FUNCTIONS: Mapping[str, tuple[Callable[..., Number], int, float]] = {
    "sqrt": (_sqrt, 1, 1),
    "abs": (_abs, 1, 1),
    "round": (_round, 1, 2),
    "min": (lambda *numbers: min(numbers), 1, math.inf),
    "max": (lambda *numbers: max(numbers), 1, math.inf),
}
