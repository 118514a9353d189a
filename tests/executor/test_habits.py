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
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.executor import Ready
from graphexec.memory import BufferMemory, WindowMemory
from graphexec.messages import ChatRequest, Image
from graphexec.models import Anthropic, LocalModel, OpenAICompatible, OpenAIResponses, ScriptedModel
from tests.executor.actors import echo, fail
from tests.executor.habits import MISTAKES
from tests.parameters import cases


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
executor = AgentExecutor(agent=agent, tools=[echo])

# The names that the users' lines have.
NAMES: dict[str, Any] = {
    **{name: getattr(graphexec, name) for name in graphexec.__all__},
    **{one.__name__: one for one in (Anthropic, LocalModel, OpenAICompatible, OpenAIResponses, ChatRequest, Image)},
    **{one.__name__: one for one in (BufferMemory, WindowMemory, Run, Ready, Path, Out)},
    "step": step,
    "echo": echo,
    "plain": plain,
    "model": model,
    "agent": agent,
    "executor": executor,
    "prompt_template": Other("ChatPromptTemplate()"),
    "human_message": Other("HumanMessage('How are you?')", type="human", content="How are you?"),
    "langchain_tool": Other("StructuredTool()", name="search", invoke=print),
    "openai_schema": {"type": "function"},
}


# By the class of the error: lines with the facts of the error.
CONSTRUCTORS: list[tuple[str, ...]] = [
    ('OpenAICompatible(model_name="a")', "has no option model_name", "write model, the first argument"),
    ('OpenAICompatible("a", openai_api_key="k")', "has no option openai_api_key", "write api_key=..."),
    ('Anthropic("a", streaming=True)', "has no option streaming; leave it out", "executor.stream_answer(inputs)"),
    ("Anthropic()", "Anthropic needs model", "write Anthropic('claude-sonnet-4-5')"),
    ("OpenAIResponses()", "OpenAIResponses needs model", "write OpenAIResponses('gpt-5-mini')"),
    ('OpenAICompatible("openai:gpt-4o")', "a name with a provider", "write create_model('openai:gpt-4o')"),
    ('Anthropic("Claude:claude-4")', "Anthropic has model='Claude:claude-4'", "write create_model('Claude:claude-4')"),
    ('LocalModel(model_path="a.gguf")', "LocalModel has no option model_path", "LocalModel('model.gguf')"),
    ('BufferMemory(memory_key="a", return_messages=True)', "memory_key; write key=...", "write as_messages=True"),
    ("WindowMemory(k=3)", "WindowMemory has no option k", "write WindowMemory(turns=3)"),
    ('executor.as_tool("adder")', "as_tool needs description", "write executor.as_tool(name, description)"),
    ("executor.draw()", "AgentExecutor.draw needs path", "write executor.draw(path)"),
]
LOST = ("is not sent to the model; name it images", "write the text of a file into another input")
QUOTED = ("'echo' is not a tool", "pass the function itself, without quotes")
TOOLS: list[tuple[str, ...]] = [
    ('create_agent(model, ["echo"])', *QUOTED),
    ('create_react_agent(model, ["echo"])', *QUOTED),
    ("create_agent(model, [openai_schema])", "{'type': 'function'} is not a tool", "write tool_from_schema(name"),
    ("create_agent(model, [3])", "3 is not a tool", "decorate the function with @tool"),
    ("create_agent(model, [len])", "len is a builtin function", "Tool(name='len', func=len", "a function with def"),
    ("create_agent(model, [lambda x: x])", "a lambda has no name", "write Tool(name=..., ", "or a function with def"),
]
VALUES: list[tuple[str, ...]] = [
    ('create_react_agent("local", [])', "the model is 'local'", "create_model('local'), of graphexec.models"),
    ('create_tool_calling_agent(model, [], "Hi.")', "2 by position, and was given 3", "(model, tools, system=...)"),
    ('create_agent(model, [], "Hi.")', "takes 2 by position, and was given 3", "(model, tools, system_prompt=...)"),
    ('create_agent(model, [], agent="mrkl")', "has no option agent", "write kind='react'", "AgentExecutor(agent=agent"),
    ("create_agent(model, [], handoffs=[agent])", "has no option handoffs", "executor.as_tool(name, description)"),
    (
        'create_agent(model, [echo]).run({"input": "Hello!", "chat_history": [("human", "Hello!")]})',
        "the input chat_history is [('human', 'Hello!')]",
        "{'role': 'user', 'content': '...'}",
        "as_messages=True, or write {chat_history} into the agent's template",
    ),
    ('create_agent(model, []).run({"input": "Hi", "img": Path("a.png")})', "the input img", *LOST),
    ('create_agent(model, []).run({"input": "Hi", "photo": "a.PNG"})', "the input photo", *LOST),
    ('create_agent(model, []).run({"input": "Hi", "files": [Path("a.pdf")]})', "the input files", *LOST),
    ('create_agent(model, []).run({"input": "Hi", "cat": Image("https://a/b")})', "the input cat", *LOST),
]
ROWS: list[tuple[type[Exception], list[tuple[str, ...]]]] = [
    (InputError, CONSTRUCTORS),
    (ToolDefinitionError, TOOLS),
    (InputError, VALUES),
    *((Exception, rows) for rows in MISTAKES.values()),
]


