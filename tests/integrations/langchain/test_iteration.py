"""`iterate`: a run that can be inspected, changed and left between two turns."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from graphexec import AgentExecutor, AgentFinish, AgentStep, Snapshot, edges, errors, kernel, node, on, splice, tools
from graphexec.actions import Run, Steps
from graphexec.executor import Ready, check_return_direct, plan
from graphexec.integrations import langchain
from graphexec.integrations.langchain import Stepwise
from graphexec.kernel.effects import CallContext
from tests.drivers import FakeClock
from tests.executor.actors import act, direct, echo, make_executor, timed
from tests.executor.test_memory_nodes import Diary
from tests.parameters import cases


def make_counter(turns: int = 3, **settings: Any) -> AgentExecutor:
    """Return an executor whose agent echoes the number of its steps a few times, and then answers with it."""

    def decide(steps: Steps, inputs: dict[str, Any]) -> Any:
        if len(steps) >= turns:
            return AgentFinish({"output": f"{len(steps)} steps of {inputs['input']}"})
        return act("echo", text=f"{len(steps)}")

    return AgentExecutor(agent=decide, tools=[echo], **settings)


# What the caller does between two turns, with their number and the run: the changed run, or nothing.
Change: TypeAlias = Callable[[int, Run], Run | None]


A = act("echo", text="a")


def iterate(turns: Stepwise, how: str, change: Change = lambda number, run: None, most: int = 99) -> list[list[Any]]:
    """Return the observations of each turn, `most` of them; the run is changed between turns."""
    seen: list[list[Any]] = []

    def saw(steps: tuple[AgentStep, ...]) -> bool:
        seen.append([observation for _, observation in steps])
        changed = None if turns.ended else change(len(seen), turns.run)
        if changed is not None:
            turns.run = changed
        return len(seen) == most

    async def iterate_async() -> None:
        async for steps in turns:
            if saw(steps):
                break

    if how == "async":
        asyncio.run(iterate_async())
    else:
        any(map(saw, turns))
    return seen


both = cases("how", "sync", "async")


@both
def test_each_turn_yields_its_steps(how: str) -> None:
    turns = langchain.iterate(make_counter(), "tea")
    spent: list[tuple[int, float]] = []

    def note(number: int, run: Run) -> None:
        spent.append((turns.spent.iterations, turns.spent["tool_calls"]))

    assert iterate(turns, how, note) == [["0"], ["1"], ["2"]]
    assert (spent, turns.result.output) == ([(1, 1), (2, 2), (3, 3)], "3 steps of tea")
    assert [step.observation for step in turns.run.steps] == ["0", "1", "2"]
    assert (turns.spent, turns.spent.iterations) == (turns.result.spent, 4)


@both
def test_leaving_the_loop_ends_the_run(how: str) -> None:
    asked: list[int] = []

    def decide(steps: Steps, inputs: dict[str, Any]) -> Any:
        asked.append(len(steps))
        return act("echo", text="on")

    turns = langchain.iterate(AgentExecutor(agent=decide, tools=[echo]), "q")
    assert len(iterate(turns, how, most=2)) == 2
    assert (asked, turns.spent.iterations, len(turns.run.steps)) == ([0, 1], 2, 2)
    with pytest.raises(errors.InputError, match="the run has not ended; iterate over it to the end"):
        _ = turns.result


@both
def test_changing_a_run_keeps_its_usage(how: str) -> None:
    turns = langchain.iterate(make_counter(), "tea")

    def edit(number: int, run: Run) -> Run | None:
        corrected = dataclasses.replace(run.steps[0], observation="corrected")
        return Run({"input": "milk"}, Steps([corrected, *run.steps])) if number == 1 else None

    # The run has two steps now, though the agent has made only one.
    assert iterate(turns, how, edit) == [["0"], ["2"]]
    assert turns.result.output == "3 steps of milk"
    assert [step.observation for step in turns.result.steps] == ["corrected", "0", "2"]
    assert (turns.result.spent.iterations, turns.result.spent["tool_calls"]) == (3, 2)


@both
@cases(
    ("executor", "removals", "yielded", "reason", "iterations"),
    (make_counter(2), 2, ["0", "0", "0", "1"], "finished", 5),
    # Limits stop endless changes.
    (make_counter(max_iterations=4), 3, ["0", "0", "0", "0"], "iterations", 4),
)
def test_steps_may_be_removed(
    how: str, executor: AgentExecutor, removals: int, yielded: list[str], reason: str, iterations: int
) -> None:
    turns = langchain.iterate(executor, "tea")
    seen = iterate(turns, how, lambda number, run: Run(run.inputs, Steps()) if number <= removals else None)
    assert seen == [[text] for text in yielded]
    assert (turns.result.reason, turns.result.spent.iterations) == (reason, iterations)


@both
def test_iteration_may_be_changed_and_repeated(how: str) -> None:
    # Setting the same run changes nothing.
    assert iterate(langchain.iterate(make_counter(), "tea"), how, lambda number, run: run) == [["0"], ["1"], ["2"]]
    # A changed iteration has one end.
    events: list[Any] = []
    turns = langchain.iterate(make_counter(1, observers=[events.append]), "q")
    iterate(turns, how, lambda number, run: Run(run.inputs, Steps(run.steps)))
    kinds: list[type] = [type(event) for event in events]
    assert kinds.count(kernel.Entered) > kinds.count(kernel.Moved)
    assert kinds[-1] is kernel.Done
    assert kernel.Failed not in kinds
    # Iterating again runs again.
    turns = langchain.iterate(make_counter(1), "tea")
    first, second = iterate(turns, how), iterate(turns, how)
    assert first == second == [["0"]]
    assert turns.result.spent.iterations == 2
    nothing: Any = turns
    with pytest.raises(TypeError):
        next(nothing)


@both
def test_users_node_neither_hides_nor_repeats_steps(how: str) -> None:
    @node
    def guard(ready: Ready) -> Ready:
        return Ready(ready.run)

    executor = make_counter()
    graph = splice(executor.graph, edges(guard, on(Ready, plan)), after=check_return_direct, on=Ready)
    turns = langchain.iterate(executor.with_graph(graph), "tea")
    assert iterate(turns, how) == [["0"], ["1"], ["2"]]
    assert turns.result.output == "3 steps of tea"

    milk = iterate(turns, how, lambda number, run: Run({"input": "milk"}, run.steps) if number == 1 else None)
    assert (milk, turns.result.output) == ([["0"], ["1"], ["2"]], "3 steps of milk")


@both
def test_an_exception_ends_the_iteration(how: str) -> None:
    turns = langchain.iterate(make_executor(A, act("fail", text="b"), handle_tool_errors="raise"), "q")
    with pytest.raises(ValueError, match="no b"):
        iterate(turns, how)
    assert [step.observation for step in turns.run.steps] == ["a"]


def test_run_is_unavailable_before_its_first_turn() -> None:
    turns = langchain.iterate(make_counter(), "q")
    assert turns.spent.iterations == 0
    with pytest.raises(errors.InputError, match="the run has not begun; iterate over it first"):
        _ = turns.run
    with pytest.raises(errors.InputError, match="the run has not begun; set run inside the loop, between two turns"):
        turns.run = Run({})
    iterate(turns, "sync")
    with pytest.raises(errors.InputError, match=r"the run has ended and cannot be changed; check that ended is False"):
        turns.run = Run({})


@both
def test_snapshot_is_resumed_step_by_step(how: str) -> None:
    executor = make_counter()
    entered = [event for event in executor.stream("tea") if isinstance(event, kernel.Entered) and event.node == "plan"]
    paused = Snapshot("plan", entered[1].value, spent=entered[1].spent)
    turns = langchain.iterate(executor, paused)
    assert iterate(turns, how) == [["1"], ["2"]]
    assert turns.result.spent.iterations == 4


@both
def test_time_of_the_memory_counts(how: str) -> None:
    clock = FakeClock()

    executor = make_counter(memory=Diary(lambda: clock.advance(50)), max_execution_time=10)
    turns = langchain.iterate(timed(executor, clock), "tea")
    iterate(turns, how, lambda number, run: Run(run.inputs, run.steps))
    assert (turns.result.reason, turns.result.spent.seconds) == ("seconds", 50)


@both
@cases(
    ("executor", "reason", "ended"),
    (make_executor(act("direct", text="a"), tools=[direct], max_iterations=5), "return_direct", True),
    (make_executor(act("direct", text="a"), tools=[direct], memory=Diary()), "return_direct", True),
    (make_counter(1), "finished", False),
)
def test_last_turn_is_marked_as_ended(how: str, executor: AgentExecutor, reason: str, ended: bool) -> None:
    turns = langchain.iterate(executor, "q")
    iterate(turns, how, most=1)
    assert turns.ended is ended
    again = langchain.iterate(executor, "q")
    iterate(again, how)
    assert (again.ended, again.result.reason) == (True, reason)


@cases("changed", False, True)
@both
def test_time_of_the_caller_counts(how: str, changed: bool) -> None:
    clock = FakeClock(100)
    turns = langchain.iterate(timed(make_counter(9, max_execution_time=25), clock), "q")
    spent: list[float] = []

    def think(number: int, run: Run) -> Run | None:
        spent.append(turns.spent.seconds)
        clock.advance(10)
        return Run({"input": "milk"}, run.steps) if changed else None

    # After the third turn, the caller takes longer than the deadline.
    assert len(iterate(turns, how, think)) == 3
    assert (spent, turns.result.reason, turns.result.spent.seconds) == ([0, 10, 20], "seconds", 30)


@both
def test_a_changed_run_repeats_no_call_id(how: str) -> None:
    ids: list[Any] = []

    @tools.tool(name="echo")
    def noted(text: str, call: CallContext[Any]) -> str:
        """Say it again."""
        ids.append(call.id)
        return text

    turns = langchain.iterate(AgentExecutor(agent=make_counter().agent, tools=[noted]), "q")

    iterate(turns, how, lambda number, run: Run(run.inputs, Steps(run.steps)) if number == 1 else None)
    assert len(ids) == len(set(ids)) == 3
