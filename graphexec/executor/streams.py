"""Convert a run's events to LangChain's chunks (`actions`, `steps`, `output`), or to the text of the final answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, final

from graphexec.actions import AgentAction, AgentFinish, AgentStep, StoppedResponse, steps_of
from graphexec.agents import Agent
from graphexec.agents.images import observation_images
from graphexec.agents.reading.answers import AnswerReader
from graphexec.effects import CallTool, ModelEffect, ToolResult
from graphexec.executor.iteration import StepTracker, calls_tools
from graphexec.executor.result import Ending
from graphexec.executor.rules import answer_repeats, avoid_dummies
from graphexec.executor.table import (
    Acted,
    Observed,
    Ready,
    Replied,
    check_return_direct,
    dispatch_tools,
    generate_response,
    make_step,
    parse,
    parse_or_raise,
    plan,
)
from graphexec.kernel.effects import Request
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Reported
from graphexec.kernel.graph import Graph
from graphexec.kernel.node import END, Node
from graphexec.kernel.snapshot import Snapshot
from graphexec.messages import AssistantMessage, Message, ReplyDelta, ToolMessage, UserMessage
from graphexec.messages.observations import format_observation
from graphexec.messages.replies import VERY_LONG

# Any: the values of a chunk have several types.
Chunk: TypeAlias = dict[str, Any]


@final
class ChunkBuilder:
    """Converts the events of one run of `graph` to chunks.

    - `{"actions": [action], "messages": [...]}`: an action, before any tool of its step runs.
    - `{"steps": [step], "messages": [...]}`: a step, when its tool has returned, or a parse error, which has no action.
    - `{"output": ..., "messages": [...]}`: the ending; with `with_steps`, it has `intermediate_steps`, too.

    Steps up to the snapshot `start` are not converted again. If tools run concurrently, steps come in the order in
    which the tools return. If a user's node calls the tools, or may change their results, the steps come when that node
    is left, in the order of the actions. If a node carries out actions without asking for an effect, they come right
    before their steps.
    """

    __slots__ = ("_acting", "_announced", "_dispatching", "_emitted", "_graph", "_new", "_pending", "_with_steps")

    def __init__(self, graph: Graph[Any, Any], *, with_steps: bool = False, start: Snapshot | None = None) -> None:
        value = None if start is None else start.value
        self._graph = graph
        self._with_steps = with_steps
        self._new = StepTracker(steps_of(value))
        # Actions of the last decision: those not announced yet, and those announced without a step. A dispatching node
        # may pass on the rest as another `Acted`.
        self._pending = value.actions if isinstance(value, Acted) else ()
        self._announced: list[AgentAction] = []
        # The nodes whose tool results become steps unchanged, the actions of the current one without a result, and
        # those of its actions whose steps have been emitted.
        self._dispatching = _dispatching_nodes(graph)
        self._acting = list(self._pending)
        self._emitted: list[AgentAction] = []

    def convert(self, event: Event[Ending]) -> list[Chunk]:
        """Return the chunks of an event."""
        match event:
            case Entered(_, value):
                return self._enter(value)
            case Asked(node, effect) if self._pending and _dispatches(self._graph[node], effect):
                chunks, self._pending = self._announce(self._pending), ()
                return chunks
            case Answered(node, CallTool() as called, ToolResult() as result):
                return self._emit_step(called, result) if node in self._dispatching else []
            case Done(ending):
                return [*self._step_chunks(ending), self._last_chunk(ending)]
            case _:
                return []

    def _enter(self, value: object) -> list[Chunk]:
        chunks = self._step_chunks(value)
        match value:
            case Acted(_, actions):
                self._acting = list(actions)
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
        return chunks + [_step_chunk(step) for step in steps if not self._take_emitted(step.action)]

    def _take_emitted(self, action: AgentAction) -> bool:
        """Return whether the step of an action was emitted when its tool returned, and forget it."""
        place = next((place for place, emitted in enumerate(self._emitted) if emitted is action), None)
        if place is not None:
            del self._emitted[place]
        return place is not None

    def _emit_step(self, called: CallTool, result: ToolResult) -> list[Chunk]:
        """Return the chunk of an action's step as soon as its tool returns; the run adds the step later.

        Actions are found by their content, because those that a rule forbids are not called.
        """
        wanted = (called.name, called.tool_input, called.call_id)
        for place, action in enumerate(self._acting):
            if (action.tool, action.tool_input, action.call_id) == wanted:
                del self._acting[place]
                self._emitted.append(action)
                return [_step_chunk(make_step(action, result))]
        # A call of another action: its step comes when the node is left.
        return []

    def _announce(self, actions: Sequence[AgentAction]) -> list[Chunk]:
        """Return the chunks of the actions that have not been announced."""
        new = _without(self._announced, actions)
        self._announced += new
        return [{"actions": [action], "messages": model_messages(action)} for action in new]

    def _last_chunk(self, ending: Ending) -> Chunk:
        values: Chunk = dict(ending.return_values) if isinstance(ending, AgentFinish) else {"output": ending.output}
        if self._with_steps:
            values["intermediate_steps"] = pairs(ending.steps)
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


def pairs(steps: Any) -> list[tuple[AgentAction, Any]]:
    """Return steps as LangChain's `intermediate_steps`: a list of `(action, observation)`."""
    return [(step.action, step.observation) for step in steps]


