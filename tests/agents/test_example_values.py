"""Arguments of examples: they fit the tool, and schemas of other programs take little work and few characters."""

import dataclasses
import datetime as dt
import enum
import ipaddress
import json
import time
import uuid
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import AfterValidator, AnyUrl, Field
from typing_extensions import TypedDict

from graphexec import agents, tool, tools
from graphexec.agents.small.values import ExampleValues
from tests.agents.test_synthesised_examples import calls_of, never_called, tool_of
from tests.counting import count_calls
from tests.executor.actors import echo
from tests.parameters import cases

# Characters of a call's arguments as JSON.
LONGEST = 600


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Point(TypedDict):
    x: float
    y: Annotated[float, Field(ge=0, lt=1)]


def schema_tool(schemas: dict[str, Any], definitions: dict[str, Any] | None = None) -> tools.AnyTool:
    """Return a tool that requires arguments with these schemas."""
    schema = {"type": "object", "properties": schemas, "required": list(schemas), "$defs": definitions or {}}
    return tools.tool_from_schema("act", "Do it.", schema, never_called)


def arguments_of(made: tools.AnyTool) -> dict[str, Any] | None:
    """Return the arguments of the example, which are checked; `None` if the tool has no example."""
    every = [arguments for one in agents.synthesised_examples([made]) for _, arguments, _ in one.calls]
    for arguments in every:
        made.read(arguments)
        assert len(json.dumps(arguments)) <= LONGEST
    return dict(every[0]) if every else None


# ---- functions

# Any: the types in them are made at run time, which type checkers cannot follow.
OPTIONAL: Any = Optional
LIST: Any = list

USUAL: list[Any] = [
    *(str, int, float, bool, bytes, Decimal, Path, uuid.UUID, dt.date, dt.time, dt.datetime, dt.timedelta),
    *(AnyUrl, Any, object, Level, None, Literal["a", 3], list[int], list[str], OPTIONAL[int], set[Level]),
    *(Annotated[int, Field(ge=low, le=high)] for low, high in ((1, 5), (0, 23), (-5, -5), (9000, 10**6))),
    *(Annotated[float, Field(gt=0, lt=1)], Annotated[int, Field(gt=-9, lt=-6)], Annotated[float, Field(le=-0.5)]),
    *(Annotated[str, Field(max_length=3)], Annotated[str, Field(min_length=1, max_length=100)]),
    *(Annotated[list[str], Field(min_length=2)], Annotated[set[int], Field(min_length=3)]),
]
RARE: list[Any] = [
    *(Annotated[str, Field(pattern=r"^[A-Z]{2}\d{4}$")], Annotated[str, Field(min_length=40)], ipaddress.IPv4Address),
    *(Annotated[int, Field(multiple_of=7)], Annotated[list[int], Field(min_length=9)]),
    *(Point, tuple[int, str], dict[str, float]),
]
NAMES = st.sampled_from(["city", "id", "fileName", "from_unit", "to_unit", "count", "x", "items", "note", "größe"])
KINDS = [*USUAL, *RARE, *(of[kind] for kind in USUAL if kind is not None for of in (LIST, OPTIONAL))]


@given(st.dictionaries(NAMES, st.sampled_from(KINDS), max_size=4), st.integers(0, 4))
def test_every_call_fits_its_tool(annotations: dict[str, Any], defaults: int) -> None:
    made = tool_of(annotations, optional=min(defaults, len(annotations)))
    first, second = (ExampleValues() for _ in range(2))
    for optional in (False, True):
        arguments = first.arguments(made, optional=optional)
        assert arguments == second.arguments(made, optional=optional)
        if arguments is not None:
            made.read(json.loads(json.dumps(arguments)))


def test_usual_types_have_values() -> None:
    for kind in USUAL:
        assert ExampleValues().arguments(tool_of({"x": kind})) is not None, kind
    for kind in RARE:
        assert ExampleValues().arguments(tool_of({"x": kind})) is None, kind


def test_validators_choose_among_usual_values() -> None:
    def is_third(value: str) -> str:
        if value != "T-64":
            raise ValueError("another one")
        return value

    def reject(value: str) -> str:
        raise RuntimeError(value)

    assert calls_of(tool_of({"code": Annotated[str, AfterValidator(is_third)]}))[0] == ("act", {"code": "T-64"})
    assert calls_of(tool_of({"code": Annotated[str, Field(pattern=r"^[L-N]-\d+$")]}))[0] == ("act", {"code": "M-37"})
    assert calls_of(tool_of({"code": Annotated[str, AfterValidator(reject)]})) == []
    optional = tool_of({"a": int, "code": Annotated[str, AfterValidator(reject)]}, optional=1)
    assert [list(arguments) for _, arguments in calls_of(optional)] == [["a"], ["a"]]


def test_rare_argument_needs_an_example_of_the_author() -> None:
    def look(code: Annotated[str, Field(pattern=r"^[A-Z]{2}\d{4}$")]) -> str:
        """Look a code up."""
        raise AssertionError(code)

    assert calls_of(tool(look)) == []
    assert calls_of(tool(examples=[{"code": "AB1234"}])(look)) == [("look", {"code": "AB1234"})]


def test_optional_arguments_are_in_the_second_example() -> None:
    made = tool_of({"food": str, "grams": int, "kind": Literal["raw", "dry"]}, optional=2)
    assert [list(arguments) for _, arguments in calls_of(made)] == [["food", "kind"], ["food", "grams", "kind"]]


def test_tools_have_different_values() -> None:
    look = tool_of({"city": str}).function
    several = [tool(name=f"look_{number}", description="Look at a city.")(look) for number in range(3)]
    cities = [arguments["city"] for _, arguments in calls_of(*several)]
    assert cities[:3] == ["Tartu", "Bergamo", "Kalmar"]
    assert all(one != other for one, other in zip(cities[:3], cities[3:], strict=True))


