"""Tools whose arguments a JSON schema describes."""

import contextlib
import importlib
import json
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from graphexec import CallContext, actions
from graphexec.errors import ToolDefinitionError
from graphexec.tools import tool_from_schema
from graphexec.tools.schemas import copy_schema, format_schema, normalize_schema
from graphexec.tools.tool import InvalidArgumentsError
from tests.executor.actors import AnyTool, Running, act, answer, make_executor, run_async
from tests.parameters import cases
from tests.tools.actors import HOW, observe

# Any: the package has no types.
Validator: Any = importlib.import_module("jsonschema").Draft202012Validator


def take(**arguments: Any) -> dict[str, Any]:
    return arguments


def with_schema(schema: dict[str, Any]) -> AnyTool:
    return tool_from_schema("take", "Take it.", schema, take)


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Weather",
    "type": "object",
    "properties": {
        "place": {"$ref": "#/definitions/Place"},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"type": ["boolean", "string"]},
    },
    "required": ["place"],
    "additionalProperties": False,
    "definitions": {"Place": PLACE, "Unused": {"type": "string"}},
}


@HOW
def test_function_receives_arguments_by_name(run: Running) -> None:
    made = with_schema(WEATHER)
    assert (made.name, made.description) == ("take", "Take it.")
    assert made.signature == "take(place: Place, days?: integer, unit?: boolean | string)"
    assert observe(run, made, place={"city": "Oslo"}, unit=True) == {"place": {"city": "Oslo"}, "unit": True}


COUNT = of(count={"type": "integer"})
TWICE = of(a={"allOf": [{"type": "string"}, {"type": "string", "minLength": 2}]})
FALSE = {**of(a={"$ref": "#/$defs/A"}, b={"$ref": "#/$defs/B"}), "$defs": {"A": True, "B": False}}
OSLO = {"city": "Oslo"}
EITHER = of(size={"anyOf": [{"type": "integer", "maximum": 9}, {"type": "null"}]})


@cases(
    ("schema", "text", "read"),
    (of(city={"type": "string"}), "5", {"city": "5"}),
    (COUNT, "5", {"count": 5}),
    (COUNT, '{"count": 5}', {"count": 5}),
    (of(flag={"type": "boolean"}), "true", {"flag": True}),
    # A reference may lead to True.
    (FALSE, {"a": 3}, {"a": 3}),
)
def test_string_may_be_the_only_argument(schema: dict[str, Any], text: Any, read: dict[str, Any]) -> None:
    assert with_schema(schema).read(text) == read


@cases(
    ("schema", "given", "says"),
    (COUNT, "five", "count: 'five' is not of type 'integer'"),
    # The same error once, and in a choice that of the closest.
    (TWICE, {"a": 3}, "take was not called: a: 3 is not of type 'string'. Call it"),
    (EITHER, {"size": 12}, "size: 12 is greater than the maximum of 9"),
    (FALSE, {"b": 3}, "b: False schema does not allow 3"),
    (COUNT, {"count": "x" * 10_000}, "count: 'xxx"),
    (WEATHER, {}, "place: Field required"),
    (WEATHER, {"place": {}}, "place.city: Field required"),
    (WEATHER, {"place": {"city": 3}}, "place.city: 3 is not of type 'string'"),
    (WEATHER, {"place": OSLO, "days": 0}, "days: 0 is less than the minimum of 1"),
    (WEATHER, {"place": OSLO, "town": "Oslo"}, "arguments: Additional properties are not allowed"),
    (WEATHER, {"days": "many", "unit": None}, "place: Field required; days: 'many' is not of type 'integer'; unit: No"),
)
def test_error_is_described_shortly(schema: dict[str, Any], given: Any, says: str) -> None:
    made = with_schema(schema)
    with pytest.raises(InvalidArgumentsError, match=r"^take was not called: ") as caught:
        made.read(given)
    assert says in str(caught.value)
    assert str(caught.value).endswith(f"Call it as {made.signature}.")
    assert len(str(caught.value)) < 500


