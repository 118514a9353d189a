"""Invalid arguments and tools of agents and executors raise an error that names the value and the remedy."""

import asyncio
import dataclasses
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import graphexec as gx
from graphexec import agents, memory, models, testing
from graphexec.actions import AgentAction, AgentFinish, Run
from graphexec.agents import Agent
from graphexec.effects import CallModel
from graphexec.errors import InputError, ToolDefinitionError
from graphexec.executor import parse
from graphexec.integrations import langchain
from graphexec.integrations.langchain import create_self_ask_agent
from graphexec.memory import BufferMemory
from graphexec.messages import ChatRequest, CompletionRequest
from graphexec.models import ScriptedModel
from tests.executor.actors import answer, echo, fail, scripted, search
from tests.kernel.machines import check_refusal, error_message, value
from tests.parameters import cases

CREATE: dict[str, Any] = {
    name: getattr(package, name)
    for package in (agents, langchain)
    for name in package.__all__
    if name.startswith("create_")
}

EACH = cases("create", *CREATE.values())


def tools_for(create: Callable[..., gx.Agent]) -> list[Any]:
    return [search if create is create_self_ask_agent else echo]


# Functions from a valid model and valid tools to invalid arguments, and the error message.
ARGUMENTS: list[tuple[Callable[[Any, Any], tuple[Any, Any]], str]] = [
    (lambda model, tools: (ScriptedModel, tools), "the model is ScriptedModel, a class; give a model, such as"),
    (lambda _, tools: ("gpt-4", tools), r"the model is 'gpt-4'; give .* create_model\('openai:gpt-5-mini'\)"),
    (
        lambda _, tools: (SimpleNamespace(acomplete=len), tools),
        r"the model is namespace\(.*\); give .* with complete\(request",
    ),
    (lambda _, tools: (None, tools), "the model is None; give a model, such as"),
    (lambda _, tools: (len, tools), "the model is <built-in function len>; give a model, such as"),
    (lambda model, tools: (tools, model), "tools is the model .*; give the model first"),
    (lambda model, tools: (tools[0], model), "tools is the model .*; give the model first"),
    (lambda model, _: (model, None), r"tools is None; give a list of tools, \[\] for none"),
    (lambda model, _: (model, 3), r"tools is 3; give a list of tools, \[\] for none"),
    (lambda model, _: (model, "search"), "tools is 'search'; give a list of tools"),
    (lambda model, tools: (model, tools[0]), "tools is <tool .*>; give a list of tools"),
    (lambda model, _: (model, [len]), "len is not a tool; decorate"),
]


@EACH
@cases(("wrong", "message"), *ARGUMENTS)
def test_invalid_model_or_tools_are_refused(create: Callable[..., Agent], wrong: Any, message: str) -> None:
    error = InputError if message.startswith("the model is") else ToolDefinitionError
    with pytest.raises(error, match=message) as raised:
        create(*wrong(ScriptedModel([]), tools_for(create)))
    assert "\n" not in str(raised.value)


RULES = "no_dummies, no_repeats, no_immediate_repeats"

NO_STRINGS = (None, 3, b"x", ["x"])
A_COUNT = "give a whole number of characters, 1 or more, or None for no limit"
EXAMPLES = "give a list of WorkedExample(question, calls, answer), or 'auto'"
# An option has the same name and the same error message in every agent.
OPTIONS: dict[str, tuple[tuple[Any, ...], str]] = {
    **{name: (NO_STRINGS, f"the {name} is {{!r}}; give a string") for name in ("prompt", "question", "tool_response")},
    **{name: (NO_STRINGS, f"{name} is {{!r}}; give a string") for name in ("system", "ai_prefix", "history")},
    "examples": ((None, 3, "x", ["x"]), f"examples is {{!r}}; {EXAMPLES}"),
    "stop": ((None, 3, "x", b"x", [3]), "stop is {!r}; give a list of strings"),
    "protocol": ((None, 3, "text", []), "protocol is {!r}; give 'chat' or 'completion'"),
    "max_answer": ((0, -1, 2.5, "x", True), f"max_answer is {{!r}}; {A_COUNT}"),
    "tool_choice": ((3, "x", ["auto"]), "tool_choice is {!r}; give auto, required, or the name of a tool: echo"),
    "rules": ((None, 3, "no_repeats", [3]), f"rules is {{!r}}; give a list of names of rules: {RULES}"),
}


@EACH
def test_invalid_options_are_refused(create: Callable[..., gx.Agent]) -> None:
    _, _, *options = inspect.signature(create).parameters
    assert options
    for option in options:
        values, message = OPTIONS[option]
        for wrong in values:
            found = error_message(InputError, create, ScriptedModel([]), tools_for(create), **{option: wrong})
            assert found == message.format(wrong)


