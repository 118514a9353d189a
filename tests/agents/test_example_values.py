"""Arguments of examples: they fit the tool, and schemas of other programs take little work and few characters."""

import dataclasses
import datetime as dt
import enum
import ipaddress
import json
import time
import uuid
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import AfterValidator, AnyUrl, BaseModel, Field, create_model
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


class Node(BaseModel):
    """Refers to itself."""

    value: Annotated[str, Field(max_length=5)]
    children: list["Node"] = []
    next: Optional["Node"] = None


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
LIST: Any = list
DICT: Any = dict
TUPLE: Any = tuple
UNION: Any = Union
OPTIONAL: Any = Optional
ANNOTATED: Any = Annotated

USUAL: list[Any] = [
    *(str, int, float, bool, bytes, Decimal, Path, uuid.UUID, dt.date, dt.time, dt.datetime, dt.timedelta),
    *(AnyUrl, Any, object, Level, Point, Node, None, Literal["a", 3], list[int], list[str], tuple[int, str]),
    *(OPTIONAL[int], dict[str, float], list[Point], set[Level], Annotated[list[str], Field(min_length=2)]),
    *(Annotated[int, Field(ge=low, le=high)] for low, high in ((1, 5), (0, 23), (-5, -5), (9000, 10**6))),
    *(Annotated[float, Field(gt=0, lt=1)], Annotated[int, Field(gt=-9, lt=-6)], Annotated[float, Field(le=-0.5)]),
    *(Annotated[str, Field(max_length=3)], Annotated[str, Field(min_length=1, max_length=100)]),
    *(Annotated[set[int], Field(min_length=3)], Annotated[dict[str, int], Field(min_length=2)]),
]
RARE: list[Any] = [
    *(ipaddress.IPv4Address, Annotated[str, Field(pattern=r"^[A-Z]{2}\d{4}$")]),
    *(Annotated[str, Field(min_length=40)], Annotated[int, Field(multiple_of=7)]),
]


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def model(kinds: list[Any]) -> Any:
        fields: dict[str, Any] = {f"field_{number}": (kind, ...) for number, kind in enumerate(kinds)}
        return create_model("Made", **fields)

    return st.one_of(
        inner.map(lambda kind: LIST[kind]),
        inner.map(lambda kind: None if kind is None else OPTIONAL[kind]),
        inner.map(lambda kind: DICT[str, kind]),
        st.tuples(inner, inner).map(lambda kinds: TUPLE[kinds]),
        st.tuples(inner, inner).map(lambda kinds: UNION[kinds]),
        st.lists(inner, min_size=1, max_size=3).map(model),
    )


NAMES = st.sampled_from(["city", "id", "fileName", "from_unit", "to_unit", "count", "x", "items", "note", "größe"])
ANNOTATIONS = st.recursive(st.sampled_from([*USUAL, *RARE]), containers, max_leaves=4)


@given(st.dictionaries(NAMES, ANNOTATIONS, max_size=4), st.integers(0, 4))
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


def doubled(keyword: str) -> dict[str, Any]:
    """Return definitions each of which has two parts that are the next one, so that the last is there 2**30 times."""
    part = {number: {"$ref": f"#/$defs/s{number + 1}"} for number in range(30)}
    return {f"s{number}": {keyword: [part[number], part[number]]} for number in part} | {"s30": {"type": "string"}}


def tree(children: int, depth: int = 0) -> dict[str, Any]:
    """Return a schema whose values require several values of the same schema, or of one that is less deep."""
    names = [f"child_{number}" for number in range(children)]

    def level(number: int) -> dict[str, Any]:
        reference = {"$ref": f"#/$defs/s{number + 1 if depth else 0}"}
        return {"type": "object", "properties": dict.fromkeys(names, reference), "required": names}

    return {**{f"s{number}": level(number) for number in range(max(depth, 1))}, f"s{depth or 9}": {"type": "string"}}


