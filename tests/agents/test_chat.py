"""The chat agent: thoughts in plain text, and JSON in a fence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from graphexec import AgentAction, AgentExecutor, AgentFinish, ParseError, tool
from graphexec.agents import create_chat_agent
from graphexec.agents.langchain.chat import read
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.messages import ChatRequest, ModelReply, SystemMessage, UserMessage
from graphexec.models import ScriptedModel
from tests.agents.strategies import names, objects, plain
from tests.executor.actors import echo, messages, run_executor
from tests.parameters import cases

BLOB = '{"action": "search", "action_input": "cats"}'


def action(text: str) -> AgentAction:
    decision = read(ModelReply(text))
    assert not isinstance(decision, AgentFinish)
    (only,) = decision
    return only


@given(names(), plain() | objects())
def test_formatted_action_is_parsed_back(name: str, tool_input: str | dict[str, Any]) -> None:
    blob = json.dumps({"action": name, "action_input": tool_input}, indent=2)
    text = f"Thought: hm\nAction:\n```\n{blob}\n```"
    assert action(text) == AgentAction(name, tool_input, text)


@cases(
    "text",
    [
        f"Action:\n```\n{BLOB}\n```",
        f"Action:\n```json\n{BLOB}\n```\n",
        f"action: ```json{BLOB}```",
        f"Action: ```{BLOB}```",
        f"```JSON\n[{BLOB}]\n```",
        # The stop string may have cut off the end of the fence; the object is complete.
        f"Action:\n```\n{BLOB}\n",
        f"Action: {BLOB}",
        BLOB,
        f"I use `search`, not ```python\nsearch()\n```.\nAction:\n```\n{BLOB}\n```",
    ],
)
def test_fenced_json_and_lowercase_labels_are_parsed(text: str) -> None:
    assert (action(text).tool, action(text).tool_input) == ("search", "cats")


@cases(
    ("blob", "tool_input"),
    [
        ('{"action": "f"}', {}),
        ('{"action": "f", "action_input": null}', {}),
        ('{"action": "f", "action_input": {}}', {}),
        ('{"action": "f", "action_input": ""}', ""),
        ('{"action": "f", "action_input": 3}', "3"),
        ('{"action": "f", "action_input": ["a"]}', '["a"]'),
        ('{"action": " f ", "action_input": "say \\"```\\" and Final Answer: no"}', 'say "```" and Final Answer: no'),
    ],
)
def test_input_is_string_or_object(blob: str, tool_input: str | dict[str, Any]) -> None:
    found = action(f"Action:\n```\n{blob}\n```")
    assert (found.tool, found.tool_input) == ("f", tool_input)


@cases("length", range(1, len(BLOB)))
@cases("before", ["Action:\n```\n", "```json", "Action: ", ""])
def test_truncated_json_is_not_executed(before: str, length: int) -> None:
    with pytest.raises(ParseError):
        read(ModelReply(before + BLOB[:length]))
    with pytest.raises(ParseError):
        read(ModelReply(before + BLOB[:length], finish_reason="length"))


def test_invented_observation_and_following_text_are_ignored() -> None:
    text = f"Action:\n```\n{BLOB}\n```"
    assert action(f"{text}\nObservation: found\nFinal Answer: found").log == text
    assert action(f"{text}\nobservation: found\n```\n{BLOB}\n```").log == text


@cases(
    ("text", "output"),
    [
        ("Final Answer: 42", "42"),
        ("Thought: ok\nfinal answer: 42\n", "42"),
        ("Final Answer: write ```python\nx = {}\n```", "write ```python\nx = {}\n```"),
        ('Final Answer:\n```json\n{"a": 1}\n```', '```json\n{"a": 1}\n```'),
        ('```\n{"action": "Final Answer", "action_input": "42"}\n```', "42"),
        ('```\n{"action": "final_answer", "action_input": {"a": 1}}\n```', '{"a":1}'),
        ('```\n{"action": "Final Answer"}\n```', ""),
    ],
)
def test_answer_is_parsed(text: str, output: str) -> None:
    finish = read(ModelReply(text))
    assert isinstance(finish, AgentFinish)
    assert finish.output == output


@cases(
    "text",
    [
        f"Action:\n```\n{BLOB}\n```\nFinal Answer: 42",
        f"Final Answer: 42\nAction:\n```\n{BLOB}\n```",
        f"Action: {BLOB}\nFinal Answer: 42",
        f"Final Answer: {BLOB}",
    ],
)
def test_answer_with_action_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError, match="both a final answer and a parse-able action") as raised:
        read(ModelReply(text))
    assert raised.value.llm_output == text


@cases(
    ("text", "why"),
    [
        ("", "it has neither"),
        ("I think.", "it has neither"),
        ("Action: search\nAction Input: cats", "it has neither"),
        ("```python\nprint()\n```", "it has neither"),
        (f"```\n{BLOB}\n```\n```\n{BLOB}\n```", "it has 2 JSON objects"),
        (f"```\n[{BLOB}, {BLOB}]\n```", "it is a list of 2"),
        ("```\n[]\n```", "it is a list of 0"),
        ("```\n[[]]\n```", "it is not an object with an action"),
        ('```\n{"tool": "f"}\n```', "it is not an object with an action"),
        ('```\n{"action": 3}\n```', "it is not an object with an action"),
        ("{'action': 'f', 'action_input': 'it's'}", "it is not JSON"),
    ],
)
def test_neither_is_a_parse_error_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text))
    assert raised.value.observation is not None
    assert why in raised.value.observation
    assert raised.value.llm_output == text


def test_request_has_instructions_and_previous_work() -> None:
    reply = 'Action:\n```\n{"action": "echo", "action_input": {"text": "a"}}\n```'
    model = ScriptedModel([reply, "Final Answer: done"])
    agent = create_chat_agent(model, [echo], prompt="{tools}|{mood}", question="{input}|{agent_scratchpad}", stop=["X"])
    assert agent.input_keys == ("mood", "input")
    executor = AgentExecutor(agent=agent, tools=[echo])
    assert executor.run({"input": "q", "mood": "calm"}).output == "done"
    first, second = model.requests
    head = SystemMessage("echo(text: string) - Say it again.|calm")
    assert messages(first) == [head, UserMessage("q|")]
    work = (
        "This was your previous work (but I haven't seen any of it! I only see what you return as final answer):\n"
        f"{reply}\nObservation: a\nThought:"
    )
    assert messages(second) == [head, UserMessage(f"q|{work}")]
    assert isinstance(second, ChatRequest)
    assert second.stop == ("X",)


def test_all_drivers_agree() -> None:
    def executor() -> AgentExecutor:
        model = ScriptedModel(['```{"action": "echo", "action_input": "a"}```', "what?", "Final Answer: done"])
        return AgentExecutor(agent=create_chat_agent(model, [echo]), tools=[echo], handle_parsing_errors=True)

    result = run_executor(executor)
    assert [step.status for step in result.outcome.steps] == ["ok", "parse_error"]


def test_incomplete_prompt_and_reserved_tool_name_are_rejected() -> None:
    with pytest.raises(InputError, match=r"the prompt lacks \{tools\}"):
        create_chat_agent(ScriptedModel([]), [echo], prompt="Be good.")
    with pytest.raises(InputError, match=r"the question lacks \{agent_scratchpad\}"):
        create_chat_agent(ScriptedModel([]), [echo], question="{input}")
    with pytest.raises(ToolDefinitionError, match="a tool is named Final Answer, which stands for the answer"):
        create_chat_agent(ScriptedModel([]), [tool(name="Final Answer")(echo.function)])
    nothing: Any = [len]
    with pytest.raises(ToolDefinitionError, match="len is not a tool"):
        create_chat_agent(ScriptedModel([]), nothing)
