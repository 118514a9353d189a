"""Decode replies from Anthropic: whole messages, and the events of a stream.

Source: Anthropic's API reference. Unknown blocks and events are ignored, as it advises.
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
from graphexec.models.http.json_bodies import Parts, TokenCount, Wire, arguments_text, invalid_reply, read

_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
}


# The blocks of reasoning; a `redacted_thinking` block has only encrypted data.
THINKING = ("thinking", "redacted_thinking")


class _Usage(Wire):
    # `input_tokens` does not include the tokens that were written to or read from the API's cache.
    input_tokens: TokenCount | None = None
    cache_creation_input_tokens: TokenCount | None = None
    cache_read_input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None


class _Block(Wire):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    # Some servers send a string instead of the object.
    # Any: an object's values are arbitrary JSON.
    input: dict[str, Any] | str | None = None


class _Details(Wire):
    explanation: str | None = None


class _Message(Wire):
    content: Parts[_Block] | None = None
    model: str | None = None
    stop_reason: str | None = None
    # The reason if the API's own filter stopped the model: the only text of such a reply.
    stop_details: _Details | None = None
    usage: _Usage | None = None
    # Any: errors have any shape, even with status 200.
    error: Any = None


class _Delta(Wire):
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_details: _Details | None = None


class _Event(Wire):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta = _Delta()
    usage: _Usage | None = None
    # Any: errors have any shape.
    error: Any = None


def decode(body: bytes, endpoint: Endpoint, *, stops: tuple[str, ...] = ()) -> ModelReply:
    """Decode the body of a response with status 200; the text is cut before the first of the `stops`.

    Raises `InvalidReplyError` if the body does not follow the protocol.
    """
    message = read(body, _Message, endpoint)
    if message.error is not None:
        raise error_in_body(endpoint, ErrorReport.from_json({"error": message.error}))
    if message.content is None:
        raise invalid_reply(endpoint, "sent a reply without content")
    draft = AnthropicStream(endpoint, stops)
    for _ in draft.take_message(message):
        # The deltas are not needed.
        pass
    return draft.reply()


@dataclass(slots=True)
class AnthropicStream(Draft):
    """The draft of a streamed reply. `take` the data of each event, then call `reply`.

    It is complete when the stop reason has been received, which comes with the usage.
    """

    # After message_stop, all events are ignored.
    _done: bool = field(default=False, init=False)
    # The position of each call and the input at its beginning, by the server's index.
    _begun: dict[int, tuple[int, str]] = field(default_factory=dict[int, tuple[int, str]], init=False)
    # The blocks of reasoning, by the server's index: the pieces of each member.
    _thinking: dict[int, dict[str, list[str]]] = field(default_factory=dict[int, dict[str, list[str]]], init=False)
    # The counts of later events replace those of earlier ones.
    _counts: dict[str, int] = field(default_factory=dict[str, int], init=False)

    def take_message(self, message: _Message) -> Iterator[ReplyDelta]:
        """Add a whole message and yield its deltas."""
        for index, block in enumerate(message.content or ()):
            yield from self._begin(index, block)
            yield from self._end(index)
        self.model = message.model or ""
        self._count(message.usage)
        yield from self._finish(message.stop_reason or "", message.stop_details)

    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Add one event and yield its deltas."""
        if self._done or not data:
            return
        event = read(data.encode("utf-8", "replace"), _Event, self.endpoint)
        if event.error is not None:
            raise error_in_body(self.endpoint, ErrorReport.from_json({"error": event.error}))
        match event.type:
            case "message_start" if event.message is not None:
                self.model = event.message.model or ""
                self._count(event.message.usage)
            case "content_block_start" if event.content_block is not None:
                yield from self._begin(event.index, event.content_block)
            case "content_block_delta":
                yield from self.add_text(event.delta.text)
                yield from self._think(event.index, event.delta.thinking, event.delta.signature)
                yield from self._extend(event.index, event.delta.partial_json)
            case "content_block_stop":
                yield from self._end(event.index)
            case "message_delta":
                self._count(event.usage)
                yield from self._finish(event.delta.stop_reason, event.delta.stop_details)
            case "message_stop":
                self._done = True
            case _:
                # Pings, and event types that may be added to the API.
                pass

    def _begin(self, index: int, block: _Block) -> Iterator[ReplyDelta]:
        if block.type == "text":
            yield from self.add_text(block.text)
        if block.type in THINKING:
            self.keep(block.data)
            self._thinking[index] = {"type": [block.type]} | ({"data": [block.data]} if block.data else {})
            yield from self._think(index, block.thinking, block.signature)
        # A server that supports stop strings would not have sent a call after one.
        if block.type == "tool_use" and not self.cut.done:
            begins_with = _input(block)
            self.keep(begins_with)
            self._begun[index] = (len(self.calls), begins_with)
            yield from self.add_call(block.id, block.name)

    def _think(self, index: int, text: str | None, signature: str | None) -> Iterator[ReplyDelta]:
        block = self._thinking.get(index)
        if block is None:
            return
        for name, piece in (("thinking", text), ("signature", signature)):
            # Even an empty text is a part of the block, which is sent back unchanged.
            if piece is not None and block["type"] == ["thinking"]:
                self.keep(piece)
                block.setdefault(name, []).append(piece)
        if text:
            yield ReplyDelta(reasoning=text)

    def reasoning(self) -> tuple[Reasoning, ...]:
        """Return the blocks of reasoning, with the data that is sent back beside the reply's calls."""
        provider = self.endpoint.provider_name
        written = [block for _, block in sorted(self._thinking.items())]
        blocks = [{name: "".join(pieces) for name, pieces in block.items()} for block in written]
        return tuple(Reasoning(block.get("thinking", ""), json.dumps(block), provider) for block in blocks)

    def _extend(self, index: int, arguments: str | None) -> Iterator[ReplyDelta]:
        if index in self._begun:
            yield from self.add_arguments(self._begun[index][0], arguments)

    def _end(self, index: int) -> Iterator[ReplyDelta]:
        if index in self._begun:
            position, begun_with = self._begun[index]
            if not self.calls[position].arguments:
                # Counted when the block began.
                self.calls[position].arguments.append(begun_with)
                yield ReplyDelta(index=position, arguments=begun_with)

    def _count(self, usage: _Usage | None) -> None:
        if usage is not None:
            self._counts |= usage.model_dump(exclude_none=True)
        written = self._counts.get("output_tokens", 0)
        cached = self._counts.get("cache_read_input_tokens", 0)
        self.usage = Usage(sum(self._counts.values()) - written, written, cached)

    def _finish(self, reason: str | None, details: _Details | None) -> Iterator[ReplyDelta]:
        if reason is not None:
            self.finish = _FINISH_REASONS.get(reason, "other")
        if not self.texts and details is not None:
            # The API's own filter rejected the text; this explanation replaces it.
            yield from self.add_text(details.explanation)
        yield from self.end_text()


def _input(block: _Block) -> str:
    return arguments_text(block.input if block.input is not None else {})
