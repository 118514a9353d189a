"""A run's events as the chunks that LangChain's executor streams: `actions`, `steps`, `output`, `messages`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias, final

from graphexec.actions import AgentAction, AgentFinish, AgentStep, StoppedResponse, steps_of
from graphexec.agents import Agent
from graphexec.agents.answers import AnswerReader
from graphexec.agents.prompt import observation_text
from graphexec.effects import CallModel, CallTool, ToolResult
from graphexec.executor.iteration import NewSteps, calls_tools
from graphexec.executor.result import Ending
from graphexec.executor.table import (
    Acted,
    Observed,
    Ready,
    Replied,
    check_return_direct,
    dispatch_tools,
    generate_response,
    parse,
    parse_or_raise,
    plan,
    step_of,
)
from graphexec.kernel.effects import CallContext, Request
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Reported
from graphexec.kernel.graph import Graph
from graphexec.kernel.node import END, Node
from graphexec.kernel.snapshot import Snapshot
from graphexec.messages import AssistantMessage, Message, ReplyDelta, ToolMessage, UserMessage
from graphexec.tools.formatting import format_observation

# A chunk's values are of several kinds.
Chunk: TypeAlias = dict[str, Any]


@final
class Chunks:
    """Turns the events of one run of `graph` into chunks.

    Each action is a chunk before any tool of its step runs, `{"actions": [action], "messages": [...]}`; each step is
    one when its tool has returned, `{"steps": [step], "messages": [...]}`, also a parse error, which had no action; the
    last is `{"output": ..., "messages": [...]}`, `with_steps` with `intermediate_steps`. Steps up to `start` are not
    new.

    Of tools that run at once the first to return is the first step. Where a node of one's own calls the tools, or may
    change what they returned, the steps come when that node is left, in the order of the actions. The actions of a node
    that dispatches them without asking for anything come right before their steps.
    """

    __slots__ = ("_acting", "_announced", "_dispatching", "_given", "_graph", "_new", "_pending", "_with_steps")

    def __init__(self, graph: Graph[Any, Any], *, with_steps: bool = False, start: Snapshot | None = None) -> None:
        value = None if start is None else start.value
        self._graph = graph
        self._with_steps = with_steps
        self._new = NewSteps(steps_of(value))
        # Of the last decision, the actions that are not announced, and those that are and have no step yet. A
        # dispatching node may hand on the rest as another `Acted`.
        self._pending = value.actions if isinstance(value, Acted) else ()
        self._announced: list[AgentAction] = []
        # Nodes whose tools' results are the steps as they are; the actions of the one that the run is at; and of these
        # those whose step is a chunk already.
        self._dispatching = _dispatching_nodes(graph)
        self._acting = self._pending
        self._given: list[AgentAction] = []

    def of(self, event: Event[Ending]) -> list[Chunk]:
        """The chunks that an event brings."""
        match event:
            case Entered(_, value):
                return self._enter(value)
            case Asked(node, effect) if self._pending and _dispatches(self._graph[node], effect):
                chunks, self._pending = self._announce(self._pending), ()
                return chunks
            case Answered(node, CallTool(), ToolResult() as result, call=CallContext(member=member)):
                return self._give(member, result) if node in self._dispatching else []
            case Done(ending):
                return [*self._step_chunks(ending), self._last(ending)]
            case _:
                return []

    def _enter(self, value: object) -> list[Chunk]:
        chunks = self._step_chunks(value)
        match value:
            case Acted(_, actions):
                self._acting = actions
                self._pending = tuple(_without(self._announced, actions))
            # Where nothing was announced, another agent may have carried them out.
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
        steps = self._new.of(steps_of(value))
        carried_out = [step.action for step in steps if self._pending and step.status != "parse_error"]
        chunks = self._announce(carried_out)
        self._announced = _without([step.action for step in steps], self._announced)
        return chunks + [_step_chunk(step) for step in steps if not self._take_given(step.action)]

    def _take_given(self, action: AgentAction) -> bool:
        """Return whether the step of an action was a chunk when its tool returned."""
        place = next((place for place, given in enumerate(self._given) if given is action), None)
        if place is not None:
            del self._given[place]
        return place is not None

    def _give(self, member: int, result: ToolResult) -> list[Chunk]:
        """The step of an action, whose tool has returned; the run has it when the node is left."""
        action = self._acting[member]
        self._given.append(action)
        return [_step_chunk(step_of(action, result))]

    def _announce(self, actions: Sequence[AgentAction]) -> list[Chunk]:
        """The chunks of those of the actions that had none yet."""
        new = _without(self._announced, actions)
        self._announced += new
        return [{"actions": [action], "messages": model_messages(action)} for action in new]

    def _last(self, ending: Ending) -> Chunk:
        values: Chunk = dict(ending.return_values) if isinstance(ending, AgentFinish) else {"output": ending.output}
        if self._with_steps:
            values["intermediate_steps"] = pairs(ending.steps)
        log = ending.log if isinstance(ending, AgentFinish) else ""
        return {**values, "messages": [AssistantMessage(log)]}


def _without(known: Sequence[AgentAction], actions: Sequence[AgentAction]) -> list[AgentAction]:
    """The actions that `known` does not hold, duplicates counted; by identity, as two decisions may be equal."""
    left = list(map(id, known))
    new: list[AgentAction] = []
    for action in actions:
        if id(action) in left:
            left.remove(id(action))
        else:
            new.append(action)
    return new


def _dispatches(source: Node[Any, Any], effect: Request) -> bool:
    """Return true if a node carries actions out by asking for this effect.

    A node that may also hand the actions on can be one that approves them: there it takes a call of a tool.
    """
    observes = Observed in source.outcomes
    if Acted in source.outcomes:
        return observes and calls_tools(effect)
    return observes or calls_tools(effect)


def pairs(steps: Any) -> list[tuple[AgentAction, Any]]:
    """Steps as LangChain's `intermediate_steps`: a list of `(action, observation)`."""
    return [(step.action, step.observation) for step in steps]