# ---- many parameters


@cases("parameters", 19, 20, 21, 40)
def test_many_numbers_are_all_different(parameters: int) -> None:
    made = schema_tool({f"p{number}": {"type": "number"} for number in range(parameters)})
    (worked,) = [one for one in agents.synthesised_examples([made]) if one.calls]
    ((_, arguments, observation),) = worked.calls
    assert len({*arguments.values(), float(observation)}) == parameters + 1


def test_long_calls_leave_out_what_is_optional() -> None:
    made = schema_tool({"name": {"type": "string"}})
    optional = {f"kind_{number}": {"enum": ["small", "large"]} for number in range(200)}
    parameters = {**made.parameters, "properties": made.parameters["properties"] | optional}
    assert [*(arguments_of(dataclasses.replace(made, parameters=parameters)) or ())] == ["name"]


# ---- schemas of other programs


REFERENCE = {"$ref": "#/$defs/s0"}
PAIR = {"type": "array", "minItems": 3, "items": REFERENCE}
# A schema, and the definitions that it refers to.
HOSTILE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a long string": ({"type": "string", "minLength": 10**9}, {}),
    "many items": ({"type": "array", "minItems": 10**9}, {}),
    "many items of many": ({"type": "array", "minItems": 30, "items": {"type": "array", "minItems": 30}}, {}),
    "many fields": ({"type": "object", "required": [f"key_{number}" for number in range(3000)]}, {}),
    "many values": ({"enum": [*range(20_000)]}, {}),
    "long values": ({"enum": ["long " * 10_000, "longer " * 10_000]}, {}),
    "several parts": ({"allOf": [{"type": "integer"}] * 2}, {}),
    "values in themselves": (REFERENCE, {"s0": PAIR}),
    "branches in themselves": (REFERENCE, {"s0": {"anyOf": [REFERENCE, REFERENCE]}}),
    "a schema that is itself": (REFERENCE, {"s0": REFERENCE}),
    "a large number": ({"type": "integer", "minimum": 10**400}, {}),
    "no number": ({"type": "number", "minimum": 3, "maximum": 2}, {}),
    "nothing": ({"not": {}}, {}),
}
# Those that have an example nevertheless.
POSSIBLE = {"many values"}


@pytest.mark.medium
def test_hostile_schema_takes_little_work() -> None:
    for name, (schema, definitions) in HOSTILE.items():
        made = schema_tool({"x": schema}, definitions)
        began = time.process_time()
        agents.synthesised_examples([made, echo])
        # A search in C is a single call.
        assert time.process_time() - began < 1, name
        assert count_calls(partial(agents.synthesised_examples, [made, echo])) < 200_000, name
        assert (arguments_of(made) is not None) == (name in POSSIBLE), name


def test_required_argument_needs_no_schema() -> None:
    schema = {"type": "object", "required": ["city"]}
    assert arguments_of(tools.tool_from_schema("act", "Do it.", schema, never_called)) == {"city": "Tartu"}


VALUES: list[tuple[dict[str, Any], list[Any]]] = [
    ({"type": "number", "exclusiveMinimum": 0.25, "exclusiveMaximum": 0.75}, [0.5]),
    ({"type": "integer", "minimum": 5001}, [5002, 5003]),
    ({"type": "string", "pattern": r"^an"}, ["another x"]),
    ({"type": "string", "format": "date", "minLength": 20}, []),
    ({"type": "string", "format": "email"}, ["clara@example.org", "viktor@example.org"]),
    ({"type": "string", "format": "binary", "maxLength": 4}, ["some", "anot"]),
    ({"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": True}, []),
    ({"type": "array", "items": {"const": 1}, "maxItems": 2}, [[1], [1]]),
    ({"type": "array", "maxItems": 0}, [[]]),
    ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, [True, False]),
    ({"type": "null"}, [None]),
    ({"type": "string", "examples": ["North", "South"]}, ["North", "South"]),
]


@cases(("schema", "values"), *VALUES)
def test_values_are_tried_in_order(schema: dict[str, Any], values: list[Any]) -> None:
    made, making = schema_tool({"x": schema}), ExampleValues()
    assert [making.arguments(made) for _ in values or [None]] == [{"x": value} for value in values] or [None]
    if not values:
        assert making.arguments(made) is None


def test_tool_that_refuses_every_call_has_no_example() -> None:
    made = tools.tool_from_schema("act", "Do it.", {"type": "object", "minProperties": 1}, never_called)
    assert arguments_of(made) is None
    # The observation of an example is none of its arguments.
    assert ExampleValues().observation({"amount": 317, "other": 523}) == "461"


KEYWORDS = st.sampled_from(
    [
        *("type", "enum", "const", "examples", "anyOf", "oneOf", "allOf", "$ref", "items", "minItems", "maxItems"),
        *("maxLength", "format", "minimum", "exclusiveMaximum", "maximum", "exclusiveMinimum", "required"),
    ]
)
WORDS = st.sampled_from(["string", "integer", "number", "array", "object", "null", "a", "#/$defs/s0", "date"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS | WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYWORDS, JSON, max_size=5), JSON)
@example({"type": "array", "minItems": 2.5}, None)
@example({"$ref": "#/$defs/s0", "minimum": float("nan"), "type": "number"}, 5)
def test_any_schema_has_few_characters_or_none(schema: dict[str, Any], definition: Any) -> None:
    made = schema_tool({"x": {}})
    parameters = {**made.parameters, "properties": {"x": schema}, "$defs": {"s0": definition}}
    found = ExampleValues().arguments(dataclasses.replace(made, parameters=parameters))
    assert found is None or len(json.dumps(found)) <= LONGEST
