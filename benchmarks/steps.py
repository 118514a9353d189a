"""The cost of a step: unobserved, with observers, streams, deadlines, blocking tools, agents and real prompts.

    python benchmarks/steps.py [--check] [--peers langchain,langgraph,pydantic-ai,burr]

A step is one decision and one call of a trivial tool. The *bare loop* is user code alone: its decision is a tuple, and
it calls the function of the tool and keeps a list of the results. Another one has the decisions of the executor's
agent, which are objects of the library. Other rows are `AgentExecutor`: with a function that decides, or with an agent
and a scripted model; *encoded* models make the body of each request, as the client of an OpenAI-compatible server does.
With `--peers` the libraries that are installed run the same loop.

Times are of the processor, the best of several rounds in which all rows take turns, in µs for a step of a run of 100.
Calls are of Python and C functions for a step, where one thread makes all of them; they are exact. With `--check` the
exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from peers import PEERS
from prompts import AGENTS, run_executor, run_hand_written

from graphexec import AgentAction, AgentExecutor, AgentFinish, tool

STEPS, LONG, LONGEST = 100, 1_000, 100_000
ROUNDS = 9
# The steps that a round of each row takes.
ROUND = 500

Run = Callable[[], object]

BARE, SAME = "bare loop of user code", "bare loop with the same decisions"
SYNC, ASYNC = "executor", "executor, async"
DEADLINE, BLOCKING = "max_execution_time", "def agent and tool in arun"


@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


@tool(name="double")
async def double_async(x: int) -> int:
    """Double a number."""
    return 2 * x


def decide_until(steps: int) -> Callable[[Any, Any], AgentAction | AgentFinish]:
    """Return an agent that calls the tool until there are enough steps."""

    def decide(done: Any, inputs: Any) -> AgentAction | AgentFinish:
        del inputs
        return AgentAction("double", {"x": 21}) if len(done) < steps else AgentFinish({"output": "done"})

    return decide


def run_bare(steps: int) -> Run:
    """Return the loop of user code, without any class of the library."""
    functions = {"double": double.function}

    def decide(done: list[Any], inputs: Any) -> tuple[str, dict[str, int]] | str:
        del inputs
        return ("double", {"x": 21}) if len(done) < steps else "done"

    def run() -> object:
        done: list[Any] = []
        while not isinstance(decision := decide(done, {}), str):
            name, arguments = decision
            done.append((decision, functions[name](**arguments)))
        return decision

    return run


def run_same(steps: int) -> Run:
    """Return the loop of user code whose decisions are those of the executor's agent."""
    decide, call = decide_until(steps), double.function

    def run() -> object:
        done: list[tuple[AgentAction, object]] = []
        while type(decision := decide(done, {})) is AgentAction:
            done.append((decision, call(x=21)))
        return decision

    return run


def executor(steps: int, **options: Any) -> AgentExecutor:
    """Return an executor with a function that decides."""
    return AgentExecutor(agent=decide_until(steps), tools=[double], max_iterations=2 * steps, **options)


def executor_async(steps: int, **options: Any) -> AgentExecutor:
    """Return an executor whose agent and tool are coroutine functions."""
    decide = decide_until(steps)

    async def decide_async(done: Any, inputs: Any) -> AgentAction | AgentFinish:
        return decide(done, inputs)

    return AgentExecutor(agent=decide_async, tools=[double_async], max_iterations=2 * steps, **options)


def run_sync(steps: int, **options: Any) -> Run:
    """Return a run."""
    return partial(executor(steps, **options).run, "Go on.")


def stream(steps: int) -> Run:
    """Return a stream that is iterated to its end."""
    made = executor(steps)
    return lambda: deque(made.stream("Go on."), maxlen=0)


def ignore(event: object) -> None:
    """Observe an event, and do nothing."""


# Makes a run on an event loop that is there already.
AsyncRun = Callable[[int], Callable[[], Coroutine[Any, Any, object]]]

ROWS: dict[str, Callable[[int], Run]] = {
    BARE: run_bare,
    SAME: run_same,
    SYNC: run_sync,
    "observer": lambda steps: run_sync(steps, observers=[ignore]),
    "five observers": lambda steps: run_sync(steps, observers=[ignore] * 5),
    "stream": stream,
    DEADLINE: lambda steps: run_sync(steps, max_execution_time=60.0),
    "hand-written, encoded": lambda steps: partial(run_hand_written, steps),
    **{f"{kind}, encoded": partial(run_executor, kind) for kind in AGENTS},
}
ASYNC_ROWS: dict[str, AsyncRun] = {
    ASYNC: lambda steps: partial(executor_async(steps).arun, "Go on."),
    f"{DEADLINE}, async": lambda steps: partial(executor_async(steps, max_execution_time=60.0).arun, "Go on."),
    BLOCKING: lambda steps: partial(executor(steps).arun, "Go on."),
}


