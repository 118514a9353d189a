"""Schemas in the subsets of JSON Schema that servers take. Replies are checked against the whole schema in any case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from graphexec.models.http.json_values import JSON

# The keywords that are copied. `close_schema` handles those that contain schemas.
_KEPT = {"$ref", "type", "enum", "const", "title", "required"}
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
# The keywords that Gemini refuses.
_DROPPED = frozenset(
    {"$defs", "definitions", "$schema", "$id", "additionalProperties", "patternProperties", "default", "not"}
    | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "strict"}
    | {"examples", "propertyNames"}
)


# Any: a schema's values are arbitrary JSON, here and below.
def close_schema(schema: Mapping[str, Any], *, strict: bool = False) -> dict[str, Any]:
    """Return a schema with every object closed, and with unsupported keywords moved into descriptions: for Anthropic.

    The strict form, of OpenAI, requires every property, too: a reply that has them all follows the whole schema.
    """
    found: dict[str, Any] = {}
    unsupported: dict[str, Any] = {}
    for word, value in schema.items():
        if word in {"$defs", "properties"} and _is_object(value):
            found[word] = {name: _close_inner(inner, strict=strict) for name, inner in value.items()}
        elif word in {"anyOf", "oneOf", "allOf"} and _is_list(value):
            found["anyOf" if word == "oneOf" else word] = [_close_inner(inner, strict=strict) for inner in value]
        elif word == "items":
            found[word] = _close_inner(value, strict=strict)
        elif word in _KEPT or (word == "format" and value in _FORMATS) or (word == "minItems" and value in (0, 1)):
            found[word] = value
        elif word not in {"additionalProperties", "description"}:
            unsupported[word] = value
    if schema.get("type") == "object":
        found["additionalProperties"] = False
        found.setdefault("properties", {})
        if strict:
            found["required"] = list(found["properties"])
    if "$ref" in schema:
        # The API allows no other keyword than the definitions beside it.
        return {word: value for word, value in found.items() if word in {"$ref", "$defs"}}
    description = [str(schema["description"])] if "description" in schema else []
    if unsupported:
        description.append("{" + ", ".join(f"{word}: {value}" for word, value in unsupported.items()) + "}")
    if description:
        found["description"] = "\n\n".join(description)
    return found


# Any: a part of a schema is arbitrary JSON.
def has_free_keys(part: Any) -> bool:
    """Return whether a schema has an object with keys of any name, which would have none if it were closed."""
    if not _is_object(part):
        return _is_list(part) and any(map(has_free_keys, part))
    if part.get("type") == "object":
        others = part.get("additionalProperties")
        if "patternProperties" in part or _is_object(others) or ("properties" not in part and others is not False):
            return True
    return any(map(has_free_keys, part.values()))


def _close_inner(schema: Any, *, strict: bool) -> Any:
    """Close a schema; `true` and `false` are schemas, too, which the server may reject."""
    return close_schema(schema, strict=strict) if _is_object(schema) else schema


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def plain_schema(schema: Mapping[str, Any]) -> JSON:
    """Return a schema, or an object that has some, without references and the keywords that Gemini refuses.

    A schema that contains itself allows any value there.
    """
    return {**_plain(schema, schema, frozenset())}


def _plain(value: Any, root: Mapping[str, Any], within: frozenset[str]) -> Any:
    if _is_list(value):
        return [_plain(one, root, within) for one in value]
    if not _is_object(value):
        return value
    if _is_object(value.get("parameters")):
        # The schema of a tool has its own definitions.
        root = value["parameters"]
    found: JSON = {}
    reference = value.get("$ref")
    if isinstance(reference, str) and reference not in within:
        target: Any = root
        for name in reference.removeprefix("#").strip("/").split("/"):
            target = target.get(name, {}) if _is_object(target) else {}
        found = _plain(target, root, within | {reference})
    for word, inner in value.items():
        if word == "properties" and _is_object(inner):
            found[word] = {name: _plain(one, root, within) for name, one in inner.items()}
        elif word == "const":
            found["enum"] = [inner]
        elif word not in _DROPPED and word != "$ref":
            found["anyOf" if word == "oneOf" else word] = _plain(inner, root, within)
    return found
