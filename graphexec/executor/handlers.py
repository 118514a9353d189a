"""Handlers of an agent's effects: a model for `CallModel`, a function for `CallAgent`, a memory for its two effects."""

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

# Runs extend their steps in several threads.
hold_over_fork(extending)


@final
@dataclass(frozen=True, slots=True)
class Binding:
    """The agent that an executor's graph is bound to, and the objects that answer its effects."""

    agent: Agent
    # By the class of the effect: a model, a function, a memory, or tools by name.
    answers: Mapping[type[Effect[Any]], object]

    @classmethod
    def of(
        cls,
        agent: Agent,
        tools: Mapping[str, AnyTool],
        memory: Memory | None,
        handlers: Mapping[type[Effect[Any]], HandlerLike],
    ) -> Binding:
        """Return the binding of an executor with these; `handlers` take precedence."""
        answers: dict[type[Effect[Any]], object] = {CallModel: agent.model, CallAgent: agent.function, CallTool: tools}
        answers |= {LoadMemory: memory, SaveMemory: memory, **handlers}
        return cls(agent, {kind: answer for kind, answer in answers.items() if answer is not None})

    def require_same(self, graph: Graph[Any, Any]) -> None:
        """Raise `InputError` if nodes are bound to another agent, or if other objects would answer their effects."""
        conflicts: dict[str, list[str]] = {}
        for node in graph:
            for difference in dict.fromkeys(found for one in node.bound for found in self._differences(one)):
                conflicts.setdefault(difference, []).append(node.name)
        if conflicts:
            nodes = list(dict.fromkeys(name for names in conflicts.values() for name in names))
            raise InputError(
                f"{', '.join(nodes)} {'is' if len(nodes) == 1 else 'are'} bound to {' and '.join(conflicts)} than this "
                "executor's; to run the other agent, pass inner.as_tool(name, description) in tools; to run this "
                "executor's agent, embed a graph that is bound to no executor, such as AGENT_EXECUTOR"
            )

    def _differences(self, setting: object) -> list[str]:
        match setting:
            case Agent():
                return [] if _is_same_agent(setting, self.agent) else ["another agent"]
            case Binding(agent, answers):
                if not _is_same_agent(agent, self.agent):
                    # Another agent has another model, too: report only the agent.
                    answers = {kind: answer for kind, answer in answers.items() if kind not in (CallModel, CallAgent)}
                return [
                    "other tools" if kind is CallTool else f"another handler of {kind.__name__}"
                    for kind, answer in answers.items()
                    if answer is not self.answers.get(kind) and answer != self.answers.get(kind)
                ]
            case _:
                return []


def _is_same_agent(one: Agent, other: Agent) -> bool:
    """Return true if both are one agent, or were made of the same function."""
    return one is other or (one.function is not None and one.function == other.function)


# Seconds that a model's own timeout is longer than the time left. The runner cuts the call at the deadline, which stops
# the run; the timeout, which is an error, only ends a call that was cut already.
_EXTRA_SECONDS = 1.0


