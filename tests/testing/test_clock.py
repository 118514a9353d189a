"""Under the virtual clock waiting costs nothing and time limits hold to the second; scripted tools return in order."""

import asyncio
import contextlib
import dataclasses
import math
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, Limits, RunResult, create_react_agent, tool
from graphexec.kernel.meters import GRACE
from graphexec.testing import ScriptedModel, ScriptExhaustedError, VirtualClock, loop_time, on_loop_time, run_virtually
from graphexec.testing.failures import DeadlockError
from graphexec.testing.scripted import NEVER, After, ScriptedTool, scripted_tool
from graphexec.tools import AnyTool
from tests.parameters import cases
from tests.stopwatch import Stopwatch


@pytest.fixture(autouse=True)
def in_no_time() -> Iterator[None]:
    with Stopwatch() as watch:
        yield
    assert watch.elapsed < watch.extend(5)


def calling(*names: str, tools: Sequence[AnyTool], **settings: Any) -> AgentExecutor:
    """An executor whose agent calls these tools, all at once and again and again."""
    actions = [AgentAction(name, {}) for name in names]
    return on_loop_time(AgentExecutor(agent=lambda steps, inputs: actions, tools=tools, **settings))


def test_time_is_virtual() -> None:
    seen: list[float] = []

    async def wait(seconds: float) -> float:
        await asyncio.sleep(seconds)
        seen.append(loop_time())
        return loop_time()

    async def wait_at_once() -> None:
        await asyncio.gather(*[wait(seconds) for seconds in (3, 1, 2.5, 86_400 * 30, 0)])

    # A long sleep takes no real time, and timers go off in their order.
    assert run_virtually(wait(1e9)) == 1e9
    run_virtually(wait_at_once())
    assert seen == [1e9, 0, 1, 2.5, 3, 86_400 * 30]


def test_clock_keeps_time_and_loops_may_be_real() -> None:
    clock = VirtualClock(100)
    clock.run(asyncio.sleep(5))
    clock.advance(1)
    clock.run(asyncio.sleep(5))
    assert clock() == clock.seconds == 111
    assert repr(clock) == "<VirtualClock at 111 s>"
    executor = on_loop_time(AgentExecutor(agent=lambda steps, inputs: AgentFinish({"output": 1}), tools=[]))
    assert executor.limits == Limits()
    assert asyncio.run(executor.arun("q")).output == 1


@cases("limit", 1, 0.3, 7.25, 100_000)
def test_endless_run_ends_exactly_at_its_time_limit(limit: float) -> None:
    clock = VirtualClock(1000)
    executor = on_loop_time(calling("never", tools=[scripted_tool("never", [NEVER])], max_execution_time=limit), clock)
    result = clock.run(executor.arun("q"))
    assert result.reason == "seconds"
    assert clock.seconds == 1000 + limit
    assert result.spent.seconds == pytest.approx(limit, abs=1e-9)
    assert [step.status for step in result.steps] == ["cut"]


async def spin() -> str:
    """Never wait."""
    while True:  # noqa: ASYNC110 - it waits for nothing
        await asyncio.sleep(0)


NEVER_BACK = scripted_tool("slow", [NEVER], repeat_last=True)
LATE, STUBBORN = [After(3, "late")], [After(math.inf, stubborn=True)]


@cases(
    ("called", "settings", "statuses", "seconds"),
    (scripted_tool("slow", LATE, repeat_last=True), {"max_execution_time": 10}, ["ok"] * 3 + ["cut"], 10),
    # 60 more are what is left behind at the end is given.
    (scripted_tool("stubborn", STUBBORN), {"max_execution_time": 10}, ["cut"], 10 + GRACE),
    (tool(spin), {"max_execution_time": 10}, ["cut"], 10),
    (dataclasses.replace(NEVER_BACK, timeout=4.0), {"max_iterations": 3}, ["timed_out"] * 3, 12),
)
def test_tool_is_cut(called: AnyTool, settings: dict[str, Any], statuses: list[str], seconds: float) -> None:
    clock = VirtualClock()
    result = clock.run(calling(called.name, tools=[called], **settings).arun("q"))
    assert [step.status for step in result.steps] == statuses
    assert result.reason == ("seconds" if "max_execution_time" in settings else "iterations")
    assert result.spent.seconds == pytest.approx(seconds)
    # A stubborn tool is given more seconds when it is left behind.
    assert called.name == "stubborn" or clock.seconds == seconds


def test_deadlock_is_an_error() -> None:
    # Two calls at once, which are tasks of their own.
    executor = calling("never", "never", tools=[scripted_tool("never", [NEVER], repeat_last=True)])
    with pytest.raises(DeadlockError, match="nothing can wake the loop at 0 virtual seconds") as raised:
        run_virtually(executor.arun("q"))
    assert any(line.startswith("sleep at ") for line in raised.value.waiting)
    with pytest.raises(DeadlockError, match="nothing can wake"):
        run_virtually(asyncio.sleep(math.inf))
    with pytest.raises(DeadlockError, match="iterations of the loop at 0 virtual seconds"):
        run_virtually(spin())


