"""The class that takes the place of LangChain's `AgentExecutor`, and its iterator."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, closing
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from graphexec.errors import InputError
from graphexec.kernel.events import Answered, Done, Moved
from graphexec.kernel.meters import Spent
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.surgery import same
from graphexec.runtime.emission import emit, stream_async, stream_sync
from graphexec.runtime.io import ASYNC, BLOCKING, run_sync

try:
    from langchain_classic.agents import agent as langchain
    from langchain_classic.agents.agent_iterator import AgentExecutorIterator as LangChainIterator
    from langchain_core.agents import AgentAction, AgentStep
    from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
    from langchain_core.load.dump import dumpd
    from langchain_core.runnables import ensure_config
    from langchain_core.runnables.utils import AddableDict
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"langchain_core", "langchain_classic"}:
        raise
    remedy = "install it with pip install 'graphexec-agents[langchain-classic]'"
    raise InputError(f"the package langchain-classic, which has LangChain's executor, is missing; {remedy}") from None

from graphexec.integrations.langchain.dropin.machine import (
    LANGCHAIN_EXECUTOR,
    ToolReturn,
    ToolsChosen,
    TurnReady,
    TurnsFinished,
    TurnsStopped,
    prove,
)
from graphexec.integrations.langchain.dropin.turns import Turns

if TYPE_CHECKING:
    from pathlib import Path

    from graphexec.machine import Machine
    from graphexec.verify import Verdict


# LangChain's own loop, whose place the machine takes; a subclass that overrides a part of it would wait in vain.
_LOOP = {
    *("_aiter_next_step", "_aperform_agent_action", "_atake_next_step", "_consume_next_step", "_get_tool_return"),
    *("_iter_next_step", "_perform_agent_action", "_should_continue", "_take_next_step"),
}


class AgentExecutor(langchain.AgentExecutor):
    """LangChain's `AgentExecutor`, with its fields, methods and results; the loop is a machine of this package.

    `graph` is that machine, `verify` proves that every run ends within `max_iterations`, and `draw` writes a picture of
    both. `max_execution_time` is in seconds.

    `compat="langchain"` keeps LangChain's odd cases, too; docs/semantics.md lists them.
    """

    compat: Literal["langchain"] | None = None
    # No property, which would hide a field of this name in a subclass.
    graph: ClassVar[Machine[TurnReady, TurnsFinished | TurnsStopped]] = LANGCHAIN_EXECUTOR

    # Any: the arguments of a class statement.
    def __init_subclass__(cls, **options: Any) -> None:
        """Raise `InputError` for a class that overrides a part of LangChain's loop, which does not run here."""
        if unused := sorted(name for name in _LOOP if getattr(cls, name) is not getattr(langchain.AgentExecutor, name)):
            raise InputError(
                f"{cls.__name__} overrides {', '.join(unused)} of LangChain's loop, which does not run here; put it "
                "into the agent's plan or into a tool, or stay with langchain_classic.agents.AgentExecutor"
            )
        super().__init_subclass__(**options)

    def verify(self) -> Verdict:
        """Return the proof that every run ends within `max_iterations`, or why there is none.

        It promises no time: a sync run notices `max_execution_time` between two turns only.
        """
        return prove(self.max_iterations, self.max_execution_time if self.max_iterations is None else None)

    def draw(self, path: str | Path, *, format: str | None = None) -> Path:  # noqa: A002 - as in `Machine.draw`
        """Write a picture of the machine and its proof to a file; return the path. See `Machine.draw`."""
        return LANGCHAIN_EXECUTOR.draw(path, limits=self.verify().limits, format=format)

    # Any, here and below: as in LangChain's class, whose annotations are incomplete.
    def _call(self, inputs: dict[str, Any], run_manager: Any = None) -> dict[str, Any]:
        turns = Turns(self, inputs, run_manager, BLOCKING)
        ending = run_sync(turns.follow(TurnReady(), _outcome))
        finish, steps = turns.finish_of(ending), [*ending.steps]
        return self._return(finish, steps, run_manager)  # pyright: ignore[reportUnknownMemberType]

    async def _acall(self, inputs: dict[str, Any], run_manager: Any = None) -> dict[str, Any]:
        turns = Turns(self, inputs, run_manager, ASYNC)
        try:
            ending = await turns.follow(TurnReady(), _outcome)
        except TimeoutError as error:
            ending = turns.stopped_by(error)
        finish, steps = turns.finish_of(ending), [*ending.steps]
        return await self._areturn(finish, steps, run_manager)  # pyright: ignore[reportUnknownMemberType]

    def iter(
        self, inputs: Any, callbacks: Any = None, *, include_run_info: bool = False, async_: bool = False
    ) -> AgentExecutorIterator:
        """Return an iterator over the steps of a run, sync and async."""
        del async_
        return AgentExecutorIterator(self, inputs, callbacks, tags=self.tags, include_run_info=include_run_info)

    def _iterator(self, given: Any, config: Any, options: Mapping[str, Any]) -> AgentExecutorIterator:
        config = ensure_config(config)
        known = {key: config.get(key) for key in ("tags", "metadata", "run_name", "run_id")}
        return AgentExecutorIterator(self, given, config.get("callbacks"), yield_actions=True, **known, **options)

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[AddableDict]:  # noqa: A002
        """Run, and yield each action, each step and the outputs."""
        yield from self._iterator(input, config, kwargs)

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[AddableDict]:  # noqa: A002
        """Run like `stream`, on the running event loop."""
        async for chunk in self._iterator(input, config, kwargs):
            yield chunk


