"""Who answers which effect."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphexec.actions import AgentAction, AgentFinish, Steps
from graphexec.effects import CallAgent, CallModel, Decided, Effect, Perform, Unreadable
from graphexec.engine import Cut
from graphexec.errors import AgentError, BadReply, InputError, NoHandler, NoTurn, ParseError
from graphexec.messages import Model, ModelReply
from graphexec.reporting import pieces_wanted, report
from graphexec.waiting import own_loop, still_waited_for


@dataclass(frozen=True, slots=True)
class Handler:
    """How one kind of effect is answered, for sync runs (`call`) and for async ones (`acall`).

    Both get the effect and the seconds that are left until the run's deadline (`None`: as many as it takes), and return
    the reply. The drivers enforce the deadline; a handler may use it to give up in time. An `instant` handler answers
    without waiting, so its `call` serves both, in the driver's own thread.
    """

    # Effects and replies are paired by type only where a handler is made: a mapping cannot say it.
    call: Callable[[Any, float | None], Any]
    acall: Callable[[Any, float | None], Awaitable[Any]]
    instant: bool = False


# A plain function from an effect to its reply, `def` or `async def`, or a whole handler.
Answer: TypeAlias = Handler | Callable[[Any], Any]
Handlers: TypeAlias = Mapping[type[Effect[Any]], Handler]


def answering(answer: Answer) -> Handler:
    """Make a handler of a function: a blocking one runs in a thread where it must not block, an async one anywhere."""
    if isinstance(answer, Handler):
        return answer
    function = answer
    if inspect.iscoroutinefunction(function):

        async def awaited(effect: Any, left: float | None) -> Any:
            del left
            return await function(effect)

        return Handler(lambda effect, left: own_loop(lambda: awaited(effect, left)), awaited)

    async def threaded(effect: Any, left: float | None) -> Any:
        from graphexec.awaiting import from_thread

        del left
        answer = await from_thread(lambda: function(effect))
        # A lambda may hide that what it calls is async.
        return await answer if inspect.iscoroutine(answer) else answer

    def called(effect: Any, left: float | None) -> Any:
        del left
        answer = function(effect)
        return own_loop(lambda: answer) if inspect.iscoroutine(answer) else answer

    return Handler(called, threaded)


# Seconds that a model has beyond the run's deadline: the driver cuts it there, which stops the run; the model's own
# timeout, an error, only ends a call that nobody waits for any more.
_BEYOND = 1.0


def asking_model(model: Model) -> Handler:
    """Answer `CallModel` with a model. One that has `instant = True` is called without a thread or a task."""
    # Any: a protocol with these two would refuse the models that cannot stream.
    stream: Any = getattr(model, "stream", None)
    astream: Any = getattr(model, "astream", None)

    def called(effect: CallModel, left: float | None) -> ModelReply | Cut:
        try:
            return in_time(effect, left)
        except NoTurn:
            if left is None:
                raise
            # It would come after the run's deadline, so this is where the deadline cuts the call.
            return Cut()

    async def awaited(effect: CallModel, left: float | None) -> ModelReply | Cut:
        try:
            return await ain_time(effect, left)
        except NoTurn:
            if left is None:
                raise
            return Cut()

    def in_time(effect: CallModel, left: float | None) -> ModelReply:
        timeout = None if left is None else left + _BEYOND
        if stream is None or not pieces_wanted():
            return checked(model.complete(effect.request, timeout=timeout))
        last: Any = None
        with closing(stream(effect.request, timeout=timeout)) as pieces:
            for last in pieces:
                still_waited_for()
                if not isinstance(last, ModelReply):
                    report(last)
        return checked(last)

    async def ain_time(effect: CallModel, left: float | None) -> ModelReply:
        timeout = None if left is None else left + _BEYOND
        if astream is None or not pieces_wanted():
            return checked(await model.acomplete(effect.request, timeout=timeout))
        last: Any = None
        async with aclosing(astream(effect.request, timeout=timeout)) as pieces:
            async for last in pieces:
                if not isinstance(last, ModelReply):
                    report(last)
        return checked(last)

    def checked(reply: ModelReply) -> ModelReply:
        # A model of the user's own may know no better.
        if not isinstance(reply, ModelReply):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadReply(f"the model {type(model).__name__} returned {reply!r}; return a ModelReply")
        return reply

    return Handler(called, awaited, instant=bool(getattr(model, "instant", False)))


def asking_agent(function: Callable[[Steps, dict[str, Any]], Any]) -> Handler:
    """Answer `CallAgent` with a callable agent, `def` or `async def`, that returns its decision or yields it in chunks.

    Chunks add up: actions are one decision, in their order; a finish comes alone. What a generator returns is its last
    chunk. Raises `AgentError` for what is no decision.
    """

    def called(effect: CallAgent) -> Decided | Coroutine[Any, Any, Decided]:
        try:
            decision = function(effect.run.steps, dict(effect.run.inputs))
            # A lambda may hide that what it calls is async.
            if inspect.iscoroutine(decision) or inspect.isasyncgen(decision):
                return later(decision)
            return decided(function, *(_chunks(decision) if inspect.isgenerator(decision) else [decision]))
        except ParseError as error:
            return _unreadable(error)

    async def later(decision: Any) -> Decided:
        try:
            if inspect.isasyncgen(decision):
                return decided(function, *[chunk async for chunk in decision])
            return decided(function, await decision)
        except ParseError as error:
            return _unreadable(error)

    async def awaited(effect: CallAgent) -> Decided:
        return await later(function(effect.run.steps, dict(effect.run.inputs)))

    on_the_loop = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    return answering(awaited if on_the_loop else called)


def _unreadable(error: ParseError) -> Decided:
    return Decided(Unreadable(str(error), error.observation, error.llm_output, error.prose))


def _chunks(generator: Generator[Any, Any, Any]) -> Iterator[Any]:
    """What a generator yields, and what it returns, if it does."""
    last = yield from generator
    if last is not None:
        yield last


def decided(function: Callable[..., Any], *chunks: object) -> Decided:
    """Return what a callable agent decided, checked and added up. Raises `AgentError` if it is no decision."""
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


def _perform(effect: Perform, left: float | None) -> Any:
    del left
    if inspect.iscoroutinefunction(effect.function):
        return own_loop(lambda: effect.function(effect.value))
    return effect.function(effect.value)


async def _aperform(effect: Perform, left: float | None) -> Any:
    from graphexec.awaiting import from_thread

    del left
    if inspect.iscoroutinefunction(effect.function):
        return await effect.function(effect.value)
    return await from_thread(lambda: effect.function(effect.value))


PERFORMING = Handler(_perform, _aperform)


def handlers_for(answers: Mapping[type[Effect[Any]], Answer]) -> Handlers:
    """Make handlers of `answers`, and add the one that performs opaque nodes.

    Raises `InputError` for a key that is no class of effects, and for an answer that cannot be called.
    """
    # Users without a type checker write {"Fetch": fetch} and {Fetch: page}.
    for effect, answer in answers.items():
        if not isinstance(effect, type) or not issubclass(effect, Effect):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"handlers has the key {effect!r}; write the class of an effect")
        if not isinstance(answer, Handler) and not callable(answer):
            raise InputError(f"{effect.__name__} is answered by {answer!r}; give a function from it to its reply")
    return {Perform: PERFORMING, **{effect: answering(answer) for effect, answer in answers.items()}}


def handler_of(handlers: Handlers, effect: object) -> Handler:
    """Return who answers `effect`. Raises `NoHandler` if nobody does."""
    # The keys are classes of effects; any class may be looked up.
    kind: Any = type(effect)
    try:
        return handlers[kind]
    except KeyError:
        raise NoHandler(effect) from None
