"""Tools made by `@tool`, and the parsing of their arguments."""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field

from graphexec import errors, tool
from graphexec.tools import tools_by_name
from graphexec.tools.tool import InvalidArgumentsError
from tests.executor.actors import AnyTool, Running, act, answer, echo, make_executor, observations, run_executor
from tests.kernel.machines import error_message
from tests.parameters import cases
from tests.tools.actors import HOW


class Address(BaseModel):
    street: str
    floor: int = 0


class Person(BaseModel):
    name: str
    home: Address
    friends: list[Address] = []


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@tool
def search(query: str, limit: int = 10) -> str:
    """Search the web."""
    return f"{query}:{limit}"


@tool
def paint(
    wall: Annotated[str, Field(description="Which wall.", min_length=2)],
    colour: Colour,
    mode: Literal["dry", "wet"] = "dry",
    coats: Annotated[int, Field(ge=1)] | None = None,
) -> str:
    """Paint a wall."""
    return f"{wall} {colour} {mode} {coats}"


@tool
def invite(person: Person) -> str:
    """Invite a person."""
    return f"{person.name} of {person.home.street}"


@tool
def total(numbers: list[float]) -> float:
    """Add numbers up."""
    return sum(numbers)


@tool
def due(day: dt.date, at: dt.datetime | None = None) -> str:
    """Say when it is due."""
    return f"{day!r} {at}"


@tool
def ping() -> str:
    """Answer."""
    return "pong"


def test_schema_has_defaults_choices_descriptions_and_bounds() -> None:
    assert search.parameters == {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 10}},
        "required": ["query"],
        "additionalProperties": False,
    }
    properties = paint.parameters["properties"]
    assert properties["wall"] == {"type": "string", "description": "Which wall.", "minLength": 2}
    assert properties["mode"] == {"type": "string", "enum": ["dry", "wet"], "default": "dry"}
    assert properties["coats"] == {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None}
    assert paint.parameters["required"] == ["wall", "colour"]
    assert paint.parameters["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert ping.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def test_function_receives_validated_arguments() -> None:
    calls = (
        act("paint", wall="north", colour="red", coats="2"),
        act("invite", person={"name": "Ada", "home": {"street": "Main"}}),
        act("due", day="2026-02-28"),
        act("search", query="x", limit="3"),
    )
    result = run_executor(lambda: make_executor(*calls, answer(), tools=[paint, invite, due, search]))
    results = ["north Colour.RED dry 2", "Ada of Main", "datetime.date(2026, 2, 28) None", "x:3"]
    assert observations(result) == results


ADA = '{"name": "Ada", "home": {"street": "Main"}}'


@cases(
    ("called", "given_input", "read"),
    # More forms are in the table of docs/reference/replies.md.
    (echo, "\ud800", {"text": "\ud800"}),
    # Brackets alone are no JSON.
    *((echo, text, {"text": text}) for text in ('{"a": 1}["a"]', "{x} = {1, 2", "[draft] hi", 'say {"text": "')),
    *((echo, text, {"text": text}) for text in ("{{a}", "'{'")),
    (total, '{"numbers": [1]}', {"numbers": [1.0]}),
    (invite, ADA, {"person": Person(name="Ada", home=Address(street="Main"))}),
    (due, "2026-02-28", {"day": dt.date(2026, 2, 28)}),
)
def test_string_is_one_argument_or_json_with_all(called: AnyTool, given_input: str, read: dict[str, Any]) -> None:
    assert called.read(given_input) == read


@cases(
    ("called", "given_input", "says"),
    (search, {"limit": 2}, "query: Field required"),
    (search, {"query": "q", "limit": "many"}, "limit: Input should be a valid integer"),
    (search, {"query": "q", "depth": 2}, "depth: Extra inputs are not permitted"),
    (paint, {"wall": "north", "colour": "green"}, "colour: Input should be 'red' or 'blue'"),
    (paint, {"wall": "n", "colour": "red"}, "wall: String should have at least 2 characters"),
    (paint, "north", "its input is not a JSON object with wall, colour, mode, coats"),
    (paint, '{"wall": "north", "col', "its input is not a JSON object with wall, colour, mode, coats"),
    *(
        (echo, text, "its input is not a JSON object with text")
        for text in ('{"text": "a"b"}', "{‘text’: ‘it’s’}", '{"text": 1e999}', "{", '```json\n{"text": "a"}')
    ),
    (invite, {"person": {"name": "Ada", "home": {}}}, "person.home.street: Field required"),
    (total, "[1, x]", "numbers: Input should be a valid array"),
    (total, '[1, "x"]', "numbers.1: Input should be a valid number"),
    (total, "[" * 100_000, "numbers: Input should be a valid array"),
    (ping, {"x": 1}, "x: Extra inputs are not permitted"),
)
def test_invalid_argument_error_has_name_and_signature(called: AnyTool, given_input: Any, says: str) -> None:
    text = error_message(InvalidArgumentsError, called.read, given_input)
    assert text.startswith(f"{called.name} was not called: {says}"), text
    assert text.endswith(f"Call it as {called.signature}.")


def test_many_errors_are_counted_but_not_listed() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"numbers\.4: .*; and 9995 more\. Call it as") as raised:
        total.read({"numbers": ["x"] * 10_000})
    assert len(str(raised.value)) < 1000