# A schema, and its short form.
SHORT: list[tuple[Any, str]] = [
    ({"type": ["boolean", "string"]}, "boolean | string"),
    ({"type": ["array", "null"], "items": {"type": "number"}}, "list of number | null"),
    ({"$ref": "#/$defs/Place"}, "Place"),
    ({"allOf": [{"$ref": "#/$defs/Place"}]}, "Place"),
    ({"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}, {"minProperties": 2}]}, "A & B"),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "string | integer"),
    ({"anyOf": [{"type": "string"}, {"type": "string", "minLength": 2}]}, "string"),
    ({"enum": ["C", None, 3]}, '"C" | null | 3'),
    ({"const": 3}, "3"),
    ({"enum": ["y" * 6000, "C"]}, '"C" | ...'),
    ({"const": "y" * 6000}, "..."),
    ({"enum": [*range(1000, 3000)]}, " | ".join([*map(str, range(1000, 1857)), "..."])),
    ({"properties": {}}, "object"),
    ({"type": "array"}, "array"),
    ({"type": "array", "items": True}, "list of any"),
    ({"allOf": []}, "any"),
    ({}, "any"),
    (True, "any"),
]


@cases(("schema", "short"), *SHORT)
def test_signature_has_a_short_form(schema: Any, short: str) -> None:
    assert format_schema(schema) == short


def test_parameters_are_in_the_form_of_typed_tools() -> None:
    normal = normalize_schema(copy_schema(WEATHER, "weather"), "weather")
    assert normal["properties"]["place"] == {"$ref": "#/$defs/Place"}
    assert normal["$defs"] == {"Place": PLACE}
    assert "definitions" not in normal
    assert "$schema" not in normal
    assert "title" not in normal
    assert normalize_schema({}, "any") == {"type": "object", "properties": {}}


# Schemas whose references are in no `$defs`, or at the top.
SAME: list[dict[str, Any]] = [
    {"$ref": "#/$defs/Root", "$defs": {"Root": of(place=PLACE)}},
    {"allOf": [of(place=PLACE), {"required": ["place"]}]},
    {"allOf": [{"$ref": "#/$defs/Root"}], "$defs": {"Root": of(place=PLACE), "Other": {}}},
    {**of(place={"$ref": "#/$defs/a~1b%20c"}), "$defs": {"a/b c": PLACE}},
    {**of(place=PLACE, home={"$ref": "#/properties/place"})},
    {
        **of(place={"$ref": "#/definitions/Place"}, home={"$ref": "#/$defs/Place"}),
        "definitions": {"Place": PLACE},
        "$defs": {"Place": PLACE},
    },
]


@cases("schema", *SAME)
def test_references_lead_to_definitions(schema: dict[str, Any]) -> None:
    made = with_schema(schema)
    assert "place" in made.names
    assert "$ref" not in made.parameters
    assert made.read({"place": {"city": "Oslo"}}) == {"place": {"city": "Oslo"}}
    with pytest.raises(InvalidArgumentsError, match=r"place.city: Field required"):
        made.read({"place": {}})


def test_schema_may_refer_to_itself() -> None:
    made = with_schema(of(value={"type": "integer"}, children={"type": "array", "items": {"$ref": "#"}}))
    assert made.signature == "take(value?: integer, children?: list of take)"
    assert made.read({"children": [{"children": [{"value": 3}]}]})
    with pytest.raises(InvalidArgumentsError, match=r"children\.0\.children\.0\.value: 'x' is not of type 'integer'"):
        made.read({"children": [{"children": [{"value": "x"}]}]})


def test_property_may_have_the_name_of_a_keyword() -> None:
    schema = {**of(default={"$ref": "#/$defs/Place"}, enum={"type": "string"}), "$defs": {"Place": PLACE}}
    assert with_schema(schema).signature == "take(default?: Place, enum?: string)"
    data = of(place={"default": {"$ref": "#/nowhere"}})
    assert with_schema(data).parameters["properties"] == data["properties"]


def test_parts_at_the_top_are_merged_where_they_agree() -> None:
    parts = of(a={"type": "string"}), {**of(a={"minLength": 2}), "minProperties": 1}, of(a={"maxLength": 9}, b={}), True
    made = with_schema({"allOf": [*parts]})
    assert made.parameters["properties"] == {"a": {"type": "string"}, "b": {}}
    assert made.parameters["allOf"] == [parts[1], {"properties": {"a": {"maxLength": 9}}}, True]


CLOSED = {**of(a={"type": "string"}), "additionalProperties": False}
# Schemas with a part whose keywords mean something else beside the other parts.
DEPENDING: list[dict[str, Any]] = [
    {"allOf": [CLOSED, of(b={"type": "string"})]},
    {"allOf": [of(b={"type": "string"}), CLOSED]},
    {**CLOSED, "allOf": [of(b={"type": "string"})]},
    {**of(b={"type": "string"}), "$ref": "#/$defs/Closed", "$defs": {"Closed": CLOSED}},
    {"allOf": [{**of(a={}), "unevaluatedProperties": False}, of(b={})]},
    {"allOf": [CLOSED, {"patternProperties": {"^b": {}}}]},
    {**of(a={"pattern": r"^\p{L}+$"}), "unevaluatedProperties": False},
]


@cases("schema", *DEPENDING)
def test_closed_part_stays_closed(schema: dict[str, Any]) -> None:
    made = with_schema(schema)
    assert made.read({"a": "x"}) == {"a": "x"}
    with pytest.raises(InvalidArgumentsError, match="'b' was unexpected"):
        made.read({"a": "x", "b": "y"})


@pytest.mark.medium
@cases("closed", {}, {"additionalProperties": True}, {"unevaluatedProperties": True})
@cases("last", of(a={"type": "string"}), {"$ref": "#/$defs/s0"})
def test_doubled_parts_are_merged_once(closed: dict[str, Any], last: dict[str, Any]) -> None:
    # The last schema is a part of the first one 2**30 times, and again in the first one or not.
    parts = [{"$ref": f"#/$defs/s{number + 1}"} for number in range(30)]
    schemas = {f"s{number}": {**closed, "allOf": [part, {"allOf": [part]}]} for number, part in enumerate(parts)}
    made = with_schema({"$ref": "#/$defs/s0", "$defs": {**schemas, "s30": last}})
    assert len(json.dumps(made.parameters)) < 20_000


names = st.sampled_from("abc")
parts = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(names, st.sampled_from([{}, {"type": "string"}, {"type": "integer"}])),
            "additionalProperties": st.sampled_from([True, False, {"type": "integer"}]),
            "unevaluatedProperties": st.booleans(),
            "patternProperties": st.just({"^[bc]": {"type": "integer"}}),
            "required": st.lists(names, max_size=2, unique=True),
            "minProperties": st.integers(0, 2),
            "if": st.just({"required": ["a"]}),
            "then": st.just({"required": ["b"]}),
            "else": st.just({"required": ["c"]}),
            "not": st.just({"patternProperties": {"^b": {"type": "string"}}}),
            "oneOf": st.just([{"propertyNames": {"pattern": "^(?!c)"}}, {"required": ["c"]}]),
            "$ref": st.sampled_from(["#/$defs/Closed", "#/$defs/Open"]),
        },
    ),
    lambda inner: st.tuples(inner, st.lists(inner, min_size=1, max_size=3)).map(
        lambda pair: {**pair[0], "allOf": pair[1]}
    ),
    max_leaves=4,
)


