"""Explain messages in the forms of other libraries: with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphexec.errors import format_value

# Our classes by the roles of OpenAI's messages, and by the types of LangChain's.
_CLASSES = {
    **dict.fromkeys(("system", "developer"), "SystemMessage"),
    **dict.fromkeys(("assistant", "ai"), "AssistantMessage"),
    "tool": "ToolMessage",
}


def explain_messages(messages: object, kinds: tuple[type, ...]) -> str | None:
    """Return what is wrong with the messages of a request, and what to write; `None` if nothing is.

    `kinds` are the classes of messages. The items of a sequence that is not a list or a tuple are not read.
    """
    # Any: values that users without a type checker pass.
    several: Any = messages
    if isinstance(messages, (str, bytes, bytearray)) or not isinstance(messages, Sequence):
        written = format_value(messages) if isinstance(messages, kinds) else _suggest(messages)
        return f"ChatRequest has messages={format_value(messages)}; write ChatRequest([{written}])"
    if not isinstance(messages, (list, tuple)):
        return None
    for place, given in enumerate(several):
        if not isinstance(given, kinds):
            return f"ChatRequest has messages[{place}]={format_value(given)}; write {_suggest(given)}"
    return None


# The number of items of LangChain's short form of a message: a role and a content.
_PAIR = 2


def _suggest(given: object) -> str:
    """Return how to write a message that has another form elsewhere."""
    # Any: a string, or a message of another library.
    message: Any = given
    role: Any = "user"
    content: Any = message
    if isinstance(given, Mapping):
        role, content = message.get("role"), message.get("content")
    elif isinstance(given, tuple) and len(message) == _PAIR:
        role, content = message
    elif hasattr(message, "content"):
        role, content = getattr(message, "type", "user"), message.content
    kind = _CLASSES.get(role, "UserMessage") if isinstance(role, str) else "UserMessage"
    text = format_value(content) if isinstance(content, str) else "'...'"
    return f"{kind}({'call_id, ' if kind == 'ToolMessage' else ''}{text})"


def has_message_shape(given: object) -> bool:
    """Return whether a value may be a message of any library: a mapping, or an object with `content`."""
    return isinstance(given, Mapping) or hasattr(given, "content")
