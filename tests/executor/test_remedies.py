"""Habits from other libraries: what users type has a remedy or works, and the code in the remedies runs."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import graphexec
import graphexec as gx
from graphexec import actions, errors, models, tools
from graphexec._mistakes import remedies
from graphexec.executor import Ready, Stopped, agent_graph, limit_reached
from graphexec.executor.executor import ExecutorOptions
from graphexec.integrations.langchain import runnable_agent
from graphexec.memory import BufferMemory, SQLiteHistory, TokenWindowMemory, WindowMemory
from graphexec.messages import ChatRequest, Image, UserMessage
from graphexec.nodes import approve_tools, output_type
from graphexec.runtime.handlers import RunContext, RunOptions
from tests.executor.actors import echo, fail
from tests.kernel.machines import value
from tests.parameters import cases, read_tables

HABITS = read_tables(__file__)
TABLES: dict[str, dict[str, str]] = {
    name: table for name, table in vars(remedies).items() if name.isupper() and isinstance(table, dict)
}
TEXTS = sorted({text for name, table in TABLES.items() if name[0] != "_" for text in table.values()})


def find_calls(text: str) -> Iterator[str]:
    """Yield the calls in a text, with all their parentheses."""
    end = 0
    for match in re.finditer(r"[A-Za-z_][\w.]*\(", text):
        if match.start() >= end:
            end, depth = match.end(), 1
            while depth or text[end : end + 1] == "(":
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            yield text[match.start() : end]


def without_calls(text: str) -> str:
    for call in find_calls(text):
        text = text.replace(call, "()", 1)
    return text


def function(value: object = "") -> str:
    """Return nothing."""
    return ""


def plain(text: str) -> str:
    """Return the text."""
    return text


@value
class Out:
    x: int


@gx.node
def step(x: Out) -> Out:
    return x


class Arguments(BaseModel):
    """The arguments of a tool."""

    value: str


class Runnable:
    def invoke(self, inputs: object) -> gx.AgentFinish:
        return gx.AgentFinish({"output": "yes"})


MODEL = models.ScriptedModel(['{"action": "final_answer", "answer": "yes"}'], repeat_last=True)
AGENT = gx.create_structured_agent(MODEL, [echo])
EXECUTOR = gx.AgentExecutor(agent=AGENT, tools=[echo])
MACHINE = graphexec.graph(gx.edges(step, gx.on(Out, gx.END)), start=step)


def failure() -> Exception:
    """Return the error of a run that can be resumed."""
    broken = gx.AgentExecutor(agent=gx.create_structured_agent(models.ScriptedModel([]), [echo]), tools=[echo])
    with pytest.raises(Exception, match="replies") as raised:
        broken.run("q")
    return raised.value


# What the names in the remedies stand for.
BY_NAME: list[Any] = [BufferMemory, SQLiteHistory, TokenWindowMemory, WindowMemory]
BY_NAME.extend([models.LocalModel, models.OpenAICompatible])
BY_NAME.extend([runnable_agent, approve_tools, output_type, tools.tool_from_schema, function])
NAMES: dict[str, Any] = {
    **{name: getattr(graphexec, name) for name in graphexec.__all__},
    # Most remedies show the option alone.
    "AgentExecutor": partial(gx.AgentExecutor, agent=AGENT, tools=[echo]),
    **{one.__name__: one for one in BY_NAME},
    "Stopped": Stopped,
    "agent_graph": agent_graph,
    "limit": gx.Exhausted("iterations", 3, 3),
    **dict.fromkeys(("by", "why"), "a guard"),
    "machine": MACHINE,
    "new": MACHINE[MACHINE.start],
    "model": MODEL,
    "other": MODEL,
    "agent": AGENT,
    "read": AGENT.read,
    "tools": [echo],
    "executor": EXECUTOR,
    "run": EXECUTOR.run,
    "limits": EXECUTOR.limits,
    **dict.fromkeys(("inputs", "question"), "How are you?"),
    "messages": [UserMessage("Hello!")],
    "value": Out(1),
    "target": gx.END,
    "func": function,
    "Model": Arguments,
    "runnable": Runnable(),
    "name": "helper",
    "description": "Help.",
    "schema": {"type": "object", "properties": {"value": {"type": "string"}}},
}
# Names that mean something else in one call.
OTHERS: dict[str, dict[str, Any]] = {
    "chat_agent(ask, read, model)": {"ask": AGENT.ask},
    "graph.": {"graph": MACHINE},
    "machine.": {"machine": MACHINE, "value": 3},
}
# Values of the options that a remedy shows with three dots.
VALUES: dict[str, Any] = {
    "base_url": "http://127.0.0.1:8080/v1",
    "context": object(),
    "memory": BufferMemory(as_messages=True),
    "when_spent": limit_reached,
    "name": "helper",
    "description": "Help.",
    "system_prompt": "Be concise.",
    "question": "{input}",
    "examples": "auto",
    "protocol": "completion",
    "rules": ["no_repeats"],
    "stop": ["END"],
    "max_answer": 100,
    "tool_choice": "required",
    **dict.fromkeys(("max_iterations", "model_calls", "tool_calls", "tokens", "cost"), 3),
}


def run_code(code: str, tmp_path: Path) -> Any:
    filled = re.sub(r"\b(\w+)=\.\.\.", r"\1=VALUES['\1']", code)
    filled = re.sub(r",? ?\.\.\.", "", filled)
    others = {name: value for part, names in OTHERS.items() if part in filled for name, value in names.items()}
    error: Any = failure() if "error" in filled or "snapshot" in filled else None
    names = {**NAMES, **others, "VALUES": VALUES, "path": tmp_path / "flow.mmd", "error": error}
    if error is not None:
        names["snapshot"] = graphexec.snapshot_of(error)
    return eval(filled, names)


@cases("code", *sorted({code for text in TEXTS for code in find_calls(text)}))
def test_call_in_a_remedy_works(code: str, tmp_path: Path) -> None:
    assert run_code(code, tmp_path) is not None


# Attributes outside of calls.
READ = r"\b(?:executor|tool)\.\w+"


@cases("code", *sorted({code for text in TEXTS for code in re.findall(READ, without_calls(text))}))
def test_attribute_in_a_remedy_exists(code: str) -> None:
    assert eval(code, {"executor": EXECUTOR, "tool": echo}) != ""


# The functions whose options the remedies of a table name.
OWNERS: dict[str, list[Callable[..., Any]]] = {
    "EXECUTOR_OPTIONS": [gx.AgentExecutor],
    "CREATE_OPTIONS": [gx.create_react_agent, gx.create_tool_calling_agent],
    "CREATE_AGENT_OPTIONS": [gx.create_agent],
    "LOCAL_MODEL_OPTIONS": [models.LocalModel],
    "MEMORY_OPTIONS": [BufferMemory],
    "MODEL_OPTIONS": [models.OpenAICompatible, models.Anthropic],
    "REMOVED": [RunOptions],
    "RUN_OPTIONS": [RunOptions, RunContext],
    "LIMITS_OPTIONS": [graphexec.Limits],
    "TOOL_OPTIONS": [gx.tool, gx.AgentExecutor],
}
WRITTEN = [
    (table, option)
    for table, texts in TABLES.items()
    for option in sorted({one for text in texts.values() for one in re.findall(r"\b(\w+)=", without_calls(text))})
]


@cases(("table", "option"), *WRITTEN)
def test_option_in_a_remedy_exists(table: str, option: str) -> None:
    assert any(option in options_of(owner) for owner in OWNERS[table])


def options_of(owner: Callable[..., Any]) -> frozenset[str]:
    """Return the options that a function takes by name."""
    more = {gx.create_agent: ExecutorOptions, gx.tool: tools.ToolOptions}.get(owner)
    return frozenset({*inspect.signature(owner).parameters, *getattr(more, "__annotations__", ())})


OFFERED = [
    (option, name)
    for table, texts in TABLES.items()
    if table in OWNERS and table.endswith("OPTIONS")
    for option, text in texts.items()
    for code in find_calls(text)
    # As in `OpenAICompatible(name, ...)`: what was written there is to be written here.
    for name in re.findall(r"(\w+)\((?:[^()]*, )?\.\.\.\)", code)
]


@cases(("option", "name"), *sorted(set(OFFERED)))
def test_remedy_names_a_class_that_takes_the_option(option: str, name: str) -> None:
    owners = {one.__name__: one for several in OWNERS.values() for one in several}
    assert option in options_of(owners[name])


@cases("option", "examples", "max_answer", "protocol", "question", "rules", "stop", "tool_choice")
def test_options_of_agents_have_a_remedy_that_works(option: str, tmp_path: Path) -> None:
    call: Any = gx.create_agent
    with pytest.raises(errors.SignatureError) as raised:
        call(MODEL, [echo], **{option: VALUES[option]})
    (code,) = find_calls(str(raised.value))
    assert f"{option}=..." in code
    assert isinstance(run_code(code, tmp_path), gx.AgentExecutor)


@cases("call", gx.AgentExecutor, gx.create_agent, models.OpenAICompatible)
def test_requests_per_minute_belong_to_a_wrapper(call: Callable[..., Any]) -> None:
    with pytest.raises(errors.SignatureError, match="max_rpm; wrap the model in rate_limited"):
        call(max_rpm=3)


def test_kinds_in_a_remedy_exist() -> None:
    text = remedies.CREATE_AGENT_OPTIONS["agent_type"]
    kinds: list[Any] = re.findall(r"kind='(\w+)'", text)
    assert [gx.create_agent(MODEL, [echo], kind=kind).agent.kind for kind in kinds] == kinds


MODULES = r"((?:\w+, )*\w+(?: or \w+)?) of (graphexec\.\w+)"


def test_imports_in_remedies_exist() -> None:
    found = [(names, module) for text in TEXTS for names, module in re.findall(MODULES, without_calls(text))]
    assert found
    for names, module in found:
        for name in re.findall(r"\b[A-Z]\w+", names):
            assert hasattr(importlib.import_module(module), name)


# ---- what users type


class Other:
    """An object of another library."""

    def __init__(self, shown: str, **fields: Any) -> None:
        self.shown = shown
        vars(self).update(fields)

    def __repr__(self) -> str:
        return self.shown


FINE = models.ScriptedModel(["Final Answer: I am fine."], repeat_last=True)
REACTING = gx.AgentExecutor(agent=gx.create_react_agent(FINE, [echo]), tools=[echo])

# The names that the users' lines have.
TYPED: dict[str, Any] = {
    **{name: getattr(graphexec, name) for name in graphexec.__all__},
    **{one.__name__: one for one in (models.Anthropic, models.LocalModel, models.OpenAICompatible)},
    **{one.__name__: one for one in (models.OpenAIResponses, ChatRequest, Image)},
    **{one.__name__: one for one in (BufferMemory, WindowMemory, actions.Run, Ready, Path, Out)},
    "step": step,
    "echo": echo,
    "plain": plain,
    "model": FINE,
    "agent": REACTING.agent,
    "executor": REACTING,
    "prompt_template": Other("ChatPromptTemplate()"),
    "human_message": Other("HumanMessage('How are you?')", type="human", content="How are you?"),
    "langchain_tool": Other("StructuredTool()", name="search", invoke=print),
    "langchain_search": Other("BaseTool()", name="search", description="Search.", invoke=print),
    "chain": Other("RunnableSequence()", invoke=print, ainvoke=print),
    "openai_schema": {"type": "function"},
}


# The class of the error, and the rows of its lines.
ROWS: list[tuple[type[Exception], list[list[str]]]] = [
    *(
        (errors.ToolDefinitionError if about == "tools" else errors.InputError, rows)
        for about, rows in HABITS["others"].items()
    ),
    *((Exception, rows) for rows in HABITS["mistakes"].values()),
]


@cases(("error", "line", "facts"), *[(error, line, facts) for error, rows in ROWS for line, *facts in rows])
def test_habit_is_answered_with_a_remedy(error: type[Exception], line: str, facts: list[str]) -> None:
    with pytest.raises(error) as raised:
        exec(line, dict(TYPED))
    assert len(str(raised.value).splitlines()) == 1
    for written in facts:
        for fact in HABITS["facts"].get(written, [written]):
            assert fact in str(raised.value)


def test_other_inputs_are_ignored() -> None:
    executor = gx.create_agent(models.ScriptedModel(["Final Answer: I am fine."]), [echo], kind="react")
    inputs = {"input": "How are you?", "photo": "of a cat", "path": Path("a.png"), "file": None}
    assert executor.run(inputs).output == "I am fine."


@cases(
    ("name", "url"),
    *((name, None) for name in ("ft:gpt-4o:ours", "gpt-4o", "unknown:gpt-4o")),
    ("openai:gpt-4o", "http://127.0.0.1:4000/v1"),
)
def test_names_of_models_may_have_colons(name: str, url: str | None) -> None:
    assert models.OpenAICompatible(name, base_url=url).name == name


def test_most_libraries_have_several_habits() -> None:
    assert sum(map(len, HABITS["mistakes"].values())) >= 70
    assert len(HABITS["mistakes"]) == 10


async def echo_later(text: str) -> str:
    """Return the text."""
    return text


def give_nothing(text: str, seen: list[str] = []) -> None:  # noqa: B006 - users write it
    """Print the text."""
    seen.append(text)


@cases("used", plain, echo_later, give_nothing, fail.function)
def test_usual_functions_are_tools(used: Any) -> None:
    calls = models.ScriptedModel([f"Action: {used.__name__}\nAction Input: a", "Final Answer: I am fine."])
    assert gx.create_agent(calls, [used], kind="react").run("How are you?").output == "I am fine."


def test_result_is_printed_as_its_answer() -> None:
    result = REACTING.run("How are you?")
    assert f"{result}" == str(result) == "I am fine."
    stopped = gx.AgentExecutor(agent=REACTING.agent, tools=[echo], max_iterations=0).run("How are you?")
    assert str(stopped) == stopped.output


@cases("create", gx.create_react_agent, gx.create_tool_calling_agent)
def test_tool_with_parentheses_is_a_tool(create: Any) -> None:
    assert create(FINE, [gx.tool()(plain)]).tools[0].name == "plain"