REFERENCE = {"$ref": "#/$defs/s0"}
# A schema, and the definitions that it refers to.
HOSTILE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a long string": ({"type": "string", "minLength": 10**9}, {}),
    "many items": ({"type": "array", "minItems": 10**9}, {}),
    "many items of many": ({"type": "array", "minItems": 30, "items": {"type": "array", "minItems": 30}}, {}),
    "many first items": ({"type": "array", "prefixItems": [{"type": "integer"}] * 500}, {}),
    "many keys": ({"type": "object", "minProperties": 10**9}, {}),
    "many fields": ({"type": "object", "required": [f"key_{number}" for number in range(3000)]}, {}),
    "many values": ({"enum": [*range(20_000)]}, {}),
    "long values": ({"enum": ["long " * 10_000, "longer " * 10_000]}, {}),
    "many examples": ({"type": "string", "examples": [*range(20_000)]}, {}),
    "doubled parts": (REFERENCE, doubled("allOf")),
    "doubled branches": (REFERENCE, doubled("anyOf")),
    "a value in itself": (REFERENCE, tree(1)),
    "five values in itself": (REFERENCE, tree(5)),
    "a deep tree": (REFERENCE, tree(5, 6)),
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


def test_recursive_schema_has_a_small_value() -> None:
    children = {"type": "array", "items": REFERENCE}
    parent = {"anyOf": [REFERENCE, {"type": "null"}]}
    properties = {"name": {"type": "string"}, "children": children, "left": parent, "right": parent}
    node = {"type": "object", "properties": properties, "required": list(properties)}
    found = arguments_of(schema_tool({"node": REFERENCE}, {"s0": node}))
    assert found is not None
    assert json.dumps(found).count("children") <= 4
    assert found["node"].keys() == properties.keys()


def test_required_argument_needs_no_schema() -> None:
    schema = {"type": "object", "required": ["city"]}
    assert arguments_of(tools.tool_from_schema("act", "Do it.", schema, never_called)) == {"city": "Tartu"}


VALUES: list[tuple[Mapping[str, Any], list[Any]]] = [
    ({"type": "number", "exclusiveMinimum": 0.25, "exclusiveMaximum": 0.75}, [0.5]),
    ({"type": "integer", "minimum": 5001}, [5002, 5003]),
    ({"type": "string", "pattern": r"^an"}, ["another x"]),
    ({"type": "string", "format": "date", "minLength": 20}, []),
    ({"type": "string", "format": "email"}, ["clara@example.org", "viktor@example.org"]),
    ({"type": "string", "format": "binary", "maxLength": 4}, ["some", "anot"]),
    ({"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": True}, []),
    ({"type": "array", "items": {"const": 1}, "maxItems": 2}, [[1], [1]]),
    ({"type": "array", "maxItems": 0}, [[]]),
    ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}]}, [[1, 2]]),
    ({"type": "object", "required": ["a"], "properties": {"a": {"enum": [*range(9)]}}}, [{"a": 0}, {"a": 1}]),
    ({"type": "object", "minProperties": 1}, [{"some x": "another x"}]),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, [{"a": "some a"}, {"a": "another a"}]),
    ({"type": ["boolean", "null"]}, [True, False]),
    ({"allOf": [{"type": "integer"}], "minimum": 900}, [926]),
    ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, [True, False]),
    ({"anyOf": [{"type": "null"}]}, [None]),
    ({"type": "string", "examples": ["North", "South"]}, ["North", "South"]),
]


@cases(("schema", "values"), *VALUES)
def test_values_are_tried_in_order(schema: Mapping[str, Any], values: list[Any]) -> None:
    made, making = schema_tool({"x": {**schema}}), ExampleValues()
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
        *("type", "enum", "const", "examples", "anyOf", "oneOf", "allOf", "$ref", "properties", "required", "items"),
        *("prefixItems", "minItems", "maxItems", "minLength", "maxLength", "format", "minimum", "exclusiveMaximum"),
        *("minProperties", "additionalProperties", "maximum", "exclusiveMinimum"),
    ]
)
WORDS = st.sampled_from(
    ["string", "integer", "number", "array", "object", "null", "a", "#/$defs/s0", "[a-c]{2,}", "date"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS | WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYWORDS, JSON, max_size=5), JSON)
@example({"type": "array", "minItems": 2.5}, None)
@example({"type": "object", "properties": ["a"], "required": ["a"]}, None)
@example({"$ref": "#/$defs/s0", "minimum": float("nan"), "type": "number"}, 5)
def test_any_schema_has_few_characters_or_none(schema: dict[str, Any], definition: Any) -> None:
    made = schema_tool({"x": {}})
    parameters = {**made.parameters, "properties": {"x": schema}, "$defs": {"s0": definition}}
    found = ExampleValues().arguments(dataclasses.replace(made, parameters=parameters))
    assert found is None or len(json.dumps(found)) <= LONGEST