CONDITION = {"if": {"required": ["a"]}, "then": {"required": ["b"]}}


@example({"allOf": [{**CONDITION, "$ref": "#/$defs/Closed"}, {"if": {"required": ["a"]}}]}, [{"a": "x"}])
@example({"allOf": [{"required": ["a"]}, {"$ref": "#/$defs/Closed"}]}, [{"a": "x"}, {"a": "x", "b": 1}])
@example({**of(a={"type": "integer"}), "allOf": [of(a={}), {"$ref": "#/$defs/Closed"}]}, [{"a": 1}, {"a": "x"}])
@given(parts, st.lists(st.dictionaries(names, st.sampled_from(["x", 1]), max_size=3), min_size=1, max_size=4))
def test_merged_schema_allows_what_the_whole_allows(schema: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    whole = {**schema, "$defs": {"Closed": CLOSED, "Open": of(b={"type": "integer"}, c={})}}
    normal, made = normalize_schema(copy_schema(whole, "take"), "take"), with_schema(whole)
    for arguments in calls:
        assert Validator(normal).is_valid(arguments) == Validator(whole).is_valid(arguments)
        # Patterns that are not checked refuse no call.
        assert not Validator(whole).is_valid(arguments) or made.read(arguments) == arguments
    assert normalize_schema(copy_schema(normal, "take"), "take") == normal


plain = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": ["null", "number"]}, {"enum": ["a", 1]}, True]),
    lambda inner: st.one_of(
        inner.map(lambda one: {"type": "array", "items": one}),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: {"anyOf": some}),
        st.dictionaries(st.sampled_from("abc"), inner).map(lambda some: {"type": "object", "properties": some}),
    ),
    max_leaves=6,
)


