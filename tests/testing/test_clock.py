"""Under the virtual clock waiting costs nothing, time limits hold to the second, and what cannot go on is an error."""

import asyncio
import contextlib
import dataclasses
import math
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, Limits, tool
from graphexec.kernel.meters import GRACE
from graphexec.testing.clock import VirtualClock, loop_time, on_loop_time, run_virtually
from graphexec.testing.failures import DeadlockError
from graphexec.testing.scripted import NEVER, After, scripted_tool
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


def test_long_sleep_takes_no_real_time() -> None:
    async def main() -> float:
        await asyncio.sleep(1e9)
        return loop_time()

    assert run_virtually(main()) == 1e9


def test_timers_go_off_in_their_order() -> None:
    seen: list[float] = []

    async def one(seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append(loop_time())

    async def main() -> None:
        await asyncio.gather(*[one(seconds) for seconds in (3, 1, 2.5, 86_400 * 30, 0)])

    run_virtually(main())
    assert seen == [0, 1, 2.5, 3, 86_400 * 30]


def test_clock_keeps_time_between_coroutines() -> None:
    clock = VirtualClock(100)
    clock.run(asyncio.sleep(5))
    clock.advance(1)
    clock.run(asyncio.sleep(5))
    assert clock() == clock.seconds == 111
    assert repr(clock) == "<VirtualClock at 111 s>"


@cases("limit", [1, 0.3, 7.25, 100_000])
def test_endless_run_ends_exactly_at_its_time_limit(limit: float) -> None:
    clock = VirtualClock(1000)
    executor = on_loop_time(calling("never", tools=[scripted_tool("never", [NEVER])], max_execution_time=limit), clock)
    result = clock.run(executor.arun("q"))
    assert result.reason == "seconds"
    assert clock.seconds == 1000 + limit
    assert result.spent.seconds == pytest.approx(limit, abs=1e-9)
    assert [step.status for step in result.steps] == ["cut"]


def test_all_steps_count_towards_the_time_limit() -> None:
    slow = scripted_tool("slow", [After(3, "late")], repeat_last=True)
    clock = VirtualClock()
    result = clock.run(calling("slow", tools=[slow], max_execution_time=10).arun("q"))
    assert [step.status for step in result.steps] == ["ok", "ok", "ok", "cut"]
    assert clock.seconds == 10


def test_stubborn_tool_costs_only_the_grace() -> None:
    stubborn = scripted_tool("stubborn", [After(math.inf, stubborn=True)])
    clock = VirtualClock()
    result = clock.run(calling("stubborn", tools=[stubborn], max_execution_time=10).arun("q"))
    assert result.reason == "seconds"
    # 60 more are what is left behind at the end is given.
    assert result.spent.seconds == pytest.approx(10 + GRACE)


def test_spinning_tool_is_cut_at_the_time_limit() -> None:
    @tool
    async def spin() -> str:
        """Never wait."""
        while True:  # noqa: ASYNC110 - it waits for nothing
            await asyncio.sleep(0)

    clock = VirtualClock()
    result = clock.run(calling("spin", tools=[spin], max_execution_time=10).arun("q"))
    assert result.reason == "seconds"
    assert clock.seconds == 10


def test_a_tools_own_timeout_comes_at_its_second() -> None:
    impatient = dataclasses.replace(scripted_tool("slow", [NEVER], repeat_last=True), timeout=4.0)
    clock = VirtualClock()
    result = clock.run(calling("slow", tools=[impatient], max_iterations=3).arun("q"))
    assert [step.status for step in result.steps] == ["timed_out"] * 3
    assert clock.seconds == 12


def test_deadlock_error_names_waiting_tasks() -> None:
    # Two calls at once, which are tasks of their own.
    executor = calling("never", "never", tools=[scripted_tool("never", [NEVER], repeat_last=True)])
    with pytest.raises(DeadlockError, match="nothing can wake the loop at 0 virtual seconds") as raised:
        run_virtually(executor.arun("q"))
    assert any(line.startswith("sleep at ") for line in raised.value.waiting)


def test_a_sleep_for_infinity_is_a_deadlock() -> None:
    with pytest.raises(DeadlockError, match="nothing can wake"):
        run_virtually(asyncio.sleep(math.inf))


def test_endless_spin_is_an_error() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110 - it waits for nothing
            await asyncio.sleep(0)

    with pytest.raises(DeadlockError, match="iterations of the loop at 0 virtual seconds"):
        run_virtually(spin())


def test_thread_call_takes_no_virtual_time() -> None:
    @tool
    def block() -> str:
        """Block a little."""
        threading.Event().wait(0.05)
        return "back"

    clock = VirtualClock()
    result = clock.run(calling("block", tools=[block], max_iterations=2, max_execution_time=0.001).arun("q"))
    assert [step.observation for step in result.steps] == ["back", "back"]
    assert clock.seconds == 0

    async def in_pool() -> str:
        await asyncio.to_thread(threading.Event().wait, 0.05)
        return "back"

    assert clock.run(in_pool()) == "back"
    assert clock.seconds == 0


def test_hanging_thread_is_an_error() -> None:
    released = threading.Event()

    @tool
    def block() -> str:
        """Block for good."""
        released.wait(30)
        return "late"

    executor = calling("block", tools=[block], max_execution_time=1)
    try:
        with pytest.raises(DeadlockError, match=re.escape("not returned after 0.1 real seconds")) as raised:
            run_virtually(executor.arun("q"), patience=0.1)
    finally:
        released.set()
    # It says which function, and what to do.
    assert re.search(r"block at \S*test_clock\.py:\d+ in a thread has not returned", str(raised.value))
    assert "make it async def, script it with scripted_tool(block, [After(100, ...)])" in str(raised.value)


def test_hanging_pool_call_is_named() -> None:
    released = threading.Event()

    def fetch() -> None:
        released.wait(30)

    try:
        with pytest.raises(DeadlockError, match=r"fetch at \S*test_clock\.py:\d+ in a thread has not returned"):
            run_virtually(asyncio.to_thread(fetch), patience=0.1)
    finally:
        released.set()


def test_remaining_tasks_are_cancelled_or_abandoned() -> None:
    cancelled: list[str] = []

    async def polite() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            cancelled.append("polite")

    async def stubborn() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(7)

    kept: list[object] = []

    async def main() -> str:
        kept.extend([asyncio.create_task(polite()), asyncio.create_task(stubborn())])
        await asyncio.sleep(0)
        return "done"

    assert run_virtually(main()) == "done"
    assert cancelled == ["polite"]


def test_an_exception_comes_out_as_it_was_raised() -> None:
    async def main() -> None:
        await asyncio.sleep(5)
        raise KeyError("me")

    with pytest.raises(KeyError, match="me"):
        run_virtually(main())


def test_loop_time_works_on_a_real_loop() -> None:
    executor = on_loop_time(AgentExecutor(agent=lambda steps, inputs: AgentFinish({"output": 1}), tools=[]))
    assert executor.limits == Limits()
    assert asyncio.run(executor.arun("q")).output == 1
