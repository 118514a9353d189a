"""A dialect: the requests of one protocol, with the histories of any provider in a form that it takes."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, final

from graphexec._parsing import compile_lazily
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ModelRequest,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphexec.messages.turns import Conversation, derive_texts
from graphexec.models.http.draft import Draft
from graphexec.models.http.json_bodies import merge_bodies, to_chat, tool_choice_of
from graphexec.models.http.json_values import JSON, parse_arguments
from graphexec.models.http.refusals import Parameter, Repair

# The options of a model under the names that a body has for them.
OPTIONS = ("model", "temperature", "max_tokens", "top_p", "seed", "reasoning_effort")
# The remedies for members of `extra_body` that belong to the request, not to the model, and for an absent option.
_REQUEST_WRITES_IT = "each request writes it; leave it out"
_CHOOSE_TOOL = "pass tool_choice to create_tool_calling_agent, or in a ChatRequest"
NO_SEED = {"seed": "leave it out, or pass extra_body={'seed': ...} if your server takes it"}


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings of a model for all requests; `None` is the server's default. `max_tokens` bounds a reply.

    `extra_body` has further members of the body. `provider` is the name of the provider, whose reasoning is sent back.
    """

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    extra_body: Mapping[str, Any] | None = None
    provider: str = ""


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
    sent back to its `provider` alone.
    """

    longest: int = 64
    signs: str = "_-"
    exact: bool = False
    marker: str = ""
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


class Dialect(ABC):
    """One protocol: how its requests are written, and its replies read.

    `draft` is the class of the drafts of replies. `parameters` are those that a server may refuse; each has the value
    of an option, if there is one of its name. Each request writes the members in `written`, so `extra_body` may not set
    them; nor may it set those `reserved`. These and the options that are `absent` in the protocol have remedies.
    `streaming` are the members that ask for a stream. `max_tokens` bounds a reply if the user does not; `None` is the
    server's default. `repairs` are the other forms of a request that a server may demand.
    """

    draft: ClassVar[type[Draft]]
    parameters: ClassVar[tuple[Parameter, ...]]
    written: ClassVar[tuple[str, ...]]
    reserved: ClassVar[Mapping[str, str]] = {}
    absent: ClassVar[Mapping[str, str]] = {}
    streaming: ClassVar[JSON] = {"stream": True}
    max_tokens: ClassVar[int | None] = None
    repairs: ClassVar[tuple[Repair, ...]] = ()

    @abstractmethod
    def route(self, request: ModelRequest, /) -> str:
        """Return a path below the base URL."""

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers with the API key, if there is one; these are those of OpenAI and most other servers."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def encode(self, request: ModelRequest, sampling: Sampling, *, stream: bool) -> JSON:
        """Return the body of the POST. A completion request becomes a single user message.

        Raises `BadRequestError` if the protocol cannot express the request, and for a tool choice that the request does
        not offer.
        """
        chat = to_chat(request)
        names = frozenset(tool.name for tool in chat.tools)
        form = replace(self._form(sampling), names=names, provider=sampling.provider)
        choice = tool_choice_of(chat, sampling.model)
        body = self._write(replace(chat, messages=distinct_calls(chat.messages, form)), sampling, form)
        body |= {} if choice is None else {"tool_choice": self._choose(choice)}
        return merge_bodies(self._options(sampling, body, stream=stream), sampling.extra_body or {})

    def _options(self, sampling: Sampling, body: JSON, *, stream: bool) -> JSON:
        """Return a body with the options of the model."""
        body = {"model": sampling.model, **body, **(self.streaming if stream else {})}
        for parameter in self.parameters:
            value = getattr(sampling, parameter.option or parameter.path, None)
            if value is not None:
                outer, _, inner = parameter.path.partition(".")
                body[outer] = {**body.get(outer, {}), inner: value} if inner else value
        return body

    def _form(self, _sampling: Sampling, /) -> HistoryForm:
        """Return the form of the calls in a history."""
        return HistoryForm()

    @abstractmethod
    def _write(self, request: ChatRequest, sampling: Sampling, form: HistoryForm, /) -> JSON:
        """Return the messages, the tools and the schema of a request; members that are `None` are not sent."""

    @abstractmethod
    def _choose(self, choice: str) -> JSON | str:
        """Return the tool choice: `none`, `required` or the name of a tool."""

    def remedies(self, *absent: str) -> dict[str, str]:
        """Return what to write instead of the members that `extra_body` may not set, by their paths.

        Those of `absent` options it may set, too.
        """
        options = {name: f"pass {name}" for name in OPTIONS if name not in {*absent, *self.absent}}
        named = {one.path: f"pass {one.option}" for one in self.parameters if one.option in options}
        written = dict.fromkeys(("stream", *self.written), _REQUEST_WRITES_IT)
        return {**options, **named, **written, "tool_choice": _CHOOSE_TOOL, **self.reserved}


def describe_tool(tool: ToolSpec) -> JSON:
    """Return a tool as OpenAI's protocols describe a function."""
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
