"""Habits from other libraries: what users type, and what they read, which names the remedy; or it works."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec
from graphexec import AgentExecutor, create_agent, create_react_agent, create_tool_calling_agent, node, tool
from graphexec.actions import Run
from graphexec.executor import Ready
from graphexec.messages import ChatRequest
from graphexec.models import ScriptedModel
from tests.executor.habits import MISTAKES


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


def plain(text: str) -> str:
    """Return the text."""
    return text


@final
@dataclass(frozen=True)
class Out:
    x: int


@node
def step(x: Out) -> Out:
    return x


class Other:
    """An object of another library."""

    def __init__(self, shown: str, **fields: Any) -> None:
        self.shown = shown
        vars(self).update(fields)

    def __repr__(self) -> str:
        return self.shown


model = ScriptedModel(["Final Answer: I am fine."], repeat_last=True)
agent = create_react_agent(model, [echo])

# The names that the users' lines have.
NAMES: dict[str, Any] = {
    **{name: getattr(graphexec, name) for name in graphexec.__all__},
    "Run": Run,
    "Ready": Ready,
    "ChatRequest": ChatRequest,
    "Out": Out,
    "step": step,
    "echo": echo,
    "plain": plain,
    "model": model,
    "agent": agent,
    "executor": AgentExecutor(agent=agent, tools=[echo]),
    "prompt_template": Other("ChatPromptTemplate()"),
    "human_message": Other("HumanMessage('How are you?')", type="human", content="How are you?"),
    "langchain_tool": Other("StructuredTool()", name="search", invoke=print),
    "openai_schema": {"type": "function"},
}


@pytest.mark.parametrize(("line", "text"), [row for rows in MISTAKES.values() for row in rows])
def test_habit_is_answered_with_a_remedy(line: str, text: str) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each has its own class, and its whole text is compared
        exec(line, dict(NAMES))
    assert str(raised.value) == text


def test_most_libraries_have_several_habits() -> None:
    assert sum(map(len, MISTAKES.values())) >= 100
    assert len(MISTAKES) == 9


async def echo_later(text: str) -> str:
    """Return the text."""
    return text


def give_nothing(text: str, seen: list[str] = []) -> None:  # noqa: B006 - users write it
    """Print the text."""
    seen.append(text)


def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


@pytest.mark.parametrize("used", [plain, echo_later, give_nothing, fail])
def test_usual_functions_are_tools(used: Any) -> None:
    calls = ScriptedModel([f"Action: {used.__name__}\nAction Input: a", "Final Answer: I am fine."])
    executor = create_agent(calls, [used], kind="react")
    assert executor.run("How are you?").output == "I am fine."


def test_result_is_printed_as_its_answer() -> None:
    result = AgentExecutor(agent=agent, tools=[echo]).run("How are you?")
    assert f"{result}" == str(result) == "I am fine."
    stopped = AgentExecutor(agent=agent, tools=[echo], max_iterations=0).run("How are you?")
    assert str(stopped) == stopped.output


def test_run_works_on_an_event_loop() -> None:
    async def main() -> Any:
        return AgentExecutor(agent=agent, tools=[echo]).run("How are you?").output

    assert asyncio.run(main()) == "I am fine."


def test_awaited_run_warns_and_works() -> None:
    async def main() -> Any:
        running: Any = AgentExecutor(agent=agent, tools=[echo])
        return await running.run("How are you?")

    with pytest.warns(RuntimeWarning, match=r"it has blocked the event loop; write await executor\.arun\(\.\.\.\)"):
        assert asyncio.run(main()).output == "I am fine."


@pytest.mark.parametrize("create", [create_react_agent, create_tool_calling_agent])
def test_tool_with_parentheses_is_a_tool(create: Any) -> None:
    assert create(model, [tool()(plain)]).tools[0].name == "plain"
