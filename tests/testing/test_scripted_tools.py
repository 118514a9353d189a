"""A scripted tool returns its results in order, and records its calls."""

import re
from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, RunResult, create_react_agent, tool
from graphexec.testing import NEVER, After, ScriptedModel, ScriptExhaustedError, run_virtually, scripted_tool
from graphexec.testing.scripted import ScriptedTool


@tool(return_direct=True)
def population(city: str) -> int:
    """The number of people who live in a city."""
    raise AssertionError(f"the real tool was called with {city}")


def run_react(fake: ScriptedTool, *texts: str) -> RunResult:
    """Run an agent whose model replies with these texts."""
    model = ScriptedModel([*texts, "Final Answer: done"])
    return AgentExecutor(agent=create_react_agent(model, [fake]), tools=[fake]).run("q")


def test_results_keep_their_order() -> None:
    search = scripted_tool("search", ["3 hits", TimeoutError("slow"), 7])
    result = run_react(search, *["Action: search\nAction Input: Porto"] * 3)
    failed = ("error", "search failed: TimeoutError: slow")
    assert [(step.status, step.observation) for step in result.steps] == [("ok", "3 hits"), failed, ("ok", 7)]
    assert search.calls == [{"input": "Porto"}] * 3
    search.assert_complete()


def test_scripted_tool_copies_its_tool() -> None:
    fake = scripted_tool(population, [248_769])
    assert fake.signature == population.signature
    result = run_react(fake, "Action: population\nAction Input: Porto")
    assert (result.output, result.reason) == (248_769, "return_direct")
    assert fake.calls == [{"city": "Porto"}]


def acting(fake: ScriptedTool, *turns: AgentAction | AgentFinish, **settings: Any) -> AgentExecutor:
    """Return an executor whose agent takes these turns, the last again and again."""
    return AgentExecutor(agent=lambda steps, inputs: turns[min(len(steps), len(turns) - 1)], tools=[fake], **settings)


DONE, SEARCH = AgentFinish({"output": "done"}), AgentAction("search", {})


def test_call_with_invalid_arguments_does_not_count() -> None:
    fake = scripted_tool(population, [1])
    result = acting(fake, AgentAction("population", {"town": "Porto"}), DONE).run("q")
    assert [step.status for step in result.steps] == ["bad_arguments"]
    assert fake.calls == []
    with pytest.raises(AssertionError, match=re.escape("population has 1 of 1 results left after 0 calls; next is 1")):
        fake.assert_complete()


def test_last_result_can_repeat() -> None:
    fake = scripted_tool("search", ["one", "again"], repeat_last=True)
    steps = acting(fake, SEARCH, max_iterations=4).run("q").steps
    assert [step.observation for step in steps] == ["one", "again", "again", "again"]
    fake.assert_complete()
    with pytest.raises(ValueError, match="search has no result to repeat"):
        scripted_tool("search", [], repeat_last=True)
    with pytest.raises(ScriptExhaustedError, match="search was called 2 times but has 1 results; script another one"):
        acting(scripted_tool("search", ["one"]), SEARCH).run("q")


def test_late_result_takes_its_seconds() -> None:
    fake = scripted_tool("search", [After(30, "late"), After(1, ValueError("late and wrong")), "at once"])
    steps = run_virtually(acting(fake, SEARCH, SEARCH, SEARCH, DONE).arun("q")).steps
    assert [step.observation for step in steps] == ["late", "search failed: ValueError: late and wrong", "at once"]
    delays = repr([After(2.5, "x"), NEVER, After(1, None, stubborn=True)])
    assert delays == "['x' after 2.5 s, never, None after 1 s, stubborn]"
