"""The messages of a conversation in the form that a protocol takes: ids and names of calls, and returned reasoning."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

from graphexec._parsing import compile_lazily
from graphexec.messages import (
    AssistantMessage,
    Message,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphexec.messages.turns import Conversation, derive_texts
from graphexec.models.http.json_values import JSON, parse_arguments

_NOT_IN_NAME = compile_lazily(r"[^a-zA-Z0-9_-]")
# Characters of a name.
_LONGEST_NAME = 64
# Of a call: the part of the conversation, its old id, and the number of calls with that before it in the part.
_Place: TypeAlias = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class HistoryForm:
    """The calls that a protocol takes: up to `longest` letters, digits and `signs` in an id.

    If `exact`, an id has exactly so many characters, and another one becomes a hash. One with the `marker` stays as it
    is. The `names` are those of the tools that a request offers; others have letters, digits, `_` and `-`. Reasoning is
    sent back to its `provider` alone. If `alternates`, user and assistant take turns, so that several messages of one
    are written as one.
    """

    longest: int = 64
    signs: str = "_-"
    exact: bool = False
    marker: str = ""
    alternates: bool = False
    names: frozenset[str] = frozenset()
    provider: str = ""

    def fit_id(self, call_id: str, number: int = 1) -> str:
        """Return an id in this form; the number distinguishes ids that would be the same."""
        if number == 1 and self.marker and self.marker in call_id and not any(map(str.isspace, call_id)):
            return call_id
        fitted = re.sub(f"[^a-zA-Z0-9{self.signs}]", "_", call_id)
        if self.exact:
            if fitted == call_id and len(call_id) == self.longest and number == 1:
                return call_id
            return hashlib.sha256(f"{call_id} {number}".encode(errors="replace")).hexdigest()[: self.longest]
        end = "" if number == 1 else f"_{number}"
        return (fitted[: self.longest - len(end)] or "_") + end

    def fitted(self, messages: Sequence[Message]) -> Iterator[UserMessage | AssistantMessage | ToolMessage]:
        """Yield the messages in this form, without those of the system."""
        for message in map(self.fit, messages):
            if not isinstance(message, SystemMessage):
                yield message

    def fit(self, message: Message) -> Message:
        """Return a message whose calls, or whose result, have this form."""
        match message:
            case AssistantMessage(_, calls) if calls:
                fitted = [ToolCall(self.fit_id(one.id), self._fit_name(one.name), one.arguments) for one in calls]
                return replace(message, tool_calls=tuple(fitted))
            case ToolMessage(call_id):
                return replace(message, call_id=self.fit_id(call_id))
            case _:
                return message

    def _fit_name(self, name: str) -> str:
        if name in self.names:
            return name
        return _NOT_IN_NAME().sub("_", name.partition("<|")[0])[:_LONGEST_NAME] or "tool"


def distinct_calls(messages: Sequence[Message], form: HistoryForm) -> Sequence[Message]:
    """Return the messages with an id for each call that no other call has in this form, and for its result.

    Of servers that send no ids, each reply begins with the same one. The messages themselves stay as they are, so
    another provider gets the ids that it wrote.
    """
    ids = " ".join(derive_texts(messages, (_call_ids, form), lambda part: _call_ids(part, form), " ") or ()).split()
    if len(set(ids)) == len(ids):
        return messages
    if isinstance(messages, Conversation):
        return messages.rewritten((_DistinctIds, form), lambda: _DistinctIds(form).rename)
    return _DistinctIds(form).rename(messages, -1)


def _call_ids(messages: Sequence[Message], form: HistoryForm) -> str:
    calls = [call for one in messages if isinstance(one, AssistantMessage) for call in one.tool_calls]
    return " ".join([form.fit_id(call.id) for call in calls])


@final
class _DistinctIds:
    """The new ids of the calls in the requests of a run. The same call has the same one in all of them.

    A call is known by its place: the part of the conversation, its old id, and how many before it in the part have
    that. So a part may be read again, by several threads, too.
    """

    __slots__ = ("_form", "_made", "_numbers", "_owners")

    def __init__(self, form: HistoryForm) -> None:
        self._form = form
        self._made: dict[_Place, str] = {}
        self._owners: dict[str, _Place] = {}
        # The number in the last new id by the first one: those with lower numbers have owners.
        self._numbers: dict[str, int] = {}

    def _make(self, place: _Place) -> str:
        if place in self._made:
            return self._made[place]
        old = place[1]
        base = self._form.fit_id(old)
        number = self._numbers.get(base, 1)
        while self._owners.setdefault(new := self._form.fit_id(old, number), place) != place:
            number += 1
        self._numbers[base] = number
        self._made[place] = new
        return new

    def rename(self, messages: Sequence[Message], part: int) -> Sequence[Message]:
        """Return the messages of a part with the new ids."""
        counts: Counter[str] = Counter()
        # The new ids of calls by the old one, which several calls may have.
        waiting: dict[str, list[str]] = {}
        renamed: list[Message] = []
        for message in messages:
            match message:
                case AssistantMessage(_, calls) if calls:
                    waiting |= {call.id: [] for call in calls}
                    own: list[ToolCall] = []
                    for call in calls:
                        own.append(replace(call, id=self._make((part, call.id, counts[call.id]))))
                        counts[call.id] += 1
                        waiting[call.id].append(own[-1].id)
                    renamed.append(replace(message, tool_calls=tuple(own)))
                case ToolMessage(call_id):
                    new_id, *later = waiting.get(call_id) or [call_id]
                    waiting[call_id] = later or [new_id]
                    renamed.append(replace(message, call_id=new_id))
                case _:
                    renamed.append(message)
        return renamed


def returned_reasoning(message: AssistantMessage, provider: str) -> dict[Reasoning, JSON]:
    """Return the data of a message's reasoning that is sent back: that of the same provider, beside tool calls.

    Providers that need it (Anthropic, OpenAI's Responses, DeepSeek, OpenRouter) need it for the calls whose results
    follow; some refuse it in other messages.
    """
    parts = message.reasoning if message.tool_calls else ()
    return {part: parse_arguments(part.data) for part in parts if part.provider == provider and part.data}


def ordered_parts(message: AssistantMessage, provider: str, types: Collection[str]) -> list[str | JSON | ToolCall]:
    """Return the text, the reasoning and the calls of a message in the order in which the model wrote them.

    Reasoning is sent back as its objects of these types; never at the end.
    """
    returned = {one: data for one, data in returned_reasoning(message, provider).items() if data.get("type") in types}
    known = replace(message, reasoning=tuple([thought for thought in message.reasoning if thought in returned]))
    parts = [returned[part] if isinstance(part, Reasoning) else part for part in known.parts]
    while parts and isinstance(parts[-1], dict):
        parts.pop()
    return parts
