"""The structured chat agent: several named inputs as JSON, and other text as the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from graphexec import AgentExecutor, AgentFinish, ParseError, tool
from graphexec.agents import create_structured_chat_agent
from graphexec.agents.langchain.structured_chat import read
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.messages import ChatRequest, ModelReply
from graphexec.models import ScriptedModel
from tests.agents.strategies import names, objects, plain
from tests.executor.actors import messages, observations, run_executor
from tests.parameters import cases


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


BLOB = '{"action": "add", "action_input": {"a": 1, "b": 2}}'


@given(names(), plain() | objects())
def test_formatted_action_is_parsed_back(name: str, tool_input: str | dict[str, Any]) -> None:
    text = f"Thought: hm\nAction:\n```\n{json.dumps({'action': name, 'action_input': tool_input})}\n```"
    decision = read(ModelReply(text))
    assert not isinstance(decision, AgentFinish)
    (action,) = decision
    assert (action.tool, action.tool_input, action.log) == (name, tool_input, text)


@cases(
    "prose", ["It is 3.", "```python\nprint(3)\n```", "[Note] {x} is 3", "Use ``` for code.", "{x | x > 3}", "`f`: 3"]
)
def test_text_without_json_is_the_answer(prose: str) -> None:
    finish = read(ModelReply(f" {prose}\n"))
    assert isinstance(finish, AgentFinish)
    assert finish.output == prose


@cases("length", range(1, len(BLOB)))
@cases("before", ["Action:\n```\n", "```json", "Action: ", ""])
def test_truncated_json_is_neither_action_nor_answer(before: str, length: int) -> None:
    with pytest.raises(ParseError):
        read(ModelReply(before + BLOB[:length]))


@cases(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("Observation: 3", "it is empty"),
        (f"```{BLOB}``` or ```{BLOB}```", "it has 2 JSON objects"),
        (f"{BLOB}\n{BLOB}", "it has 2 JSON objects"),
        ('```\n{"a": 1}\n```', "it is not an object with an action"),
        ("```\n{x}\n```", "it is not JSON"),
    ],
)
def test_invalid_decision_is_a_parse_error(text: str, why: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text))
    assert raised.value.observation is not None
    assert why in raised.value.observation


def test_fenced_json_and_lowercase_labels_are_parsed() -> None:
    for text in (f"action:\n```json\n{BLOB}\n```", f"action: {BLOB}", f"```{BLOB}```\nThat is what I do.", BLOB):
        decision = read(ModelReply(text))
        assert not isinstance(decision, AgentFinish)
        assert (decision[0].tool, decision[0].tool_input) == ("add", {"a": 1, "b": 2})


def test_invented_observation_and_following_text_are_ignored() -> None:
    decision = read(ModelReply(f"```\n{BLOB}\n```\nObservation: 4\n```\n{BLOB}\n```"))
    assert not isinstance(decision, AgentFinish)
    assert decision[0].log == f"```\n{BLOB}\n```"
    finish = read(ModelReply("It is 3.\nObservation: 4"))
    assert isinstance(finish, AgentFinish)
    assert finish.output == "It is 3."


def test_tool_receives_several_named_inputs() -> None:
    models: list[ScriptedModel] = []

    def executor() -> AgentExecutor:
        finish = '```\n{"action": "Final Answer", "action_input": "3"}\n```'
        models.append(ScriptedModel([f"```\n{BLOB}\n```", finish]))
        return AgentExecutor(agent=create_structured_chat_agent(models[-1], [add]), tools=[add])

    result = run_executor(executor)
    assert (result.outcome.output, observations(result)) == ("3", [3])
    for model in models:
        first, second = model.requests
        assert isinstance(first, ChatRequest)
        assert first.stop == ("\nObservation:",)
        assert "add(a: integer, b: integer) - Add two numbers." in messages(first)[0].content
        assert f"```\n{BLOB}\n```\nObservation: 3\nThought:" in messages(second)[1].content


@cases(
    ("prompt", "question", "missing"),
    [
        ("{tools}", "{agent_scratchpad}", r"prompt lacks \{tool_names\}"),
        ("{tool_names}", "{agent_scratchpad}", r"prompt lacks \{tools\}"),
        ("{tools}{tool_names}", "{input}", r"question lacks \{agent_scratchpad\}"),
    ],
)
def test_prompt_requires_its_variables(prompt: str, question: str, missing: str) -> None:
    with pytest.raises(InputError, match=f"the {missing}; write it"):
        create_structured_chat_agent(ScriptedModel([]), [add], prompt=prompt, question=question)


def test_reserved_tool_name_is_rejected() -> None:
    with pytest.raises(ToolDefinitionError, match="a tool is named final_answer, which stands for the answer"):
        create_structured_chat_agent(ScriptedModel([]), [tool(name="final_answer")(add.function)])
