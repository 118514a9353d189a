"""Sections 3.5 to 3.8 of docs/semantics.md: planning, tools, return_direct, and memory."""

from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, AgentStep, create_tool_calling_agent, errors, tool
from graphexec.actions import Run, Steps
from tests.executor import actors
from tests.executor.actors import HOW, Running, act, answer, call, echo, fail, observations, scripted, statuses
from tests.executor.test_memory_nodes import Diary
from tests.parameters import cases
from tests.semantics.endings import A, finish_of, run_replies, run_turns

# ---- 3.6 Tools


C_JSON, ALL = '{"text": "c"}', ["error", "ok", "unknown_tool", "bad_arguments"]
REQUIRED = "echo was not called: text: Field required. Call it as echo(text: string)."
UNKNOWN = "nope is not a valid tool, try one of [echo, fail]."
EXTRA = REQUIRED.replace("required.", "required; texd: Extra inputs are not permitted.")
MIXED = dict(enumerate(["fail failed: ValueError: no b", "a", UNKNOWN, EXTRA]))


@cases(
    ("actions", "tools", "results", "texts"),
    # The lookup is exact.
    ([act("Echo", text="a"), act("echo ", text="a"), A], [echo], ["unknown_tool", "unknown_tool", "ok"], {2: "a"}),
    ([act("nope")], [], ["unknown_tool"], {0: "nope is not a valid tool, try one of []."}),
    ([act("nope")], [echo, fail], ["unknown_tool"], {0: UNKNOWN}),
    # A tool takes its input by name or as a string.
    ([A, *(AgentAction("echo", one) for one in ("b", C_JSON))], [echo], ["ok"] * 3, dict(enumerate("abc"))),
    # Invalid arguments do not call it.
    ([act("echo"), act("echo", text=["a"])], [echo], ["bad_arguments"] * 2, {0: REQUIRED}),
    # One that fails spares the others.
    ([act("fail", text="b"), A, act("nope"), act("echo", texd="c")], [echo, fail], ALL, MIXED),
)
def test_calls_have_these_observations(actions: Any, tools: Any, results: list[str], texts: dict[int, str]) -> None:
    result = run_turns(actions, answer(), tools=tools)
    assert (statuses(result), result.outcome.output) == (results, "done")
    assert {at: observations(result)[at] for at in texts} == texts


@pytest.mark.medium
@cases("value", 3, None, 1.5, ["a"], {"a": 1}, "")
def test_observation_is_the_unconverted_result(value: Any) -> None:
    @tool
    def give() -> Any:
        """Give it."""
        return value

    result = run_turns(act("give"), answer(), tools=[give])
    assert observations(result) == [value]
    assert type(observations(result)[0]) is type(value)


# ---- 3.7 return_direct


def test_return_direct_needs_a_call_that_worked() -> None:
    assert run_replies(call("direct", text="42"), make=create_tool_calling_agent).outcome.output == "42"
    result = run_turns(act("direct", wrong="42"), answer())
    assert (statuses(result), result.outcome.output) == (["bad_arguments"], "done")


# ---- 3.8 Memory


@cases("way", *actors.WAYS)
def test_memory_is_loaded_and_saved_once(way: str) -> None:
    memory = Diary()
    actors.run_by(way, AgentExecutor(agent=scripted(A, answer("42")), tools=[echo], memory=memory))
    a = "a" if way.startswith("a") else ""
    assert memory.calls == [f"{a}load", f"{a}save"]
    assert memory.loaded == [{"input": "q"}]
    assert memory.saved == [({"input": "q", "before": "nothing"}, {"output": "42"})]


@HOW
def test_memory_saves_a_stop_but_not_an_error(run: Running) -> None:
    stopped, failed = Diary(), Diary()
    run(AgentExecutor(agent=scripted(A), tools=[echo], memory=stopped, max_iterations=1))
    assert [name.removeprefix("a") for name in stopped.calls] == ["load", "save"]
    with pytest.raises(errors.AgentError):
        run(AgentExecutor(agent=lambda steps, inputs: None, tools=[], memory=failed))
    assert [name.removeprefix("a") for name in failed.calls] == ["load"]


def test_memory_is_not_given_steps_or_messages() -> None:
    memory = Diary()
    executor = AgentExecutor(agent=scripted(answer("42")), tools=[], memory=memory, return_intermediate_steps=True)
    list(executor.stream_chunks("q"))
    executor.invoke("q")
    assert [outputs for _, outputs in memory.saved] == [{"output": "42"}] * 2
    # Iterating twice is two runs.
    memory = Diary()
    turns = AgentExecutor(agent=scripted(answer("42")), tools=[], memory=memory).iter("q")
    list(turns)
    list(turns)
    assert memory.calls == ["load", "save"] * 2


def test_finish_contains_inputs_and_steps() -> None:
    finish = finish_of(run_turns(A, answer()))
    assert finish.run == Run({"input": "q"}, Steps([AgentStep(A, "a")]))
    # Two native calls are one iteration.
    calls = [call("echo", "1", text="a"), call("echo", "2", text="b")]
    result = run_replies(calls, "done", make=create_tool_calling_agent)
    assert (observations(result), result.spent.iterations) == (["a", "b"], 2)
