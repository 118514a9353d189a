"""Executors as effects: their runs are nested in one call, at once, with their bounds reserved."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import effects, kernel, models, testing, verify
from graphexec.errors import CertificateError, InputError, ModelError, ServerError
from graphexec.executor import Acted, limit_reached
from graphexec.executor.as_tool import NestedGraph
from graphexec.executor.plugging.piece import Piece
from tests.executor.actors import HOW, Caller, Running, act, answer, caller_of, echo, scripted, snapshot_after
from tests.parameters import cases, examples


def map_piece(child: NestedGraph, most: int = 3) -> Piece:
    """Return a piece that answers a turn's actions: each is a run of the child, all of them at once."""

    @gx.charged(when_spent=limit_reached, asks=(0, most))
    @gx.node
    def fan(acted: Acted) -> gx.Asks[effects.RunGraph, Acted | gx.AgentFinish]:
        if not all(action.tool.startswith("task") for action in acted.actions):
            return acted
        results = yield from gx.ask_all([child.effect({"input": action.tool}) for action in acted.actions])
        return gx.AgentFinish({"output": [[one.output, one.reason, one.error] for one in results]}, run=acted.run)

    return Piece("fan", (dataclasses.replace(fan, effects=(child.effect,)),), handlers={child.effect: child.handler})


def make_outer(child: gx.AgentExecutor, count: int = 3, **options: Any) -> gx.AgentExecutor:
    agent = scripted([act(f"task {number}") for number in range(count)])
    return gx.AgentExecutor(agent=agent, tools=[], **options).plug(map_piece(child.as_effect("Research")))


def proved(executor: gx.AgentExecutor) -> dict[str, str]:
    """Return the bounds of an executor, whose certificate is checked, also when it is read again."""
    certificate = executor.verify().certificate
    assert certificate is not None
    again = verify.Certificate.from_json(certificate.to_json())
    assert again == certificate
    verify.check(again, executor.graph)
    return {name: str(bound) for name, bound in certificate.bounds.meters.items()}


# ---- runs


@HOW
def test_runs_of_a_batch_are_counted(run: Running) -> None:
    model = Caller(answers_after=2)
    result = run(make_outer(caller_of(model, echo, max_iterations=4)))
    assert [reason for _, reason, _ in result.output] == ["finished"] * 3
    assert (result.spent["model_calls"], model.calls, result.spent["nested_runs"]) == (1 + 9, 9, 3)
    *_, last = kernel.replay(result.journal)
    assert isinstance(last, gx.Done)
    assert last.spent == result.spent


def overloaded(steps: Any, inputs: dict[str, Any]) -> Any:
    if inputs["input"] == "task 1":
        raise ServerError("overloaded")
    return answer(inputs["input"])


FAILED = ["ServerError: overloaded", "failed", "graphexec.errors.ServerError"]
STOPPED = ["Agent stopped due to iteration limit or time limit.", "iterations", None]


@HOW
@cases(
    ("make", "count", "output", "calls"),
    [
        (
            lambda: gx.AgentExecutor(agent=overloaded, tools=[]),
            3,
            [["task 0", "finished", None], FAILED, ["task 2", "finished", None]],
            3,
        ),
        (lambda: caller_of(Caller(), echo, max_iterations=2), 1, [STOPPED], 2),
    ],
)
def test_ending_of_each_run_is_known(run: Running, make: Any, count: int, output: list[Any], calls: int) -> None:
    result = run(make_outer(make(), count))
    assert (result.output, result.spent["model_calls"]) == (output, 1 + calls)


def test_deadline_cuts_the_runs() -> None:
    @gx.tool
    async def wait(text: str) -> str:
        """Wait for an hour, once."""
        await asyncio.sleep(3600)
        return text

    clock = testing.VirtualClock()
    model = Caller()
    child = testing.on_loop_time(caller_of(model, wait), clock)
    result = clock.run(testing.on_loop_time(make_outer(child, max_execution_time=5), clock).arun("q"))
    assert {reason for _, reason, _ in result.output} == {"seconds"}
    assert (clock.seconds, model.calls, result.spent["model_calls"]) == (5, 3, 4)


def test_access_of_the_runs_is_checked_first() -> None:
    class Locked(models.ScriptedModel):
        def check_access(self) -> None:
            raise ModelError("locked")

    outer = make_outer(caller_of(Locked(["done"]), echo))
    with pytest.raises(ModelError, match="locked"):
        outer.check_access()


# ---- limits