@example({"x": True})
@given(st.dictionaries(st.sampled_from(["x", "y", "default"]), plain))
def test_schema_without_references_stays_as_it_is(properties: dict[str, Any]) -> None:
    schema = of(**properties)
    assert normalize_schema(schema, "take") == schema
    assert with_schema(schema).signature.startswith("take(")


keywords = st.sampled_from(
    "$ref $defs $schema $id allOf anyOf type properties required items enum a default".split()  # noqa: SIM905
)
scalars = st.sampled_from([None, True, 1, "string", "object", "#", "#/$defs/a", "#/properties/a", "a"])
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords, inner, max_size=4), max_leaves=10
)


@given(st.dictionaries(keywords, documents, max_size=5))
def test_any_document_is_a_schema_or_refused(document: dict[str, Any]) -> None:
    try:
        made = with_schema(document)
    except ToolDefinitionError:
        return
    assert made.signature.startswith("take(")
    # A schema in this form stays as it is.
    assert normalize_schema(copy_schema(made.parameters, "take"), "take") == made.parameters


def list_multiples(step: float, numbers: Iterable[float]) -> list[float]:
    made = with_schema({"type": "object", "properties": {"x": {"type": "number", "multipleOf": step}}})

    def accepts(number: float) -> bool:
        try:
            made.arguments.validate_python({"x": number})
        except ValidationError:
            return False
        return True

    return [*filter(accepts, numbers)]


def test_multiples_are_decided_in_decimal() -> None:
    cents = [cents / 100 for cents in range(-200, 2_000, 3)]
    assert list_multiples(0.01, [*cents, 19.999, float("nan"), float("inf")]) == cents
    assert list_multiples(0.25, [price / 100 for price in range(2_000)]) == [quarter / 4 for quarter in range(80)]
    assert list_multiples(2, [0.3, 10**5000 + 1, 10**5000, 1e308]) == [10**5000, 1e308]


@pytest.mark.medium
@cases(
    ("levels", "keyword", "says"),
    (600, "items", "take has a JSON schema that is nested too deeply"),
    (100_000, "items", "take has parameters that are not a JSON schema"),
    *((levels, "a", "take has a JSON schema that is nested too deeply; give") for levels in (100, 200, 400)),
)
def test_deep_schema_is_refused(levels: int, keyword: str, says: str) -> None:
    deep: dict[str, Any] = {}
    for _ in range(levels):
        deep = {"items": deep} if keyword == "items" else of(a=deep)
    with pytest.raises(ToolDefinitionError, match=says):
        with_schema(of(a=deep) if keyword == "items" else deep)


