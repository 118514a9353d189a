"""Decode replies of OpenAI-compatible servers: whole replies, and the chunks of a stream.

Source: OpenAI's API reference; comments name servers that differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from graphexec.messages import FinishReason, ModelReply, ReplyDelta, Usage
from graphexec.models.http.dialect import Draft, PartialCall, make_call_id
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.failures import ErrorReport, error_in_body
from graphexec.models.http.json_bodies import TokenCount, Wire, arguments_text, invalid_reply, read

_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}


class _Usage(Wire):
    prompt_tokens: TokenCount | None = None
    completion_tokens: TokenCount | None = None


class _Function(Wire):
    name: str | None = None
    # Some servers send an object instead of a string.
    # Any: an object's values are arbitrary JSON.
    arguments: str | dict[str, Any] | None = None


class _Call(Wire):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Message(Wire):
    content: str | None = None
    # OpenAI writes a refusal here, and leaves the content null.
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Wire):
    # The whole message of a chat, a piece of one, or the text of a completion.
    message: _Message | None = None
    delta: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Body(Wire):
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Usage | None = None
    # Any: errors have any shape, even with status 200.
    error: Any = None


def decode(body: bytes, endpoint: Endpoint, *, chat: bool) -> ModelReply:
    """Decode the body of a response with status 200. Raises `InvalidReplyError` if it does not follow the protocol."""
    parsed = _parse(body, endpoint)
    if not parsed.choices:
        raise invalid_reply(endpoint, "sent a reply without choices")
    choice = parsed.choices[0]
    if chat and choice.message is None:
        raise invalid_reply(endpoint, "sent a choice without a message")
    if not chat and choice.text is None:
        raise invalid_reply(endpoint, "sent a completion without text")
    message = choice.message if chat and choice.message is not None else _Message(content=choice.text)
    calls = tuple(
        PartialCall(
            call.id or make_call_id(position), call.function.name or "", [arguments_text(call.function.arguments)]
        )
        for position, call in enumerate(message.tool_calls or ())
    )
    return ModelReply(
        _content(message),
        tuple(call.to_call(endpoint) for call in calls),
        _usage(parsed.usage),
        _FINISH_REASONS.get(choice.finish_reason or "", "other"),
        parsed.model or "",
    )


@dataclass(slots=True)
class ChatStream(Draft):
    """The draft of a streamed reply. `take` the data of each event, then call `reply`."""

    # After [DONE], everything is ignored, even a broken connection.
    _done: bool = False
    # The position of each call, by the server's index.
    _positions: dict[int, int] = field(default_factory=dict[int, int])

    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Add one event and yield its deltas."""
        if self._done or not data:
            return
        if data.strip() == "[DONE]":
            self._done = True
            return
        chunk = _parse(data.encode("utf-8", "replace"), self.endpoint)
        self.model = self.model or chunk.model or ""
        if chunk.usage is not None:
            self.usage = _usage(chunk.usage)
        # The chunk with the usage and Azure's first chunk have no choices.
        for choice in (chunk.choices or ())[:1]:
            if choice.finish_reason:
                self.finish = _FINISH_REASONS.get(choice.finish_reason, "other")
            message = choice.delta or choice.message
            yield from self.add_text(choice.text if message is None else _content(message))
            for call in (message.tool_calls if message is not None else None) or ():
                yield self._take_call(call)

    def _take_call(self, call: _Call) -> ReplyDelta:
        position = self._position(call)
        partial_call = self.calls[position]
        # Pieces of a name are joined, as `accumulate_delta` of the openai package does.
        name = call.function.name or ""
        arguments = arguments_text(call.function.arguments)
        partial_call.name += name
        partial_call.arguments.append(arguments)
        return ReplyDelta(index=position, call_id=call.id or "", name=name, arguments=arguments)

    def _position(self, call: _Call) -> int:
        """Return the position of the call that a piece belongs to; the first piece begins a new call.

        Some servers omit `index` or always send 0, and distinguish calls only by their ids.
        """
        calls = self.calls
        last = len(calls) - 1
        known = self._positions.get(call.index) if call.index is not None else (last if last >= 0 else None)
        if known is not None and call.id in {None, "", calls[known].id}:
            return known
        calls.append(PartialCall(call.id or make_call_id(len(calls))))
        if call.index is not None:
            self._positions[call.index] = len(calls) - 1
        return len(calls) - 1

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
    return message.content or message.refusal or ""


def _usage(usage: _Usage | None) -> Usage:
    return Usage() if usage is None else Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0)
