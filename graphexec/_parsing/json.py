"""Read the JSON that models write: whole objects and lists, and those that are still being received.

What can only mean one thing is read: raw newlines and tabs in strings, trailing commas, single and typographic quotes,
full-width colons and commas, and Python's `None`, `True` and `False`. Anything else that is not JSON is refused, and so
are two different values of one key, and a number too large for a float.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, Literal

from graphexec._parsing import compile_lazily, match_end


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object in `text`. Raises `ValueError`; truncated JSON is not completed."""
    value = read_json(text)[1]
    if type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        raise ValueError("it is a list, not an object")  # noqa: TRY004 - the text is wrong, not a type
    raise ValueError("it is a single value, not an object")


def read_container(text: str) -> dict[str, Any] | list[Any]:
    """Return the JSON object or list in `text`. Raises `ValueError` as `read_object` does."""
    value = read_value(text)
    if isinstance(value, (dict, list)):
        return value  # pyright: ignore[reportUnknownVariableType]
    raise ValueError("it is a single value, not an object")


def read_value(text: str) -> Any:
    """Return the JSON value in `text`. Raises `ValueError` as `read_object` does."""
    return read_json(text)[1]


def valid_json(text: str) -> str:
    """Return `text` itself if it is JSON, or the JSON that it can only mean. Raises `ValueError` if there is none."""
    return read_json(text)[0]


def read_json(text: str) -> tuple[str, Any]:
    """Return `text` itself if it is JSON, or the JSON that it can only mean, and its value.

    Raises `ValueError` as `read_object` does.
    """
    try:
        value = _parse(text)
    except ValueError:
        repaired = _repair(text)
        if repaired == text:
            raise
        value = _parse(repaired)
        text = repaired
    if not _is_unambiguous(text, value):
        _strict().decode(text)
    return text, value


# The values that neither have keys nor can be too large.
_PLAIN = frozenset[type]({str, int, bool, type(None)})


def _is_unambiguous(text: str, value: Any) -> bool:
    """Return whether the value is an object of plain values whose keys certainly differ: it has a colon for each.

    Most arguments of calls are such objects.
    """
    if type(value) is not dict or text.count(":") != len(value):  # pyright: ignore[reportUnknownArgumentType]
        return False
    for name in value:  # noqa: SIM110 - `all` would be several calls  # pyright: ignore[reportUnknownVariableType]
        if type(value[name]) not in _PLAIN:  # pyright: ignore[reportUnknownArgumentType]
            return False
    return True


def read_beginning(text: str, *, strings: bool = True) -> Any:
    """Return the value of which `text` is the beginning: what is complete, and with `strings` the string at its end.

    Raises `ValueError` if no value begins so. Text after the value is ignored. Linear in the length of the text.
    """
    mode: Literal["on", "trailing-strings"] = "trailing-strings" if strings else "on"
    try:
        return _parse(text, mode)
    except ValueError:
        return _parse(_repair(text), mode)


def _parse(text: str, partial: Literal["off", "on", "trailing-strings"] = "off") -> Any:
    import pydantic_core

    # Bytes, because half a surrogate pair in a string would raise a TypeError.
    return pydantic_core.from_json(text.encode(errors="surrogatepass"), allow_inf_nan=False, allow_partial=partial)


def _reject_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        for key, value in pairs:
            if found[key] != value:
                raise ValueError(f"it has two values for {key}")
    return found


def _reject_overflow(number: str) -> str:
    if math.isinf(float(number)):
        raise ValueError(f"the number {number[:20]} is too large")
    return number


@cache
def _strict() -> json.JSONDecoder:
    # Numbers as strings, because one of any length is the same as itself.
    return json.JSONDecoder(object_pairs_hook=_reject_duplicates, parse_int=str, parse_float=_reject_overflow)


# A string in any quotes, also an unterminated one, which takes the rest of the text, so that a search is linear.
STRING = r"""
    "(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)"?
    | '(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)'?
    | ‘(?P<single_curly>[^‘’\\]*+(?:\\.[^‘’\\]*+)*+)’?
    | [“”„](?P<curly>[^“”\\]*+(?:\\.[^“”\\]*+)*+)[“”]?
"""
_TOKEN = compile_lazily(
    rf"""
    {STRING}
    | (?P<trailing>(?<![{{\[,，\s])[,，](?=\s*+[}}\]]))
    | (?P<wide>[：，])
    | (?P<word>\b(?:None|True|False)\b)
    """,
    re.DOTALL | re.VERBOSE,
)
# The groups of strings.
_STRINGS = frozenset({"double", "single", "single_curly", "curly"})
_WORDS = {"None": "null", "True": "true", "False": "false", "：": ":", "，": ","}
# What may follow a string; the quote that ends a string in single quotes may also be an apostrophe.
_AFTER_STRING = compile_lazily(r"\s*+(?:[,:}\]：，]|\Z)")
_TO_ESCAPE = compile_lazily(r'\\.|[\x00-\x1f"]', re.DOTALL)


