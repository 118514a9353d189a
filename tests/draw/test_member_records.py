"""Records of batches, with one record for each member, and of nested runs."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, Asked, actions, draw, runtime, tool
from graphexec.draw.page import html
from graphexec.executor import Ready
from graphexec.testing.clock import on_loop_time, run_virtually
from graphexec.tools import AnyTool
from tests.drivers import options_of
from tests.parameters import cases
from tests.traces import read_trace, unpack_page
from tests.verify.acting import acting

Trace = list[dict[str, Any]]


@tool
async def quick(what: str) -> str:
    """Take 20 ms."""
    await asyncio.sleep(0.02)
    return f"quick {what}"


@tool
async def slow(what: str) -> str:
    """Take 500 ms."""
    await asyncio.sleep(0.5)
    return f"slow {what}"


@tool
async def broken(what: str) -> str:
    """Fail after 100 ms."""
    await asyncio.sleep(0.1)
    raise ValueError(what)


TOOLS: list[AnyTool] = [quick, slow, broken]


def calling(*names: str, tools: Sequence[AnyTool] = TOOLS, **options: Any) -> AgentExecutor:
    """Return an executor that calls these tools together, and then answers."""

    def decide(steps: Sequence[object], inputs: object) -> list[AgentAction] | AgentFinish:
        return AgentFinish({"output": "done"}) if steps else [AgentAction(name, "x", "") for name in names]

    return AgentExecutor(agent=decide, tools=tools, **options)


RAISING = {"handle_tool_errors": "raise"}


def recorded(executor: AgentExecutor, **options: Any) -> Trace:
    """Return the records of an async run on a virtual clock."""
    recorder = draw.Recorder(executor.verify())

    async def watched() -> None:
        try:
            async for event in on_loop_time(executor).astream("go on", **options):
                recorder(event)
        except ValueError as error:
            recorder.failed(error)

    run_virtually(watched())
    return read_trace(recorder.recording.to_json_lines())


def members(trace: Trace) -> list[tuple[str, int, float | None]]:
    """Return the tool records in order: event, member and duration."""
    return [
        (one["event"], one["call"]["member"], one["replies"][0]["seconds"] if one["event"] == "answered" else None)
        for one in trace
        if one["event"] in ("asked", "answered") and one["node"] == "dispatch_tools"
    ]


BOTH_ASKED = [("asked", 0, None), ("asked", 1, None)]


@cases(
    ("names", "options", "expected", "status"),
    # Tools of different speed have their own records.
    (["slow", "quick"], {}, [*BOTH_ASKED, ("answered", 1, 0.02), ("answered", 0, 0.5)], "answered"),
    # Tools in turn are recorded in turn.
    (
        ["slow", "quick"],
        {"tool_concurrency": 1},
        [("asked", 0, None), ("answered", 0, 0.5), ("asked", 1, None), ("answered", 1, 0.02)],
        "answered",
    ),
    # A tool that fails keeps the results of others.
    (["quick", "broken"], RAISING, [*BOTH_ASKED, ("answered", 0, 0.02)], "error"),
    (["quick", "broken", "slow"], RAISING, [*BOTH_ASKED, ("asked", 2, None), ("answered", 0, 0.02)], "error"),
    # All members are charged before the first one starts.
    (
        ["quick", "broken", "slow"],
        {**RAISING, "tool_concurrency": 1},
        [("asked", 0, None), ("answered", 0, 0.02), ("asked", 1, None)],
        "error",
    ),
)
def test_members_have_records_of_their_own(
    names: list[str], options: dict[str, Any], expected: list[tuple[str, int, float | None]], status: str
) -> None:
    executor = calling(*names, **options)
    trace = recorded(executor)
    assert members(trace) == [(event, name, seconds and pytest.approx(seconds)) for event, name, seconds in expected]
    assert trace[-1]["status"] == status


@cases("concurrency", 1, 2, 8)
def test_a_deadline_cuts_each_member_alone(concurrency: int) -> None:
    executor = calling("quick", "slow", "slow", max_execution_time=0.1, tool_concurrency=concurrency)
    trace = recorded(executor)
    times = {member: seconds for event, member, seconds in members(trace) if event == "answered"}
    # A member that has not begun is cut at its start.
    began = {1: {1: 0.02, 2: 0.1}, 2: {1: 0.0, 2: 0.02}, 8: {1: 0.0, 2: 0.0}}[concurrency]
    assert times == {0: pytest.approx(0.02), **{one: pytest.approx(0.1 - at) for one, at in began.items()}}


# ---- nested runs


def nesting(inner_calls: int, **options: Any) -> tuple[AgentExecutor, list[Trace]]:
    """An executor with a tool that runs another one, which calls a tool so often; and the traces of the inner runs."""
    traces: list[Trace] = []
    inner = acting([1] * inner_calls)

    @tool
    async def delegate(what: str) -> str:
        """Have another agent do it."""
        recorder = draw.Recorder(inner.verify())
        async for event in inner.astream(what):
            recorder(event)
        traces.append(read_trace(recorder.recording.to_json_lines()))
        return "done"

    return calling("delegate", "quick", tools=[delegate, quick], **options), traces


def test_nested_charges_are_recorded() -> None:
    executor, traces = nesting(2)
    trace = recorded(executor)
    (record,) = [record for record in trace if "within" in record]
    assert (record["event"], record["call"]["member"]) == ("answered", 0)
    # Three decisions and two tools.
    assert (record["within"]["model_calls"], record["within"]["tool_calls"]) == (3, 2)
    assert trace[-1]["spent"]["model_calls"] == 2 + 3
    assert (traces[0][-1]["spent"]["model_calls"], traces[0][-1]["spent"]["tool_calls"]) == (3, 2)
    # A recorded result has them, too.
    result = run_virtually(on_loop_time(executor).arun("go on"))
    assert [one["within"] for one in draw.recording_of(result).records if "within" in one] == [record["within"]]


def test_nested_run_stays_within_outer_limits() -> None:
    """The outer limit stops the inner run, and the outer one later."""
    executor, traces = nesting(9, max_model_calls=4, early_stopping_method="generate", max_tool_calls=20)
    trace = recorded(executor)
    assert trace[-1]["status"] == "stopped"
    assert trace[-1]["spent"]["model_calls"] == 5
    (stopped,) = traces
    assert stopped[-1]["cause"]["outer"] is True


class User:
    """The context of a run, which must not be recorded."""

    def __repr__(self) -> str:
        return "the-user-is-4711"


def test_context_appears_in_no_record_or_page() -> None:
    executor = calling("quick", "slow")
    recorder = draw.Recorder(executor.verify())

    async def watched() -> None:
        run_context = on_loop_time(executor).run_context
        start = Ready(actions.Run({"input": "go on"}))
        async for event in runtime.astream(executor.graph, start, **options_of(run_context), context=User()):
            assert not isinstance(event, Asked) or (event.call is not None and event.call.context.__class__ is User)
            recorder(event)

    run_virtually(watched())
    recording = recorder.recording
    assert recording.result is not None
    page = unpack_page(html(recording.machine, recording))
    for recorded_charges in (recording.to_json_lines(), page):
        assert "4711" not in recorded_charges
        assert "User" not in recorded_charges
