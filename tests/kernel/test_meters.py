"""The engine charges everything before it happens; a limit takes an edge of the table."""

import math
from typing import Any

import pytest

import graphexec as gx
from graphexec.effects import CallTool, ToolResult, agent_limits, reported_tokens
from graphexec.errors import LimitsError
from graphexec.messages import Usage
from graphexec.runtime import make_run_context
from tests.drivers import Script, run_script
from tests.kernel.machines import (
    BRAINSTORM,
    CLOCK,
    PROMPTS,
    SELF_LOOP,
    SURVEY,
    Landed,
    Left,
    Prompt,
    Stopped,
    Survey,
    Tick,
    Topics,
    limited,
    model_of,
    surveyors,
    without_handlers,
)
from tests.parameters import cases

# ---- iterations


@cases("limit", [0, 1, 2, 7])
def test_limit_bounds_the_entries_of_a_metered_node(limit: int) -> None:
    result = run_script(lambda: Script(CLOCK, Tick(), limited(iterations=limit)))
    assert result.outcome == Stopped(Tick(limit), gx.Exhausted("iterations", limit, limit))
    assert result.spent.iterations == limit


def test_default_limit_is_fifteen_iterations() -> None:
    assert gx.Limits().iterations == make_run_context({}).limits.iterations == 15
    assert run_script(lambda: Script(CLOCK, Tick(), without_handlers())).outcome.at == Tick(15)


@cases(("needed", "limit", "ends"), [(3, 3, "Landed"), (4, 3, "Stopped"), (1, 1, "Landed")])
def test_last_allowed_entry_is_counted(needed: int, limit: int, ends: str) -> None:
    result = run_script(lambda: Script(SELF_LOOP, Left(needed), limited(iterations=limit)))
    assert type(result.outcome).__name__ == ends
    assert result.spent.iterations == limit


def test_meter_without_a_limit_only_counts() -> None:
    result = run_script(lambda: Script(SELF_LOOP, Left(100), without_handlers(gx.Limits(iterations=None))))
    assert (result.outcome, result.spent.iterations) == (Landed(), 100)


def test_node_without_a_meter_costs_nothing() -> None:
    result = run_script(lambda: Script(SURVEY, Topics(("a",)), surveyors(gx.Limits(iterations=0))))
    assert (type(result.outcome), result.spent.iterations) == (Survey, 0)


def test_stopped_node_has_paid_for_its_entry() -> None:
    @gx.metered(when_spent=Stopped)
    @gx.node
    def call(left: Left) -> gx.Asks[CallTool, Landed]:
        yield from gx.ask(CallTool("search", "tea"))
        return Landed()

    machine = gx.graph(gx.edges(call, gx.on(Landed, gx.END) | gx.on(Stopped, gx.END)), start=call)
    result = run_script(lambda: Script(machine, Left(1), surveyors(agent_limits(tool_calls=0))))
    assert result.outcome == Stopped(Left(1), gx.Exhausted("tool_calls", 0, 0))
    assert (result.spent.iterations, result.spent["tool_calls"]) == (1, 0)


# ---- calls


@cases("limit", [0, 1, 3])
def test_model_calls_are_charged_one_by_one(limit: int) -> None:
    result = run_script(lambda: Script(PROMPTS, Prompt(), model_of(Usage(), agent_limits(model_calls=limit))))
    assert result.outcome == Stopped(Prompt(limit), gx.Exhausted("model_calls", limit, limit))
    assert (result.spent["model_calls"], len(result.asked)) == (limit, limit)


@cases(("calls", "limit", "carried_out"), [(0, 0, 0), (1, 0, None), (3, 3, 3), (3, 2, None), (3, 4, 3), (1, None, 1)])
def test_batch_is_charged_completely_or_not_at_all(calls: int, limit: int | None, carried_out: int | None) -> None:
    called: list[str] = []

    def survey(call: CallTool) -> ToolResult:
        called.append(call.name)
        return ToolResult(call.name)

    def script() -> Script[Any, Any]:
        called.clear()
        topics = Topics(tuple(str(number) for number in range(calls)))
        return Script(SURVEY, topics, make_run_context({CallTool: survey}, limits=agent_limits(tool_calls=limit)))

    result = run_script(script)
    if carried_out is None:
        assert isinstance(result.outcome, Stopped)
        assert result.outcome.limit == gx.Exhausted("tool_calls", limit or 0, 0)
    else:
        assert isinstance(result.outcome, Survey)
    assert len(called) == result.spent["tool_calls"] == (carried_out or 0)


@cases(("limit", "calls"), [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (5, 4)])
def test_batch_does_not_exceed_the_model_calls(limit: int, calls: int) -> None:
    result = run_script(lambda: Script(BRAINSTORM, Prompt(), model_of(Usage(2, 3), agent_limits(model_calls=limit))))
    assert result.outcome == Stopped(Prompt(calls), gx.Exhausted("model_calls", limit, calls))
    assert (result.spent["model_calls"], result.spent["prompt_tokens"], reported_tokens(result.spent)) == (
        calls,
        2 * calls,
        5 * calls,
    )


