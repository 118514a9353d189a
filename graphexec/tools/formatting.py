"""Measure the arguments of a call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# Beyond its limit, a value is measured to the end only if it has few parts: a long string is, but no list of a million.
_MOST_PARTS = 10_000
_MOST_BITS = 1_000


# The arguments of most calls have fewer characters.
FEW = 2_000
_FEW_PARTS, _SHORT, _SMALL = 8, 100, 10**18
_SHORT_KINDS = frozenset[type]({str, bool, float, type(None)})


def has_few_characters(value: Any) -> bool:
    """Return whether a value is an object of a few short parts, with certainly fewer characters than `FEW`.

    It calls no other function, because each step of a run would pay for the calls.
    """
    if value.__class__ is not dict:
        return False
    left = _FEW_PARTS
    for name in value:
        part = value[name]
        kind = part.__class__
        left -= 1
        if not left or name.__class__ is not str or name[_SHORT:]:
            return False
        if not (-_SMALL < part < _SMALL if kind is int else kind in _SHORT_KINDS):
            return False
        if kind is str and part[_SHORT:]:
            return False
    return True


def measure_json(value: Any, most: int) -> tuple[int, bool]:
    """Return the characters of a value as JSON without spaces and escapes, and whether that is all of it.

    Beyond `most` the rest of a value with many parts is not measured. A list or an object that occurs again, perhaps in
    itself, counts once.
    """
    length = parts = 0
    waiting = [value]
    seen: set[int] = set()
    while waiting:
        if length > most and parts > _MOST_PARTS:
            return length, False
        parts += 1
        part = waiting.pop()
        if isinstance(part, str):
            length += len(part) + 2
        elif isinstance(part, (Mapping, list, tuple)):
            if id(part) in seen:  # pyright: ignore[reportUnknownArgumentType]
                continue
            seen.add(id(part))  # pyright: ignore[reportUnknownArgumentType]
            inner: list[Any] = [*part, *part.values()] if isinstance(part, Mapping) else list(part)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType, reportUnknownVariableType]
            waiting += inner
            # Its brackets, and a comma or a colon before each part but the first.
            length += max(2, len(inner) + 1)
        elif isinstance(part, int) and not isinstance(part, bool):
            bits = part.bit_length()
            # Python refuses to write a number of more than 4,300 digits.
            length += len(str(part)) if bits <= _MOST_BITS else math.ceil(bits * math.log10(2))
        elif isinstance(part, bytes):
            length += len(part) + 2
        else:
            length += len(repr(part)) if part is None or isinstance(part, (bool, float)) else 2
    return length, True
