"""A run's events as the chunks that LangChain's executor streams: `actions`, `steps`, `output`, `messages`."""

from __future__ import annotations

from typing import Any, TypeAlias, final

from graphexec.actions import AgentAction, AgentFinish, AgentStep, steps_of
from graphexec.agents.prompt import observed
from graphexec.kernel.events import Asked, Done, Entered, Event
from graphexec.kernel.snapshot import Snapshot
from graphexec.machine import Acted
from graphexec.messages import AssistantMessage, Message, ToolMessage, UserMessage
from graphexec.news import NewSteps, calls_tools
from graphexec.result import Ending

# A chunk's values are of several kinds.
Chunk: TypeAlias = dict[str, Any]


@final
class Chunks:
    """Turns the events of one run into chunks.

    Each action is a chunk before any tool of its step runs, `{"actions": [action], "messages": [...]}`; each step is
    one when it is done, `{"steps": [step], "messages": [...]}`, a parse error too, which had no action; the last is
    `{"output": ..., "messages": [...]}`, with `intermediate_steps` where they are wanted.

    `start` is where a run goes on that was paused: its steps up to there are no news.
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
                return self._stepped(value)
            case Asked(_, effect) if isinstance(self._value, Acted) and calls_tools(effect):
                actions, self._value = self._value.actions, None
                return [{"actions": [action], "messages": said(action)} for action in actions]
            case Done(ending):
                return [*self._stepped(ending), self._last(ending)]
            case _:
                return []

    def _stepped(self, value: object) -> list[Chunk]:
        """The steps that are new in a value."""
        return [{"steps": [step], "messages": [_seen(step)]} for step in self._new.of(steps_of(value))]

    def _last(self, ending: Ending) -> Chunk:
        values: Chunk = dict(ending.return_values) if isinstance(ending, AgentFinish) else {"output": ending.output}
        if self._with_steps:
            values["intermediate_steps"] = pairs(ending.steps)
        log = ending.log if isinstance(ending, AgentFinish) else ""
        return {**values, "messages": [AssistantMessage(log)]}


def pairs(steps: Any) -> list[tuple[AgentAction, Any]]:
    """Steps as LangChain's `intermediate_steps`: a list of `(action, observation)`."""
    return [(step.action, step.observation) for step in steps]


def said(action: AgentAction) -> list[Message]:
    """What the model said when it decided on an action, as messages."""
    return [action.message or AssistantMessage(action.log)]


def _seen(step: AgentStep) -> Message:
    call_id = step.action.call_id
    return UserMessage(observed(step)) if call_id is None else ToolMessage(call_id, observed(step))
