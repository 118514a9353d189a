"""Section 2 of docs/semantics.md, the loop as a transition table: each of its rows."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import pytest

from graphexec import AgentExecutor, AgentFinish, AgentStep, Entered, ParseError, snapshot_of, tool
from graphexec.errors import InputError, ServerError
from graphexec.memory import BufferMemory
from graphexec.models import ScriptedModel
from tests.drivers import FakeClock, limit_of
from tests.executor.actors import (
    HOW,
    BlockingModel,
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
from tests.semantics.endings import STOPPED, finish_of, stop_of


def unreadable(steps: Any, inputs: Any) -> Any:
    raise ParseError("no", observation="Say it again.", llm_output="garbage")


@HOW
def test_row_1_memory_and_inputs_precede_planning(run: Running) -> None:
    memory = BufferMemory()
    memory.save({"input": "hi"}, {"output": "hello"})
    seen: list[Any] = []

    def decide(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
        seen.append(inputs)
        return answer()

    run(AgentExecutor(agent=decide, tools=[], memory=memory))
    assert seen == [{"input": "q", "chat_history": "Human: hi\nAI: hello"}]
    from graphexec import create_react_agent

    model = ScriptedModel([])
    with pytest.raises(InputError, match="the inputs lack input"):
        run(AgentExecutor(agent=create_react_agent(model, []), tools=[]), {"question": "q"})
    assert not model.requests


@cases("limit", [0, 1, 3])
def test_row_2_stops_when_iterations_are_used_up(limit: int) -> None:
    result = run_executor(
        lambda: AgentExecutor(agent=scripted(act("echo", text="a")), tools=[echo], max_iterations=limit)
    )
    assert (result.outcome.output, limit_of(result.outcome).limit, result.spent.iterations) == (
        STOPPED,
        "iterations",
        limit,
    )
    assert len(result.outcome.steps) == limit


def timed(spent: float, limit: float) -> Any:
    """Run with a first tool call that takes `spent` seconds."""
    clock = FakeClock()

    @tool
    def wait() -> None:
        """Take a while."""
        clock.advance(spent)

    executor = AgentExecutor(agent=scripted(act("wait"), answer()), tools=[wait], max_execution_time=limit)
    executor.run_context = dataclasses.replace(executor.run_context, clock=clock)
    return executor.run("q")


def test_row_3_stops_when_time_is_used_up() -> None:
    result = timed(spent=5, limit=5)
    assert (result.output, result.reason, len(result.steps)) == (STOPPED, "seconds", 1)


def test_row_4_a_run_within_its_limits_plans() -> None:
    assert timed(spent=4.9, limit=5).output == "done"


def test_row_5_finish_ends_the_run() -> None:
    finish = AgentFinish({"output": "42", "why": "because"}, "I know")
    result = run_executor(lambda: AgentExecutor(agent=scripted(finish), tools=[]))
    assert (finish_of(result).return_values, finish_of(result).log) == (finish.return_values, "I know")


@cases("listed", [False, True])
def test_row_6_single_action_equals_a_list(listed: bool) -> None:
    ran: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note it."""
        ran.append(text)
        return text

    action = act("note", text="a")
    chunks = AgentExecutor(
        agent=scripted([action] if listed else action, answer()), tools=[note], max_iterations=3
    ).stream_chunks("q")
    assert next(chunks)["actions"] == [action]
    assert not ran
    assert next(chunks)["steps"] == [AgentStep(action, "a")]
    assert ran == ["a"]


def test_row_7_handled_parse_error_is_a_step() -> None:
    result = run_executor(
        lambda: AgentExecutor(agent=unreadable, tools=[echo], handle_parsing_errors=True, max_iterations=1)
    )
    (step,) = result.outcome.steps
    assert (step.action.tool, step.action.log, step.observation) == ("_Exception", "garbage", "Say it again.")
    assert result.spent["tool_calls"] == 0


def test_row_8_unhandled_parse_error_is_raised() -> None:
    with pytest.raises(ParseError, match="handle_parsing_errors=True"):
        run_executor(lambda: AgentExecutor(agent=unreadable, tools=[echo]))


def test_row_9_other_agent_exceptions_are_raised() -> None:
    def broken(steps: Any, inputs: Any) -> Any:
        raise ServerError("the model's")

    with pytest.raises(ServerError, match="the model's"):
        run_executor(lambda: AgentExecutor(agent=broken, tools=[], handle_parsing_errors=True))


def test_row_10_steps_keep_the_action_order() -> None:
    actions = [act("echo", text="a"), act("nope"), act("echo", text="b")]
    result = run_executor(lambda: AgentExecutor(agent=scripted(actions, answer()), tools=[echo]))
    assert [step.action for step in result.outcome.steps] == actions
    assert observations(result)[::2] == ["a", "b"]