def test_thread_call_takes_no_virtual_time() -> None:
    @tool
    def block() -> str:
        """Block a little."""
        threading.Event().wait(0.05)
        return "back"

    async def in_pool() -> str:
        await asyncio.to_thread(threading.Event().wait, 0.05)
        return "back"

    clock = VirtualClock()
    result = clock.run(calling("block", tools=[block], max_iterations=2, max_execution_time=0.001).arun("q"))
    assert ([step.observation for step in result.steps], clock.seconds) == (["back", "back"], 0)
    assert (clock.run(in_pool()), clock.seconds) == ("back", 0)


def test_hanging_thread_is_an_error(released: threading.Event) -> None:
    @tool
    def block() -> str:
        """Block for good."""
        released.wait(30)
        return "late"

    executor = calling("block", tools=[block], max_execution_time=1)
    with pytest.raises(DeadlockError, match=re.escape("not returned after 0.1 real seconds")) as raised:
        run_virtually(executor.arun("q"), patience=0.1)
    # It says which function, and what to do.
    assert re.search(r"block at \S*test_clock\.py:\d+ in a thread has not returned", str(raised.value))
    assert "make it async def, script it with scripted_tool(block, [After(100, ...)])" in str(raised.value)

    def fetch() -> None:
        released.wait(30)

    with pytest.raises(DeadlockError, match=r"fetch at \S*test_clock\.py:\d+ in a thread has not returned"):
        run_virtually(asyncio.to_thread(fetch), patience=0.1)


def test_remaining_tasks_are_cancelled_or_abandoned() -> None:
    cancelled: list[str] = []
    kept: list[object] = []

    async def polite() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            cancelled.append("polite")

    async def stubborn() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(7)

    async def main() -> None:
        kept.extend([asyncio.create_task(polite()), asyncio.create_task(stubborn())])
        await asyncio.sleep(5)
        raise KeyError("me")

    # An exception comes out as it was raised.
    with pytest.raises(KeyError, match="me"):
        run_virtually(main())
    assert cancelled == ["polite"]


# ---- scripted tools


@tool(return_direct=True)
def population(city: str) -> int:
    """The number of people who live in a city."""
    raise AssertionError(f"the real tool was called with {city}")


def run_react(fake: ScriptedTool, *texts: str) -> RunResult:
    model = ScriptedModel([*texts, "Final Answer: done"])
    return AgentExecutor(agent=create_react_agent(model, [fake]), tools=[fake]).run("q")


def test_results_keep_their_order() -> None:
    search = scripted_tool("search", ["3 hits", TimeoutError("slow"), 7])
    result = run_react(search, *["Action: search\nAction Input: Porto"] * 3)
    failed = ("error", "search failed: TimeoutError: slow")
    assert [(step.status, step.observation) for step in result.steps] == [("ok", "3 hits"), failed, ("ok", 7)]
    assert search.calls == [{"input": "Porto"}] * 3
    search.assert_complete()
    fake = scripted_tool("search", [After(30, "late"), After(1, ValueError("late and wrong")), "at once"])
    steps = run_virtually(acting(fake, SEARCH, SEARCH, SEARCH, DONE).arun("q")).steps
    assert [step.observation for step in steps] == ["late", "search failed: ValueError: late and wrong", "at once"]
    delays = repr([After(2.5, "x"), NEVER, After(1, None, stubborn=True)])
    assert delays == "['x' after 2.5 s, never, None after 1 s, stubborn]"
    fake = scripted_tool("search", ["one", "again"], repeat_last=True)
    steps = acting(fake, SEARCH, max_iterations=4).run("q").steps
    assert [step.observation for step in steps] == ["one", "again", "again", "again"]
    fake.assert_complete()
    with pytest.raises(ValueError, match="search has no result to repeat"):
        scripted_tool("search", [], repeat_last=True)
    with pytest.raises(ScriptExhaustedError, match="search was called 2 times but has 1 results; script another one"):
        acting(scripted_tool("search", ["one"]), SEARCH).run("q")


def test_scripted_tool_checks_arguments_as_its_tool() -> None:
    fake = scripted_tool(population, [248_769])
    assert fake.signature == population.signature
    result = run_react(fake, "Action: population\nAction Input: Porto")
    assert (result.output, result.reason) == (248_769, "return_direct")
    assert fake.calls == [{"city": "Porto"}]
    fake = scripted_tool(population, [1])
    result = acting(fake, AgentAction("population", {"town": "Porto"}), DONE).run("q")
    assert [step.status for step in result.steps] == ["bad_arguments"]
    assert fake.calls == []
    with pytest.raises(AssertionError, match=re.escape("population has 1 of 1 results left after 0 calls; next is 1")):
        fake.assert_complete()


def acting(fake: ScriptedTool, *turns: AgentAction | AgentFinish, **settings: Any) -> AgentExecutor:
    """Return an executor whose agent takes these turns, the last again and again."""
    return AgentExecutor(agent=lambda steps, inputs: turns[min(len(steps), len(turns) - 1)], tools=[fake], **settings)


DONE, SEARCH = AgentFinish({"output": "done"}), AgentAction("search", {})
