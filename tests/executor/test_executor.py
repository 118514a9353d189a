"""The methods of AgentExecutor: their results, invalid arguments, and the independence of runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec.effects import CallModel, reported_tokens
from graphexec.errors import InputError, MissingHandlerError
from graphexec.kernel import PendingEffect, advance
from graphexec.messages import ModelReply, Usage
from graphexec.models import ScriptedModel
from tests.executor.actors import act, answer, call, echo, run_async, run_sync, scripted
from tests.parameters import cases

HOW = cases("run", [run_sync, run_async])
Run = Callable[[gx.AgentExecutor], gx.RunResult]


def invoke(executor: gx.AgentExecutor, inputs: Any) -> dict[str, Any]:
    """Invoke both sync and async, and check that the results are equal."""
    returned = executor.invoke(inputs)
    assert asyncio.run(executor.ainvoke(inputs)) == returned
    return returned


def test_begin_returns_the_snapshot_that_run_starts_from() -> None:
    model = ScriptedModel(["42"])
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, []), tools=[])
    start = executor.begin("q")
    pending = advance(executor.graph, start, executor.limits)
    assert isinstance(pending, PendingEffect)
    assert (start.node, model.requests, type(pending.effect)) == ("plan", [], CallModel)
    assert executor.run(start).output == "42"
    with pytest.raises(InputError, match="the inputs lack input"):
        executor.begin({})


A, NOPE = act("echo", text="a"), act("nope")
INVALID = "nope is not a valid tool, try one of [echo]."
STOPPED = "Agent stopped due to iteration limit or time limit."
STEPS = {"return_intermediate_steps": True}


@cases(
    ("turns", "options", "inputs", "expected"),
    [
        ([answer("42")], {}, {"input": "q", "extra": [1]}, {"input": "q", "extra": [1], "output": "42"}),
        ([answer("42")], {}, "q", {"input": "q", "output": "42"}),
        # Outputs override inputs of the same name, and may have other names.
        ([gx.AgentFinish({"output": "42", "why": "so"})], {}, {"output": "mine"}, {"output": "42", "why": "so"}),
        ([gx.AgentFinish({"answer": "42"})], {}, "q", {"input": "q", "answer": "42"}),
        (
            [[A, NOPE], answer()],
            STEPS,
            "q",
            {"input": "q", "output": "done", "intermediate_steps": [(A, "a"), (NOPE, INVALID)]},
        ),
        (
            [A],
            STEPS | {"max_iterations": 1},
            "q",
            {"input": "q", "output": STOPPED, "intermediate_steps": [(A, "a")]},
        ),
    ],
)
def test_invoke_returns_inputs_outputs_and_steps(
    turns: list[Any], options: dict[str, Any], inputs: Any, expected: dict[str, Any]
) -> None:
    executor = gx.AgentExecutor(agent=scripted(*turns), tools=[echo], **options)
    returned = invoke(executor, inputs)
    assert returned == expected
    assert all(type(step) is tuple for step in returned.get("intermediate_steps", ()))
    assert executor.run(inputs).output == expected.get("output", "42")


def test_a_step_unpacks_as_the_pair() -> None:
    (step,) = gx.AgentExecutor(agent=scripted(A, answer()), tools=[echo]).run("q").steps
    action, observation = step
    assert (action, observation) == (A, "a")
    assert step == gx.AgentStep(A, "a", "ok")


@HOW
def test_result_has_ending_steps_and_usage(run: Run) -> None:
    replies = [ModelReply("", (call("echo", text="a"),), Usage(10, 2)), ModelReply("done", usage=Usage(20, 3))]
    agent = gx.create_tool_calling_agent(ScriptedModel(replies), [echo])
    result = run(gx.AgentExecutor(agent=agent, tools=[echo]))
    assert (result.output, result.reason, result.stopped) == ("done", "finished", None)
    assert result.usage == Usage(30, 5)
    assert result.usage.total_tokens == reported_tokens(result.spent) == 35
    assert (result.spent.iterations, result.spent["model_calls"], result.spent["tool_calls"]) == (2, 2, 1)
    assert result.spent.seconds > 0
    assert isinstance(result.ending, gx.AgentFinish)
    assert [step.observation for step in result.steps] == ["a"]


TYPES = "pass a dict of inputs by name, or the only input as a string"
LACKING = r"the inputs lack input; pass \{'input': \.\.\.\}"


@cases(
    ("inputs", "message"),
    [
        (None, TYPES),
        (42, TYPES),
        (["a"], TYPES),
        ([("role", "user")], TYPES),
        (b"bytes", TYPES),
        ({"query": 1}, LACKING),
    ],
)
def test_invalid_inputs_are_refused_before_the_run(inputs: Any, message: str) -> None:
    model = ScriptedModel([])
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, []), tools=[])
    for run in (executor.run, executor.invoke, executor.stream, executor.astream):
        with pytest.raises(InputError, match=message):
            run(inputs)
    with pytest.raises(InputError, match=message):
        asyncio.run(executor.ainvoke(inputs))
    with pytest.raises(InputError, match=message):
        run_async(executor, inputs)
    assert not model.requests


def shout(steps: Any, inputs: dict[str, Any]) -> gx.AgentFinish:
    if inputs["input"] == "bad":
        raise LookupError("bad")
    return answer(inputs["input"].upper())


def batch(executor: gx.AgentExecutor, many: Any, **settings: Any) -> list[Any]:
    returned = executor.batch(many, **settings)
    again = asyncio.run(executor.abatch(many, **settings))
    assert str(again) == str(returned)
    return returned


def test_a_batch_returns_its_results_in_order() -> None:
    executor = gx.AgentExecutor(agent=shout, tools=[])
    texts = [f"q{number}" for number in range(100)]
    assert [one["output"] for one in batch(executor, texts)] == [text.upper() for text in texts]
    assert batch(executor, []) == []
    named = [{"input": "a", "output": "A"}, {"input": "b", "output": "B"}]
    assert batch(executor, [{"input": "a"}, "b"], max_concurrency=1) == named


def test_batch_raises_or_returns_exceptions() -> None:
    executor = gx.AgentExecutor(agent=shout, tools=[])
    with pytest.raises(LookupError, match="bad"):
        executor.batch(["a", "bad", "b"])
    with pytest.raises(LookupError, match="bad"):
        asyncio.run(executor.abatch(["a", "bad", "b"]))
    unnamed = gx.AgentExecutor(agent=gx.create_tool_calling_agent(ScriptedModel([]), []), tools=[])
    a, error, b = batch(executor, ["a", "bad", "b"], return_exceptions=True)
    assert (a["output"], b["output"]) == ("A", "B")
    assert isinstance(error, LookupError)
    assert [type(one) for one in batch(unnamed, [{}], return_exceptions=True)] == [InputError]


@cases("width", [1, 3])
def test_batch_runs_as_many_as_allowed(width: int) -> None:
    barrier = threading.Barrier(width)
    lock = threading.Lock()
    inside = 0
    most = 0

    def meeting(steps: Any, inputs: Any) -> gx.AgentFinish:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        barrier.wait(20)
        with lock:
            inside -= 1
        return answer()

    executor = gx.AgentExecutor(agent=meeting, tools=[])
    executor.batch(["q"] * 6, max_concurrency=width)
    asyncio.run(executor.abatch(["q"] * 6, max_concurrency=width))
    assert most == width
    with pytest.raises(InputError, match="max_concurrency is 0; give 1 or more"):
        executor.batch(["q"], max_concurrency=0)


def test_interrupt_ends_a_batch_despite_return_exceptions() -> None:
    def interrupted(steps: Any, inputs: Any) -> gx.AgentFinish:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gx.AgentExecutor(agent=interrupted, tools=[]).batch(["a", "b"], return_exceptions=True)


@HOW
def test_finish_of_the_agent_is_not_changed(run: Run) -> None:
    values = {"output": "42"}
    finish = gx.AgentFinish(values, "log")
    executor = gx.AgentExecutor(agent=scripted(A, finish), tools=[echo], return_intermediate_steps=True)
    result = run(executor)
    executor.invoke("q")["output"] = "changed"
    assert values == {"output": "42"}
    assert finish == gx.AgentFinish({"output": "42"}, "log")
    assert (len(finish.steps), len(result.steps)) == (0, 1)


@HOW
def test_two_runs_of_one_executor_share_nothing(run: Run) -> None:
    executor = gx.AgentExecutor(
        agent=scripted([A, NOPE], [], answer()),
        tools=[echo],
        handle_parsing_errors=True,
        max_iterations=3,
        max_tool_calls=2,
    )
    first, second = run(executor), run(executor)
    assert first.ending == second.ending
    assert first.steps is not second.steps
    for result in (first, second):
        assert (result.spent.iterations, result.spent["tool_calls"]) == (3, 2)


def test_the_inputs_of_the_caller_are_not_changed() -> None:
    def changing(steps: Any, inputs: dict[str, Any]) -> Any:
        inputs["input"] = "changed"
        inputs["more"] = 1
        return answer() if steps else A

    given = {"input": "q"}
    returned = gx.AgentExecutor(agent=changing, tools=[echo]).invoke(given)
    assert given == {"input": "q"}
    assert returned == {"input": "q", "output": "done"}


def test_agent_cannot_change_the_steps_it_sees() -> None:
    seen: list[Any] = []

    def agent(steps: Any, inputs: dict[str, Any]) -> Any:
        seen.append(steps)
        assert not hasattr(steps, "append")
        return answer() if len(steps) == 2 else act("echo", text=str(len(steps)))

    result = gx.AgentExecutor(agent=agent, tools=[echo]).run("q")
    assert [[step.observation for step in steps] for steps in seen] == [[], ["0"], ["0", "1"]]
    assert seen[-1] == result.steps


@HOW
def test_exception_of_a_model_is_raised(run: Run) -> None:
    error = LookupError("of the model")
    with pytest.raises(LookupError) as raised:
        run(gx.AgentExecutor(agent=gx.create_tool_calling_agent(ScriptedModel([error]), []), tools=[]))
    assert raised.value is error


@HOW
def test_agent_without_a_model_has_no_handler(run: Run) -> None:
    agent = gx.create_tool_calling_agent(ScriptedModel([]), [])
    with pytest.raises(MissingHandlerError, match="no handler answers CallModel; pass handlers="):
        run(gx.AgentExecutor(agent=gx.Agent(agent.ask, agent.read), tools=[]))


@HOW
def test_tool_may_run_another_executor(run: Run) -> None:
    inner = gx.AgentExecutor(agent=shout, tools=[])

    @gx.tool
    def ask_another(text: str) -> str:
        """Ask another agent."""
        return str(inner.run(text).output)

    @gx.tool
    async def await_another(text: str) -> str:
        """Ask another agent."""
        return str((await inner.arun(text)).output)

    batch_of_both = [act("ask_another", text="a"), act("await_another", text="b")]
    result = run(gx.AgentExecutor(agent=scripted(batch_of_both, answer()), tools=[ask_another, await_another]))
    assert [step.observation for step in result.steps] == ["A", "B"]


def test_a_stopped_response_of_nothing_has_no_steps() -> None:
    result = gx.AgentExecutor(agent=scripted(answer()), tools=[], max_iterations=0).run("q")
    assert isinstance(result.ending, gx.StoppedResponse)
    assert len(result.steps) == 0
    assert result.ending.reason == "Stopped after 0 steps: the limit of 0 iterations was reached (0 spent)."