def _outcome(done: Done[Any]) -> Any:
    return done.outcome


class AgentExecutorIterator(LangChainIterator):
    """LangChain's iterator over the steps of a run. Between two turns, the run may be changed through it."""

    # Any: a property of LangChain's class, whose executor is one of this module here.
    if TYPE_CHECKING:
        agent_executor: Any

    def _begin(self, managers: type[CallbackManager | AsyncCallbackManager]) -> Any:
        self.reset()
        executor = self.agent_executor
        own = (self.tags, executor.tags, self.metadata, executor.metadata)
        manager: Any = managers.configure(self.callbacks, executor.callbacks, executor.verbose, *own)
        return manager.on_chain_start(dumpd(executor), self.inputs, self.run_id, name=self.run_name)

    def _chunks(self, event: Any, turns: Turns) -> Iterator[AddableDict]:
        """Take in the steps of an event, and yield what LangChain yields then."""
        outcome = event.outcome if isinstance(event, Moved) else None
        new, observed = list[AgentAction | AgentStep](), list[Any]()
        if isinstance(outcome, ToolsChosen) and not outcome.unreadable:
            new += outcome.actions
        elif turns.io.blocking and isinstance(event, Answered) and isinstance(event.reply, ToolReturn):
            new.append(AgentStep(action=event.reply.action, observation=event.reply.observation))
        elif isinstance(outcome, (TurnReady, TurnsFinished)):
            observed += outcome.steps[turns.seen :]
            if not turns.io.blocking:
                # Now, as LangChain yields the steps of concurrent calls in the order of the actions.
                new += [AgentStep(action=action, observation=result) for action, result in observed]
        for item in new if self.yield_actions else ():
            key = "actions" if isinstance(item, AgentAction) else "steps"
            yield AddableDict({key: [item], "messages": item.messages})
        if isinstance(outcome, (TurnReady, TurnsFinished)):
            self.intermediate_steps += observed
            self.update_iterations()
            # What the consumer has done with the chunks of this turn takes time, too.
            turns.now = time.monotonic()
            turns.seen, turns.iterations = len(outcome.steps), self.iterations
            if isinstance(outcome, TurnReady) and not self.yield_actions:
                yield AddableDict(intermediate_step=observed)

    def _changed(self, event: Any, turns: Turns) -> Snapshot | None:
        """Return where to go on from if the steps, the iterations or the limits were changed since this event."""
        if not isinstance(event, Moved) or not isinstance(event.outcome, TurnReady):
            return None
        steps = tuple(self.intermediate_steps)
        turns.change(self.agent_executor, self.inputs)
        is_same = len(steps) == turns.seen and all(map(is_, steps, event.outcome.steps))
        if is_same and turns.verdict is turns.prove() and turns.iterations == self.iterations:
            return None
        turns.seen = len(steps)
        return Snapshot("plan", TurnReady(steps), spent=Spent(iterations=self.iterations, seconds=self.time_elapsed))

    def __iter__(self) -> Iterator[AddableDict]:
        """Run, and yield each step, or with `yield_actions` each action and each step; then the outputs."""
        manager = self._begin(CallbackManager)
        turns = Turns(self.agent_executor, self.inputs, manager, BLOCKING)
        try:
            start: TurnReady | Snapshot | None = TurnReady()
            event: Any = None
            while start is not None:
                begin, start = start, None
                with closing(stream_sync(partial(turns.follow, begin, same, emit))) as events:
                    for event in events:
                        yield from self._chunks(event, turns)
                        if (start := self._changed(event, turns)) is not None:
                            break
            if isinstance(event.outcome, TurnsFinished):
                yield self._return(turns.finish_of(event.outcome), manager)
                return
        except BaseException as error:
            manager.on_chain_error(error)
            raise
        yield self._stop(manager)

    async def __aiter__(self) -> AsyncIterator[AddableDict]:
        """Run as in `__iter__`, on the running event loop."""
        manager = await self._begin(AsyncCallbackManager)
        turns = Turns(self.agent_executor, self.inputs, manager, ASYNC)
        try:
            start: TurnReady | Snapshot | None = TurnReady()
            event: Any = None
            while start is not None:
                begin, start = start, None
                async with aclosing(stream_async(partial(turns.follow, begin, same, emit))) as events:
                    async for event in events:
                        for chunk in self._chunks(event, turns):
                            yield chunk
                        if (start := self._changed(event, turns)) is not None:
                            break
            if isinstance(event.outcome, TurnsFinished):
                yield await self._areturn(turns.finish_of(event.outcome), manager)
                return
        except BaseException as error:
            if not isinstance(error, TimeoutError) or not turns.is_odd:
                await manager.on_chain_error(error)
                raise
        yield await self._astop(manager)
