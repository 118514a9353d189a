"""Requests to a model and its replies, independent of any provider's format."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from graphexec.errors import InputError, InvalidReplyError, format_value, repr_fields
from graphexec.kernel.meters import is_number, is_whole


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Standing instructions."""

    content: str
    # Distinguishes the kinds of messages in JSON, here and below.
    role: Literal["system"] = field(default="system", init=False, repr=False)


# The first bytes of the image formats that models read. A WebP file has its length after the first four.
_FORMATS = (
    (re.compile(rb"\x89PNG"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image for a model. `url` is an address that the provider can fetch, or a `data:` URL with the image itself."""

    url: str

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str | None = None) -> Image:
        """Return an image as a `data:` URL. Raises `InputError` if neither you nor the data names the media type."""
        found = media_type or next((kind for start, kind in _FORMATS if start.match(data)), None)
        if found is None:
            raise InputError(
                "the bytes are not a PNG, JPEG, GIF or WebP image; pass their media_type, such as image/png"
            )
        return cls(f"data:{found};base64,{base64.b64encode(data).decode()}")


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message from the person, or from the program in their place."""

    content: str
    images: tuple[Image, ...] = ()
    role: Literal["user"] = field(default="user", init=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that a model requests. `arguments` is the string as received: JSON if it follows the protocol."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A part of the reasoning that a model writes before its answer.

    `text` is what the provider shows of it, perhaps nothing. `data` is the part as JSON of the `provider`, the only one
    that can read it; it is sent back where the provider needs it.
    """

    text: str
    data: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """The model's text, the tools that it requests to call, and its reasoning before both."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    role: Literal["assistant"] = field(default="assistant", init=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of the tool call `call_id`, as a string for the model, and the images in it."""

    call_id: str
    content: str
    images: tuple[Image, ...] = ()
    role: Literal["tool"] = field(default="tool", init=False, repr=False)


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def transcript(messages: Iterable[Message], *, human: str = "Human", ai: str = "AI") -> str:
    """Return a conversation as a string, with a line `Human: ...`, `AI: ...`, `System: ...` or `Tool: ...` per message.

    A tool call follows as `name(arguments)`. Contents are not escaped: they may contain lines that look like these.
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

    `tools` are offered for native calls. `tool_choice` is `auto` (the model decides), `none` (no calls), `required` (at
    least one call), or the name of a tool that the model must call. The reply ends before the first of the `stop`
    strings. `schema` is the JSON schema that the reply's text must follow.
    """

    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    stop: tuple[str, ...] = ()
    # A JSON schema: its values are arbitrary JSON.
    schema: Mapping[str, Any] | None = None
    tool_choice: str = "auto"


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A string to continue, up to the first of the `stop` strings."""

    prompt: str
    stop: tuple[str, ...] = ()


ModelRequest: TypeAlias = ChatRequest | CompletionRequest


@dataclass(frozen=True, slots=True, repr=False)
class Usage:
    """The tokens of one or more model calls. `cached_tokens` are those of the prompt that the provider had stored."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """The sum of both, which a limit on tokens counts."""
        return self.prompt_tokens + self.completion_tokens

    def __repr__(self) -> str:
        return repr_fields(self)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "other"]


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's whole answer. `finish_reason` is `length` if it was cut at the model's token limit.

    `content` is the answer alone; `reasoning` is what the model wrote before it, which is never parsed. `model` is the
    name that the server reports, or empty. `cost` is an amount of money, known only for `priced` models.
    """

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default=Usage())
    finish_reason: FinishReason = "stop"
    model: str = ""
    cost: float | None = None
    reasoning: tuple[Reasoning, ...] = ()

    @property
    def message(self) -> AssistantMessage:
        """The answer as a message of the conversation."""
        return AssistantMessage(self.content, self.tool_calls, self.reasoning)


@dataclass(frozen=True, slots=True)
class ReplyDelta:
    """A piece of a streamed answer: text, reasoning, or a part of the tool call `index`.

    A `ModelReply` ends the stream.
    """

    content: str = ""
    index: int | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    reasoning: str = ""


def check_reply(reply: object, model: str) -> ModelReply:
    """Return the reply of the model named `model`. Raises `InvalidReplyError` if it is not a valid `ModelReply`.

    Every code path that asks a model calls this, because limits count the usage and the cost.
    """
    if not isinstance(reply, ModelReply):
        raise InvalidReplyError(
            f"the model {model} returned {format_value(reply)}; return a ModelReply, and end a stream with one"
        )
    usage = reply.usage
    # A user's model may return any value.
    if not isinstance(usage, Usage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _invalid_reply(model, "usage", usage, "pass Usage(prompt_tokens, completion_tokens), or leave it out")
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        count: object = getattr(usage, name)
        if not is_whole(count) or count < 0:
            raise _invalid_reply(model, name, count, "pass a whole number, 0 or more")
    cost: object = reply.cost
    if cost is not None and (not is_number(cost) or cost < 0):
        raise _invalid_reply(model, "cost", cost, "pass a finite number, 0 or more, or None")
    return reply


def _invalid_reply(model: str, field: str, value: object, remedy: str) -> InvalidReplyError:
    return InvalidReplyError(f"the model {model} returned a reply with {field}={format_value(value)}; {remedy}")


class Model(Protocol):
    """A language model: anything with these two methods.

    It may have more: `stream` and `astream`, `name` and `provider` (strings), and `check_access`, which raises an error
    before a run if calls cannot be made, as for a missing API key.
    """

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, within `timeout` seconds if given. Raises `ModelError`."""
        ...

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, as `complete` does."""
        ...


def check_access(called: object) -> None:
    """Call the method `check_access` of a model or a tool, if it has one: it raises an error if calls must fail."""
    # Any: a method that the protocol does not require.
    check: Any = getattr(called, "check_access", None)
    if check is not None:
        check()
