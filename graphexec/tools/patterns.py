"""Search for the patterns of JSON schemas in bounded time.

A schema, and the strings that it describes, may come from other programs. `re` goes back when a part does not match,
which takes exponential time with patterns such as `(a+)+b`. It is used where that cannot take long, and otherwise the
engine of pydantic, which takes linear time but knows neither what looks ahead or back nor what refers to a group.
"""

from __future__ import annotations

import importlib
import math
import re
from functools import lru_cache
from typing import Any

from graphexec._parsing import compile_lazily

# Ways in which a matcher may divide a string among the parts of a pattern, in bits: some tenths of a second.
_MOST_BITS = 20.0
# Sets of sets: other characters for pydantic's engine than for `re`.
_NESTED = compile_lazily(r"\[[^\]]*(?:\[|--|&&|~~)")
# What compiling a pattern raises, too: for a count with too many digits, and for too many groups in groups.
COMPILE_ERRORS = (re.error, ValueError, OverflowError, RecursionError)


def search_pattern(pattern: str, text: str) -> bool | None:
    """Return whether a pattern is found in a string; `None` if `re` cannot read it, or it may take long to search."""
    try:
        return _search_linearly(pattern, text) if is_costly(pattern, len(text)) else bool(re.search(pattern, text))
    except COMPILE_ERRORS:
        return None


def is_searchable(pattern: str, length: int) -> bool:
    """Return whether `search_pattern` has a result for each string of at most this length."""
    try:
        _parse(pattern)
    except COMPILE_ERRORS:
        return False
    return not is_costly(pattern, length) or _make_linear(pattern) is not None


@lru_cache(maxsize=256)
def is_costly(pattern: str, length: int) -> bool:
    """Return whether `re` may take long to search a string of this length; not for a pattern that it cannot read."""
    try:
        parts = _parse(pattern)
    except COMPILE_ERRORS:
        return False
    starts = 0.0 if parts and parts[0] in _BEGINNINGS else math.log2(length + 1)
    try:
        return starts + _count_ways(parts, length) > _MOST_BITS
    except RecursionError:
        # Groups in groups that `re` could just read.
        return True


# Any: the parser of `re` has no types.
_parser: Any = importlib.import_module("re._parser")
_BEGINNINGS = ((_parser.AT, _parser.AT_BEGINNING), (_parser.AT, _parser.AT_BEGINNING_STRING))
_REPEATS = (_parser.MAX_REPEAT, _parser.MIN_REPEAT, _parser.POSSESSIVE_REPEAT)


@lru_cache(maxsize=128)
def _parse(pattern: str) -> Any:
    return _parser.parse(pattern)


def _count_ways(parts: Any, length: int) -> float:
    """Return an upper bound of the ways in which parts in sequence match within so many characters, in bits."""
    ways, looks = 0.0, [0.0]
    for kind, value in parts:
        if kind in _REPEATS:
            least, most, inner = value
            width = inner.getwidth()[0]
            # `re` repeats an empty match only as often as it must.
            times = min(most, length // width + 1 if width else length + least)
            ways += _count_ways(inner, length) * times + (math.log2(times + 1) if least != most else 0)
        elif kind in (_parser.ASSERT, _parser.ASSERT_NOT):
            # Once matched, it is not entered again for what follows.
            looks.append(_count_ways(value[1], length))
        else:
            branches = _branches(kind, value)
            ways += max((_count_ways(branch, length) for branch in branches), default=0.0)
            ways += math.log2(max(len(branches), 1))
    return ways + max(looks) + math.log2(len(looks))


def _branches(kind: Any, value: Any) -> list[Any]:
    """Return the sequences of which a part matches one."""
    if kind is _parser.BRANCH:
        return list(value[1])
    if kind is _parser.SUBPATTERN:
        return [value[3]]
    if kind is _parser.ATOMIC_GROUP:
        return [value]
    if kind is _parser.GROUPREF_EXISTS:
        return [one for one in value[1:] if one is not None]
    return []


def _search_linearly(pattern: str, text: str) -> bool | None:
    validator = _make_linear(pattern)
    return None if validator is None else bool(validator.isinstance_python(_replace_surrogates(text)))


def _replace_surrogates(text: str) -> str:
    """Return a string without lone surrogates, which are no characters for pydantic's engine."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@lru_cache(maxsize=128)
def _make_linear(pattern: str) -> Any:
    """Return pydantic's validator for a pattern; `None` if its engine does not read it, or not in the same way."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        schema = core_schema.str_schema(pattern=_replace_surrogates(pattern))
        return None if _NESTED().search(pattern) else SchemaValidator(schema)
    except SchemaError:
        return None
