"""The zero-shot MRKL agent: its parser, and the text that it continues."""

from __future__ import annotations

import pytest
from hypothesis import given

from graphexec import AgentExecutor, AgentFinish, ParseError
from graphexec.agents import create_mrkl_agent
from graphexec.agents.langchain.mrkl import read
from graphexec.errors import InputError
from graphexec.messages import ChatRequest, ModelReply
from graphexec.models import ScriptedModel
from tests.agents.strategies import names, plain
from tests.executor.actors import echo, observations, prompt, run_executor
from tests.parameters import cases


@given(names(), plain())
def test_formatted_action_is_parsed_back(tool: str, tool_input: str) -> None:
    text = f"I look.\nAction: {tool}\nAction Input: {tool_input}"
    decision = read(ModelReply(text))
    assert not isinstance(decision, AgentFinish)
    (action,) = decision
    assert (action.tool, action.tool_input, action.log) == (tool, tool_input, text)


@cases("query", ['SELECT "x" FROM "y"', 'SELECT * FROM t WHERE a = "b"', '"x" = "y'])
def test_unbalanced_quote_is_kept(query: str) -> None:
    decision = read(ModelReply(f"Action: sql\nAction Input: {query}"))
    assert not isinstance(decision, AgentFinish)
    assert decision[0].tool_input == query


@cases(
    ("text", "output", "log"),
    [
        ("Final Answer: 42", "42", "Final Answer: 42"),
        ("Final Answer: 4\nFinal Answer: 42\n\nIt is.", "42\n\nIt is.", None),
        ("final answer: 42", "42", None),
        # The text after the answer is invented; the answer keeps its last character.
        ("Final Answer: 42\n\nAction: foo\nAction Input: bar", "42", "Final Answer: 42"),
        ("Final Answer: 42\nAction: foo\nAction Input: bar", "42", "Final Answer: 42\n"),
        ("Final Answer: 42\nAction: foo\nAction Input: bar\n\nmore", "42", "Final Answer: 42\n"),
        ("Final Answer: 42\n\tObservation: no\n\nAction: foo\nAction Input: bar", "42", "Final Answer: 42"),
    ],
)
def test_answer_before_an_action_has_priority(text: str, output: str, log: str | None) -> None:
    finish = read(ModelReply(text))
    assert isinstance(finish, AgentFinish)
    assert (finish.output, finish.log) == (output, text if log is None else log)


@cases(
    ("text", "observation"),
    [
        ("Action: f\nAction Input: x\nFinal Answer: 42", None),
        ("I think.", "Invalid Format: Missing 'Action:' after 'Thought:'"),
        ("Action: f", "Invalid Format: Missing 'Action Input:' after 'Action:'"),
    ],
)
def test_neither_or_late_answer_is_a_parse_error(text: str, observation: str | None) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text))
    assert (raised.value.observation, raised.value.llm_output) == (observation, text)


@cases("label", ["Observation:", "\tObservation:", "observation:"])
def test_invented_observation_and_following_text_are_ignored(label: str) -> None:
    decision = read(ModelReply(f"Action: f\nAction Input: x\n{label} y\nFinal Answer: y"))
    assert not isinstance(decision, AgentFinish)
    assert decision[0].tool_input == "x"


def test_fenced_json_and_lowercase_labels_are_parsed() -> None:
    decision = read(ModelReply('action: `f`\naction input: ```json\n{"a": 1}\n```'))
    assert not isinstance(decision, AgentFinish)
    assert (decision[0].tool, decision[0].tool_input) == ("f", '{"a": 1}')


def test_model_continues_one_text() -> None:
    models: list[ScriptedModel] = []

    def executor() -> AgentExecutor:
        models.append(ScriptedModel([" Hm.\nAction: echo\nAction Input: a", " So.\nFinal Answer: done"]))
        agent = create_mrkl_agent(models[-1], [echo], prompt="{tools}|{tool_names}|{input}|{agent_scratchpad}")
        return AgentExecutor(agent=agent, tools=[echo])

    result = run_executor(executor)
    assert (result.outcome.output, observations(result)) == ("done", ["a"])
    head = "echo(text: string) - Say it again.|echo|q|"
    for model in models:
        first, second = model.requests
        assert isinstance(first, ChatRequest)
        assert first.stop == ("\nObservation:", "\n\tObservation:")
        step = " Hm.\nAction: echo\nAction Input: a\nObservation: a\nThought:"
        assert [prompt(first), prompt(second)] == [head, head + step]


@cases("missing", ["tools", "tool_names", "agent_scratchpad"])
def test_prompt_requires_its_variables(missing: str) -> None:
    text = " ".join(f"{{{name}}}" for name in ("tools", "tool_names", "agent_scratchpad", "input") if name != missing)
    with pytest.raises(InputError, match=rf"the prompt lacks \{{{missing}\}}"):
        create_mrkl_agent(ScriptedModel([]), [echo], prompt=text)
    assert create_mrkl_agent(ScriptedModel([]), [echo]).input_keys == ("input",)
