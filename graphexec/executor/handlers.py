"""The handlers of an agent's effects: a model answers `CallModel`, a function `CallAgent`, a memory its two."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from graphexec.actions import AgentAction, AgentFinish, Run, Steps, extending
from graphexec.agents import Agent
from graphexec.effects import CallAgent, CallModel, CallTool, Decided, LoadMemory, SaveMemory, Unreadable
from graphexec.errors import AgentError, InputError, ParseError, TurnTimeoutError, format_value
from graphexec.kernel.effects import CallContext, Effect
from graphexec.kernel.execution import Cut
from graphexec.kernel.graph import Graph
from graphexec.messages import Model, ModelReply, check_reply
from graphexec.runtime.calls import hold_over_fork
from graphexec.runtime.handlers import Handler, HandlerLike
from graphexec.runtime.io import IO
from graphexec.runtime.progress import report, wait_for_capacity, wants_pieces
from graphexec.runtime.threads import NOT_DONE, NotDone, check_cancelled, wait_for
from graphexec.tools import AnyTool

if TYPE_CHECKING:
    from graphexec.memory import Memory

# Runs extend their steps in whatever thread they are in.
hold_over_fork(extending)


@final
@dataclass(frozen=True, slots=True)
class Binding:
    """The agent that an executor's graph is bound to, and by the class of each effect what answers it."""

    agent: Agent
    # Models, functions, and tools by name.
    answers: Mapping[type[Effect[Any]], object]

    @classmethod
    def of(
        cls,
        agent: Agent,
        tools: Mapping[str, AnyTool],
        memory: Memory | None,
        handlers: Mapping[type[Effect[Any]], HandlerLike],
    ) -> Binding:
        """Return the binding of an executor with these; `handlers` come before the others."""
        answers: dict[type[Effect[Any]], object] = {CallModel: agent.model, CallAgent: agent.function, CallTool: tools}
        answers |= {LoadMemory: memory, SaveMemory: memory, **handlers}
        return cls(agent, {kind: answer for kind, answer in answers.items() if answer is not None})

    def require_same(self, graph: Graph[Any, Any]) -> None:
        """Raise `InputError` if nodes are bound to another agent, or if what they ask would be answered otherwise."""
        faults: dict[str, list[str]] = {}
        for node in graph:
            for difference in dict.fromkeys(found for one in node.bound for found in self._differences(one)):
                faults.setdefault(difference, []).append(node.name)
        if faults:
            nodes = list(dict.fromkeys(name for names in faults.values() for name in names))
            raise InputError(
                f"{', '.join(nodes)} {'is' if len(nodes) == 1 else 'are'} bound to {' and '.join(faults)} than this "
                "executor's; to run an agent with its own, give inner.as_tool(name, description) to tools, or embed a "
                "table that is bound to no executor, such as AGENT_EXECUTOR, which runs with this executor's"
            )

    def _differences(self, setting: object) -> list[str]:
        match setting:
            case Agent():
                return [] if _is_same_agent(setting, self.agent) else ["another agent"]
            case Binding(agent, answers):
                if not _is_same_agent(agent, self.agent):
                    # Its model is another one, too.
                    answers = {kind: answer for kind, answer in answers.items() if kind not in (CallModel, CallAgent)}
                return [
                    "other tools" if kind is CallTool else f"another handler of {kind.__name__}"
                    for kind, answer in answers.items()
                    if answer is not self.answers.get(kind) and answer != self.answers.get(kind)
                ]
            case _:
                return []


def _is_same_agent(one: Agent, other: Agent) -> bool:
    """Return true for an agent and itself, and for two that were made of one function."""
    return one is other or (one.function is not None and one.function == other.function)


# Seconds that a model has beyond the run's deadline: the runner cuts it there, which stops the run; the model's own
# timeout, an error, only ends a call that nobody waits for any more.
_BEYOND = 1.0


def asking_model(model: Model) -> Handler:
    """Answer `CallModel` with a model. One that has `instant = True` is called without a thread or a task."""
    # Any: a protocol with these two would refuse the models that cannot stream.
    stream: Any = getattr(model, "stream", None)
    astream: Any = getattr(model, "astream", None)
    name = type(model).__name__

    async def answer(effect: CallModel, call: CallContext[Any], io: IO) -> ModelReply | Cut:
        left = call.seconds_left
        timeout = None if left is None else left + _BEYOND
        try:
            if wants_pieces() and (stream if io.blocking else astream) is not None:
                return check_reply(await in_pieces(effect, timeout, io), name)
            if io.blocking:
                return check_reply(model.complete(effect.request, timeout=timeout), name)
            return check_reply(await model.acomplete(effect.request, timeout=timeout), name)
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
                check_cancelled()
                if not isinstance(last, ModelReply):
                    report(last)
                    if not io.blocking:
                        await wait_for_capacity()
        return last

    return Handler(answer, instant=bool(getattr(model, "instant", False)))


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

    async def answer(effect: CallAgent, call: CallContext[Any], io: IO) -> Decided:
        del call
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


def answers_of(agent: Agent, memory: Memory | None) -> dict[type[Effect[Any]], HandlerLike]:
    """Return what answers the effects of an agent and of a memory."""
    answers: dict[type[Effect[Any]], HandlerLike] = {}
    if agent.model is not None:
        answers[CallModel] = asking_model(agent.model)
    if agent.function is not None:
        answers[CallAgent] = asking_agent(agent.function)
    if memory is not None:
        answers |= {LoadMemory: loading(memory), SaveMemory: saving(memory)}
    return answers


def loading(memory: Memory) -> Handler:
    """Answer `LoadMemory` with a memory: by `load` in sync runs, by `aload` in async ones."""

    async def answer(effect: LoadMemory, call: CallContext[Any], io: IO) -> Mapping[str, Any]:
        del call
        inputs = dict(effect.inputs)
        loaded = await io.either(lambda: memory.load(inputs), lambda: memory.aload(inputs))
        # A memory of the user's own may know no better.
        if not isinstance(loaded, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"the memory loaded {format_value(loaded)}; return a dict of inputs by name")
        return loaded

    return Handler(answer)


def saving(memory: Memory) -> Handler:
    """Answer `SaveMemory` with a memory: by `save` in sync runs, by `asave` in async ones.

    A save that is not done when no seconds are left is not cancelled, but left behind and reported: `MemoryNotSaved`.
    """

    async def answer(effect: SaveMemory, call: CallContext[Any], io: IO) -> Cut | None:
        values = dict(effect.inputs), dict(effect.outputs)
        left = call.seconds_left
        if left is None:
            return await io.either(lambda: memory.save(*values), lambda: memory.asave(*values))
        seconds = max(0.0, left)

        async def awaited() -> NotDone | None:
            # asyncio is half of what there is to load; a sync run never needs it.
            from graphexec.runtime.tasks import await_or_detach

            return await await_or_detach(lambda: memory.asave(*values), seconds)

        done = await io.either(lambda: wait_for(lambda: memory.save(*values), seconds), awaited)
        if done is not NOT_DONE:
            return None
        # Most runs never need it.
        from graphexec.memory import MemoryNotSaved

        report(MemoryNotSaved(seconds))
        return Cut()

    return Handler(answer, timed=True)