@HOW
@pytest.mark.parametrize(("limit", "calls"), [(12, 0), (13, 12)])
def test_all_runs_are_reserved_or_none_starts(run: Running, limit: int, calls: int) -> None:
    """Three runs of up to four calls need twelve beside the one that is spent."""
    model = Caller()
    result = run(make_outer(caller_of(model, echo, max_iterations=4), max_model_calls=limit))
    assert model.calls == calls
    assert result.reason == ("finished" if calls else "model_calls")
    assert result.spent["model_calls"] == 1 + calls
    assert result.spent["nested_runs"] == (3 if calls else 0)


@HOW
def test_limits_of_outer_runs_are_reserved(run: Running) -> None:
    model = Caller()
    middle = make_outer(caller_of(model, echo, max_iterations=4)).as_tool("ask", "Ask.")
    outer = gx.AgentExecutor(agent=scripted(act("ask", input="?"), answer()), tools=[middle], max_model_calls=13)
    result = run(outer)
    assert model.calls == 0
    assert result.steps[0].observation == "Agent stopped due to model call limit."
    assert result.spent["model_calls"] == 3


@HOW
def test_tokens_are_shared_and_not_reserved(run: Running) -> None:
    model = Caller()
    result = run(make_outer(caller_of(model, echo, max_iterations=4), max_tokens=7))
    assert "tokens" in {reason for _, reason, _ in result.output}
    assert (result.spent["tokens"], model.calls) == (7, 6)


# ---- proofs


def test_bounds_include_the_runs() -> None:
    child = caller_of(Caller(), echo, max_iterations=4, max_fan_out=2)
    assert proved(make_outer(child, max_iterations=5)) == {
        "model_calls": "13*iterations = 65 (at most)",
        "tool_calls": "fan_out*iterations + 24*iterations = 5,120 (at most)",
    }
    assert proved(make_outer(child, max_model_calls=30))["model_calls"] == "model_calls = 30 (at most)"
    assumptions = make_outer(child).verify().assumptions
    assert any("tools made by as_tool and of RunGraph effects, but not other nested runs" in one for one in assumptions)


def test_limit_is_a_cause_of_leaving_the_node() -> None:
    certificate = make_outer(caller_of(Caller(), echo)).verify().certificate
    assert certificate is not None
    (within,) = [one for one in certificate.flow.transitions if one.source == "fan" and one.kind == "within"]
    assert {"model_calls", "tool_calls"} <= {*within.causes}
    assert dict(within.reserves)["model_calls"] == 15
    forged = dataclasses.replace(certificate.flow.transitions[0], reserves=(("model_calls", 1),))
    flow = dataclasses.replace(certificate.flow, transitions=(forged, *certificate.flow.transitions[1:]))
    with pytest.raises(CertificateError):
        verify.check(dataclasses.replace(certificate, flow=flow), make_outer(caller_of(Caller(), echo)).graph)


def test_executor_without_a_bound_is_refused() -> None:
    for limit, errors in (("max_iterations", gx.UnprovedError), ("max_fan_out", (gx.UnprovedError, InputError))):
        options: dict[str, Any] = {limit: None, "allow_nonterminating": True}
        with pytest.raises(errors):
            caller_of(Caller(), echo, **options).as_effect("Research")
    with pytest.raises(InputError, match="as_effect has name="):
        caller_of(Caller(), echo).as_effect("")


@pytest.mark.medium
def test_every_run_of_the_machine_ends() -> None:
    testing.verify_termination(make_outer(caller_of(Caller(), echo, max_iterations=2), max_model_calls=9), examples=10)


# ---- snapshots


class Killed(BaseException):
    """The process is killed."""


def store(snapshot: gx.Snapshot, outer: gx.AgentExecutor) -> gx.Snapshot:
    """Return the snapshot of a restarted run as it is read again."""
    return gx.Snapshot.from_json(snapshot.restarted().to_json(), outer.graph)


def make_killed(number: int, *, count: int = 3, **options: Any) -> tuple[gx.AgentExecutor, list[str]]:
    """Return an executor that is killed at a call of its runs, and the names of the calls that these answered."""
    answered: list[str] = []
    asked = itertools.count(1)

    def decide(steps: Any, inputs: dict[str, Any]) -> Any:
        if next(asked) == number:
            raise Killed
        answered.append(f"{inputs['input']}, step {len(steps)}")
        return answer(inputs["input"]) if len(steps) == 2 else act("echo", text="a")

    return make_outer(gx.AgentExecutor(agent=decide, tools=[echo], max_iterations=4), count, **options), answered


