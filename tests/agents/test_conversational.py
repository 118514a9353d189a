"""The conversational agent: a tool call or an answer, and the earlier messages."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from graphexec import AgentExecutor, AgentFinish, ParseError
from graphexec.agents import create_conversational_agent
from graphexec.agents.langchain.conversational import read
from graphexec.errors import InputError
from graphexec.messages import ModelReply
from graphexec.models import ScriptedModel
from tests.agents.strategies import names, plain
from tests.executor.actors import echo, prompt
from tests.parameters import cases


@given(names(), plain())
def test_formatted_action_is_parsed_back(tool: str, tool_input: str) -> None:
    text = f"Thought: Do I need to use a tool? Yes\nAction: {tool}\nAction Input: {tool_input}"
    decision = read(ModelReply(text))
    assert not isinstance(decision, AgentFinish)
    (action,) = decision
    assert (action.tool, action.tool_input, action.log) == (tool, tool_input, text)


@given(plain())
def test_formatted_answer_is_parsed_back(text: str) -> None:
    assume("action" not in text.lower())
    finish = read(ModelReply(f"Thought: Do I need to use a tool? No\nAI: {text}\nAI: {text}"))
    assert isinstance(finish, AgentFinish)
    assert finish.output == f"{text}\nAI: {text}".strip()


def test_prefix_must_begin_a_line() -> None:
    decision = read(ModelReply("Action: search\nAction Input: AI: an introduction"))
    assert not isinstance(decision, AgentFinish)
    assert decision[0].tool_input == "AI: an introduction"


def test_fenced_json_and_lowercase_labels_are_parsed() -> None:
    decision = read(ModelReply('action: f\naction input: ```json\n{"a": 1}\n```'))
    assert not isinstance(decision, AgentFinish)
    assert decision[0].tool_input == '{"a": 1}'
    finish = read(ModelReply(" ai : hello"))
    assert isinstance(finish, AgentFinish)
    assert finish.output == "hello"


def test_invented_observation_and_following_text_are_ignored() -> None:
    decision = read(ModelReply("Action: f\nAction Input: x\nObservation: y\nAI: y it is"))
    assert not isinstance(decision, AgentFinish)
    assert decision[0].tool_input == "x"


@cases("text", ["", "Hello!", "Thought: Do I need to use a tool? No", "Action: f\nAction Input: x\nAI: y"])
def test_neither_or_both_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text))
    assert raised.value.llm_output == text


def test_prompt_has_earlier_messages_and_the_prefix() -> None:
    model = ScriptedModel(["Robot (v2): Ada, I think."])
    agent = create_conversational_agent(
        model,
        [echo],
        prompt="{tools}{tool_names}|{ai_prefix}|{chat_history}|{input}|{agent_scratchpad}",
        ai_prefix="Robot (v2)",
    )
    assert agent.input_keys == ("chat_history", "input")
    executor = AgentExecutor(agent=agent, tools=[echo])
    assert executor.run({"chat_history": "Human: I am Ada.", "input": "Who am I?"}).output == "Ada, I think."
    assert prompt(model.requests[0]).endswith("|Robot (v2)|Human: I am Ada.|Who am I?|")
    with pytest.raises(InputError, match="the inputs lack chat_history"):
        executor.run({"input": "Who am I?"})


@cases("missing", ["tools", "tool_names", "chat_history", "agent_scratchpad"])
def test_prompt_requires_its_variables(missing: str) -> None:
    required = ("tools", "tool_names", "chat_history", "agent_scratchpad")
    text = " ".join(f"{{{name}}}" for name in required if name != missing)
    with pytest.raises(InputError, match=rf"the prompt lacks \{{{missing}\}}"):
        create_conversational_agent(ScriptedModel([]), [echo], prompt=text)


def test_empty_prefix_is_rejected() -> None:
    with pytest.raises(InputError, match="ai_prefix is ' '; give the label"):
        create_conversational_agent(ScriptedModel([]), [], ai_prefix=" ")
