"""The bounds of a proof hold over restarts: every attempt is charged, and each restart counts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentAction, AgentExecutor, AgentFinish, CallContext, tool
from graphexec.effects import CallTool
from graphexec.executor import RunResult
from graphexec.runs import SQLiteRuns
from tests.parameters import cases


class Crash(BaseException):
    """The process ends here."""


class Process:
    """A process that ends at the calls with these numbers; a number counts all calls of all processes."""

    def __init__(self, ends: Sequence[int], sizes: Sequence[int]) -> None:
        self.ends, self.sizes = ends, sizes
        self.begun = {"tool_calls": 0, "model_calls": 0}

    def begin(self, call: CallContext[Any]) -> AbstractContextManager[None]:
        self.begun["tool_calls" if isinstance(call.effect, CallTool) else "model_calls"] += 1
        if sum(self.begun.values()) in self.ends:
            raise Crash
        return nullcontext()

    def executor(self, levels: int = 0, **options: Any) -> AgentExecutor[Any]:
        """Return an executor, or one around so many others, of which each asks for two at once."""

        def agent(steps: Sequence[Any], _: dict[str, Any]) -> Any:
            turns = len(self.sizes)
            done = sum(1 for end in range(turns) if len(steps) >= sum(self.sizes[: end + 1]))
            if done == turns:
                return AgentFinish({"output": "done"})
            return [AgentAction("work", {"number": number}) for number in range(self.sizes[done])]

        def delegating_agent(steps: Sequence[Any], _: dict[str, Any]) -> Any:
            return AgentFinish({"output": "done"}) if steps else [AgentAction("help", {"input": "go"})] * 2

        @tool(in_doubt="retry")
        def work(number: int, call: CallContext[Any]) -> str:
            """Work."""
            return f"{number} of {call.id}"

        if not levels:
            return AgentExecutor(agent=agent, tools=[work], tool_concurrency=1, around_call=self.begin, **options)
        helper = self.executor(levels - 1).as_tool("help", "Help.")
        return AgentExecutor(
            agent=delegating_agent, tools=[helper], tool_concurrency=1, around_call=self.begin, **options
        )


def finish(executor: AgentExecutor[Any]) -> RunResult[Any]:
    """Run until a process has ended the run; the others have crashed."""
    with TemporaryDirectory() as folder, SQLiteRuns(Path(folder) / "runs.db") as store:
        while True:
            try:
                result = executor.run("go", runs=store, run_id="trip")
            except Crash:
                # What a process leaves that is killed.
                store.execute("UPDATE graphexec_runs SET owner='gone|0|1|', status='running', leased_until=0")
                continue
            assert isinstance(result, RunResult)
            return result


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2),
    st.sets(st.integers(1, 25), max_size=6),
    st.lists(st.integers(1, 3), max_size=3),
    st.integers(0, 4),
)
def test_bounds_hold_over_restarts(levels: int, ends: set[int], sizes: list[int], most: int) -> None:
    process = Process([*ends], sizes)
    executor = process.executor(levels, max_iterations=5, max_fan_out=3, max_restarts=most)
    bounds = executor.verify().bounds
    assert bounds is not None
    result = finish(executor)
    spent = result.spent
    # A restart too many charges nothing any more, and what had been charged stays. A batch is charged as a whole.
    assert process.begun["model_calls"] == spent["model_calls"]
    whole = process.begun["tool_calls"] + (2 + levels) * (spent.restarts + 1)
    assert process.begun["tool_calls"] <= spent["tool_calls"] <= whole
    for name in process.begun if not levels else ():
        bound = bounds.meters[name].number
        assert bound is not None
        assert spent[name] <= bound, name
    assert result.spent.restarts <= most + 1
    assert (result.reason == "restarts") is (result.spent.restarts > most)
    assert result.reason in ("finished", "restarts")


@cases(("ends", "begun"), ((), 4), ((4,), 5), ((3, 5, 7), 6))
def test_every_attempt_is_charged(ends: tuple[int, ...], begun: int) -> None:
    process = Process(ends, [3, 1])
    result = finish(process.executor())
    assert process.begun["tool_calls"] == result.spent["tool_calls"] == begun
    assert result.spent.restarts == len(ends)
    assert [step.observation for step in result.steps] == [
        "0 of trip/2.0",
        "1 of trip/2.1",
        "2 of trip/2.2",
        "0 of trip/4.0",
    ]


@pytest.mark.medium
@cases("width", 1, 2)
def test_charges_of_a_nested_run_that_the_deadline_cuts_are_stored(width: int, tmp_path: Path) -> None:
    ended = threading.Event()

    @tool
    def hang() -> str:
        """Hang."""
        ended.wait(10)
        return ""

    @tool
    def work() -> str:
        """Work."""
        return ""

    def decide(steps: Sequence[Any], _: dict[str, Any]) -> Any:
        return AgentFinish({"output": ""}) if steps else [AgentAction("work", {}), AgentAction("hang", {})]

    inner = AgentExecutor(agent=decide, tools=[work, hang], tool_concurrency=1)
    helper = inner.as_tool("help", "Help.")

    def agent(steps: Sequence[Any], _: dict[str, Any]) -> Any:
        return AgentFinish({"output": ""}) if steps else [AgentAction("help", {"input": "go"})] * width

    executor = AgentExecutor(agent=agent, tools=[helper], max_execution_time=0.2)
    with SQLiteRuns(tmp_path / "runs.db") as store:
        results: list[Any] = [executor.run("go", runs=store, run_id="trip") for _ in range(2)]
    ended.set()
    assert results[0].spent == results[1].spent
