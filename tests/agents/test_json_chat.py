"""The JSON chat agent: a conversation of JSON objects."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, AgentFinish, ParseError, tool
from graphexec.agents import create_json_chat_agent
from graphexec.agents.langchain.json_chat import read
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.messages import AssistantMessage, ChatRequest, ModelReply, SystemMessage, UserMessage
from graphexec.models import ScriptedModel
from tests.agents.strategies import names, objects, plain
from tests.executor.actors import echo, messages, run_executor
from tests.parameters import cases

BLOB = '{"action": "echo", "action_input": "a"}'


@given(names(), plain() | objects())
def test_formatted_action_is_parsed_back(name: str, tool_input: str | dict[str, Any]) -> None:
    blob = json.dumps({"action": name, "action_input": tool_input})
    for text in (f"```json\n{blob}\n```", blob, f"[{blob}]", f"Sure!\n```\n{blob}\n```\nDone."):
        decision = read(ModelReply(text))
        assert not isinstance(decision, AgentFinish)
        (action,) = decision
        assert (action.tool, action.tool_input, action.log) == (name, tool_input, text)


@given(plain())
def test_answer_is_parsed_back(answer: str) -> None:
    finish = read(ModelReply(f"```json\n{json.dumps({'action': 'Final Answer', 'action_input': answer})}\n```"))
    assert isinstance(finish, AgentFinish)
    assert finish.output == answer


def test_missing_input_is_an_empty_object() -> None:
    for blob in ('{"action": "echo", "action_input": null}', '{"action": "echo"}'):
        decision = read(ModelReply(blob))
        assert not isinstance(decision, AgentFinish)
        assert decision[0].tool_input == {}


@cases("length", range(len(BLOB)))
@cases("before", ["```json\n", ""])
def test_truncated_json_is_not_executed(before: str, length: int) -> None:
    with pytest.raises(ParseError):
        read(ModelReply(before + BLOB[:length]))


@given(objects(), st.data())
def test_truncated_json_is_parsed_completely_or_not(tool_input: dict[str, Any], data: st.DataObject) -> None:
    text = f"```json\n{json.dumps({'action': 'f', 'action_input': tool_input})}\n```"
    length = data.draw(st.integers(0, len(text)))
    with contextlib.suppress(ParseError):
        decision = read(ModelReply(text[:length]))
        assert not isinstance(decision, AgentFinish)
        assert decision[0].tool_input == tool_input


def test_parse_error_mentions_the_token_limit() -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(BLOB[:-3], finish_reason="length"))
    assert raised.value.observation is not None
    assert "it was cut at the token limit" in raised.value.observation


@cases(
    ("text", "why"),
    [
        ("", "it has no JSON object"),
        ("It is a.", "it has no JSON object"),
        ("null", "it has no JSON object"),
        ("Observation: a", "it has no JSON object"),
        (f"```{BLOB}``` ```{BLOB}```", "it has 2 JSON objects instead of one"),
        (f"[{BLOB}, {BLOB}]", "it is a list of 2; decide on one action at a time"),
        ("```[]```", "it is a list of 0"),
        ("```[[1]]```", "it is not an object with an action"),
        (f"```{BLOB} {BLOB}```", "it is not JSON"),
        ('{"action": "echo", "action_input": NaN}', "it is not JSON"),
        ('{"a":' * 10_000, "it is not JSON"),
    ],
)
def test_invalid_decision_is_a_parse_error_with_reason(text: str, why: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text))
    assert raised.value.observation is not None
    assert why in raised.value.observation
    assert 'write one JSON object, {"action": "<tool>"' in raised.value.observation


def test_invented_observation_and_following_text_are_ignored() -> None:
    decision = read(ModelReply(f"```json\n{BLOB}\n```\nObservation: b\n```json\n{BLOB}\n```"))
    assert not isinstance(decision, AgentFinish)
    assert decision[0].log == f"```json\n{BLOB}\n```"


def test_conversation_has_all_messages_in_order() -> None:
    models: list[ScriptedModel] = []

    def executor() -> AgentExecutor:
        models.append(ScriptedModel([BLOB, "Hm.", '{"action": "Final Answer", "action_input": "done"}']))
        agent = create_json_chat_agent(
            models[-1],
            [echo],
            prompt="{tools}|{tool_names}",
            question="Q: {input}",
            tool_response="Got {observation}",
        )
        return AgentExecutor(agent=agent, tools=[echo], handle_parsing_errors="Again!")

    assert run_executor(executor).outcome.output == "done"
    for model in models:
        request = model.requests[-1]
        assert messages(request) == [
            SystemMessage("echo(text: string) - Say it again.|echo"),
            UserMessage("Q: q"),
            AssistantMessage(BLOB),
            UserMessage("Got a"),
            AssistantMessage("Hm."),
            UserMessage("Got Again!"),
        ]
        assert isinstance(request, ChatRequest)
        assert request.stop == ("\nObservation:",)


def test_variables_are_validated_when_agent_is_made() -> None:
    model = ScriptedModel([])
    agent = create_json_chat_agent(model, [echo], prompt="{tools}{tool_names}{mood}", question="{a}{mood}")
    assert agent.input_keys == ("mood", "a")
    for prompt, missing in (("{tools}", "tool_names"), ("{tool_names}", "tools")):
        with pytest.raises(InputError, match=rf"the prompt lacks \{{{missing}\}}"):
            create_json_chat_agent(model, [echo], prompt=prompt)
    with pytest.raises(InputError, match=r"the tool_response lacks \{observation\}"):
        create_json_chat_agent(model, [echo], tool_response="Well?")
    with pytest.raises(InputError, match=r"tool_response has the variable \{mood\}; it can only have \{observation\}"):
        create_json_chat_agent(model, [echo], tool_response="{observation} {mood}")
    with pytest.raises(ToolDefinitionError, match="a tool is named Final_Answer, which stands for the answer"):
        create_json_chat_agent(model, [tool(name="Final_Answer")(echo.function)])
