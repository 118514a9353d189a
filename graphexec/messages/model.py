"""A model, the requests to it, and its replies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from graphexec._parsing.reasoning import split_reasoning
from graphexec.errors import InputError, InvalidReplyError, format_value, repr_fields
from graphexec.kernel.meters import is_number, is_whole
from graphexec.messages.conversation import (
    AssistantMessage,
    Message,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphexec.messages.images import Image
from graphexec.messages.turns import Conversation


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

    def __post_init__(self) -> None:
        # Users without a type checker pass a string, a single message, or messages of another library.
        if type(self.messages) is not Conversation:
            _check_messages(self.messages)


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A string to continue, up to the first of the `stop` strings."""

    prompt: str
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"CompletionRequest has prompt={format_value(self.prompt)}; give a string, or messages in a ChatRequest"
            )


_MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)


# Any: values that users without a type checker pass.
def _check_messages(messages: Any) -> None:
    """Raise `InputError` unless these are messages; those of an own kind of sequence are not read."""
    if isinstance(messages, (str, bytes, bytearray)) or not isinstance(messages, Sequence):
        written = format_value(messages) if type(messages) in _MESSAGES else "UserMessage('...')"
        raise InputError(f"ChatRequest has messages={format_value(messages)}; write ChatRequest([{written}])")
    several: list[object] = [*messages] if isinstance(messages, (list, tuple)) else []  # pyright: ignore[reportUnknownArgumentType]
    for place, given in enumerate(several):
        if not isinstance(given, _MESSAGES):
            raise InputError(
                f"ChatRequest has messages[{place}]={format_value(given)}; write UserMessage('...'), or another of "
                "graphexec.messages"
            )


ModelRequest: TypeAlias = ChatRequest | CompletionRequest


def images_of(request: ModelRequest) -> Iterator[Image]:
    """Yield the images in the messages of a request."""
    for message in request.messages if isinstance(request, ChatRequest) else ():
        if isinstance(message, (UserMessage, ToolMessage)):
            yield from message.images


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


_CALLS = frozenset({ToolCall})

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "invalid_call", "failed", "other"]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ModelReply:
    """A model's whole answer. `finish_reason` is `length` if it was cut at the model's token limit.

    It is `invalid_call`, without content, in place of an `InvalidCallError` that an agent feeds back to the model. It
    is `failed`, with the piece and the error as content, in place of an error that a piece catches.

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


# Characters. A longer text may take more than a tenth of a second to read.
LONG = 10_000
# The answer in a longer piece or text streams in one piece.
VERY_LONG = 100_000


def is_long(reply: ModelReply) -> bool:
    """Return whether a reply takes long to read."""
    # A user's model may give arguments of any class.
    written = (reply.content, *(call.arguments for call in reply.tool_calls))
    return any(isinstance(text, str) and len(text) > LONG for text in written)  # pyright: ignore[reportUnnecessaryIsInstance]


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
    """Return the reply of the model named `model`, with the reasoning in its content as `reasoning`.

    Every code path that asks a model calls this, because limits count the usage and the cost. Raises
    `InvalidReplyError` if it is not a valid `ModelReply`.
    """
    return separate_reasoning(require_reply(reply, model))


def require_reply(reply: object, model: str) -> ModelReply:
    """Return the reply of the model named `model`. Raises `InvalidReplyError` as `check_reply` does."""
    # The usual reply first: the checks below would be twenty calls for each step of a run.
    if (
        type(reply) is ModelReply
        and type(reply.content) is str
        and type(reply.tool_calls) is tuple
        and {*map(type, reply.tool_calls)} <= _CALLS
        and reply.cost is None
        and type(reply.usage) is Usage
    ):
        prompt, completion, cached = reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens
        whole = type(prompt) is type(completion) is type(cached) is int
        if whole and prompt >= 0 and completion >= 0 and cached >= 0:
            return reply
    if not isinstance(reply, ModelReply):
        raise InvalidReplyError(
            f"the model {model} returned {format_value(reply)}; return a ModelReply, and end a stream with one"
        )
    usage = reply.usage
    # A user's model may return any value.
    content, calls = reply.content, reply.tool_calls
    if not isinstance(content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _invalid_reply(model, "content", content, "pass a string, which is empty if there are tool calls alone")
    if not isinstance(calls, tuple) or not all(isinstance(call, ToolCall) for call in calls):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _invalid_reply(model, "tool_calls", calls, "pass a tuple of ToolCall(id, name, arguments)")
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


def separate_reasoning(reply: ModelReply) -> ModelReply:
    """Return the reply with the reasoning that its content begins with, such as `<think>...</think>`, as `reasoning`.

    The content may also begin within the reasoning and have only the closing tag, because many prompts end with the
    opening one; without a closing tag all of it is reasoning. In quotes and in code, tags are text.
    """
    content = reply.content
    if "<" not in content and "[" not in content:
        # No tag: this is cheaper than a call.
        return reply
    reasoning, content = split_reasoning(content)
    if reasoning is None:
        return reply
    return replace(reply, content=content, reasoning=(*reply.reasoning, *([Reasoning(reasoning)] if reasoning else ())))


def _invalid_reply(model: str, field: str, value: object, remedy: str) -> InvalidReplyError:
    return InvalidReplyError(f"the model {model} returned a reply with {field}={format_value(value)}; {remedy}")


class Model(Protocol):
    """A language model: anything with this method.

    It may have more: `acomplete`, its async form, without which async runs call `complete` in a thread; `stream` and
    `astream`; `name` and `provider` (strings); and `check_access`, which raises an error before a run if calls cannot
    be made, as for a missing API key.
    """

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, within `timeout` seconds if given. Raises `ModelError`."""
        ...


def request_parameters(model: object) -> Mapping[str, Any] | None:
    """Return what a model's requests carry beside the messages and the tools, as its `parameters` say, or `None`."""
    # Any: a property that the protocol does not require.
    found: Any = getattr(model, "parameters", None)
    return dict(found) if isinstance(found, Mapping) else None  # pyright: ignore[reportUnknownArgumentType]


def check_access(called: object) -> None:
    """Call the method `check_access` of a model or a tool, if it has one: it raises an error if calls must fail."""
    # Any: a method that the protocol does not require.
    check: Any = getattr(called, "check_access", None)
    if check is not None:
        check()
