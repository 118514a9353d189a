"""An executor has the tools that its agent describes to the model."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphexec import AgentExecutor, callable_agent, chat_agent, create_react_agent, tool
from graphexec import agents as factories
from graphexec.agents import Agent
from graphexec.effects import CallModel
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.memory import BufferMemory
from graphexec.messages import CompletionRequest
from graphexec.models import ScriptedModel
from graphexec.testing import scripted_tool
from tests.executor.actors import answer, echo, fail, scripted
from tests.parameters import cases


@tool(name="echo")
def other_echo(word: str) -> str:
    """Repeat a word."""
    return word


@tool(name="Intermediate Answer")
def search(question: str) -> str:
    """Answer a question."""
    return question


def custom_agent(**options: Any) -> Agent:
    return chat_agent(lambda run: CallModel(CompletionRequest("")), lambda reply: (), ScriptedModel([]), **options)


# Agents with one tool each.
CREATE = [name for name in factories.__all__ if name.startswith("create_")]
AGENTS: list[Agent] = [
    *(getattr(factories, name)(ScriptedModel([]), [search]) for name in CREATE),
    custom_agent(tools=[search], kind="mine"),
]


@cases("agent", AGENTS)
def test_every_agent_knows_its_tools_and_kind(agent: Agent) -> None:
    assert agent.tools == (search,)
    executor = AgentExecutor(agent=agent, tools=[search])
    assert repr(executor).startswith(f"<AgentExecutor with Intermediate Answer ({agent.kind}): ")
    with pytest.raises(InputError, match="only the agent has Intermediate Answer; only the executor has echo; pass"):
        AgentExecutor(agent=agent, tools=[echo])


def test_kinds_differ() -> None:
    kinds = [agent.kind for agent in AGENTS]
    assert len(set(kinds)) == len(kinds)
    assert callable_agent(scripted(answer())).kind == "function"


# The agent's tools, the executor's, and the difference.
DIFFERENT: list[tuple[list[Any], list[Any], str]] = [
    ([echo], [fail], "only the agent has echo; only the executor has fail"),
    ([echo, fail], [echo], "only the agent has fail"),
    ([echo], [echo, fail, search], "only the executor has fail, Intermediate Answer"),
    ([], [echo], "only the executor has echo"),
    ([echo], [], "only the agent has echo"),
    ([echo], [other_echo], "echo(text: string) of the agent is echo(word: string) in the executor"),
]


@cases(("known", "given", "difference"), DIFFERENT)
def test_different_tools_are_refused(known: list[Any], given: list[Any], difference: str) -> None:
    with pytest.raises(InputError) as caught:
        AgentExecutor(agent=create_react_agent(ScriptedModel([]), known), tools=given)
    remedy = "pass the same list to both"
    assert str(caught.value) == f"the agent and the executor have different tools: {difference}; {remedy}"


def test_same_parameters_are_the_same_tool() -> None:
    agent = create_react_agent(ScriptedModel([]), [echo, fail])
    for same in (dataclasses.replace(echo, timeout=3), tool(echo.function), scripted_tool(echo, ["x"])):
        assert list(AgentExecutor(agent=agent, tools=[fail, same]).tools) == ["fail", "echo"]


def test_agent_without_known_tools_takes_any() -> None:
    unknown = custom_agent()
    assert (unknown.tools, unknown.kind) == (None, "custom")
    for agent in (scripted(answer()), unknown):
        assert AgentExecutor(agent=agent, tools=[echo, fail]).tools


def test_tools_of_an_agent_must_be_tools() -> None:
    plain: Any = [echo.function]
    with pytest.raises(ToolDefinitionError, match="echo is not a tool; decorate the function"):
        custom_agent(tools=plain)


def test_input_keys_are_those_that_the_caller_passes() -> None:
    prompt = "{tools}{tool_names}{agent_scratchpad}{question}{chat_history}"
    agent = create_react_agent(ScriptedModel([]), [], prompt=prompt)
    assert AgentExecutor(agent=agent, tools=[]).input_keys == ("question", "chat_history")
    assert AgentExecutor(agent=agent, tools=[], memory=BufferMemory()).input_keys == ("question",)
    assert AgentExecutor(agent=scripted(answer()), tools=[]).input_keys == ()