TASKS = ["task 0", "task 1", "task 2"]
CALLS = [f"{task}, step {step}" for task in TASKS for step in range(3)]


@HOW
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("number", [*range(1, 10)])
def test_killed_runs_are_resumed_where_they_were(run: Running, number: int, stored: bool) -> None:
    outer, answered = make_killed(number, tool_concurrency=1)
    snapshot = snapshot_after(Killed, lambda: run(outer))
    snapshot = store(snapshot, outer) if stored else snapshot.restarted()
    if stored:
        assert gx.Snapshot.from_json(snapshot.to_json(), outer.graph).to_json() == snapshot.to_json()
    result = run(outer, snapshot)
    assert [output for output, _, _ in result.output] == TASKS
    assert sorted(answered) == CALLS
    # The call that was in flight is charged again.
    assert (result.spent["model_calls"], result.spent["tool_calls"]) == (1 + 9 + 1, 6)


@HOW
@pytest.mark.parametrize("number", [3, 5, 8])
def test_only_calls_in_flight_are_repeated(run: Running, number: int) -> None:
    """All three runs are at work when the process is killed, each in one call at most."""
    outer, answered = make_killed(number)
    result = run(outer, store(snapshot_after(Killed, lambda: run(outer)), outer))
    assert [output for output, _, _ in result.output] == TASKS
    assert set(answered) == {*CALLS}
    assert len(answered) <= 9 + 2
    assert result.spent["model_calls"] >= 1 + len(answered) + 1


@HOW
def test_only_run_of_a_request_is_resumed(run: Running) -> None:
    """A request with one call keeps its run, too, also when the process is killed before the stored run goes on."""
    outer, answered = make_killed(2, count=1)
    snapshot = snapshot_after(Killed, lambda: run(outer))
    result = run(outer, store(store(snapshot, outer), outer))
    assert [output for output, _, _ in result.output] == ["task 0"]
    assert answered == CALLS[:3]
    assert (result.spent["model_calls"], result.spent.restarts) == (1 + 3 + 1, 2)


def test_effect_of_an_executor_is_copied_as_data() -> None:
    child = make_outer(caller_of(Caller(answers_after=2), echo)).as_effect("Research")
    effect = child.effect({"input": "a"})
    assert pickle.loads(pickle.dumps(effect)) == effects.RunGraph({"input": "a"})


@HOW
def test_resumed_runs_reserve_what_they_have_left(run: Running) -> None:
    """Nothing else is left: 1 + 3 x 4 calls, of which the first run has spent one."""
    outer, _ = make_killed(2, tool_concurrency=1, max_model_calls=13)
    result = run(outer, snapshot_after(Killed, lambda: run(outer)).retried())
    assert (result.reason, result.spent["model_calls"]) == ("finished", 1 + 9 + 1)


# ---- in general


def check_counts(data: st.DataObject) -> None:
    """Check that random runs count what they ask, within the proved bound."""
    small = st.integers(1, 3)
    asked = itertools.count()
    failing = data.draw(st.sets(st.integers(0, 12)), label="failing calls")

    def decide(steps: Any, inputs: dict[str, Any]) -> Any:
        if next(asked) + 1 in failing:
            raise ServerError("down")
        return answer() if data_after <= len(steps) else act("echo", text="a")

    data_after = data.draw(st.integers(0, 3), label="answers after")
    options = {
        name: data.draw(st.none() | st.integers(0, 14), label=name) for name in ("max_model_calls", "max_tool_calls")
    }
    child = gx.AgentExecutor(agent=decide, tools=[echo], max_iterations=data.draw(small, label="child's iterations"))
    count = data.draw(small, label="runs")
    outer = make_outer(child, count, max_iterations=3, **options)
    bounds = outer.verify().bounds
    assert bounds is not None
    result = asyncio.run(outer.arun("q")) if data.draw(st.booleans(), label="async") else outer.run("q")
    assert result.spent["model_calls"] == next(asked) + (options["max_model_calls"] != 0)
    assert result.spent["model_calls"] <= (bounds.model_calls.number or 0)
    if result.reason == "finished":
        assert len(result.output) == count


@pytest.mark.medium
@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_runs_count_what_they_ask_within_the_bound(data: st.DataObject) -> None:
    check_counts(data)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_many_runs_count_what_they_ask(data: st.DataObject) -> None:
    check_counts(data)
