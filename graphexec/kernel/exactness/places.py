"""The parts of a value with the places where they are, and what to do about a part that JSON does not keep."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache
from typing import Any, Final

REMEDY: Final = (
    "annotate it with its own type, use a type that JSON keeps, or dump it with a field_serializer of pydantic; the "
    "context of a run is not stored"
)
MISSING_REMEDY: Final = "give the field one alias for both ways, and do not exclude it"
HIDDEN_REMEDY: Final = (
    "dump it with a field_serializer of pydantic that returns get_secret_value(), if a snapshot may have it in plain "
    "text, or keep it in the context of the run"
)

_AS_TEXT = "graphexec.as_text"
# The metadata of a dataclass field that is stored as what has the same text for a model.
AS_TEXT: Final[Mapping[str, bool]] = {_AS_TEXT: True}


# Any: a value and its parts are of any class, here and below.
def class_of(value: object) -> Any:
    """Return the class of a value; type checkers do not know that of `Any`."""
    return type(value)


@cache
def field_names(kind: Hashable) -> tuple[str, ...] | None:
    """Return the names of the fields of a dataclass, a pydantic model or a named tuple; `None` for another class."""
    held: Any = kind
    if dataclasses.is_dataclass(held):
        return tuple(one.name for one in dataclasses.fields(held) if not one.metadata.get(_AS_TEXT))
    names: Any = getattr(kind, "__pydantic_fields__", None)
    if names is None and tuple in held.__mro__:
        names = getattr(kind, "_fields", None)
    return None if names is None else tuple(map(str, names))


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the values of all fields by name, also of those that pydantic does not dump."""
    names = field_names(class_of(value))
    if names is None:
        return None
    return {**{name: getattr(value, name, None) for name in names}, **extras_of(value)}


def extras_of(value: Any) -> Mapping[str, Any]:
    """Return the further fields and the private attributes of a pydantic model or dataclass by name."""
    kind = class_of(value)
    extra: Any = getattr(value, "__pydantic_extra__", None)
    config: Any = getattr(kind, "__pydantic_config__", None)
    if config is not None and config.get("extra") == "allow":
        attributes: Mapping[str, Any] = value.__dict__
        extra = {name: one for name, one in attributes.items() if name not in (field_names(kind) or ())}
    private: Any = getattr(value, "__pydantic_private__", None)
    return {**(extra or {}), **(private or {})}


def state_of(value: Any) -> Mapping[str, Any]:
    """Return the attributes of an object of any class by name."""
    slots = [name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)]
    return {**{name: getattr(value, name) for name in slots}, **getattr(value, "__dict__", {})}


def _slots(kind: type) -> Sequence[str]:
    slots: Any = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else [*slots]
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value, each with its place in it: `.name`, `[0]` or `['key']`."""
    fields = fields_of(value)
    held: Any = value
    if fields is not None:
        yield from ((f".{name}", one) for name, one in fields.items())
    elif isinstance(value, Mapping):
        for key, one in held.items():
            yield f" at the key {key!r}", key
            yield f"[{key!r}]", one
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        yield from ((f"[{number}]", one) for number, one in enumerate(held))
    elif isinstance(value, AbstractSet):
        yield from ((" in a set", one) for one in held)


def find_unwritable(value: Any) -> str:
    """Return the place of the innermost part that pydantic cannot write as JSON; an empty string for the whole."""
    return _find_part(value, _is_writable)


def find_without_schema(value: Any) -> str:
    """Return the place of the innermost part whose class pydantic does not know; an empty string for the whole."""
    return _find_part(value, _has_schema)


def _find_part(value: Any, is_right: Callable[[Any], bool]) -> str:
    place, seen = "", {id(value)}
    while True:
        where, part = next((one for one in parts_of(value) if not is_right(one[1])), ("", value))
        # A list that contains itself leads back to itself.
        if id(part) in seen:
            return place
        seen.add(id(part))
        place, value = f"{place}{where}", part


def _is_writable(value: Any) -> bool:
    from pydantic_core import to_jsonable_python

    try:
        to_jsonable_python(value)
    except Exception:  # noqa: BLE001 - the serializers of a user's type may raise anything
        return False
    return True


def _has_schema(value: Any) -> bool:
    from pydantic import TypeAdapter

    try:
        TypeAdapter(class_of(value))
    except Exception:  # noqa: BLE001 - a user's class may raise anything
        return False
    return True


def locate(value: Any, path: Sequence[int | str]) -> str:
    """Return the place of an error of pydantic, whose path has aliases, and the labels of the members of unions."""
    place = ""
    for step in path:
        fields = fields_of(value)
        name = step if fields is None else _field_at(value, step)
        if fields is not None and name in fields:
            place, value = f"{place}.{name}", fields[str(name)]
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
