"""Defects in counting: amounts, their time, and the effect of a reached limit."""

from tests.defects.defect import Change, Defect
from tests.defects.promises import SEMANTICS, TOGETHER

COUNTING = (
    # The gate comes after the node.
    Defect(
        "check after instead of before the call",
        SEMANTICS,
        Change(
            "kernel/execution.py",
            """\
                if step.entry:
                    exhausted = self._enter(step)
""",
            "",
        ),
        Change(
            "kernel/execution.py",
            """\
            if exhausted is not None:
                assert step.when_spent""",
            """\
            if step.entry and exhausted is None:
                exhausted = self._enter(step)
            if exhausted is not None:
                assert step.when_spent""",
        ),
    ),
    # One more than allowed.
    Defect(
        "<= for <",
        SEMANTICS,
        Change(
            "kernel/counters.py",
            """\
            if counts[slot] + amount > limit:
                return self._refund(step.entry""",
            """\
            if counts[slot] > limit:
                return self._refund(step.entry""",
        ),
    ),
    # Only successful calls are counted.
    Defect(
        "counting successes not attempts",
        SEMANTICS,
        Change(
            "kernel/counters.py",
            """\
            self._measure(effect, answer)
        return answer
""",
            """\
            self._measure(effect, answer)
        for slot, amount, _ in self._step.tariffs[type(effect)].charges:
            self._counts[slot] -= amount * (getattr(answer, "status", "ok") != "ok")
        return answer
""",
        ),
        Change(
            "kernel/execution.py",
            """\
                        if tariff.reported or type(answer) in _EXCEPTIONAL:
""",
            """\
                        if tariff.reported or type(answer) in _EXCEPTIONAL or hasattr(answer, "status"):
""",
        ),
    ),
    # A retry after a parse error is free.
    Defect(
        "parse errors not counted",
        SEMANTICS,
        Change(
            "kernel/counters.py",
            """\
        for slot, amount, limit in step.entry:
""",
            """\
        run = getattr(self._value, "run", None)
        if run is not None and run.steps and run.steps[-1].status == "parse_error":
            # The agent may try again.
            return None
        for slot, amount, limit in step.entry:
""",
        ),
    ),
    # A call of an unknown tool is refunded.
    Defect(
        "unknown tools not counted",
        SEMANTICS,
        Change(
            "kernel/counters.py",
            """\
            self._measure(effect, answer)
        return answer
""",
            """\
            self._measure(effect, answer)
        if getattr(answer, "status", "") == "unknown_tool":
            # Nothing was called.
            self._counts[self.program.slots["tool_calls"]] -= 1
        return answer
""",
        ),
        Change(
            "kernel/execution.py",
            """\
                        if tariff.reported or type(answer) in _EXCEPTIONAL:
""",
            """\
                        if tariff.reported or type(answer) in _EXCEPTIONAL or hasattr(answer, "status"):
""",
        ),
    ),
    # An empty list of actions leads back to the same plan.
    Defect(
        "empty action list loops",
        SEMANTICS,
        Change(
            "executor/table.py",
            """\
    if not decision:
        raise ParseError("the agent returned an empty list of actions", observation="Decide on an action, or finish.")
""",
            "",
        ),
    ),
    # The limit is checked, but the effect is asked for anyway.
    Defect(
        "lost return after the limit",
        SEMANTICS,
        Change(
            "kernel/execution.py",
            """\
                    if exhausted is not None:
                        return exhausted
""",
            "",
        ),
    ),
    # A refused entry is charged anyway.
    Defect(
        "the stop path charged",
        SEMANTICS,
        Change(
            "kernel/counters.py",
            """\
            if counts[slot] + amount > limit:
                return self._refund(step.entry, slot, limit, amount)
            counts[slot] += amount
""",
            """\
            counts[slot] += amount
            if counts[slot] > limit:
                return self._refund(step.entry, slot, limit, amount)
""",
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
        Change("kernel/counters.py", "counts[slot] + total > limits[slot]:", "counts[slot] >= limits[slot]:"),
    ),
)
