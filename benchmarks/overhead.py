"""The cost of a step: the executor and the bare kernel compared with an equivalent Python loop.

    python benchmarks/overhead.py [--check]

A step is one plan by a scripted model and one call of a trivial tool, unobserved. The bare loop calls the same
model and the same tool's function, and keeps the same steps. Times are the best of several rounds, in µs of wall time;
with `--check` the exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from graphexec import (
    END,
    AgentExecutor,
    Exhausted,
    Limits,
    create_tool_calling_agent,
    edges,
    graph,
    metered,
    node,
    on,
    tool,
)
from graphexec.messages import ChatRequest, ModelReply, ToolCall, UserMessage
from graphexec.models import ScriptedModel
from graphexec.runtime import make_run_context, run

STEPS = (10, 100, 1_000)
ROUNDS = 15

# The goals, as ratios in one run, and microseconds per node visit.
EXECUTOR_TO_BARE = 40.0
FLAT = 1.2
KERNEL_VISIT = 3.0

ASKS_FOR_A_TOOL = ModelReply("", (ToolCall("call_1", "double", '{"x": 21}'),))


@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


@tool(name="double")
async def double_async(x: int) -> int:
    """Double a number."""
    return 2 * x


def bare_loop(steps: int) -> int:
    """Run steps without a framework: ask, look up, call, store."""
    model = ScriptedModel([ASKS_FOR_A_TOOL], repeat_last=True)
    tools = {"double": double.function}
    request = ChatRequest((UserMessage("Go on."),))
    kept: list[tuple[ToolCall, int]] = []
    while len(kept) < steps:
        reply = model.complete(request)
        for call in reply.tool_calls:
            kept.append((call, tools[call.name](x=21)))  # noqa: PERF401
    return len(kept)


def executor(tool_used: Any) -> AgentExecutor:
    """Make an executor of the same model and tool; the model never finishes."""
    model = ScriptedModel([ASKS_FOR_A_TOOL], repeat_last=True)
    return AgentExecutor(agent=create_tool_calling_agent(model, [tool_used]), tools=[tool_used])


@final
@dataclass(frozen=True, slots=True)
class Tick:
    """A number on its way round."""

    number: int


@final
@dataclass(frozen=True, slots=True)
class Tock:
    """The same number, half-way."""

    number: int


@final
@dataclass(frozen=True, slots=True)
class Over:
    """The limit is reached."""

    number: int


def over(tick: Tick, limit: Exhausted) -> Over:
    """Leave the loop."""
    del limit
    return Over(tick.number)


@metered(when_spent=over)
@node
def ticks(tick: Tick) -> Tock:
    """Go half-way round."""
    return Tock(tick.number)


@node
def tocks(tock: Tock) -> Tick:
    """Go the other half."""
    return Tick(tock.number + 1)


CLOCK = graph(edges(ticks, on(Tock, tocks) | on(Over, END)) | edges(tocks, on(Tick, ticks)), start=ticks)


def best(measured: Mapping[str, Callable[[int], object]], steps: int) -> dict[str, float]:
    """Return each one's best time of several rounds, in µs per step; the rounds take turns, so noise hits all alike.

    A round is as many runs as make up the longest one, so that short runs are not measured cold.
    """
    times: dict[str, list[float]] = {name: [] for name in measured}
    runs = STEPS[-1] // steps
    for _ in range(ROUNDS):
        for name, one in measured.items():
            began = time.perf_counter()
            one(runs)
            times[name].append(time.perf_counter() - began)
    return {name: min(found) / (runs * steps) * 1e6 for name, found in times.items()}


def again(measured: Callable[[], object], runs: int) -> None:
    """Run as often as that."""
    for _ in range(runs):
        measured()


def again_in_loop(runner: asyncio.Runner, executor: AgentExecutor, runs: int) -> None:
    """Run as often as that in one event loop, whose own beginning and end are not the executor's."""

    async def all_runs() -> None:
        for _ in range(runs):
            await executor.arun("Go on.")

    runner.run(all_runs())


def main() -> int:
    """Measure, print, and return the exit status."""
    with_sync, with_async = executor(double), executor(double_async)
    rows: dict[str, list[float]] = {}
    with asyncio.Runner() as runner:
        for steps in STEPS:
            limits = Limits(iterations=steps)
            sync, asynchronous = with_sync.with_limits(limits), with_async.with_limits(limits)
            # Two visits to a step: half the iterations make as many visits as there are steps.
            kernel = make_run_context({}, limits=Limits(iterations=steps // 2))
            measured: dict[str, Callable[[int], object]] = {
                "bare loop": partial(again, partial(bare_loop, steps)),
                "executor": partial(again, partial(sync.run, "Go on.")),
                "executor, async": partial(again_in_loop, runner, asynchronous),
                "kernel, per visit": partial(again, partial(run, CLOCK, Tick(0), kernel)),
            }
            for name, time_taken in best(measured, steps).items():
                rows.setdefault(name, []).append(time_taken)
    print(f"{'µs per step':<20}" + "".join(f"{steps:>10,}" for steps in STEPS) + "   steps")
    for name, times in rows.items():
        print(f"{name:<20}" + "".join(f"{one:>10.2f}" for one in times))
    ratio = rows["executor"][-1] / rows["bare loop"][-1]
    flat = max(rows["executor"]) / min(rows["executor"])
    visit = rows["kernel, per visit"][-1]
    goals = (
        (f"executor / bare loop: {ratio:.1f} (goal: at most {EXECUTOR_TO_BARE:g})", ratio <= EXECUTOR_TO_BARE),
        (f"dearest / cheapest of the three: {flat:.2f} (goal: at most {FLAT:g})", flat <= FLAT),
        (f"kernel: {visit:.2f} µs per node visit (goal: at most {KERNEL_VISIT:g})", visit <= KERNEL_VISIT),
    )
    for text, kept in goals:
        print(text if kept else f"{text} - MISSED")
    return 0 if all(kept for _, kept in goals) or "--check" not in sys.argv else 1


if __name__ == "__main__":
    sys.exit(main())
