"""The methods of AgentExecutor: their results, invalid arguments, independent runs, trimmed steps, and batches."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import actions, effects, errors, kernel, messages, models
from tests.executor.actors import WAYS, act, answer, call, caller_of, echo, make_executor, run_by
from tests.parameters import cases, examples
from tests.semantics.endings import raising

HOW = cases("way", "run", "arun")


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


A = act("echo", text="a")
STOPPED = "Agent stopped due to iteration limit or time limit."
STEPS = {"return_intermediate_steps": True, "max_iterations": 1}


@cases(
    ("turns", "options", "inputs", "expected"),
    ([answer("42")], {}, {"input": "q", "extra": [1]}, {"input": "q", "extra": [1], "output": "42"}),
    ([answer(None)], {}, {"input": "q", "none": None}, {"input": "q", "none": None, "output": None}),
    ([answer("42")], {}, {"callbacks": 1}, {"callbacks": 1, "output": "42"}),
    ([answer("42")], {}, {"intermediate_steps": [()]}, {"intermediate_steps": [()], "output": "42"}),
    # Outputs override inputs of the same name, and may have other names.
    ([gx.AgentFinish({"output": "42", "why": "so"})], {}, {"output": "mine"}, {"output": "42", "why": "so"}),
    ([gx.AgentFinish({"answer": "42"})], {}, "q", {"input": "q", "answer": "42"}),
    ([A], STEPS, "q", {"input": "q", "output": STOPPED, "intermediate_steps": [(A, "a")]}),
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


@cases(("inputs", "message"), *INVALID, ({"query": 1}, r"the inputs lack input; pass \{'input': \.\.\.\}"))
def test_invalid_inputs_are_refused_before_the_run(inputs: Any, message: str) -> None:
    model = models.ScriptedModel([])
    executor = caller_of(model)
    for way in (one for one in WAYS if "batch" not in one):
        with pytest.raises(gx.InputError, match=message):
            run_by(way, executor, inputs)
    for stream in (executor.stream, executor.astream):
        # Also before it is iterated.
        with pytest.raises(gx.InputError, match=message):
            stream(inputs)
    assert not model.requests


def test_agent_cannot_change_inputs_or_steps() -> None:
    def greedy(steps: Any, inputs: dict[str, Any]) -> Any:
        inputs |= {"input": "changed", "more": 1}
        assert not hasattr(steps, "append")
        with pytest.raises((TypeError, AttributeError)):
            steps[0] = None
        return answer() if steps else A

    given, executor = {"input": "q"}, gx.AgentExecutor(agent=greedy, tools=[echo])
    assert executor.invoke(given) == {"input": "q", "output": "done"}
    assert given == executor.run(given).ending.run.inputs == {"input": "q"}


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


def shown_with(trim: Any, *, steps: int = 4, **settings: Any) -> list[list[str]]:
    """Return the observations that the agent sees at each turn."""
    seen: list[list[str]] = []

    def decide(shown: actions.Steps, inputs: dict[str, Any]) -> gx.AgentAction | gx.AgentFinish:
        seen.append([str(step.observation) for step in shown])
        # The visible steps cannot be counted, as they are trimmed.
        if len(seen) > steps:
            return gx.AgentFinish({"output": "done"})
        return gx.AgentAction("echo", {"text": str(len(seen))})

    result = gx.AgentExecutor(agent=decide, tools=[echo], trim_intermediate_steps=trim, **settings).run("q")
    assert [step.observation for step in result.steps] == [str(number) for number in range(1, steps + 1)]
    return seen


ALL = ["1", "2", "3", "4"]


# What is selected, and what the agent sees last.
SELECTIONS: list[tuple[int | Callable[[Any], Any], list[str]]] = [
    *((trim, ALL) for trim in (-5, -1, 0, 4, 9, 99)),
    (lambda steps: steps, ALL),
    *((1, ["4"]), (True, ["4"]), (2, ["3", "4"]), (3, ["2", "3", "4"])),
    (lambda steps: (), []),
    (lambda steps: [*steps[:1], *steps[-1:]], ["1", "4"]),
    # Pairs, as functions written for LangChain return.
    (lambda steps: [(step.action, "again") for step in steps[-2:]], ["again", "again"]),
]


@cases(("trim", "last"), *SELECTIONS)
def test_agent_sees_the_selected_steps(trim: Any, last: list[str]) -> None:
    first, *_, end = shown_with(trim)
    assert (first, end) == ([], last)


def test_function_cannot_change_the_run() -> None:
    lengths: list[int] = []

    def last(steps: actions.Steps) -> Sequence[gx.AgentStep]:
        assert isinstance(steps, actions.Steps)
        lengths.append(len(steps))
        return steps[-1:]

    assert shown_with(last)[-1] == ["4"]
    assert lengths == [0, 1, 2, 3, 4]


# ---- batches: the order of results, invalid inputs, and failures


def shout(steps: Any, inputs: dict[str, Any]) -> gx.AgentFinish:
    if str(inputs["input"]).startswith("bad"):
        raise LookupError(inputs["input"])
    return answer(str(inputs["input"]).upper())


def in_threads(many: Any, agent: Any = shout, **given: Any) -> list[Any]:
    return gx.AgentExecutor(agent=agent, tools=[]).batch(many, **given)


def on_the_loop(many: Any, agent: Any = shout, **given: Any) -> list[Any]:
    return asyncio.run(gx.AgentExecutor(agent=agent, tools=[]).abatch(many, **given))


each_way = cases("batch", in_threads, on_the_loop)
Batch = Callable[..., list[Any]]


def show_errors(results: list[Any]) -> list[Any]:
    return [repr(one) if isinstance(one, Exception) else one for one in results]


def expected(texts: Iterable[str]) -> list[Any]:
    return [repr(LookupError(one)) if one.startswith("bad") else {"input": one, "output": one.upper()} for one in texts]


@each_way
@settings(max_examples=examples(15), deadline=None)
@given(many=st.lists(st.sampled_from(["a", "b", "bad"]), max_size=8), width=st.none() | st.integers(1, 9))
def test_results_and_exceptions_keep_the_order_of_inputs(batch: Batch, many: list[str], width: int | None) -> None:
    texts = [f"{one}{number}" for number, one in enumerate(many)]
    found = batch(texts, max_concurrency=width, return_exceptions=True)
    assert show_errors(found) == expected(texts)


# Any collection of inputs is accepted.
@each_way
@cases(
    ("many", "texts", "options"),
    ([f"q{number}" for number in range(100)], [f"q{number}" for number in range(100)], {}),
    ([], "", {}),
    ([{"input": "a"}, "b"], "ab", {"max_concurrency": 1}),
    ({"first": "a", "second": "b"}.values(), "ab", {}),
)
def test_batch_returns_results_in_order(batch: Batch, many: Any, texts: Iterable[str], options: dict[str, Any]) -> None:
    assert show_errors(batch(many, **options)) == expected(texts)


@each_way
def test_missing_input_is_the_exception_of_its_run(batch: Batch) -> None:
    agent = gx.create_tool_calling_agent(models.ScriptedModel([]), [])
    assert [type(one) for one in batch([{}], agent, return_exceptions=True)] == [errors.InputError]


@each_way
@cases("width", 1, 3)
def test_batch_runs_as_many_as_allowed(batch: Batch, width: int) -> None:
    barrier, lock = threading.Barrier(width), threading.Lock()
    inside = most = 0

    def meeting(steps: Any, inputs: Any) -> gx.AgentFinish:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        barrier.wait(20)
        with lock:
            inside -= 1
        return answer()

    batch(["q"] * 6, meeting, max_concurrency=width)
    assert most == width


def test_interrupt_ends_a_batch_despite_return_exceptions() -> None:
    with pytest.raises(KeyboardInterrupt):
        in_threads(["a", "b"], raising(KeyboardInterrupt()), return_exceptions=True)


@each_way
@cases(
    ("many", "width", "name"),
    *((many, None, "inputs") for many in ("text", {"input": "a"}, None, 3, (one for one in "a"))),
    # Also without inputs.
    *(([], width, "max_concurrency") for width in (0, -1, 2.5, "3", True)),
)
def test_invalid_batch_is_refused(batch: Batch, many: Any, width: Any, name: str) -> None:
    remedy = "a list of inputs, .*invoke for one" if name == "inputs" else "a whole number, 1 or more, or None for 64"
    with pytest.raises(errors.InputError, match=f"batch has {name}=.*; give {remedy}"):
        batch(many, max_concurrency=width)


@each_way
def test_exception_ends_the_batch(batch: Batch) -> None:
    with pytest.raises(LookupError, match="bad"):
        batch(["a", "bad", "c"])
