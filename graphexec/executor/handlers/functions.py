"""The handler of `CallAgent` for functions: it calls or awaits the agent, and checks its decision."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import aclosing
from typing import Any, final

from graphexec.actions import AgentAction, AgentFinish, Run, Steps
from graphexec.effects import CallAgent, Decided, Unreadable
from graphexec.errors import AgentError, ParseError
from graphexec.kernel.effects import CallContext
from graphexec.runtime.handlers import Handler, iterate_unless_cancelled
from graphexec.runtime.io import IO
from graphexec.runtime.threads import check_before_awaiting

# The usual decisions of a callable agent: they are neither awaitables nor generators.
_DECISIONS = frozenset[type]({AgentAction, AgentFinish, list, tuple})


def make_agent_handler(function: Callable[[Steps, dict[str, Any]], Any]) -> Handler:
    """Return a handler that answers `CallAgent` with a callable agent, `def` or `async def`.

    The agent returns its decision or yields it in chunks: several actions are one decision, in order; a finish must be
    the only chunk. A generator's return value is its last chunk. Raises `AgentError` for an invalid decision.
    """
    is_async = inspect.iscoroutinefunction(function)
    yields_async = inspect.isasyncgenfunction(function)

    def decide(run: Run) -> Any:
        decision = function(run.steps, {**run.inputs})
        # Iterate the generator here, where it may block.
        if type(decision) in _DECISIONS or not inspect.isgenerator(decision):
            return decision
        return _Chunks(iterate_unless_cancelled(_iterate_chunks(decision)))

    async def await_decision(decision: Any, io: IO) -> Any:
        if not inspect.isasyncgen(decision):
            return await decision
        chunks = _Chunks()
        async with aclosing(decision):
            async for chunk in decision:
                # A generator that never waits could not be cut.
                await io.checkpoint()
                chunks.append(chunk)
        return chunks

    async def answer(effect: CallAgent, call: CallContext[Any], io: IO) -> Decided:
        del call
        try:
            run = effect.run
            if is_async:
                # Awaited here on an event loop: `call_async` would keep another coroutine for each waiting run.
                if io.blocking:
                    decision = await io.call_async(function, run.steps, {**run.inputs})
                else:
                    decision = await function(run.steps, {**run.inputs})
            else:
                decision = decide(run) if yields_async or io.blocking else await io.call(decide, run)
                # A lambda may return a coroutine or an async generator.
                if type(decision) not in _DECISIONS and (inspect.iscoroutine(decision) or inspect.isasyncgen(decision)):
                    check_before_awaiting(decision)
                    decision = await io.call_async(await_decision, decision, io)
        except ParseError as error:
            return Decided(Unreadable(str(error), error.observation, error.llm_output, error.prose))
        # The usual decision.
        if type(decision) is AgentAction:
            return Decided((decision,))
        return check_decision(function, *(decision if type(decision) is _Chunks else (decision,)))

    return Handler(answer)


@final
class _Chunks(list[Any]):
    __slots__ = ()


def _iterate_chunks(generator: Generator[Any, Any, Any]) -> Iterator[Any]:
    last = yield from generator
    if last is not None:
        yield last


def check_decision(agent: object, *chunks: object) -> Decided:
    """Return the decision of a callable agent, joined from its chunks. Raises `AgentError` for an invalid decision."""
    name = getattr(agent, "__name__", type(agent).__name__)
    finishes: list[AgentFinish] = []
    actions: list[AgentAction] = []
    for chunk in chunks:
        if isinstance(chunk, AgentFinish):
            finishes.append(chunk)
        else:
            actions.extend(_actions(name, chunk))
    if len(finishes) > 1 or (finishes and actions):
        chosen = f"AgentFinish {len(finishes)} times" if len(finishes) > 1 else "an AgentFinish and actions"
        raise AgentError(f"the agent {name} yielded {chosen}; yield one AgentFinish, or actions only")
    if not chunks:
        raise AgentError(f"the agent {name} yielded nothing; yield an AgentAction, a list of them, or an AgentFinish")
    return Decided(finishes[0] if finishes else tuple(actions))


def _actions(name: str, chunk: object) -> list[AgentAction]:
    if isinstance(chunk, AgentAction):
        return [chunk]
    if not isinstance(chunk, (list, tuple)):
        raise AgentError(
            f"the agent {name} returned {chunk!r}; return an AgentAction, a list of them, or an AgentFinish"
        )
    actions: list[AgentAction] = []
    for action in chunk:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(action, AgentAction):
            raise AgentError(f"the agent {name} returned a list with {action!r}; return a list of AgentAction only")
        actions.append(action)
    return actions