def test_failed_call_is_charged() -> None:
    def failing(call: CallTool) -> ToolResult:
        raise OSError("the line is dead")

    from graphexec.kernel.snapshot import snapshot_of
    from graphexec.runtime.runner import run

    with pytest.raises(OSError, match="the line is dead") as caught:
        run(SURVEY, Topics(("a", "b")), make_run_context({CallTool: failing}))
    snapshot = snapshot_of(caught.value)
    assert snapshot is not None
    assert snapshot.spent["tool_calls"] == 2


# ---- tokens


@cases(
    ("limit", "usage", "calls"),
    [
        (0, Usage(1, 1), 0),
        (1, Usage(1, 1), 1),
        (2, Usage(1, 1), 1),
        (3, Usage(1, 1), 2),
        (10, Usage(3, 0), 4),
        (10, Usage(0, 3), 4),
    ],
)
def test_tokens_are_compared_before_each_model_call(limit: int, usage: Usage, calls: int) -> None:
    result = run_script(lambda: Script(PROMPTS, Prompt(), model_of(usage, agent_limits(tokens=limit))))
    reached = calls * usage.total_tokens
    assert result.outcome == Stopped(Prompt(calls), gx.Exhausted("tokens", limit, reached))
    assert (result.spent["model_calls"], reported_tokens(result.spent)) == (calls, reached)
    assert result.spent["prompt_tokens"] == calls * usage.prompt_tokens


def test_token_limit_does_not_stop_a_tool_call() -> None:
    result = run_script(lambda: Script(SURVEY, Topics(("a",)), surveyors(agent_limits(tokens=0))))
    assert isinstance(result.outcome, Survey)


# ---- the order of limits


def test_first_of_several_limits_is_reported() -> None:
    def of(**limits: Any) -> str:
        result = run_script(lambda: Script(PROMPTS, Prompt(), model_of(Usage(), agent_limits(**limits))))
        return result.outcome.limit.limit

    assert of(seconds=0, tokens=0, model_calls=0) == "seconds"
    assert of(tokens=0, model_calls=0) == "tokens"
    assert of(model_calls=0) == "model_calls"


def test_seconds_are_checked_before_iterations() -> None:
    result = run_script(lambda: Script(CLOCK, Tick(), without_handlers(gx.Limits(seconds=0, iterations=0))))
    assert result.outcome.limit == gx.Exhausted("seconds", 0, 0)


def test_effect_without_charges_is_free() -> None:
    class Look(gx.Effect[str]):
        pass

    assert (dict(Look.charges), Look.measures) == ({}, ())


# ---- limits as values


@cases(
    "name",
    ["iterations", "seconds", "model_calls", "tool_calls", "tokens", "cost", "fan_out", "restarts"],
)
@cases(
    ("value", "text"),
    [
        (-1, "is -1; give 0 or more, or None for no limit"),
        (math.inf, None),
        (math.nan, None),
        ("3", None),
        (True, None),
    ],
)
def test_invalid_limit_is_refused(name: str, value: Any, text: str | None) -> None:
    with pytest.raises(LimitsError) as caught:
        agent_limits(**{name: value})
    assert str(caught.value).startswith(f"the limit {name} is ")
    assert str(caught.value).endswith("or None for no limit") or "give None for no limit" in str(caught.value)
    if text:
        assert str(caught.value) == f"the limit {name} {text}"


def test_invalid_limits_are_reported_precisely() -> None:
    def text(**limits: Any) -> str:
        with pytest.raises(LimitsError) as caught:
            agent_limits(**limits)
        return str(caught.value)

    assert text(iterations=1.5) == "the limit iterations is 1.5; give a whole number, or None for no limit"
    assert text(seconds="1") == "the limit seconds is '1'; give a number of seconds, or None for no limit"
    assert text(seconds=math.inf) == "the limit seconds is infinite; give None for no limit"
    assert text(seconds=math.nan) == "the limit seconds is nan; give 0 or more, or None for no limit"
    assert text(iterations=-1, tokens=True) == (
        "the limit iterations is -1; give 0 or more, or None for no limit; "
        "the limit tokens is True; give a whole number, or None for no limit"
    )


def test_zero_and_none_are_valid_limits() -> None:
    assert agent_limits(iterations=0, seconds=0, model_calls=0, tool_calls=0, tokens=0) != gx.Limits(iterations=None)
    assert gx.Limits(seconds=0.5).seconds == 0.5


def test_usages_are_added() -> None:
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)


def test_tokens_include_input_and_output() -> None:
    assert reported_tokens(gx.Spent(meters={"prompt_tokens": 3, "completion_tokens": 4, "tokens": 7})) == 7
