"""Read the arguments of a call as JSON, as a model writes them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from graphexec._parsing.json import is_broken_container, read_container, read_value
from graphexec.tools.schemas import format_schema

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from graphexec.tools.tool import AnyTool

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


def interpret(tool: AnyTool, text: str) -> tuple[Any, ...]:
    """Return the arguments that a string can stand for, the more likely ones first.

    An object has the arguments by name. If it names none of them, it may be the only (required) one. What is no
    arguments at all stands for itself.
    """
    names, required = tool.names, tool.parameters.get("required", ())
    alone = names[0] if len(names) == 1 else required[0] if len(required) == 1 else None
    argument, broken = tool.parameters["properties"].get(alone), False
    try:
        decoded: dict[str, Any] | list[Any] | None = read_container(text)
    except ValueError:
        decoded, broken = None, is_broken_container(text, names)
    if not required and (decoded == {} or text.strip() in {"", *NULL}):
        return ({},)
    if isinstance(decoded, dict):
        if alone is None or any(name in decoded for name in names):
            return (decoded,)
        if _may_be("object", argument):
            return ({alone: decoded},)
        # Of tools with one string, those that want JSON say so: no model would know it otherwise.
        wants_json = "json" in f"{tool.name} {tool.description} {tool.parameters}".casefold()
        return ({alone: text} if wants_json else decoded,)
    if not names and not broken:
        return ({},)
    if alone is None or broken:
        return (text,)
    if text.strip() in NULL and _may_be("null", argument):
        return ({alone: None},)
    as_text = {alone: text}
    # The JSON may be the value of an argument that is a list or an object.
    if decoded is not None:
        return as_text, {alone: decoded}
    # A schema, unlike pydantic, does not read a number in a string. The errors are those of the text.
    with suppress(ValueError):
        return as_text, {alone: read_value(text)}, as_text
    return (as_text,)


def _may_be(kind: Literal["object", "null"], schema: Any) -> bool:
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
