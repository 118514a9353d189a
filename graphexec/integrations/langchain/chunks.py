"""Run an executor and yield the chunks that LangChain's executor streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, final

from graphexec.actions import AgentAction, AgentFinish, AgentStep, steps_of
from graphexec.agents.images import observation_images
from graphexec.executor.console import StepTracker, calls_tools
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.inputs import Inputs
from graphexec.executor.outcomes import Acted, Observed, Ready, Replied
from graphexec.executor.result import Ending
from graphexec.kernel.effects import Request
from graphexec.kernel.events import Asked, Done, Entered, Event
from graphexec.kernel.graph import Graph
from graphexec.kernel.node import Node
from graphexec.kernel.snapshot import Snapshot
from graphexec.messages import AssistantMessage, Message, ToolMessage, UserMessage
from graphexec.runs.questions import Waiting
from graphexec.runtime.handlers import RunOptions
from graphexec.runtime.io import ASYNC, BLOCKING, IO, iterate_sync

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from graphexec.runtime.handlers import RunSettings

# Any: the values of a chunk have several types.
Chunk: TypeAlias = dict[str, Any]


def stream_chunks(
    executor: AgentExecutor[Any], inputs: Inputs | Snapshot, **options: Unpack[RunSettings]
) -> Generator[Chunk, None, None]:
    """Run an executor and yield LangChain's chunks: `actions`, `steps`, and finally the `output`; see `ChunkBuilder`.

    The options and the errors raised are those of `executor.stream`, and `RunStoreError` for a run that has to wait.
    """
    # An invalid option is reported here, not when the run begins.
    RunOptions(**options)
    return iterate_sync(_convert(executor, inputs, BLOCKING, options))


def astream_chunks(
    executor: AgentExecutor[Any], inputs: Inputs | Snapshot, **options: Unpack[RunSettings]
) -> AsyncGenerator[Chunk, None]:
    """Run like `stream_chunks`, on the running event loop."""
    RunOptions(**options)
    return _convert(executor, inputs, ASYNC, options)


async def _convert(
    executor: AgentExecutor[Any], inputs: Inputs | Snapshot, io: IO, options: RunSettings
) -> AsyncGenerator[Chunk, None]:
    start = inputs if isinstance(inputs, Snapshot) else None
    chunks = ChunkBuilder(executor.graph, with_steps=executor.return_intermediate_steps, start=start)
    forms = partial(executor.stream, inputs, **options), partial(executor.astream, inputs, **options)
    # Any: the last item of a stored run may be a `Waiting`.
    event: Any
    async with aclosing(io.iterate(*forms)) as events:
        async for event in events:
            if isinstance(event, Waiting):
                raise event.to_error()
            for chunk in chunks.convert(event):
                yield chunk


@final
class ChunkBuilder:
    """Converts the events of one run of `graph` to chunks.

    - `{"actions": [action], "messages": [...]}`: an action, before any tool of its step runs.
    - `{"steps": [step], "messages": [...]}`: a step, when all tools of its turn have returned, or a parse error,
      without an action.
    - `{"output": ..., "messages": [...]}`: the ending; with `with_steps`, it has `intermediate_steps`, too.

    Steps up to the snapshot `start` are not converted again. If a node carries out actions without asking for an
    effect, they come right before their steps.
    """

    __slots__ = ("_announced", "_graph", "_new", "_pending", "_with_steps")

    def __init__(self, graph: Graph[Any, Any], *, with_steps: bool = False, start: Snapshot | None = None) -> None:
        value = None if start is None else start.value
        self._graph = graph
        self._with_steps = with_steps
        self._new = StepTracker(steps_of(value))
        # Actions of the last decision: those not announced yet, and those announced without a step. A dispatching node
        # may pass on the rest as another `Acted`.
        self._pending = value.actions if isinstance(value, Acted) else ()
        self._announced: list[AgentAction] = []

    def convert(self, event: Event[Ending]) -> list[Chunk]:
        """Return the chunks of an event."""
        match event:
            case Entered(_, value):
                return self._enter(value)
            case Asked(node, effect) if self._pending and _dispatches(self._graph[node], effect):
                chunks, self._pending = self._announce(self._pending), ()
                return chunks
            case Done(ending):
                return [*self._step_chunks(ending), self._last_chunk(ending)]
            case _:
                return []

    def _enter(self, value: object) -> list[Chunk]:
        chunks = self._step_chunks(value)
        match value:
            case Acted(_, actions):
                self._pending = tuple(_without(self._announced, actions))
            # If nothing was announced, another agent may have carried them out.
            case Observed(_, actions, _) if self._pending or not self._announced:
                chunks += self._announce(actions)
                self._pending = ()
            case Ready() | Replied():
                self._pending = ()
                self._announced.clear()
            case _:
                pass
        return chunks

    def _step_chunks(self, value: object) -> list[Chunk]:
        steps = self._new.take_new(steps_of(value))
        carried_out = [step.action for step in steps if self._pending and step.status != "parse_error"]
        chunks = self._announce(carried_out)
        self._announced = _without([step.action for step in steps], self._announced)
        return chunks + [{"steps": [step], "messages": [_observation_message(step)]} for step in steps]

    def _announce(self, actions: Sequence[AgentAction]) -> list[Chunk]:
        """Return the chunks of the actions that have not been announced."""
        new = _without(self._announced, actions)
        self._announced += new
        return [{"actions": [action], "messages": [action.message or AssistantMessage(action.log)]} for action in new]

    def _last_chunk(self, ending: Ending) -> Chunk:
        values: Chunk = dict(ending.return_values) if isinstance(ending, AgentFinish) else {"output": ending.output}
        if self._with_steps:
            values["intermediate_steps"] = [(step.action, step.observation) for step in ending.steps]
        log = ending.log if isinstance(ending, AgentFinish) else ""
        return {**values, "messages": [AssistantMessage(log)]}


def _without(known: Sequence[AgentAction], actions: Sequence[AgentAction]) -> list[AgentAction]:
    """Return the actions that are not in `known`, compared by identity, with duplicates counted."""
    left = list(map(id, known))
    new: list[AgentAction] = []
    for action in actions:
        if id(action) in left:
            left.remove(id(action))
        else:
            new.append(action)
    return new


def _dispatches(source: Node[Any, Any], effect: Request) -> bool:
    """Return whether a node carries out actions by asking for this effect.

    A node that may also pass the actions on may only approve them: for such a node, the effect must call a tool.
    """
    observes = Observed in source.outcomes
    if Acted in source.outcomes:
        return observes and calls_tools(effect)
    return observes or calls_tools(effect)


def _observation_message(step: AgentStep) -> Message:
    call_id, text, images = step.action.call_id, step.text, observation_images(step)
    return UserMessage(text, images) if call_id is None else ToolMessage(call_id, text, images)
