"""Defects with time and pauses."""

from tests.defects.defect import COUNTERS, EXECUTION, Change, Defect
from tests.defects.promises import CUT, PAUSED_CLOCK, RESUMED, WALL_CLOCK

TIMING = (
    # Time is checked at gates only, and the driver cuts off no single call.
    Defect(
        "time checked only between nodes",
        CUT,
        Change(COUNTERS, "self.timed and (late := self._out_of_time(step.grace))", "(late := None)"),
        Change("runtime/loop.py", "deadline = execution.deadline", "deadline = None"),
    ),
    # The driver waits for a cancelled task without a limit.
    Defect(
        "a call that ignores cancellation",
        CUT,
        Change("runtime/tasks.py", "await asyncio.wait(tasks, timeout=GRACE)", "await asyncio.wait(tasks)"),
    ),
    # Setting the system clock shortens or prolongs a run.
    Defect(
        "wall clock for monotonic",
        WALL_CLOCK,
        Change("runtime/handlers.py", "= time.monotonic", "= time.time"),
        Change("runtime/runner.py", "= time.monotonic", "= time.time"),
    ),
    # The clock continues, but the counters restart.
    Defect(
        "resume resets budgets",
        RESUMED,
        Change(
            "runtime/loop.py",
            "else begin(graph, value)",
            "else begin(graph, value)\n        if isinstance(value, Snapshot):\n            import dataclasses\n"
            "            start = dataclasses.replace(start, spent=type(start.spent)(seconds=start.spent.seconds))",
        ),
    ),
    # The seconds before the pause are lost.
    Defect(
        "resume restarts the clock",
        PAUSED_CLOCK,
        Change("runtime/calls.py", "self.began = self.clock() - execution.seconds", "self.began = self.clock()"),
    ),
    # The node's earlier replies are lost.
    Defect(
        "resume repeats a finished tool call",
        RESUMED,
        Change(EXECUTION, "self._replies = list(snapshot.replies)", "self._replies: list[object] = []"),
    ),
)
