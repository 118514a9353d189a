"""Limits on iterations, calls and tokens: exact, charged before the call, and the same however the run is driven."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import graphexec as gx
from graphexec.agents import Agent
from graphexec.messages import ModelReply, Usage
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from tests.drivers import ALL_DRIVERS, drive_async, drive_sync, limit_of
from tests.executor import actors
from tests.executor.actors import act, answer, call, echo, fail, observations, run_executor, scripted, statuses
from tests.parameters import cases
from tests.semantics.endings import A, B, run_replies, run_turns, stop_of

Make = Callable[[ScriptedModel, list[gx.Tool[..., Any]]], Agent]

react, tool_calling = gx.create_react_agent, gx.create_tool_calling_agent
without_rules = partial(gx.create_structured_agent, rules=())
# What a model repeats endlessly.
ENDLESS: dict[str, tuple[Make, ScriptedReply, str]] = {
    "react, the same action": (react, "Action: echo\nAction Input: hi", "ok"),
    "react, garbage": (react, "Well.", "parse_error"),
    "react, an unknown tool": (react, "Action: nope\nAction Input: hi", "unknown_tool"),
    "structured, the same action": (without_rules, '{"action": "echo", "action_input": {"text": "a"}}', "ok"),
    "structured, garbage": (gx.create_structured_agent, "[[[", "parse_error"),
    "tool calling, the same call": (tool_calling, call("echo", text="hi"), "ok"),
    "tool calling, bad arguments": (tool_calling, call("echo", texd="hi"), "bad_arguments"),
    "tool calling, a failing tool": (tool_calling, call("fail", text="hi"), "error"),
}


@pytest.mark.medium
@cases("kind", ENDLESS)
@cases("allowed", [0, 1, 15])
def test_max_iterations_limits_model_calls_exactly(kind: str, allowed: int) -> None:
    make, reply, status = ENDLESS[kind]
    models: list[ScriptedModel] = []

    def executor() -> gx.AgentExecutor:
        models.append(ScriptedModel([reply], repeat_last=True))
        agent = make(models[-1], [echo, fail])
        options: dict[str, Any] = {"max_iterations": allowed, "handle_parsing_errors": True}
        return gx.AgentExecutor(agent=agent, tools=[echo, fail], **options)

    result = run_executor(executor)
    assert [len(model.requests) for model in models] == [allowed] * len(ALL_DRIVERS)
    assert stop_of(result).limit == gx.Exhausted("iterations", allowed, allowed)
    assert result.outcome.output == "Agent stopped due to iteration limit or time limit."
    assert statuses(result) == [status] * allowed
    assert (result.spent.iterations, result.spent["model_calls"]) == (allowed, allowed)


@pytest.mark.medium
@cases("reply", ["Action: echo\nAction Input: hi", "Well.", "Action: nope\nAction Input: x"])
def test_a_thousand_iterations_are_a_thousand_model_calls(reply: str) -> None:
    for driver in (drive_sync, drive_async):
        model = ScriptedModel([reply], repeat_last=True)
        agent = make_agent_without_scratchpad(model)
        executor = gx.AgentExecutor(agent=agent, tools=[echo], max_iterations=1000, handle_parsing_errors=True)
        result = driver(actors.script_of(executor))
        assert len(model.requests) == len(result.outcome.steps) == 1000
        assert stop_of(result).limit == gx.Exhausted("iterations", 1000, 1000)


def make_agent_without_scratchpad(model: ScriptedModel) -> Agent:
    """Return an agent whose prompt does not grow with the steps, so that the test is fast."""
    agent = gx.create_react_agent(model, [echo])
    return Agent(lambda run: agent.ask(type(run)(run.inputs)), agent.read, model=model)


NO_LIMIT: dict[str, Any] = {"max_iterations": None, "allow_nonterminating": True}
ONE = dict.fromkeys(("max_iterations", "max_tool_calls", "max_model_calls"), 1)


@pytest.mark.medium
@cases(
    ("turns", "limits", "output", "iterations"),
    [
        # A run may finish in its last iteration, or return directly.
        ([A, B, answer()], {"max_iterations": 3}, "done", 3),
        ([A, B, answer()], {"max_model_calls": 3}, "done", 3),
        ([act("direct", text="a")], ONE, "a", 1),
        # Iterations may be unlimited.
        ([*[A] * 40, answer()], NO_LIMIT, "done", 41),
    ],
)
def test_run_may_finish_at_its_limit(turns: Any, limits: dict[str, Any], output: str, iterations: int) -> None:
    result = run_turns(*turns, **limits)
    assert isinstance(result.outcome, gx.AgentFinish)
    assert result.outcome.output == output
    assert result.spent.iterations == result.spent["model_calls"] == iterations


def test_iteration_with_several_actions_counts_once() -> None:
    result = run_turns([act("echo", text=str(number)) for number in range(3)], max_iterations=2)
    assert observations(result) == ["0", "1", "2"] * 2
    assert result.spent["tool_calls"] == 6


@cases(
    ("name", "allowed", "tool"),
    [
        *(("model_calls", allowed, "echo") for allowed in (0, 1, 4)),
        # Calls that fail count, too.
        *(("tool_calls", allowed, tool) for allowed, tool in [(0, "echo"), (1, "echo"), (4, "fail"), (4, "nope")]),
    ],
)
def test_calls_are_limited_exactly(name: str, allowed: int, tool: str) -> None:
    result = run_turns(act(tool, text="a"), max_iterations=50, **{f"max_{name}": allowed})
    assert stop_of(result).limit == gx.Exhausted(name, allowed, allowed)
    assert result.outcome.output == f"Agent stopped due to {name[:-1].replace('_', ' ')} limit."
    assert result.spent[name] == len(result.outcome.steps) == allowed


@cases("run", [actors.run_sync, actors.run_async])
def test_fan_out_beyond_the_limit_runs_no_tool(run: Callable[[gx.AgentExecutor], Any]) -> None:
    called: list[int] = []

    @gx.tool
    def note(number: int) -> int:
        """Note the number."""
        called.append(number)
        return number

    batches = [[act("note", number=number) for number in batch] for batch in ((1, 2), (3, 4))]
    result = run(gx.AgentExecutor(agent=scripted(*batches), tools=[note], max_tool_calls=3))
    assert sorted(called) == [1, 2]
    assert result.stopped.limit == gx.Exhausted("tool_calls", 3, 2)
    assert [step.observation for step in result.steps] == [1, 2]
    assert result.spent["tool_calls"] == 2


@cases(("limit", "reached"), [(0, 0), (1, 10), (10, 10), (11, 20), (30, 30)])
def test_tokens_are_compared_before_each_model_call(limit: int, reached: int) -> None:
    reply = ModelReply("Action: echo\nAction Input: a", usage=Usage(7, 3))
    result = run_replies(*[reply] * 4, max_tokens=limit)
    assert limit_of(result.outcome).reached == reached
    assert result.outcome.output == "Agent stopped due to token limit."


def test_missing_usage_does_not_prevent_the_stop() -> None:
    result = run_replies(*["Well."] * 4, max_tokens=5, max_iterations=4, handle_parsing_errors=True)
    assert stop_of(result).limit == gx.Exhausted("iterations", 4, 4)


@cases(
    ("iterations", "tool_calls", "model_calls", "reason"),
    [(3, 2, 9, "tool_calls"), (3, 9, 2, "model_calls"), (2, 9, 9, "iterations")],
)
def test_first_limit_reached_is_named(iterations: int, tool_calls: int, model_calls: int, reason: str) -> None:
    limits: dict[str, Any] = {"max_tool_calls": tool_calls, "max_model_calls": model_calls}
    executor = gx.AgentExecutor(agent=scripted(A), tools=[echo], max_iterations=iterations, **limits)
    assert executor.run("q").reason == reason


def test_stop_names_the_limit_and_the_usage() -> None:
    stopped = stop_of(run_turns(A, max_iterations=2))
    assert stopped.reason == "Stopped after 2 steps: the limit of 2 iterations was reached (2 spent)."


COUNTED = ("iterations", "model_calls", "tool_calls", "tokens")


@cases(
    ("option", "value", "name"),
    [
        *((f"max_{name}", value, name) for name in COUNTED for value in (-1, math.nan, math.inf, True, "3", 1.5, [1])),
        *(("max_execution_time", value, "seconds") for value in (-1, -0.1, math.nan, math.inf, True, "3")),
    ],
)
def test_invalid_limit_is_refused_by_name(option: str, value: object, name: str) -> None:
    limits: dict[str, Any] = {option: value}
    with pytest.raises(gx.errors.LimitsError, match=name):
        gx.AgentExecutor(agent=scripted(answer()), tools=[], **limits)


def test_with_limits_returns_another_executor() -> None:
    executor = gx.AgentExecutor(agent=scripted(A), tools=[echo], max_iterations=4)
    shorter = executor.with_limits(gx.Limits(iterations=1))
    assert len(shorter.run("q").steps) == 1
    assert len(executor.run("q").steps) == 4
    assert executor.limits == gx.Limits(iterations=4)