@EACH
def test_options_have_the_same_order(create: Callable[..., gx.Agent]) -> None:
    order = ["model", "tools", "prompt", "system", "question", "examples", "tool_response", "ai_prefix"]
    order += ["stop", "protocol", "history", "max_answer", "tool_choice", "rules"]
    parameters = inspect.signature(create).parameters
    names = list(parameters)
    assert names == sorted(names, key=order.index)
    by_position = [name for name, one in parameters.items() if one.kind is not one.KEYWORD_ONLY]
    assert by_position == ["model", "tools", "prompt"]


@EACH
def test_tools_may_be_any_iterable(create: Callable[..., gx.Agent]) -> None:
    model = ScriptedModel([])
    listed = create(model, tools_for(create))
    generated = create(model, (one for one in tools_for(create)))
    run = Run({"input": "q", "chat_history": ""} if "chat_history" in listed.input_keys else {"input": "q"})
    assert listed.ask(run) == generated.ask(run)


@cases("name", *[name for name in CREATE if "stop" in inspect.signature(CREATE[name]).parameters])
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
def test_invalid_template_is_named(create: Callable[..., gx.Agent]) -> None:
    for option in {"prompt", "question", "tool_response"} & {*inspect.signature(create).parameters}:
        with pytest.raises(InputError, match=rf"the {option} has the variable \{{a b\}}, which is not a name"):
            create(ScriptedModel([]), tools_for(create), **{option: "{a b}"})
        with pytest.raises(InputError, match=f"the {option} is not a template"):
            create(ScriptedModel([]), tools_for(create), **{option: "{"})


def test_a_history_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="history is empty; pass the name of the input"):
        gx.create_structured_agent(ScriptedModel([]), [echo], history="")


MADE: Any = gx.create_structured_agent(ScriptedModel([]), [echo])


@cases("keys", "input_keys", "optional_keys")
def test_input_keys_must_be_a_list(keys: str) -> None:
    wrong: Any = {keys: "question"}
    with pytest.raises(InputError, match=f"{keys} is 'question'; give a list of strings"):
        gx.chat_agent(MADE.ask, MADE.read, ScriptedModel([]), **wrong)


@cases(
    ("wrong", "remedy"),
    *((one, "make one with create_react_agent, say, or give a function") for one in (None, "gpt-4", MADE)),
    *(
        (one, rf"call it: {one.__name__}\(model, tools\)")
        for one in (gx.create_agent, gx.create_structured_agent, create_self_ask_agent)
    ),
)
def test_agent_must_be_a_function(wrong: Any, remedy: str) -> None:
    with pytest.raises(InputError, match=f"agent is .*; {remedy}"):
        gx.callable_agent(wrong)


class MyExecutor(gx.AgentExecutor):
    """An executor of a user's class, with the attributes of LangChain's tools."""

    name = "mine"
    description = "Mine."


@cases("kind", gx.AgentExecutor, MyExecutor)
def test_executor_is_recognized(kind: type[gx.AgentExecutor]) -> None:
    executor: Any = kind(agent=gx.create_structured_agent(ScriptedModel([]), [echo]), tools=[echo])
    for agent in (executor, executor.run, executor.arun):
        with pytest.raises(InputError, match="agent is an executor, which runs an agent already; run it as it is, or"):
            gx.callable_agent(agent)
    with pytest.raises(ToolDefinitionError, match=r"tool was given an executor; write executor.as_tool\(name"):
        gx.tool(executor)
    with pytest.raises(ToolDefinitionError, match=r"is not a tool; write executor.as_tool\(name, description\)"):
        gx.create_structured_agent(ScriptedModel([]), [executor])
    with pytest.raises(ToolDefinitionError, match=r"is not a tool; write executor.as_tool\(name, description\)"):
        gx.create_agent(ScriptedModel([]), [executor])
    with pytest.raises(InputError, match=f"model is an? {kind.__name__}, which has a model already; run it as it is"):
        gx.create_agent(executor)


class Proxy:
    """An object that has every attribute, as some proxies do."""

    def __getattr__(self, name: str) -> Any:
        return True

    def __call__(self, steps: object, inputs: object) -> Any:
        return AgentFinish({"output": "done"})


def test_object_of_another_library_is_no_executor() -> None:
    assert gx.AgentExecutor(agent=Proxy(), tools=[]).run("q").output == "done"


# ---- options and uses of an executor

MODEL = models.ScriptedModel([])
# Any: type checkers report these mistakes, too.
AGENT: Any = gx.create_react_agent(MODEL, [])
ACTION: Any = AgentAction
FINISH: Any = AgentFinish


@value
class Verdict:
    text: str


@gx.node
def judge(finish: AgentFinish) -> Verdict:
    return Verdict(finish.output)


