"""The bounds of a proof hold over restarts: every attempt is charged, and each restart counts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentAction, AgentExecutor, AgentFinish, CallContext, tool
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

    def begin(self, kind: str) -> None:
        self.begun[kind] += 1
        if sum(self.begun.values()) in self.ends:
            raise Crash

    def executor(self, **options: Any) -> AgentExecutor[Any]:
        def agent(steps: Sequence[Any], _: dict[str, Any]) -> Any:
            self.begin("model_calls")
            turns = len(self.sizes)
            done = sum(1 for end in range(turns) if len(steps) >= sum(self.sizes[: end + 1]))
            if done == turns:
                return AgentFinish({"output": "done"})
            return [AgentAction("work", {"number": number}) for number in range(self.sizes[done])]

        @tool(in_doubt="retry")
        def work(number: int, call: CallContext[Any]) -> str:
            """Work."""
            self.begin("tool_calls")
            return f"{number} of {call.id}"

        return AgentExecutor(agent=agent, tools=[work], tool_concurrency=1, **options)


def finish(process: Process, **options: Any) -> RunResult[Any]:
    """Run until a process has ended the run; the others have crashed."""
    executor = process.executor(**options)
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


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(1, 20), max_size=6), st.lists(st.integers(1, 3), max_size=4), st.integers(0, 4))
def test_bounds_hold_over_restarts(ends: set[int], sizes: list[int], most: int) -> None:
    process = Process([*ends], sizes)
    options: dict[str, Any] = {"max_iterations": 5, "max_fan_out": 3, "max_restarts": most}
    bounds = process.executor(**options).verify().bounds
    assert bounds is not None
    result = finish(process, **options)
    for name, begun in process.begun.items():
        bound = bounds.meters[name].number
        # A restart too many charges nothing any more.
        assert bound is not None
        assert begun <= result.spent[name] <= bound, name
    assert result.spent.restarts <= most + 1
    assert (result.reason == "restarts") is (result.spent.restarts > most)
    assert result.reason in ("finished", "restarts")


@cases(("ends", "begun"), ((), 4), ((4,), 5), ((3, 5, 7), 6))
def test_every_attempt_is_charged(ends: tuple[int, ...], begun: int) -> None:
    process = Process(ends, [3, 1])
    result = finish(process)
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
