"""JSON schemas of arguments: the form that every model and agent reads, and the short form in a signature."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from graphexec.errors import ToolDefinitionError

# A JSON schema or a part of one: its values are arbitrary JSON.
Schema: TypeAlias = dict[str, Any]

_DEFINITIONS = "#/$defs/"
# Keywords whose value maps names to schemas; the names may be those of other keywords.
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
# Keywords whose value is data; a "$ref" in it is not a reference.
_DATA = frozenset({"const", "enum", "default", "examples"})
# Characters of an enumeration in a signature: the names of all countries have fewer.
_LONGEST_ENUMERATION = 6000


def copy_schema(schema: Mapping[str, Any], name: str) -> Schema:
    """Return a copy of a tool's JSON schema. Raises `ToolDefinitionError` if it is not JSON."""
    try:
        copied: Schema = json.loads(json.dumps(dict(schema), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolDefinitionError(
            f"{name} has parameters that are not a JSON schema: {error}; give a dict, such as "
            '{"type": "object", "properties": {"city": {"type": "string"}}}'
        ) from None
    return copied


def normalize_schema(root: Schema, name: str) -> Schema:
    """Return the JSON schema of a tool's arguments in the form that pydantic writes.

    It is an object with `properties`, and its references are to `$defs`, of which each is used. A reference and `allOf`
    at the top, which some providers refuse, are merged. Raises `ToolDefinitionError` if it describes anything but an
    object, and for a reference to something outside it.
    """
    definitions = _Definitions(root, name)
    merged = _merge_parts(definitions.rewrite(_without_definitions(root)), definitions, {})
    merged.pop("title", None)
    kind = merged.setdefault("type", "object")
    if kind != "object":
        raise ToolDefinitionError(
            f"{name} has parameters of the type {json.dumps(kind)}; give the schema of an object, whose "
            "properties are the arguments"
        )
    merged.setdefault("properties", {})
    used = definitions.reachable(merged)
    return merged | ({"$defs": used} if used else {})


# Any: a part of a JSON document.
def _item(part: Any, key: str) -> Any:
    return part[int(key) if isinstance(part, list) else key]


def _without_definitions(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    members: Schema = schema  # pyright: ignore[reportUnknownVariableType]
    return {key: value for key, value in members.items() if key not in ("$schema", "$id", "$defs", "definitions")}


class _Definitions:
    """The schemas that references of `root` name, each with a name of its own."""

    def __init__(self, root: Schema, tool: str) -> None:
        self._root = root
        self._tool = tool
        self._names: dict[str, str] = {}
        self._schemas: dict[str, Any] = {}

    def rewrite(self, part: Any) -> Any:
        """Return a part of the root with all references in the form `#/$defs/<name>`."""
        if isinstance(part, list):
            items: list[Any] = part  # pyright: ignore[reportUnknownVariableType]
            return [self.rewrite(item) for item in items]
        if not isinstance(part, dict):
            return part
        members: Schema = part  # pyright: ignore[reportUnknownVariableType]
        return {key: self._rewrite_member(key, value) for key, value in members.items()}

    def _rewrite_member(self, key: str, value: Any) -> Any:
        if key == "$ref" and isinstance(value, str):
            return f"{_DEFINITIONS}{self._define(value)}"
        if key in _NAMED and isinstance(value, dict):
            named: Schema = value  # pyright: ignore[reportUnknownVariableType]
            return {name: self.rewrite(schema) for name, schema in named.items()}
        return value if key in _DATA else self.rewrite(value)

    def _define(self, reference: str) -> str:
        if reference not in self._names:
            target = self._resolve(reference)
            wanted = re.sub(r"[^\w.-]", "_", reference.rpartition("/")[2].lstrip("#")) or self._tool
            name, others = wanted, 2
            while name in self._schemas:
                name, others = f"{wanted}_{others}", others + 1
            # First, because the schema may refer to itself.
            self._names[reference], self._schemas[name] = name, {}
            self._schemas[name] = self.rewrite(_without_definitions(target))
        return self._names[reference]

    def _resolve(self, reference: str) -> Any:
        from urllib.parse import unquote

        pointer = reference.removeprefix("#")
        # Any: a part of a JSON document.
        found: Any = self._root
        try:
            if not reference.startswith("#") or (pointer and not pointer.startswith("/")):
                raise KeyError(reference)
            # RFC 6901, in a URI fragment.
            for token in unquote(pointer).split("/")[1:]:
                key = token.replace("~1", "/").replace("~0", "~")
                found = _item(found, key)
        except (LookupError, TypeError, ValueError):
            raise ToolDefinitionError(
                f"{self._tool} has a schema with the $ref {reference!r}, which is not in it; copy its target into "
                '$defs, and write "#/$defs/<name>"'
            ) from None
        return found

    def target(self, reference: str) -> Any:
        """Return the schema of a rewritten reference."""
        return self._schemas[reference.removeprefix(_DEFINITIONS)]

    def reachable(self, schema: Schema) -> Schema:
        """Return the definitions that a schema uses, directly or not, by name."""
        used: Schema = {}
        waiting = [schema]
        while waiting:
            for reference in re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(waiting.pop())):
                if reference in self._schemas and reference not in used:
                    used[reference] = self._schemas[reference]
                    waiting.append(used[reference])
        return {name: used[name] for name in self._schemas if name in used}


def _merge_parts(schema: Schema, definitions: _Definitions, targets: dict[str, Any]) -> Schema:
    """Return a schema with its reference and the objects of its `allOf` merged into it, as far as that is exact.

    A part stays in `allOf` if a keyword in it, such as `additionalProperties`, would mean something else beside the
    other parts. Then its properties are listed in the merged schema, too. `targets` has the merged schemas of the
    references so far: each is merged once, however often it is a part.
    """
    merged = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    given: list[Any] = schema.get("allOf", [])
    parts = [_merge_parts({**one}, definitions, targets) if isinstance(one, dict) else one for one in given]
    if isinstance(reference := schema.get("$ref"), str):
        parts.insert(0, _merge_target(reference, definitions, targets))
    if merged.keys() & _OWN and any(map(_describes_properties, parts)):
        parts.insert(0, {key: merged.pop(key) for key in _PROPERTIES & merged.keys() - {"unevaluatedProperties"}})
    several = len([one for one in (merged, *parts) if _describes_properties(one)]) > 1
    left: list[Any] = []
    for one in parts:
        if not isinstance(one, dict):
            left.append(one)
            continue
        part: Schema = one  # pyright: ignore[reportUnknownVariableType]
        part.pop("title", None)
        if several and part.keys() & _DEPENDENT:
            _merge_part(merged, {key: part[key] for key in _LISTED & part.keys()})
            left.append(part)
            continue
        left += part.pop("allOf", ())
        if rest := _merge_part(merged, part):
            left.append(rest)
    different = {json.dumps(one, sort_keys=True): one for one in left}
    return merged | ({"allOf": [*different.values()]} if left else {})


# Any: a schema may be a boolean.
def _merge_target(reference: str, definitions: _Definitions, targets: dict[str, Any]) -> Any:
    if reference not in targets:
        # A schema that refers to itself adds nothing to itself.
        targets[reference] = {}
        target = definitions.target(reference)
        targets[reference] = _merge_parts({**target}, definitions, targets) if isinstance(target, dict) else target
    # A part that is merged into others loses keywords.
    return copy.copy(targets[reference])


# Keywords that mean something else beside other keywords of this kind, and of these those that see nothing of `allOf`.
_OWN = frozenset({"additionalProperties", "if", "then", "else"})
_DEPENDENT = _OWN | {"unevaluatedProperties"}
_PROPERTIES = _DEPENDENT | {"properties", "patternProperties"}
# Keywords that may be repeated beside a part.
_LISTED = frozenset({"type", "properties", "required"})


# Any: a part may be a boolean.
def _describes_properties(part: Any) -> bool:
    return isinstance(part, dict) and not _PROPERTIES.isdisjoint(part)  # pyright: ignore[reportUnknownArgumentType]


def _merge_part(merged: Schema, part: Schema) -> Schema:
    """Merge a part into a schema, and return the keywords that have another value there."""
    merged["properties"] = properties = {**merged.get("properties", {})}
    for key, value in part.get("properties", {}).items():
        both = _parts_of(properties.setdefault(key, value))
        new = [one for one in _parts_of(value) if one not in both]
        if new:
            properties[key] = {"allOf": [*both, *new]}
    required = [*merged.get("required", ()), *part.get("required", ())]
    if required:
        merged["required"] = list(dict.fromkeys(required))
    others = {key: value for key, value in part.items() if key not in ("properties", "required")}
    return {key: value for key, value in others.items() if merged.setdefault(key, value) != value}


# Any: a schema may be a boolean.
def _parts_of(schema: Any) -> list[Any]:
    match schema:
        case {"allOf": [*parts], **others} if not others:
            return parts
        case _:
            return [schema]


def format_schema(schema: Any) -> str:
    """Return a short form of a JSON schema: `string`, `"C" | "F"`, `list of number`, or the name of a class."""
    match schema:
        case {"enum": [*values]}:
            return _join("|", _format_values(values))
        case {"const": value}:
            return _join("|", _format_values([value]))
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
        case {"anyOf": [*kinds]} | {"oneOf": [*kinds]}:
            return _join("|", [format_schema(kind) for kind in kinds])
        case {"allOf": [*kinds]}:
            return _join("&", [shown for kind in kinds if (shown := format_schema(kind)) != "any"])
        case {"type": [*kinds]}:
            return _join("|", [format_schema({**schema, "type": kind}) for kind in kinds])
        case {"type": "array", "items": items}:
            return f"list of {format_schema(items)}"
        case {"type": str(kind)}:
            return kind
        case {"properties": _}:
            return "object"
        case _:
            return "any"


# Any: JSON.
def _format_values(values: list[Any]) -> list[str]:
    """Return the values as JSON, and three dots for those that would fill the prompt."""
    shown: list[str] = []
    left = _LONGEST_ENUMERATION
    for value in values:
        text = json.dumps(value)
        size = len(f" | {text}")
        if size <= left:
            shown.append(text)
            left -= size
    return shown if len(shown) == len(values) else [*shown, "..."]


def _join(sign: str, kinds: list[str]) -> str:
    return f" {sign} ".join(dict.fromkeys(kinds)) or "any"