@given(st.text(st.characters()) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    for one in (echo, search, paint, invite, total, due, ping):
        with contextlib.suppress(InvalidArgumentsError):
            assert isinstance(one.read(text), dict)


TRUNCATED = st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text()), min_size=1)


@given(TRUNCATED, st.integers(1), st.sampled_from(["", "```json\n", "``` ", " "]), st.booleans())
def test_truncated_json_is_never_a_string(value: dict[str, Any], cut: int, opening: str, is_list: bool) -> None:
    text = json.dumps([value] if is_list else value)
    beginning = text[: len('[{"') + cut % (len(text) - len('[{"'))]
    for called in (echo, ping):
        with pytest.raises(InvalidArgumentsError, match="its input is not a JSON object"):
            called.read(opening + beginning)


@HOW
@cases("timeout", None, 20)
def test_arguments_may_have_any_python_name(run: Running, timeout: float | None) -> None:
    @tool(timeout=timeout)
    def named(
        schema: str, json: int, copy: str = "c", self: int = 1, func: int = 2, cls: int = 3, _under: int = 4
    ) -> str:
        """Take odd names."""
        return f"{schema} {json} {copy} {self} {func} {cls} {_under}"

    arguments = {"schema": "s", "json": "7", "self": 5, "func": 6, "cls": 8, "_under": 9}
    result = run(make_executor([act("named", **arguments)] * 2, answer(), tools=[named]))
    assert [step.observation for step in result.steps] == ["s 7 c 5 6 8 9"] * 2


def test_calling_a_tool_calls_its_function() -> None:
    assert search("x", limit=3) == "x:3"
    assert repr(search) == "<tool search(query: string, limit?: integer)>"
    assert (search.spec.name, search.spec.description) == ("search", "Search the web.")
    renamed = tool(name="find", description="Find it.")(search.function)
    assert (renamed.name, renamed.description) == ("find", "Find it.")


def starred(*texts: str) -> str:
    """Take any."""
    return ""


def keyworded(**texts: str) -> str:
    """Take any."""
    return ""


def positional(text: str, /) -> str:
    """Take one."""
    return text


def defaulted(text: str = Field(description="A text.")) -> str:
    """Take something."""
    return text


# Type checkers would reject a function without an annotation, or with one that is nowhere.
def taking(name: str, doc: str | None = "Take something.", **annotations: object) -> Any:
    """Return a function of this name that takes `text`, with this docstring and these annotations."""

    def take(text: Any) -> str:
        return str(text)

    take.__name__, take.__doc__, take.__annotations__ = name, doc, annotations
    return take