@cases(("error", "line", "facts"), [(error, line, facts) for error, rows in ROWS for line, *facts in rows])
def test_habit_is_answered_with_a_remedy(error: type[Exception], line: str, facts: list[str]) -> None:
    with pytest.raises(error) as raised:
        exec(line, dict(NAMES))
    assert len(str(raised.value).splitlines()) == 1
    for fact in facts:
        assert fact in str(raised.value)


def test_other_inputs_are_ignored() -> None:
    executor = create_agent(ScriptedModel(["Final Answer: I am fine."]), [echo], kind="react")
    inputs = {"input": "How are you?", "photo": "of a cat", "path": Path("a.png"), "file": None}
    assert executor.run(inputs).output == "I am fine."


NO_PROVIDERS = ["ft:gpt-4o:ours", "gpt-4o", "unknown:gpt-4o"]


@cases(("name", "url"), [*((name, None) for name in NO_PROVIDERS), ("openai:gpt-4o", "http://127.0.0.1:4000/v1")])
def test_names_of_models_may_have_colons(name: str, url: str | None) -> None:
    assert OpenAICompatible(name, base_url=url).name == name


def test_most_libraries_have_several_habits() -> None:
    assert sum(map(len, MISTAKES.values())) >= 100
    assert len(MISTAKES) == 9


async def echo_later(text: str) -> str:
    """Return the text."""
    return text


def give_nothing(text: str, seen: list[str] = []) -> None:  # noqa: B006 - users write it
    """Print the text."""
    seen.append(text)


@cases("used", [plain, echo_later, give_nothing, fail.function])
def test_usual_functions_are_tools(used: Any) -> None:
    calls = ScriptedModel([f"Action: {used.__name__}\nAction Input: a", "Final Answer: I am fine."])
    assert create_agent(calls, [used], kind="react").run("How are you?").output == "I am fine."


def test_result_is_printed_as_its_answer() -> None:
    result = executor.run("How are you?")
    assert f"{result}" == str(result) == "I am fine."
    stopped = AgentExecutor(agent=agent, tools=[echo], max_iterations=0).run("How are you?")
    assert str(stopped) == stopped.output


def test_run_works_on_an_event_loop() -> None:
    async def main(*, awaited: bool) -> Any:
        running: Any = executor.run("How are you?")
        return await running if awaited else running

    assert asyncio.run(main(awaited=False)).output == "I am fine."
    with pytest.warns(RuntimeWarning, match=r"it has blocked the event loop; write await executor\.arun\(\.\.\.\)"):
        assert asyncio.run(main(awaited=True)).output == "I am fine."


@cases("create", [create_react_agent, create_tool_calling_agent])
def test_tool_with_parentheses_is_a_tool(create: Any) -> None:
    assert create(model, [tool()(plain)]).tools[0].name == "plain"
