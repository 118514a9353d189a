"""Mistakes in counting: what is spent, when, and what a spent limit stops."""

from __future__ import annotations

from tests.defects.defect import Change, Defect
from tests.defects.promises import SEMANTICS, TOGETHER

COUNTING = (
    # The gate stands behind the node.
    Defect(
        "check after instead of before the call",
        SEMANTICS,
        Change(
            "engine.py",
            """\
                if step.metered:
                    exhausted = self._enter(step)
""",
            "",
        ),
        Change(
            "engine.py",
            """\
            if exhausted is not None:
                assert step.when_spent""",
            """\
            if step.metered and exhausted is None:
                exhausted = self._enter(step)
            if exhausted is not None:
                assert step.when_spent""",
        ),
    ),
    # One more than is allowed.
    Defect(
        "<= for <",
        SEMANTICS,
        Change("engine.py", "self._iterations >= limits.iterations:", "self._iterations > limits.iterations:"),
    ),
    # A call is counted when it has worked.
    Defect(
        "counting successes not attempts",
        SEMANTICS,
        Change(
            "engine.py",
            """\
        self._tool_calls += tools
""",
            "",
        ),
        Change(
            "engine.py",
            """\
                if member.budget == "model_calls":
                    self._measure(member, reply)
""",
            """\
                if member.budget == "model_calls":
                    self._measure(member, reply)
                elif member.budget == "tool_calls" and reply.status == "ok":
                    self._tool_calls += 1
""",
        ),
    ),
    # The agent may try again for nothing.
    Defect(
        "parse errors not counted",
        SEMANTICS,
        Change(
            "engine.py",
            "        if step.iterates and limits.iterations is not None and",
            """\
        run = getattr(self._value, "run", None)
        if run is not None and run.steps and run.steps[-1].status == "parse_error":
            # The agent may try again.
            return None
        if step.iterates and limits.iterations is not None and""",
        ),
    ),
    # What was not called is given back.
    Defect(
        "unknown tools not counted",
        SEMANTICS,
        Change(
            "engine.py",
            """\
                if member.budget == "model_calls":
                    self._measure(member, reply)
""",
            """\
                if member.budget == "model_calls":
                    self._measure(member, reply)
                elif member.budget == "tool_calls" and reply.status == "unknown_tool":
                    # Nothing was called.
                    self._tool_calls -= 1
""",
        ),
    ),
    # Nothing is called and nothing is told: the next plan is the last one again.
    Defect(
        "empty action list loops",
        SEMANTICS,
        Change(
            "machine.py",
            """\
    if not decision:
        raise ParseError("the agent returned an empty list of actions", observation="Decide on an action, or finish.")
""",
            "",
        ),
    ),
    # It is seen that the limit is spent, and then it is asked all the same.
    Defect(
        "lost return after the limit",
        SEMANTICS,
        Change(
            "engine.py",
            """\
                    if exhausted is not None:
                        return exhausted
""",
            "",
        ),
    ),
    # An entry that is not allowed is charged all the same.
    Defect(
        "the stop path charged",
        SEMANTICS,
        Change(
            "engine.py",
            "        if step.iterates and limits.iterations is not None and self._iterations >= limits.iterations:",
            """\
        self._iterations += step.iterates
        if step.iterates and limits.iterations is not None and self._iterations > limits.iterations:""",
        ),
        Change(
            "engine.py",
            """\
        self._iterations += step.iterates
        for name in step.meters:
            self._own""",
            """\
        for name in step.meters:
            self._own""",
        ),
    ),
    # 0 is no limit.
    Defect(
        "limit None/0 confused",
        SEMANTICS,
        Change(
            "engine.py",
            "if step.iterates and limits.iterations is not None and",
            "if step.iterates and limits.iterations and",
        ),
    ),
    # A batch is begun as long as one more call is allowed.
    Defect(
        "fan-out overshoot",
        TOGETHER,
        Change("engine.py", "self._tool_calls + tools > limit:", "self._tool_calls >= limit:"),
    ),
)