@HOW
def test_row_11_raising_tool_ends_the_run(run: Running) -> None:
    agent = scripted(act("echo", text="before"), [act("echo", text="a"), act("fail", text="b")])
    executor = AgentExecutor(agent=agent, tools=[echo, fail], handle_tool_errors="raise")
    with pytest.raises(ValueError, match="no b") as raised:
        run(executor)
    kept = snapshot_of(raised.value)
    assert kept is not None
    value: Any = kept.value
    assert [step.observation for step in value.run.steps] == ["before"]


def test_row_12_new_steps_stand_behind_those_before() -> None:
    turns = [act("echo", text="a"), [act("echo", text="b"), act("echo", text="c")], answer()]
    result = run_executor(lambda: AgentExecutor(agent=scripted(*turns), tools=[echo]))
    assert observations(result) == ["a", "b", "c"]


def test_row_13_direct_result_is_the_answer() -> None:
    result = run_executor(
        lambda: AgentExecutor(agent=scripted([act("direct", text="42")]), tools=[direct], max_iterations=1)
    )
    assert (finish_of(result).return_values, finish_of(result).log) == ({"output": "42"}, "")
    assert observations(result) == ["42"]


def test_row_14_each_step_costs_one_iteration() -> None:
    turns = [[act("direct", text="a"), act("echo", text="b"), act("nope")]]
    result = run_executor(lambda: AgentExecutor(agent=scripted(*turns), tools=[echo, direct], max_iterations=2))
    assert (result.spent.iterations, len(result.outcome.steps)) == (2, 6)


@cases(("method", "output"), [("force", STOPPED), ("generate", "after 2")])
def test_row_15_early_stopping_makes_the_response(method: Literal["force", "generate"], output: str) -> None:
    def decide(steps: Any, inputs: dict[str, Any]) -> Any:
        return answer(f"after {len(steps)}") if "conclude" in inputs else act("echo", text="a")

    result = run_executor(
        lambda: AgentExecutor(agent=decide, tools=[echo], max_iterations=2, early_stopping_method=method)
    )
    assert stop_of(result).output == output


@HOW
def test_row_16_memory_is_saved_at_the_end(run: Running) -> None:
    memory = BufferMemory(key="before")
    agent = scripted(act("echo", text="a"), answer("42"))
    executor = AgentExecutor(agent=agent, tools=[echo], memory=memory, return_intermediate_steps=True)
    run(executor)
    assert memory.load({}) == {"before": "Human: q\nAI: 42"}
    assert executor.invoke("q")["intermediate_steps"] == [(act("echo", text="a"), "a")]


@HOW
def test_row_17_exception_ends_without_saving_memory(run: Running) -> None:
    memory = BufferMemory()
    with pytest.raises(ParseError) as raised:
        run(AgentExecutor(agent=unreadable, tools=[], memory=memory))
    kept = snapshot_of(raised.value)
    assert kept is not None
    assert kept.node == "parse"
    assert memory.load({}) == {"chat_history": ""}


@HOW
def test_row_18_time_limit_cuts_running_calls(run: Running) -> None:
    from graphexec import create_react_agent

    model = BlockingModel()
    try:
        result = run(AgentExecutor(agent=create_react_agent(model, []), tools=[], max_execution_time=0.3))
    finally:
        model.released.set()
    assert (result.output, result.reason) == (STOPPED, "seconds")


def test_an_answer_of_the_last_iteration_wins() -> None:
    result = run_executor(
        lambda: AgentExecutor(agent=scripted(act("echo", text="a"), answer("42")), tools=[echo], max_iterations=2)
    )
    assert result.outcome.output == "42"


def test_a_direct_answer_of_the_last_iteration_wins() -> None:
    turns = [act("echo", text="a"), act("direct", text="42")]
    result = run_executor(lambda: AgentExecutor(agent=scripted(*turns), tools=[echo, direct], max_iterations=2))
    assert result.outcome.output == "42"


def test_a_parse_error_uses_up_one_iteration() -> None:
    result = run_executor(
        lambda: AgentExecutor(agent=unreadable, tools=[], handle_parsing_errors=True, max_iterations=3)
    )
    assert (result.spent.iterations, statuses(result)) == (3, ["parse_error"] * 3)


def test_the_checks_run_before_each_plan() -> None:
    result = run_executor(lambda: AgentExecutor(agent=scripted(act("echo", text="a")), tools=[echo], max_iterations=1))
    entered = [event.node for event in result.events if isinstance(event, Entered)]
    assert entered == ["plan", "parse", "dispatch_tools", "check_return_direct", "plan", "stopped_response"]
