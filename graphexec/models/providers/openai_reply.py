"""Decode replies of OpenAI-compatible servers: whole replies, and the chunks of a stream.

Source: OpenAI's API reference; comments name servers that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from graphexec.messages import FinishReason, ModelReply, Reasoning, ReplyDelta, Usage
from graphexec.models.http.dialect import Draft
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.failures import ErrorReport, error_in_body
from graphexec.models.http.json_bodies import JSON, Parts, TokenCount, Wire, arguments_text, invalid_reply, read

_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}


# The members of a message in which servers write the reasoning, and read it again beside tool calls: DeepSeek, vLLM and
# llama.cpp; OpenRouter, Groq and newer versions of vLLM; OpenRouter for parts with signatures.
REASONING_MEMBERS = ("reasoning_content", "reasoning", "reasoning_details")
# The types of the parts of a content that are the reply's text; some servers omit the type.
_TEXT_PARTS = frozenset({"text", "output_text", ""})
# Gemini's signature of its reasoning in a tool call; it refuses a history without it.
EXTRA_CONTENT = "extra_content"


class _Cached(Wire):
    cached_tokens: TokenCount | None = None


class _Usage(Wire):
    prompt_tokens: TokenCount | None = None
    completion_tokens: TokenCount | None = None
    prompt_tokens_details: _Cached | None = None
    # The names of DeepSeek and Moonshot.
    prompt_cache_hit_tokens: TokenCount | None = None
    cached_tokens: TokenCount | None = None


class _Function(Wire):
    name: str | None = None
    # Some servers send an object instead of a string.
    # Any: an object's values are arbitrary JSON.
    arguments: str | dict[str, Any] | None = None


class _Call(Wire):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()
    # Any: an object of the provider.
    extra_content: Any = None


class _Part(Wire):
    """A part of a content that is a list: Mistral's reasoning models write `thinking` parts before `text` parts."""

    type: str = ""
    text: str | None = None
    thinking: Parts[_Part] | str | None = None
    summary: Parts[_Part] | None = None


class _Message(Wire):
    content: str | Parts[_Part] | None = None
    # Any: invalid reasoning must not make a reply invalid.
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    # OpenAI writes a refusal here, and leaves the content null.
    refusal: str | None = None
    tool_calls: Parts[_Call] | None = None


class _Choice(Wire):
    # The whole message of a chat, a piece of one, or the text of a completion.
    message: _Message | None = None
    delta: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Body(Wire):
    choices: Parts[_Choice] | None = None
    model: str | None = None
    usage: _Usage | None = None
    # Any: errors have any shape, even with status 200.
    error: Any = None


def decode(body: bytes, endpoint: Endpoint, *, chat: bool, stops: tuple[str, ...] = ()) -> ModelReply:
    """Decode the body of a response with status 200; the text is cut before the first of the `stops`.

    Raises `InvalidReplyError` if the body does not follow the protocol.
    """
    parsed = _parse(body, endpoint)
    if not parsed.choices:
        raise invalid_reply(endpoint, "sent a reply without choices")
    choice = parsed.choices[0]
    if chat and choice.message is None:
        raise invalid_reply(endpoint, "sent a choice without a message")
    if not chat and choice.text is None:
        raise invalid_reply(endpoint, "sent a completion without text")
    draft = ChatStream(endpoint, stops)
    for _ in draft.take_whole(parsed, choice.message if chat else None):
        # The deltas are not needed.
        pass
    return draft.whole_reply()


