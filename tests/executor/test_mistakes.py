"""Invalid arguments of an agent raise an error that names the value and the remedy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import graphexec.agents
from graphexec import Agent, AgentExecutor, callable_agent, chat_agent, create_agent, create_structured_agent, tool
from graphexec.actions import AgentFinish, Run
from graphexec.agents import create_self_ask_agent
from graphexec.effects import CallModel
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.messages import ChatRequest, CompletionRequest
from graphexec.models import ScriptedModel
from tests.executor.actors import echo
from tests.executor.test_history import search
from tests.parameters import cases

CREATE: dict[str, Callable[..., Agent]] = {
    name: getattr(graphexec.agents, name) for name in graphexec.agents.__all__ if name.startswith("create_")
}

EACH = cases("create", CREATE.values())


def tools_for(create: Callable[..., Agent]) -> list[Any]:
    return [search if create is create_self_ask_agent else echo]


# A function from a valid model and valid tools to invalid arguments, and the error message.
ARGUMENTS: dict[str, tuple[Callable[[Any, Any], tuple[Any, Any]], str]] = {
    "a class of models": (
        lambda model, tools: (ScriptedModel, tools),
        r"the model is ScriptedModel, a class; give a model, such as",
    ),
    "the name of a model": (
        lambda model, tools: ("gpt-4", tools),
        r"the model is 'gpt-4'; give a model, such as create_model\('openai:gpt-5-mini'\)",
    ),
    "a model without a method": (
        lambda model, tools: (SimpleNamespace(complete=len), tools),
        r"the model is namespace\(.*\), which has no acomplete; give a model, such as",
    ),
    "no model": (lambda model, tools: (None, tools), "the model is None; give a model, such as"),
    "a function": (lambda model, tools: (len, tools), "the model is <built-in function len>; give a model, such as"),
    "model and tools swapped": (lambda model, tools: (tools, model), "tools is the model .*; give the model first"),
    "one tool swapped": (lambda model, tools: (tools[0], model), "tools is the model .*; give the model first"),
    "no tools": (lambda model, tools: (model, None), r"tools is None; give a list of tools, \[\] for none"),
    "a number of tools": (lambda model, tools: (model, 3), r"tools is 3; give a list of tools, \[\] for none"),
    "the name of a tool": (lambda model, tools: (model, "search"), "tools is 'search'; give a list of tools"),
    "one tool": (lambda model, tools: (model, tools[0]), "tools is the tool .* itself; pass a list of tools"),
    "a function that is no tool": (lambda model, tools: (model, [len]), "len is not a tool; decorate"),
}


@EACH
@cases("mistake", ARGUMENTS)
def test_invalid_model_or_tools_are_refused(create: Callable[..., Agent], mistake: str) -> None:
    wrong, message = ARGUMENTS[mistake]
    error = InputError if message.startswith("the model is") else ToolDefinitionError
    with pytest.raises(error, match=message) as raised:
        create(*wrong(ScriptedModel([]), tools_for(create)))
    assert "\n" not in str(raised.value)


RULES = "no_dummies, no_repeats, no_immediate_repeats"

# An option has the same name and the same error message in every agent.
OPTIONS: dict[str, tuple[tuple[Any, ...], str]] = {
    "prompt": ((None, 3, b"x", ["x"]), "the prompt is {!r}; give a string"),
    "question": ((None, 3, b"x", ["x"]), "the question is {!r}; give a string"),
    "tool_response": ((None, 3, b"x", ["x"]), "the tool_response is {!r}; give a string"),
    "system": ((None, 3, b"x", ["x"]), "system is {!r}; give a string"),
    "ai_prefix": ((None, 3, b"x", ["x"]), "ai_prefix is {!r}; give a string"),
    "examples": (
        (None, 3, "x", ["x"]),
        "examples is {!r}; give a list of WorkedExample(question, calls, answer), or 'auto'",
    ),
    "stop": ((None, 3, "x", b"x", [3]), "stop is {!r}; give a list of strings"),
    "protocol": ((None, 3, "text", []), "protocol is {!r}; give 'chat' or 'completion'"),
    "history": ((None, 3, b"x", ["x"]), "history is {!r}; give a string"),
    "max_answer": (
        (0, -1, 2.5, "x", True),
        "max_answer is {!r}; give a whole number of characters, 1 or more, or None for no limit",
    ),
    "tool_choice": ((3, "x", ["auto"]), "tool_choice is {!r}; give auto, required, or the name of a tool: echo"),
    "rules": ((None, 3, "no_repeats", [3]), f"rules is {{!r}}; give a list of names of rules: {RULES}"),
}


@EACH
def test_invalid_options_are_refused(create: Callable[..., Agent]) -> None:
    _, _, *options = inspect.signature(create).parameters
    assert options
    for option in options:
        values, message = OPTIONS[option]
        for value in values:
            with pytest.raises(InputError) as raised:
                create(ScriptedModel([]), tools_for(create), **{option: value})
            assert str(raised.value) == message.format(value)


@EACH
def test_options_have_the_same_order(create: Callable[..., Agent]) -> None:
    order = ["model", "tools", "system", "prompt", "question", "examples", "tool_response", "ai_prefix"]
    order += ["stop", "protocol", "history", "max_answer", "tool_choice", "rules"]
    names = list(inspect.signature(create).parameters)
    assert names == sorted(names, key=order.index)


@EACH
def test_tools_may_be_any_iterable(create: Callable[..., Agent]) -> None:
    model = ScriptedModel([])
    listed = create(model, tools_for(create))
    generated = create(model, (one for one in tools_for(create)))
    run = Run({"input": "q", "chat_history": ""} if "chat_history" in listed.input_keys else {"input": "q"})
    assert listed.ask(run) == generated.ask(run)


@cases("name", [name for name in CREATE if "stop" in inspect.signature(CREATE[name]).parameters])
def test_stop_texts_are_part_of_the_request(name: str) -> None:
    create = CREATE[name]
    agent = create(ScriptedModel([]), tools_for(create), stop=["END", "STOP"])
    effect = agent.ask(Run({"input": "q", **({"chat_history": ""} if "chat_history" in agent.input_keys else {})}))
    assert isinstance(effect, CallModel)
    assert isinstance(effect.request, (ChatRequest, CompletionRequest))
    assert effect.request.stop == ("END", "STOP")


def test_prompt_without_the_question_is_refused() -> None:
    create = CREATE["create_tool_calling_agent"]
    with pytest.raises(InputError, match=r"the prompt has no variable, .* write \{input\} .*, and pass instruct"):
        create(ScriptedModel([]), [echo], prompt="You are a helpful assistant.")


@EACH
def test_invalid_template_is_named(create: Callable[..., Agent]) -> None:
    for option in {"prompt", "question", "tool_response"} & {*inspect.signature(create).parameters}:
        with pytest.raises(InputError, match=rf"the {option} has the variable \{{a b\}}, which is not a name"):
            create(ScriptedModel([]), tools_for(create), **{option: "{a b}"})
        with pytest.raises(InputError, match=f"the {option} is not a template"):
            create(ScriptedModel([]), tools_for(create), **{option: "{"})


def test_a_history_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="history is empty; pass the name of the input"):
        create_structured_agent(ScriptedModel([]), [echo], history="")


@cases("keys", ["input_keys", "optional_keys"])
def test_input_keys_must_be_a_list(keys: str) -> None:
    made: Any = create_structured_agent(ScriptedModel([]), [echo])
    wrong: Any = {keys: "question"}
    with pytest.raises(InputError, match=f"{keys} is 'question'; give a list of strings"):
        chat_agent(made.ask, made.read, ScriptedModel([]), **wrong)


@cases("wrong", [None, "gpt-4", create_structured_agent(ScriptedModel([]), [])])
def test_agent_must_be_a_function(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"agent is .*; make one with create_react_agent, say, or give a function"):
        callable_agent(wrong)


class MyExecutor(AgentExecutor):
    """An executor of a user's class, with the attributes of LangChain's tools."""

    name = "mine"
    description = "Mine."


@cases("kind", [AgentExecutor, MyExecutor])
def test_executor_is_recognized(kind: type[AgentExecutor]) -> None:
    executor: Any = kind(agent=create_structured_agent(ScriptedModel([]), [echo]), tools=[echo])
    for agent in (executor, executor.run, executor.arun):
        with pytest.raises(InputError, match="agent is an executor, which runs an agent already; run it as it is, or"):
            callable_agent(agent)
    with pytest.raises(ToolDefinitionError, match=r"tool was given an executor; write executor.as_tool\(name"):
        tool(executor)
    with pytest.raises(ToolDefinitionError, match=r"is not a tool; write executor.as_tool\(name, description\)"):
        create_structured_agent(ScriptedModel([]), [executor])
    with pytest.raises(ToolDefinitionError, match=r"tool was given an executor; write executor.as_tool\(name"):
        create_agent(ScriptedModel([]), [executor])
    with pytest.raises(InputError, match=f"model is an? {kind.__name__}, which has a model already; run it as it is"):
        create_agent(executor)


class Proxy:
    """An object that has every attribute, as some proxies do."""

    def __getattr__(self, name: str) -> Any:
        return True

    def __call__(self, steps: object, inputs: object) -> Any:
        return AgentFinish({"output": "done"})


def test_object_of_another_library_is_no_executor() -> None:
    assert AgentExecutor(agent=Proxy(), tools=[]).run("q").output == "done"


@cases("function", [create_agent, create_structured_agent, create_self_ask_agent])
def test_function_that_makes_an_agent_is_not_one(function: Any) -> None:
    name = function.__name__
    with pytest.raises(InputError, match=rf"agent is the function {name}; call it: {name}\(model, tools\)"):
        callable_agent(function)
