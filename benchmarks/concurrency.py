"""Many runs at once, and many tools at once: `python benchmarks/concurrency.py [--check]`.

1,000 async runs of ten steps share an event loop; their model takes 10 ms for a reply, and their tool answers at once.
The bare loop is the same as user code alone. Their wall time is the best of several rounds that take turns; the work
that a step adds takes this process alone, so a slower machine has a larger ratio. A *suspended run* is one of these
runs while it waits for the model, in its first, its middle and its last step: its bytes are those that it has
allocated, with its steps. A *waiting run* has taken no step.

The tools are 50 of one reply, each of which sleeps for 10 ms in a thread; that is the median of several runs. The bare
pool is a `ThreadPoolExecutor` that calls their function as often. With `--check` the exit status is 1 if a goal is
missed.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from graphexec import AgentAction, AgentExecutor, AgentFinish, tool

RUNS, STEPS, SECONDS = 1_000, 10, 0.01
ROUNDS = 5
TOOLS, TOOL_ROUNDS = 50, 21

# The goals: a ratio in one run, bytes, and milliseconds.
WALL, BYTES, MILLISECONDS = 1.8, 10_000, 16


@tool
async def double(x: int) -> int:
    """Double a number."""
    return 2 * x


@tool
def sleep(number: int) -> int:
    """Sleep for ten milliseconds."""
    time.sleep(SECONDS)
    return number


def decide(done: Any) -> AgentAction | AgentFinish:
    """Call the tool until there are enough steps."""
    return AgentAction("double", {"x": 21}) if len(done) < STEPS else AgentFinish({"output": "done"})


async def ask_model(done: Any, inputs: Any) -> AgentAction | AgentFinish:
    """Decide after ten milliseconds."""
    del inputs
    await asyncio.sleep(SECONDS)
    return decide(done)


async def run_bare() -> object:
    """Run the loop of user code."""
    done: list[tuple[AgentAction, object]] = []
    while type(decision := await ask_model(done, {})) is AgentAction:
        done.append((decision, await double.function(x=21)))
    return decision


def executor(agent: Any) -> AgentExecutor:
    """Return an executor of an agent function."""
    return AgentExecutor(agent=agent, tools=[double], max_iterations=2 * STEPS)


async def run_all(start: Callable[[], Awaitable[object]]) -> None:
    """Run as many as that at once."""
    await asyncio.gather(*(start() for _ in range(RUNS)))


def seconds_of(runner: asyncio.Runner, starts: dict[str, Callable[[], Awaitable[object]]]) -> dict[str, float]:
    """Return the best wall time of each."""
    best = dict.fromkeys(starts, float("inf"))
    for _ in range(ROUNDS):
        for name, start in starts.items():
            began = time.perf_counter()
            runner.run(run_all(start))
            best[name] = min(best[name], time.perf_counter() - began)
    return best


async def bytes_after(steps: int, runs: int = RUNS) -> float:
    """Return the bytes that one of many runs has allocated while it waits for the model after so many steps."""
    waiting, all_wait, released = 0, asyncio.Event(), asyncio.Event()

    async def wait_then(done: Any, inputs: Any) -> AgentAction | AgentFinish:
        nonlocal waiting
        del inputs
        if len(done) == steps:
            waiting += 1
            if waiting == runs:
                all_wait.set()
            await released.wait()
        return decide(done)

    made = executor(wait_then)
    released.set()
    await made.arun("Go on.")
    released.clear()
    waiting = 0
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    begun = [asyncio.ensure_future(made.arun("Go on.")) for _ in range(runs)]
    await all_wait.wait()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    released.set()
    await asyncio.gather(*begun)
    return (after - before) / runs


def milliseconds_of(call: Callable[[], object]) -> float:
    """Return the median time of several calls."""
    times: list[float] = []
    for _ in range(TOOL_ROUNDS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def milliseconds_of_tools() -> float:
    """Return the median time of a run that calls many tools at once."""

    def decide_all(done: Any, inputs: Any) -> Any:
        del inputs
        calls = [AgentAction("sleep", {"number": number}) for number in range(TOOLS)]
        return AgentFinish({"output": "done"}) if done else calls

    made = AgentExecutor(agent=decide_all, tools=[sleep])
    return milliseconds_of(lambda: made.run("Go on."))


def milliseconds_of_pool() -> float:
    """Return the median time of a bare pool that calls the function of the tool as often at once."""
    with ThreadPoolExecutor(TOOLS) as pool:
        return milliseconds_of(lambda: list(pool.map(sleep.function, range(TOOLS))))


def main() -> int:
    """Measure, print, and return the exit status."""
    with asyncio.Runner() as runner:
        made = executor(ask_model)
        times = seconds_of(runner, {"bare loop": run_bare, "executor": lambda: made.arun("Go on.")})
        sizes = {steps: runner.run(bytes_after(steps)) for steps in (0, STEPS // 2, STEPS)}
    for name, seconds in times.items():
        print(f"{RUNS:,} runs of {STEPS} steps, {name}: {seconds:.3f} s")
    for steps, size in sizes.items():
        print(f"a suspended run after {steps} steps: {size:,.0f} bytes")
    print(f"{TOOLS} tools of 10 ms, a bare pool: {milliseconds_of_pool():.2f} ms")
    goals = [
        ("executor : bare loop", times["executor"] / times["bare loop"], WALL),
        (f"bytes of a suspended run after {STEPS} steps", sizes[STEPS], BYTES),
        (f"{TOOLS} tools of 10 ms, milliseconds", milliseconds_of_tools(), MILLISECONDS),
    ]
    for text, value, most in goals:
        print(f"{text}: {value:,.2f} (goal: at most {most:,g}){'' if value <= most else ' - MISSED'}")
    return 0 if all(value <= most for _, value, most in goals) or "--check" not in sys.argv else 1


if __name__ == "__main__":
    sys.exit(main())
