"""Habits from other libraries: what users type, and what they read, which names the remedy; or it works."""

from pathlib import Path
from typing import Any

import pytest

import graphexec
from graphexec import AgentExecutor, actions, create_agent, create_react_agent, create_tool_calling_agent, node, tool
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.executor import Ready
from graphexec.memory import BufferMemory, WindowMemory
from graphexec.messages import ChatRequest, Image
from graphexec.models import Anthropic, LocalModel, OpenAICompatible, OpenAIResponses, ScriptedModel
from tests.executor.actors import echo, fail
from tests.kernel.machines import value
from tests.parameters import cases, read_tables

TABLES = read_tables(__file__)


def plain(text: str) -> str:
    """Return the text."""
    return text


@value
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
executor = AgentExecutor(agent=agent, tools=[echo])

# The names that the users' lines have.
NAMES: dict[str, Any] = {
    **{name: getattr(graphexec, name) for name in graphexec.__all__},
    **{one.__name__: one for one in (Anthropic, LocalModel, OpenAICompatible, OpenAIResponses, ChatRequest, Image)},
    **{one.__name__: one for one in (BufferMemory, WindowMemory, actions.Run, Ready, Path, Out)},
    "step": step,
    "echo": echo,
    "plain": plain,
    "model": model,
    "agent": agent,
    "executor": executor,
    "prompt_template": Other("ChatPromptTemplate()"),
    "human_message": Other("HumanMessage('How are you?')", type="human", content="How are you?"),
    "langchain_tool": Other("StructuredTool()", name="search", invoke=print),
    "langchain_search": Other("BaseTool()", name="search", description="Search.", invoke=print),
    "chain": Other("RunnableSequence()", invoke=print, ainvoke=print),
    "openai_schema": {"type": "function"},
}


# The class of the error, and the rows of its lines.
ROWS: list[tuple[type[Exception], list[list[str]]]] = [
    *((ToolDefinitionError if about == "tools" else InputError, rows) for about, rows in TABLES["others"].items()),
    *((Exception, rows) for rows in TABLES["mistakes"].values()),
]


@cases(("error", "line", "facts"), *[(error, line, facts) for error, rows in ROWS for line, *facts in rows])
def test_habit_is_answered_with_a_remedy(error: type[Exception], line: str, facts: list[str]) -> None:
    with pytest.raises(error) as raised:
        exec(line, dict(NAMES))
    assert len(str(raised.value).splitlines()) == 1
    for written in facts:
        for fact in TABLES["facts"].get(written, [written]):
            assert fact in str(raised.value)


def test_other_inputs_are_ignored() -> None:
    executor = create_agent(ScriptedModel(["Final Answer: I am fine."]), [echo], kind="react")
    inputs = {"input": "How are you?", "photo": "of a cat", "path": Path("a.png"), "file": None}
    assert executor.run(inputs).output == "I am fine."


NO_PROVIDERS = ["ft:gpt-4o:ours", "gpt-4o", "unknown:gpt-4o"]


@cases(("name", "url"), *((name, None) for name in NO_PROVIDERS), ("openai:gpt-4o", "http://127.0.0.1:4000/v1"))
def test_names_of_models_may_have_colons(name: str, url: str | None) -> None:
    assert OpenAICompatible(name, base_url=url).name == name


def test_most_libraries_have_several_habits() -> None:
    assert sum(map(len, TABLES["mistakes"].values())) >= 70
    assert len(TABLES["mistakes"]) == 10


async def echo_later(text: str) -> str:
    """Return the text."""
    return text


def give_nothing(text: str, seen: list[str] = []) -> None:  # noqa: B006 - users write it
    """Print the text."""
    seen.append(text)


@cases("used", plain, echo_later, give_nothing, fail.function)
def test_usual_functions_are_tools(used: Any) -> None:
    calls = ScriptedModel([f"Action: {used.__name__}\nAction Input: a", "Final Answer: I am fine."])
    assert create_agent(calls, [used], kind="react").run("How are you?").output == "I am fine."


def test_result_is_printed_as_its_answer() -> None:
    result = executor.run("How are you?")
    assert f"{result}" == str(result) == "I am fine."
    stopped = AgentExecutor(agent=agent, tools=[echo], max_iterations=0).run("How are you?")
    assert str(stopped) == stopped.output


@cases("create", create_react_agent, create_tool_calling_agent)
def test_tool_with_parentheses_is_a_tool(create: Any) -> None:
    assert create(model, [tool()(plain)]).tools[0].name == "plain"