def executor(**options: Any) -> Any:
    options = {"agent": AGENT, "tools": [], **options}
    return gx.AgentExecutor(**options)


def judged() -> Any:
    return gx.splice(executor().graph, gx.edges(judge, gx.on(Verdict, gx.END)), after=parse, on=AgentFinish)


def trimmed_to(steps: Any) -> object:
    trim: dict[str, Callable[[object], object]] = {"trim_intermediate_steps": lambda _: steps}
    return executor(agent=scripted(answer()), **trim).run("q")


NO_START = "not a machine that starts with Ready; make it from executor.graph"
JUDGING: Any = gx.graph(gx.edges(judge, gx.on(Verdict, gx.END)), start=judge)
# A mistake, and two facts of the error.
MISTAKES: list[tuple[Callable[[], object], str, str]] = [
    (lambda: executor().with_graph(JUDGING), NO_START, ""),
    (lambda: executor().with_graph(5), NO_START, ""),
    (lambda: executor().with_graph(judged()), "judge --Verdict--> END ends a run of an agent", ""),
    (lambda: executor().with_limits(3), "the limits are 3", "give a Limits, for example Limits(iterations="),
    (lambda: trimmed_to(None), "trim_intermediate_steps returned None", "return the steps to show"),
    (lambda: trimmed_to([("a", "b")]), "trim_intermediate_steps returned a sequence with ('a', 'b')", ""),
    (lambda: FINISH("no"), "AgentFinish: return_values='no' is invalid", "write AgentFinish({'output': ...})"),
    (lambda: FINISH(None), "AgentFinish: return_values=None is invalid", "write AgentFinish"),
    (lambda: ACTION(echo, "a"), "AgentAction: tool=<tool echo", " is invalid; pass the tool's name"),
    (lambda: ACTION("echo", ["a"]), "AgentAction: tool_input=['a'] is invalid", "pass a string"),
]


@cases(("make", "fact", "remedy"), *MISTAKES)
def test_mistake_is_refused_with_the_remedy(make: Any, fact: str, remedy: str) -> None:
    check_refusal(InputError, [fact, remedy], make)


class Awaited:
    """An observer with an async `__call__`, whose coroutine would not be awaited."""

    async def __call__(self, event: object) -> None: ...


# Invalid options of the executor, and the facts of the error beside their names.
EXECUTOR_OPTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"agent": gx.create_react_agent}, "is the function create_react_agent", "call it: create_react_agent("),
    ({"agent": AgentFinish}, "is AgentFinish, a class", "make one with create_react_agent, say, or give a function"),
    *(
        ({"agent": one}, "is ", "make one with create_react_agent, say, or give a function")
        for one in (None, 42, "gpt", MODEL)
    ),
    *(
        ({"early_stopping_method": one}, f"is {one!r}", "give 'force' or 'generate'")
        for one in ("guess", "", None, ["generate"])
    ),
    ({"handlers": [print]}, "is [", "give a dict, for example {AskHuman: function}"),
    ({"verbose": "no"}, "is 'no'", "give True or False"),
    ({"allow_nonterminating": "no"}, "is 'no'", "give True or False"),
    ({"return_intermediate_steps": 1}, "is 1", "give True or False"),
    *(
        ({"trim_intermediate_steps": one}, f"is {one!r}", "give the number of steps to show, or a func")
        for one in (2.5, "last", None, 1.5, [1])
    ),
    *(({"return_direct": one}, f"is {one!r}", "give 'single' or 'any'") for one in (["any"], "perhaps", None, 1)),
    *(
        ({"observers": one}, "is ", "give a list of functions (def) that take an event")
        for one in ([1], "print", [asyncio.sleep], [Awaited()], print)
    ),
    ({"tool_concurrency": "2"}, "is '2'", "give a whole number, 1 or more"),
    ({"tool_concurrency": 0}, "is 0", "give a whole number, 1 or more"),
    ({"tool_concurrency": -1}, "is -1", "give a whole number, 1 or more"),
    ({"tool_concurrency": True}, "is True", "give a whole number, 1 or more"),
    ({"handle_parsing_errors": asyncio.sleep}, "is ", "a function (def) of the error"),
    ({"trim_intermediate_steps": asyncio.sleep}, "is ", "a function (def) of the steps"),
    *(
        ({"handle_parsing_errors": one}, f"is {one!r}", "give True, False, a string, or a function")
        for one in (None, 0, 1, 3, [True])
    ),
    ({"memory": []}, "is ", "give a memory, for example BufferMemory()"),
    ({"memory": BufferMemory}, "is ", "give a memory, for example BufferMemory()"),
    ({"memory": memory.MemoryHistory()}, "is ", "give a memory, for example BufferMemory()"),
]


