"""Habits from other libraries: what users type, and what they read, which names the remedy; or it works."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pytest

import graphexec
from graphexec import AgentExecutor, create_agent, create_react_agent, create_tool_calling_agent, node, tool
from graphexec.actions import Run
from graphexec.errors import GraphexecError, InputError
from graphexec.executor import Ready
from graphexec.memory import BufferMemory, WindowMemory
from graphexec.messages import ChatRequest, Image
from graphexec.models import Anthropic, LocalModel, OpenAICompatible, OpenAIResponses, ScriptedModel
from tests.executor.habits import MISTAKES
from tests.parameters import cases


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
    **{one.__name__: one for one in (Anthropic, LocalModel, OpenAICompatible, OpenAIResponses)},
    **{one.__name__: one for one in (BufferMemory, WindowMemory)},
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


CONSTRUCTORS = [
    ('OpenAICompatible(model_name="a")', "OpenAICompatible has no option model_name; write model, the first argument"),
    ('OpenAICompatible("a", openai_api_key="k")', "OpenAICompatible has no option openai_api_key; write api_key=..."),
    (
        'Anthropic("a", streaming=True)',
        "Anthropic has no option streaming; leave it out: write executor.stream_answer(inputs) for the text of the "
        "answer",
    ),
    ("Anthropic()", "Anthropic needs model; write Anthropic('claude-sonnet-4-5')"),
    ("OpenAIResponses()", "OpenAIResponses needs model; write OpenAIResponses('gpt-5-mini')"),
    (
        'OpenAICompatible("openai:gpt-4o")',
        "OpenAICompatible has model='openai:gpt-4o', a name with a provider; write create_model('openai:gpt-4o')",
    ),
    (
        'Anthropic("Claude:claude-sonnet-4-5")',
        "Anthropic has model='Claude:claude-sonnet-4-5', a name with a provider; write "
        "create_model('Claude:claude-sonnet-4-5')",
    ),
    (
        'LocalModel(model_path="a.gguf")',
        "LocalModel has no option model_path; write the path first: LocalModel('model.gguf')",
    ),
    (
        'BufferMemory(memory_key="a", return_messages=True)',
        "BufferMemory has no option memory_key; write key=...; BufferMemory has no option return_messages; write "
        "as_messages=True",
    ),
    ("WindowMemory(k=3)", "WindowMemory has no option k; write WindowMemory(turns=3)"),
    (
        'executor.as_tool("adder")',
        "AgentExecutor.as_tool needs description; write executor.as_tool(name, description)",
    ),
    ("executor.draw()", "AgentExecutor.draw needs path; write executor.draw(path)"),
]


@cases(("line", "text"), CONSTRUCTORS)
def test_wrong_construction_names_its_class(line: str, text: str) -> None:
    with pytest.raises(InputError) as raised:
        exec(line, dict(NAMES))
    assert str(raised.value) == text


LENGTH = "(name='len', func=len, description='...') if it takes one string, or else a function with def that calls it"
LOST = "is not sent to the model; name it images, or write the text of a file into another input"
WRONG_VALUES = [
    (
        'create_react_agent("local", [echo])',
        "the model is 'local'; give a model, such as create_model('openai:gpt-5-mini') or create_model('local'), of "
        "graphexec.models",
    ),
    (
        'create_tool_calling_agent(model, [echo], "Be concise.")',
        "create_tool_calling_agent takes 2 by position, and was given 3; write create_tool_calling_agent(model, tools, "
        "system=...)",
    ),
    (
        'create_agent(model, [echo], "Be concise.")',
        "create_agent takes 2 by position, and was given 3; write create_agent(model, tools, system_prompt=...)",
    ),
    (
        'create_agent(model, [echo], agent="zero-shot-react-description")',
        "create_agent has no option agent; write kind='react', kind='structured' or kind='tool_calling'; for an Agent, "
        "write AgentExecutor(agent=agent, tools=tools)",
    ),
    (
        "create_agent(model, [echo], handoffs=[agent])",
        "create_agent has no option handoffs; other agents are tools: executor.as_tool(name, description)",
    ),
    ('create_agent(model, ["echo"])', "'echo' is not a tool; pass the function itself, without quotes"),
    ('create_react_agent(model, ["echo"])', "'echo' is not a tool; pass the function itself, without quotes"),
    (
        "create_agent(model, [openai_schema])",
        "{'type': 'function'} is not a tool; write tool_from_schema(name, description, schema, function), of "
        "graphexec.tools",
    ),
    ("create_agent(model, [3])", "3 is not a tool; decorate the function with @tool"),
    ("create_agent(model, [len])", f"len is a builtin function, without annotations; write Tool{LENGTH}"),
    (
        "create_agent(model, [lambda x: x])",
        "a lambda has no name; write Tool(name=..., func=..., description=...), or a function with def",
    ),
    (
        'create_agent(model, [echo]).run({"input": "Hello!", "chat_history": [("human", "Hello!")]})',
        "the input chat_history is [('human', 'Hello!')]; give messages, such as {'role': 'user', 'content': '...'} or "
        "those of a memory with as_messages=True, or write {chat_history} into the agent's template",
    ),
    ('create_agent(model, [echo]).run({"input": "Hello!", "img": Path("a.png")})', f"the input img {LOST}"),
    ('create_agent(model, [echo]).run({"input": "Hello!", "photo": "a.PNG"})', f"the input photo {LOST}"),
    ('create_agent(model, [echo]).run({"input": "Hello!", "files": [Path("a.pdf")]})', f"the input files {LOST}"),
    ('create_agent(model, [echo]).run({"input": "Hello!", "cat": Image("https://a/b")})', f"the input cat {LOST}"),
]


@cases(("line", "text"), WRONG_VALUES)
def test_wrong_value_is_answered_with_a_remedy(line: str, text: str) -> None:
    with pytest.raises(GraphexecError) as raised:
        exec(line, {**NAMES, "Path": Path, "Image": Image})
    assert str(raised.value) == text


def test_other_inputs_are_ignored() -> None:
    executor = create_agent(ScriptedModel(["Final Answer: I am fine."]), [echo], kind="react")
    inputs = {"input": "How are you?", "photo": "of a cat", "path": Path("a.png"), "file": None}
    assert executor.run(inputs).output == "I am fine."


@cases("name", ["ft:gpt-4o:ours", "gpt-4o", "unknown:gpt-4o"])
def test_names_of_models_may_have_colons(name: str) -> None:
    assert OpenAICompatible(name).name == name


def test_other_server_may_name_a_provider() -> None:
    assert OpenAICompatible("openai:gpt-4o", base_url="http://127.0.0.1:4000/v1").name == "openai:gpt-4o"


@cases(("line", "text"), [row for rows in MISTAKES.values() for row in rows])
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


@cases("used", [plain, echo_later, give_nothing, fail])
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


@cases("create", [create_react_agent, create_tool_calling_agent])
def test_tool_with_parentheses_is_a_tool(create: Any) -> None:
    assert create(model, [tool()(plain)]).tools[0].name == "plain"