def model_messages(action: AgentAction) -> list[Message]:
    """What the model said when it decided on an action, as messages."""
    return [action.message or AssistantMessage(action.log)]


def _step_chunk(step: AgentStep) -> Chunk:
    return {"steps": [step], "messages": [_observation_message(step)]}


def _observation_message(step: AgentStep) -> Message:
    call_id = step.action.call_id
    return UserMessage(observation_text(step)) if call_id is None else ToolMessage(call_id, observation_text(step))


# The node that stores an ending, and returns it unchanged.
_SAVE = "save_memory"


def _ends_with(graph: Graph[Any, Any], source: str, outcome: type) -> bool:
    """Return true if a node's `outcome` is the end of the run as it is: no node may change or withhold it."""
    target = _target_of(graph, source, outcome)
    # Of an embedded agent it is `inner.save_memory`.
    if target.rpartition(".")[2] == _SAVE:
        target = _target_of(graph, target, outcome)
    return target == END.name


def _target_of(graph: Graph[Any, Any], source: str, outcome: type) -> str:
    return next((edge.target for edge in graph.edges if edge.source == source and edge.outcome is outcome), "")


def _is_stock(source: Node[Any, Any], *stock: Node[Any, Any]) -> bool:
    """Return true if a node is one of the executor's own, bound or renamed; a wrapped one may do something else."""
    # Any: the parameters of a partial object are unknown.
    function: Any = source.function
    while isinstance(function, partial):
        function = function.func
    return any(function is one.function for one in stock)


def _dispatching_nodes(graph: Graph[Any, Any]) -> frozenset[str]:
    """The executor's own nodes that call tools, where the results become steps as they are."""
    found = {one.name: _target_of(graph, one.name, Observed) for one in graph if _is_stock(one, dispatch_tools)}
    return frozenset(name for name, to in found.items() if to in graph and _is_stock(graph[to], check_return_direct))


def _answering_nodes(graph: Graph[Any, Any]) -> frozenset[str]:
    """The nodes whose model's words are the final answer, if they are an answer at all: no node can withhold them."""
    found: set[str] = set()
    for source in graph:
        if _is_stock(source, plan):
            reads = _target_of(graph, source.name, Replied)
            if (
                reads in graph
                and _is_stock(graph[reads], parse, parse_or_raise)
                and _ends_with(graph, reads, AgentFinish)
            ):
                found.add(source.name)
        elif _is_stock(source, generate_response) and _ends_with(graph, source.name, StoppedResponse):
            found.add(source.name)
    return frozenset(found)


@final
class Answering:
    """Turns the events of one run of `graph` into the pieces of its final answer.

    An answer that is known as one only when the reply is whole comes in one piece (native tool calls may follow any
    text; in JSON the `action` has to come first), and so do the text of a stopped run and an answer that a node of the
    graph may still change or withhold. Pieces that turn out to be no answer are followed by a line end and the answer.
    """

    __slots__ = ("_again", "_agent", "_given", "_nodes", "_read")

    def __init__(self, agent: Agent, graph: Graph[Any, Any]) -> None:
        self._agent = agent
        self._nodes = _answering_nodes(graph)
        self._given = ""
        self._again = False
        self._read: AnswerReader | None = None

    def of(self, event: Event[Ending]) -> str:
        """What an event adds to the answer."""
        match event:
            case Asked(node, CallModel()):
                answers = self._agent.answer if node in self._nodes else None
                self._read = None if answers is None else answers()
                self._again = bool(self._given)
            case Answered():
                self._read = None
            case Reported(_, CallModel(), ReplyDelta(content)) if self._read is not None:
                return self._add_piece(self._read(content))
            case Done(ending):
                return self._missing_text(ending)
            case _:
                pass
        return ""

    def _add_piece(self, piece: str) -> str:
        """A piece of the answer; what was given before, by an earlier reply, was none."""
        if not piece:
            return ""
        parted = "\n" if self._again else ""
        self._given = piece if self._again else self._given + piece
        self._again = False
        return f"{parted}{piece}"

    def _missing_text(self, ending: Ending) -> str:
        answer = format_observation(ending.answer if isinstance(ending, AgentFinish) else ending.output)
        if not self._again and answer.startswith(self._given):
            return answer[len(self._given) :]
        return f"\n{answer}"
