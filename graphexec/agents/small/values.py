"""Values that fit a JSON schema, for the arguments of examples. No tool is called for them.

They are for the schemas that most tools have. A tool with a rarer one, such as an object or a pattern, brings an
example of its own, or has none. A schema may come from another program, and may hold anything anywhere.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, final

from graphexec.tools import AnyTool
from graphexec.tools.schemas import alternatives

# Calls that are tried for an example, and the characters of its arguments as JSON.
_CALLS, _LONGEST = 4, 600
# Schemas within schemas, items of an array, and the values of an enumeration that are tried.
_DEEPEST, _MOST_ITEMS, _MOST_CHOICES = 4, 3, 24

# Common names of parameters, with values that people seldom ask about, and that seldom follow from a question: a model
# that copies one is easily noticed, and one that means it is not refused.
_ROWS: Mapping[str, tuple[str, ...]] = {
    "city town place location destination station airport": ("Tartu", "Bergamo", "Kalmar", "Gdynia"),
    "origin source start departure": ("Aveiro", "Trento", "Lund", "Torun"),
    "country nation region": ("Lesotho", "Tuvalu", "Palau", "Brunei"),
    "name person employee customer user username contact author": ("Clara", "Viktor", "Amina", "Jonas"),
    "id code key number reference": ("K-52", "M-37", "T-64", "R-81"),
    "path file filename document": ("lantern.txt", "meadow.md", "velvet.csv", "pebble.pdf"),
    "url uri link website": ("https://example.org/a", "https://example.org/b", "https://example.org/c"),
    "email mail recipient": ("clara@example.org", "viktor@example.org", "amina@example.org"),
    "word term": ("lantern", "meadow", "velvet", "pebble"),
    "text message content note comment": (
        *("The lantern is green", "We meet at the pier", "Bring a ladder", "The meadow is wet"),
    ),
    "title subject task event": ("lantern repair", "meadow walk", "velvet sale", "pebble art"),
    "query question search keyword topic": ("lanterns", "meadows", "velvet", "pebbles"),
    "language": ("Faroese", "Basque", "Welsh", "Tongan"),
    "expression formula": ("317 * 46", "952 / 68", "643 - 286", "523 + 894"),
    "date day": ("2031-05-17", "2032-09-23", "2033-02-14", "2034-11-06"),
    "date-time": ("2031-05-17T06:43:00Z", "2032-09-23T17:28:00Z", "2033-02-14T21:37:00Z", "2034-11-06T11:52:00Z"),
    "time": ("06:43", "17:28", "21:37", "11:52"),
    "duration": ("PT37M", "PT52M", "PT23M", "P3D"),
    "uuid": ("8f14e45f-ceea-467f-a1d6-1c3d9f2b7a10", "3c59dc04-8e88-4024-bbe8-079a5c74d079"),
    "item product article object": ("lantern", "rucksack", "blanket", "compass"),
    "room": ("attic", "pantry", "hallway", "workshop"),
    "unit": ("furlongs", "gills", "fathoms", "bushels"),
    "currency": ("XPF", "TOP", "MOP", "WST"),
    "food dish meal ingredient": ("turnip", "lentils", "quince", "millet"),
    "company bank organization": ("Velora", "Quintex", "Baltira", "Norvane"),
    "domain host server": ("velvet.example", "meadow.example", "pebble.example", "lantern.example"),
    "train flight bus line route": ("RE 71", "EC 86", "S 34", "IR 59"),
}
_WORDS = {word: values for words, values in _ROWS.items() for word in words.split()}
_OTHERS = ("some", "another", "the other", "the last")

# Neither round nor small, for the same reason; the smaller ones are for what has a bound.
_NUMBERS = (317, 523, 461, 739, 286, 647, 859, 394, 571, 926, 438, 683, 752, 163, 347, 598, 274, 832, 619, 967)
_SMALLER_NUMBERS = (37, 53, 67, 83, 43, 59, 73, 89, 47, 61, 79, 97, 19, 23, 13, 17)

Schema: TypeAlias = Mapping[str, Any]


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of an identifier in lower case: `fromCity` and `from_city` have two."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return tuple(word for word in re.split(r"[\W_]+", apart.casefold()) if word)


def _values_named(name: str) -> tuple[str, ...]:
    """Return values for a parameter, by the last word of its name that has some."""
    for word in reversed(words_of(name)):
        if values := _WORDS.get(word) or _WORDS.get(word.removesuffix("s")):
            return values
    phrase = " ".join(words_of(name)) or "value"
    return tuple(f"{other} {phrase}" for other in _OTHERS)


class _RareSchemaError(ValueError):
    """No value is known for a schema."""


@final
class ExampleValues:
    """Makes arguments for calls of tools: other values each time, in the same order in every process."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()
        # Those of the current tool.
        self._definitions: Schema = {}

    def arguments(self, tool: AnyTool, *, optional: bool = False) -> dict[str, Any] | None:
        """Return arguments that fit the tool: those that it requires, and enumerations; with `optional`, all of them.

        `None` if none are found: the schema is a rare one, a validator accepts only certain values, or they are long.
        """
        required: Sequence[str] = tool.parameters.get("required", ())
        properties: dict[str, Any] = {**{name: {} for name in required}, **tool.parameters["properties"]}
        self._definitions = tool.parameters.get("$defs", {})
        # The optional ones may be what a validator rejects, or what is long.
        for others in (True, False):
            for _ in range(_CALLS):
                # A validator of the user's may raise any exception, and a schema may be invalid.
                with contextlib.suppress(Exception):
                    arguments = {
                        name: self._make(schema, name)
                        for name, schema in properties.items()
                        if name in required
                        or (
                            others
                            and (optional or any("enum" in one for one in alternatives(schema, self._definitions)))
                        )
                    }
                    if len(json.dumps(arguments, allow_nan=False)) <= _LONGEST:
                        tool.read(arguments)
                        return arguments
        return None

    def observation(self, arguments: Mapping[str, Any]) -> str:
        """Return another number, which is none of the arguments, as text."""
        while (number := _number_at(self._take("number"))) in arguments.values():
            pass
        return str(number)

    def _take(self, what: str) -> int:
        """Return how often a kind of value has been taken before."""
        self._uses[what] += 1
        return self._uses[what] - 1

    def _take_one(self, what: str, values: Sequence[Any]) -> Any:
        """Return one of the values, another one each time."""
        return values[self._take(what) % len(values)]

    def _make(self, given: Schema, name: str, depth: int = 0) -> Any:
        """Return a value of a schema. Raises `_RareSchemaError`, and other errors for an invalid schema."""
        if depth > _DEEPEST:
            raise _RareSchemaError
        found = [*alternatives(given, self._definitions)]
        match next((one for one in found if one.get("type") != "null"), found[0]):
            case {"const": value}:
                return value
            case {"examples": values} | {"enum": values}:
                return self._take_one(f"values {values[:_MOST_CHOICES]}", values[:_MOST_CHOICES])
            case {"type": "integer" | "number"} as schema:
                return self._number(schema)
            case {"type": "boolean"}:
                return self._take_one(f"boolean {name}", (True, False))
            case {"type": "null"}:
                return None
            case {"type": "array"} as schema:
                length = max(schema.get("minItems", 0), min(1, schema.get("maxItems", 1)))
                if length > _MOST_ITEMS:
                    raise _RareSchemaError
                return [self._make(schema["items"], name.removesuffix("s"), depth + 1) for _ in range(length)]
            case {"type": "object"} | {"allOf": _}:
                raise _RareSchemaError
            case schema:
                return self._string(schema, name)

    def _number(self, schema: Schema) -> Any:
        """Return a number that is seldom asked for, or one near the bounds."""
        above, below = schema.get("exclusiveMinimum", -math.inf), schema.get("exclusiveMaximum", math.inf)
        least, most = max(schema.get("minimum", above), above), min(schema.get("maximum", below), below)
        turn = self._take("number")
        start = turn % len(_SMALLER_NUMBERS)
        near = math.ceil(least) if math.isfinite(least) else math.floor(min(most, 0))
        candidates: tuple[float, ...] = (
            *(_number_at(turn + more) for more in range(len(_NUMBERS))),
            *(_SMALLER_NUMBERS[start:] + _SMALLER_NUMBERS[:start]),
            *(near + turn % 5 + 1, near + 1, near, near - 1),
            *(() if schema["type"] == "integer" else (least + (most - least) / 2,)),
        )
        fitting = (one for one in candidates if least <= one <= most and one not in (above, below))
        if (found := next(fitting, None)) is None:
            raise _RareSchemaError
        return found

    def _string(self, schema: Schema, name: str) -> str:
        """Return a string for the format or for the name; a long one is cut."""
        values = _WORDS.get(schema.get("format", "")) or _values_named(name)
        return str(self._take_one(f"words {values}", values))[: schema.get("maxLength")]


def _number_at(turn: int) -> int:
    """Return the number of that turn: no two turns have the same one."""
    rounds, place = divmod(turn, len(_NUMBERS))
    return _NUMBERS[place] + 1000 * rounds
