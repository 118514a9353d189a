"""Schemas in the subsets of JSON Schema that servers take. Replies are checked against the whole schema in any case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from graphexec.models.http.json_values import JSON

# The keywords that are copied. `close_schema` handles those that contain schemas.
_KEPT = {"$ref", "type", "enum", "const", "title", "required"}
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")


# Any: a schema's values are arbitrary JSON.
def close_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with every object closed, and with unsupported keywords moved into descriptions."""
    found: dict[str, Any] = {}
    unsupported: dict[str, Any] = {}
    for word, value in schema.items():
        if word in {"$defs", "properties"} and _is_object(value):
            found[word] = {name: _close_inner(inner) for name, inner in value.items()}
        elif word in {"anyOf", "oneOf", "allOf"} and _is_list(value):
            found["anyOf" if word == "oneOf" else word] = [_close_inner(inner) for inner in value]
        elif word == "items":
            found[word] = _close_inner(value)
        elif word in _KEPT or (word == "format" and value in _FORMATS) or (word == "minItems" and value in (0, 1)):
            found[word] = value
        elif word not in {"additionalProperties", "description"}:
            unsupported[word] = value
    if schema.get("type") == "object":
        found["additionalProperties"] = False
        found.setdefault("properties", {})
    if "$ref" in schema:
        # The API allows no other keyword than the definitions beside it.
        return {word: value for word, value in found.items() if word in {"$ref", "$defs"}}
    description = [str(schema["description"])] if "description" in schema else []
    if unsupported:
        description.append("{" + ", ".join(f"{word}: {value}" for word, value in unsupported.items()) + "}")
    if description:
        found["description"] = "\n\n".join(description)
    return found


# Any: the value may be `true` or `false`, which are schemas, too; the server may reject them.
def _close_inner(schema: Any) -> Any:
    return close_schema(schema) if _is_object(schema) else schema


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


# Any: a list's values are arbitrary JSON.
def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


_DROPPED = frozenset(
    {"$defs", "definitions", "$schema", "$id", "additionalProperties", "patternProperties", "default", "not"}
    | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "strict"}
)


def plain_schema(schema: Mapping[str, Any]) -> JSON:
    """Return a schema, or an object that has some, without references and the keywords that Gemini refuses.

    The replies are checked against the whole schema in any case. A schema that contains itself allows any value there.
    """
    plain = _plain(schema, schema, frozenset())
    assert isinstance(plain, dict), "an object stays one"
    return plain  # pyright: ignore[reportUnknownVariableType]


# Any: a schema's values are arbitrary JSON.
def _plain(value: Any, root: Mapping[str, Any], within: frozenset[str]) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one, root, within) for one in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, Mapping):
        return value
    schema: Mapping[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    if isinstance(schema.get("parameters"), Mapping):
        # The schema of a tool has its own definitions.
        root = schema["parameters"]
    found: JSON = {}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in within:
        target: Any = root
        for name in reference.removeprefix("#").strip("/").split("/"):
            target = target.get(name, {}) if isinstance(target, Mapping) else {}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        found = _plain(target, root, within | {reference})
    for word, inner in schema.items():
        if word == "properties" and isinstance(inner, Mapping):
            found[word] = {name: _plain(one, root, within) for name, one in inner.items()}  # pyright: ignore[reportUnknownVariableType]
        elif word == "const":
            found["enum"] = [inner]
        elif word not in _DROPPED and word != "$ref":
            found["anyOf" if word == "oneOf" else word] = _plain(inner, root, within)
    return found