@cases(("options", "fact", "remedy"), *EXECUTOR_OPTIONS)
def test_invalid_option_is_refused_by_name(options: dict[str, Any], fact: str, remedy: str) -> None:
    (name,) = options
    message = error_message(InputError, executor, **options)
    assert message.startswith(f"{name} {fact}")
    assert remedy in message


@cases(
    ("tools", "fact"),
    (echo, "tools is <tool echo.*>; give a list of tools"),
    ([len], "len is not a tool; decorate"),
    ([echo, echo], "two tools are named echo"),
)
def test_invalid_tools_of_an_executor_are_refused(tools: Any, fact: str) -> None:
    with pytest.raises(ToolDefinitionError, match=fact):
        executor(agent=scripted(answer()), tools=tools)


def test_text_memory_is_refused_where_messages_are_read() -> None:
    agent = gx.create_tool_calling_agent(models.ScriptedModel(["so"]), [])
    with pytest.raises(InputError, match=r"the memory provides chat_history as text, .*; make it with as_"):
        executor(agent=agent, memory=memory.BufferMemory())
    assert executor(agent=agent, memory=memory.BufferMemory(as_messages=True)).run("q").output == "so"


# ---- an executor has the tools that its agent describes to the model


@gx.tool(name="echo")
def other_echo(word: str) -> str:
    """Repeat a word."""
    return word


def custom_agent(**options: Any) -> Agent:
    return gx.chat_agent(lambda run: CallModel(CompletionRequest("")), lambda reply: (), ScriptedModel([]), **options)


AGENTS: list[Agent] = [
    *(create(ScriptedModel([]), [search]) for create in CREATE.values()),
    custom_agent(tools=[search], kind="mine"),
]


@cases("agent", *AGENTS)
def test_every_agent_knows_its_tools_and_kind(agent: Agent) -> None:
    assert agent.tools == (search,)
    executor = gx.AgentExecutor(agent=agent, tools=[search])
    assert repr(executor).startswith(f"<AgentExecutor with Intermediate Answer ({agent.kind}): ")
    with pytest.raises(InputError, match="only the agent has Intermediate Answer; only the executor has echo; pass"):
        gx.AgentExecutor(agent=agent, tools=[echo])


def test_kinds_differ() -> None:
    kinds = [agent.kind for agent in AGENTS]
    assert len(set(kinds)) == len(kinds)
    assert gx.callable_agent(scripted(answer())).kind == "function"


# The agent's tools, the executor's, and the difference.
DIFFERENT: list[tuple[list[Any], list[Any], str]] = [
    ([echo], [fail], "only the agent has echo; only the executor has fail"),
    ([echo, fail], [echo], "only the agent has fail"),
    ([echo], [echo, fail, search], "only the executor has fail, Intermediate Answer"),
    ([], [echo], "only the executor has echo"),
    ([echo], [], "only the agent has echo"),
    ([echo], [other_echo], "echo(text: string) of the agent is echo(word: string) in the executor"),
]


@cases(("known", "given", "difference"), *DIFFERENT)
def test_different_tools_are_refused(known: list[Any], given: list[Any], difference: str) -> None:
    agent = gx.create_react_agent(ScriptedModel([]), known)
    message = f"the agent and the executor have different tools: {difference}; pass the same list to both"
    assert error_message(InputError, gx.AgentExecutor, agent=agent, tools=given) == message


def test_same_parameters_are_the_same_tool() -> None:
    agent = gx.create_react_agent(ScriptedModel([]), [echo, fail])
    for same in (dataclasses.replace(echo, timeout=3), gx.tool(echo.function), testing.scripted_tool(echo, ["x"])):
        assert list(gx.AgentExecutor(agent=agent, tools=[fail, same]).tools) == ["fail", "echo"]


def test_agent_without_known_tools_takes_any() -> None:
    unknown = custom_agent()
    assert (unknown.tools, unknown.kind) == (None, "custom")
    for agent in (scripted(answer()), unknown):
        assert gx.AgentExecutor(agent=agent, tools=[echo, fail]).tools


def test_tools_of_an_agent_must_be_tools() -> None:
    plain: Any = [echo.function]
    with pytest.raises(ToolDefinitionError, match="echo is not a tool; decorate the function"):
        custom_agent(tools=plain)


def test_input_keys_are_those_that_the_caller_passes() -> None:
    prompt = "{tools}{tool_names}{agent_scratchpad}{question}{chat_history}"
    agent = gx.create_react_agent(ScriptedModel([]), [], prompt=prompt)
    assert gx.AgentExecutor(agent=agent, tools=[]).input_keys == agent.input_keys == ("question", "chat_history")
    assert gx.AgentExecutor(agent=agent, tools=[], memory=BufferMemory(input_key="question")).input_keys == (
        "question",
    )
    assert gx.AgentExecutor(agent=scripted(answer()), tools=[]).input_keys == ()
