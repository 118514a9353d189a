"""An object that is invoked, as LangChain's runnables are, as a function that decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from graphexec.actions import AgentAction, AgentFinish, Steps
from graphexec.errors import AgentError, ParseError


class Runnable(Protocol):
    """What decides when it is invoked with a run's inputs and its `intermediate_steps`, pairs of both kinds."""

    def invoke(self, inputs: dict[str, Any], /) -> Any:
        """Return an action, a list of actions or a finish, of these classes or with the same attributes."""
        ...


def deciding(runnable: Runnable) -> Callable[[Steps, dict[str, Any]], Any]:
    """Return a function of the steps and the inputs that invokes it; in an async run it gets a thread.

    An error of a parser, which has an `llm_output`, becomes a `ParseError`. The function raises `AgentError` for
    actions of native tool calls: these would be told to the model again without what was observed.
    """
    name = type(runnable).__name__

    def decide(steps: Steps, inputs: dict[str, Any]) -> Any:
        pairs = [(step.action, step.observation) for step in steps]
        try:
            return _ours(name, runnable.invoke({**inputs, "intermediate_steps": pairs}))
        except ValueError as error:
            # Any: it is of a class that is not known here.
            other: Any = error
            if isinstance(error, ParseError) or not hasattr(other, "llm_output"):
                raise
            raise ParseError(
                str(error), observation=getattr(other, "observation", None), llm_output=other.llm_output or ""
            ) from error

    decide.__name__ = name
    return decide


def _ours(name: str, decision: Any) -> Any:
    if isinstance(decision, (list, tuple)):
        several: list[Any] = list(decision)  # pyright: ignore[reportUnknownArgumentType]
        return [_ours(name, one) for one in several]
    if isinstance(decision, (AgentAction, AgentFinish)):
        return decision
    if getattr(decision, "message_log", None):
        raise AgentError(
            f"{name} decided by native tool calls, {type(decision).__name__}; make the agent with "
            "create_tool_calling_agent, which tells a model what came of them"
        )
    if hasattr(decision, "return_values"):
        return AgentFinish(decision.return_values, decision.log)
    if hasattr(decision, "tool_input"):
        return AgentAction(decision.tool, decision.tool_input, decision.log)
    return decision
