"""Arguments as models write them and as authors give examples of them: read as JSON, fresh, and never injected ones."""

import copy
import datetime as dt
import decimal
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

import graphexec as gx
from graphexec import actions, agents, effects, messages, models, tools
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.memory import BufferMemory
from tests.executor.actors import answer, scripted
from tests.parameters import cases
from tests.tools.actors import call_tool


class Filter(BaseModel):
    ids: list[int]
    limit: int = 5


@gx.tool
def search(
    values: list[int],
    text: str = "",
    most: int = 3,
    when: dt.date | dt.datetime | None = None,
    price: float | decimal.Decimal = 0.0,
    by: Filter | None = None,
    each: list[Filter] | None = None,
    more: Any = None,
) -> Any:
    """Search."""
    return locals()


PLAIN: dict[str, Any] = {"values": [1]}
USUAL = {**PLAIN, "text": "", "most": 3, "when": None, "price": 0.0, "by": None, "each": None, "more": None}


@cases(
    ("written", "read"),
    ({"values": "[1, 2]"}, {"values": [1, 2]}),
    # A string stays one where one is wanted, or anything.
    ({**PLAIN, "text": "[1]"}, {"text": "[1]"}),
    ({**PLAIN, "more": "[1]"}, {"more": "[1]"}),
    ({**PLAIN, "by": '{"ids": [1]}'}, {"by": Filter(ids=[1])}),
    ({**PLAIN, "by": {"ids": "[1]", "limit": None}}, {"by": Filter(ids=[1])}),
    ({**PLAIN, "each": '[{"ids": "[1]"}, {"ids": [2]}]'}, {"each": [Filter(ids=[1]), Filter(ids=[2])]}),
    ({**PLAIN, "each": [{"ids": "[1]"}]}, {"each": [Filter(ids=[1])]}),
    ({**PLAIN, "most": None}, {}),
    ({**PLAIN, "when": None}, {}),
    ({**PLAIN, "when": "null", "by": "None", "text": "null"}, {"text": "null"}),
    ({**PLAIN, "when": "2026-11-29"}, {"when": dt.date(2026, 11, 29)}),
    ({**PLAIN, "when": "2026-11-29T00:00:00"}, {"when": dt.datetime(2026, 11, 29)}),
    ({**PLAIN, "price": "1.10"}, {"price": decimal.Decimal("1.10")}),
    ({**PLAIN, "price": 1.5}, {"price": 1.5}),
    # Of an agent of one's own, whose arguments need not be JSON.
    ({**PLAIN, "more": {1: dt.date(2026, 1, 1)}}, {"more": {1: dt.date(2026, 1, 1)}}),
)
def test_argument_is_what_the_model_means(written: Any, read: Any) -> None:
    before = copy.deepcopy(written)
    result = call_tool(search, written)
    assert (result.status, result.observation) == ("ok", USUAL | read)
    assert list(map(type, result.observation.values())) == list(map(type, (USUAL | read).values()))
    assert written == before


@cases(
    ("written", "fact"),
    ({"values": "abc"}, "values: Input should be a valid array"),
    ({"values": None}, "values: Input should be a valid array"),
    ({"values": "null"}, "values: Input should be a valid array"),
    ({**PLAIN, "each": '[{"ids": "[x]"}]'}, "each: Input should be a valid array"),
    ({"values": '["x"]'}, "values: Input should be a valid array"),
    ({**PLAIN, "other": None}, "other: Extra inputs are not permitted"),
)
def test_what_cannot_be_meant_is_refused(written: Any, fact: str) -> None:
    result = call_tool(search, written)
    assert (result.status, fact in result.text) == ("bad_arguments", True)


def test_tool_of_a_schema_reads_arguments_in_the_same_way() -> None:
    properties = {"ids": {"type": "array"}, "most": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["ids"]}
    one = tools.tool_from_schema("search", "Search.", schema, dict[str, Any])
    assert call_tool(one, {"ids": "[1]", "most": None}).observation == {"ids": [1]}