def _repair(text: str) -> str:
    return _TOKEN().sub(_repair_token, text)


def _repair_token(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind not in _STRINGS:
        return "" if kind == "trailing" else _WORDS[found[0]]
    closed = found.end() > found.end(kind)
    if kind != "double" and closed and not _AFTER_STRING().match(found.string, found.end()):
        raise ValueError(f"a quote may end a string or belong to it: {found[0][-20:]}")
    return f'"{_TO_ESCAPE().sub(_escape, found[kind])}' + ('"' if closed else "")


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character[0] == "\\":
        return "'" if character == "\\'" else character
    return '\\"' if character == '"' else f"\\u{ord(character):04x}"


def open_string(text: str) -> int | None:
    """Return the position after the quote of the string in which the text ends, or `None` if it ends in no string."""
    last = _find_open_string(text)
    return last.start("double") if last and last.lastgroup == "double" else None


def ends_in_string(text: str) -> bool:
    """Return whether a text ends in a string in any quotes."""
    return _find_open_string(text) is not None


def _find_open_string(text: str) -> re.Match[str] | None:
    last = None
    for last in _TOKEN().finditer(text):  # noqa: B007 - only the last token is used
        pass
    if last is None or last.lastgroup not in _STRINGS or last.end() > last.end(last.lastgroup):
        return None
    # The beginning of an escape is not a part of the token.
    return last if text[last.end() :] in {"", "\\"} else None


_STRING_OR_BRACKET = compile_lazily(rf"{STRING}|[{{}}\[\]]", re.DOTALL | re.VERBOSE)
_BRACKETS = {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}


def find_end(text: str, start: int = 0, tokens: Callable[[], re.Pattern[str]] = _STRING_OR_BRACKET) -> int | None:
    """Return the position after the JSON that begins at `start`, or `None` if its brackets are not closed.

    Other `tokens` than the strings and brackets of JSON find the end of another form.
    """
    depth = 0
    for token in tokens().finditer(text, start):
        depth += _BRACKETS.get(token[0], 0)
        if depth == 0:
            return token.end()
    return None


_FENCE_BEGUN = compile_lazily(r"\s*+(?:```+[\w+-]{0,20}\s*+)?")
_CONTAINER_BEGUN = compile_lazily(r"\{\s*+(?:[\"'“”„‘]|\Z)|\[\s*+[\"{]")
_FIRST_KEY = compile_lazily(r"\{\s*+[\"'“”„‘]([^\"'“”„‘’]{1,200})[\"'“”’]\s*+[:：]")


def is_broken_container(text: str, keys: Collection[str]) -> bool:
    """Return whether a text that is not JSON begins like it, and is truncated or has one of the `keys` first.

    A fence that is not closed may precede it.
    """
    begun = _FENCE_BEGUN().sub("", text, count=1)
    if not _CONTAINER_BEGUN().match(begun):
        return False
    key = _FIRST_KEY().match(begun)
    return find_end(begun) is None or (key is not None and key[1] in keys)


# What ends in no incomplete escape and in no half of a surrogate pair.
_WHOLE = compile_lazily(
    r"(?:[^\"\\]|\\[^u]|\\u(?!d[89ab])[0-9a-f]{4}|\\ud[89ab][0-9a-f]{2}\\u[0-9a-f]{4})*+", re.IGNORECASE
)
# Characters of a pair: an incomplete escape is shorter.
_ESCAPES = len(r"\ud83d\ude00")


class StringDecoder:
    """Decodes a JSON string that is received in pieces. Linear in the string's length, however short the pieces are."""

    __slots__ = ("_waiting", "ended")

    def __init__(self) -> None:
        self._waiting = ""
        self.ended = False

    def take(self, piece: str) -> str:
        """Return the text that a piece adds; empty after the closing quote, and after an escape that is not JSON."""
        if self.ended:
            return ""
        received = self._waiting + piece
        end = match_end(_WHOLE(), received)
        self._waiting = received[end:]
        self.ended = self._waiting.startswith('"') or len(self._waiting) >= _ESCAPES
        try:
            return str(read_value(f'"{received[:end]}"'))
        except ValueError:
            self.ended = True
            return ""
