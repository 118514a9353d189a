"""Read the arguments of a call as JSON, as a model writes them, and measure them."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from graphexec._parsing.json import read_container
from graphexec.tools.schemas import format_schema

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# What models write for none.
NULL = frozenset({"None", "null"})
# What nobody can change.
PLAIN = frozenset[type]({str, int, float, bool, type(None), bytes, complex})
# The types of arguments that are read from Python's values as from JSON.
_SIMPLE = ("string", "integer", "number", "boolean")


def is_simple(parameters: Mapping[str, Any]) -> bool:
    """Return whether a tool's arguments are such that reading them from JSON makes no difference."""
    schemas: Iterable[Mapping[str, Any] | bool] = parameters.get("properties", {}).values()
    return all(not isinstance(one, bool) and one.get("type") in _SIMPLE and "format" not in one for one in schemas)


def may_be(kind: Literal["object", "null"], schema: Any) -> bool:
    """Return whether the schema of an argument says that it may be null, or may admit an object."""
    kinds = {*format_schema(schema).split(" | ")}
    return kind in kinds if kind == "null" else not kinds <= {*_SIMPLE, "null"}


# Any: arguments of any type, here and below.
def validate_json(validator: Any, arguments: Mapping[str, Any]) -> Any:
    """Return valid arguments, read from JSON: each union has the type that the text means, and no object is shared.

    What is no JSON, such as the objects of an agent of one's own, is copied. Raises pydantic's `ValidationError`.
    """
    from pydantic_core import ValidationError

    try:
        text = json.dumps(arguments)
        # Keys that are no strings would become strings.
        if json.loads(text) == arguments:
            return validator.validate_json(text)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "json_invalid":
            raise
    except (TypeError, ValueError, RecursionError):
        pass
    with suppress(Exception):
        # An object that cannot be copied is shared.
        arguments = copy.deepcopy(arguments)
    return validator.validate_python(arguments)


def mend(arguments: Any, errors: Sequence[ErrorDetails], required: Sequence[str]) -> Mapping[str, Any] | None:
    """Return arguments in which what was refused is read as models mean it; `None` if nothing is to be changed.

    A string of JSON is the list, the object or the null in it, and `null` for an argument that may be omitted is none.
    A string in such a string is read by the next call, with the errors of what this one returned.
    """
    try:
        mended = json.loads(json.dumps(arguments))
    except (TypeError, ValueError, RecursionError):
        return None
    for error in errors:
        holder, name, value = _find(mended, error["loc"])
        # An argument that the tool does not know stays one.
        may_omit = error["type"] != "extra_forbidden" and (holder is not mended or name not in required)
        if isinstance(value, str):
            with suppress(ValueError):
                holder[name] = None if value.strip() in NULL else read_container(value)
        elif value is None and type(holder) is dict and may_omit:
            del holder[name]
    return None if mended == arguments else mended


def _find(value: Any, place: Sequence[str | int]) -> tuple[Any, Any, Any]:
    """Return the value at the place of an error, and what holds it; a place also has the names of classes."""
    holder: Any = None
    name: Any = None
    for part in place:
        match value:
            case {**members} if part in members:
                holder, name, value = value, part, members[part]
            case [*items] if isinstance(part, int):
                holder, name, value = value, part, items[part]
            case _:
                pass
    return holder, name, value


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
