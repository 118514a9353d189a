"""Limits on iterations, calls and tokens: exact, charged before the call, and the same however the run is driven."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import graphexec as gx
from graphexec.agents import Agent
from graphexec.errors import LimitsError
from graphexec.messages import ModelReply, Usage
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from tests.drivers import ALL_DRIVERS, drive_async, drive_sync, limit_of
from tests.executor.actors import (
    act,
    answer,
    call,
    echo,
    fail,
    observations,
    run_async,
    run_executor,
    run_sync,
    script_of,
    scripted,
    statuses,
)
from tests.parameters import cases

Make = Callable[[ScriptedModel, list[gx.Tool[..., Any]]], Agent]

ENDLESS: dict[str, tuple[Make, ScriptedReply, str]] = {
    "react, the same action repeated endlessly": (gx.create_react_agent, "Action: echo\nAction Input: hi", "ok"),
    "react, garbage repeated endlessly": (gx.create_react_agent, "Well.", "parse_error"),
    "react, an unknown tool repeated endlessly": (
        gx.create_react_agent,
        "Action: nope\nAction Input: hi",
        "unknown_tool",
    ),
    "structured without rules, the same action repeated endlessly": (
        partial(gx.create_structured_agent, rules=()),
        '{"action": "echo", "action_input": {"text": "a"}}',
        "ok",
    ),
    "structured, garbage repeated endlessly": (gx.create_structured_agent, "[[[", "parse_error"),
    "tool calling, the same call repeated endlessly": (gx.create_tool_calling_agent, call("echo", text="hi"), "ok"),
    "tool calling, bad arguments repeated endlessly": (
        gx.create_tool_calling_agent,
        call("echo", texd="hi"),
        "bad_arguments",
    ),
    "tool calling, an endlessly failing tool": (gx.create_tool_calling_agent, call("fail", text="hi"), "error"),
}


@cases("kind", ENDLESS)
@cases("allowed", [0, 1, 15])
def test_max_iterations_limits_model_calls_exactly(kind: str, allowed: int) -> None:
    make, reply, status = ENDLESS[kind]
    models: list[ScriptedModel] = []

    def executor() -> gx.AgentExecutor:
        models.append(ScriptedModel([reply], repeat_last=True))
        tools: list[gx.Tool[..., Any]] = [echo, fail]
        return gx.AgentExecutor(
            agent=make(models[-1], tools), tools=tools, max_iterations=allowed, handle_parsing_errors=True
        )

    result = run_executor(executor)
    assert [len(model.requests) for model in models] == [allowed] * len(ALL_DRIVERS)
    assert isinstance(result.outcome, gx.StoppedResponse)
    assert result.outcome.limit == gx.Exhausted("iterations", allowed, allowed)
    assert result.outcome.output == "Agent stopped due to iteration limit or time limit."
    assert statuses(result) == [status] * allowed
    assert (result.spent.iterations, result.spent["model_calls"]) == (allowed, allowed)


@pytest.mark.medium
@cases(
    "reply",
    ["Action: echo\nAction Input: hi", "Well.", "Action: nope\nAction Input: x"],
)
def test_a_thousand_iterations_are_a_thousand_model_calls(reply: str) -> None:
    for driver in (drive_sync, drive_async):
        model = ScriptedModel([reply], repeat_last=True)
        executor = gx.AgentExecutor(
            agent=make_agent_without_scratchpad(model), tools=[echo], max_iterations=1000, handle_parsing_errors=True
        )
        result = driver(script_of(executor))
        assert len(model.requests) == len(result.outcome.steps) == 1000
        assert isinstance(result.outcome, gx.StoppedResponse)
        assert result.outcome.limit == gx.Exhausted("iterations", 1000, 1000)


def make_agent_without_scratchpad(model: ScriptedModel) -> Agent:
    """Return an agent whose prompt does not grow with the steps, so that the test is fast."""
    agent = gx.create_react_agent(model, [echo])
    return Agent(lambda run: agent.ask(type(run)(run.inputs)), agent.read, model=model)


@cases("limit", ["max_iterations", "max_model_calls"])
def test_run_may_finish_in_its_last_iteration(limit: str) -> None:
    limits: dict[str, Any] = {limit: 3}
    result = run_executor(
        lambda: gx.AgentExecutor(
            agent=scripted(act("echo", text="a"), act("echo", text="b"), answer()), tools=[echo], **limits
        )
    )
    assert isinstance(result.outcome, gx.AgentFinish)
    assert result.outcome.output == "done"
    assert result.spent["model_calls"] == 3


def test_run_may_return_directly_in_its_last_iteration() -> None:
    direct = gx.tool(return_direct=True)(echo.function)
    result = run_executor(
        lambda: gx.AgentExecutor(
            agent=scripted(act("echo", text="a")), tools=[direct], max_iterations=1, max_tool_calls=1, max_model_calls=1
        )
    )
    assert result.outcome.output == "a"
    assert isinstance(result.outcome, gx.AgentFinish)


def test_iterations_may_be_unlimited() -> None:
    turns = [act("echo", text="a")] * 40
    result = run_executor(
        lambda: gx.AgentExecutor(
            agent=scripted(*turns, answer()), tools=[echo], max_iterations=None, allow_nonterminating=True
        )
    )
    assert result.outcome.output == "done"
    assert result.spent.iterations == 41


def test_iteration_with_several_actions_counts_once() -> None:
    batch = [act("echo", text=str(number)) for number in range(3)]
    result = run_executor(lambda: gx.AgentExecutor(agent=scripted(batch), tools=[echo], max_iterations=2))
    assert observations(result) == ["0", "1", "2"] * 2
    assert result.spent["tool_calls"] == 6


@cases("allowed", [0, 1, 4])
def test_model_calls_are_limited_exactly(allowed: int) -> None:
    result = run_executor(
        lambda: gx.AgentExecutor(
            agent=scripted(act("echo", text="a")), tools=[echo], max_iterations=50, max_model_calls=allowed
        )
    )
    assert isinstance(result.outcome, gx.StoppedResponse)
    assert result.outcome.limit == gx.Exhausted("model_calls", allowed, allowed)
    assert result.outcome.output == "Agent stopped due to model call limit."
    assert result.spent["model_calls"] == len(result.outcome.steps) == allowed


@cases(("allowed", "name"), [(0, "echo"), (1, "echo"), (4, "fail"), (4, "nope")])
def test_failing_tool_calls_count_too(allowed: int, name: str) -> None:
    result = run_executor(
        lambda: gx.AgentExecutor(
            agent=scripted(act(name, text="a")), tools=[echo, fail], max_iterations=50, max_tool_calls=allowed
        )
    )
    assert isinstance(result.outcome, gx.StoppedResponse)
    assert result.outcome.limit == gx.Exhausted("tool_calls", allowed, allowed)
    assert result.outcome.output == "Agent stopped due to tool call limit."
    assert result.spent["tool_calls"] == len(result.outcome.steps) == allowed


@cases("run", [run_sync, run_async])
def test_fan_out_beyond_the_limit_runs_no_tool(run: Callable[[gx.AgentExecutor], Any]) -> None:
    called: list[int] = []

    @gx.tool
    def note(number: int) -> int:
        """Note the number."""
        called.append(number)
        return number

    batches = scripted([act("note", number=1), act("note", number=2)], [act("note", number=3), act("note", number=4)])
    result = run(gx.AgentExecutor(agent=batches, tools=[note], max_tool_calls=3))
    assert sorted(called) == [1, 2]
    assert result.stopped.limit == gx.Exhausted("tool_calls", 3, 2)
    assert [step.observation for step in result.steps] == [1, 2]
    assert result.spent["tool_calls"] == 2


def test_tokens_are_compared_before_each_model_call() -> None:
    def executor(limit: int) -> gx.AgentExecutor:
        reply = ModelReply("Action: echo\nAction Input: a", usage=Usage(7, 3))
        model = ScriptedModel([reply], repeat_last=True)
        return gx.AgentExecutor(agent=gx.create_react_agent(model, [echo]), tools=[echo], max_tokens=limit)

    reached = {limit: run_executor(partial(executor, limit)).outcome for limit in (0, 1, 10, 11, 30)}
    assert {limit: limit_of(one).reached for limit, one in reached.items() if isinstance(one, gx.StoppedResponse)} == {
        0: 0,
        1: 10,
        10: 10,
        11: 20,
        30: 30,
    }
    assert {one.output for one in reached.values()} == {"Agent stopped due to token limit."}


def test_missing_usage_does_not_prevent_the_stop() -> None:
    result = run_executor(
        lambda: gx.AgentExecutor(
            agent=gx.create_react_agent(ScriptedModel(["Well."], repeat_last=True), [echo]),
            tools=[echo],
            max_tokens=5,
            handle_parsing_errors=True,
            max_iterations=4,
        )
    )
    assert isinstance(result.outcome, gx.StoppedResponse)
    assert result.outcome.limit == gx.Exhausted("iterations", 4, 4)


def test_first_limit_reached_is_named() -> None:
    def ending(**limits: Any) -> Any:
        return gx.AgentExecutor(agent=scripted(act("echo", text="a")), tools=[echo], **limits).run("q").reason

    assert ending(max_iterations=3, max_tool_calls=2, max_model_calls=9) == "tool_calls"
    assert ending(max_iterations=3, max_tool_calls=9, max_model_calls=2) == "model_calls"
    assert ending(max_iterations=2, max_tool_calls=9, max_model_calls=9) == "iterations"


def test_stop_names_the_limit_and_the_usage() -> None:
    result = gx.AgentExecutor(agent=scripted(act("echo", text="a")), tools=[echo], max_iterations=2).run("q")
    assert result.reason == "iterations"
    assert result.stopped is not None
    assert result.stopped.reason == "Stopped after 2 steps: the limit of 2 iterations was reached (2 spent)."


@cases("name", ["max_iterations", "max_model_calls", "max_tool_calls", "max_tokens"])
@cases("value", [-1, math.nan, math.inf, True, "3", 1.5, [1]])
def test_invalid_limit_is_refused_by_name(name: str, value: object) -> None:
    limits: dict[str, Any] = {name: value}
    with pytest.raises(LimitsError, match=name.removeprefix("max_")):
        gx.AgentExecutor(agent=scripted(answer()), tools=[], **limits)


@cases("value", [-1, -0.1, math.nan, math.inf, True, "3"])
def test_invalid_time_limit_is_refused(value: Any) -> None:
    with pytest.raises(LimitsError, match="seconds"):
        gx.AgentExecutor(agent=scripted(answer()), tools=[], max_execution_time=value)


def test_with_limits_returns_another_executor() -> None:
    executor = gx.AgentExecutor(agent=scripted(act("echo", text="a")), tools=[echo], max_iterations=4)
    shorter = executor.with_limits(gx.Limits(iterations=1))
    assert len(shorter.run("q").steps) == 1
    assert len(executor.run("q").steps) == 4
    assert executor.limits == gx.Limits(iterations=4)