REFUSED: list[tuple[Any, str]] = [
    (starred, r"starred takes \*texts: .*, which has no schema; name each argument"),
    (keyworded, r"keyworded takes \*\*texts: .*, which has no schema; name each argument"),
    (positional, "positional takes text by position only; remove the / from its parameters"),
    (taking("mute", None, text=str), "mute has no docstring, so no model knows what it does; write one line"),
    (taking("unannotated"), "unannotated does not annotate text; write text: str, say"),
    (taking("lost", text="Nowhere"), "lost has an annotation that cannot be resolved: name 'Nowhere' is not defined"),
    (taking("schemaless", text=contextlib.ExitStack), "schemaless has an argument without a JSON schema: "),
    (defaulted, r"the default of text in defaulted is Field\(...\), .*; write text: Annotated\[..., Field"),
    ("search", r"tool was given the string 'search'; write @tool\(name='search'\), say"),
    (3, "tool was given 3; write @tool above a function, with def"),
    (object(), "tool was given <object object at .*>; write @tool above a function, with def"),
    (search, "search is a tool already; write @tool once"),
]
# Seconds that no call may take.
NO_TIME = (0, -1, float("nan"), float("inf"), True)

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": 3}, "a tool has name=3; give a name, as a string, or None for that of the function"),
    ({"name": ""}, "a tool has name=''; give a name, as a string, or None for that of the function"),
    ({"description": 3}, "a tool has description=3; give a string, or None for the docstring"),
    *(({name: "no"}, f"a tool has {name}='no'; give True or False") for name in ("return_direct", "repeatable")),
    *(({"timeout": wrong}, f"a tool has timeout={wrong}; give seconds above 0, or None for none") for wrong in NO_TIME),
    ({"timeout": "3", "name": "search"}, "search has timeout='3'; give seconds above 0, or None for none"),
    ({"on_error": 3, "retries": "2"}, "a tool has on_error=3; give .*; a tool has retries='2'; give a whole number"),
]


LISTS: list[Any] = [None, 3, "search", {"search": search}]
TOOLS: list[tuple[list[Any], str]] = [
    ([search.function], "search is not a tool; decorate the function with @tool"),
    ([echo, tool(name="echo")(search.function)], "two tools are named echo; rename one"),
]
MISTAKES: list[tuple[Callable[[], object], str]] = [
    *((partial(tool, function), says) for function, says in REFUSED),
    *((partial(tool, **options), f"^{says}") for options, says in WRONG),
    *((partial(tools_by_name, one), f"^tools is {re.escape(repr(one))}; give a list of tools") for one in LISTS),
    *((partial(make_executor, answer(), tools=tools), says) for tools, says in TOOLS),
]


@cases(("make", "says"), *MISTAKES)
def test_mistake_is_rejected_with_the_remedy(make: Callable[[], object], says: str) -> None:
    with pytest.raises(errors.ToolDefinitionError, match=says):
        make()


@cases("error", TypeError, ZeroDivisionError, KeyError)
def test_unexpected_validator_error_is_an_observation(error: type[Exception]) -> None:
    def picky(value: object) -> object:
        raise error("odd")

    def take(text: Annotated[str, BeforeValidator(picky)]) -> str:
        """Take a text."""
        return text

    # A string annotation cannot refer to a local class.
    take.__annotations__["text"] = Annotated[str, BeforeValidator(picky)]
    result = run_executor(lambda: make_executor(act("take", text="a"), answer(), tools=[tool(take)]))
    (step,) = result.outcome.steps
    assert step.status == "error"
    assert str(step.observation).startswith(f"take failed: {error.__name__}: ")


def test_options_are_read_only() -> None:
    executor: Any = make_executor(answer(), tools=[])
    with pytest.raises(AttributeError):
        executor.max_iterations = 3
