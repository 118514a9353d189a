"""Read the arguments of a call as JSON, as a model writes them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from graphexec._parsing.json import read_container

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# The types of arguments that are read from Python's values as from JSON.
_SIMPLE = ("string", "integer", "number", "boolean")


def is_simple(parameters: Mapping[str, Any]) -> bool:
    """Return whether a tool's arguments are such that reading them from JSON makes no difference."""
    schemas: Sequence[Mapping[str, Any]] = [*parameters.get("properties", {}).values()]
    return all(one.get("type") in _SIMPLE and "format" not in one for one in schemas)


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

    A string of JSON is the list or the object in it, and `null` for an argument that may be omitted is none.
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
                holder[name] = read_container(value)
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
