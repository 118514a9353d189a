"""What is said to a model and what it answers, in no provider's shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from graphexec.errors import InvalidReplyError, format_value, repr_fields
from graphexec.kernel.meters import is_number, is_whole


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Standing instructions."""

    content: str
    # In JSON it tells the kinds of messages apart; so in the others.
    role: Literal["system"] = field(default="system", init=False, repr=False)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the person, or the program in its place, says."""

    content: str
    role: Literal["user"] = field(default="user", init=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool. `arguments` is the string as it came: JSON if the model kept to the protocol."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model said, and the tools it wishes to call."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    role: Literal["assistant"] = field(default="assistant", init=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of the tool call `call_id`, as text for the model."""

    call_id: str
    content: str
    role: Literal["tool"] = field(default="tool", init=False, repr=False)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def transcript(messages: Iterable[Message], *, human: str = "Human", ai: str = "AI") -> str:
    """Return a conversation as a string, a line `Human: ...`, `AI: ...`, `System: ...` or `Tool: ...` for each message.

    A tool call follows as `name(arguments)`. Contents are not escaped: they may have lines that look like these.
    """
    return "\n".join([_line(message, human, ai) for message in messages])


def _line(message: Message, human: str, ai: str) -> str:
    match message:
        case SystemMessage(content):
            return f"System: {content}"
        case UserMessage(content):
            return f"{human}: {content}"
        case AssistantMessage(content, calls):
            called = "\n".join([f"{call.name}({call.arguments})" for call in calls])
            return f"{ai}: {content}\n{called}" if content and called else f"{ai}: {content or called}"
        case ToolMessage(_, content):
            return f"Tool: {content}"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. `parameters` is the JSON schema of an object."""

    name: str
    description: str
    # A JSON schema: its values are arbitrary JSON.
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to continue.

    `tools` are offered for native calls, which `tool_choice="none"` forbids; `stop` ends the reply before the first of
    these strings; `schema` is the JSON schema that the reply's text must follow.
    """

    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    stop: tuple[str, ...] = ()
    # A JSON schema: its values are arbitrary JSON.
    schema: Mapping[str, Any] | None = None
    tool_choice: Literal["auto", "none"] = "auto"


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A plain text to continue, until one of the `stop` texts."""

    prompt: str
    stop: tuple[str, ...] = ()


ModelRequest: TypeAlias = ChatRequest | CompletionRequest


@dataclass(frozen=True, slots=True, repr=False)
class Usage:
    """The tokens of one or several model calls."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Both together: what a limit on tokens counts."""
        return self.prompt_tokens + self.completion_tokens

    def __repr__(self) -> str:
        return repr_fields(self)

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens)


FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "other"]


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's whole answer. `finish_reason` is `length` where it was cut at the model's token limit.

    `model` is the name that the server gives itself, or empty; `cost` is in money, known of `priced` models only.
    """

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default=Usage())
    finish_reason: FinishReason = "stop"
    model: str = ""
    cost: float | None = None

    @property
    def message(self) -> AssistantMessage:
        """The answer as a message of the conversation."""
        return AssistantMessage(self.content, self.tool_calls)


@dataclass(frozen=True, slots=True)
class ReplyDelta:
    """A piece of a streamed answer: text, or a part of tool call number `index`. A `ModelReply` ends the stream."""

    content: str = ""
    index: int | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""


def check_reply(reply: object, model: str) -> ModelReply:
    """Return the reply of the model that is named so. Raises `InvalidReplyError` for what is not one.

    Everything that asks a model calls it: limits count what the usage and the cost report.
    """
    if not isinstance(reply, ModelReply):
        raise InvalidReplyError(
            f"the model {model} returned {format_value(reply)}; return a ModelReply, and last of a stream"
        )
    usage = reply.usage
    # A model of the user's own may know no better.
    if not isinstance(usage, Usage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _invalid_reply(model, "usage", usage, "give Usage(prompt_tokens, completion_tokens), or leave it out")
    for name in ("prompt_tokens", "completion_tokens"):
        count: object = getattr(usage, name)
        if not is_whole(count) or count < 0:
            raise _invalid_reply(model, name, count, "give a whole number, 0 or more")
    cost: object = reply.cost
    if cost is not None and (not is_number(cost) or cost < 0):
        raise _invalid_reply(model, "cost", cost, "give a finite number, 0 or more, or None")
    return reply


def _invalid_reply(model: str, field: str, value: object, remedy: str) -> InvalidReplyError:
    return InvalidReplyError(f"the model {model} returned a reply whose {field} is {format_value(value)}; {remedy}")


class Model(Protocol):
    """A language model: anything with these two methods."""

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, within `timeout` seconds where there is one. Raises `ModelError`."""
        ...

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, as `complete` does."""
        ...
