"""Defects in the results of calls, runs and nodes."""

from tests.defects.defect import Change, Defect
from tests.defects.promises import APART, CUT, DECLARED, EVENTS, FINISH, LONE, TOGETHER

RESULTS = (
    # The model sees the failures only.
    Defect(
        "one failing tool loses its siblings",
        TOGETHER,
        Change(
            "executor/table.py",
            """\
        run = observed.run.with_steps([make_step(*pair) for pair in zip(actions, results, strict=True)])
""",
            """\
        steps = [make_step(*pair) for pair in zip(actions, results, strict=True)]
        failed = [step for step in steps if step.status == "error"]
        run = observed.run.with_steps(failed or steps)
""",
        ),
    ),
    # Observations have the order in which they arrive.
    Defect(
        "observation order differs from action order",
        CUT,
        Change(
            "kernel/execution.py", "states[answer.member] = self._apply(", "states[states.index(PAID)] = self._apply("
        ),
    ),
    # The message would reach the user.
    Defect(
        "return_direct for an unknown tool",
        LONE,
        Change("tools/calling.py", '"unknown_tool")', '"unknown_tool", True)'),
    ),
    # The first of several results answers.
    Defect(
        "return_direct with several steps",
        LONE,
        Change(
            "executor/table.py",
            'if not answers or policies.return_direct != "any":',
            "if not answers:",
        ),
    ),
    # LangChain's executor does this.
    Defect(
        "mutation of the agent's finish",
        FINISH,
        Change(
            "executor/runs.py",
            "        returned = {**({} if only_outputs else name_inputs(inputs, self._keys.passed)), "
            "**to_outputs(result.ending)}",
            """\
        returned: Any = result.ending.return_values
        returned.update({**name_inputs(inputs, self._keys.passed), **to_outputs(result.ending)})""",
        ),
    ),
    # The shared empty start value is extended in place.
    Defect(
        "state leaking between two runs of one executor",
        APART,
        Change(
            "actions.py",
            "shared = self._shared if latest else _SharedSteps(self._shared[: self._length])",
            "shared = self._shared",
        ),
        Change(
            "actions.py",
            """\
            latest = 0 < self._length == len(self._shared)
""",
            "",
        ),
    ),
    # An undeclared outcome without an edge ends the run normally.
    Defect(
        "undeclared outcome followed",
        DECLARED,
        Change(
            "kernel/execution.py",
            """\
                if kind not in declared:
                    raise undeclared_outcome(step, outcome, declared) from None
""",
            "",
        ),
        Change("kernel/execution.py", "raise UnhandledOutcomeError(step.name, outcome) from None", "next_step = None"),
    ),
    # The event comes after the effect.
    Defect(
        "events out of order",
        EVENTS,
        Change(
            "kernel/execution.py",
            """\
                        if observed:
                            event: Any = Asked(step.name, effect, call)
                            (yield event) if notify is None else notify(event)
                        answer, at, seconds = yield call
""",
            """\
                        answer, at, seconds = yield call
                        if observed:
                            event: Any = Asked(step.name, effect, call)
                            (yield event) if notify is None else notify(event)
""",
        ),
    ),
)
