"""Compare a value with what was read back from its JSON: by type, by value, and in every part."""

from __future__ import annotations

import dataclasses
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias, final
from uuid import UUID

from graphexec.errors import an
from graphexec.kernel.exactness.places import HIDDEN_REMEDY, REMEDY, class_of, extras_of, field_names, state_of

# A place within the value, and what is different there.
Difference: TypeAlias = tuple[str, str]

_PLAIN = frozenset[type]({str, int, bool, types.NoneType})
# Equal values of one of these classes are the same.
_SIMPLE = frozenset[type]({*_PLAIN, bytes, date, timedelta, UUID})
# Of these, values with the same text are the same: 1.0 and 1.00 differ, and so do 0.0 and -0.0.
_WRITTEN = frozenset[type]({float, complex, Decimal})
# What such a value is cannot be seen from its attributes.
_OPAQUE = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)


@final
class Door:
    """The `context` in which pydantic dumps a value. Sequences that were compared before count what they can omit.

    Such a sequence has `compared`, the number of its first items that need not be compared again. With `omits`, it
    dumps the others only.
    """

    __slots__ = ("known", "omits")

    def __init__(self, *, omits: bool = False) -> None:
        self.known = 0
        self.omits = omits


# Any: values of any class, here and below.
def is_plain(value: Any) -> bool:
    """Return whether JSON has the value itself: a string, an integer, a boolean, None, or lists and dicts of these."""
    kind = class_of(value)
    if kind is list:
        return all(map(is_plain, value))
    if kind is dict:
        return all(type(name) is str and is_plain(one) for name, one in value.items())
    return kind in _PLAIN


def find_difference(value: Any, restored: Any) -> Difference | None:
    """Return the place of the first part that is another one in the restored value, and why; `None` if none is."""
    if value is restored:
        return None
    kind = class_of(value)
    if kind is not type(restored):
        return "", f"is {_an_instance(value)}, and would be read back as {_an_instance(restored)}; {REMEDY}"
    if kind in _SIMPLE:
        return None if value == restored else _changed(value)
    if kind in _WRITTEN:
        return None if repr(value) == repr(restored) else _changed(value)
    names = field_names(class_of(value))
    if names is not None:
        for name in names:
            one, other = getattr(value, name, None), getattr(restored, name, None)
            # Most fields are texts, or defaults.
            if one is other or (type(one) is str and type(other) is str and one == other):
                continue
            if found := find_difference(one, other):
                return f".{name}{found[0]}", found[1]
        if dataclasses.is_dataclass(kind) and not hasattr(kind, "__pydantic_config__"):
            return None
        return _compare_named(extras_of(value), extras_of(restored))
    return next((compare for kinds, compare in _COMPARED if isinstance(value, kinds)), _compare_objects)(
        value, restored
    )


def _compare_named(value: Mapping[str, Any], restored: Mapping[str, Any]) -> Difference | None:
    if value.keys() != restored.keys():
        return "", f"would be read back without {', '.join(value.keys() ^ restored.keys())}; {REMEDY}"
    for name, one in value.items():
        if found := find_difference(one, restored[name]):
            return f".{name}{found[0]}", found[1]
    return None


def _compare_mappings(value: Mapping[Any, Any], restored: Mapping[Any, Any]) -> Difference | None:
    if len(value) != len(restored):
        return _changed(value)
    # An answer of a type that only an executor knows, which has compared it.
    typed = getattr(value, "typed", None) if getattr(restored, "typed", None) is not None else None
    # A typed dictionary is read in the order of its class.
    known = {} if isinstance(value, OrderedDict) else {key: key for key in restored}
    for (key, one), at_its_place in zip(value.items(), restored, strict=True):
        other = known.get(key, at_its_place)
        if found := find_difference(key, other):
            return f" has the key {key!r}, which{found[0]}", found[1]
        if (typed is None or key != typed) and (found := find_difference(one, restored[other])):
            return f"[{key!r}]{found[0]}", found[1]
    # Of a defaultdict.
    return find_difference(getattr(value, "default_factory", None), getattr(restored, "default_factory", None))


def _compare_sequences(value: Sequence[Any], restored: Sequence[Any]) -> Difference | None:
    # Of steps, which a run extends; see `Door`.
    known: int = getattr(value, "compared", 0)
    if len(restored) == len(value):
        known = 0
    items = value[known:] if known else value
    if len(items) != len(restored) or getattr(value, "maxlen", None) != getattr(restored, "maxlen", None):
        return _changed(value)
    for number, (one, other) in enumerate(zip(items, restored, strict=True), known):
        if found := find_difference(one, other):
            return f"[{number}]{found[0]}", found[1]
    note: Any = getattr(value, "note_compared", None)
    if note is not None:
        note()
    return None


def _compare_sets(value: AbstractSet[Any], restored: AbstractSet[Any]) -> Difference | None:
    known = {one: one for one in restored}
    if len(value) != len(restored) or any(one not in known for one in value):
        return _changed(value)
    found = (find_difference(one, known[one]) for one in value)
    return next(((f" has a member which{where}", fact) for where, fact in filter(None, found)), None)


def _compare_times(value: datetime | time, restored: datetime | time) -> Difference | None:
    zone = value.tzinfo
    if zone is not None and restored.tzinfo is not None:
        if not _is_fixed(zone):
            return "", (
                f"has the time zone {zone}, of which only the offset would be read back; convert it to UTC, and keep "
                "the name of the zone in a field of its own"
            )
        if value.utcoffset() != restored.utcoffset():
            return _changed(value)
    elif zone is not restored.tzinfo:
        return _changed(value)
    # JSON lacks the fold of a time, by which equal times without a zone may differ.
    same = value.replace(tzinfo=None) == restored.replace(tzinfo=None)
    return None if same else _changed(value)


def _is_fixed(zone: tzinfo) -> bool:
    try:
        return zone.utcoffset(None) is not None
    except Exception:  # noqa: BLE001 - a user's time zone may need a date
        return False


def _compare_opaque(value: Any, restored: Any) -> Difference | None:
    del restored
    return _changed(value)


def _compare_objects(value: Any, restored: Any) -> Difference | None:
    # mypy does not compare methods.
    own: Any = type(value).__eq__
    if own is object.__eq__:
        return _compare_named(state_of(value), state_of(restored))
    try:
        same = bool(value == restored)
    except Exception:  # noqa: BLE001 - a user's __eq__ may raise anything
        same = False
    return None if same else _changed(value)


_COMPARED: Sequence[tuple[Any, Callable[[Any, Any], Difference | None]]] = (
    ((*_OPAQUE, Enum), _compare_opaque),
    ((datetime, time), _compare_times),
    ((str, bytes, bytearray, memoryview), _compare_objects),
    (Mapping, _compare_mappings),
    (Sequence, _compare_sequences),
    (AbstractSet, _compare_sets),
)


def _changed(value: Any) -> Difference:
    if hasattr(value, "get_secret_value"):
        return "", f"is a secret, of which JSON has only stars; {HIDDEN_REMEDY}"
    return "", f"is {_an_instance(value)}, and another one would be read back; {REMEDY}"


def _an_instance(value: object) -> str:
    return "None" if value is None else an(type(value).__name__)
