"""The handlers of an agent's effects: a model answers a `ModelEffect`, a function a `CallAgent`.

A model handler also reports the pieces of a reply that the model streams.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from graphexec._parsing.reasoning import ReasoningSplitter
from graphexec.actions import AgentAction, AgentFinish, Decision, Steps
from graphexec.agents.reading.answers import Read, read_ahead
from graphexec.effects import CallAgent, Decided, ModelEffect, ModelFailure, Unreadable
from graphexec.errors import AgentError, InvalidCallError, MissingAPIKeyError, ModelError, ParseError, TurnTimeoutError
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Cut
from graphexec.messages import Model, ModelReply, ReplyDelta, check_access, check_reply
from graphexec.messages.model import is_long
from graphexec.runtime.calls import report, wait_for_capacity, wants_pieces
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO
from graphexec.runtime.observers import AroundCall
from graphexec.runtime.threads import check_before_awaiting, check_cancelled

# Seconds that a model's own timeout is longer than the time left. The runner cuts the call at the deadline, which stops
# the run; the timeout, which is an error, only ends a call that was cut already.
_EXTRA_SECONDS = 1.0


def make_model_handler(model: Model, read: Read | None = None) -> Handler:
    """Return a handler that answers a `ModelEffect`, such as `CallModel`, with a model.

    A model with `instant = True` is called without a thread or a task. A long reply of another one is read by `read`
    within the call, if the run has a deadline, and in an async run in a thread. With `read`, an `InvalidCallError` is a
    reply that cannot be read.
    """
    # Any: a protocol with both methods would exclude models that cannot stream.
    stream: Any = getattr(model, "stream", None)
    astream: Any = getattr(model, "astream", None)
    acomplete: Any = getattr(model, "acomplete", None)
    name = type(model).__name__

    async def answer(effect: ModelEffect[Any], call: CallContext[Any], io: IO) -> ModelReply | Cut:
        # Any: a user's model may return any value, which `check_reply` validates.
        reply: Any
        left = call.scope.seconds_left()
        timeout = None if left is None else left + _EXTRA_SECONDS
        try:
            if (stream if io.blocking else astream) is not None and wants_pieces():
                reply = await stream_reply(effect, timeout, io)
            elif io.blocking:
                reply = model.complete(effect.request, timeout=timeout)
            elif acomplete is not None:
                reply = await acomplete(effect.request, timeout=timeout)
            else:
                reply = await io.call(model.complete, effect.request, timeout=timeout)
        except TurnTimeoutError:
            if left is None:
                raise
            # The turn would come after the run's deadline, so the deadline cuts the call now.
            return Cut()
        except InvalidCallError:
            if read is None:
                raise
            reply = ModelReply("", finish_reason="invalid_call")
        checked = check_reply(reply, name)
        if read is None or (io.blocking and left is None):
            return checked
        return await io.call(read_ahead, read, checked) if is_long(checked) else checked

    async def stream_reply(effect: ModelEffect[Any], timeout: float | None, io: IO) -> object:
        last: object = None
        splitter = ReasoningSplitter()
        pieces = io.iterate(
            lambda: stream(effect.request, timeout=timeout), lambda: astream(effect.request, timeout=timeout)
        )
        async with aclosing(pieces):
            async for last in pieces:
                check_cancelled()
                for piece in _separate_reasoning(last, splitter):
                    report(piece)
                    if not io.blocking:
                        await wait_for_capacity()
        return last

    instant = bool(getattr(model, "instant", False))
    return Handler(answer, instant=instant, check_access=partial(check_access, model))


def reading_ahead(handler: Handler, read: Read) -> Handler:
    """Return the handler of `CallModel`, whose long replies are read within the call; see `make_model_handler`."""

    async def answer(effect: ModelEffect[Any], call: CallContext[Any], io: IO) -> object:
        reply = await handler.answer(effect, call, io)
        on_time = io.blocking and call.scope.seconds_left() is None
        if on_time or not isinstance(reply, ModelReply) or not is_long(reply):
            return reply
        return await io.call(read_ahead, read, reply)

    return replace(handler, answer=answer)


# Returns the reply in place of an error of a model, or `None` if the error ends the run.
Catch: TypeAlias = Callable[[ModelError], object]


def catching(handler: Handler, catches: Sequence[Catch]) -> Handler:
    """Return a handler that replies where `handler` raises an error that is caught; a missing API key ends the run."""

    async def answer(effect: ModelEffect[Any], call: CallContext[Any], io: IO) -> object:
        try:
            return await handler.answer(effect, call, io)
        except MissingAPIKeyError:
            raise
        except ModelError as error:
            reply = next((reply for catch in catches if (reply := catch(error)) is not None), None)
            if reply is None:
                raise
            return reply

    return replace(handler, answer=answer)


def make_attempt_handler(handler: Handler) -> Handler:
    """Return a handler that answers with a `ModelFailure` where `handler` raises a `ModelError`.

    A missing API key is not a failure of the model, so it is raised.
    """
    # The other handler checks the access.
    return replace(catching(handler, (ModelFailure.of,)), check_access=None)


def surround(handler: Handler, around: AroundCall) -> Handler:
    """Return a handler whose calls are within a context manager, in the thread or task that begins them."""

    async def answer(effect: Any, call: CallContext[Any], io: IO) -> object:
        with around(call):
            return await handler.answer(effect, call, io)

    return replace(handler, answer=answer)


def _separate_reasoning(piece: object, splitter: ReasoningSplitter) -> Iterator[object]:
    """Yield what a piece of a streamed reply reports, with the reasoning in its content as reasoning."""
    if isinstance(piece, ModelReply):
        rest = splitter.rest()
        if rest:
            yield ReplyDelta(rest)
    elif not isinstance(piece, ReplyDelta) or not piece.content:
        yield piece
    else:
        reasoning, content = splitter.take(piece.content)
        delta = replace(piece, content=content, reasoning=piece.reasoning + reasoning)
        if delta != ReplyDelta():
            yield delta


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
        return Decided(check_decision(getattr(function, "__name__", type(function).__name__), decision))

    return Handler(answer)


def _itself(decision: Any) -> Any:
    # A function of its own: a lambda would cost memory in each waiting run.
    return decision


def check_decision(name: str, decision: object) -> Decision:
    """Return the decision of the callable agent `name`. Raises `AgentError` for an invalid one."""
    match decision:
        case AgentFinish():
            return decision
        case AgentAction():
            return (decision,)
        case list() | tuple():
            actions: list[AgentAction] = []
            for action in decision:  # pyright: ignore[reportUnknownVariableType]
                if not isinstance(action, AgentAction):
                    raise AgentError(
                        f"the agent {name} returned a list with {action!r}; return a list of AgentAction only"
                    )
                actions.append(action)
            return tuple(actions)
        case _:
            raise AgentError(
                f"the agent {name} returned {decision!r}; return an AgentAction, a list of them, or an AgentFinish"
            )
