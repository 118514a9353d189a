"""JSON schemas of arguments: the form that every model and agent reads, and the short form in a signature."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from graphexec.errors import ToolDefinitionError

# A JSON schema or a part of one: its values are arbitrary JSON.
Schema: TypeAlias = dict[str, Any]

_DEFINITIONS = "#/$defs/"
# Keywords whose value maps names to schemas; the names may be those of other keywords.
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
# Keywords whose value is data; a "$ref" in it is not a reference.
_DATA = frozenset({"const", "enum", "default", "examples"})
# What a part of a schema may say that is merged with the whole, where others do not mean the same in another place.
_MERGED = frozenset({"type", "properties", "required"})
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
    at the top, which some providers refuse, are merged; a part stays in `allOf` if it says more than which properties
    there are, or says another thing of one. Raises `ToolDefinitionError` if the schema describes anything but an
    object, and for a reference to something outside it.
    """
    definitions = _Definitions(root, name)
    whole = definitions.unwrap(definitions.rewrite(_without_definitions(root)))
    merged = {key: value for key, value in whole.items() if key not in ("$ref", "allOf", "title")}
    parts = [*([{"$ref": whole["$ref"]}] if "$ref" in whole else ()), *whole.get("allOf", ())]
    seen = set[str]()
    left = [one for part in parts for one in definitions.merge(merged, part, seen)]
    if left:
        merged["allOf"] = [*{json.dumps(one, sort_keys=True): one for one in left}.values()]
    kind = merged.setdefault("type", "object")
    if kind != "object":
        raise ToolDefinitionError(
            f"{name} has parameters of the type {json.dumps(kind)}; give the schema of an object, whose "
            "properties are the arguments"
        )
    merged.setdefault("properties", {})
    used = definitions.reachable(merged)
    return merged | ({"$defs": used} if used else {})


# Any: a part of a JSON document, here and below.
def map_schemas(part: Any, change: Callable[[Any], Any]) -> Any:
    """Return a part of a schema with each schema directly in it changed; names and data stay."""
    if isinstance(part, list):
        items: list[Any] = part  # pyright: ignore[reportUnknownVariableType]
        return [change(item) for item in items]
    if not isinstance(part, dict):
        return part
    changed: Schema = {}
    members: Schema = part  # pyright: ignore[reportUnknownVariableType]
    for key, value in members.items():
        if key in _NAMED and isinstance(value, dict):
            named: Schema = value  # pyright: ignore[reportUnknownVariableType]
            changed[key] = {name: change(schema) for name, schema in named.items()}
        else:
            changed[key] = value if key in _DATA else change(value)
    return changed


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
        rewritten = map_schemas(part, self.rewrite)
        if isinstance(rewritten, dict) and isinstance(reference := rewritten.get("$ref"), str):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            rewritten["$ref"] = f"{_DEFINITIONS}{self._define(reference)}"
        return rewritten  # pyright: ignore[reportUnknownVariableType]

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
                found = found[int(key) if isinstance(found, list) else key]
        except (LookupError, TypeError, ValueError):
            raise ToolDefinitionError(
                f"{self._tool} has a schema with the $ref {reference!r}, which is not in it; copy its target into "
                '$defs, and write "#/$defs/<name>"'
            ) from None
        return found

    def unwrap(self, root: Schema) -> Schema:
        """Return the schema that another one refers to, if it says nothing else."""
        # Any: a part of a JSON document.
        schema: Any = root
        seen = set[str]()
        while True:
            match schema:
                case {"$ref": str(reference), **others} if not others and reference not in seen:
                    seen.add(reference)
                    target = self._target(reference)
                    schema = target if isinstance(target, dict) else {"allOf": [target]}  # pyright: ignore[reportUnknownVariableType]
                case {"allOf": [{**only}], **others} if not others:
                    schema = only
                case _:
                    found: Schema = schema
                    return found

    def _target(self, reference: str) -> Any:
        return self._schemas[reference.removeprefix(_DEFINITIONS)]

    def merge(self, merged: Schema, part: Any, seen: set[str]) -> list[Any]:
        """Merge a part into a schema of which it is one, and return what has to stay a part of its own.

        The properties of all parts are listed in the merged schema. A reference that was `seen` adds nothing.
        """
        # What is beside this keyword are its only properties.
        if not isinstance(part, dict) or "additionalProperties" in merged:
            return [part]
        members: Schema = part  # pyright: ignore[reportUnknownVariableType]
        own = members.keys() - {"$ref", "allOf", "title", "description"}
        left = _merge_own(merged, {key: members[key] for key in _MERGED & own})
        for one in members.get("allOf", ()):
            left += self.merge(merged, one, seen)
        reference = members.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            seen.add(reference)
            left += [{"$ref": reference}] if self.merge(merged, self._target(reference), seen) else []
        return left if own <= _MERGED else [members]

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


def _merge_own(merged: Schema, own: Schema) -> list[Any]:
    """Merge what a part says of the properties into a schema, and return what the schema says in another way."""
    left: list[Any] = []
    merged["properties"] = properties = {**merged.get("properties", {})}
    for key, value in own.get("properties", {}).items():
        if properties.setdefault(key, value) != value:
            left.append({"properties": {key: value}})
    if "type" in own and merged.setdefault("type", own["type"]) != own["type"]:
        left.append({"type": own["type"]})
    if required := [*merged.get("required", ()), *own.get("required", ())]:
        merged["required"] = list(dict.fromkeys(required))
    return left


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


def alternatives(schema: Any, definitions: Mapping[str, Any]) -> Iterator[Schema]:
    """Yield the schemas of which a value fits one, without references and branches; each definition is used once."""
    left, pending = dict(definitions), [schema]
    while pending:
        found = pending.pop()
        # The keys of a JSON object are strings.
        one: Schema = found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
        match one:
            case {"$ref": str(reference), **rest}:
                if isinstance(definition := left.pop(reference.removeprefix(_DEFINITIONS), None), dict):
                    pending.append({**definition, **rest})
            case {"anyOf": [*branches], **rest} | {"oneOf": [*branches], **rest}:
                pending += [{**rest, **branch} for branch in reversed(branches) if isinstance(branch, dict)]
            case _:
                yield one


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
