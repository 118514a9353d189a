"""The limit on cost: replies of `priced` models report it, and each model call compares it first."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
from graphexec import actions, errors, kernel, messages, models, runtime, verify
from graphexec.effects import CallModel, agent_limits
from graphexec.executor import Ready
from graphexec.runtime.handlers import RunContext
from graphexec.testing.explorer.explore import explore
from graphexec.testing.explorer.oracle import replies_of
from graphexec.testing.explorer.stepping import Asking, Stepping
from tests.drivers import ALL_DRIVERS, Driver, DriverResult, Script, make_run_context, options_of, run_script
from tests.executor.actors import echo, snapshot_after
from tests.kernel.machines import PROMPTS, Prompt, Stopped, Tick, Topics, machine_of
from tests.parameters import cases
from tests.verify.acting import proof_of

START = Ready(actions.Run({"input": "q"}))
ACT = "Thought: hm\nAction: echo\nAction Input: hi"


def context_with_costs(limits: gx.Limits, *costs: float) -> RunContext:
    """Return a context whose model calls have these costs in turn; the last cost repeats."""
    left = list(costs)

    def answer(call: CallModel) -> messages.ModelReply:
        return messages.ModelReply("so", cost=left.pop(0) if len(left) > 1 else left[0])

    return make_run_context({CallModel: answer}, limits=limits)


@cases("cost", -1.0, -math.inf, math.inf, math.nan, True, "0.5", 10**400)
def test_invalid_cost_is_refused(cost: Any) -> None:
    with pytest.raises(errors.InvalidReplyError, match=r"with cost=.*; pass a finite number, 0 or more, or None"):
        runtime.run(PROMPTS, Prompt(), **options_of(context_with_costs(agent_limits(model_calls=3, cost=0.5), cost)))


def test_cost_is_counted_and_never_decreases() -> None:
    context = context_with_costs(agent_limits(model_calls=3, cost=5), 1.0, -10.0)
    snapshot = snapshot_after(errors.InvalidReplyError, lambda: runtime.run(PROMPTS, Prompt(), **options_of(context)))
    assert (snapshot.spent["model_calls"], snapshot.spent["cost"]) == (2, 1.0)
    done = runtime.run(PROMPTS, Prompt(), **options_of(context_with_costs(agent_limits(model_calls=3, cost=0.5), 0.0)))
    assert (done.outcome.limit.limit, done.spent["cost"]) == ("model_calls", 0.0)
    result = run_script(
        lambda: Script(machine_of(poll), Topics(("tea", "milk")), context_with_costs(agent_limits(cost=1), 0.5))
    )
    assert result.outcome == Stopped(Topics(("tea", "milk")), gx.Exhausted("cost", 1, 1.0))
    assert result.spent["cost"] == 1.0


@given(costs=st.lists(st.floats(0, 5), min_size=1, max_size=6), most=st.floats(0.01, 6))
def test_call_needs_a_cost_below_the_limit(costs: list[float], most: float) -> None:
    done = runtime.run(
        PROMPTS, Prompt(), **options_of(context_with_costs(agent_limits(cost=most, model_calls=len(costs)), *costs))
    )
    spent, calls = 0.0, 0
    while calls < len(costs) and spent < most:
        spent, calls = spent + costs[calls], calls + 1
    assert (done.spent["model_calls"], done.spent["cost"]) == (calls, spent)


@kernel.node(when_spent=Stopped, asks=(0, 3))
def poll(topics: Topics) -> gx.Asks[CallModel, Tick]:
    replies = yield from gx.ask_all([CallModel(messages.CompletionRequest(name)) for name in topics.names])
    yield from gx.ask(CallModel(messages.CompletionRequest("sum up")))
    return Tick(len(replies))


def test_cost_survives_serialization() -> None:
    snapshot = gx.Snapshot("prompt", Prompt(3), spent=gx.Spent(meters={"model_calls": 3, "cost": 0.1 + 0.2}))
    again = gx.Snapshot.from_json(snapshot.to_json(), PROMPTS)
    assert (again, again.spent["cost"]) == (snapshot, 0.1 + 0.2)
    done = runtime.run(PROMPTS, again, **options_of(context_with_costs(agent_limits(cost=0.5), 0.15)))
    assert (done.spent["model_calls"], done.spent["cost"]) == (5, 0.1 + 0.2 + 0.15 + 0.15)


def executor_with_costs(*costs: float, **limits: Any) -> gx.AgentExecutor:
    """Return an executor whose model calls have these costs; without any, no call reports one."""
    replies = [messages.ModelReply(ACT, cost=cost) for cost in costs] or [messages.ModelReply(ACT)]
    model = models.ScriptedModel(replies, repeat_last=True)
    return gx.AgentExecutor(agent=gx.create_react_agent(model, [echo]), tools=[echo], **limits)


def test_cost_limit_is_proved_as_an_edge() -> None:
    verdict = PROMPTS.verify(agent_limits(cost=0.5))
    codes = {finding.code for finding in verdict.findings}
    assert (verdict.status, "GX010" in codes) == ("refuted", True)
    with pytest.raises(gx.UnprovedError) as refused:
        executor_with_costs(max_iterations=None, max_cost=0.5)
    assert {finding.code for finding in refused.value.verdict.findings} == {"GX016"}
    executor = executor_with_costs(max_iterations=2, max_cost=0.5)
    certificate = proof_of(executor)
    verify.check(certificate, executor.graph)
    assert certificate.limits["cost"] == 0.5
    (way,) = [one for one in certificate.flow.transitions if "cost" in one.causes]
    assert (way.source, way.kind) == ("plan", "within")


@cases(
    ("limits", "exhausted"),
    (gx.Limits(), set()),
    (agent_limits(cost=1), {"money"}),
    (agent_limits(cost=1, tokens=9), {"money", "tokens"}),
)
def test_explorer_tries_a_call_that_costs_everything(limits: gx.Limits, exhausted: set[str]) -> None:
    executor = executor_with_costs(0.0)
    oracle, stepping = replies_of(executor), Stepping(executor.graph, limits)
    _, waiting = stepping.start_run(START)
    assert isinstance(waiting, Asking)
    choices = stepping.choices(waiting, oracle)
    assert {choice.name.partition(", for all the ")[2] for choice in choices} - {""} == exhausted
    for choice in choices:
        if choice.name.endswith("for all the money"):
            _, then = stepping.advance(waiting, choice)
            assert not isinstance(then, Asking) or then.snapshot.spent["cost"] == 0.5


def test_explorer_finds_the_run_stopped_by_cost() -> None:
    executor = executor_with_costs(0.0)
    free = explore(executor.graph, gx.Limits(iterations=3), START, replies_of(executor))
    paid = explore(executor.graph, agent_limits(iterations=3, cost=0.5), START, replies_of(executor))
    assert paid.longest == free.longest
    # Runs that stop after one or two calls.
    assert paid.endings["StoppedResponse"] > free.endings["StoppedResponse"]


@cases("driver", *ALL_DRIVERS)
def test_cost_limit_holds_with_each_driver(driver: Driver) -> None:
    # An executor stops at its cost limit.
    result = run_with(driver, executor_with_costs(0.5, 0.25, max_cost=1.0))
    assert isinstance(result.outcome, gx.StoppedResponse)
    assert (result.outcome.reason, result.outcome.output) == (
        "Stopped after 3 steps: the limit of 1 on the cost was reached (1 spent).",
        "Agent stopped due to cost limit.",
    )
    assert (result.spent["model_calls"], result.spent["cost"], len(result.outcome.steps)) == (3, 1.0, 3)
    # An unreported cost under a limit is refused.
    with pytest.raises(
        errors.InputError, match=r"plan asked for CallModel, .* wrap the model: priced\(model, Price\(\.\.\.\)\)"
    ):
        run_with(driver, executor_with_costs(max_cost=1.0))
    assert run_with(driver, executor_with_costs(max_iterations=2)).spent["cost"] == 0.0


def run_with(driver: Driver, executor: gx.AgentExecutor) -> DriverResult[Any]:
    return driver(Script(executor.graph, START, executor.run_context))
