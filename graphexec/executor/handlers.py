"""The handlers of an agent's effects: a model answers `CallModel`, a function `CallAgent`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import aclosing
from typing import Any, final

from graphexec.actions import AgentAction, AgentFinish, Run, Steps
from graphexec.effects import CallAgent, CallModel, Decided, Unreadable
from graphexec.errors import AgentError, InvalidReplyError, ParseError, TurnTimeoutError
from graphexec.kernel.execution import Cut
from graphexec.messages import Model, ModelReply
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO
from graphexec.runtime.progress import pieces_wanted, report
from graphexec.runtime.threads import still_waited_for

# Seconds that a model has beyond the run's deadline: the runner cuts it there, which stops the run; the model's own
# timeout, an error, only ends a call that nobody waits for any more.
_BEYOND = 1.0


def asking_model(model: Model) -> Handler:
    """Answer `CallModel` with a model. One that has `instant = True` is called without a thread or a task."""
    # Any: a protocol with these two would refuse the models that cannot stream.
    stream: Any = getattr(model, "stream", None)
    astream: Any = getattr(model, "astream", None)

    async def answer(effect: CallModel, left: float | None, io: IO) -> ModelReply | Cut:
        timeout = None if left is None else left + _BEYOND
        try:
            if pieces_wanted() and (stream if io.blocking else astream) is not None:
                return _check_reply(model, await in_pieces(effect, timeout, io))
            if io.blocking:
                return _check_reply(model, model.complete(effect.request, timeout=timeout))
            return _check_reply(model, await model.acomplete(effect.request, timeout=timeout))
        except TurnTimeoutError:
            if left is None:
                raise
            # It would come after the run's deadline, so this is where the deadline cuts the call.
            return Cut()

    async def in_pieces(effect: CallModel, timeout: float | None, io: IO) -> object:
        last: object = None
        pieces = io.iterate(
            lambda: stream(effect.request, timeout=timeout), lambda: astream(effect.request, timeout=timeout)
        )
        async with aclosing(pieces):
            async for last in pieces:
                still_waited_for()
                if not isinstance(last, ModelReply):
                    report(last)
        return last

    return Handler(answer, instant=bool(getattr(model, "instant", False)))


def _check_reply(model: Model, reply: object) -> ModelReply:
    # A model of the user's own may know no better.
    if not isinstance(reply, ModelReply):
        raise InvalidReplyError(f"the model {type(model).__name__} returned {reply!r}; return a ModelReply")
    return reply


# What a callable agent returns that neither has to be awaited nor yields: nearly always one of these.
_DECISIONS = frozenset[type]({AgentAction, AgentFinish, list, tuple})


def asking_agent(function: Callable[[Steps, dict[str, Any]], Any]) -> Handler:
    """Answer `CallAgent` with a callable agent, `def` or `async def`, that returns its decision or yields it in chunks.

    Chunks add up: actions are one decision, in order; a finish comes alone. A generator's return value is its last
    chunk. Raises `AgentError` for an invalid decision.
    """
    is_async = inspect.iscoroutinefunction(function)
    yields_async = inspect.isasyncgenfunction(function)

    def decide(run: Run) -> Any:
        decision = function(run.steps, dict(run.inputs))
        # It is read where it may block.
        if type(decision) in _DECISIONS or not inspect.isgenerator(decision):
            return decision
        return _Chunks(_chunks(decision))

    async def awaited(decision: Any) -> Any:
        return _Chunks([chunk async for chunk in decision]) if inspect.isasyncgen(decision) else await decision

    async def answer(effect: CallAgent, left: float | None, io: IO) -> Decided:
        del left
        try:
            run = effect.run
            if is_async:
                decision = await io.call_async(function, run.steps, dict(run.inputs))
            else:
                decision = decide(run) if yields_async else await io.call(decide, run)
                # A lambda may hide that what it calls is async.
                if type(decision) not in _DECISIONS and (inspect.iscoroutine(decision) or inspect.isasyncgen(decision)):
                    decision = await io.call_async(awaited, decision)
        except ParseError as error:
            return Decided(Unreadable(str(error), error.observation, error.llm_output, error.prose))
        return check_decision(function, *(decision if type(decision) is _Chunks else (decision,)))

    return Handler(answer)


@final
class _Chunks(list[Any]):
    __slots__ = ()


def _chunks(generator: Generator[Any, Any, Any]) -> Iterator[Any]:
    last = yield from generator
    if last is not None:
        yield last


def check_decision(function: Callable[..., Any], *chunks: object) -> Decided:
    """Return what a callable agent decided, checked and added up. Raises `AgentError` if it is no decision."""
    # Nearly always it is one chunk.
    if len(chunks) == 1:
        (chunk,) = chunks
        if type(chunk) is AgentAction:
            return Decided((chunk,))
        if type(chunk) is AgentFinish:
            return Decided(chunk)
    name = getattr(function, "__name__", type(function).__name__)
    finishes: list[AgentFinish] = []
    actions: list[AgentAction] = []
    for chunk in chunks:
        if isinstance(chunk, AgentFinish):
            finishes.append(chunk)
        else:
            actions.extend(_actions(name, chunk))
    if len(finishes) > 1 or (finishes and actions):
        told = f"{len(finishes)} times an AgentFinish" if len(finishes) > 1 else "an AgentFinish and actions"
        raise AgentError(f"the agent {name} yielded {told}; yield one AgentFinish, or actions only")
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
