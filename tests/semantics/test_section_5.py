"""Section 5 of docs/semantics.md: where LangChain's JavaScript executor differs, and how the same is had here."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from graphexec import AgentExecutor, AgentFinish, AgentStep, ParseError, UnprovedError, create_react_agent, tool
from graphexec.errors import ToolDefinitionError
from graphexec.models import ScriptedModel
from tests.executor.actors import (
    HOW,
    Running,
    act,
    answer,
    direct,
    echo,
    fail,
    observations,
    run_executor,
    scripted,
    statuses,
)
from tests.parameters import cases
from tests.semantics.endings import STOPPED, finish_of


@HOW
@pytest.mark.parametrize("at_once", [1, 3])
def test_actions_run_concurrently_or_in_turn(run: Running, at_once: int) -> None:
    met = threading.Barrier(at_once, timeout=20)
    running: list[str] = []
    together: list[int] = []

    @tool
    def work(word: str) -> str:
        """Work."""
        running.append(word)
        met.wait()
        together.append(len(running))
        met.wait()
        running.remove(word)
        return word

    batch = [act("work", word=word) for word in "abc"]
    result = run(AgentExecutor(agent=scripted(batch, answer()), tools=[work], tool_concurrency=at_once))
    assert [step.observation for step in result.steps] == [*"abc"]
    assert together == [at_once] * 3


def test_tool_lookup_may_be_case_insensitive() -> None:
    result = run_executor(
        lambda: AgentExecutor(
            agent=scripted(act("ECHO", text="a"), answer()), tools=[echo], tool_lookup="case_insensitive"
        )
    )
    (step,) = result.outcome.steps
    assert (step.action.tool, step.observation) == ("ECHO", "a")


def test_case_insensitive_lookup_refuses_equal_names() -> None:
    other = tool(name="Echo")(echo.function)
    assert AgentExecutor(agent=scripted(answer()), tools=[echo, other])
    with pytest.raises(ToolDefinitionError, match="differ only in case"):
        AgentExecutor(agent=scripted(answer()), tools=[echo, other], tool_lookup="case_insensitive")


def test_unknown_tool_suggests_the_closest_name() -> None:
    result = run_executor(lambda: AgentExecutor(agent=scripted(act("Echo", text="a"), answer()), tools=[echo]))
    assert observations(result) == ["Echo is not a valid tool, try one of [echo]. Did you mean echo?"]


@cases(
    ("batch", "output"),
    [
        ([act("echo", text="a"), act("direct", text="b")], "b"),
        ([act("direct", text="a"), act("echo", text="b")], "a"),
        ([act("direct", text="a"), act("direct", text="b")], "b"),
        ([act("direct", text="a"), act("direct", wrong="b")], "a"),
    ],
)
def test_return_direct_any_takes_the_last_result(batch: Any, output: str) -> None:
    result = run_executor(
        lambda: AgentExecutor(agent=scripted(batch, answer()), tools=[echo, direct], return_direct="any")
    )
    assert (result.outcome.output, finish_of(result).return_direct, len(result.outcome.steps)) == (output, True, 2)


def test_tool_exception_reaches_the_model() -> None:
    result = run_executor(lambda: AgentExecutor(agent=scripted(act("fail", text="b"), answer()), tools=[fail]))
    assert (observations(result), statuses(result)) == (["fail failed: ValueError: no b"], ["error"])


def test_function_policy_makes_the_observation() -> None:
    result = run_executor(
        lambda: AgentExecutor(
            agent=scripted(act("fail", text="b"), answer()),
            tools=[fail],
            handle_tool_errors=lambda error: f"sorry, {error}",
        )
    )
    assert observations(result) == ["sorry, no b"]


def test_empty_observation_policy_is_allowed() -> None:
    result = run_executor(
        lambda: AgentExecutor(
            agent=scripted(act("fail", text="b"), answer()), tools=[fail], handle_tool_errors=lambda error: ""
        )
    )
    assert observations(result) == [""]


def unreadable(steps: Any, inputs: Any) -> Any:
    if steps:
        return answer()
    raise ParseError("no", observation="Say it again.")


def test_parse_error_streams_as_a_step() -> None:
    executor = AgentExecutor(agent=unreadable, tools=[], handle_parsing_errors=True)
    assert [step.observation for step in next(executor.stream_chunks("q"))["steps"]] == ["Say it again."]


def test_observation_is_any_value_and_no_exception() -> None:
    @tool
    def number() -> int:
        """Give a number."""
        return 3

    result = run_executor(lambda: AgentExecutor(agent=scripted(act("number"), answer()), tools=[number]))
    assert (observations(result), statuses(result)) == ([3], ["ok"])


def test_time_limit_and_trimming_are_there() -> None:
    shown: list[int] = []

    def decide(steps: Any, inputs: Any) -> Any:
        shown.append(len(steps))
        return act("echo", text="a")

    executor = AgentExecutor(
        agent=decide, tools=[echo], max_execution_time=20, max_iterations=3, trim_intermediate_steps=1
    )
    assert executor.run("q").reason == "iterations"
    assert shown == [0, 1, 1]


def test_max_iterations_defaults_to_15() -> None:
    executor = AgentExecutor(agent=scripted(act("echo", text="a")), tools=[echo])
    assert executor.run("q").spent.iterations == 15
    with pytest.raises(UnprovedError):
        AgentExecutor(agent=scripted(act("echo", text="a")), tools=[echo], max_iterations=None)


@cases("stopped_by", [{"max_iterations": 1}, {"max_execution_time": 0}])
def test_stopped_text_is_one(stopped_by: Any) -> None:
    executor = AgentExecutor(agent=scripted(act("echo", text="a")), tools=[echo], **stopped_by)
    assert executor.run("q").output == STOPPED


def test_generate_accepts_an_unparsable_reply() -> None:
    result = run_executor(
        lambda: AgentExecutor(
            agent=create_react_agent(ScriptedModel(["It is 42."]), []),
            tools=[],
            max_iterations=0,
            early_stopping_method="generate",
        )
    )
    assert result.outcome.output == "It is 42."


def test_handle_parsing_errors_false_raises() -> None:
    with pytest.raises(ParseError) as raised:
        run_executor(lambda: AgentExecutor(agent=unreadable, tools=[]))
    assert raised.value.observation == "Say it again."


def test_steps_are_objects_that_unpack_as_pairs() -> None:
    (step,) = AgentExecutor(agent=scripted(act("echo", text="a"), answer()), tools=[echo]).run("q").steps
    assert isinstance(step, AgentStep)
    action, observation = step
    assert (action, observation) == (step.action, step.observation) == (act("echo", text="a"), "a")


def test_inputs_are_returned_unless_only_outputs() -> None:
    executor = AgentExecutor(agent=scripted(answer("42")), tools=[])
    assert executor.invoke("q") == {"input": "q", "output": "42"}
    assert asyncio.run(executor.ainvoke("q", return_only_outputs=True)) == {"output": "42"}


def test_iter_gives_the_chunks_of_each_iteration() -> None:
    turns = [[act("echo", text="a"), act("echo", text="b")], answer()]
    executor = AgentExecutor(agent=scripted(*turns), tools=[echo])
    assert [len(steps) for steps in executor.iter("q")] == [2]


def test_extra_return_values_are_returned() -> None:
    def decide(steps: Any, inputs: Any) -> Any:
        return AgentFinish({"output": "42", "sources": len(steps)}) if steps else act("echo", text="a")

    assert AgentExecutor(agent=decide, tools=[echo]).invoke("q")["sources"] == 1
