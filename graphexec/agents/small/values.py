"""Values that fit a JSON schema, for the arguments of examples. No tool is called for them.

They are for the schemas that most tools have. A tool with a rarer one, such as a pattern, brings an example of its own,
or has none. A schema may come from another program, which may allow values of any size, or none at all, and may hold
anything anywhere: the values of a call and its characters are limited.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast, final

from graphexec.agents.small.words import NUMBERS, SMALLER_NUMBERS, values_named
from graphexec.tools import AnyTool

# Calls that are tried for an example, and the values that are made for them.
_CALLS, _MOST_VALUES = 4, 1000
# Schemas within schemas; the depth at which values become as small as they may be; items of an array; and the values of
# an enumeration that are tried.
_DEEPEST, _DEEP, _MOST_ITEMS, _MOST_CHOICES = 6, 2, 32, 24

_FORMATS: Mapping[str, tuple[str, ...]] = {
    "date": ("2031-05-17", "2032-09-23", "2033-02-14", "2034-11-06"),
    "date-time": ("2031-05-17T06:43:00Z", "2032-09-23T17:28:00Z", "2033-02-14T21:37:00Z", "2034-11-06T11:52:00Z"),
    "time": ("06:43:00", "17:28:00", "21:37:00", "11:52:00"),
    "duration": ("PT37M", "PT52M", "PT23M", "P3D"),
    "email": ("clara@example.org", "viktor@example.org", "amina@example.org"),
    "uri": ("https://example.org/a", "https://example.org/b", "https://example.org/c"),
    "uuid": ("8f14e45f-ceea-467f-a1d6-1c3d9f2b7a10", "3c59dc04-8e88-4024-bbe8-079a5c74d079"),
}

# No value: `None` is one.
_NONE: Any = object()

Schema: TypeAlias = Mapping[str, Any]


def number_at(turn: int) -> int:
    """Return the number of that turn: no two turns have the same one."""
    rounds, place = divmod(turn, len(NUMBERS))
    return NUMBERS[place] + 1000 * rounds


@final
class ExampleValues:
    """Makes arguments for calls of tools: other values each time, in the same order in every process.

    As JSON, those of a call have at most `longest` characters.
    """

    def __init__(self, *, longest: int = 600) -> None:
        self._uses: Counter[str] = Counter()
        self._longest = longest
        # Those of the current tool, and how many values may still be made for it.
        self._definitions: Schema = {}
        self._left = 0

    def arguments(self, tool: AnyTool, *, optional: bool = False) -> dict[str, Any] | None:
        """Return arguments that fit the tool: those that it requires, and enumerations; with `optional`, all of them.

        `None` if none are found: the schema is a rare one, a validator accepts only certain values, or they are long.
        """
        required = frozenset(tool.parameters.get("required", ()))
        properties: dict[str, Any] = {**tool.parameters["properties"]}
        properties |= {name: {} for name in tool.parameters.get("required", ()) if name not in properties}
        self._definitions = tool.parameters.get("$defs", {})
        # The optional ones may be what a validator rejects, or what is long.
        for others in (True, False) if len(properties) > len(required) else (False,):
            self._left = _MOST_VALUES
            schemas = {
                name: schema
                for name, schema in properties.items()
                if name in required or (others and (optional or "enum" in self._resolve(schema)))
            }
            for _ in range(_CALLS):
                made = {name: self._make(schema, name) for name, schema in schemas.items()}
                arguments = {name: value for name, value in made.items() if value is not _NONE}
                if arguments.keys() >= required and self._is_fitting(tool, arguments):
                    return arguments
        return None

    def observation(self, arguments: Mapping[str, Any]) -> str:
        """Return another number, which is none of the arguments, as text."""
        while (number := number_at(self._take("number"))) in arguments.values():
            pass
        return str(number)

    def _is_fitting(self, tool: AnyTool, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call is short, and the tool accepts it."""
        # A validator of the user's may raise any exception.
        with contextlib.suppress(Exception):
            if len(json.dumps(arguments, allow_nan=False)) <= self._longest:
                tool.read(arguments)
                return True
        return False

    def _take(self, what: str) -> int:
        """Return how often a kind of value has been taken before."""
        self._uses[what] += 1
        return self._uses[what] - 1

    def _resolve(self, schema: Any) -> Schema:
        """Return the schema that a reference stands for, which a long chain still has; `{}` for an invalid one."""
        for _ in range(_DEEPEST):
            match schema:
                case {"$ref": str(reference), **rest}:
                    schema = {"allOf": [self._definitions.get(reference.removeprefix("#/$defs/"))], **rest}
                case {"allOf": [{**part}], **rest}:
                    schema = {**part, **rest}
                case _:
                    break
        # The keys of a JSON object are strings.
        return cast("Schema", schema) if isinstance(schema, Mapping) else {}

    def _rotate(self, what: str, values: Sequence[Any]) -> list[Any]:
        """Return the values, another one first each time."""
        start = self._take(what) % len(values)
        return [*values[start:], *values[:start]]

    def _make(self, given: object, name: str, depth: int = 0) -> Any:
        """Return a value of a schema; `_NONE` if it is too deep or too rare. What a schema holds may be of any type."""
        self._left -= 1
        if depth <= _DEEPEST and self._left >= 0:
            with contextlib.suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                return self._value(self._resolve(given), name, depth)
        return _NONE

    def _value(self, schema: Schema, name: str, depth: int) -> Any:
        match schema:
            case {"allOf": _} | {"$ref": _}:
                # Several parts, or a reference to itself: a validator may take long to compare them.
                return _NONE
            case {"const": value}:
                return value
            case {"examples": [_, *_] as values}:
                return self._rotate(f"examples of {name}", values)[0]
            case {"enum": [_, *_] as values}:
                return self._rotate(f"enum {values[:_MOST_CHOICES]}", values[:_MOST_CHOICES])[0]
            case {"anyOf": [_, *_] as branches} | {"oneOf": [_, *_] as branches}:
                kinds = [one for one in branches if self._resolve(one).get("type") != "null"]
                has_null = len(kinds) < len(branches)
                return None if not kinds or (has_null and depth >= _DEEP) else self._make(kinds[0], name, depth + 1)
            case _:
                return self._typed(schema, name, depth)

    def _typed(self, schema: Schema, name: str, depth: int) -> Any:
        """Return a value of a schema with a type; without one, a string."""
        kind: Any = schema.get("type", "string")
        if not isinstance(kind, str):
            kind = kind[0]
        match kind:
            case "integer" | "number":
                return self._number(schema, whole=kind == "integer")
            case "boolean":
                return self._rotate(f"boolean {name}", (True, False))[0]
            case "null":
                return None
            case "array":
                return self._array(schema, name, depth)
            case "object":
                return self._object(schema, name, depth)
            case _:
                return self._string(schema, name)

    def _number(self, schema: Schema, *, whole: bool) -> Any:
        """Return a number that is seldom asked for, or one near the bounds."""
        above, below = schema.get("exclusiveMinimum", -math.inf), schema.get("exclusiveMaximum", math.inf)
        least, most = max(schema.get("minimum", above), above), min(schema.get("maximum", below), below)
        turn = self._take("number")
        start = turn % len(SMALLER_NUMBERS)
        near = math.ceil(least) if math.isfinite(least) else min(0, math.floor(most) if math.isfinite(most) else 0)
        candidates: tuple[float, ...] = (
            *(number_at(turn + more) for more in range(len(NUMBERS))),
            *(SMALLER_NUMBERS[start:] + SMALLER_NUMBERS[:start]),
            *(near + turn % 5 + 1, near, near + 1, near - 1),
            *(() if whole else (least + (most - least) / 2,)),
        )
        return next((one for one in candidates if least <= one <= most and one not in (above, below)), _NONE)

    def _string(self, schema: Schema, name: str) -> Any:
        """Return a string for the format or for the name; a long one is cut."""
        form = schema.get("format")
        words = values_named(name)
        known = _FORMATS.get(form) if isinstance(form, str) else None
        texts = self._rotate(f"words {words}", words) if known is None else self._rotate(f"format {form}", known)
        least, most = schema.get("minLength", 0), schema.get("maxLength", math.inf)
        fitting = [text for text in texts if least <= len(text) <= most]
        return fitting[0] if fitting else texts[0][:most] if most < len(texts[0]) else _NONE

    def _array(self, schema: Schema, name: str, depth: int) -> Any:
        """Return an array of one item, or of as many as it must have."""
        fixed = schema.get("prefixItems", [])
        usual = min(1 if depth < _DEEP else 0, schema.get("maxItems", 1))
        length = max(schema.get("minItems", 0), len(fixed), usual)
        if length > _MOST_ITEMS:
            return _NONE
        schemas = [*fixed, *[schema.get("items", {})] * (length - len(fixed))]
        items = [self._make(one, name.removesuffix("s"), depth + 1) for one in schemas]
        return _NONE if _NONE in items else items

    def _object(self, schema: Schema, name: str, depth: int) -> Any:
        """Return an object with what it requires; a dictionary has one entry, or as many as it must have."""
        properties = schema.get("properties", {})
        schemas = {key: properties.get(key, {}) for key in schema.get("required", ())}
        if not properties and not schemas:
            keys = [self._string({}, name) for _ in range(min(max(1, schema.get("minProperties", 1)), _MOST_ITEMS))]
            schemas = dict.fromkeys(keys, schema.get("additionalProperties", {}))
        made = {key: self._make(one, key if key in properties else name, depth + 1) for key, one in schemas.items()}
        return _NONE if _NONE in made.values() else made