@dataclass
class Row:
    """A way to run the loop: it makes a run of so many steps."""

    make: Callable[[int], Run]
    best: float = float("inf")

    def calls(self) -> float:
        """Return the calls of a step: those of a run of twice the length, less those of one."""
        counts: list[int] = []
        for steps in (40, 80):
            run = self.make(steps)
            run()
            counts.append(count_calls(run))
        return (counts[1] - counts[0]) / 40


def count_calls(run: Run) -> int:
    """Return the number of calls of Python and C functions."""
    calls = 0

    def profile(frame: object, event: str, argument: object) -> None:
        del frame, argument
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def measure(rows: Mapping[str, Row], steps: int) -> None:
    """Set each row's best time of some rounds, in which they take turns."""
    runs = {name: row.make(steps) for name, row in rows.items()}
    again = max(1, ROUND // steps)
    for run in runs.values():
        run()
    for _ in range(ROUNDS):
        for name, run in runs.items():
            began = time.process_time()
            for _ in range(again):
                run()
            rows[name].best = min(rows[name].best, (time.process_time() - began) / (again * steps) * 1e6)


def growth_of(make: Callable[[int], Run]) -> float:
    """Return the time of the longest run beside that of as many steps in short runs; both take turns."""
    times: dict[int, list[float]] = {LONGEST: [], STEPS: []}
    for _ in range(5):
        for steps, found in times.items():
            run = make(steps)
            began = time.process_time()
            for _ in range(LONGEST // steps):
                run()
            found.append(time.process_time() - began)
    return min(times[LONGEST]) / min(times[STEPS])


def peer_rows(names: str) -> dict[str, Row]:
    """Return the rows of the libraries that are installed."""
    rows: dict[str, Row] = {}
    for name in filter(None, names.split(",")):
        if find_spec(name.replace("-", "_")) is None:
            print(f"{name} is not installed")
        else:
            rows |= {label: Row(make) for label, make in PEERS[name].items()}
    return rows


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--peers", default="")
    given = parser.parse_args()
    # Before other libraries fill the memory that the garbage collector looks through.
    growth = growth_of(run_sync)
    with asyncio.Runner() as runner:

        def on_loop(make: AsyncRun) -> Callable[[int], Run]:
            def make_run(steps: int) -> Run:
                start = make(steps)
                return lambda: runner.run(start())

            return make_run

        rows = {name: Row(make) for name, make in ROWS.items()}
        rows |= {name: Row(on_loop(make)) for name, make in ASYNC_ROWS.items()}
        rows |= peer_rows(given.peers)
        measure(rows, STEPS)
        print(f"{'':<36}{'µs':>9}{'ratio':>9}{'calls':>9}")
        for name, row in rows.items():
            calls = "" if name in (DEADLINE, BLOCKING) else f"{row.calls():.0f}"
            print(f"{name:<36}{row.best:>9.1f}{row.best / rows[BARE].best:>9.1f}{calls:>9}")
        several = {name: Row(rows[name].make) for name in (BARE, SAME, SYNC, DEADLINE, BLOCKING)}
        measure(several, LONG)
    bare, same, sync, deadline, blocking = (row.best for row in several.values())
    goals = [
        (f"{SYNC} : {BARE}, {LONG:,} steps", sync / bare, 36),
        (f"{SYNC} : {SAME}, {LONG:,} steps", sync / same, 36),
        # Each call has a thread of its own, beside which a model takes a thousand times as long.
        (f"{DEADLINE} : without", deadline / sync, 20),
        (f"{BLOCKING} : sync", blocking / sync, 20),
        (f"a step of {LONGEST:,} : one of {STEPS}", growth, 1.15),
    ]
    for text, ratio, most in goals:
        print(f"{text}: {ratio:.2f} (goal: at most {most:g}){'' if ratio <= most else ' - MISSED'}")
    return 0 if all(ratio <= most for _, ratio, most in goals) or not given.check else 1


if __name__ == "__main__":
    sys.exit(main())
