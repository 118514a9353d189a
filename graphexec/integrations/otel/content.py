"""Prompts, replies, arguments and results in the JSON of the conventions, each with a bounded length."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from graphexec import errors
from graphexec.messages import (
    AssistantMessage,
    Message,
    Reasoning,
    ToolCall,
    ToolMessage,
    UserMessage,
)

# Characters of one text; messages of one attribute, the later ones, and parts of each, the earlier ones.
_LONGEST, _MOST = 8_000, 64


def clip(text: str, longest: int = _LONGEST) -> str:
    """Return a text, or its beginning. A lone surrogate, which no exporter can encode, becomes a question mark."""
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return shown if shown.isascii() else shown.encode("utf-8", "replace").decode()


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
    return json.dumps([{"role": one.role, "parts": [*islice(_parts(one), _MOST)]} for one in messages[-_MOST:]])


def format_value(value: object) -> str:
    """Return a value as JSON; a string as it is."""
    try:
        return clip(value if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False))
    # A person's or a tool's value may be any object: a mapping with other keys, deep, or one whose repr fails.
    except Exception:  # noqa: BLE001
        return clip(errors.format_value(value))


# Any: JSON.
def _parts(message: Message) -> Iterator[dict[str, Any]]:
    if isinstance(message, AssistantMessage):
        for part in message.parts:
            if isinstance(part, ToolCall):
                called = {"id": clip(part.id), "name": clip(part.name), "arguments": clip(part.arguments)}
                yield {"type": "tool_call", **called}
            elif isinstance(part, Reasoning):
                yield {"type": "reasoning", "content": clip(part.text)}
            else:
                yield {"type": "text", "content": clip(part)}
        return
    if isinstance(message, ToolMessage):
        yield {"type": "tool_call_response", "id": clip(message.call_id), "response": clip(message.content)}
    else:
        yield {"type": "text", "content": clip(message.content)}
    if isinstance(message, (UserMessage, ToolMessage)):
        for number, image in enumerate(message.images, 1):
            yield {"type": "text", "content": image.label(number)}
