"""Snapshots: the processor time of `to_json` for runs of some steps, the first time and once the steps are known.

    python benchmarks/snapshots.py [--check]

Each step has an observation of 2,000 characters. A snapshot is read back and compared before it is handed out; steps
that were compared before are not compared again, so a store that writes a snapshot at every step compares each once.
Times are the best of several rounds, in ms. With `--check` the exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from graphexec import AgentAction, AgentStep, Snapshot
from graphexec.actions import Run, Steps
from graphexec.executor import Ready
from graphexec.messages import AssistantMessage, ToolCall

COUNTS: Final = (0, 10, 100, 400, 800)
ROUNDS = 7
# The goal: what 800 steps take, to what 400 take.
GROWTH = 2.5
# The goal: the first snapshot, to a later one of the same run.
FIRST = 6.0


def snapshot(count: int) -> Snapshot:
    """Return a run of so many steps, which no snapshot has stored."""
    steps: list[AgentStep] = []
    for number in range(count):
        call = ToolCall(f"c{number}", "look_up", '{"name": "x"}')
        message = AssistantMessage("", (call,))
        action = AgentAction("look_up", {"name": "x" * 20, "number": number}, "", call.id, message)
        steps.append(AgentStep(action, "o" * 2_000))
    return Snapshot("plan", Ready(Run({"input": "?"}, Steps(steps))))


def milliseconds(taken: Snapshot) -> float:
    """Return the processor time of `to_json`."""
    begin = time.process_time()
    taken.to_json()
    return (time.process_time() - begin) * 1_000


def main() -> bool:
    """Print the times; return whether they meet the goals."""
    snapshot(1).to_json()
    later: dict[int, float] = {}
    met = True
    for count in COUNTS:
        first = min(milliseconds(snapshot(count)) for _ in range(ROUNDS))
        known = snapshot(count)
        known.to_json()
        later[count] = min(milliseconds(known) for _ in range(ROUNDS))
        met &= count < COUNTS[-2] or first <= FIRST * later[count]
        print(f"{count:4} steps: first {first:7.3f} ms, later {later[count]:7.3f} ms")
    return met and later[COUNTS[-1]] <= GROWTH * later[COUNTS[-2]]


if __name__ == "__main__":
    met = main()
    sys.exit(0 if met or "--check" not in sys.argv else 1)
