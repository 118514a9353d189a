"""Values that fit a JSON schema, for the arguments of examples. No tool is called for them."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard, final

from graphexec.agents.examples.patterns import match_pattern
from graphexec.agents.examples.words import NUMBERS, values_named
from graphexec.tools import AnyTool
from graphexec.tools.tool import InvalidArgumentsError

# How many values are tried for an argument, and how many calls altogether.
_VALUES, _CALLS = 12, 60

# Schemas within schemas, and items of an array.
_DEEPEST, _MOST_ITEMS = 6, 8

_FORMATS: Mapping[str, tuple[str, ...]] = {
    "date": ("2031-05-17", "2032-09-23", "2033-02-14", "2034-11-06"),
    "date-time": ("2031-05-17T06:45:00Z", "2032-09-23T17:20:00Z", "2033-02-14T21:35:00Z", "2031-05-17T06:45:00"),
    "time": ("06:45:00", "17:20:00", "21:35:00", "06:45:00Z"),
    "duration": ("PT37M", "PT52M", "PT23M", "P3D"),
    "email": ("clara@example.org", "viktor@example.org", "amina@example.org"),
    "name-email": ("clara@example.org", "viktor@example.org"),
    "uri": ("https://example.org/a", "https://example.org/b", "ftp://example.org/a", "postgres://u:p@example.org/a"),
    "hostname": ("example.org", "example.net"),
    "uuid": ("8f14e45f-ceea-467f-a1d6-1c3d9f2b7a10", "3c59dc04-8e88-4024-bbe8-079a5c74d079"),
    "uuid1": ("5b1f0a52-7d3e-11ee-b962-0242ac120002", "6c2f1b63-7d3e-11ee-b962-0242ac120002"),
    "uuid3": ("6fa459ea-ee8a-3ca4-894e-db77e160355e",),
    "uuid5": ("886313e1-3b8a-5372-9b90-0c9aee199e5d",),
    "ipv4": ("192.0.2.37", "192.0.2.52"),
    "ipv6": ("2001:db8::37", "2001:db8::52"),
    "ipvanyaddress": ("192.0.2.37", "192.0.2.52"),
    "ipv4network": ("192.0.2.0/24",),
    "ipv6network": ("2001:db8::/32",),
    "ipvanynetwork": ("192.0.2.0/24",),
    "ipv4interface": ("192.0.2.37/24",),
    "ipv6interface": ("2001:db8::37/32",),
    "ipvanyinterface": ("192.0.2.37/24",),
    "json-string": ("{}", "37"),
    "regex": ("lantern", "meadow"),
    "base64": ("bGFudGVybg==",),
    "base64url": ("bGFudGVybg==",),
    "binary": ("lantern", "meadow"),
}

# Tried for a string that nothing describes, but that a validator rejects: numbers, dates and codes are often strings.
_STRINGS = ("37", "2031-05-17", "https://example.org/a", "clara@example.org", "06:45", "AB", "ABC", "a", "EUR", "en")


@final
class ExampleValues:
    """Makes arguments for calls of tools: other values each time, in the same order in every process."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()

    def arguments(self, tool: AnyTool, *, optional: bool = False) -> dict[str, Any] | None:
        """Return arguments that fit the tool: those that it requires, and enumerations; with `optional`, all of them.

        `None` if none are found, because a validator accepts only certain values.
        """
        properties: Mapping[str, Any] = tool.parameters.get("properties", {})
        required = tool.parameters.get("required", ())
        schema = _Schema(tool.parameters.get("$defs", {}), self._take)
        wanted = [
            name for name, one in properties.items() if optional or name in required or schema.is_enumeration(one)
        ]
        # The optional ones may be what a validator rejects.
        for names in (wanted, [name for name in wanted if name in required]):
            choices = {name: list(itertools.islice(schema.values(properties[name], name), _VALUES)) for name in names}
            if (arguments := _fit(tool, choices, required)) is not None:
                return arguments
        return None

    def observation(self, arguments: Mapping[str, Any]) -> str:
        """Return another number, which is none of the arguments, as text."""
        while (number := NUMBERS[self._take("number") % len(NUMBERS)]) in arguments.values():
            pass
        return str(number)

    def _take(self, what: str) -> int:
        self._uses[what] += 1
        return self._uses[what] - 1