@cases("levels", 101, 400, 100_000)
def test_deep_arguments_are_an_error(levels: int) -> None:
    nested: dict[str, Any] = {}
    for _ in range(levels):
        nested = {"next": nested}
    with pytest.raises(InvalidArgumentsError, match="nested too deeply"):
        with_schema(of(next={"$ref": "#"})).read(nested)


# Patterns that pydantic's engine cannot read, or that are invalid.
UNREADABLE = [
    *(r"^[\w-.]+$", r"^\cJ$", "^[^]$", "(?<n>a)\\k<n>", "^(?!b)", "(", f"a{{{'9' * 5000}}}", "(" * 3000 + ")" * 3000)
]


@cases("pattern", *UNREADABLE)
def test_unreadable_pattern_is_sent_and_not_checked(pattern: str) -> None:
    schemas: list[dict[str, Any]] = [
        of(a={"type": "string", "pattern": pattern}),
        {"propertyNames": {"pattern": pattern}},
        {"not": {"propertyNames": {"pattern": pattern}}},
        {"oneOf": [{"propertyNames": {"pattern": pattern}}, {}]},
        {"patternProperties": {pattern: {"type": "number"}}, "additionalProperties": False},
        {"allOf": [{"patternProperties": {pattern: {}}}], "unevaluatedProperties": False},
    ]
    for schema in schemas:
        made = with_schema(schema)
        assert json.dumps(pattern) in json.dumps(made.parameters)
        assert made.read({"a": "?"}) == {"a": "?"}
    # The rest of the schema is checked.
    with pytest.raises(InvalidArgumentsError, match="3 is not of type 'string'"):
        with_schema(schemas[0]).read({"a": 3})


LONG = "a" * 40
# Patterns for which `re` would take years to refuse a string, and whether it is refused.
COSTLY = [
    ("^(a+)+$", True),
    ("^(a|aa)*$", True),
    ("^(a?){40}a{40}b$", True),
    ("^((a+)+)?a{40}$", True),
    ("^(a++)+$", True),
    ("^(a+)+!$", False),
    ("^(a+)+\ud800$", True),
    (r"^\p{L}+$", True),
    (r"^(?<y>\d{4})$", True),
    # The engine does not read these, so they are not checked.
    ("^(?=(a+)+b)a{40}c$", False),
    (r"^(a)\1(a+)+$", False),
    ("^(?>(a+)+)$", False),
    ("^([[]|(a+)+)$", False),
]


@cases(("pattern", "refused"), *COSTLY)
def test_pattern_is_checked_in_linear_time(pattern: str, refused: bool) -> None:
    for schema, arguments in (
        (of(a={"type": "string", "pattern": pattern}), {"a": f"{LONG}!"}),
        ({"propertyNames": {"pattern": pattern}}, {f"{LONG}!": 1}),
    ):
        with pytest.raises(InvalidArgumentsError, match="does not match") if refused else contextlib.nullcontext():
            with_schema(schema).read(arguments)


@cases("pattern", "^(a+)+$", "^(a+)+!$", "^(?!b)(a+)+$")
@cases("others", {}, {"additionalProperties": False}, {"unevaluatedProperties": False})
def test_patterns_of_keys_are_not_checked(pattern: str, others: dict[str, Any]) -> None:
    schema = {"type": "object", "patternProperties": {pattern: {"type": "string"}}, **others}
    assert with_schema(schema).read({f"{LONG}!": 1}) == {f"{LONG}!": 1}


def missing(city: str) -> str:
    return city


