"""The methods of AgentExecutor: their results, invalid arguments, the independence of runs, and trimmed steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import effects, errors, kernel, messages, models
from graphexec.actions import Steps
from graphexec.models import ScriptedModel
from tests.executor.actors import act, answer, call, caller_of, echo, make_executor, prompt, run_by, run_executor
from tests.parameters import cases, examples

HOW = cases("way", ["run", "arun"])


def invoke(executor: gx.AgentExecutor, inputs: Any) -> dict[str, Any]:
    """Invoke both sync and async, and check that the results are equal."""
    returned = executor.invoke(inputs)
    assert run_by("ainvoke", executor, inputs) == returned
    return returned


def test_begin_returns_the_snapshot_that_run_starts_from() -> None:
    model = models.ScriptedModel(["42"])
    executor = caller_of(model)
    start = executor.begin("q")
    pending = gx.advance(executor.graph, start, executor.limits)
    assert isinstance(pending, kernel.PendingEffect)
    assert (start.node, model.requests, type(pending.effect)) == ("plan", [], effects.CallModel)
    assert executor.run(start).output == "42"
    with pytest.raises(gx.InputError, match="the inputs lack input"):
        executor.begin({})


A, NOPE = act("echo", text="a"), act("nope")
PAIRS = [(A, "a"), (NOPE, "nope is not a valid tool, try one of [echo, fail].")]
STOPPED = "Agent stopped due to iteration limit or time limit."
STEPS, ONCE = {"return_intermediate_steps": True}, {"max_iterations": 1}


@cases(
    ("turns", "options", "inputs", "expected"),
    [
        ([answer("42")], {}, {"input": "q", "extra": [1]}, {"input": "q", "extra": [1], "output": "42"}),
        ([answer("42")], {}, "q", {"input": "q", "output": "42"}),
        # Outputs override inputs of the same name, and may have other names.
        ([gx.AgentFinish({"output": "42", "why": "so"})], {}, {"output": "mine"}, {"output": "42", "why": "so"}),
        ([gx.AgentFinish({"answer": "42"})], {}, "q", {"input": "q", "answer": "42"}),
        ([[A, NOPE], answer()], STEPS, "q", {"input": "q", "output": "done", "intermediate_steps": PAIRS}),
        ([A], STEPS | ONCE, "q", {"input": "q", "output": STOPPED, "intermediate_steps": PAIRS[:1]}),
    ],
)
def test_invoke_returns_inputs_outputs_and_steps(
    turns: list[Any], options: dict[str, Any], inputs: Any, expected: dict[str, Any]
) -> None:
    executor = make_executor(*turns, **options)
    returned = invoke(executor, inputs)
    assert returned == expected
    assert all(type(step) is tuple for step in returned.get("intermediate_steps", ()))
    assert executor.run(inputs).output == expected.get("output", "42")


@HOW
def test_result_has_ending_steps_and_usage(way: str) -> None:
    replies = [
        messages.ModelReply("", (call("echo", text="a"),), messages.Usage(10, 2)),
        messages.ModelReply("done", usage=messages.Usage(20, 3)),
    ]
    agent = gx.create_tool_calling_agent(models.ScriptedModel(replies), [echo])
    result = run_by(way, gx.AgentExecutor(agent=agent, tools=[echo]))
    assert (result.output, result.reason, result.stopped) == ("done", "finished", None)
    assert result.usage == messages.Usage(30, 5)
    assert result.usage.total_tokens == effects.reported_tokens(result.spent) == 35
    assert (result.spent.iterations, result.spent["model_calls"], result.spent["tool_calls"]) == (2, 2, 1)
    assert result.spent.seconds > 0
    assert isinstance(result.ending, gx.AgentFinish)
    assert [step.observation for step in result.steps] == ["a"]


TYPES = "pass a dict of inputs by name, or the only input as a string"
INVALID: list[tuple[Any, str]] = [(one, TYPES) for one in (None, 42, ["a"], [("role", "user")], b"bytes")]


@cases(("inputs", "message"), [*INVALID, ({"query": 1}, r"the inputs lack input; pass \{'input': \.\.\.\}")])
def test_invalid_inputs_are_refused_before_the_run(inputs: Any, message: str) -> None:
    model = models.ScriptedModel([])
    executor = caller_of(model)
    for way in ("run", "arun", "invoke", "ainvoke", "stream", "astream"):
        with pytest.raises(gx.InputError, match=message):
            run_by(way, executor, inputs)
    assert not model.requests


@HOW
def test_finish_of_the_agent_is_not_changed(way: str) -> None:
    values = {"output": "42"}
    finish = gx.AgentFinish(values, "log")
    executor = make_executor(A, finish, return_intermediate_steps=True)
    result = run_by(way, executor)
    executor.invoke("q")["output"] = "changed"
    assert values == {"output": "42"}
    assert finish == gx.AgentFinish({"output": "42"}, "log")
    assert (len(finish.steps), len(result.steps)) == (0, 1)


def test_agent_cannot_change_the_callers_inputs() -> None:
    def greedy(steps: Any, inputs: dict[str, Any]) -> Any:
        inputs |= {"input": "changed", "more": 1}
        return answer() if steps else A

    given = {"input": "q"}
    assert gx.AgentExecutor(agent=greedy, tools=[echo]).invoke(given) == {"input": "q", "output": "done"}
    assert given == {"input": "q"}


@HOW
def test_exception_of_a_model_is_raised(way: str) -> None:
    error = LookupError("of the model")
    with pytest.raises(LookupError) as raised:
        run_by(way, caller_of(models.ScriptedModel([error])))
    assert raised.value is error


@HOW
def test_agent_without_a_model_has_no_handler(way: str) -> None:
    agent = gx.create_tool_calling_agent(models.ScriptedModel([]), [])
    with pytest.raises(errors.MissingHandlerError, match="no handler answers CallModel; pass handlers="):
        run_by(way, gx.AgentExecutor(agent=gx.Agent(agent.ask, agent.read), tools=[]))


def test_a_stopped_response_of_nothing_has_no_steps() -> None:
    result = make_executor(answer(), max_iterations=0).run("q")
    assert isinstance(result.ending, gx.StoppedResponse)
    assert len(result.steps) == 0
    assert result.ending.reason == "Stopped after 0 steps: the limit of 0 iterations was reached (0 spent)."


# ---- `trim_intermediate_steps`: the steps that the agent sees

ACT = "Thought: hm\nAction: echo\nAction Input: {}"
DONE = "Thought: I know\nFinal Answer: done"


def shown_with(trim: Any, *, steps: int = 4, **settings: Any) -> list[list[str]]:
    """Return the observations that the agent sees at each turn."""
    seen: list[list[str]] = []

    def decide(shown: Steps, inputs: dict[str, Any]) -> gx.AgentAction | gx.AgentFinish:
        seen.append([str(step.observation) for step in shown])
        # The visible steps cannot be counted, as they are trimmed.
        return (
            gx.AgentFinish({"output": "done"})
            if len(seen) > steps
            else gx.AgentAction("echo", {"text": str(len(seen))})
        )

    result = gx.AgentExecutor(agent=decide, tools=[echo], trim_intermediate_steps=trim, **settings).run("q")
    assert [step.observation for step in result.steps] == [str(number) for number in range(1, steps + 1)]
    return seen


def every(steps: Steps) -> Steps:
    return steps


def first_and_last(steps: Steps) -> list[gx.AgentStep]:
    return [*steps[:1], *steps[-1:]]


def none(steps: Steps) -> tuple[gx.AgentStep, ...]:
    return ()


def as_pairs(steps: Steps) -> list[tuple[gx.AgentAction, str]]:
    """Return pairs, as functions written for LangChain do."""
    return [(step.action, "again") for step in steps[-2:]]


ALL = ["1", "2", "3", "4"]


@cases(
    ("trim", "last"),
    [
        *((trim, ALL) for trim in (-1, 0, 4, 99, every)),
        *((1, ["4"]), (3, ["2", "3", "4"])),
        *((first_and_last, ["1", "4"]), (none, []), (as_pairs, ["again", "again"])),
    ],
)
def test_agent_sees_the_selected_steps(trim: Any, last: list[str]) -> None:
    assert shown_with(trim)[-1] == last


@settings(max_examples=examples(40), deadline=None)
@given(trim=st.integers(-3, 6), steps=st.integers(0, 5))
def test_number_selects_the_last_steps(trim: int, steps: int) -> None:
    every = [str(number) for number in range(1, steps + 1)]
    kept = [every[:turn] for turn in range(steps + 1)]
    assert shown_with(trim, steps=steps) == [done[-trim:] if trim > 0 else done for done in kept]


def test_model_sees_only_the_last_step() -> None:
    models: list[ScriptedModel] = []

    def make() -> gx.AgentExecutor:
        models.append(ScriptedModel([ACT.format("one"), ACT.format("two"), DONE]))
        return gx.AgentExecutor(
            agent=gx.create_react_agent(models[-1], [echo]), tools=[echo], trim_intermediate_steps=1
        )

    result = run_executor(make)
    assert [step.observation for step in result.outcome.steps] == ["one", "two"]
    for model in models:
        last = prompt(model.requests[-1])
        assert "Observation: two" in last
        assert "Observation: one" not in last


def test_function_cannot_change_the_run() -> None:
    lengths: list[int] = []

    def last(steps: Steps) -> Sequence[gx.AgentStep]:
        assert isinstance(steps, Steps)
        lengths.append(len(steps))
        return steps[-1:]

    assert shown_with(last)[-1] == ["4"]
    assert lengths == [0, 1, 2, 3, 4]
