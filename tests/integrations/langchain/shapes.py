"""Stand-ins for LangChain's classes: pydantic models, dataclasses and runnables with the same attributes."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class BaseMessage(BaseModel):
    """A message; subclasses have more fields, and so may a single message."""

    model_config = ConfigDict(extra="allow")

    content: str | list[str | dict[str, Any]]
    additional_kwargs: dict[str, Any] = {}
    response_metadata: dict[str, Any] = {}


class AIMessage(BaseMessage):
    """A model's message with its tool calls."""

    type: Literal["ai"] = "ai"
    tool_calls: list[dict[str, Any]] = []


class ToolMessage(BaseMessage):
    """A tool's result."""

    type: Literal["tool"] = "tool"
    tool_call_id: str


class AgentAction(BaseModel):
    """An action, made by position as LangChain's."""

    tool: str
    tool_input: str | dict[str, Any]
    log: str

    def __init__(self, tool: str, tool_input: str | dict[str, Any], log: str, **others: Any) -> None:
        super().__init__(tool=tool, tool_input=tool_input, log=log, **others)


class AgentActionMessageLog(AgentAction):
    """An action with the messages that led to it, declared by their base class."""

    message_log: Sequence[BaseMessage]


class ToolAgentAction(AgentActionMessageLog):
    """A native tool call."""

    tool_call_id: str | None


@dataclass
class AgentFinish:
    """An answer."""

    return_values: dict[str, Any]
    log: str = ""


class OutputParserException(ValueError):
    """A parse error."""

    def __init__(self, text: str, observation: str | None = None, llm_output: str | None = None) -> None:
        super().__init__(text)
        self.observation = observation
        self.llm_output = llm_output


def format_to_tool_messages(steps: list[tuple[AgentAction, Any]]) -> list[BaseMessage]:
    """Return the messages of the steps as LangChain's tool-calling agents do: only their own class has a result."""
    messages: list[BaseMessage] = []
    for action, observation in steps:
        if isinstance(action, ToolAgentAction):
            result = ToolMessage(content=str(observation), tool_call_id=action.tool_call_id or "")
            messages += [one for one in [*action.message_log, result] if one not in messages]
        else:
            messages.append(AIMessage(content=action.log))
    return messages


def calls(message: AIMessage) -> list[AgentAction]:
    """Return the actions of a message, as LangChain's parser makes them."""
    # Any: type checkers do not see that the class inherits a constructor of its own.
    make: Any = ToolAgentAction
    return [
        make(one["name"], one["args"], "", message_log=[message], tool_call_id=one["id"]) for one in message.tool_calls
    ]


class Invoked:
    """A runnable that returns its decisions in order, and records what it was given by which method."""

    def __init__(self, *decisions: Any) -> None:
        self.decisions = list(decisions)
        self.given: list[dict[str, Any]] = []
        self.configs: list[dict[str, Any]] = []
        self.used: list[str] = []

    def decide(self, method: str, inputs: dict[str, Any], config: Any) -> Any:
        self.used.append(method)
        self.given.append(inputs)
        self.configs.append(config)
        decision = self.decisions.pop(0)
        if isinstance(decision, Exception):
            raise decision
        return decision

    def invoke(self, inputs: dict[str, Any], config: Any = None) -> Any:
        return self.decide("invoke", inputs, config)


class Chain(Invoked):
    """A runnable with every method; a tuple is streamed in its parts."""

    async def ainvoke(self, inputs: dict[str, Any], config: Any = None) -> Any:
        return self.decide("ainvoke", inputs, config)

    def stream(self, inputs: dict[str, Any], config: Any = None) -> Iterator[Any]:
        yield from self.chunks("stream", inputs, config)

    async def astream(self, inputs: dict[str, Any], config: Any = None) -> AsyncIterator[Any]:
        for chunk in self.chunks("astream", inputs, config):
            yield chunk

    def chunks(self, method: str, inputs: dict[str, Any], config: Any) -> Sequence[Any]:
        decision: Any = self.decide(method, inputs, config)
        parts: Any = decision
        return parts if isinstance(decision, tuple) else (decision,)
