"""One call that makes an agent with its executor."""

import functools
import inspect
import itertools
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, AgentFinish, ParseError, Tool, create_agent, tool
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.executor.executor import ExecutorOptions
from graphexec.executor.options import AgentKind
from graphexec.memory import BufferMemory
from graphexec.messages import ChatRequest, ModelRequest, SystemMessage, ToolCall
from graphexec.models import Anthropic, FunctionModel, OpenAICompatible, ScriptedModel, cached
from graphexec.tools import tools_of
from tests.parameters import cases

ANSWER = '{"action": "final_answer", "answer": "12"}'


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


# A script for each kind: one call of `double`, then the answer.
SCRIPTS: dict[AgentKind, list[Any]] = {
    "structured": ['{"action": "double", "action_input": {"number": 6}}', ANSWER],
    "tool_calling": [ToolCall("1", "double", '{"number": 6}'), "12"],
    "react": ["Action: double\nAction Input: 6", "Final Answer: 12"],
}


@cases("kind", *get_args(AgentKind))
@cases("times", 1, 2)
def test_every_kind_calls_a_function_and_answers(kind: AgentKind, times: int) -> None:
    """The repeat of a call is answered by its result."""
    called, answered = SCRIPTS[kind]
    executor = create_agent(ScriptedModel([called] * times + [answered]), [double], kind=kind)
    assert (type(executor), executor.agent.kind) == (AgentExecutor, kind)
    result = executor.run("What is 6 doubled?")
    assert ([step.observation for step in result.steps], result.output) == ([12], "12")
    assert result.spent["model_calls"] == times + 1


class Server:
    """A toolset, as an MCP server is one."""

    def __init__(self, name: str, *tools: Any) -> None:
        self._name, self._tools = name, tools

    def tools(self) -> tuple[Any, ...]:
        return self._tools

    def __repr__(self) -> str:
        return f"<server {self._name}>"


def test_toolset_stands_for_its_tools() -> None:
    server, other = Server("shop", tool(double)), tool(name="halve")(double)
    agent = SCRIPTS["tool_calling"]
    made = [
        create_agent(ScriptedModel(agent), [other, server], kind="tool_calling"),
        AgentExecutor(agent=lambda steps, inputs: AgentFinish({}), tools=[other, server]),
        create_agent(ScriptedModel(agent), [other], kind="tool_calling").with_tools([other, server]),
    ]
    assert [[*executor.tools] for executor in made] == [["halve", "double"]] * 3
    assert made[0].run("What is 6 doubled?").steps[0].observation == 12


def test_name_in_two_toolsets_is_an_error_that_names_both() -> None:
    shop, bank, own = Server("shop", tool(double)), Server("bank", tool(double)), tool(double)
    pairs: list[tuple[list[Any], str]] = [([shop, bank], "<server shop>"), ([own, bank], "<tool double(")]
    makers: list[Callable[[list[Any]], object]] = [
        lambda tools: create_agent("openai:gpt-5-mini", tools),
        lambda tools: AgentExecutor(agent=lambda steps, inputs: AgentFinish({}), tools=tools),
    ]
    for (tools, first), make in itertools.product(pairs, makers):
        with pytest.raises(ToolDefinitionError, match="two tools are named double") as caught:
            make(tools)
        assert all(fact in str(caught.value) for fact in (first, "<server bank>", "prefix="))


def test_toolset_without_tools_is_an_error_that_names_it() -> None:
    broken: Any = Server("shop")
    broken.tools = lambda: None
    with pytest.raises(ToolDefinitionError, match=r"<server shop> has tools\(\)=None; give a list of tools"):
        create_agent(ScriptedModel([]), [broken], kind="tool_calling")


