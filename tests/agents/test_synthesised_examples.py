"""Synthesised examples: calls that fit any tool, questions made of docstrings, and prompts of a moderate length."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, actions, agents, create_structured_agent, effects, errors, models, tool
from graphexec.agents.small.questions import labelled_question, natural_question
from graphexec.agents.small.synthesis import GREETING
from graphexec.messages import ChatRequest
from graphexec.tools import AnyTool, ToolExample
from graphexec.tools.everyday import EVERYDAY_TOOLS
from tests.executor.actors import echo
from tests.parameters import cases


def never_called(*args: object, **kwargs: object) -> str:
    raise AssertionError("no tool is called for an example")


def tool_of(annotations: Mapping[str, Any], *, optional: int = 0, doc: str = "Do it.") -> AnyTool:
    """Return a tool with these arguments, the last ones optional."""
    names = list(annotations)
    required = names[: len(names) - optional]
    written = ", ".join(name if name in required else f"{name}=None" for name in names)
    space: dict[str, Any] = {"never_called": never_called}
    exec(f"def act({written}):\n    return never_called({', '.join(names)})", space)
    space["act"].__annotations__.update(annotations)
    space["act"].__doc__ = doc
    return tool(space["act"])


def calls_of(*tools: AnyTool) -> list[tuple[str, dict[str, Any]]]:
    # Two to four tools have two examples each.
    several = agents.synthesised_examples((*tools, echo))
    calls = [(name, dict(arguments)) for one in several for name, arguments, _ in one.calls]
    return [(name, arguments) for name, arguments in calls if name != echo.name]


# ---- questions


CONVERT = "Convert an amount of money from one currency to another"
AMOUNT = {"amount": 20, "source": "EUR", "target": "USD"}
PRICE, LAMP = "Return the price of an item in the shop", {"item": "lamp"}
WEATHER = "Returns the current weather for a given location."
DATE = "What is today's date and weekday?"


@cases(
    ("description", "arguments", "question"),
    (f"{PRICE}.", LAMP, "What is the price of lamp in the shop?"),
    (WEATHER, {"location": "Oslo"}, "What is the current weather for Oslo?"),
    ("Calculate an arithmetic expression, such as (2 + 3) * 4.", {"expression": "6 * 7"}, "What is 6 * 7?"),
    ("Find out where a parcel is.", {"parcel_id": "K-52"}, "Where is K-52?"),
    ("Tell which day of the week a date is.", {"day": "2031-05-17"}, "Which day of the week is 2031-05-17?"),
    ("Tell how many pieces of an item are in stock", {"item": "lamp"}, "How many pieces of lamp are in stock?"),
    ("Search for the recipe of a dish.", {"dish": "pie"}, "What is the recipe of pie?"),
    ("Add two numbers.", {"a": 3, "b": 4}, "Add 3 and 4."),
    ("Switch a lamp on or off.", {"lamp": "red", "state": "on"}, "Switch red on or off: state on."),
    (f"{CONVERT}.", AMOUNT, "Convert 20 from EUR to USD."),
    ("The number of people in a city.", {"city": "Oslo"}, "What is the number of people in Oslo?"),
    ("Set a reminder.", {"text": "Call", "hour": 9}, "Set a reminder: text Call, hour 9."),
    ("Tell today's date and weekday.", {}, DATE),
    ("Tell whether a shop is open.", {"shop": "Aldi"}, "Tell whether Aldi is open."),
    ("Convert from one unit to another.", {"value": 3}, "Convert from one unit to another: value 3."),
    ("Check if a domain name is free.", {"domain": "a.org"}, "Check if a.org is free."),
    ("Total of the values.\n\nMore text.", {"values": [1, 2]}, "Total of [1, 2]."),
    ("Store a record.", {"entry": {"name": "Ada"}}, 'Store {"name": "Ada"}.'),
    ("Get.", {"x": 1}, "Get: x 1."),
    ("\n", {}, "Use the tool."),
    ("Look up the phone number of an employee.", {"fullName": "Ada"}, "What is the phone number of Ada?"),
)
def test_natural_question_is_docstring_with_values(description: str, arguments: dict[str, Any], question: str) -> None:
    assert natural_question(description, arguments) == question


@cases(
    ("description", "arguments", "question"),
    (f"{PRICE}.", LAMP, f"{PRICE}: item lamp."),
    ("Add two numbers.", {"a": 3, "b": 4}, "Add two numbers: a 3, b 4."),
    (f"{CONVERT}.", AMOUNT, f"{CONVERT}: amount 20, source EUR, target USD."),
    ("Tell today's date and weekday.", {}, DATE),
    ("Total of the values.\n\nMore text.", {"values": [1, 2]}, "Total of the values: values [1, 2]."),
    ("Get.", {"x": 1}, "Get: x 1."),
    ("\n", {}, "Use the tool."),
)
def test_labelled_question_has_names_of_the_values(description: str, arguments: dict[str, Any], question: str) -> None:
    assert labelled_question(description, arguments) == question


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.integers()), max_size=4))
def test_any_docstring_makes_a_question(description: str, arguments: dict[str, Any]) -> None:
    for ask in (labelled_question, natural_question):
        assert ask(description, arguments)[-1] in "?."


@cases(
    "description",
    "Return " + "very " * 200 + "long text of a city",
    "返回城市的天气。" * 900,
    "返回城市的天气" * 900,
    "l" * 5000,
)
def test_long_docstring_makes_a_short_question(description: str) -> None:
    assert len(natural_question(description, {"city": "Oslo"})) < 140


# ---- examples


@tool
def stock_level(item: str) -> int:
    """Tell how many pieces of an item are in stock."""
    raise AssertionError("no tool is called for an example")


def test_examples_of_few_tools_have_two_forms() -> None:
    first, _, second, _, last = agents.synthesised_examples([stock_level, echo])
    question = "Tell how many pieces of an item are in stock: item lantern."
    assert first == agents.WorkedExample(question, (("stock_level", {"item": "lantern"}, "317"),), "317")
    assert second.question == "How many pieces of rucksack are in stock?"
    assert last == GREETING
    # A single tool has one example.
    first, last = agents.synthesised_examples([stock_level])
    assert (first.question, last) == ("How many pieces of lantern are in stock?", GREETING)


@cases(("tools", "examples"), (0, 1), (1, 2), (2, 5), (4, 9), (5, 6), (6, 7), (11, 12), (30, 12))
def test_number_of_examples_is_bounded(tools: int, examples: int) -> None:
    several = [tool(name=f"echo_{number}")(echo.function) for number in range(tools)]
    assert len(agents.synthesised_examples(several)) == examples


def test_examples_of_the_author_replace_synthesised_ones() -> None:
    whole = ToolExample({"text": "a"}, question="Say a!", observation="a", answer="It says a.")
    made = tool(examples=[whole, {"text": "b"}, {"text": "c"}])(echo.function)
    one, two, three, _ = agents.synthesised_examples([made])
    assert one == agents.WorkedExample("Say a!", (("echo", {"text": "a"}, "a"),), "It says a.")
    assert (two.question, two.calls[0][1]) == ("Say it again: text b.", {"text": "b"})
    assert two.answer == two.calls[0][2]
    assert three.calls[0][1] == {"text": "c"}
    with pytest.raises(errors.ToolDefinitionError, match="two tools are named echo"):
        agents.synthesised_examples([echo, echo])


def test_structured_agent_shows_examples_by_default() -> None:
    request = request_of(create_structured_agent(models.ScriptedModel([]), [echo]))
    assert [message.content for message in request.messages][1:7] == [
        "Say it again: text The lantern is green.",
        '{"action": "echo", "action_input": {"text": "The lantern is green"}}',
        "Observation: 317",
        '{"action": "final_answer", "answer": "317"}',
        "Hello!",
        '{"action": "final_answer", "answer": "Hello! How can I help you?"}',
    ]
    without = request_of(create_structured_agent(models.ScriptedModel([]), [echo], examples=()))
    assert [message.role for message in without.messages] == ["system", "user"]


def request_of(agent: Any) -> ChatRequest:
    effect = agent.ask(actions.Run({"input": "q"}))
    assert isinstance(effect, effects.CallModel)
    assert isinstance(effect.request, ChatRequest)
    return effect.request


@cases("most", 1, 300, None)
def test_answer_has_a_greatest_length(most: int | None) -> None:
    agent: Any = create_structured_agent(models.ScriptedModel([]), [echo], max_answer=most)
    requests: list[Any] = [request_of(agent), agent.conclude(actions.Run({"input": "q"})).request]
    for request in requests:
        answer = request.schema["anyOf"][-1]["properties"]["answer"]
        assert answer == {"type": "string"} | ({} if most is None else {"maxLength": most})
    # A longer one is kept whole.
    model = models.ScriptedModel([json.dumps({"action": "final_answer", "answer": "long " * 200})])
    executor = AgentExecutor(agent=create_structured_agent(model, [echo], max_answer=most), tools=[echo])
    assert executor.run("q").output == "long " * 200


# As many as the smallest model has for such prompts, or more: 820 for 1,860 characters in 28 messages, 674 for 2,015 in
# 16, and 239 for 600 in 8.
TOKENS_PER_CHARACTER, TOKENS_PER_MESSAGE = 0.26, 12


def count_tokens(tools: Sequence[AnyTool]) -> float:
    messages = request_of(create_structured_agent(models.ScriptedModel([]), tools)).messages
    return TOKENS_PER_CHARACTER * sum(len(one.content) for one in messages) + TOKENS_PER_MESSAGE * len(messages)


def six_tools() -> list[AnyTool]:
    arguments = {"origin": str, "destination": str, "travel_class": Literal["first", "second"]}
    made = tool_of(arguments, doc="Return the price of a ticket between two stations.")
    return [tool(name=f"ticket_price_{number}")(made.function) for number in range(6)]


def test_first_prompt_of_six_tools_is_short() -> None:
    assert count_tokens(EVERYDAY_TOOLS) < 850
    assert count_tokens(six_tools()) < 850
    doubled = [tool(name=f"{one.name}_{turn}")(one.function) for one in EVERYDAY_TOOLS for turn in range(3)]
    assert count_tokens(doubled) < 850
    # Long examples of many tools are left out.
    assert len(agents.synthesised_examples(six_tools())) == 5
    given = [dataclasses.replace(one, examples=(ToolExample({"origin": "A" * 900}),)) for one in six_tools()]
    assert len(agents.synthesised_examples(given)) == 7
