"""Section 2 of docs/semantics.md, the loop as a transition table: each of its rows."""

from typing import Any, Literal

import pytest

from graphexec import AgentExecutor, AgentFinish, AgentStep, ParseError, create_react_agent, tool
from graphexec.errors import InputError, ServerError
from graphexec.memory import BufferMemory
from graphexec.models import ScriptedModel
from tests.drivers import FakeClock, limit_of
from tests.executor.actors import (
    HOW,
    Running,
    act,
    answer,
    echo,
    fail,
    observations,
    scripted,
    snapshot_after,
    statuses,
    timed,
)
from tests.parameters import cases
from tests.semantics import endings
from tests.semantics.endings import STOPPED, A, B, C, finish_of, run_agent, run_turns, stop_of, unreadable


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
    model = ScriptedModel([])
    with pytest.raises(InputError, match="the inputs lack input"):
        run(AgentExecutor(agent=create_react_agent(model, []), tools=[]), {"question": "q"})
    assert not model.requests


@cases("limit", [0, 1, 3])
def test_row_2_stops_when_iterations_are_used_up(limit: int) -> None:
    result = run_turns(A, max_iterations=limit)
    assert (result.outcome.output, limit_of(result.outcome).limit) == (STOPPED, "iterations")
    assert result.spent.iterations == len(result.outcome.steps) == limit


@cases(("spent", "reason", "output"), [(5, "seconds", STOPPED), (4.9, "finished", "done")])
def test_rows_3_and_4_a_run_within_its_time_plans(spent: float, reason: str, output: str) -> None:
    clock = FakeClock()

    @tool
    def wait() -> None:
        """Take a while."""
        clock.advance(spent)

    executor = AgentExecutor(agent=scripted(act("wait"), answer()), tools=[wait], max_execution_time=5)
    result = timed(executor, clock).run("q")
    assert (result.output, result.reason, len(result.steps)) == (output, reason, 1)


def test_row_5_finish_ends_the_run() -> None:
    finish = AgentFinish({"output": "42", "why": "because"}, "I know")
    result = run_turns(finish)
    assert (finish_of(result).return_values, finish_of(result).log) == (finish.return_values, "I know")


@cases("listed", [False, True])
def test_row_6_single_action_equals_a_list(listed: bool) -> None:
    note, ran = endings.noting_tool()
    action = act("note", text="a")
    agent = scripted([action] if listed else action, answer())
    chunks = AgentExecutor(agent=agent, tools=[note], max_iterations=3).stream_chunks("q")
    assert next(chunks)["actions"] == [action]
    assert not ran
    assert next(chunks)["steps"] == [AgentStep(action, "a")]
    assert ran == ["a"]


@cases("limit", [1, 2, 3])
def test_row_7_handled_parse_error_is_a_step(limit: int) -> None:
    result = run_agent(unreadable, handle_parsing_errors=True, max_iterations=limit)
    step, *_ = result.outcome.steps
    assert (step.action.tool, step.action.log, step.observation) == ("_Exception", "garbage", "Say it again.")
    assert (result.spent["tool_calls"], result.spent.iterations) == (0, limit)
    assert statuses(result) == ["parse_error"] * limit


@cases(
    ("agent", "options", "error", "message"),
    [
        # Row 8, and row 9: other exceptions of the agent.
        (unreadable, {}, ParseError, "handle_parsing_errors=True"),
        (endings.raising(ServerError("the model's")), {"handle_parsing_errors": True}, ServerError, "the model's"),
    ],
)
def test_rows_8_and_9_errors_are_raised(agent: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run_agent(agent, **options)


@HOW
def test_row_11_raising_tool_ends_the_run(run: Running) -> None:
    agent = scripted(act("echo", text="before"), [A, act("fail", text="b")])
    executor = AgentExecutor(agent=agent, tools=[echo, fail], handle_tool_errors="raise")
    kept: Any = snapshot_after(ValueError, lambda: run(executor), match="no b")
    assert [step.observation for step in kept.value.run.steps] == ["before"]


NOPE, DIRECT = act("nope"), act("direct", text="42")


@cases(
    ("turns", "limit", "output", "iterations", "actions"),
    [
        # Row 10: the steps have the order of the actions; row 12: new steps stand behind those before.
        ([[A, NOPE, B], answer()], None, "done", 2, [A, NOPE, B]),
        ([A, [B, C], answer()], None, "done", 3, [A, B, C]),
        # Row 13: a direct result is the answer; row 14: each step of several actions costs one iteration.
        ([[DIRECT]], 1, "42", 1, [DIRECT]),
        ([[DIRECT, B, NOPE]], 2, STOPPED, 2, [DIRECT, B, NOPE] * 2),
        # An answer of the last iteration wins, also a direct one.
        ([A, answer("42")], 2, "42", 2, [A]),
        ([A, DIRECT], 2, "42", 2, [A, DIRECT]),
    ],
)
def test_rows_10_to_14_actions_become_steps(
    turns: list[Any], limit: int | None, output: str, iterations: int, actions: list[Any]
) -> None:
    result = run_turns(*turns, max_iterations=limit or 15)
    assert (result.outcome.output, result.spent.iterations) == (output, iterations)
    assert [step.action for step in result.outcome.steps] == actions
    texts = [action.tool_input["text"] for action in actions if action != NOPE]
    assert [text for text in observations(result) if "nope" not in text] == texts
    if turns[-1] in (DIRECT, [DIRECT]):
        assert (finish_of(result).return_values, finish_of(result).log) == ({"output": "42"}, "")


@cases(("method", "output"), [("force", STOPPED), ("generate", "after 2")])
def test_row_15_early_stopping_makes_the_response(method: Literal["force", "generate"], output: str) -> None:
    def decide(steps: Any, inputs: dict[str, Any]) -> Any:
        return answer(f"after {len(steps)}") if "conclude" in inputs else A

    assert stop_of(run_agent(decide, max_iterations=2, early_stopping_method=method)).output == output


@HOW
def test_row_16_memory_is_saved_at_the_end(run: Running) -> None:
    memory = BufferMemory(key="before")
    agent = scripted(A, answer("42"))
    executor = AgentExecutor(agent=agent, tools=[echo], memory=memory, return_intermediate_steps=True)
    run(executor)
    assert memory.load({}) == {"before": "Human: q\nAI: 42"}
    assert executor.invoke("q")["intermediate_steps"] == [(A, "a")]


@HOW
def test_row_17_exception_ends_without_saving_memory(run: Running) -> None:
    memory = BufferMemory()
    kept = snapshot_after(ParseError, lambda: run(AgentExecutor(agent=unreadable, tools=[], memory=memory)))
    assert kept.node == "parse"
    assert memory.load({}) == {"chat_history": ""}


@HOW
def test_row_18_time_limit_cuts_running_calls(run: Running) -> None:
    result = endings.run_blocked(run)
    assert (result.output, result.reason, result.spent["model_calls"]) == (STOPPED, "seconds", 1)
