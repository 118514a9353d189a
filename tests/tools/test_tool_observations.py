"""Results of tools: kept as objects, shown to the model as text, and shortened if they are too long."""

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import uuid
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

import graphexec as gx
from graphexec import actions, effects, messages, models
from graphexec.kernel.serialization import format_json, parse_json
from graphexec.messages.observations import format_observation, split_observation
from graphexec.tools.calling import make_tool_handler
from tests.executor import actors
from tests.parameters import cases
from tests.tools.actors import HOW, call_tool, tool_of


class Reading(BaseModel):
    at: dt.datetime
    celsius: decimal.Decimal


@dataclasses.dataclass(frozen=True, slots=True)
class Station:
    name: str
    last: Reading | None = None


class Pair(NamedTuple):
    low: int
    high: int


class Unit(enum.Enum):
    CELSIUS = "C"


class Unsayable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


CIRCULAR: list[Any] = []
CIRCULAR.append(CIRCULAR)


READING = Reading(at=dt.datetime(2026, 2, 28, 7, 30), celsius=decimal.Decimal("-1.50"))
DEEP: list[Any] = functools.reduce(lambda inner, _: [inner], range(10_000), [])


# What tools return, and its text for a model.
RETURNED: list[tuple[Any, str]] = [
    (READING, '{"at":"2026-02-28T07:30:00","celsius":"-1.50"}'),
    (Station("north", READING), '{"name":"north","last":{"at":"2026-02-28T07:30:00","celsius":"-1.50"}}'),
    ({"station": Station("north")}, '{"station":{"name":"north","last":null}}'),
    ({1: {2.5}}, '{"1":[2.5]}'),
    (dt.datetime(2026, 2, 28, 7, 30, tzinfo=dt.UTC), '"2026-02-28T07:30:00Z"'),
    (dt.timedelta(minutes=5), '"PT5M"'),
    (decimal.Decimal("0.10"), '"0.10"'),
    ({7}, "[7]"),
    (frozenset({"a"}), '["a"]'),
    (b"abc", '"abc"'),
    (b"\xff", "b'\\xff'"),
    (Pair(1, 2), "[1,2]"),
    (Unit.CELSIUS, '"C"'),
    (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (ValueError("x"), '"x"'),
    (1 + 2j, '"1+2j"'),
    (Unsayable(), "<Unsayable>"),
    ([Unsayable()], "<list>"),
    (DEEP, "<list>"),
    (42, "42"),
    (None, "null"),
    ("", ""),
    ({"a": [1, None]}, '{"a":[1,null]}'),
    (dt.date(2026, 2, 28), '"2026-02-28"'),
    (Opaque(), '"<opaque>"'),
    (b"\xff\x00", "b'\\xff\\x00'"),
    ({"a": "\ud800"}, "{'a': '\\ud800'}"),
    (CIRCULAR, "[[...]]"),
    (float("nan"), "NaN"),
    *((text, text) for text in ("naïve ☃ 日本 \U0001f600", "x" * 1_000_000)),
]


@pytest.mark.medium
@HOW
@cases(("returned", "text"), *RETURNED)
def test_object_is_kept_and_shown_as_json(run: actors.Running, returned: Any, text: str) -> None:
    model = models.ScriptedModel(["Action: give\nAction Input:", "Final Answer: done"])
    one = tool_of(lambda: returned)
    (step,) = run(gx.AgentExecutor(agent=gx.create_react_agent(model, [one]), tools=[one])).steps
    assert type(step.observation) is type(returned)
    assert actors.prompt(model.requests[1]).endswith(f"\nObservation: {text}\nThought: ")


class Aliased(BaseModel):
    """A model whose JSON has other names, and not every field."""

    city_name: str = Field(serialization_alias="city")
    secret: str = Field(default="s", exclude=True)


class Colour(enum.StrEnum):
    RED = "red"


class Crash(Exception):
    """Ends a run after its first step."""


def resumed(returned: object) -> gx.AgentStep:
    """Return the step of a tool that returned this, in a run that was stored as JSON and resumed."""
    crashed: list[bool] = []

    def agent(steps: actions.Steps, inputs: dict[str, Any]) -> Any:
        if steps and not crashed:
            crashed.append(True)
            raise Crash
        return actors.answer() if steps else actors.act("give")

    executor = gx.AgentExecutor(agent=agent, tools=[tool_of(lambda: returned)])
    text = actors.snapshot_after(Crash, lambda: executor.run("q")).retried().to_json()
    assert gx.Snapshot.from_json(text, executor.graph).to_json() == text
    return executor.run(gx.Snapshot.from_json(text, executor.graph)).steps[0]


def test_images_beside_odd_text_survive_a_resume() -> None:
    image = messages.Image("https://example.org/a.png")
    for returned in (image, [image, "text"], ["\ud800", image], {"odd": "\ud800", "image": image}):
        assert split_observation(resumed(returned).observation) == split_observation(returned)


@cases(
    ("returned", "stored"),
    (Aliased(city_name="Oslo"), {"city": "Oslo"}),
    ([Aliased(city_name="Oslo")], [{"city": "Oslo"}]),
    (Station("north", READING), {"name": "north", "last": {"at": "2026-02-28T07:30:00", "celsius": "-1.50"}}),
    (Pair(1, 2), [1, 2]),
    (Colour.RED, "red"),
    ("text", "text"),
    (1.5, 1.5),
    (None, None),
    (decimal.Decimal("1.50"), '"1.50"'),
    (float("nan"), "NaN"),
    (DEEP, "<list>"),
    *((value, value) for value in (42, "", {"a": [1, {"b": None}]}, "☃", [1.5, True])),
)
def test_resumed_observation_is_json_data(returned: Any, stored: Any) -> None:
    assert resumed(returned).observation == stored
    assert type(resumed(returned).observation) is type(stored)


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(st.characters()),
        st.binary(),
        st.decimals(),
        st.datetimes(),
        st.uuids(),
        st.builds(Station, st.text()),
        st.builds(Aliased, city_name=st.text()),
    ),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.one_of(st.text(st.characters()), st.integers()), inner),
        st.tuples(inner, inner),
        st.builds(Station, st.text(), inner),
    ),
    max_leaves=8,
)


