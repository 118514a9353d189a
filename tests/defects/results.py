"""Defects in the results of calls, runs and nodes."""

from tests.defects.defect import EXECUTION, TABLE, Change, Defect
from tests.defects.promises import APART, CUT, DECLARED, EVENTS, FINISH, LONE, TOGETHER

RESULTS = (
    # The model sees the failures only.
    Defect(
        "one failing tool loses its siblings",
        TOGETHER,
        Change(
            TABLE,
            "run = observed.run.with_steps([make_step(*pair) for pair in zip(actions, results, strict=True)])\n",
            "steps = [make_step(*pair) for pair in zip(actions, results, strict=True)]\n"
            '        failed = [step for step in steps if step.status == "error"]\n'
            "        run = observed.run.with_steps(failed or steps)\n",
        ),
    ),
    # Observations have the order in which they arrive.
    Defect(
        "observation order differs from action order",
        CUT,
        Change(EXECUTION, "states[answer.member] = self._apply(", "states[states.index(PAID)] = self._apply("),
    ),
    # The message would reach the user.
    Defect(
        "return_direct for an unknown tool",
        LONE,
        Change("tools/calling.py", '"unknown_tool")', '"unknown_tool", True)'),
    ),
    # The first of several results answers.
    Defect("return_direct with several steps", LONE, Change(TABLE, ' or policies.return_direct != "any"', "")),
    # LangChain's executor does this.
    Defect(
        "mutation of the agent's finish",
        FINISH,
        Change(
            "executor/runs.py",
            "returned = {**({} if only_outputs else name_inputs(inputs, self._keys.passed))",
            "returned: Any = result.ending.return_values\n"
            "            returned |= {**name_inputs(inputs, self._keys.passed)",
        ),
    ),
    # The shared empty start value is extended in place.
    Defect(
        "state leaking between two runs of one executor",
        APART,
        Change("actions.py", " if latest else _SharedSteps(self._shared[: self._length])", ""),
    ),
    # An undeclared outcome without an edge ends the run normally.
    Defect(
        "undeclared outcome followed",
        DECLARED,
        Change(EXECUTION, "if kind not in declared:", "if False:"),
        Change(EXECUTION, "raise UnhandledOutcomeError(step.name, outcome) from None", "next_step = None"),
    ),
    # The event comes after the effect.
    Defect(
        "events out of order",
        EVENTS,
        Change(EXECUTION, f"{24 * ' '}answer, at, seconds = yield call\n", ""),
        Change(
            EXECUTION,
            "if observed:\n                            event: Any = Asked(",
            "answer, at, seconds = yield call\n                        if observed:\n"
            "                            event: Any = Asked(",
        ),
    ),
)
