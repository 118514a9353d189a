"""Section 2 of docs/semantics.md, the loop as a transition table: rows on which every driver agrees."""

from typing import Any

from graphexec import AgentExecutor, tool
from tests.drivers import FakeClock, limit_of
from tests.executor.actors import HOW, Running, act, answer, echo, fail, observations, scripted, snapshot_after, timed
from tests.parameters import cases
from tests.semantics.endings import STOPPED, A, B, C, finish_of, run_turns


@cases("limit", 0, 1, 3)
def test_row_2_stops_when_iterations_are_used_up(limit: int) -> None:
    result = run_turns(A, max_iterations=limit)
    assert (result.outcome.output, limit_of(result.outcome).limit) == (STOPPED, "iterations")
    assert result.spent.iterations == len(result.outcome.steps) == limit


@cases(("spent", "reason", "output"), (5, "seconds", STOPPED), (4.9, "finished", "done"))
def test_rows_3_and_4_a_run_within_its_time_plans(spent: float, reason: str, output: str) -> None:
    clock = FakeClock()

    @tool
    def wait() -> None:
        """Take a while."""
        clock.advance(spent)

    executor = AgentExecutor(agent=scripted(act("wait"), answer()), tools=[wait], max_execution_time=5)
    result = timed(executor, clock).run("q")
    assert (result.output, result.reason, len(result.steps)) == (output, reason, 1)


@HOW
def test_row_11_raising_tool_ends_the_run(run: Running) -> None:
    agent = scripted(act("echo", text="before"), [A, act("fail", text="b")])
    executor = AgentExecutor(agent=agent, tools=[echo, fail], handle_tool_errors="raise")
    kept: Any = snapshot_after(ValueError, lambda: run(executor), match="no b")
    assert [step.observation for step in kept.value.run.steps] == ["before"]


NOPE, DIRECT = act("nope"), act("direct", text="42")


@cases(
    ("turns", "limit", "output", "iterations", "actions"),
    # Row 10: the steps have the order of the actions; row 12: new steps stand behind those before.
    ([[A, NOPE, B], answer()], None, "done", 2, [A, NOPE, B]),
    ([A, [B, C], answer()], None, "done", 3, [A, B, C]),
    # Row 13: a direct result is the answer; row 14: each step of several actions costs one iteration.
    ([[DIRECT]], 1, "42", 1, [DIRECT]),
    ([[DIRECT, A], answer()], None, "done", 2, [DIRECT, A]),
    ([[A, DIRECT], answer()], None, "done", 2, [A, DIRECT]),
    ([[DIRECT, B, NOPE]], 2, STOPPED, 2, [DIRECT, B, NOPE] * 2),
    # An answer of the last iteration wins, also a direct one.
    ([A, answer("42")], 2, "42", 2, [A]),
    ([A, DIRECT], 2, "42", 2, [A, DIRECT]),
)
def test_rows_10_to_14_actions_become_steps(
    turns: list[Any], limit: int | None, output: str, iterations: int, actions: list[Any]
) -> None:
    result = run_turns(*turns, max_iterations=limit or 15)
    assert (result.outcome.output, result.spent.iterations) == (output, iterations)
    assert [step.action for step in result.outcome.steps] == actions
    texts = [action.tool_input["text"] for action in actions if action != NOPE]
    assert [text for text in observations(result) if "nope" not in text] == texts
    if output != STOPPED:
        finish = finish_of(result)
        assert (finish.return_values, finish.log) == ({"output": output}, "")
        assert finish.return_direct == (turns[-1] in (DIRECT, [DIRECT]))