@given(VALUES)
def test_any_observation_has_the_same_text_in_json(value: Any) -> None:
    adapter = TypeAdapter(effects.ToolResult)
    stored = parse_json(format_json(adapter.dump_python(effects.ToolResult(value), mode="json")))
    assert format_observation(stored["observation"]) == format_observation(value)


CUT = "[... {} more characters were cut; ask for less]"


@cases(
    ("returned", "settings", "defaults", "text"),
    ("abcdef", {}, {"max_observation": 4}, f"abcd\n{CUT.format(2)}"),
    ("abcdef", {"max_observation": 6}, {"max_observation": 4}, "abcdef"),
    ("abcdef", {"max_observation": 1}, {"max_observation": 4}, f"a\n{CUT.format(5)}"),
    ("abcdef", {}, {}, "abcdef"),
    # The JSON of an object is shortened.
    (Station("north"), {"max_observation": 9}, {}, f'{{"name":"\n{CUT.format(19)}'),
)
def test_max_observation_is_the_default_for_tools(returned: object, settings: Any, defaults: Any, text: str) -> None:
    result = call_tool(tool_of(lambda: returned, **settings), {}, **defaults)
    assert (result.observation, result.text) == (returned, text)


@cases("policy", "observe", "give failed: ValueError: {}".format)
def test_text_of_an_exception_is_shortened(policy: Any) -> None:
    @gx.tool(max_observation=30, on_error=policy)
    def give() -> str:
        """Fail with a page."""
        raise ValueError("<html>" * 1_000)

    result = call_tool(give, {})
    assert result.observation == "give failed: ValueError: " + "<html>" * 1_000
    assert result.text == f"give failed: ValueError: <html\n{CUT.format('5,995')}"


def test_corrections_of_a_call_are_never_shortened() -> None:
    handler = make_tool_handler({"give": tool_of(lambda: "x", max_observation=1)}, max_observation=1)
    for call in (effects.CallTool("give", {"x": 1}), effects.CallTool("nope", {})):
        assert actors.reply_of(handler, call).excerpt.max_text is None


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.lists(st.text() | st.integers()), st.integers(1, 50))
def test_shortened_text_respects_the_length(observation: Any, most: int) -> None:
    result = call_tool(tool_of(lambda: observation), {}, max_observation=most)
    whole = format_observation(observation)
    assert result.observation == observation
    assert (result.text == whole) == (len(whole) <= most)
    if len(whole) > most:
        assert result.text == f"{whole[:most]}\n{CUT.format(len(whole) - most)}"
        assert result.text.encode()


@HOW
def test_return_direct_result_is_not_shortened(run: actors.Running) -> None:
    one = tool_of(lambda: "x" * 100, return_direct=True, max_observation=10)
    assert run(actors.make_executor(actors.act("give"), tools=[one])).output == "x" * 100
