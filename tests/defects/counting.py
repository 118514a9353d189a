"""Defects in counting: amounts, their time, and the effect of a reached limit."""

from tests.defects.defect import COUNTERS, EXECUTION, TABLE, Change, Defect
from tests.defects.promises import SEMANTICS, TOGETHER

# Replies with a status are applied, so that a defect may read it.
_APPLIED = Change(
    EXECUTION, "type(answer) in _EXCEPTIONAL:", 'type(answer) in _EXCEPTIONAL or hasattr(answer, "status"):'
)
_MEASURED = "self._measure(effect, answer)\n"
_CHARGED = "        for slot, amount, limit in step.entry:\n"

COUNTING = (
    # The gate comes after the node.
    Defect(
        "check after instead of before the call",
        SEMANTICS,
        Change(
            EXECUTION, "                if step.counts:\n                    exhausted = self._enter(step, value)\n", ""
        ),
        Change(
            EXECUTION,
            "            if exhausted is not None:\n                assert step.when_spent",
            "            if step.counts and exhausted is None:\n                exhausted = self._enter(step, value)\n"
            "            if exhausted is not None:\n                assert step.when_spent",
        ),
    ),
    # One more than allowed.
    Defect(
        "<= for <",
        SEMANTICS,
        Change(
            COUNTERS,
            "+ amount > limit:\n                return self._refund(step.entry",
            "> limit:\n                return self._refund(step.entry",
        ),
    ),
    # Only successful calls are counted.
    Defect(
        "counting successes not attempts",
        SEMANTICS,
        Change(
            COUNTERS,
            _MEASURED,
            f"{_MEASURED}        for slot, amount, _ in self._step.tariffs[type(effect)].charges:\n"
            '            self._counts[slot] -= amount * (getattr(answer, "status", "ok") != "ok")\n',
        ),
        _APPLIED,
    ),
    # A retry after a parse error is free.
    Defect(
        "parse errors not counted",
        SEMANTICS,
        Change(
            COUNTERS,
            _CHARGED,
            '        run = getattr(self._value, "run", None)\n'
            '        if run is not None and run.steps and run.steps[-1].status == "parse_error":\n'
            f"            return None\n{_CHARGED}",
        ),
    ),
    # A call of an unknown tool is refunded.
    Defect(
        "unknown tools not counted",
        SEMANTICS,
        Change(
            COUNTERS,
            _MEASURED,
            f"{_MEASURED}        if getattr(answer, 'status', '') == 'unknown_tool':\n"
            "            self._counts[self.program.slots['tool_calls']] -= 1\n",
        ),
        _APPLIED,
    ),
    # An empty list of actions leads back to the same plan.
    Defect("empty action list loops", SEMANTICS, Change(TABLE, "    if not decision:\n", "    if False:\n")),
    # The limit is checked, but the effect is asked for anyway.
    Defect(
        "lost return after the limit",
        SEMANTICS,
        Change(EXECUTION, f"{20 * ' '}if exhausted is not None:\n", f"{20 * ' '}if False:\n"),
    ),
    # A refused entry is charged anyway.
    Defect(
        "the stop path charged",
        SEMANTICS,
        Change(
            COUNTERS,
            "                return self._refund(step.entry",
            "                counts[slot] += amount\n                return self._refund(step.entry",
        ),
    ),
    # 0 is no limit.
    Defect(
        "limit None/0 confused",
        SEMANTICS,
        Change(
            "kernel/program.py",
            "math.inf if (cap := caps[budget.name]) is None else cap",
            "caps[budget.name] or math.inf",
        ),
    ),
    # A batch is begun as long as one more call is allowed.
    Defect(
        "fan-out overshoot",
        TOGETHER,
        Change(COUNTERS, "counts[slot] + total > limits[slot]:", "counts[slot] >= limits[slot]:"),
    ),
)
