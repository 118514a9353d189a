"""Typical mistakes of users of other libraries raise an error at once, with the remedy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.actions import AgentAction, AgentFinish, Steps, StoppedResponse
from graphexec.errors import InputError, MissingHandlerError, ParseError, ToolDefinitionError
from graphexec.executor import LimitReached, parse
from graphexec.kernel import PendingEffect
from graphexec.memory import BufferMemory
from graphexec.models import ScriptedModel
from tests.executor.actors import answer, echo, scripted
from tests.executor.test_with_graph import APPROVED
from tests.parameters import cases

EACH = cases("create", [gx.create_react_agent, gx.create_structured_agent, gx.create_tool_calling_agent])


def plain(text: str) -> str:
    """Not a tool yet."""
    return text


@EACH
def test_an_agent_of_plain_functions_is_refused(create: Callable[..., Any]) -> None:
    with pytest.raises(ToolDefinitionError, match="plain is not a tool; decorate the function with @tool"):
        create(ScriptedModel([]), [plain])


@EACH
def test_name_of_a_model_is_refused(create: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"the model is 'gpt-5'; (make one|give a model), such as"):
        create("gpt-5", [echo])


def test_one_tool_is_not_a_list_of_tools() -> None:
    agent: Any = gx.create_react_agent(ScriptedModel([]), [echo])
    one: Any = echo
    with pytest.raises(ToolDefinitionError, match="tools is the tool echo itself; pass a list of tools"):
        gx.AgentExecutor(agent=agent, tools=one)


@cases("many", ["hello", {"input": "hello"}])
def test_one_input_is_not_a_batch(many: Any) -> None:
    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), []), tools=[])
    with pytest.raises(InputError, match="batch takes several inputs; pass a list of them"):
        executor.batch(many)


def test_graph_must_start_with_ready() -> None:
    @gx.node
    def stop(reached: LimitReached) -> StoppedResponse:
        return StoppedResponse("", reached.limit)

    machine: Any = gx.graph(gx.edges(stop, gx.on(StoppedResponse, gx.END)), start=stop)
    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), []), tools=[])
    given: Any
    for given in (machine, 5):
        with pytest.raises(InputError, match=r"does not start with Ready; make it from executor\.graph"):
            executor.with_graph(given)


@cases(
    ("options", "message"),
    [
        ({"agent": gx.create_react_agent}, r"agent is the function create_react_agent; call it: create_react_agent\("),
        (
            {"agent": AgentFinish},
            "agent is AgentFinish, a class; make one with create_react_agent, say, or give a function",
        ),
        (
            {"early_stopping_method": ["generate"]},
            r"early_stopping_method is \['generate'\]; give 'force'",
        ),
        ({"handlers": [print]}, r"handlers is \[.*\]; give a dict, for example \{AskHuman: function\}"),
        ({"verbose": "no"}, "verbose is 'no'; give True or False"),
        ({"allow_nonterminating": "no"}, "allow_nonterminating is 'no'; give True or False"),
        ({"return_intermediate_steps": 1}, "return_intermediate_steps is 1; give True or False"),
        ({"trim_intermediate_steps": 2.5}, "trim_intermediate_steps is 2.5; give the number of steps to show"),
        ({"return_direct": ["any"]}, r"return_direct is \['any'\]; give 'single' or 'any'"),
        ({"observers": print}, "observers is .*; pass a list of functions that take an event"),
        ({"tool_concurrency": "2"}, "tool_concurrency is '2'; give a whole number, 1 or more"),
        ({"tool_concurrency": True}, "tool_concurrency is True; give a whole number, 1 or more"),
        (
            {"handle_parsing_errors": asyncio.sleep},
            r"handle_parsing_errors is .* a function \(def\) of the error",
        ),
        ({"trim_intermediate_steps": asyncio.sleep}, r"trim_intermediate_steps is .* a function \(def\) of the steps"),
        ({"handle_parsing_errors": None}, "handle_parsing_errors is None; give True, False, a string"),
        ({"memory": []}, "memory is .*; make one, for example with BufferMemory"),
    ],
)
def test_invalid_option_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"agent": gx.create_react_agent(ScriptedModel([]), []), "tools": []}
    with pytest.raises(InputError, match=message):
        gx.AgentExecutor(**(given | options))


def test_a_number_is_not_limits() -> None:
    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), []), tools=[])
    three: Any = 3
    with pytest.raises(InputError, match=r"the limits are 3; give a Limits, for example Limits\(iterations=15\)"):
        executor.with_limits(three)


@cases(
    ("trimmed", "message"), [(None, "None; return the steps to show"), ([("a", "b")], r"a sequence with \('a', 'b'\)")]
)
def test_trimming_function_must_return_steps(trimmed: Any, message: str) -> None:
    def trim(steps: Steps) -> Any:
        return trimmed

    executor = gx.AgentExecutor(agent=scripted(answer()), tools=[], trim_intermediate_steps=trim)
    with pytest.raises(InputError, match=f"trim_intermediate_steps returned {message}"):
        executor.run("q")


@cases(
    ("make", "message"),
    [
        (
            lambda: AgentFinish(anything("no")),
            r"AgentFinish: return_values='no' is invalid; write AgentFinish\(\{'output': ...\}\)",
        ),
        (lambda: AgentFinish(anything(None)), "AgentFinish: return_values=None is invalid; write"),
        (
            lambda: AgentAction(anything(echo), "a"),
            "AgentAction: tool=<.*echo.*> is invalid; pass the tool's name",
        ),
        (
            lambda: AgentAction("echo", anything(["a"])),
            r"AgentAction: tool_input=\['a'\] is invalid; pass a string",
        ),
    ],
)
def test_invalid_decision_is_refused_when_created(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def anything(value: object) -> Any:
    """A value that a type checker lets pass."""
    return value


def test_text_memory_is_refused_where_messages_are_read() -> None:
    agent = gx.create_tool_calling_agent(ScriptedModel(["so"]), [])
    with pytest.raises(InputError, match=r"the memory provides chat_history as text, .*; make it with as_"):
        gx.AgentExecutor(agent=agent, tools=[], memory=BufferMemory())
    assert gx.AgentExecutor(agent=agent, tools=[], memory=BufferMemory(as_messages=True)).run("q").output == "so"


def test_an_executor_shows_its_tools() -> None:
    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), [echo]), tools=[echo])
    assert "AgentExecutor with echo" in repr(executor)


def test_executor_resumes_a_paused_run() -> None:
    model = ScriptedModel(["Action: echo\nAction Input: hello", "Final Answer: done"])
    executor = gx.AgentExecutor(agent=gx.create_react_agent(model, [echo]), tools=[echo])
    executor = executor.with_graph(gx.splice(executor.graph, APPROVED, after=parse, on=APPROVED.rows[0][0].takes[0]))
    with pytest.raises(MissingHandlerError) as caught:
        executor.run("Say hello.")
    paused = gx.snapshot_of(caught.value)
    assert paused is not None
    state = gx.advance(executor.graph, paused, executor.limits)
    assert isinstance(state, PendingEffect)
    assert isinstance(state.effect, gx.AskHuman)
    result = executor.run(state.reply("yes"))
    assert (result.output, result.spent["model_calls"], result.spent["tool_calls"]) == ("done", 2, 1)


def test_a_callable_agent_may_raise_a_parse_error() -> None:
    def agent(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
        if not steps:
            raise ParseError("no sense in it", observation="Say it again.", llm_output="gibberish")
        return AgentFinish({"output": steps[0].observation})

    result = gx.AgentExecutor(agent=agent, tools=[], handle_parsing_errors=True).run("?")
    assert (result.output, result.steps[0].status, result.steps[0].action.log) == (
        "Say it again.",
        "parse_error",
        "gibberish",
    )
    with pytest.raises(ParseError, match="handle_parsing_errors=True"):
        gx.AgentExecutor(agent=agent, tools=[]).run("?")


def test_graph_with_another_ending_is_refused() -> None:
    @final
    @dataclass(frozen=True)
    class Verdict:
        text: str

    @gx.node
    def judge(finish: AgentFinish) -> Verdict:
        return Verdict(finish.output)

    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), []), tools=[])
    judged: Any = gx.splice(executor.graph, gx.edges(judge, gx.on(Verdict, gx.END)), after=parse, on=AgentFinish)
    with pytest.raises(InputError, match="judge --Verdict--> END ends a run of an agent"):
        executor.with_graph(judged)
