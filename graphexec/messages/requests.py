"""Requests to a model: a conversation with the tools on offer, or a string to continue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphexec.errors import InputError, format_value
from graphexec.messages.conversation import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
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
