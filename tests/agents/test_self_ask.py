"""The self-ask agent: follow-up questions, one tool, and the answer on the last line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given

from graphexec import AgentExecutor, AgentFinish, ParseError, tool
from graphexec.actions import Run
from graphexec.agents import Agent, create_self_ask_agent
from graphexec.agents.langchain.self_ask import read
from graphexec.effects import CallModel
from graphexec.errors import InputError
from graphexec.messages import ChatRequest, ModelReply
from graphexec.models import ScriptedModel
from tests.agents.strategies import plain
from tests.executor.actors import echo, observations, prompt, run_executor
from tests.parameters import cases


@tool(name="Intermediate Answer")
def search(query: str) -> str:
    """Look a question up."""
    return f"{query} 42."


@given(plain())
def test_formatted_action_is_parsed_back(question: str) -> None:
    assume(question and "\n" not in question)
    text = f" Yes.\nFollow up: {question}\n"
    decision = read(ModelReply(text))
    assert not isinstance(decision, AgentFinish)
    (action,) = decision
    assert (action.tool, action.tool_input, action.log) == ("Intermediate Answer", question, text)
    finish = read(ModelReply(f"So the final answer is: {question}\n\n"))
    assert isinstance(finish, AgentFinish)
    assert finish.output == question


@cases(
    ("text", "question"),
    [
        ("Follow up: Who is at 10:30 what?", "Who is at 10:30 what?"),
        ("Yes. Follow up: Who?", "Who?"),
        ("Followup: Who?\n \n", "Who?"),
        ("follow-up 2 : Who?", "Who?"),
        ("Follow up: A?\nFollow up: B?", "B?"),
        ("Follow up: A?\r\n", "A?"),
    ],
)
def test_question_follows_the_first_colon(text: str, question: str) -> None:
    decision = read(ModelReply(text))
    assert not isinstance(decision, AgentFinish)
    assert decision[0].tool_input == question


@cases(
    "text",
    [
        "So the final answer is: X: 1",
        "No. So the final answer is: X: 1",
        "No.\nso the final answer is : X: 1\n\n",
        "Follow up: A?\nSo the final answer is:X: 1",
    ],
)
def test_answer_may_be_anywhere_on_last_line(text: str) -> None:
    finish = read(ModelReply(text))
    assert isinstance(finish, AgentFinish)
    assert finish.output == "X: 1"


@cases(
    "text",
    [
        "",
        "\n",
        "No.",
        "Follow up:",
        "Follow up: A?\nI wonder.",
        "So the final answer is: 1\nThat is all.",
        "Follow up: Is it 1? So the final answer is: 1",
    ],
)
def test_neither_or_both_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(ModelReply(text))
    assert raised.value.llm_output == text


def test_truncated_question_is_not_asked() -> None:
    with pytest.raises(ParseError, match="cut at the token limit"):
        read(ModelReply("Follow up: Who was the", finish_reason="length"))


@cases("label", ["Intermediate answer:", "intermediate Answer :", "Intermediate answer 1:"])
def test_invented_observation_and_following_text_are_ignored(label: str) -> None:
    decision = read(ModelReply(f"Follow up: A?\n{label} B.\nSo the final answer is: B"))
    assert not isinstance(decision, AgentFinish)
    assert (decision[0].tool_input, decision[0].log) == ("A?", "Follow up: A?")


def test_prompt_continues_the_questions() -> None:
    models: list[ScriptedModel] = []

    def executor() -> AgentExecutor:
        models.append(ScriptedModel([" Yes.\nFollow up: What is it?", "So the final answer is: 42"]))
        agent = create_self_ask_agent(models[-1], [search], prompt="{input}{agent_scratchpad}")
        return AgentExecutor(agent=agent, tools=[search])

    result = run_executor(executor)
    assert (result.outcome.output, observations(result)) == ("42", ["What is it? 42."])
    for model in models:
        first, second = model.requests
        assert isinstance(first, ChatRequest)
        assert first.stop == ("\nIntermediate answer:",)
        step = " Yes.\nFollow up: What is it?\nIntermediate answer: What is it? 42.\n"
        assert [prompt(first), prompt(second)] == ["q", f"q{step}"]


@cases(("tools", "given"), [([], "no tool"), ([echo], "echo"), ([search, echo], "Intermediate Answer, echo")])
def test_other_tools_are_rejected(tools: Any, given: str) -> None:
    with pytest.raises(InputError, match=f"is given {given}; give it exactly one tool, named with @tool"):
        create_self_ask_agent(ScriptedModel([]), tools)


def test_prompt_requires_a_scratchpad() -> None:
    with pytest.raises(InputError, match=r"the prompt lacks \{agent_scratchpad\}"):
        create_self_ask_agent(ScriptedModel([]), [search], prompt="{input}")


def test_examples_stand_before_the_prompt_or_in_it() -> None:
    made = tool(name="Intermediate Answer", examples=[{"query": "Who {was}?"}])(search.function)
    before = prompt_of(create_self_ask_agent(ScriptedModel([]), [made], prompt="{input}{agent_scratchpad}"))
    assert before == "Examples of follow up questions:\nFollow up: Who {was}?\n\nq"
    within = prompt_of(create_self_ask_agent(ScriptedModel([]), [made], prompt="{tools} {input}{agent_scratchpad}"))
    assert within == 'Intermediate Answer(query: string) - Look a question up. For example: {"query": "Who {was}?"} q'


def prompt_of(agent: Agent) -> str:
    effect = agent.ask(Run({"input": "q"}))
    assert isinstance(effect, CallModel)
    return prompt(effect.request)