@cases("kind", *SCRIPTS)
@given(prompt=st.text(min_size=1))
def test_system_prompt_is_text_before_the_rest(kind: AgentKind, prompt: str) -> None:
    executor = create_agent(model := ScriptedModel(SCRIPTS[kind]), [double], kind=kind, system_prompt=prompt)
    executor.run("What is 6 doubled?")
    request = model.requests[0]
    assert isinstance(request, ChatRequest)
    assert request.messages[0].content.startswith(prompt)
    if kind != "react":
        assert isinstance(request.messages[0], SystemMessage)


# A model, and the kind that `auto` takes.
CHOSEN: list[tuple[Any, AgentKind]] = [
    ("openai:gpt-5-mini", "tool_calling"),
    ("anthropic:claude-sonnet-4-5", "tool_calling"),
    ("ollama:qwen3:0.6b", "structured"),
    ("openai:somebody-elses", "structured"),
    ("local", "structured"),
    (OpenAICompatible("gpt-5-mini", base_url="https://api.openai.com/v1"), "tool_calling"),
    (OpenAICompatible("gpt-5-mini", base_url="http://127.0.0.1:8080/v1"), "structured"),
    (cached(Anthropic("claude-sonnet-4-5", base_url="https://api.anthropic.com"), {}), "tool_calling"),
    (ScriptedModel([]), "structured"),
    (FunctionModel(lambda _: ANSWER), "structured"),
]


@cases(("model", "kind"), *CHOSEN)
def test_auto_chooses_by_the_table(monkeypatch: pytest.MonkeyPatch, model: Any, kind: AgentKind) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a server was asked")

    monkeypatch.setattr(socket, "socket", refuse)
    executor = create_agent(model, [double])
    assert executor.agent.kind == kind
    assert f"({kind})" in repr(executor)


def test_named_provider_is_known_at_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://gpu.example:11434/v1")
    assert create_agent("ollama:qwen3", [double]).agent.kind == "tool_calling"


def test_auto_avoids_names_that_providers_refuse() -> None:
    odd: Any = tool(name="Current Search")(double)
    assert create_agent("openai:gpt-5-mini", [odd]).agent.kind == "structured"
    assert create_agent("openai:gpt-5-mini", [odd], kind="tool_calling").agent.kind == "tool_calling"


def test_function_is_a_model() -> None:
    def reply(request: ModelRequest) -> str:
        return ANSWER

    executor = create_agent(reply, [double])
    assert isinstance(executor.agent.model, FunctionModel)
    assert executor.run("q").output == "12"
    assert create_agent(reply).run("q").output == "12"


class Numbers:
    @tool
    def half(self, number: int) -> float:
        """Halve a number."""
        return number / 2

    def third(self, number: int) -> float:
        """Divide a number by three."""
        return number / 3


async def later(number: int) -> int:
    """Return a number later."""
    return number


def untyped(text):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    return text  # pyright: ignore[reportUnknownVariableType]


def test_all_forms_of_tools_are_taken() -> None:
    numbers = Numbers()
    # Any: type checkers know no parameters.
    plain: Any = globals()["untyped"]
    tools: list[Any] = [
        double,
        later,
        numbers.third,
        *tools_of(numbers),
        Tool("echo", plain, "Repeat it."),
        tool(name="six")(functools.partial(double, number=6)),
    ]
    executor = create_agent(ScriptedModel([]), iter(tools))
    assert list(executor.tools) == ["double", "later", "third", "half", "echo", "six"]


class Invoking:
    def invoke(self, inputs: object) -> str:
        return ""


