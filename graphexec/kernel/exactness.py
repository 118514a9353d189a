"""The comparison of a value with what is read back from its JSON, and the place of a part that JSON does not keep."""

from __future__ import annotations

import dataclasses
import types
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import cache, cached_property
from typing import Any, Final, TypeAlias
from uuid import UUID

from graphexec.errors import an
from graphexec.kernel.effects import AS_TEXT

REMEDY: Final = (
    "annotate it with its own type, use a type that JSON keeps, or dump it with a field_serializer of pydantic; the "
    "context of a run is not stored"
)
MISSING_REMEDY: Final = "give the field one alias for both ways, and do not exclude it"
HIDDEN_REMEDY: Final = (
    "dump it with a field_serializer of pydantic that returns get_secret_value(), if a snapshot may have it in plain "
    "text, or keep it in the context of the run"
)


# Any: a value and its parts are of any class, here and below.
def class_of(value: object) -> Any:
    """Return the class of a value; type checkers do not know that of `Any`."""
    return type(value)


# What such a value is cannot be seen from its attributes.
_OPAQUE = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, Enum)


def _has_fields(kind: Any) -> bool:
    """Return whether a class is a dataclass, a pydantic model or a named tuple."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "__pydantic_fields__") or hasattr(kind, "_fields")


@cache
def _attribute_names(kind: Hashable) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the slots and the tuple's fields of a class, and the attributes that are computed, or stored as a text."""
    held: Any = kind
    bases: tuple[type, ...] = held.__mro__
    slots = [one for base in bases for one in _names_in(vars(base).get("__slots__", ())) if not one.startswith("__")]
    computed = [name for base in bases for name, one in vars(base).items() if isinstance(one, cached_property)]
    fields = dataclasses.fields(held) if dataclasses.is_dataclass(held) else ()
    as_text = [one.name for one in fields if one.metadata.get(*AS_TEXT)]
    return (*getattr(kind, "_fields", ()), *slots), frozenset((*computed, *as_text))


def _names_in(slots: Any) -> Sequence[str]:
    return [slots] if isinstance(slots, str) else [*slots]


