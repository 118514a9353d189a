"""Prompts, replies, arguments and results in the JSON of the conventions, each with a bounded length."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ModelRequest,
    Reasoning,
    ToolCall,
    ToolMessage,
    UserMessage,
)

# Characters of one text, and messages of one attribute: the later ones.
_LONGEST, _MOST_MESSAGES = 8_000, 64


def clip(text: str, longest: int = _LONGEST) -> str:
    """Return a text, or its beginning. A lone surrogate, which no exporter can encode, becomes a question mark."""
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return shown if shown.isascii() else shown.encode("utf-8", "replace").decode()


def messages_of(request: ModelRequest) -> tuple[Message, ...]:
    """Return the messages of a request; a prompt is one of the user."""
    return tuple(request.messages) if isinstance(request, ChatRequest) else (UserMessage(request.prompt),)


def new_messages(messages: Sequence[Message], known: Sequence[Message]) -> tuple[int, list[Message]]:
    """Return the number of messages that are known, and the others; of a text that has grown, its new end."""
    same = 0
    for one, other in zip(messages, known, strict=False):
        if one is not other and one != other:
            break
        same += 1
    new = list(messages[same:])
    if new and same < len(known):
        text = known[same].content
        if text and type(new[0]) is type(known[same]) and new[0].content.startswith(text):
            new[0] = dataclasses.replace(new[0], content=new[0].content[len(text) :])
    return same, new


def format_messages(messages: Sequence[Message]) -> str:
    """Return messages as JSON."""
    return json.dumps([{"role": one.role, "parts": [*_parts(one)]} for one in messages[-_MOST_MESSAGES:]])


def format_value(value: object) -> str:
    """Return a value as JSON; a text as it is."""
    try:
        return clip(value if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False))
    # A tool may return any object, and a mapping with other keys than strings.
    except (TypeError, ValueError):
        return clip(repr(value))


# Any: JSON.
def _parts(message: Message) -> Iterator[dict[str, Any]]:
    if isinstance(message, AssistantMessage):
        for part in message.parts:
            match part:
                case Reasoning(text):
                    yield {"type": "reasoning", "content": clip(text)}
                case ToolCall(call, name, arguments):
                    yield {"type": "tool_call", "id": call, "name": name, "arguments": clip(arguments)}
                case str():
                    yield {"type": "text", "content": clip(part)}
        return
    content = clip(message.content)
    if isinstance(message, ToolMessage):
        yield {"type": "tool_call_response", "id": message.call_id, "response": content}
    else:
        yield {"type": "text", "content": content}
    if isinstance(message, (UserMessage, ToolMessage)):
        for number, image in enumerate(message.images, 1):
            yield {"type": "text", "content": image.label(number)}
