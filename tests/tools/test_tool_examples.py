"""Examples that a tool's author gives, and what each agent shows of them."""

import datetime as dt
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

import graphexec.agents
from graphexec import actions, agents, create_tool_calling_agent, effects, errors, messages, models, tool, tools
from tests.parameters import cases


def make_forecast(examples: Any) -> tools.AnyTool:
    @tool(examples=examples)
    def forecast(city: str, day: dt.date | None = None) -> str:
        """Forecast the weather."""
        raise AssertionError("no tool is called for an example")

    return forecast


def look(city: str) -> str:
    return city


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
    with pytest.raises(errors.ToolDefinitionError, match=says):
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
    with pytest.raises(errors.ToolDefinitionError) as raised:
        make_forecast([{"city": "Oslo"}, *examples] if is_list else examples)
    assert str(raised.value).startswith(f"example 2 of forecast {message}" if is_list else message)


SHOWN = 'For example: {"city": "Ærø"}, {"city": "Oslo", "day": "2026-01-02"}'


@cases(
    ("examples", "description"),
    ([{"city": "Ærø"}, {"city": "Oslo", "day": "2026-01-02"}], f"Forecast the weather.\n\n{SHOWN}"),
    ((), "Forecast the weather."),
)
def test_tool_calling_agent_describes_the_examples(examples: Any, description: str) -> None:
    (spec,) = request_of(create_tool_calling_agent(models.ScriptedModel([]), [make_forecast(examples)])).tools
    assert spec.description == description


# Any: the functions differ in their options.
AGENTS: Mapping[str, Callable[..., agents.Agent]] = {
    name: getattr(graphexec.agents, name) for name in graphexec.agents.__all__ if name.startswith("create_")
}


@cases("name", *AGENTS)
def test_every_agent_shows_the_examples(name: str) -> None:
    @tool(name="Intermediate Answer", examples=[{"question": "How high is Ærø?"}, {"question": "Who?", "best_of": 2}])
    def search(question: str, best_of: int = 1) -> str:
        """Look a question up."""
        raise AssertionError("no tool is called for an example")

    request = request_of(AGENTS[name](models.ScriptedModel([]), [search]))
    shown = [*(message.content for message in request.messages), *(spec.description for spec in request.tools)]
    assert all(any(text in one for one in shown) for text in ("How high is Ærø?", '{"question": "Who?", "best_of": 2}'))
