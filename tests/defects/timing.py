"""Mistakes with time and with pauses."""

from __future__ import annotations

from tests.defects.defect import Change, Defect
from tests.defects.promises import CUT, PAUSED_CLOCK, RESUMED, WALL_CLOCK

TIMING = (
    # At the gates alone, and the drivers cut nothing.
    Defect(
        "time looked at only between nodes",
        CUT,
        Change(
            "kernel/execution.py",
            """\
        limits, counts = self._limits, self._counts
        if limits.seconds is not None and self.seconds >= limits.seconds + step.grace:
            return Exhausted("seconds", limits.seconds, self.seconds)
""",
            """\
        limits, counts = self._limits, self._counts
""",
        ),
        Change(
            "runtime/runner.py",
            "left = None if limit is None else limit + execution.grace - asked_at",
            "left = None",
        ),
    ),
    # Whoever was cancelled is waited for, however long.
    Defect(
        "a call that ignores cancellation",
        CUT,
        Change("runtime/tasks.py", "await asyncio.wait(tasks, timeout=GRACE)", "await asyncio.wait(tasks)"),
    ),
    # Whoever sets the clock shortens a run, or prolongs it.
    Defect(
        "wall clock for monotonic",
        WALL_CLOCK,
        Change(
            "runtime/runner.py",
            """\
    at_once: int = AT_ONCE
    clock: Callable[[], float] = time.monotonic
""",
            """\
    at_once: int = AT_ONCE
    clock: Callable[[], float] = time.time
""",
        ),
        Change(
            "runtime/runner.py",
            """\
    at_once: int = AT_ONCE,
    clock: Callable[[], float] = time.monotonic,
""",
            """\
    at_once: int = AT_ONCE,
    clock: Callable[[], float] = time.time,
""",
        ),
    ),
    # The clock goes on, and the counters begin again.
    Defect(
        "resume refills budgets",
        RESUMED,
        Change(
            "runtime/runner.py",
            "from graphexec.kernel.meters import Limits",
            "from graphexec.kernel.meters import Limits, Spent",
        ),
        Change(
            "runtime/runner.py",
            "    execution = Execution(graph, start, run_context.limits, run_context.ranks)",
            """\
    if isinstance(value, Snapshot):
        spent = Spent(seconds=value.spent.seconds)
        start = Snapshot(value.node, value.value, value.replies, spent, value.entered)
    execution = Execution(graph, start, run_context.limits, run_context.ranks)""",
        ),
    ),
    # What was spent before the pause is forgotten.
    Defect(
        "resume restarts the clock",
        PAUSED_CLOCK,
        Change("runtime/runner.py", "began = clock() - execution.seconds", "began = clock()"),
    ),
    # The replies that a node has had are forgotten.
    Defect(
        "resume repeats a finished tool call",
        RESUMED,
        Change("kernel/execution.py", "self._replies = list(snapshot.replies)", "self._replies: list[object] = []"),
    ),
)