# Parameters, a function, and the error.
REFUSED: list[tuple[Any, Any, str]] = [
    ({"type": "string"}, take, 'take has parameters of the type "string"; give the schema of an object'),
    ({"type": ["object", "null"]}, take, r'take has parameters of the type \["object", "null"\]'),
    (of(a={"type": "strin"}), take, "take has an invalid JSON schema: 'strin' .* at #/properties/a/type"),
    (of(a={"$ref": "https://example.org/a"}), take, r"the \$ref 'https://example.org/a', which is not in it; copy"),
    (of(a={"$ref": "#/$defs/A"}), take, r"the \$ref '#/\$defs/A', which is not in it"),
    (of(a={"$ref": "#anchor"}), take, r"the \$ref '#anchor', which is not in it"),
    (of(a={"$ref": "#/properties/a/type/3"}), take, "which is not in it"),
    (of(a={1, 2}), take, "take has parameters that are not a JSON schema: .* give a dict"),
    ({"properties": 3}, take, "take has an invalid JSON schema: 3 is not of type 'object' at #/properties"),
    (of(a={"maximum": float("nan")}), take, "take has parameters that are not a JSON schema"),
    ([], take, r"tool_from_schema has parameters=\[\]; give a JSON schema, as a dict"),
    (of(town={}), missing, "the function does not take town; add it, .*; the function requires city"),
    (of(city={}), missing, "the function requires city, which the schema does not"),
    (of(), 3, "tool_from_schema has function=3; give a function"),
]


@cases(("parameters", "function", "says"), *REFUSED)
def test_invalid_schema_is_refused_with_the_remedy(parameters: Any, function: Any, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        tool_from_schema("take", "Take it.", parameters, function)


@cases(
    ("name", "options", "says"),
    ("", {}, r"tool_from_schema has name=''; give .*has description=' '; give"),
    ("take", {"timeuot": 3}, "take has no option timeuot; did you mean timeout"),
    ("take", {"fast": True}, "take has no option fast; the options are return_direct, "),
)
def test_name_and_options_are_checked(name: str, options: Any, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        tool_from_schema(name, (name and "Take it.") or " ", {}, take, **options)


def test_function_that_takes_no_more_gets_no_more() -> None:
    schema = {**of(city={"type": "string"}), "required": ["city"]}
    narrow = tool_from_schema("take", "Take it.", schema, missing)
    assert narrow.parameters["additionalProperties"] is False
    with pytest.raises(InvalidArgumentsError, match="Additional properties"):
        narrow.read({"city": "Oslo", "day": 3})
    assert with_schema(schema).read({"city": "Oslo", "day": 3}) == {"city": "Oslo", "day": 3}
    # A function in C does not say what it takes.
    assert tool_from_schema("most", "Take the most.", of(), max).names == ()


def test_function_may_take_the_call_and_the_run() -> None:
    def tell(city: str, call: CallContext[Any], run: actions.Run) -> str:
        return f"{city} {call.context} {run.inputs['input']}"

    made = tool_from_schema("tell", "Tell it.", {**of(city={"type": "string"}), "required": ["city"]}, tell)
    result = make_executor(act("tell", city="Oslo"), answer(), tools=[made]).run("q", context="c")
    assert result.steps[0].observation == "Oslo c q"


def test_async_function_is_awaited() -> None:
    async def later(**arguments: Any) -> str:
        return json.dumps(arguments)

    made = tool_from_schema("later", "Take it later.", of(), later, timeout=3, retries=2, return_direct=True)
    assert made.is_async
    assert observe(run_async, made, a=1) == '{"a": 1}'
    # The options are those of other tools.
    assert (made.timeout, made.return_direct) == (3, True)
    assert made.retry is not None
    assert made.retry.attempts == 3


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema.validators", None)
    with pytest.raises(ToolDefinitionError, match=r"needs jsonschema; pip install 'graphexec-agents\[schema\]'"):
        with_schema({})
