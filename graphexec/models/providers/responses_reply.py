"""Decode replies from OpenAI's Responses API: whole responses, and the events of a stream.

Source: OpenAI's API reference; comments say where llama.cpp's server differs. Unknown items and events are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from graphexec.messages import ModelReply, Reasoning, ReplyDelta, Usage
from graphexec.models.http.dialect import Draft
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.failures import ErrorReport, error_in_body
from graphexec.models.http.json_bodies import Parts, TokenCount, Wire, arguments_text, invalid_reply, read


class _Cached(Wire):
    cached_tokens: TokenCount | None = None


class _Usage(Wire):
    input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None
    input_tokens_details: _Cached | None = None


class _Part(Wire):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(Wire):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    # Any: an object's values are arbitrary JSON.
    arguments: str | dict[str, Any] | None = None
    content: Parts[_Part] | None = None
    # "commentary" before calls; "final_answer", or nothing, otherwise.
    phase: str | None = None
    # The reasoning as a summary, and encrypted; open models write it as the content.
    summary: Parts[_Part] | None = None
    encrypted_content: str | None = None


class _Incomplete(Wire):
    reason: str | None = None


class _Response(Wire):
    output: Parts[_Item] | None = None
    status: str | None = None
    incomplete_details: _Incomplete | None = None
    model: str | None = None
    usage: _Usage | None = None
    # Any: errors have any shape, even with status 200.
    error: Any = None


class _Event(Wire):
    type: str = ""
    item: _Item | None = None
    # llama.cpp's server distinguishes items only by their ids.
    output_index: int | None = None
    item_id: str | None = None
    # The number of the part of a summary.
    summary_index: int = 0
    delta: str | None = None
    response: _Response | None = None
    # The members of an error; some servers use only these.
    code: str | None = None
    message: str | None = None
    # Any: errors have any shape.
    error: Any = None


def decode(body: bytes, endpoint: Endpoint, *, stops: tuple[str, ...] = ()) -> ModelReply:
    """Decode the body of a response with status 200; the text is cut before the first of the `stops`.

    Raises `InvalidReplyError` if the body does not follow the protocol, and another `ModelError` if it reports one.
    """
    response = read(body, _Response, endpoint)
    draft = ResponsesStream(endpoint, stops)
    for _ in draft.close(response):
        # The deltas are not needed.
        pass
    if response.output is None:
        raise invalid_reply(endpoint, "sent a reply without output")
    return draft.reply()


@dataclass(slots=True)
class ResponsesStream(Draft):
    """The draft of a streamed reply. `take` the data of each event, then call `reply`."""

    # The position of each call, by the server's index or id of the item.
    _positions: dict[int | str | None, int] = field(default_factory=dict[int | str | None, int], init=False)
    # Whether any output has been received, even if it was held back or cut off; then the last event adds none.
    _begun: bool = field(default=False, init=False)
    # The items of reasoning, by the server's index or id; and the parts of their summaries that were streamed.
    _thoughts: dict[int | str | None, _Item] = field(default_factory=dict[int | str | None, _Item], init=False)
    _streamed: set[tuple[int | str | None, int]] = field(default_factory=set[tuple[int | str | None, int]], init=False)
    # The messages that are no part of the answer.
    _comments: set[int | str | None] = field(default_factory=set[int | str | None], init=False)

    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Add one event and yield its deltas."""
        if self.complete or not data or data.strip() == "[DONE]":
            return
        event = read(data.encode("utf-8", "replace"), _Event, self.endpoint)
        match event.type:
            case "response.output_text.delta" if _key(event) in self._comments and event.delta:
                yield self._think(event)
            case "response.output_text.delta" | "response.refusal.delta":
                self._begun = True
                yield from self.add_text(event.delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" if event.delta:
                yield self._think(event)
            case "response.output_item.added" | "response.output_item.done" if event.item is not None:
                if event.item.type == "function_call":
                    self._begun = True
                    yield from self._take_call(event.item, _key(event))
                elif event.type.endswith("done"):
                    yield from self._take_thoughts(event.item, _key(event))
                elif event.item.phase == _COMMENTARY:
                    self._keep_key(_key(event))
                    self._comments.add(_key(event))
            case "response.function_call_arguments.delta":
                yield from self.add_arguments(self._positions.get(_key(event)), event.delta)
            case "response.completed" | "response.incomplete" | "response.failed" if event.response is not None:
                yield from self.close(event.response)
            case "error":
                raise error_in_body(self.endpoint, _error_report(event))
            case _ if event.error is not None:
                raise error_in_body(self.endpoint, ErrorReport.from_json({"error": event.error}))
            case _:
                # Events without new information, and event types that may be added to the API.
                pass

    def close(self, response: _Response) -> Iterator[ReplyDelta]:
        """Add the final response, and yield the deltas that were not streamed.

        Raises the `ModelError` that a failed response reports.
        """
        if response.error is not None:
            raise error_in_body(self.endpoint, ErrorReport.from_json({"error": response.error}))
        if response.status == "failed":
            raise invalid_reply(self.endpoint, "reports that it failed, without a message")
        if not self._thoughts:
            for number, item in enumerate(response.output or ()):
                yield from self._take_thoughts(item, number)
        if not self._begun:
            for number, item in enumerate(response.output or ()):
                if item.type == "message":
                    for part in _split_parts(item)[0]:
                        yield from self.add_text(part.text or part.refusal)
                if item.type == "function_call":
                    yield from self._take_call(item, number)
        yield from self.end_text()
        usage = response.usage or _Usage()
        cached = (usage.input_tokens_details or _Cached()).cached_tokens
        self.usage = Usage(usage.input_tokens or 0, usage.output_tokens or 0, cached or 0)
        self.model = response.model or ""
        if response.status == "completed":
            self.finish = "tool_calls" if self.calls else "stop"
        else:
            reason = response.incomplete_details.reason if response.incomplete_details is not None else None
            self.finish = "length" if reason == "max_output_tokens" else "other"

    def _take_call(self, item: _Item, key: int | str | None) -> Iterator[ReplyDelta]:
        position = self._positions.get(key)
        if position is None:
            # A server that supports stop strings would not have sent a call after one.
            if self.cut.done:
                return
            self._keep_key(key)
            position = self._positions[key] = len(self.calls)
            yield from self.add_call(item.call_id or item.id, item.name)
        if not self.calls[position].arguments:
            yield from self.add_arguments(position, arguments_text(item.arguments))

    def _think(self, event: _Event) -> ReplyDelta:
        """Return the delta of a streamed piece; an empty line separates the parts of a summary."""
        part = (_key(event), event.summary_index)
        begins = part not in self._streamed and bool(self._streamed)
        if part not in self._streamed:
            self._keep_key(part[0])
            self._streamed.add(part)
        self.keep(event.delta)
        return ReplyDelta(reasoning=f"{_BREAK if begins else ''}{event.delta}")

    def _take_thoughts(self, item: _Item, key: int | str | None) -> Iterator[ReplyDelta]:
        if item.type == "message" and (parts := _split_parts(item)[1]):
            item = _Item(type="reasoning", summary=parts)
        if item.type != "reasoning":
            return
        text = _text_of(item)
        # A text that was streamed has been counted.
        self.keep(item.encrypted_content, None if self._streamed else text)
        self._keep_key(key)
        self._thoughts[key] = item
        if text and not self._streamed:
            yield ReplyDelta(reasoning=text)

    def _keep_key(self, key: int | str | None) -> None:
        self.keep(key if isinstance(key, str) else None)

    def reasoning(self) -> tuple[Reasoning, ...]:
        """Return the items of reasoning, with the data that is sent back beside the reply's calls."""
        provider = self.endpoint.provider_name
        return tuple(
            Reasoning(_text_of(item), _data_of(item), provider) for item in self._thoughts.values() if _has(item)
        )


# Between two parts of a summary.
_BREAK = "\n\n"
_COMMENTARY = "commentary"
# Types of parts of a message that are no part of the answer.
_THOUGHTS = {"reasoning_text", "summary_text", "reasoning", "thinking"}


def _split_parts(message: _Item) -> tuple[list[_Part], list[_Part]]:
    """Return the parts of a message that are its text, and those that are reasoning."""
    parts = message.content or []
    if message.phase == _COMMENTARY:
        return [], parts
    return [part for part in parts if part.type not in _THOUGHTS], [part for part in parts if part.type in _THOUGHTS]


def _text_of(item: _Item) -> str:
    return _BREAK.join([part.text for part in item.summary or item.content or () if part.text])


def _data_of(item: _Item) -> str:
    """Return an item as it is sent back; nothing without a content: the server has not stored it."""
    if not (item.encrypted_content or item.content):
        return ""
    sent = item.model_dump(include={"type", "id", "summary", "content", "encrypted_content"}, exclude_none=True)
    return json.dumps({"summary": [], **sent})


def _has(item: _Item) -> bool:
    return bool(_text_of(item) or _data_of(item))


def _key(event: _Event) -> int | str | None:
    if event.output_index is not None:
        return event.output_index
    return event.item.id if event.item is not None else event.item_id


def _error_report(event: _Event) -> ErrorReport:
    if event.error is not None:
        return ErrorReport.from_json({"error": event.error})
    return ErrorReport(event.message or "without a message", event.code or "")
