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
            "engine.py",
            """\
        limits = self._limits
        if limits.seconds is not None and self.seconds >= limits.seconds + step.grace:
            return Exhausted("seconds", limits.seconds, self.seconds)
        if self._over is not None:
            return self._over
        members =""",
            """\
        limits = self._limits
        if self._over is not None:
            return self._over
        members =""",
        ),
        Change("drive.py", "return None if deadline is None else deadline - now", "return None"),
    ),
    # Whoever was cancelled is waited for, however long.
    Defect(
        "a call that ignores cancellation",
        CUT,
        Change("awaiting.py", "await asyncio.wait(tasks, timeout=GRACE)", "await asyncio.wait(tasks)"),
    ),
    # Whoever sets the clock shortens a run, or prolongs it.
    Defect(
        "wall clock for monotonic",
        WALL_CLOCK,
        Change(
            "drive.py",
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
            "drive.py",
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
        Change("drive.py", "from graphexec.limits import Limits", "from graphexec.limits import Limits, Spent"),
        Change(
            "drive.py",
            "        self._path = self._walk.path(watched=watched)",
            """\
        if isinstance(value, Snapshot):
            spent = Spent(seconds=value.spent.seconds)
            resumed = Snapshot(value.node, value.value, value.replies, spent, value.entered)
            self._walk = Walk(graph, resumed, world.limits, world.ranks)
        self._path = self._walk.path(watched=watched)""",
        ),
    ),
    # What was spent before the pause is forgotten.
    Defect(
        "resume restarts the clock",
        PAUSED_CLOCK,
        Change("drive.py", "self._began = world.clock() - self._walk.seconds", "self._began = world.clock()"),
    ),
    # The replies that a node has had are forgotten.
    Defect(
        "resume repeats a finished tool call",
        RESUMED,
        Change("engine.py", "self._replies = list(snapshot.replies)", "self._replies: list[object] = []"),
    ),
)
