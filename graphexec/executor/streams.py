"""Convert a run's events to the text of the final answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final
from weakref import WeakSet

from graphexec.actions import AgentFinish, StoppedResponse
from graphexec.agents import Agent
from graphexec.agents.reading.answers import AnswerReader
from graphexec.effects import ModelEffect
from graphexec.executor.nodes import generate_response, parse, parse_or_raise, plan
from graphexec.executor.outcomes import Acted, Ready, Replied
from graphexec.executor.plugging.memory import save_memory
from graphexec.executor.result import Ending
from graphexec.executor.rules import answer_repeats, avoid_dummies
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Reported
from graphexec.kernel.graph import Graph
from graphexec.kernel.node import END
from graphexec.messages import ReplyDelta
from graphexec.messages.model import VERY_LONG
from graphexec.messages.observations import format_observation

# By their functions: a wrapped node may behave differently, and a renamed one does not.
_RULES = (avoid_dummies.function, answer_repeats.function)
_ASKING = (plan.function, *_RULES)
# Nodes between a reply and the node that parses it, which pass an answer on as it is.
passing: WeakSet[Callable[..., Any]] = WeakSet(_RULES)
_PARSING = (parse.function, parse_or_raise.function)


def _answering_nodes(graph: Graph[Any, Any]) -> frozenset[str]:
    """Return the nodes whose model reply, if it is an answer, is the final one: no later node can withhold it."""
    leads = {(edge.source, edge.outcome): edge.target for edge in graph.edges}

    def ends_with(source: str, outcome: type) -> bool:
        target = leads.get((source, outcome), "")
        # In an embedded agent, the node is `inner.save_memory`.
        if target.rpartition(".")[2] == save_memory.name:
            target = leads.get((target, outcome), "")
        return target == END.name

    found: set[str] = set()
    for source in graph:
        reads = leads.get((source.name, Replied), "")
        for _ in graph:
            if reads in graph and graph[reads].function in passing:
                reads = leads.get((reads, Replied), "")
        if source.function in _ASKING and reads in graph and graph[reads].function in _PARSING:
            is_final = ends_with(reads, AgentFinish)
        else:
            is_final = source.function is generate_response.function and ends_with(source.name, StoppedResponse)
        if is_final:
            found.add(source.name)
    return frozenset(found)


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
                # An embedded executor has an agent of its own.
                own = (one for one in self._graph[node].settings or () if isinstance(one, Agent))
                answers = next(own, self._agent).answer if node in self._nodes else None
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
