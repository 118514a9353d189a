"""The engine charges everything before it happens; a limit takes an edge of the table."""

import math
from typing import Any

import graphexec as gx
from graphexec.effects import CallTool, ToolResult, agent_limits, reported_tokens
from graphexec.errors import LimitsError
from graphexec.messages import Usage
from graphexec.runtime.handlers import RunContext
from graphexec.runtime.runner import run
from tests.drivers import make_run_context, options_of
from tests.executor.actors import snapshot_after
from tests.kernel import machines as m
from tests.parameters import cases


@cases(
    ("machine", "value", "context", "outcome", "iterations"),
    *(
        (
            m.CLOCK,
            m.Tick(),
            m.limited(iterations=limit),
            m.Stopped(m.Tick(limit), gx.Exhausted("iterations", limit, limit)),
            limit,
        )
        for limit in (0, 1, 2, 7)
    ),
    (m.CLOCK, m.Tick(), m.without_handlers(), m.Stopped(m.Tick(15), gx.Exhausted("iterations", 15, 15)), 15),
    # The last allowed entry is counted.
    (m.SELF_LOOP, m.Left(3), m.limited(iterations=3), m.Landed(), 3),
    (m.SELF_LOOP, m.Left(4), m.limited(iterations=3), m.Stopped(m.Left(1), gx.Exhausted("iterations", 3, 3)), 3),
    (m.SELF_LOOP, m.Left(1), m.limited(iterations=1), m.Landed(), 1),
    # Without a limit, a meter only counts; without a meter, a node costs nothing.
    (m.SELF_LOOP, m.Left(100), m.limited(), m.Landed(), 100),
    (m.SURVEY, m.Topics(("a",)), m.surveyors(gx.Limits(iterations=0)), m.Survey((ToolResult("a"),)), 0),
    # The seconds are checked before the iterations.
    (m.CLOCK, m.Tick(), m.limited(iterations=0, seconds=0), m.Stopped(m.Tick(), gx.Exhausted("seconds", 0, 0)), 0),
)
def test_limit_bounds_the_entries_of_a_metered_node(
    machine: Any, value: object, context: RunContext, outcome: object, iterations: int
) -> None:
    result = m.run_machine(machine, value, context)
    assert (result.outcome, result.spent.iterations) == (outcome, iterations)


def test_defaults_of_limits_and_counts() -> None:
    assert gx.Limits().iterations == make_run_context({}).limits.iterations == 15
    assert agent_limits(iterations=0, seconds=0, model_calls=0, tool_calls=0, tokens=0) != gx.Limits(iterations=None)
    assert gx.Limits(seconds=0.5).seconds == 0.5
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)
    assert reported_tokens(gx.Spent(meters={"prompt_tokens": 3, "completion_tokens": 4, "tokens": 7})) == 7

    class Look(gx.Effect[str]):
        pass

    assert (dict(Look.charges), Look.measures) == ({}, ())


@gx.node(when_spent=m.Stopped, meters=[gx.ITERATIONS])
def call(left: m.Left) -> gx.Asks[CallTool, m.Landed]:
    yield from gx.ask(CallTool("search", "tea"))
    return m.Landed()


def test_failed_or_stopped_node_has_paid() -> None:
    result = m.run_machine(m.machine_of(call), m.Left(1), m.surveyors(agent_limits(tool_calls=0)))
    assert result.outcome == m.Stopped(m.Left(1), gx.Exhausted("tool_calls", 0, 0))
    assert (result.spent.iterations, result.spent["tool_calls"]) == (1, 0)
    assert isinstance(m.run_machine(m.SURVEY, m.Topics(("a",)), m.surveyors(agent_limits(tokens=0))).outcome, m.Survey)

    def failing(call: CallTool) -> ToolResult:
        raise OSError("the line is dead")

    context = make_run_context({CallTool: failing})
    snapshot = snapshot_after(
        OSError, lambda: run(m.SURVEY, m.Topics(("a", "b")), **options_of(context)), "the line is dead"
    )
    assert snapshot.spent["tool_calls"] == 2


@cases(("limit", "calls"), (0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (5, 4))
def test_batch_does_not_exceed_the_model_calls(limit: int, calls: int) -> None:
    result = m.run_machine(m.BRAINSTORM, m.Prompt(), m.model_of(Usage(2, 3), agent_limits(model_calls=limit)))
    assert result.outcome == m.Stopped(m.Prompt(calls), gx.Exhausted("model_calls", limit, calls))
    assert result.outcome.limit.wanted == 2
    assert (result.spent["model_calls"], result.spent["prompt_tokens"]) == (calls, 2 * calls)
    assert reported_tokens(result.spent) == 5 * calls


NAMES = ["iterations", "seconds", "model_calls", "tool_calls", "tokens", "cost", "fan_out", "restarts"]


@cases("name", *NAMES)
@cases(
    ("value", "text"),
    (-1, "is -1; give 0 or more, or None for no limit"),
    *((value, "None for no limit") for value in (math.inf, math.nan, "3", True)),
)
def test_invalid_limit_is_refused(name: str, value: Any, text: str) -> None:
    message = m.error_message(LimitsError, lambda: agent_limits(**{name: value}))
    assert message.startswith(f"the limit {name} is ")
    assert message.endswith(text)


OR_NONE = "or None for no limit"
AFTERWARDS = "a cost is known only after a call; give an amount above 0, or model_calls=0"


@cases(
    ("limits", "text"),
    ({"iterations": 1.5}, f"the limit iterations is 1.5; give a whole number, {OR_NONE}"),
    ({"seconds": "1"}, f"the limit seconds is '1'; give a number of seconds, {OR_NONE}"),
    *(({"cost": one}, f"the limit cost is {one!r}; give an amount of money, {OR_NONE}") for one in ("much", True)),
    ({"cost": math.inf}, "the limit cost is infinite; give None for no limit"),
    ({"cost": math.nan}, f"the limit cost is nan; give 0 or more, {OR_NONE}"),
    *(({"cost": one}, f"the limit cost is 0, but {AFTERWARDS}") for one in (0, 0.0)),
    (
        {"iterations": -1, "tokens": True},
        "the limit iterations is -1; give 0 or more, or None for no limit; "
        "the limit tokens is True; give a whole number, or None for no limit",
    ),
)
def test_invalid_limits_are_reported_precisely(limits: dict[str, Any], text: str) -> None:
    assert m.error_message(LimitsError, lambda: agent_limits(**limits)) == text
