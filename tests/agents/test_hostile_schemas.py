"""Values for schemas of other programs: the work is limited, and so is what stands in a prompt."""

import dataclasses
import json
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import agents, tools
from graphexec.agents.examples.values import ExampleValues, SchemaValues, WorkLimit
from tests.agents.test_synthesised_examples import never_called
from tests.counting import count_calls
from tests.executor.actors import echo
from tests.parameters import cases

# Characters of a call's arguments as JSON.
LONGEST = 600


def tool_of(schemas: dict[str, Any], definitions: dict[str, Any] | None = None) -> tools.AnyTool:
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


# ---- many parameters


@cases("parameters", 19, 20, 21, 40)
def test_many_numbers_are_all_different(parameters: int) -> None:
    made = tool_of({f"p{number}": {"type": "number"} for number in range(parameters)})
    (example,) = [one for one in agents.synthesised_examples([made]) if one.calls]
    ((_, arguments, observation),) = example.calls
    assert len({*arguments.values(), float(observation)}) == parameters + 1


@pytest.mark.medium
def test_tool_with_long_calls_has_no_example() -> None:
    made = tool_of({f"parameter_{number}": {"type": "number"} for number in range(300)})
    assert arguments_of(made) is None


def test_long_calls_leave_out_what_is_optional() -> None:
    made = tool_of({"name": {"type": "string"}})
    optional = {f"kind_{number}": {"enum": ["small", "large"]} for number in range(200)}
    parameters = {**made.parameters, "properties": made.parameters["properties"] | optional}
    assert [*(arguments_of(dataclasses.replace(made, parameters=parameters)) or ())] == ["name"]


# ---- hostile schemas


def doubled(keyword: str) -> dict[str, Any]:
    """Return definitions each of which has two parts that are the next one, so that the last is there 2**30 times."""
    part = {number: {"$ref": f"#/$defs/s{number + 1}"} for number in range(30)}
    return {f"s{number}": {keyword: [part[number], part[number]]} for number in part} | {"s30": {"type": "string"}}


def tree(children: int) -> dict[str, Any]:
    """Return a schema each of whose values requires several values of the same schema."""
    names = [f"child_{number}" for number in range(children)]
    properties = {name: {"$ref": "#/$defs/s0"} for name in names}
    return {"s0": {"type": "object", "properties": properties, "required": names}}


HOSTILE_PATTERNS = {
    "repetitions of nothing": "((((a?){200}){200}){200}){200}",
    "repetitions of repetitions": "((((a{200}){200}){200}){200}){200}",
    "varying repetitions": "(x+x+){30}y",
    "a dot before each letter": "(.*a){25}",
    "lengths in a sum": r"(\w{10,20}){16}",
    "a long count": f"a{{{'9' * 5000}}}",
    "groups in groups": "(" * 400 + ")" * 400,
    "open classes": "[" * 900,
    "many classes": "[a-z0-9]" * 120,
    "many alternatives": "|".join(["(a{90})"] * 100),
    "a long pattern": "a" * 5000,
    "a look ahead": "(?=(a+)+$)" * 90,
    "what is optional before what is not": "^(a?){30}a{30}$",
    "a look ahead before what does not match": "^(?=(a+)+b)a{40}c$",
}

