"""A run as the text of its final answer, piece by piece while the model says it."""

from __future__ import annotations

from typing import final

from graphexec.actions import AgentFinish
from graphexec.agents import Agent
from graphexec.agents.answers import AnswerReader
from graphexec.effects import CallModel
from graphexec.events import Asked, Done, Event, Reported
from graphexec.machine import plan, stopped_response
from graphexec.messages import ReplyDelta
from graphexec.result import Ending
from graphexec.tools.showing import shown


@final
class Answering:
    """Turns the events of one run into the pieces of its final answer.

    An agent whose answer can be told from its other replies only when they are whole (native tool calls may follow any
    text) gives it in one piece; so does a run that is stopped. What was given and turns out to be no answer, since the
    reply could not be read, is followed by a line end and the answer.
    """

    __slots__ = ("_agent", "_given", "_read")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._given = ""
        self._read: AnswerReader | None = None

    def of(self, event: Event[Ending]) -> str:
        """What an event adds to the answer."""
        match event:
            case Asked(node, CallModel()):
                # What nodes of the user's own ask is another question.
                answers = self._agent.answer if node in (plan.name, stopped_response.name) else None
                self._read = None if answers is None else answers()
            case Reported(_, _, ReplyDelta(content)) if self._read is not None:
                piece = self._read(content)
                self._given += piece
                return piece
            case Done(ending):
                return self._rest(ending)
            case _:
                pass
        return ""

    def _rest(self, ending: Ending) -> str:
        """What is missing of the answer."""
        answer = shown(ending.answer if isinstance(ending, AgentFinish) else ending.output)
        given = self._given.rstrip()
        if answer.startswith(given):
            return answer[len(given) :]
        return f"\n{answer}"