def test_repeated_call_is_seen_though_its_tool_changes_its_arguments() -> None:
    paid: list[Any] = []

    @gx.tool
    def pay(order: dict[str, Any]) -> str:
        """Pay."""
        paid.append(order)
        order["paid"] = True
        return "paid"

    call = '{"action": "pay", "action_input": {"order": {"id": 1}}}'
    model = models.ScriptedModel([call, call, '{"action": "Final Answer", "action_input": "done"}'])
    agent = gx.create_structured_agent(model, [pay], rules=["no_repeats"])
    gx.AgentExecutor(agent=agent, tools=[pay]).run("Pay order 1.")
    assert len(paid) == 1


# ---- definitions


class City(BaseModel):
    """A city."""

    city: str


class Clash(BaseModel):
    """An argument with the name of the call."""

    call: str


def look(city: str, call: gx.CallContext[Any]) -> str:
    return f"{city} {type(call).__name__}"


def visit(town: str) -> str:
    return town


AS_CALL = "receives the run or the call as call"


def test_function_with_a_schema_of_its_own_gets_the_call() -> None:
    one = gx.Tool.from_function(look, args_schema=City, name="look")
    assert call_tool(one, {"city": "Oslo"}).text == "Oslo CallContext"


@cases(
    ("define", "fact"),
    (lambda: gx.Tool.from_function(look, args_schema=Clash), AS_CALL),
    (lambda: gx.Tool.from_function(visit, args_schema=City), "does not take city"),
    (
        lambda: tools.tool_from_schema("x", "d", {"type": "object", "properties": {"call": {}, "city": {}}}, look),
        AS_CALL,
    ),
)
def test_function_that_does_not_fit_its_schema_is_refused(define: Any, fact: str) -> None:
    with pytest.raises(ToolDefinitionError, match=fact):
        define()


def test_memory_that_saves_another_input_is_refused_when_the_executor_is_made() -> None:
    prompt = "{tools}{tool_names}{agent_scratchpad}{question}{chat_history}"
    agent = gx.create_react_agent(models.ScriptedModel([]), [], prompt=prompt)
    with pytest.raises(InputError, match="make the memory with input_key='question'"):
        gx.AgentExecutor(agent=agent, tools=[], memory=BufferMemory())
    assert gx.AgentExecutor(agent=scripted(answer()), tools=[], memory=BufferMemory())


# ---- errors


def noted(message: str, note: str) -> ValueError:
    error = ValueError(message)
    error.add_note(note)
    return error


def in_groups(error: Exception, levels: int) -> Exception:
    for _ in range(levels):
        error = ExceptionGroup("several", [error])
    return error


@cases(
    ("error", "told"),
    (
        ExceptionGroup("unhandled errors in a TaskGroup", [ConnectionError("refused by db1"), ValueError("x")]),
        "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions): ConnectionError: refused by db1; "
        "ValueError: x",
    ),
    (noted("wrong unit", "It takes metres."), "ValueError: wrong unit; It takes metres."),
    *((in_groups(KeyError("deep"), levels), "KeyError: 'deep'") for levels in (2, 4, 5, 900)),
    (ExceptionGroup("many", [ValueError(str(number)) for number in range(9)]), "ValueError: 4; and 4 more"),
)
def test_notes_and_exceptions_of_a_group_are_told(error: Exception, told: str) -> None:
    @gx.tool
    def fails() -> None:
        """Fail."""
        raise error

    assert told in call_tool(fails, {}).text


def test_cause_is_told_once() -> None:
    @gx.tool
    def fails() -> None:
        """Fail."""
        raise RuntimeError("no answer") from ConnectionError("refused by db1")

    text = call_tool(fails, {}).text
    assert text == "fails failed: RuntimeError: no answer (because of ConnectionError: refused by db1)"


# ---- examples that an author gives, and what each agent shows of them


def make_forecast(examples: Any) -> tools.AnyTool:
    @gx.tool(examples=examples)
    def forecast(city: str, day: dt.date | None = None) -> str:
        """Forecast the weather."""
        raise AssertionError("no tool is called for an example")

    return forecast


