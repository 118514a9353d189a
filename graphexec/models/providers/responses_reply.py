"""What comes back from OpenAI's Responses API: a response as a `ModelReply`, and a stream's events folded into one.

Source: OpenAI's API reference; where llama.cpp's server differs, a comment says so. Items and events that are not
asked for (reasoning, say) are left out.
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
    """A text as far as it came and may be shown. `take` each piece, then the `rest`.

    Of several stop texts the one that is whole first counts, as at a server that looks after every letter; so the same
    text is cut at the same place however it comes in pieces. `done` once it was cut.
    """

    stops: tuple[str, ...]
    done: bool = False
    # The end of the text that a stop text may begin with.
    _held: str = ""

    def take(self, piece: str) -> str:
        """Take in a piece, and return what may be shown by now."""
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
        """Return what was held back, at the end of the text."""
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
    # Any: an error comes in any shape, even with status 200.
    error: Any = None


class _Event(Wire):
    type: str = ""
    item: _Item | None = None
    # llama.cpp's server tells items apart by their ids alone.
    output_index: int | None = None
    item_id: str | None = None
    delta: str | None = None
    response: _Response | None = None
    # An error's own members, or where some servers put them all.
    code: str | None = None
    message: str | None = None
    # Any: an error comes in any shape.
    error: Any = None


def decode(body: bytes, endpoint: Endpoint, *, stop: tuple[str, ...] = ()) -> ModelReply:
    """Return the reply in the body of a 200, its text cut before the first of the `stop` texts.

    Raises `InvalidReplyError` where it is not what the protocol says, and another `ModelError` where it tells of one.
    """
    response = read(body, _Response, endpoint)
    fold = ResponsesStream(endpoint, StopCutter(stop))
    for _ in fold.close(response):
        # Its pieces are in the fold.
        pass
    if response.output is None:
        raise invalid_reply(endpoint, "sent a reply without output")
    return fold.reply()


@dataclass(slots=True)
class ResponsesStream(Draft):
    """The events of one stream, as far as they came. `take` each event's data, then ask for the `reply`."""

    cut: StopCutter
    # The position among the calls of each item, by the server's index or id.
    _positions: dict[int | str | None, int] = field(default_factory=dict[int | str | None, int])
    # Whether a piece of the output came, be it held back or cut off: then the last event adds nothing to it.
    _begun: bool = False

    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Take in one event, and give what it adds."""
        if self.complete or not data or data.strip() == "[DONE]":
            return
        event = read(data.encode("utf-8", "replace"), _Event, self.endpoint)
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                self._begun = True
                yield from self.say(self.cut.take(event.delta or ""))
            case "response.output_item.added" | "response.output_item.done" if event.item is not None:
                if event.item.type == "function_call":
                    self._begun = True
                    yield from self._take_call(event.item, _key(event))
            case "response.function_call_arguments.delta":
                yield from self.extend(self._positions.get(_key(event)), event.delta)
            case "response.completed" | "response.incomplete" | "response.failed" if event.response is not None:
                yield from self.close(event.response)
            case "error":
                raise error_in_body(self.endpoint, _complaint(event))
            case _ if event.error is not None:
                raise error_in_body(self.endpoint, ErrorReport.of({"error": event.error}))
            case _:
                # Events that say nothing new, and those that there will be one day.
                pass

    def close(self, response: _Response) -> Iterator[ReplyDelta]:
        """Take in the response as it is at its end, and give what had not come in pieces.

        Raises the `ModelError` that a failed one tells of.
        """
        if response.error is not None:
            raise error_in_body(self.endpoint, ErrorReport.of({"error": response.error}))
        if response.status == "failed":
            raise invalid_reply(self.endpoint, "reports that it failed, without a word")
        if not self._begun:
            for number, item in enumerate(response.output or ()):
                if item.type == "message":
                    for part in item.content or ():
                        yield from self.say(self.cut.take(part.text or part.refusal or ""))
                if item.type == "function_call":
                    yield from self._take_call(item, number)
        yield from self.say(self.cut.rest())
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
            # What comes after a stop text, a server that knows them would not have said.
            if self.cut.done:
                return
            position = self._positions[key] = len(self.calls)
            yield from self.call(item.call_id or item.id, item.name)
        if not self.calls[position].arguments:
            yield from self.extend(position, arguments_text(item.arguments))


def _key(event: _Event) -> int | str | None:
    if event.output_index is not None:
        return event.output_index
    return event.item.id if event.item is not None else event.item_id


def _complaint(event: _Event) -> ErrorReport:
    if event.error is not None:
        return ErrorReport.of({"error": event.error})
    return ErrorReport(event.message or "without a word", event.code or "")