@dataclass(slots=True)
class ChatStream(Draft):
    """The draft of a streamed reply. `take` the data of each event, then call `reply`."""

    # After [DONE], everything is ignored, even a broken connection.
    _done: bool = field(default=False, init=False)
    # The position of each call, by the server's index.
    _positions: dict[int, int] = field(default_factory=dict[int, int], init=False)
    # The pieces of the reasoning, the member that has it, and its parts with signatures.
    _thoughts: list[str] = field(default_factory=list[str], init=False)
    _member: str = field(default="", init=False)
    _details: list[JSON] = field(default_factory=list[JSON], init=False)
    # What a provider added to a call, by the call's position.
    _extras: dict[int, Any] = field(default_factory=dict[int, Any], init=False)

    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Add one event and yield its deltas."""
        if self._done or not data:
            return
        if data.strip() == "[DONE]":
            self._done = True
            return
        chunk = _parse(data.encode("utf-8", "replace"), self.endpoint)
        # The chunk with the usage and Azure's first chunk have no choices.
        choice = chunk.choices[0] if chunk.choices else _Choice()
        if choice.finish_reason:
            self.finish = _FINISH_REASONS.get(choice.finish_reason, "other")
        message = choice.delta or choice.message
        yield from self._take(chunk, choice, message)
        for call in (message.tool_calls if message is not None else None) or ():
            yield from self._take_call(call)
        if self.finish is not None:
            yield from self.end_text()

    def take_whole(self, body: _Body, message: _Message | None) -> Iterator[ReplyDelta]:
        """Add a whole reply and yield its deltas; a completion has no message."""
        choice = (body.choices or (_Choice(),))[0]
        self.finish = _FINISH_REASONS.get(choice.finish_reason or "", "other")
        yield from self._take(body, choice, message)
        # The calls of a whole message are separate, even without an index or an id.
        for call in (message.tool_calls if message is not None else None) or ():
            if not self.cut.done:
                yield self._extend(self.begin_call(call.id), call)
        yield from self.end_text()

    def _take(self, body: _Body, choice: _Choice, message: _Message | None) -> Iterator[ReplyDelta]:
        self.model = self.model or body.model or ""
        if body.usage is not None:
            self.usage = _usage(body.usage)
        if message is None:
            yield from self.add_text(choice.text)
            return
        yield from self._take_reasoning(message)
        yield from self.add_text(_content(message))

    def _take_reasoning(self, message: _Message) -> Iterator[ReplyDelta]:
        details = _objects(message.reasoning_details)
        for detail in details:
            self.keep(*[value for value in detail.values() if isinstance(value, str)])
            _add_detail(self._details, detail)
        member = next((name for name in REASONING_MEMBERS if isinstance(getattr(message, name), str)), "")
        self._member = self._member or member
        written = getattr(message, member) if member else _texts(message, details)
        if written:
            # That of the details has been counted with them.
            self.keep(written if member else None)
            self._thoughts.append(written)
            yield ReplyDelta(reasoning=written)

    def reasoning(self) -> tuple[Reasoning, ...]:
        """Return the reasoning, with the data that is sent back beside the reply's calls."""
        text = "".join(self._thoughts)
        data: JSON = {}
        if self._details:
            data["reasoning_details"] = [_join(detail) for detail in self._details]
        elif self._member and (text or self.calls):
            # DeepSeek requires the member beside calls even if it is empty.
            data[self._member] = text
        if self._extras:
            data[EXTRA_CONTENT] = {
                self.calls[place].id: {EXTRA_CONTENT: extra} for place, extra in self._extras.items()
            }
        if not text and not data:
            return ()
        return (Reasoning(text, json.dumps(data) if data else "", self.endpoint.provider_name),)

    def _take_call(self, call: _Call) -> Iterator[ReplyDelta]:
        position = self._position(call)
        if position is not None:
            yield self._extend(position, call)

    def _extend(self, position: int, call: _Call) -> ReplyDelta:
        partial_call = self.calls[position]
        # Pieces of a name are joined, as `accumulate_delta` of the openai package does.
        name = call.function.name or ""
        arguments = arguments_text(call.function.arguments)
        self.keep(name, arguments)
        partial_call.name += name
        partial_call.arguments.append(arguments)
        if call.extra_content:
            self.keep(str(call.extra_content))
            self._extras[position] = call.extra_content
        return ReplyDelta(index=position, call_id=call.id or "", name=name, arguments=arguments)

    def _position(self, call: _Call) -> int | None:
        """Return the position of the call that a piece belongs to; the first piece begins a new call.

        Some servers omit `index` or always send 0, and distinguish calls only by their ids. After the cut at a stop
        string there are no new calls.
        """
        calls = self.calls
        last = len(calls) - 1
        known = self._positions.get(call.index) if call.index is not None else (last if last >= 0 else None)
        if known is not None and call.id in {None, "", calls[known].id}:
            return known
        if self.cut.done:
            return None
        position = self.begin_call(call.id)
        if call.index is not None:
            self._positions[call.index] = position
        return position

    @property
    def complete(self) -> bool:
        """True after the finish reason, followed by [DONE] or the usage."""
        return self.finish is not None and (self._done or self.usage is not None)


def _parse(body: bytes, endpoint: Endpoint) -> _Body:
    parsed = read(body, _Body, endpoint)
    if parsed.error is not None:
        raise error_in_body(endpoint, ErrorReport.from_json({"error": parsed.error}))
    return parsed


def _content(message: _Message) -> str:
    content = message.content
    if isinstance(content, list):
        content = "".join([part.text or "" for part in content if part.type in _TEXT_PARTS])
    return content or message.refusal or ""


def _texts(message: _Message, details: list[JSON]) -> str:
    """Return the reasoning that has no member of its own: in parts of the content, or in details."""
    parts = message.content if isinstance(message.content, list) else ()
    shown = [detail.get("text") or detail.get("summary") for detail in details]
    return "".join([*map(_thought, parts), *(text for text in shown if isinstance(text, str))])


def _thought(part: _Part) -> str:
    inner = part.thinking if part.thinking is not None else part.summary
    return inner if isinstance(inner, str) else "".join([one.text or "" for one in inner or ()])


# Any: a value of JSON.
def _objects(value: Any) -> list[JSON]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def _add_detail(details: list[JSON], piece: JSON) -> None:
    """Add a part of the reasoning, or a piece of the last part, as OpenRouter streams them.

    Pieces of one part have the same type, index and id, as far as they have them.
    """
    last: JSON = details[-1] if details else {}
    if not details or any(last.get(key) != piece.get(key, last.get(key)) for key in ("type", "index", "id")):
        last = {}
        details.append(last)
    for key, value in piece.items():
        if key in {"text", "summary", "data"} and isinstance(value, str):
            before = last.get(key)
            last[key] = before if isinstance(before, _Pieces) else _Pieces()
            last[key].append(value)
        elif value is not None or key not in last:
            last[key] = value


class _Pieces(list[str]):
    """The pieces of a string, which are joined once."""


def _join(detail: JSON) -> JSON:
    return {key: "".join(value) if isinstance(value, _Pieces) else value for key, value in detail.items()}


def _usage(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details or _Cached()
    cached = details.cached_tokens or usage.prompt_cache_hit_tokens or usage.cached_tokens or 0
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, cached)