def make_model_handler(model: Model) -> Handler:
    """Return a handler that answers `CallModel` with a model.

    A model with `instant = True` is called without a thread or a task.
    """
    # Any: a protocol with both methods would exclude models that cannot stream.
    stream: Any = getattr(model, "stream", None)
    astream: Any = getattr(model, "astream", None)
    name = type(model).__name__

    async def answer(effect: CallModel, call: CallContext[Any], io: IO) -> ModelReply | Cut:
        left = call.seconds_left
        timeout = None if left is None else left + _EXTRA_SECONDS
        try:
            if wants_pieces() and (stream if io.blocking else astream) is not None:
                return check_reply(await stream_reply(effect, timeout, io), name)
            if io.blocking:
                return check_reply(model.complete(effect.request, timeout=timeout), name)
            return check_reply(await model.acomplete(effect.request, timeout=timeout), name)
        except TurnTimeoutError:
            if left is None:
                raise
            # The turn would come after the run's deadline, so the deadline cuts the call now.
            return Cut()

    async def stream_reply(effect: CallModel, timeout: float | None, io: IO) -> object:
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
        decision = function(run.steps, dict(run.inputs))
        # Iterate the generator here, where it may block.
        if type(decision) in _DECISIONS or not inspect.isgenerator(decision):
            return decision
        return _Chunks(_iterate_chunks(decision))

    async def await_decision(decision: Any) -> Any:
        return _Chunks([chunk async for chunk in decision]) if inspect.isasyncgen(decision) else await decision

    async def answer(effect: CallAgent, call: CallContext[Any], io: IO) -> Decided:
        del call
        try:
            run = effect.run
            if is_async:
                decision = await io.call_async(function, run.steps, dict(run.inputs))
            else:
                decision = decide(run) if yields_async else await io.call(decide, run)
                # A lambda may return a coroutine or an async generator.
                if type(decision) not in _DECISIONS and (inspect.iscoroutine(decision) or inspect.isasyncgen(decision)):
                    decision = await io.call_async(await_decision, decision)
        except ParseError as error:
            return Decided(Unreadable(str(error), error.observation, error.llm_output, error.prose))
        return check_decision(function, *(decision if type(decision) is _Chunks else (decision,)))

    return Handler(answer)


@final
class _Chunks(list[Any]):
    __slots__ = ()


def _iterate_chunks(generator: Generator[Any, Any, Any]) -> Iterator[Any]:
    last = yield from generator
    if last is not None:
        yield last


def check_decision(function: Callable[..., Any], *chunks: object) -> Decided:
    """Return the decision of a callable agent, joined from its chunks. Raises `AgentError` for an invalid decision."""
    # The usual case: one chunk.
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


def make_handlers(agent: Agent, memory: Memory | None) -> dict[type[Effect[Any]], HandlerLike]:
    """Return the handlers of the effects of an agent and of a memory."""
    handlers: dict[type[Effect[Any]], HandlerLike] = {}
    if agent.model is not None:
        handlers[CallModel] = make_model_handler(agent.model)
    if agent.function is not None:
        handlers[CallAgent] = make_agent_handler(agent.function)
    if memory is not None:
        handlers |= {LoadMemory: make_load_handler(memory), SaveMemory: make_save_handler(memory)}
    return handlers


def make_load_handler(memory: Memory) -> Handler:
    """Return a handler that answers `LoadMemory` with `memory.load` in sync runs, with `memory.aload` in async runs."""

    async def answer(effect: LoadMemory, call: CallContext[Any], io: IO) -> Mapping[str, Any]:
        del call
        inputs = dict(effect.inputs)
        loaded = await io.either(lambda: memory.load(inputs), lambda: memory.aload(inputs))
        # A user's memory may return another type.
        if not isinstance(loaded, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"the memory loaded {format_value(loaded)}; return a dict of inputs by name")
        return loaded

    return Handler(answer)


def make_save_handler(memory: Memory) -> Handler:
    """Return a handler that answers `SaveMemory` with `memory.save` in sync runs, with `memory.asave` in async runs.

    A save that is not done at the deadline is not cancelled: it continues in the background, and the run reports
    `MemoryNotSaved`.
    """

    async def answer(effect: SaveMemory, call: CallContext[Any], io: IO) -> Cut | None:
        values = dict(effect.inputs), dict(effect.outputs)
        left = call.seconds_left
        if left is None:
            return await io.either(lambda: memory.save(*values), lambda: memory.asave(*values))
        seconds = max(0.0, left)

        async def save_or_leave() -> NotDone | None:
            # Imported here: this imports asyncio, which is slow to load and which a sync run never needs.
            from graphexec.runtime.tasks import await_or_detach

            return await await_or_detach(lambda: memory.asave(*values), seconds)

        done = await io.either(lambda: wait_for(lambda: memory.save(*values), seconds), save_or_leave)
        if done is not NOT_DONE:
            return None
        # Imported here: most runs never need it.
        from graphexec.memory import MemoryNotSaved

        report(MemoryNotSaved(seconds))
        return Cut()

    return Handler(answer, timed=True)
