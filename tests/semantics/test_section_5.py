"""Section 5 of docs/semantics.md: where LangChain's JavaScript executor differs, and how the same is had here."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentExecutor, AgentStep, tool
from graphexec.errors import ToolDefinitionError
from tests.executor.actors import HOW, Running, act, answer, echo, scripted
from tests.parameters import cases
from tests.semantics.endings import A, B, finish_of, run_turns


@HOW
@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_actions_run_concurrently_or_in_turn(run: Running, at_once: int) -> None:
    met = threading.Barrier(at_once, timeout=20)
    running: list[str] = []
    together: list[int] = []

    @tool
    def work(word: str) -> str:
        """Work."""
        running.append(word)
        met.wait()
        together.append(len(running))
        met.wait()
        running.remove(word)
        return word

    batch = [act("work", word=word) for word in "abcd"]
    result = run(AgentExecutor(agent=scripted(batch, answer()), tools=[work], tool_concurrency=at_once))
    assert [step.observation for step in result.steps] == [*"abcd"]
    assert together == [at_once] * 4


@tool
def number() -> int:
    """Give a number."""
    return 3


FAIL, CLOSEST = act("fail", text="b"), "is not a valid tool, try one of [echo]. Did you mean echo?"
POLICIES: dict[str, Callable[[Any], str]] = {"sorry, no b": lambda error: f"sorry, {error}", "": lambda error: ""}


@cases(
    ("action", "options", "observation", "status"),
    [
        (act("ECHO", text="a"), {"tool_lookup": "case_insensitive"}, "a", "ok"),
        # The closest name is suggested.
        (act("Echo", text="a"), {"tools": [echo]}, f"Echo {CLOSEST}", "unknown_tool"),
        # An exception reaches the model, as it is or as a policy makes it, which may be empty.
        (FAIL, {}, "fail failed: ValueError: no b", "error"),
        *((FAIL, {"handle_tool_errors": policy}, text, "error") for text, policy in POLICIES.items()),
        # An observation is any value.
        (act("number"), {"tools": [number]}, 3, "ok"),
    ],
)
def test_call_has_this_observation(action: Any, options: dict[str, Any], observation: object, status: str) -> None:
    result = run_turns(action, answer(), **options)
    (step,) = result.outcome.steps
    assert (step.action.tool, step.observation, step.status) == (action.tool, observation, status)


def test_case_insensitive_lookup_refuses_equal_names() -> None:
    other = tool(name="Echo")(echo.function)
    assert AgentExecutor(agent=scripted(answer()), tools=[echo, other])
    with pytest.raises(ToolDefinitionError, match="differ only in case"):
        AgentExecutor(agent=scripted(answer()), tools=[echo, other], tool_lookup="case_insensitive")


@cases(
    ("batch", "output"),
    [
        ([A, act("direct", text="b")], "b"),
        ([act("direct", text="a"), B], "a"),
        ([act("direct", text="a"), act("direct", text="b")], "b"),
        ([act("direct", text="a"), act("direct", wrong="b")], "a"),
    ],
)
def test_return_direct_any_takes_the_last_result(batch: Any, output: str) -> None:
    result = run_turns(batch, answer(), return_direct="any")
    assert (result.outcome.output, finish_of(result).return_direct, len(result.outcome.steps)) == (output, True, 2)


def test_steps_are_objects_that_unpack_as_pairs() -> None:
    (step,) = AgentExecutor(agent=scripted(A, answer()), tools=[echo]).run("q").steps
    assert isinstance(step, AgentStep)
    action, observation = step
    assert (action, observation) == (step.action, step.observation) == (A, "a")
