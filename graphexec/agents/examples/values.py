"""Values that fit a JSON schema, for the arguments of examples. No tool is called for them.

A schema may come from another program, which may allow values of any size, or none at all: the work for a tool and the
characters of its arguments are limited. Nor is anything in a schema of the right type, unless its validator says so.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, final

from graphexec.agents.examples.words import NUMBERS, SMALLER_NUMBERS, values_named
from graphexec.tools import AnyTool
from graphexec.tools.patterns import is_costly, search_pattern
from graphexec.tools.tool import InvalidArgumentsError

# Calls that are tried for an example, and steps of the work limit for each character that its arguments may have.
_CALLS, _STEPS_PER_CHARACTER = 30, 5

# Schemas within schemas; the depth at which values become as small as they may be; items of an array; the values of an
# enumeration, and the branches of a union, that are tried.
_DEEPEST, _DEEP, _MOST_ITEMS, _MOST_BRANCHES = 6, 2, 32, 24

# Characters of a string.
_LONGEST_STRING = 200

_EMAILS = ("clara@example.org", "viktor@example.org", "amina@example.org")
_URIS = ("https://example.org/a", "https://example.org/b", "ftp://example.org/a", "postgres://u:p@example.org/a")
_HOSTS = ("example.org", "example.net")
_FORMATS: Mapping[str, tuple[str, ...]] = {
    "date": ("2031-05-17", "2032-09-23", "2033-02-14", "2034-11-06"),
    "date-time": ("2031-05-17T06:43:00Z", "2032-09-23T17:28:00Z", "2033-02-14T21:37:00Z", "2031-05-17T06:43:00"),
    "time": ("06:43:00", "17:28:00", "21:37:00", "06:43:00Z"),
    "duration": ("PT37M", "PT52M", "PT23M", "P3D"),
    "email": _EMAILS,
    "idn-email": _EMAILS,
    "name-email": ("clara@example.org", "viktor@example.org"),
    **dict.fromkeys(("uri", "uri-reference", "uri-template", "iri", "iri-reference"), _URIS),
    "hostname": _HOSTS,
    "idn-hostname": _HOSTS,
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
    "json-string": ("{}", "317"),
    "base64": ("bGFudGVybg==",),
    "base64url": ("bGFudGVybg==",),
    "json-pointer": ("/lantern", "/meadow"),
    "relative-json-pointer": ("0/lantern", "1/meadow"),
}
# For formats that allow any text, such as `binary` and `regex`, and for unknown ones.
_ANY_FORMAT = ("lantern", "meadow")

# Tried for a string that nothing describes, but that a validator rejects: numbers, dates and codes are often strings.
_STRINGS = ("317", "2031-05-17", "https://example.org/a", "clara@example.org", "06:43", "AB", "ABC", "q", "XPF", "fo")


class WorkLimitError(Exception):
    """The values of a schema take too much work."""


@final
class WorkLimit:
    """A number of steps of about a microsecond. `spend` raises `WorkLimitError` if there are not enough left."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        """Use steps up."""
        self._left -= steps
        if self._left < 0:
            raise WorkLimitError


@final
class ExampleValues:
    """Makes arguments for calls of tools: other values each time, in the same order in every process.

    As JSON, those of a call have at most `longest` characters.
    """

    def __init__(self, *, longest: int = 600) -> None:
        self._uses: Counter[str] = Counter()
        self._longest = longest

    def arguments(self, tool: AnyTool, *, optional: bool = False) -> dict[str, Any] | None:
        """Return arguments that fit the tool: those that it requires, and enumerations; with `optional`, all of them.

        `None` if none are found: a validator accepts only certain values, or they are long or take long to make.
        """
        properties: dict[str, Any] = {**tool.parameters["properties"]}
        required = dict.fromkeys(tool.parameters.get("required", ()))
        properties |= {name: {} for name in required if name not in properties}
        # The optional ones may be what a validator rejects, or what takes long.
        for others in (True, False) if len(properties) > len(required) else (False,):
            work = WorkLimit(_STEPS_PER_CHARACTER * self._longest)
            schema = SchemaValues(tool.parameters.get("$defs", {}), self._take, work)
            with contextlib.suppress(WorkLimitError):
                names = [
                    name
                    for name, one in properties.items()
                    if name in required or (others and (optional or schema.is_enumeration(one)))
                ]
                choices = {name: schema.values(properties[name], name) for name in names}
                found = _fit(tool, choices, required, self._longest)
                if found is not None:
                    return found
        return None

    def observation(self, arguments: Mapping[str, Any]) -> str:
        """Return another number, which is none of the arguments, as text."""
        while (number := number_at(self._take("number"))) in arguments.values():
            pass
        return str(number)

    def _take(self, what: str) -> int:
        self._uses[what] += 1
        return self._uses[what] - 1


def number_at(turn: int) -> int:
    """Return the number of that turn: no two turns have the same one."""
    rounds, place = divmod(turn, len(NUMBERS))
    return NUMBERS[place] + 1000 * rounds


def _fit(
    tool: AnyTool, choices: Mapping[str, Iterator[Any]], required: Collection[str], longest: int
) -> dict[str, Any] | None:
    """Return the first combination of values that the tool accepts; a rejected value is replaced by the next one."""
    arguments: dict[str, Any] = {}
    replaced: Collection[str] = choices
    for _ in range(_CALLS):
        for name in replaced:
            value = next(choices[name], _NONE)
            if value is not _NONE:
                arguments[name] = value
            elif name in required:
                return None
            else:
                arguments.pop(name, None)
        rejected = _find_rejected(tool, arguments, longest)
        if rejected is None:
            return arguments
        if not rejected:
            return None
        replaced = rejected
    return None


def _find_rejected(tool: AnyTool, arguments: Mapping[str, Any], longest: int) -> list[str] | None:
    """Return the names of arguments to replace, all of them if the tool names none; `None` if the call fits."""
    try:
        if len(json.dumps(arguments, allow_nan=False)) > longest:
            return [max(arguments, key=lambda name: len(json.dumps(arguments[name])))]
        tool.read(arguments)
    except InvalidArgumentsError as error:
        return [name for name in error.arguments if name in arguments] or list(arguments)
    # A validator of the user's may raise any exception.
    except Exception:  # noqa: BLE001
        return list(arguments)
    return None


Schema: TypeAlias = Mapping[str, Any]


def _is_schema(value: object) -> TypeGuard[Schema]:
    # The keys of a JSON object are strings.
    return isinstance(value, Mapping)


def _number(schema: Schema, key: str, default: float) -> float:
    value = schema.get(key)
    # Not a number is not equal to itself.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value:  # noqa: PLR0124
        return value
    return default


def _list(schema: Schema, key: str) -> list[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def _members(schema: Schema, key: str) -> Schema:
    value = schema.get(key)
    return value if _is_schema(value) else {}


@final
class SchemaValues:
    """Makes values of schemas. `take(what)` counts how often a kind of value has been taken.

    Raises `WorkLimitError` if it takes long.
    """

    def __init__(self, definitions: Schema, take: Callable[[str], int], work: WorkLimit) -> None:
        self.definitions = definitions
        self.take = take
        self.work = work

    def is_enumeration(self, schema: object) -> bool:
        """Return whether a schema lists its values."""
        return "enum" in self.resolve(schema)

    def resolve(self, schema: object) -> Schema:
        """Return the schema that a reference, or several joined by `allOf`, stand for; `{}` for an invalid one."""
        resolved: dict[str, Any] = {}
        pending = [schema]
        while pending:
            part = pending.pop()
            self.work.spend()
            if not _is_schema(part):
                continue
            parts = _list(part, "allOf")
            self.work.spend(len(part) + len(parts))
            pending += reversed(parts)
            if "$ref" in part:
                pending.append(self.definitions.get(str(part["$ref"]).removeprefix("#/$defs/")))
            rest = {key: value for key, value in part.items() if key not in ("$ref", "allOf")}
            resolved = {**rest, **resolved, **_join(rest, resolved)}
        return resolved

    def values(self, given: object, name: str, depth: int = 0) -> Iterator[Any]:
        """Yield values of a schema, the most usual first; none if the schema is too deep."""
        if depth > _DEEPEST:
            return
        schema = self.resolve(given)
        match schema:
            case {"const": value}:
                yield value
            case {"examples": [*values]} if values:
                yield from self.rotate(f"examples of {name}", values)
                # They may not fit: nothing holds them to their schema.
                yield from self.values({key: schema[key] for key in schema if key != "examples"}, name, depth)
            case {"enum": [*values]} if values:
                yield from self.rotate(f"enum {values[:_MOST_BRANCHES]}", values)
            case {"anyOf": [*branches]} | {"oneOf": [*branches]} if branches:
                rest = {key: schema[key] for key in schema if key not in ("anyOf", "oneOf")}
                yield from self.union([{**rest, "allOf": [branch]} for branch in branches], name, depth)
            case {"type": [*kinds]} if kinds:
                yield from self.union([{**schema, "type": kind} for kind in kinds], name, depth)
            case _:
                yield from self.typed(schema, name, depth)

    def rotate(self, what: str, values: Sequence[Any]) -> Iterator[Any]:
        """Yield the values, another one first each time."""
        several = values[:_MOST_BRANCHES]
        start = self.take(what) % len(several)
        yield from (*several[start:], *several[:start])

    def union(self, branches: Sequence[Schema], name: str, depth: int) -> Iterator[Any]:
        """Yield the first value of each branch, then the second of each; null comes last, or first if deep."""
        few = sorted(
            branches[:_MOST_BRANCHES], key=lambda one: (self.resolve(one).get("type") == "null") == (depth < _DEEP)
        )
        columns = [self.values(branch, name, depth + 1) for branch in few]
        while columns:
            left: list[Iterator[Any]] = []
            for one in columns:
                value = next(one, _NONE)
                if value is not _NONE:
                    left.append(one)
                    yield value
            columns = left

    def typed(self, schema: Schema, name: str, depth: int) -> Iterator[Any]:
        """Yield values of a schema with one type; without a type, strings."""
        self.work.spend()
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
        """Yield numbers that are seldom asked for, and then those near the bounds."""
        least = max(_number(schema, "minimum", -math.inf), _number(schema, "exclusiveMinimum", -math.inf))
        most = min(_number(schema, "maximum", math.inf), _number(schema, "exclusiveMaximum", math.inf))
        step = _number(schema, "multipleOf", 1) or 1

        def fits(value: float) -> bool:
            above: bool = value > least or (value == least and schema.get("exclusiveMinimum") != least)
            below: bool = value < most or (value == most and schema.get("exclusiveMaximum") != most)
            return above and below

        turn = self.take("number")
        start = turn % len(SMALLER_NUMBERS)
        smaller = SMALLER_NUMBERS[start:] + SMALLER_NUMBERS[:start]
        usual = (*(number_at(turn + more) for more in range(len(NUMBERS))), *smaller)
        yield from (value for value in usual if fits(value) and value % step == 0)
        # Numbers too large to divide have no neighbours.
        with contextlib.suppress(ArithmeticError, ValueError):
            yield from filter(fits, _near(least, most, step, turn))
            if not whole and math.isfinite(least) and math.isfinite(most):
                yield from (least + (most - least) * part for part in (0.5, 0.25, 0.75))

    def strings(self, schema: Schema, name: str) -> Iterator[str]:
        """Yield strings for the format and for the name, of which a pattern allows few or none."""
        least, most = _number(schema, "minLength", 0), _number(schema, "maxLength", math.inf)
        self.work.spend(30)
        if least > _LONGEST_STRING:
            return
        pattern, form = schema.get("pattern"), schema.get("format")
        of_format = _FORMATS.get(form, ()) if isinstance(form, str) else ()
        fitting = [
            text
            for text in (self.rotate(f"format {form}", of_format) if of_format else ())
            if least <= len(text) <= most and _matches(pattern, text)
        ]
        yield from fitting
        if of_format and not fitting:
            # Others do not have the format.
            return
        usual = self.rotate(f"format {form}", _ANY_FORMAT) if isinstance(form, str) and not of_format else ()
        words = values_named(name)
        for text in (*usual, *self.rotate(f"words {words}", words), *_STRINGS):
            missing = int(least) - len(text)
            long = text if missing <= 0 else f"{text} {f'{text} ' * missing}"[: int(least)]
            short = long if len(long) <= most else long[: int(most)]
            if len(short) <= _LONGEST_STRING and _matches(pattern, short):
                yield short

    def arrays(self, schema: Schema, name: str, depth: int) -> Iterator[list[Any]]:
        """Yield arrays with a few items."""
        # Drafts before 2020-12 list the first items in `items`.
        fixed = _list(schema, "prefixItems") or _list(schema, "items")
        least, most = max(_number(schema, "minItems", 0), len(fixed)), _number(schema, "maxItems", math.inf)
        singular = name.removesuffix("s")
        # One item, and a few more lengths for validators.
        lengths = (1, 2, 3, 0) if depth < _DEEP else (0, 1, 2, 3)
        for length in dict.fromkeys(max(least, min(wanted, most)) for wanted in lengths):
            if length > _MOST_ITEMS:
                return
            items: list[Any] = []
            for place in range(int(length)):
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
        """Yield objects with what they require; a dictionary has one entry."""
        properties = _members(schema, "properties")
        # A validator may take long to match a key with a pattern, and no key is made for one.
        if _members(schema, "patternProperties"):
            return
        required = dict.fromkeys(key for key in _list(schema, "required") if isinstance(key, str))
        columns = {key: self.values(properties.get(key, {}), key, depth + 1) for key in required}
        entries = self.additions(schema, name, len(required), depth)
        made: dict[str, Any] = {}
        for turn in range(4):
            fresh = {key: value for key, one in columns.items() if (value := next(one, _NONE)) is not _NONE}
            made = {**made, **fresh}
            if len(made) < len(columns) or (turn and not fresh):
                break
            yield made | entries
        if entries and not columns:
            yield {}

    def additions(self, schema: Schema, name: str, required: int, depth: int) -> dict[str, Any]:
        """Return what an object has besides its required properties: enough, and one entry of a dictionary."""
        least = _number(schema, "minProperties", 0 if _members(schema, "properties") else 1)
        entries: dict[str, Any] = {}
        for key, one in self.keys(schema, name):
            if required + len(entries) >= least:
                break
            if key not in entries and (value := next(self.values(one, name, depth + 1), _NONE)) is not _NONE:
                entries[key] = value
        return entries

    def keys(self, schema: Schema, name: str) -> Iterator[tuple[str, Any]]:
        """Yield keys of a dictionary, with the schema of their values."""
        others = schema.get("additionalProperties", not _members(schema, "properties"))
        if others is not False:
            names = {"type": "string", **_members(schema, "propertyNames")}
            yield from ((key, others) for key in self.values(names, name) if isinstance(key, str))


def _matches(pattern: object, text: str) -> bool:
    """Return whether a schema's pattern allows a string, and a validator that uses `re` finds that out soon."""
    if not isinstance(pattern, str):
        return True
    return not is_costly(pattern, len(text)) and bool(search_pattern(pattern, text))


def _join(part: Schema, resolved: Schema) -> dict[str, Any]:
    """Return what two parts of a schema say together: the properties and the required ones of both."""
    joined: dict[str, Any] = {}
    if "properties" in part and "properties" in resolved:
        joined["properties"] = {**_members(part, "properties"), **_members(resolved, "properties")}
    if "required" in part and "required" in resolved:
        joined["required"] = [*_list(resolved, "required"), *_list(part, "required")]
    return joined


def _near(least: float, most: float, step: float, turn: int) -> list[float]:
    """Return multiples of the step near the lower bound, and then near the upper one."""
    low = least if math.isfinite(least) else min(0, most)
    first = math.ceil(low / step)
    around = [first + offset for offset in (turn % 5 + 1, *range(6))]
    if math.isfinite(most):
        around += [math.floor(most / step) - offset for offset in range(3)]
    return [step * factor for factor in around]


# No value: `None` is one.
_NONE: Any = object()
