"""The cost of observers per step: the same run with none, with one that does nothing, and with a consumer.

    python benchmarks/observer.py [--check]

A step is one plan by a scripted model and one call of a trivial tool, both of which answer at once: twelve events.
*One observer* is a function that does nothing; it is timed, as all are. *Five observers* are five of them. *A stream*
is iterated to its end without an observer. Times are the best of several rounds, which take turns, in µs of wall time
for a step of a run of 100 steps, and as ratios to the unobserved run. With `--check` the exit status is 1
if one observer misses the goal.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from graphexec import AgentExecutor, Event, Limits, create_tool_calling_agent, tool
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel

STEPS = 100
RUNS = 5
ROUNDS = 25

# The goal, as a ratio in one run.
OBSERVER = 2.0

ASKS_FOR_A_TOOL = ModelReply("", (ToolCall("call_1", "double", '{"x": 21}'),))


@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


@tool(name="double")
async def double_async(x: int) -> int:
    """Double a number."""
    return 2 * x


def ignore(event: Event[Any]) -> None:
    """Observe an event, and do nothing."""


def executor(tool_used: Any, observers: int = 0) -> AgentExecutor:
    """Make an executor with so many observers; the model never finishes."""
    agent = create_tool_calling_agent(ScriptedModel([ASKS_FOR_A_TOOL], repeat_last=True), [tool_used])
    made = AgentExecutor(agent=agent, tools=[tool_used], observers=[ignore] * observers)
    return made.with_limits(Limits(iterations=STEPS))


def run(executor: AgentExecutor) -> None:
    """Run several times."""
    for _ in range(RUNS):
        executor.run("Go on.")


def stream(executor: AgentExecutor) -> None:
    """Iterate over several runs."""
    for _ in range(RUNS):
        deque(executor.stream("Go on."), maxlen=0)


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


def main() -> int:
    """Measure, print, and return the exit status."""
    with asyncio.Runner() as runner:
        times = best(
            {
                "no observer": partial(run, executor(double)),
                "one observer": partial(run, executor(double, 1)),
                "five observers": partial(run, executor(double, 5)),
                "a stream": partial(stream, executor(double)),
                "no observer, async": partial(run_on_loop, runner, executor(double_async)),
                "one observer, async": partial(run_on_loop, runner, executor(double_async, 1)),
            }
        )
    print(f"{'per step':<22}{'µs':>8}{'ratio':>8}")
    ratios = {
        name: one / times["no observer, async" if "async" in name else "no observer"] for name, one in times.items()
    }
    for name, one in times.items():
        print(f"{name:<22}{one:>8.2f}{ratios[name]:>8.2f}")
    worst = max(ratios["one observer"], ratios["one observer, async"])
    kept = worst <= OBSERVER
    print(f"one observer: {worst:.2f} (goal: at most {OBSERVER:g}){'' if kept else ' - MISSED'}")
    return 0 if kept or "--check" not in sys.argv else 1


if __name__ == "__main__":
    sys.exit(main())
