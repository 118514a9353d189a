"""Section 5 of docs/semantics.md: where LangChain's JavaScript executor differs, and how the same is had here."""

from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentExecutor, errors, tool
from tests.executor.actors import act, answer, echo, scripted
from tests.parameters import cases
from tests.semantics.endings import A, B, finish_of, run_turns

FAIL, CLOSEST = act("fail", text="b"), "is not a valid tool, try one of [echo]. Did you mean echo?"
POLICIES: dict[str, Callable[[Any], str]] = {"sorry, no b": lambda error: f"sorry, {error}", "": lambda error: ""}


@cases(
    ("action", "options", "observation", "status"),
    (act("ECHO", text="a"), {"tool_lookup": "case_insensitive"}, "a", "ok"),
    # The closest name is suggested.
    (act("Echo", text="a"), {"tools": [echo]}, f"Echo {CLOSEST}", "unknown_tool"),
    # An exception reaches the model, as it is or as a policy makes it, which may be empty.
    (FAIL, {}, "fail failed: ValueError: no b", "error"),
    *((FAIL, {"handle_tool_errors": policy}, text, "error") for text, policy in POLICIES.items()),
)
def test_call_has_this_observation(action: Any, options: dict[str, Any], observation: object, status: str) -> None:
    result = run_turns(action, answer(), **options)
    (step,) = result.outcome.steps
    assert (step.action.tool, step.observation, step.status) == (action.tool, observation, status)


def test_case_insensitive_lookup_refuses_equal_names() -> None:
    other = tool(name="Echo")(echo.function)
    assert AgentExecutor(agent=scripted(answer()), tools=[echo, other])
    with pytest.raises(errors.ToolDefinitionError, match="differ only in case"):
        AgentExecutor(agent=scripted(answer()), tools=[echo, other], tool_lookup="case_insensitive")


@cases(
    ("batch", "output"),
    ([A, act("direct", text="b")], "b"),
    ([act("direct", text="a"), B], "a"),
    ([act("direct", text="a"), act("direct", text="b")], "b"),
    ([act("direct", text="a"), act("direct", wrong="b")], "a"),
)
def test_return_direct_any_takes_the_last_result(batch: Any, output: str) -> None:
    result = run_turns(batch, answer(), return_direct="any")
    assert (result.outcome.output, finish_of(result).return_direct, len(result.outcome.steps)) == (output, True, 2)
