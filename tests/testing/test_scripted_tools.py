"""A scripted tool returns its results in order, and records its calls."""

import re

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, create_react_agent, tool
from graphexec.testing import NEVER, After, ScriptedModel, ScriptExhaustedError, run_virtually, scripted_tool


@tool(return_direct=True)
def population(city: str) -> int:
    """The number of people who live in a city."""
    raise AssertionError(f"the real tool was called with {city}")


def model_of(*texts: str) -> ScriptedModel:
    return ScriptedModel([*texts, "Final Answer: done"])


def test_results_keep_their_order() -> None:
    search = scripted_tool("search", ["3 hits", TimeoutError("slow"), 7])
    model = model_of(*["Action: search\nAction Input: Porto"] * 3)
    result = AgentExecutor(agent=create_react_agent(model, [search]), tools=[search]).run("q")
    assert [(step.status, step.observation) for step in result.steps] == [
        ("ok", "3 hits"),
        ("error", "search failed: TimeoutError: slow"),
        ("ok", 7),
    ]
    assert search.calls == [{"input": "Porto"}] * 3
    search.assert_complete()


def test_scripted_tool_copies_its_tool() -> None:
    fake = scripted_tool(population, [248_769])
    assert fake.signature == population.signature
    model = model_of("Action: population\nAction Input: Porto")
    result = AgentExecutor(agent=create_react_agent(model, [fake]), tools=[fake]).run("q")
    assert (result.output, result.reason) == (248_769, "return_direct")
    assert fake.calls == [{"city": "Porto"}]


def test_call_with_invalid_arguments_does_not_count() -> None:
    fake = scripted_tool(population, [1])
    actions = iter([AgentAction("population", {"town": "Porto"}), AgentFinish({"output": "done"})])
    result = AgentExecutor(agent=lambda steps, inputs: next(actions), tools=[fake]).run("q")
    assert [step.status for step in result.steps] == ["bad_arguments"]
    assert fake.calls == []
    with pytest.raises(AssertionError, match=re.escape("population has 1 of 1 results left after 0 calls; next is 1")):
        fake.assert_complete()


def test_exhausted_script_ends_the_run() -> None:
    fake = scripted_tool("search", ["one"])
    executor = AgentExecutor(agent=lambda steps, inputs: AgentAction("search", {}), tools=[fake])
    with pytest.raises(ScriptExhaustedError, match="search was called 2 times but has 1 results; script another one"):
        executor.run("q")


def test_last_result_can_repeat() -> None:
    fake = scripted_tool("search", ["one", "again"], repeat_last=True)
    executor = AgentExecutor(agent=lambda steps, inputs: AgentAction("search", {}), tools=[fake], max_iterations=4)
    assert [step.observation for step in executor.run("q").steps] == ["one", "again", "again", "again"]
    fake.assert_complete()


def test_nothing_cannot_be_repeated() -> None:
    with pytest.raises(ValueError, match="search has no result to repeat"):
        scripted_tool("search", [], repeat_last=True)


def test_late_result_takes_its_seconds() -> None:
    fake = scripted_tool("search", [After(30, "late"), After(1, ValueError("late and wrong")), "at once"])
    decisions = [AgentAction("search", {})] * 3
    turns = iter([*decisions, AgentFinish({"output": "done"})])
    result = run_virtually(AgentExecutor(agent=lambda steps, inputs: next(turns), tools=[fake]).arun("q"))
    assert [step.observation for step in result.steps] == [
        "late",
        "search failed: ValueError: late and wrong",
        "at once",
    ]


def test_delays_read_well() -> None:
    assert repr([After(2.5, "x"), NEVER, After(1, None, stubborn=True)]) == (
        "['x' after 2.5 s, never, None after 1 s, stubborn]"
    )
