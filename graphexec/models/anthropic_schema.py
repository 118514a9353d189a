"""The JSON schemas that Anthropic's structured outputs take, and how another one becomes one of them.

They are a subset: every object is closed, and sizes, ranges and patterns are unknown; a schema beyond it is refused
with 400. What is left out is told to the model in the description instead, so a reply may break it, and whoever reads
the reply checks it. An object of arbitrary members becomes an empty one. Source: Anthropic's guide to structured
outputs, and `transform_schema` of its Python package, which does the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

# What stays as it is; what holds schemas is in `closed`.
_KEPT = {"$ref", "type", "enum", "const", "title", "required"}
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")


# Any: a schema's values are arbitrary JSON.
def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with every object closed, and with what the API does not know told in descriptions."""
    found: dict[str, Any] = {}
    untold: dict[str, Any] = {}
    for word, value in schema.items():
        if word in {"$defs", "properties"} and _is_object(value):
            found[word] = {name: _inner(inner) for name, inner in value.items()}
        elif word in {"anyOf", "oneOf", "allOf"} and _is_list(value):
            found["anyOf" if word == "oneOf" else word] = [_inner(inner) for inner in value]
        elif word == "items":
            found[word] = _inner(value)
        elif word in _KEPT or (word == "format" and value in _FORMATS) or (word == "minItems" and value in (0, 1)):
            found[word] = value
        elif word not in {"additionalProperties", "description"}:
            untold[word] = value
    if schema.get("type") == "object":
        found["additionalProperties"] = False
        found.setdefault("properties", {})
    if "$ref" in schema:
        # Nothing may stand beside it but the definitions.
        return {word: value for word, value in found.items() if word in {"$ref", "$defs"}}
    told = [str(schema["description"])] if "description" in schema else []
    if untold:
        told.append("{" + ", ".join(f"{word}: {value}" for word, value in untold.items()) + "}")
    if told:
        found["description"] = "\n\n".join(told)
    return found


# Any: what stands where a schema belongs. `true` and `false` are schemas too, which the server may refuse.
def _inner(schema: Any) -> Any:
    return closed(schema) if _is_object(schema) else schema


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


# Any: a list's values are arbitrary JSON.
def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)