def model_messages(action: AgentAction) -> list[Message]:
    """Return the messages in which the model chose an action."""
    return [action.message or AssistantMessage(action.log)]


def _step_chunk(step: AgentStep) -> Chunk:
    return {"steps": [step], "messages": [_observation_message(step)]}


def _observation_message(step: AgentStep) -> Message:
    call_id, text, images = step.action.call_id, step.text, observation_images(step)
    return UserMessage(text, images) if call_id is None else ToolMessage(call_id, text, images)


# The node that stores an ending, and returns it unchanged.
_SAVE = "save_memory"


def _ends_with(graph: Graph[Any, Any], source: str, outcome: type) -> bool:
    """Return whether a node's `outcome` ends the run unchanged: no later node may change or withhold it."""
    target = _find_target(graph, source, outcome)
    # In an embedded agent, the node is `inner.save_memory`.
    if target.rpartition(".")[2] == _SAVE:
        target = _find_target(graph, target, outcome)
    return target == END.name


def _find_target(graph: Graph[Any, Any], source: str, outcome: type) -> str:
    return next((edge.target for edge in graph.edges if edge.source == source and edge.outcome is outcome), "")


def _is_stock(source: Node[Any, Any], *stock: Node[Any, Any]) -> bool:
    """Return whether a node is one of `stock`, perhaps renamed; a wrapped node may behave differently."""
    return any(source.function is one.function for one in stock)


def _dispatching_nodes(graph: Graph[Any, Any]) -> frozenset[str]:
    """Return the executor's own nodes that call tools and whose results become steps unchanged."""
    found = {one.name: _find_target(graph, one.name, Observed) for one in graph if _is_stock(one, dispatch_tools)}
    return frozenset(name for name, to in found.items() if to in graph and _is_stock(graph[to], check_return_direct))


_RULES = (avoid_dummies, answer_repeats)


def _answering_nodes(graph: Graph[Any, Any]) -> frozenset[str]:
    """Return the nodes whose model reply, if it is an answer, is the final one: no later node can withhold it."""
    found: set[str] = set()
    for source in graph:
        if _is_stock(source, plan, *_RULES):
            reads = _find_target(graph, source.name, Replied)
            # The nodes of the rules pass an answer on.
            for rule in _RULES:
                if reads in graph and _is_stock(graph[reads], rule):
                    reads = _find_target(graph, reads, Replied)
            if (
                reads in graph
                and _is_stock(graph[reads], parse, parse_or_raise)
                and _ends_with(graph, reads, AgentFinish)
            ):
                found.add(source.name)
        elif _is_stock(source, generate_response) and _ends_with(graph, source.name, StoppedResponse):
            found.add(source.name)
    return frozenset(found)


def _agent_of(source: Node[Any, Any], agent: Agent) -> Agent:
    """Return the agent of a node: an embedded executor has its own."""
    return next((one for one in source.settings or () if isinstance(one, Agent)), agent)


@final
class AnswerDiscarded(str):
    """A piece of a streamed answer, a line break: the pieces before it are not a part of the answer.

    A loop that prints the pieces leaves them on the screen.
    """

    __slots__ = ()


@final
class AnswerExtractor:
    """Extracts the pieces of the final answer from the events of one run of `graph`.

    The pieces after the last `AnswerDiscarded`, or all of them if there is none, are together exactly the answer. It is
    a string, a line break, that comes as soon as it is known that the pieces before it are not a part of the answer:
    when the reply with them calls a tool or cannot be read. A tool-calling agent's text is passed on when it arrives,
    because no protocol says beforehand whether a call follows; models often write a sentence before a call.

    The answer comes in one piece if only the complete reply shows that it is one (in JSON, `action` must come first; a
    tool-calling agent's text that begins like JSON, a fence or a tag may be a call), if a node of the graph may still
    change or withhold it, or if a limit stopped the run.
    """

    __slots__ = ("_agent", "_emitted", "_graph", "_nodes", "_read")

    def __init__(self, agent: Agent, graph: Graph[Any, Any]) -> None:
        self._agent = agent
        self._graph = graph
        self._nodes = _answering_nodes(graph)
        # The pieces since the last discard.
        self._emitted: list[str] = []
        self._read: AnswerReader | None = None

    def extract(self, event: Event[Ending]) -> Sequence[str]:
        """Return the pieces of the answer in an event."""
        match event:
            case Entered(_, Acted() | Ready()):
                return self._discard()
            case Asked(node, ModelEffect()):
                answers = _agent_of(self._graph[node], self._agent).answer if node in self._nodes else None
                self._read = None if answers is None else answers()
                return self._discard()
            case Answered():
                self._read = None
            case Reported(_, ModelEffect(), ReplyDelta(content)) if self._read is not None:
                if len(content) > VERY_LONG:
                    # It would take long to read: the answer comes in one piece.
                    self._read = None
                    return ()
                return self._emit(self._read(content))
            case Done(ending):
                answer = format_observation(ending.answer if isinstance(ending, AgentFinish) else ending.output)
                if answer.startswith(emitted := "".join(self._emitted)):
                    return self._emit(answer[len(emitted) :])
                return [*self._discard(), *self._emit(answer)]
            case _:
                pass
        return ()

    def _emit(self, piece: str) -> Sequence[str]:
        if not piece:
            return ()
        self._emitted.append(piece)
        return [piece]

    def _discard(self) -> Sequence[str]:
        discarded, self._emitted = self._emitted, []
        return [AnswerDiscarded("\n")] if discarded else ()
