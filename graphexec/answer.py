"""A run as the text of its final answer, piece by piece while the model says it."""

from __future__ import annotations

from typing import final

from graphexec.actions import AgentFinish
from graphexec.agents import Agent
from graphexec.agents.answers import AnswerReader
from graphexec.effects import CallModel
from graphexec.kernel.events import Answered, Asked, Done, Event, Reported
from graphexec.machine import plan, stopped_response
from graphexec.messages import ReplyDelta
from graphexec.result import Ending
from graphexec.tools.showing import shown


@final
class Answering:
    """Turns the events of one run into the pieces of its final answer.

    An answer that can be told from other replies only when the reply is whole comes in one piece: native tool calls may
    follow any text, and in JSON the `action` has to come first. So does the text of a run that is stopped. What was
    given and turns out to be no answer, since the reply could not be read or another node asks on, is followed by a
    line end and the answer.
    """

    __slots__ = ("_again", "_agent", "_given", "_read")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._given = ""
        self._again = False
        self._read: AnswerReader | None = None

    def of(self, event: Event[Ending]) -> str:
        """What an event adds to the answer."""
        match event:
            case Asked(node, CallModel()):
                # What nodes of the user's own ask is another question.
                answers = self._agent.answer if node in (plan.name, stopped_response.name) else None
                self._read = None if answers is None else answers()
                self._again = bool(self._given)
            case Answered():
                self._read = None
            case Reported(_, CallModel(), ReplyDelta(content)) if self._read is not None:
                return self._told(self._read(content))
            case Done(ending):
                return self._rest(ending)
            case _:
                pass
        return ""

    def _told(self, piece: str) -> str:
        """A piece of the answer; what was given before, by an earlier reply, was none."""
        if not piece:
            return ""
        parted = "\n" if self._again else ""
        self._given = piece if self._again else self._given + piece
        self._again = False
        return f"{parted}{piece}"

    def _rest(self, ending: Ending) -> str:
        """What is missing of the answer."""
        answer = shown(ending.answer if isinstance(ending, AgentFinish) else ending.output)
        if not self._again and answer.startswith(self._given):
            return answer[len(self._given) :]
        return f"\n{answer}"
