"""The cost of a deadline per step, and the memory of a waiting run, with and without `max_execution_time`.

    python benchmarks/deadline.py [--check]

A step is one decision of an agent function and one call of a trivial tool: a thread or a task is started once per
run, not once per step. Times are the best of several rounds, which take turns, in µs of wall time for a step of
a run of 100 steps, and as ratios to the same run without a deadline. A *waiting run* is one of many in one event loop,
each in an async tool that waits: its bytes are those that it has allocated. With `--check` the exit status is 1 if a
goal is missed.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from graphexec import AgentAction, AgentExecutor, AgentFinish, tool

STEPS = 100
RUNS = 5
ROUNDS = 25
WAITING = 500

# The goals: a ratio in one run, and bytes.
DEADLINE = 1.5
BYTES = 7 * 1024


@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


@tool(name="double")
async def double_async(x: int) -> int:
    """Double a number."""
    return 2 * x


def decide(steps: Any, inputs: dict[str, Any]) -> AgentAction | AgentFinish:
    """Call the tool until there are enough steps."""
    del inputs
    return AgentAction("double", {"x": 21}) if len(steps) < STEPS else AgentFinish({"output": "done"})


async def decide_async(steps: Any, inputs: dict[str, Any]) -> AgentAction | AgentFinish:
    """Decide on an event loop."""
    return decide(steps, inputs)


def executor(agent: Any, tool_used: Any, seconds: float | None) -> AgentExecutor:
    """Make an executor with or without a deadline."""
    return AgentExecutor(agent=agent, tools=[tool_used], max_iterations=2 * STEPS, max_execution_time=seconds)


def run(executor: AgentExecutor) -> None:
    """Run several times."""
    for _ in range(RUNS):
        executor.run("Go on.")


def run_on_loop(runner: asyncio.Runner, executor: AgentExecutor) -> None:
    """Run several times in an event loop that is there already."""

    async def run_all() -> None:
        for _ in range(RUNS):
            await executor.arun("Go on.")

    runner.run(run_all())


def best(measured: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return each one's best time of the rounds, in µs per step."""
    times = dict.fromkeys(measured, float("inf"))
    for _ in range(ROUNDS):
        for name, one in measured.items():
            began = time.perf_counter()
            one()
            times[name] = min(times[name], time.perf_counter() - began)
    return {name: seconds / (RUNS * STEPS) * 1e6 for name, seconds in times.items()}


async def bytes_of_waiting(seconds: float | None) -> float:
    """Return the bytes that one of many waiting runs has allocated."""
    released, all_wait = asyncio.Event(), asyncio.Event()
    entered = 0

    @tool
    async def wait() -> str:
        """Wait."""
        nonlocal entered
        entered += 1
        if entered == WAITING:
            all_wait.set()
        await released.wait()
        return "done"

    async def decide_once(steps: Any, inputs: dict[str, Any]) -> AgentAction | AgentFinish:
        del inputs
        return AgentFinish({"output": "done"}) if steps else AgentAction("wait", {})

    waiting = AgentExecutor(
        agent=decide_once,
        tools=[wait],
        max_execution_time=seconds,
    )
    released.set()
    await waiting.arun("Go on.")
    released.clear()
    entered = 0
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    runs = [asyncio.ensure_future(waiting.arun("Go on.")) for _ in range(WAITING)]
    await all_wait.wait()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    released.set()
    await asyncio.gather(*runs)
    return (after - before) / WAITING


def main() -> int:
    """Measure, print, and return the exit status."""
    with asyncio.Runner() as runner:
        times = best(
            {
                "no deadline": partial(run, executor(decide, double, None)),
                "deadline": partial(run, executor(decide, double, 60.0)),
                "no deadline, async": partial(run_on_loop, runner, executor(decide_async, double_async, None)),
                "deadline, async": partial(run_on_loop, runner, executor(decide_async, double_async, 60.0)),
            }
        )
        waiting = {seconds: runner.run(bytes_of_waiting(seconds)) for seconds in (None, 60.0)}
    ratios = {
        "deadline": times["deadline"] / times["no deadline"],
        "deadline, async": times["deadline, async"] / times["no deadline, async"],
    }
    print(f"{'per step':<22}{'µs':>8}{'ratio':>8}")
    for name, one in times.items():
        print(f"{name:<22}{one:>8.2f}{ratios.get(name, 1.0):>8.2f}")
    for seconds, size in waiting.items():
        print(f"a waiting run, {'without' if seconds is None else 'with'} a deadline: {size:,.0f} bytes")
    worst, size = max(ratios.values()), waiting[None]
    kept = worst <= DEADLINE and size <= BYTES
    goals = f"deadline: {worst:.2f} (goal: at most {DEADLINE:g}); waiting: {size:,.0f} bytes (goal: at most {BYTES:,})"
    print(f"{goals}{'' if kept else ' - MISSED'}")
    return 0 if kept or "--check" not in sys.argv else 1


if __name__ == "__main__":
    sys.exit(main())
