"""Decode replies from OpenAI's Responses API: whole responses, and the events of a stream.

Source: OpenAI's API reference; comments say where llama.cpp's server differs. Unknown items and events (reasoning, for
example) are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from graphexec.messages import ModelReply, ReplyDelta, Usage
from graphexec.models.http.dialect import Draft
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.failures import ErrorReport, error_in_body
from graphexec.models.http.json_bodies import TokenCount, Wire, arguments_text, invalid_reply, read


@dataclass(slots=True)
class StopCutter:
    """Cuts a streamed text before the first stop string. `take` each piece, then call `rest`.

    Of several stop strings, the one that ends first counts, as on a server that checks after every character, so the
    position does not depend on the pieces. `done` is true after the cut.
    """

    stops: tuple[str, ...]
    done: bool = False
    # The end of the text, if a stop string may begin there.
    _held: str = ""

    def take(self, piece: str) -> str:
        """Add a piece, and return the text that can be shown now."""
        if self.done:
            return ""
        text = self._held + piece
        found = [(text.index(stop) + len(stop), -len(stop)) for stop in self.stops if stop and stop in text]
        if found:
            end, length = min(found)
            self.done, self._held = True, ""
            return text[: end + length]
        longest = max(map(len, self.stops), default=0)
        held = next((n for n in range(min(longest, len(text)), 0, -1) if self._may_begin(text[-n:])), 0)
        shown, self._held = text[: len(text) - held], text[len(text) - held :]
        return shown

    def rest(self) -> str:
        """Return the text that was held back, after the last piece."""
        rest, self._held = self._held, ""
        return rest

    def _may_begin(self, end: str) -> bool:
        return any(stop.startswith(end) for stop in self.stops)


class _Usage(Wire):
    input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None


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
    content: list[_Part] | None = None


class _Incomplete(Wire):
    reason: str | None = None


class _Response(Wire):
    output: list[_Item] | None = None
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
    delta: str | None = None
    response: _Response | None = None
    # The members of an error; some servers use only these.
    code: str | None = None
    message: str | None = None
    # Any: errors have any shape.
    error: Any = None


def decode(body: bytes, endpoint: Endpoint, *, stop: tuple[str, ...] = ()) -> ModelReply:
    """Decode the body of a response with status 200; the text is cut before the first `stop` string.

    Raises `InvalidReplyError` if the body does not follow the protocol, and another `ModelError` if it reports one.
    """
    response = read(body, _Response, endpoint)
    draft = ResponsesStream(endpoint, StopCutter(stop))
    for _ in draft.close(response):
        # The deltas are not needed.
        pass
    if response.output is None:
        raise invalid_reply(endpoint, "sent a reply without output")
    return draft.reply()


@dataclass(slots=True)
class ResponsesStream(Draft):
    """The draft of a streamed reply. `take` the data of each event, then call `reply`."""

    cut: StopCutter
    # The position of each call, by the server's index or id of the item.
    _positions: dict[int | str | None, int] = field(default_factory=dict[int | str | None, int])
    # Whether any output has been received, even if it was held back or cut off; then the last event adds none.
    _begun: bool = False

    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Add one event and yield its deltas."""
        if self.complete or not data or data.strip() == "[DONE]":
            return
        event = read(data.encode("utf-8", "replace"), _Event, self.endpoint)
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                self._begun = True
                yield from self.add_text(self.cut.take(event.delta or ""))
            case "response.output_item.added" | "response.output_item.done" if event.item is not None:
                if event.item.type == "function_call":
                    self._begun = True
                    yield from self._take_call(event.item, _key(event))
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
        if not self._begun:
            for number, item in enumerate(response.output or ()):
                if item.type == "message":
                    for part in item.content or ():
                        yield from self.add_text(self.cut.take(part.text or part.refusal or ""))
                if item.type == "function_call":
                    yield from self._take_call(item, number)
        yield from self.add_text(self.cut.rest())
        usage = response.usage or _Usage()
        self.usage = Usage(usage.input_tokens or 0, usage.output_tokens or 0)
        self.model = response.model or ""
        if response.status == "completed" or self.cut.done:
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
            position = self._positions[key] = len(self.calls)
            yield from self.add_call(item.call_id or item.id, item.name)
        if not self.calls[position].arguments:
            yield from self.add_arguments(position, arguments_text(item.arguments))


def _key(event: _Event) -> int | str | None:
    if event.output_index is not None:
        return event.output_index
    return event.item.id if event.item is not None else event.item_id


def _error_report(event: _Event) -> ErrorReport:
    if event.error is not None:
        return ErrorReport.from_json({"error": event.error})
    return ErrorReport(event.message or "without a message", event.code or "")
