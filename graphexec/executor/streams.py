"""A run's events as the chunks that LangChain's executor streams: `actions`, `steps`, `output`, `messages`."""

from __future__ import annotations

from typing import Any, TypeAlias, final

from graphexec.actions import AgentAction, AgentFinish, AgentStep, steps_of
from graphexec.agents import Agent
from graphexec.agents.answers import AnswerReader
from graphexec.agents.prompt import observed
from graphexec.effects import CallModel
from graphexec.executor.iteration import NewSteps, calls_tools
from graphexec.executor.result import Ending
from graphexec.executor.table import Acted, plan, stopped_response
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Reported
from graphexec.kernel.snapshot import Snapshot
from graphexec.messages import AssistantMessage, Message, ReplyDelta, ToolMessage, UserMessage
from graphexec.tools.formatting import format_observation

# A chunk's values are of several kinds.
Chunk: TypeAlias = dict[str, Any]


@final
class Chunks:
    """Turns the events of one run into chunks.

    Each action is a chunk before any tool of its step runs, `{"actions": [action], "messages": [...]}`; each step is
    one when it is done, `{"steps": [step], "messages": [...]}`, also a parse error, which had no action; the last is
    `{"output": ..., "messages": [...]}`, `with_steps` with `intermediate_steps`. Steps up to `start` are not new.
    """

    __slots__ = ("_new", "_value", "_with_steps")

    def __init__(self, *, with_steps: bool = False, start: Snapshot | None = None) -> None:
        self._with_steps = with_steps
        self._value = None if start is None else start.value
        self._new = NewSteps(steps_of(None if start is None else start.value))

    def of(self, event: Event[Ending]) -> list[Chunk]:
        """The chunks that an event brings."""
        match event:
            case Entered(_, value):
                self._value = value
                return self._step_chunks(value)
            case Asked(_, effect) if isinstance(self._value, Acted) and calls_tools(effect):
                actions, self._value = self._value.actions, None
                return [{"actions": [action], "messages": model_messages(action)} for action in actions]
            case Done(ending):
                return [*self._step_chunks(ending), self._last(ending)]
            case _:
                return []

    def _step_chunks(self, value: object) -> list[Chunk]:
        return [{"steps": [step], "messages": [_observation_message(step)]} for step in self._new.of(steps_of(value))]

    def _last(self, ending: Ending) -> Chunk:
        values: Chunk = dict(ending.return_values) if isinstance(ending, AgentFinish) else {"output": ending.output}
        if self._with_steps:
            values["intermediate_steps"] = pairs(ending.steps)
        log = ending.log if isinstance(ending, AgentFinish) else ""
        return {**values, "messages": [AssistantMessage(log)]}


def pairs(steps: Any) -> list[tuple[AgentAction, Any]]:
    """Steps as LangChain's `intermediate_steps`: a list of `(action, observation)`."""
    return [(step.action, step.observation) for step in steps]


def model_messages(action: AgentAction) -> list[Message]:
    """What the model said when it decided on an action, as messages."""
    return [action.message or AssistantMessage(action.log)]


def _observation_message(step: AgentStep) -> Message:
    call_id = step.action.call_id
    return UserMessage(observed(step)) if call_id is None else ToolMessage(call_id, observed(step))


@final
class Answering:
    """Turns the events of one run into the pieces of its final answer.

    An answer that is known as one only when the reply is whole comes in one piece (native tool calls may follow any
    text; in JSON the `action` has to come first), and so does the text of a stopped run. Pieces that turn out to be no
    answer are followed by a line end and the answer.
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