def _fit(tool: AnyTool, choices: dict[str, list[Any]], required: Iterable[str]) -> dict[str, Any] | None:
    """Return the first combination of values that the tool accepts; a rejected value is replaced by the next one."""
    for _ in range(_CALLS):
        for name in [name for name, values in choices.items() if not values]:
            if name in required:
                return None
            del choices[name]
        arguments = {name: values[0] for name, values in choices.items()}
        try:
            tool.read(arguments)
            json.dumps(arguments, allow_nan=False)
        except InvalidArgumentsError as error:
            rejected = [name for name in error.arguments if name in choices] or list(choices)
        # A validator of the user's may raise any exception.
        except Exception:  # noqa: BLE001
            rejected = list(choices)
        else:
            return arguments
        if not rejected:
            return None
        for name in rejected:
            del choices[name][0]
    return None


Schema: TypeAlias = Mapping[str, Any]


def _is_schema(value: object) -> TypeGuard[Schema]:
    # The keys of a JSON object are strings.
    return isinstance(value, Mapping)


@final
class _Schema:
    """Makes values of schemas. `take(what)` counts how often a kind of value has been taken."""

    def __init__(self, definitions: Mapping[str, Any], take: Callable[[str], int]) -> None:
        self.definitions = definitions
        self.take = take

    def is_enumeration(self, schema: object) -> bool:
        """Return whether a schema lists its values."""
        return "enum" in self.resolve(schema)

    def resolve(self, schema: object) -> Schema:
        """Return the schema that a reference, or several joined by `allOf`, stand for; `{}` for an invalid one."""
        resolved: dict[str, Any] = dict(schema) if _is_schema(schema) else {}
        for _ in range(_DEEPEST):
            parts: list[object] = resolved.pop("allOf", [])
            if "$ref" in resolved:
                reference = str(resolved.pop("$ref"))
                parts = [self.definitions.get(reference.removeprefix("#/$defs/")), *parts]
            if not parts:
                break
            for part in parts:
                resolved = {**(part if _is_schema(part) else {}), **resolved}
        return resolved

    def values(self, given: object, name: str, depth: int = 0) -> Iterator[Any]:
        """Yield values of a schema, the most usual first; none if the schema is too deep."""
        schema = self.resolve(given)
        if depth > _DEEPEST:
            return
        match schema:
            case {"const": value}:
                yield value
            case {"examples": [*values]} if values:
                yield from self.rotate(f"examples of {name}", values)
                # They may not fit: nothing holds them to their schema.
                yield from self.values({key: schema[key] for key in schema if key != "examples"}, name, depth)
            case {"enum": [*values]} if values:
                yield from self.rotate(f"enum {values}", values)
            case {"anyOf": [*branches]} | {"oneOf": [*branches]} if branches:
                yield from self.union(branches, name, depth)
            case {"type": [*kinds]} if kinds:
                yield from self.union([{**schema, "type": kind} for kind in kinds], name, depth)
            case _:
                yield from self.typed(schema, name, depth)

    def rotate(self, what: str, values: Iterable[Any]) -> Iterator[Any]:
        several = list(values)
        start = self.take(what) % len(several)
        return iter(several[start:] + several[:start])

    def union(self, branches: Iterable[Any], name: str, depth: int) -> Iterator[Any]:
        """Yield the first value of each branch, then the second of each; null comes last."""
        ordered = sorted(branches, key=lambda branch: self.resolve(branch) == {"type": "null"})
        columns = itertools.zip_longest(*(self.values(branch, name, depth + 1) for branch in ordered), fillvalue=_NONE)
        return (value for column in columns for value in column if value is not _NONE)

    def typed(self, schema: Schema, name: str, depth: int) -> Iterator[Any]:
        match schema.get("type", "string"):
            case "integer":
                yield from self.numbers(schema, whole=True)
            case "number":
                yield from self.numbers(schema, whole=False)
            case "boolean":
                yield from self.rotate(f"boolean {name}", (True, False))
            case "null":
                yield None
            case "array":
                yield from self.arrays(schema, name, depth)
            case "object":
                yield from self.objects(schema, name, depth)
            case _:
                yield from self.strings(schema, name)

    def numbers(self, schema: Schema, *, whole: bool) -> Iterator[float]:
        least = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
        most = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
        step = schema.get("multipleOf") or 1

        def fits(value: float) -> bool:
            above: bool = value > least or (value == least and schema.get("exclusiveMinimum") != least)
            below: bool = value < most or (value == most and schema.get("exclusiveMaximum") != most)
            return above and below

        start = self.take("number")
        usual = [NUMBERS[(start + place) % len(NUMBERS)] for place in range(len(NUMBERS))]
        yield from (value for value in usual if fits(value) and value % step == 0)
        # Near the lower bound, near the upper one, and between them.
        low = least if math.isfinite(least) else min(0, most)
        first = math.ceil(low / step)
        around = [first + offset for offset in (start % 5 + 1, *range(6))]
        if math.isfinite(most):
            around += [math.floor(most / step) - offset for offset in range(3)]
        yield from (value for value in (step * factor for factor in around) if fits(value))
        if not whole and math.isfinite(least) and math.isfinite(most):
            yield from (least + (most - least) * part for part in (0.5, 0.25, 0.75))

    def strings(self, schema: Schema, name: str) -> Iterator[str]:
        least, most = schema.get("minLength", 0), schema.get("maxLength", math.inf)
        if pattern := schema.get("pattern"):
            turn = self.take(f"pattern {pattern}")
            found = (match_pattern(pattern, turn + more) for more in range(3))
            yield from (text for text in found if text is not None)
        if "format" in schema:
            yield from self.rotate(f"format {schema['format']}", _FORMATS.get(schema["format"], ("lantern",)))
        words = values_named(name)
        for text in (*self.rotate(f"words {words}", words), *_STRINGS):
            long = text if len(text) >= least else (f"{text} " * least)[:least]
            yield long if len(long) <= most else long[: int(most)]

    def arrays(self, schema: Schema, name: str, depth: int) -> Iterator[list[Any]]:
        fixed = schema.get("prefixItems", [])
        least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
        singular = name.removesuffix("s")
        # One item, as short as it may be, and a few more lengths for validators.
        for length in dict.fromkeys(max(least, len(fixed), min(wanted, most)) for wanted in (1, 2, 3, 0)):
            items: list[Any] = []
            for place in range(int(min(length, _MOST_ITEMS + least))):
                inner = fixed[place] if place < len(fixed) else schema.get("items", {})
                values = self.values(inner, singular, depth + 1)
                unused = (value for value in values if not schema.get("uniqueItems") or value not in items)
                item = next(unused, _NONE)
                if item is _NONE:
                    break
                items.append(item)
            if len(items) >= least:
                yield items

    def objects(self, schema: Schema, name: str, depth: int) -> Iterator[dict[str, Any]]:
        properties: Mapping[str, Any] = schema.get("properties", {})
        required = [one for one in schema.get("required", ()) if one in properties]
        least = schema.get("minProperties", 0 if properties else 1)
        rows = {key: list(itertools.islice(self.values(properties[key], key, depth + 1), 4)) for key in required}
        if not all(rows.values()):
            return
        # The keys of a dictionary.
        others: Any = schema.get("additionalProperties", {} if not properties else False)
        keys = self.keys(schema, name)
        extra: dict[str, Any] = {}
        while others is not False and len(rows) + len(extra) < least:
            key = next(keys, None)
            value = next(self.values(others, name, depth + 1), _NONE)
            if key is None or value is _NONE:
                break
            extra[key] = value
        for place in range(max((len(values) for values in rows.values()), default=1)):
            yield {key: values[min(place, len(values) - 1)] for key, values in rows.items()} | extra
        if not rows and not schema.get("minProperties", 0):
            yield {}

    def keys(self, schema: Schema, name: str) -> Iterator[str]:
        """Yield keys of a dictionary, without repetitions."""
        names = schema.get("propertyNames", {})
        patterns = [{"type": "string", "pattern": pattern} for pattern in schema.get("patternProperties", {})]
        kinds = patterns or [{"type": "string", **names}]
        seen: set[str] = set()
        for key in itertools.chain.from_iterable(self.values(kind, name) for kind in kinds):
            if key not in seen:
                seen.add(key)
                yield key


# No value: `None` is one.
_NONE: Any = object()