def attributes_of(value: Any) -> Mapping[str, Any]:
    """Return the attributes of an object by name, also those that pydantic does not dump."""
    if isinstance(value, _OPAQUE):
        return {}
    names, left_out = _attribute_names(class_of(value))
    held: dict[str, Any] = {name: getattr(value, name) for name in names if hasattr(value, name)}
    for more in ("__dict__", "__pydantic_extra__", "__pydantic_private__"):
        held |= getattr(value, more, None) or {}
    return {name: one for name, one in held.items() if name not in left_out} if left_out else held


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value, each with its place in it: `.name`, `[0]` or `['key']`."""
    held: Any = value
    yield from ((f".{name}", one) for name, one in attributes_of(value).items())
    if isinstance(value, Mapping):
        for key, one in held.items():
            yield f" at the key {key!r}", key
            yield f"[{key!r}]", one
    elif _is_sequence(value):
        yield from ((f"[{number}]", one) for number, one in enumerate(held))
    elif isinstance(value, AbstractSet):
        yield from ((" in a set", one) for one in held)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview))


def find_part(value: Any, convert: Callable[[Any], object]) -> str:
    """Return the place of the innermost part that cannot be converted; an empty string for the whole."""
    place, seen = "", {id(value)}
    while True:
        where, part = next((one for one in parts_of(value) if _fails(convert, one[1])), ("", value))
        # A list that contains itself leads back to itself.
        if id(part) in seen:
            return place
        seen.add(id(part))
        place, value = f"{place}{where}", part


def _fails(convert: Callable[[Any], object], value: Any) -> bool:
    try:
        convert(value)
    except Exception:  # noqa: BLE001 - the class of a user may raise anything, and so may its serializers
        return True
    return False


def locate(value: Any, path: Sequence[int | str]) -> str:
    """Return the place of an error of pydantic, whose path has aliases, and the labels of the members of unions."""
    place = ""
    for step in path:
        attributes, name = attributes_of(value), _field_at(value, step)
        if name in attributes:
            place, value = f"{place}.{name}", attributes[str(name)]
            continue
        # The label of a member of a union leads nowhere.
        with suppress(LookupError, TypeError):
            value = value[step]
            place = f"{place}[{step!r}]"
    return place


def _field_at(value: Any, alias: int | str) -> int | str:
    """Return the name of the field with an alias, or the alias itself."""
    infos: Mapping[str, Any] = getattr(class_of(value), "__pydantic_fields__", {})
    return next((name for name, info in infos.items() if alias in (info.alias, info.validation_alias)), alias)


# A place within the value, and what is different there.
Difference: TypeAlias = tuple[str, str]

# Equal values of a simple class are the same. Of a written one, values with the same text are: 1.0 and 1.00 differ, and
# so do 0.0 and -0.0.
_SIMPLE = frozenset[type]({str, int, bool, types.NoneType, bytes, date, timedelta, UUID})
_WRITTEN = frozenset[type]({float, complex, Decimal})


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
    if isinstance(value, (datetime, time)):
        return _compare_times(value, restored)
    # mypy does not compare methods.
    own: Any = kind.__eq__
    if _has_fields(kind) or (own is object.__eq__ and not isinstance(value, _OPAQUE)):
        return _compare_named(attributes_of(value), attributes_of(restored)) or _find_unset(value, restored)
    # Any: `isinstance` narrows a value to one whose parts are unknown.
    held: Any = value
    if isinstance(value, Mapping):
        return _compare_mappings(held, restored)
    if _is_sequence(value):
        return _compare_sequences(held, restored)
    if isinstance(value, AbstractSet):
        return _compare_sets(held, restored)
    try:
        same = bool(value == restored)
    except Exception:  # noqa: BLE001 - a user's __eq__ may raise anything
        same = False
    return None if same else _changed(value)


def _compare_named(value: Mapping[str, Any], restored: Mapping[str, Any]) -> Difference | None:
    if value.keys() != restored.keys():
        return "", f"would be read back without {', '.join(value.keys() ^ restored.keys())}; {REMEDY}"
    for name, one in value.items():
        other = restored[name]
        # Most attributes are strings.
        same = type(one) is type(other) is str and one == other
        if not same and (found := find_difference(one, other)):
            return f".{name}{found[0]}", found[1]
    return None


def _find_unset(value: Any, restored: Any) -> Difference | None:
    """Return the field of a pydantic model that is set, and excluded: it is read back as its default, not set."""
    nothing = frozenset[str]()
    unset = sorted(getattr(value, "model_fields_set", nothing) - getattr(restored, "model_fields_set", nothing))
    return (f".{unset[0]}", f"is set, and would be read back as not set; {MISSING_REMEDY}") if unset else None


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
    if len(value) != len(restored) or getattr(value, "maxlen", None) != getattr(restored, "maxlen", None):
        return _changed(value)
    for number, (one, other) in enumerate(zip(value, restored, strict=True)):
        if found := find_difference(one, other):
            return f"[{number}]{found[0]}", found[1]
    return None


def _compare_sets(value: AbstractSet[Any], restored: AbstractSet[Any]) -> Difference | None:
    known = {one: one for one in restored}
    if len(value) != len(restored) or any(one not in known for one in value):
        return _changed(value)
    found = (find_difference(one, known[one]) for one in value)
    return next(((f" has a member which{where}", fact) for where, fact in filter(None, found)), None)


def _compare_times(value: Any, restored: Any) -> Difference | None:
    zone = value.tzinfo
    if zone is not None and restored.tzinfo is not None:
        if not _is_offset(value, restored):
            return "", (
                f"has the time zone {zone}, of which only the offset would be read back; convert it to UTC, and keep "
                "the name of the zone in a field of its own"
            )
        if value.utcoffset() != restored.utcoffset():
            return _changed(value)
    elif zone is not restored.tzinfo:
        return _changed(value)
    if value.fold != restored.fold:
        return "", "has a fold, which JSON lacks; convert it to UTC"
    return None if value.replace(tzinfo=None) == restored.replace(tzinfo=None) else _changed(value)


def _is_offset(value: Any, restored: Any) -> bool:
    """Return whether the time zone is an offset, and has no name but that of the offset."""
    try:
        name = getattr(value.tzinfo, "key", None) or value.tzname()
        return name in (restored.tzname(), timezone(value.tzinfo.utcoffset(None)).tzname(None))
    except Exception:  # noqa: BLE001 - a user's time zone may need a date
        return False


def _changed(value: Any) -> Difference:
    if hasattr(value, "get_secret_value"):
        return "", f"is a secret, of which JSON has only stars; {HIDDEN_REMEDY}"
    return "", f"is {_an_instance(value)}, and another one would be read back; {REMEDY}"


def _an_instance(value: object) -> str:
    return "None" if value is None else an(type(value).__name__)