def request_of(agent: agents.Agent) -> messages.ChatRequest:
    effect = agent.ask(actions.Run({"input": "q", "chat_history": []}))
    assert isinstance(effect, effects.CallModel)
    assert isinstance(effect.request, messages.ChatRequest)
    return effect.request


def test_arguments_alone_are_an_example() -> None:
    whole = tools.ToolExample({"city": "Oslo", "day": "2026-01-02"}, "How will it be?", "rain", "It rains.")
    assert make_forecast([{"city": "Oslo"}, whole]).examples == (tools.ToolExample({"city": "Oslo"}), whole)
    assert make_forecast(()).examples == ()


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@cases(
    "make", partial(tools.tool_from_schema, "look", "Look.", SCHEMA, look), partial(tools.Tool, "look", look, "Look.")
)
def test_other_forms_of_tools_have_examples(make: Callable[..., tools.AnyTool]) -> None:
    made = make(examples=[{"city": "Oslo"}], repeatable=True)
    assert (made.examples, made.repeatable) == ((tools.ToolExample({"city": "Oslo"}),), True)
    says = r"example 1 of look does not fit it: look was not called: .*town"
    with pytest.raises(ToolDefinitionError, match=says):
        make(examples=[{"town": "Oslo"}])


# Wrong on purpose.
NO_STRING: Any = 3


@cases(
    ("examples", "message"),
    ("Oslo", 'forecast has examples=\'Oslo\'; give a list of arguments, such as [{"city": ..., "day": ...}], or of'),
    ({"city": "Oslo"}, "forecast has examples={'city': 'Oslo'}; give a list of arguments"),
    (tools.ToolExample({"city": "Oslo"}), "forecast has examples=ToolExample("),
    (3, "forecast has examples=3; give a list"),
    (["Oslo"], 'is \'Oslo\'; give its arguments by name, such as {"city": ..., "day": ...}'),
    ([{"town": "Oslo"}], "does not fit it: forecast was not called: city: Field required"),
    ([{"city": 3}], "does not fit it: forecast was not called: city:"),
    ([{"city": "Oslo", "day": dt.date(2026, 1, 2)}], "has arguments that are not JSON: "),
    ([tools.ToolExample({"city": "Oslo"}, question=NO_STRING)], "has question=3; give a string"),
)
def test_invalid_examples_are_refused(examples: Any, message: str) -> None:
    is_list = isinstance(examples, list)
    with pytest.raises(ToolDefinitionError) as raised:
        make_forecast([{"city": "Oslo"}, *examples] if is_list else examples)
    assert str(raised.value).startswith(f"example 2 of forecast {message}" if is_list else message)


SHOWN = 'For example: {"city": "Ærø"}, {"city": "Oslo", "day": "2026-01-02"}'


@cases(
    ("examples", "description"),
    ([{"city": "Ærø"}, {"city": "Oslo", "day": "2026-01-02"}], f"Forecast the weather.\n\n{SHOWN}"),
    ((), "Forecast the weather."),
)
def test_tool_calling_agent_describes_the_examples(examples: Any, description: str) -> None:
    (spec,) = request_of(gx.create_tool_calling_agent(models.ScriptedModel([]), [make_forecast(examples)])).tools
    assert spec.description == description


# Any: the functions differ in their options.
AGENTS: Mapping[str, Callable[..., agents.Agent]] = {
    name: getattr(agents, name) for name in agents.__all__ if name.startswith("create_")
}


@cases("name", *AGENTS)
def test_every_agent_shows_the_examples(name: str) -> None:
    @gx.tool(
        name="Intermediate Answer", examples=[{"question": "How high is Ærø?"}, {"question": "Who?", "best_of": 2}]
    )
    def search(question: str, best_of: int = 1) -> str:
        """Look a question up."""
        raise AssertionError("no tool is called for an example")

    request = request_of(AGENTS[name](models.ScriptedModel([]), [search]))
    shown = [*(message.content for message in request.messages), *(spec.description for spec in request.tools)]
    assert all(any(text in one for one in shown) for text in ("How high is Ærø?", '{"question": "Who?", "best_of": 2}'))