M = ScriptedModel([])
# Any: type checkers report these mistakes, too.
create: Any = create_agent
FIRST = "tools is the model .*; give the model first, and then the tools"
# Arguments, and the error.
WRONG_TOOLS: list[tuple[Any, Any, str]] = [
    (M, [untyped], "untyped has no docstring, so no model knows what it does; write one line"),
    (M, [Numbers()], r"numbers has tools, and is none; write \*tools_of\(numbers\) instead of it"),
    (M, [Numbers.half], r"half is a method .*; take it from one, as in Shop\(\).half"),
    (M, [double, tool(double)], "two tools are named double"),
    (M, double, "tools is .*; give a list of tools"),
    (M, M, FIRST),
    ([double], M, FIRST),
    (tool(double), M, FIRST),
    (double, M, FIRST),
]
WRONG_MODELS: list[tuple[Any, str]] = [
    (None, "model is None; give a name such as 'openai:gpt-5-mini' or 'local', a model, or a function"),
    (3, "model is 3; give a name"),
    ([double], r"model is \[.*; give a name"),
    (OpenAICompatible, r"model is the class OpenAICompatible; make one, as in OpenAICompatible\(...\)"),
    (Invoking(), r"model is an Invoking, which has invoke; pass from_langchain\(model\) of graphexec.integrations.l"),
    (SimpleNamespace(chat=1), r"model is a SimpleNamespace, which has chat; pass from_openai\(client, 'gpt-5-mini'\)"),
    (SimpleNamespace(request_stream=1), r".*, which has request_stream; pass from_pydantic_ai\(model\) of"),
]
WRONG_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"max_iteration": 3}, "create_agent has no option max_iteration; did you mean max_iterations?"),
    ({"colour": "red"}, "create_agent has no option colour; the options are system_prompt, kind, output_type, "),
    ({"agent": 3}, "create_agent has no option agent; "),
    ({"functions": []}, "create_agent has no option functions; write tools, the second argument"),
    ({"max_turns": 3, "knid": "react"}, "max_turns; write max_iterations=...; .* no option knid; did you mean kind?"),
    ({"colour": 3, "size": 4}, "create_agent has no option colour or size; the options are system_prompt, kind, "),
    ({"kind": "tool-calling"}, "kind is 'tool-calling'; did you mean tool_calling?"),
    ({"kind": "zero-shot"}, "kind is 'zero-shot'; give auto, tool_calling, structured, react"),
    ({"kind": None}, "kind is None; give auto, tool_calling, structured, react"),
    ({"system_prompt": 3}, "system_prompt is 3; give a string, or None for none"),
    ({"kind": "react", "memory": BufferMemory()}, "memory is for agents with messages, .*; take kind='structured'"),
    ({"return_direct": "all"}, "return_direct is 'all'; give 'single' or 'any'"),
]
AGENT_TYPE = r"no option agent_type; write kind='react', .*; .* no option max_steps; "


@cases(
    ("arguments", "options", "error", "message"),
    *(((model, tools), {}, ToolDefinitionError, message) for model, tools, message in WRONG_TOOLS),
    *(((model, [double]), {}, InputError, message) for model, message in WRONG_MODELS),
    *(((M, [double]), options, InputError, message) for options, message in WRONG_OPTIONS),
    ((), {"agent_type": "react", "max_steps": 3, "verbose": True}, InputError, AGENT_TYPE),
    ((), {}, InputError, r"create_agent needs model; write create_agent\(model, tools, sys"),
)
def test_mistake_gets_the_remedy(arguments: tuple[Any, ...], options: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        create(*arguments, **options)


def test_options_are_those_of_the_executor() -> None:
    parameters = inspect.signature(AgentExecutor).parameters
    written = {name: one.annotation for name, one in parameters.items() if name not in ("agent", "tools")}
    assert {name: hint.__forward_arg__ for name, hint in ExecutorOptions.__annotations__.items()} == written


def test_options_reach_the_executor() -> None:
    options: Any = {"max_iterations": 3, "max_tool_calls": 0, "return_intermediate_steps": True}
    executor = create_agent(ScriptedModel([ANSWER]), [double], **options)
    assert executor.limits.iterations == 3
    assert executor.invoke("q")["intermediate_steps"] == []


def test_model_corrects_an_invalid_reply_by_default() -> None:
    assert create_agent(ScriptedModel(["{", ANSWER]), [double]).run("q").output == "12"
    strict = create_agent(ScriptedModel(["{", ANSWER]), [double], handle_parsing_errors=False)
    with pytest.raises(ParseError):
        strict.run("q")
