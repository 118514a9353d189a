"""The handler of `CallAgent` for functions: it calls or awaits the agent, and checks its decision."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from graphexec.actions import AgentAction, AgentFinish, Steps
from graphexec.effects import CallAgent, Decided, Unreadable
from graphexec.errors import AgentError, ParseError
from graphexec.kernel.effects import CallContext
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO
from graphexec.runtime.threads import check_before_awaiting


def make_agent_handler(function: Callable[[Steps, dict[str, Any]], Any]) -> Handler:
    """Return a handler that answers `CallAgent` with a callable agent, `def` or `async def`.

    Raises `AgentError` for an invalid decision.
    """
    is_async = inspect.iscoroutinefunction(function)

    async def answer(effect: CallAgent, call: CallContext[Any], io: IO) -> Decided:
        del call
        run = effect.run
        try:
            if is_async and io.blocking:
                decision = await io.call_async(function, run.steps, {**run.inputs})
            elif is_async:
                # Awaited here: `call_async` would keep another coroutine for each waiting run.
                decision = await function(run.steps, {**run.inputs})
            elif io.blocking:
                decision = function(run.steps, {**run.inputs})
            else:
                decision = await io.call(function, run.steps, {**run.inputs})
            # The usual decision.
            if type(decision) is AgentAction:
                return Decided((decision,))
            # A lambda may return a coroutine.
            if inspect.iscoroutine(decision):
                check_before_awaiting(decision)
                decision = await io.call_async(_itself, decision)
        except ParseError as error:
            return Decided(Unreadable(str(error), error.observation, error.llm_output, error.prose))
        return check_decision(getattr(function, "__name__", type(function).__name__), decision)

    return Handler(answer)


def _itself(decision: Any) -> Any:
    # A function of its own: a lambda would cost memory in each waiting run.
    return decision


def check_decision(name: str, decision: object) -> Decided:
    """Return the decision of the callable agent `name`. Raises `AgentError` for an invalid one."""
    match decision:
        case AgentFinish():
            return Decided(decision)
        case AgentAction():
            return Decided((decision,))
        case list() | tuple():
            actions: list[AgentAction] = []
            for action in decision:  # pyright: ignore[reportUnknownVariableType]
                if not isinstance(action, AgentAction):
                    raise AgentError(
                        f"the agent {name} returned a list with {action!r}; return a list of AgentAction only"
                    )
                actions.append(action)
            return Decided(tuple(actions))
        case _:
            raise AgentError(
                f"the agent {name} returned {decision!r}; return an AgentAction, a list of them, or an AgentFinish"
            )
