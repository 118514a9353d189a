"""Answers of a type: an instance or a typed stop, for replies of every kind, within the proved bound."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr
from typing_extensions import TypedDict

import graphexec as gx
from graphexec import errors, models
from graphexec.effects import SaveMemory
from graphexec.errors import OutputError, SnapshotError
from graphexec.executor import Stopped
from graphexec.integrations import langchain
from graphexec.memory import BufferMemory
from graphexec.messages import ChatRequest, Message, ModelReply, ModelRequest, SystemMessage
from graphexec.nodes import output_type
from tests.executor.actors import call
from tests.parameters import cases


class City(BaseModel):
    name: str
    people: int


class Closed(City):
    model_config = ConfigDict(extra="forbid")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float


class Unknown:
    pass


class Aliased(BaseModel):
    n: int = Field(alias="N")


class TwoNames(BaseModel):
    n: int = Field(validation_alias="read", serialization_alias="written")


class Size(TypedDict):
    width: int


PARIS = '{"name": "Paris", "people": 2}'


def make(*replies: ModelReply | str, kind: Any = City, **options: Any) -> gx.AgentExecutor[Any]:
    return gx.create_agent(models.ScriptedModel(replies, repeat_last=True), output_type=kind, **options)


def look_up(name: str) -> str:
    """Look up a city."""
    return f"{name} has 2 people"


class TestAnswers:
    @cases(
        ("kind", "reply", "expected"),
        (City, PARIS, City(name="Paris", people=2)),
        (City, f"```json\n{PARIS}\n```", City(name="Paris", people=2)),
        (City, f"Here it is: {PARIS} Good luck!", City(name="Paris", people=2)),
        (City, "{'name': 'Paris', 'people': 2,}", City(name="Paris", people=2)),
        (Point, '{"x": 1, "y": 2.5}', Point(1.0, 2.5)),
        (Size, '{"width": 3}', {"width": 3}),
        (list[int], "[1, 2]", [1, 2]),
        (list[int], '{"answer": [1, 2]}', [1, 2]),
        (list[City], f"[{PARIS}]", [City(name="Paris", people=2)]),
        (int | None, "null", None),
        (int | str, "seven", "seven"),
        (int, "7", 7),
        (int, '{"answer": 7}', 7),
        (bool, "true", True),
        (date, "2026-11-23", date(2026, 11, 23)),
        (Colour, '"red"', Colour.RED),
        (Literal["yes", "no"], "no", "no"),
        (str, ' {"not": "read"} ', ' {"not": "read"} '),
        (City | Point, '{"x": 1, "y": 2}', Point(1.0, 2.0)),
    )
    def test_answer_is_an_instance(self, kind: Any, reply: str, expected: object) -> None:
        result = make(reply, kind=kind).run("Which?")
        assert result.output == expected
        assert type(result.output) is type(expected)
        assert result.spent["model_calls"] == 1
        assert isinstance(result.ending, gx.AgentFinish)
        assert result.ending.output is result.output

    def test_model_reads_the_errors(self) -> None:
        executor = make('{"name": "Paris"}', PARIS)
        result = executor.run("Which?")
        assert result.output == City(name="Paris", people=2)
        [step] = result.steps
        assert "people: Field required" in step.observation
        assert step.action.log == '{"name": "Paris"}'

    @cases("reasks", *range(3))
    def test_reasks_are_bounded(self, reasks: int) -> None:
        # As pydantic-ai's test_output_validator_retries.
        model = models.ScriptedModel(["no"], repeat_last=True)
        result = gx.create_agent(model, nodes=[output_type(City, reasks=reasks)], kind="tool_calling").run("Which?")
        assert (result.reason, result.spent["model_calls"]) == ("reasks", 1 + reasks)

    def test_several_answers_are_ambiguous(self) -> None:
        other = PARIS.replace("2", "3")
        assert make(f"{PARIS} or {other}", PARIS).run("Which?").spent["model_calls"] == 2
        assert make(f"{PARIS}, so {PARIS}").run("Which?").spent["model_calls"] == 1

    def test_validators_run_once_and_may_raise(self) -> None:
        def refuse(number: int) -> int:
            raise LookupError("unknown")

        doubled = Annotated[int, AfterValidator(lambda number: number * 2)]
        assert make("4", kind=doubled).run("Which?").output == 8
        result = make("4", kind=Annotated[int, AfterValidator(refuse)]).run("Which?")
        assert result.reason == "reasks"
        assert "LookupError: unknown" in result.steps[0].observation

    def test_return_direct_result_is_judged(self) -> None:
        def city(name: str) -> City:
            """Return a city."""
            return City(name=name, people=2)

        direct = gx.Tool("city", city, "Return a city.", return_direct=True)
        model = models.ScriptedModel([call("city", name="Paris")])
        result = gx.create_agent(model, [direct], output_type=City, kind="tool_calling").run("Which?")
        assert result.output == City(name="Paris", people=2)
        assert result.reason == "return_direct"


class TestStops:
    def test_stopped_run_has_no_output(self) -> None:
        result = make("no").run("Which?")
        with pytest.raises(errors.OutputError, match=r"stopped \(reasks\).*look at result.stopped"):
            _ = result.output
        assert result.stopped is not None
        assert str(result) == "Agent stopped due to reask limit."
        assert make("no").invoke("Which?")["output"] == "Agent stopped due to reask limit."

    def test_refused_and_changed_answers_are_no_output(self) -> None:
        @gx.node
        def refuse(finish: gx.AgentFinish) -> gx.AgentFinish | Stopped:
            return Stopped.by_refusal(finish.run, "refuse", "no")

        @gx.node
        def withhold(finish: gx.AgentFinish) -> gx.AgentFinish:
            return gx.AgentFinish({"output": "withheld"})

        refused, later = make(PARIS).plug(refuse).run("Which?"), make(PARIS, nodes=[withhold]).run("Which?")
        with pytest.raises(errors.OutputError, match="refused"):
            _ = refused.output
        with pytest.raises(errors.OutputError, match="a later node has changed the answer"):
            _ = later.output
        assert str(later) == "withheld"


class TestForms:
    def test_snapshot_keeps_the_instance(self) -> None:
        class Day(BaseModel):
            day: date

        memory = BufferMemory(as_messages=True)
        executor = make('{"day": "2026-11-23"}', kind=Day, memory=memory)
        events = list(executor.stream("Which?"))
        done = events[-1]
        assert isinstance(done, gx.Done)
        loaded = gx.Snapshot.from_json(done.snapshot.to_json(), executor.graph)
        # The stored answer is data, of which the result makes an instance.
        stored: Any = loaded.value
        assert stored.answer == {"day": "2026-11-23"}
        assert executor.run(loaded).output == Day(day=date(2026, 11, 23))

    @cases(
        ("kind", "reply", "expected"),
        *((date | datetime, f"{quote}2026-11-29T00:00:00{quote}", datetime(2026, 11, 29)) for quote in ("", '"')),
        (datetime | date, "2026-11-29", date(2026, 11, 29)),
        (datetime | str, '"2026-11-29T00:00:00"', datetime(2026, 11, 29)),
        (str | datetime, "2026-11-29T00:00:00", None),
        (UUID | str, '"00000000-0000-0000-0000-000000000005"', UUID(int=5)),
        (UUID | str, "five", "five"),
        (float | Decimal, '"1.50"', Decimal("1.50")),
        (float | Decimal, "1.5", 1.5),
        (Aliased, '{"N": 1}', Aliased(N=1)),
        (TwoNames, '{"read": 1}', TwoNames.model_validate({"read": 1})),
        (dict[str, Aliased], '{"a": {"N": 1}}', {"a": Aliased(N=1)}),
        (Annotated[int, AfterValidator(lambda number: number * 2)], "4", 8),
        (list[tuple[int, str]], '[[1, "a"]]', [(1, "a")]),
    )
    def test_run_that_is_killed_has_the_same_answer(self, kind: Any, reply: str, expected: Any) -> None:
        def fail(effect: SaveMemory) -> None:
            saved.append(effect.outputs["output"])
            raise OSError("the disk is full")

        saved: list[Any] = []
        memory = BufferMemory(as_messages=True)
        whole = make(reply, kind=kind).run("Which?").output
        executor = make(reply, kind=kind, memory=memory, handlers={SaveMemory: fail})
        with pytest.raises(OSError, match="full") as caught:
            executor.run("Which?")
        snapshot = gx.snapshot_of(caught.value)
        assert snapshot is not None
        loaded = gx.Snapshot.from_json(snapshot.to_json(), executor.graph)
        resumed = make(reply, kind=kind, memory=memory).run(loaded)
        with pytest.raises(OSError, match="full"):
            executor.run(loaded)
        # The nodes after the type's own get the instance, too.
        for output in (whole, resumed.output, *saved):
            assert output == (whole if expected is None else expected)
            assert type(output) is type(whole if expected is None else expected)
        assert resumed.spent["model_calls"] == 1

    def test_answer_of_another_type_is_refused(self) -> None:
        memory = BufferMemory(as_messages=True)
        *_, done = make("5", kind=int, memory=memory).stream("Which?")
        assert isinstance(done, gx.Done)
        other = make(PARIS, memory=memory)
        result = other.run(gx.Snapshot.from_json(done.snapshot.to_json(), other.graph))
        with pytest.raises(OutputError, match=r"the stored answer is no City: .*resume the run with the output type"):
            _ = result.output

    def test_secret_answer_is_refused(self) -> None:
        for kind, reply in ((SecretStr, "five"), (dict[str, SecretStr], '{"key": "five"}')):
            *_, done = make(reply, kind=kind, memory=BufferMemory(as_messages=True)).stream("Which?")
            assert isinstance(done, gx.Done)
            with pytest.raises(SnapshotError, match=r"a secret.*get_secret_value") as caught:
                done.snapshot.to_json()
            assert "five" not in str(caught.value)

    def test_answer_is_json_elsewhere(self) -> None:
        memory = BufferMemory(as_messages=True)
        executor = make(PARIS, memory=memory)
        written = '{"name":"Paris","people":2}'
        assert str(executor.run("Which?")) == written
        assert memory.history.turns()[0].output == written
        assert list(executor.stream_answer("Which?")) == [written]
        assert executor.invoke("Which?")["output"] == City(name="Paris", people=2)
        turns = langchain.iterate(executor, "Which?")
        list(turns)
        assert turns.result.output == City(name="Paris", people=2)
        # Copies of an executor stay typed.
        executor = make(PARIS).with_limits(make(PARIS).limits)
        assert executor.with_graph(executor.graph).run("Which?").output == City(name="Paris", people=2)
        assert executor.with_handlers({}).run("Which?").output == City(name="Paris", people=2)


class Asked:
    """Collects requests."""

    provider = "openai"
    name = "gpt-5"

    def __init__(self, reply: str) -> None:
        self.requests: list[ModelRequest] = []
        self._reply = reply

    def __call__(self, request: ModelRequest) -> str:
        self.requests.append(request)
        return self._reply

    @property
    def first(self) -> ChatRequest:
        request = self.requests[0]
        assert isinstance(request, ChatRequest)
        return request


def system_of(messages: Any) -> str:
    first: Message = messages[0]
    assert isinstance(first, SystemMessage)
    return first.content


class TestRequests:
    def test_agent_without_tools_has_the_schema(self) -> None:
        asked = Asked(PARIS)
        executor = gx.create_agent(asked, output_type=City)
        executor.run("Which?")
        assert asked.first.schema == City.model_json_schema()
        assert system_of(asked.first.messages) == "Your final answer is JSON with the fields name, people."
        assert executor.agent.kind == "tool_calling"

    def test_schema_of_a_reply_is_an_object_or_none(self) -> None:
        asked = Asked('{"answer": [1]}')
        assert gx.create_agent(asked, output_type=list[int]).run("Which?").output == [1]
        assert asked.first.schema is not None
        assert asked.first.schema["required"] == ["answer"]
        asked = Asked("hello")
        assert gx.create_agent(asked, output_type=str).run("Hi").output == "hello"
        assert asked.first.schema is None

    def test_structured_agent_has_the_schema_in_its_answer(self) -> None:
        asked = Asked(f'{{"action": "final_answer", "answer": {PARIS}}}')
        executor = gx.create_agent(asked, [look_up], output_type=City, kind="structured")
        assert executor.run("Hi").output == City(name="Paris", people=2)
        schema: Any = asked.first.schema
        answers = [one["properties"]["answer"] for one in schema["anyOf"] if "answer" in one["properties"]]
        assert [answer["required"] for answer in answers] == [["name", "people"]]

    def test_tools_exclude_the_schema_where_a_server_forbids_both(self) -> None:
        asked = Asked(PARIS)
        gx.create_agent(asked, [look_up], output_type=City, kind="tool_calling").run("Hi")
        assert asked.first.schema is None
        assert "JSON with the fields name, people" in system_of(asked.first.messages)

    def test_other_agents_have_a_note(self) -> None:
        asked = Asked(f"Final Answer: {PARIS}")
        executor = gx.create_agent(asked, [look_up], kind="react", output_type=City)
        assert executor.run("Hi").output == City(name="Paris", people=2)
        assert "JSON with the fields" in str(asked.first.messages[0])
        completion = gx.create_react_agent(models.ScriptedModel([f"Final Answer: {PARIS}"]), [], protocol="completion")
        typed = gx.AgentExecutor(agent=completion, tools=[], nodes=[output_type(City)])
        assert typed.run("Hi").output == City(name="Paris", people=2)

    def test_function_as_agent_may_return_instances(self) -> None:
        agent = gx.callable_agent(lambda steps, inputs: gx.AgentFinish({"answer": {"name": "Paris", "people": 2}}))
        result = gx.AgentExecutor(agent=agent, tools=[], nodes=[output_type(City)]).run({"input": "Hi"})
        assert result.output == City(name="Paris", people=2)
        assert list(result.ending.return_values) == ["answer"]  # type: ignore[union-attr]


@cases(
    ("mistake", "text"),
    *((lambda kind=kind: output_type(kind), "output type") for kind in (None, 5, "City", City(name="a", people=1))),
    *((lambda kind=kind: output_type(kind), "output type") for kind in ([int], lambda: 1, Unknown)),
    (lambda: output_type(City, reasks=-1), "reasks"),
    (
        lambda: make(PARIS).plug(output_type(int, name="number")),
        "number is another output type, and an executor has one; unplug output_type",
    ),
)
def test_invalid_types_are_refused(mistake: Callable[[], object], text: str) -> None:
    with pytest.raises(gx.InputError, match=text):
        mistake()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from(["name", "people", "x"]), one, max_size=3),
    max_leaves=8,
)
NEAR = st.fixed_dictionaries({"name": JSON, "people": JSON}, optional={"more": JSON})
HOSTILE = ["", "[" * 2_000, '{"name":' * 2_000, "\ud800", "NaN", "1e999", "9" * 5_000, "{}" * 2_000]
WRITTEN = (JSON | NEAR).map(json.dumps)
TEXTS = st.one_of(
    WRITTEN,
    st.builds("```json\n{}\n```".format, WRITTEN),
    st.builds("{} {}".format, WRITTEN, WRITTEN),
    st.builds("So {}, then".format, WRITTEN),
    st.text(st.characters(codec=None, categories=None), max_size=20),
    st.sampled_from(
        [
            *(*HOSTILE, "-Infinity", "�", '{"name": "\\ud800", "people": 1}', '{"name": "�", "people": 1}'),
            *("x" * 100000, PARIS, PARIS[:-1]),
        ]
    ),
)
KINDS: list[Any] = [
    *(City, Closed, Point, Size, Colour, list[int], int, float, bool, date, str, Literal["a"], City | Point)
]


@given(st.sampled_from(KINDS), st.lists(TEXTS, min_size=1, max_size=4))
def test_any_reply_is_an_instance_or_a_stop(kind: Any, replies: list[str]) -> None:
    result = make(*replies, kind=kind).run("Which?")
    assert result.spent["model_calls"] <= 15
    if result.stopped is not None:
        assert result.reason in ("reasks", "iterations")
        return
    output: Any = result.output
    if kind is Size:
        assert isinstance(output["width"], int)
    elif kind == list[int]:
        assert all(type(one) is int for one in output)
    elif kind == Literal["a"]:
        assert output == "a"
    elif kind == City | Point:
        assert type(output) in (City, Point)
    else:
        assert type(output) is kind