AAA, NESTED = "a" * 40 + "!", HOSTILE_PATTERNS["repetitions of nothing"]
REFERENCE = {"$ref": "#/$defs/s0"}
# A schema, and the definitions that it refers to.
HOSTILE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # A schema with the others is refused.
    **{
        name: ({"type": "string", "pattern": pattern}, {})
        for name, pattern in HOSTILE_PATTERNS.items()
        if name not in ("a long count", "open classes")
    },
    "a key with a pattern": ({"type": "object", "required": ["a"], "patternProperties": {NESTED: {}}}, {}),
    "a key that does not match": ({"type": "object", "required": [AAA], "patternProperties": {"^(a+)+$": {}}}, {}),
    "an example that does not match": ({"type": "string", "pattern": "^(a+)+$", "examples": [AAA]}, {}),
    "a long string": ({"type": "string", "minLength": 10**9}, {}),
    "many items": ({"type": "array", "minItems": 10**9}, {}),
    "many items of many": ({"type": "array", "minItems": 30, "items": {"type": "array", "minItems": 30}}, {}),
    "many first items": ({"type": "array", "prefixItems": [{"type": "integer"}] * 500}, {}),
    "many keys": ({"type": "object", "minProperties": 10**9}, {}),
    "many fields": ({"type": "object", "required": [f"key_{number}" for number in range(3000)]}, {}),
    "many values": ({"enum": [*range(20_000)]}, {}),
    "long values": ({"enum": ["long " * 10_000, "longer " * 10_000]}, {}),
    "many examples": ({"type": "string", "examples": [*range(20_000)]}, {}),
    "many branches": ({"anyOf": [{"type": "string", "minLength": number} for number in range(300)]}, {}),
    "doubled parts": (REFERENCE, doubled("allOf")),
    "doubled branches": (REFERENCE, doubled("anyOf")),
    "a value in itself": (REFERENCE, tree(1)),
    "five values in itself": (REFERENCE, tree(5)),
    "a schema that is itself": (REFERENCE, {"s0": REFERENCE}),
    "a part that is itself": (REFERENCE, {"s0": {"allOf": [REFERENCE, REFERENCE]}}),
    "a large number": ({"type": "integer", "minimum": 10**400}, {}),
    "a small step": ({"type": "number", "minimum": 1, "multipleOf": 1e-320}, {}),
    "no number": ({"type": "number", "minimum": 3, "maximum": 2}, {}),
    "nothing": ({"not": {}}, {}),
}


@pytest.mark.medium
@cases("name", *HOSTILE)
def test_hostile_schema_takes_little_work(name: str) -> None:
    schema, definitions = HOSTILE[name]
    made = tool_of({"x": schema}, definitions)
    began = time.process_time()
    agents.synthesised_examples([made, echo])
    # A search in C is a single call.
    assert time.process_time() - began < 1
    assert count_calls(lambda: agents.synthesised_examples([made, echo])) < 200_000
    arguments_of(made)


@pytest.mark.medium
@cases("name", "many values", "many branches", "doubled parts", "long values")
def test_large_schema_may_have_an_example(name: str) -> None:
    schema, definitions = HOSTILE[name]
    found = arguments_of(tool_of({"x": schema}, definitions))
    assert (found is None) == (name in ("doubled parts", "long values"))


def test_recursive_schema_has_a_small_value() -> None:
    children = {"type": "array", "items": REFERENCE}
    parent = {"anyOf": [REFERENCE, {"type": "null"}]}
    properties = {"name": {"type": "string"}, "children": children, "left": parent, "right": parent}
    node = {"type": "object", "properties": properties, "required": list(properties)}
    found = arguments_of(tool_of({"node": REFERENCE}, {"s0": node}))
    assert found is not None
    assert json.dumps(found).count("children") <= 4
    assert found["node"].keys() == properties.keys()


def test_parts_and_branches_of_a_schema_are_joined() -> None:
    parts = [REFERENCE, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]
    first = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    assert arguments_of(tool_of({"both": {"allOf": parts}}, {"s0": first})) == {"both": {"a": True, "b": 317}}
    # Branches keep what stands beside them.
    beside = {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}}
    branches = [{"required": ["a"]}, {"required": ["b"]}]
    assert arguments_of(tool_of({"one": {**beside, "anyOf": branches}})) == {"one": {"a": 1}}
    # A required argument needs no schema.
    schema = {"type": "object", "required": ["city"]}
    assert arguments_of(tools.tool_from_schema("act", "Do it.", schema, never_called)) == {"city": "Tartu"}


