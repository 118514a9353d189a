"""Histories of any provider in a form that a protocol takes: the ids and names of calls, and the order of parts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from graphexec.messages import AssistantMessage, Message, ModelRequest, Reasoning, ToolCall, ToolMessage
from graphexec.messages.turns import derive_texts
from graphexec.models.http.json_bodies import JSON, conversation, parse_arguments

_INVALID = re.compile(r"[^a-zA-Z0-9_-]")
# Characters of an id: those of OpenAI and of Bedrock.
_LONGEST = 64


def fitting_conversation(request: ModelRequest) -> Sequence[Message]:
    """Return the messages of a request, in which each call has an id of its own that Anthropic and OpenAI take.

    An id has up to 64 letters, digits, `_` and `-`, and so has the name of a tool that is not offered. The messages
    themselves stay as they are, so another provider gets the ids that it wrote.
    """
    messages = conversation(request)
    known = frozenset(tool.name for tool in getattr(request, "tools", ()))
    texts = derive_texts(messages, (_read_ids, known), lambda part: _read_ids(part, known), " ")
    ids = None if texts is None else " ".join(texts).split()
    return messages if ids is not None and len(ids) == len(set(ids)) else [*_fit(messages, known)]


def _read_ids(messages: Sequence[Message], known: Collection[str]) -> str | None:
    """Return the ids of the calls, separated by spaces; `None` if an id or a name does not fit."""
    ids: list[str] = []
    for message in messages:
        match message:
            case AssistantMessage(_, calls):
                ids += [call.id for call in calls]
                if any(call.name not in known and call.name != _clean(call.name) for call in calls):
                    return None
            case ToolMessage(call_id) if call_id != _clean(call_id):
                return None
            case _:
                pass
    return " ".join(ids) if all(one == _clean(one) for one in ids) else None


def _clean(name: str) -> str:
    return _INVALID.sub("_", name)[:_LONGEST] or "_"


def _fit(messages: Sequence[Message], known: Collection[str]) -> Iterator[Message]:
    used: set[str] = set()
    numbers: dict[str, int] = {}
    # The new ids of calls by the old one, which several calls may have.
    waiting: dict[str, list[str]] = {}

    def make_id(old: str) -> str:
        base = new = _clean(old)
        while new in used:
            numbers[base] = numbers.get(base, 1) + 1
            end = f"_{numbers[base]}"
            new = base[: _LONGEST - len(end)] + end
        used.add(new)
        return new

    for message in messages:
        match message:
            case AssistantMessage(_, calls) if calls:
                ids = [make_id(call.id) for call in calls]
                names = [call.name if call.name in known else _clean(call.name) for call in calls]
                waiting |= {call.id: [] for call in calls}
                for call, new in zip(calls, ids, strict=True):
                    waiting[call.id].append(new)
                fitted = [ToolCall(*one) for one in zip(ids, names, (call.arguments for call in calls), strict=True)]
                yield replace(message, tool_calls=tuple(fitted))
            case ToolMessage(call_id):
                new, *later = waiting.get(call_id) or [_clean(call_id)]
                waiting[call_id] = later or [new]
                yield replace(message, call_id=new)
            case _:
                yield message


def ordered_parts(message: AssistantMessage, provider: str, types: Collection[str]) -> list[str | JSON | ToolCall]:
    """Return the text, the reasoning and the calls of a message in the order in which the model wrote them.

    Reasoning is sent back beside calls, to the provider that wrote it, as its objects of these types; never at the end.
    """
    returned = {
        thought: data
        for thought in (message.reasoning if message.tool_calls else ())
        if thought.provider == provider and (data := parse_arguments(thought.data)).get("type") in types
    }
    known = replace(message, reasoning=tuple([thought for thought in message.reasoning if thought in returned]))
    parts = [returned[part] if isinstance(part, Reasoning) else part for part in known.parts]
    while parts and isinstance(parts[-1], dict):
        parts.pop()
    return parts