VALUES: list[tuple[dict[str, Any], list[Any]]] = [
    ({"type": "number", "exclusiveMinimum": 0.25, "exclusiveMaximum": 0.75}, [0.5, 0.375, 0.625]),
    ({"type": "integer", "minimum": 3, "maximum": 2}, []),
    ({"type": "integer", "minimum": 5001, "multipleOf": 10}, [5020, 5010, 5020, 5030, 5040, 5050, 5060]),
    ({"type": "string", "pattern": r"(a)\1"}, []),
    ({"type": "string", "pattern": "^[A-Z]+$"}, ["AB", "ABC", "XPF"]),
    ({"type": "string", "pattern": "^[a-c]+[0-9]{1,2}$", "minLength": 4}, []),
    ({"type": "string", "format": "date", "minLength": 20}, []),
    ({"type": "string", "format": "email", "maxLength": 17}, ["clara@example.org", "amina@example.org"]),
    ({"type": "string", "format": "idn-email"}, ["clara@example.org", "viktor@example.org", "amina@example.org"]),
    ({"type": "string", "format": "email", "pattern": "^v.*[.]org$"}, ["viktor@example.org"]),
    ({"type": "string", "format": "binary", "minLength": 9}, ["lantern l", "meadow me"]),
    ({"type": "string", "minLength": 15, "maxLength": 15}, ["some x some x s", "another x anoth", "the other x the"]),
    ({"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": True}, []),
    ({"type": "array", "items": {"const": 1}, "maxItems": 2}, [[1], [1, 1], []]),
    ({"type": "array", "items": [{"const": 1}, {"const": 2}]}, [[1, 2], [1, 2, "some x"]]),
    ({"type": "object", "patternProperties": {"^a$": {}}}, []),
    ({"type": "object", "required": ["a"], "properties": {"a": {"enum": [*range(9)]}}}, [{"a": 0}, {"a": 1}]),
    ({"type": "object", "propertyNames": {"minLength": 4}, "minProperties": 1}, [{"some x": "another x"}, {}]),
    ({"type": "object", "propertyNames": {"enum": [1]}}, [{}]),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, [{"a": "some a"}, {"a": "another a"}]),
    ({"type": ["null", "boolean"]}, [True, None, False]),
]


@cases(("schema", "values"), *VALUES)
def test_values_are_tried_in_order(schema: dict[str, Any], values: list[Any]) -> None:
    uses: Counter[str] = Counter()

    def take(what: str) -> int:
        uses[what] += 1
        return uses[what] - 1

    # Of strings only the first ones are listed.
    assert list(SchemaValues({}, take, WorkLimit(3000)).values(schema, "x"))[: len(values) or None] == values


def test_tool_that_refuses_every_call_has_no_example() -> None:
    made = tools.tool_from_schema("act", "Do it.", {"type": "object", "minProperties": 1}, never_called)
    assert arguments_of(made) is None
    # The observation of an example is none of its arguments.
    assert ExampleValues().observation({"amount": 317, "other": 523}) == "461"


# ---- any schema

KEYWORDS = st.sampled_from(
    [
        *("type", "enum", "const", "examples", "anyOf", "oneOf", "allOf", "$ref", "properties", "required", "items"),
        *("prefixItems", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "format"),
        *("minimum", "exclusiveMaximum", "multipleOf", "minProperties", "additionalProperties", "propertyNames"),
        *("patternProperties", "maximum", "exclusiveMinimum"),
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
def test_any_schema_has_few_characters_or_none(schema: dict[str, Any], definition: Any) -> None:
    made = tool_of({"x": {}})
    parameters = {**made.parameters, "properties": {"x": schema}, "$defs": {"s0": definition}}
    found = ExampleValues().arguments(dataclasses.replace(made, parameters=parameters))
    assert found is None or len(json.dumps(found)) <= LONGEST
