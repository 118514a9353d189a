"""Decode replies from OpenAI's Responses API: whole responses, and the events of a stream.

Source: OpenAI's API reference; comments say where servers differ. Unknown items and events are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from graphexec.messages import ModelReply, ReplyDelta, Usage
from graphexec.models.http.dialect import PartialCall
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.failures import ErrorReport, error_in_body
from graphexec.models.http.json_bodies import JSON, arguments_text, invalid_reply, parse
from graphexec.models.providers.blocks import (
    Block,
    BlockDraft,
    Kind,
    best_arguments,
    is_object,
    members_of,
    number,
    word,
)

_KINDS: dict[str, Kind] = {"message": "text", "function_call": "call", "reasoning": "reasoning"}
# The members of items that are no part of the answer: one of another type is as good as none.
_WORDS = ("id", "call_id", "phase", "encrypted_content")
# The members of reasoning that are sent back.
_SENT = ("type", "id", "summary", "content", "encrypted_content")
# Types of parts of a message that are no part of the answer.
_THOUGHTS = {"reasoning_text", "summary_text", "reasoning", "thinking"}
# Between two parts of a summary.
_BREAK = "\n\n"
_COMMENTARY = "commentary"
# The kind of block that an event is about, by the words in the event's type.
_ABOUT: dict[str, Kind] = {"output_text": "text", "refusal": "text", "reasoning": "reasoning", "function_call": "call"}
_ENDINGS = ("completed", "incomplete", "failed", "cancelled", "done")


def decode(body: bytes, endpoint: Endpoint, *, stops: tuple[str, ...] = ()) -> ModelReply:
    """Decode the body of a response with status 200; the text is cut before the first of the `stops`.

    Raises `InvalidReplyError` if the body does not follow the protocol, and another `ModelError` if it reports one.
    """
    response = parse(body, endpoint)
    draft = ResponsesStream(endpoint, stops)
    for _ in draft.close(response):
        # The deltas are not needed.
        pass
    if response.get("output") is None and not draft.blocks:
        raise invalid_reply(endpoint, "sent a reply without output")
    return draft.reply()


@dataclass(slots=True)
class ResponsesStream(BlockDraft):
    """The draft of a streamed reply. `take` the data of each event, then call `reply`.

    It is complete with the final response; if a gateway leaves that out, at `[DONE]`, when each item has ended.
    """

    # The blocks by the server's index or id of the item. llama.cpp's server has only ids, and gateways change the ids.
    _known: dict[int | str, Block] = field(default_factory=dict[int | str, Block], init=False)
    # The last event, which a gateway may send again.
    _last: str = field(default="", init=False)
    # The part of the reasoning of which the last piece was streamed.
    _part: tuple[int, int] | None = field(default=None, init=False)

    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Add one event and yield its deltas."""
        if self.complete or not data:
            return
        if data.strip() == "[DONE]":
            if self.blocks and all(block.ended for block in self.blocks):
                yield from self._finish("completed", {})
            return
        event = parse(data, self.endpoint)
        if data == self._last and number(event.get("sequence_number")):
            return
        self._last = data
        self.check_error(event.get("error"))
        name = self.string(event.get("type"), "type").removeprefix("response.")
        if name == "content_part.done" and word(event.get("item_id")) in self._known:
            # The whole part; some gateways send its text nowhere else.
            part = members_of(event.get("part"))
            event, name = {**event, **part}, f"{self.string(part.get('type'), 'part.type')}.done"
        kind: Kind | None = next((_ABOUT[start] for start in _ABOUT if name.startswith(start)), None)
        if kind is not None:
            yield from self._take_piece(event, name, kind)
        elif name.startswith("output_item."):
            for item in self.objects(event.get("item"), "item"):
                yield from self._take_item(event, name, item)
        elif name in _ENDINGS:
            for response in self.objects(event.get("response"), "response"):
                yield from self.close(response, name)
        elif name == "error":
            report = ErrorReport(word(event.get("message")) or "without a message", word(event.get("code")))
            raise error_in_body(self.endpoint, report)
        elif not name and event.keys() & {"delta", "item", "response"}:
            raise invalid_reply(self.endpoint, "sent an event without a type")

    def close(self, response: JSON, status: str = "completed") -> Iterator[ReplyDelta]:
        """Add the final response, and yield the deltas that were not streamed.

        Raises the `ModelError` that a failed response reports.
        """
        self.check_error(response.get("error"))
        status = word(response.get("status")) or status
        if status == "failed":
            raise invalid_reply(self.endpoint, "reports that it failed, without a message")
        left, final = [*self.blocks], list[Block]()
        for index, item in enumerate(self.objects(response.get("output"), "output")):
            block = self._match(item, index, left)
            if block is None:
                block = self.begin_block(self._kind_of(item), {})
            else:
                left.remove(block)
            self._merge_item(block, item, f"output.{index}")
            final.append(block)
        # What the final response leaves out stays behind the block before it.
        for block in left:
            place = self.blocks.index(block)
            final.insert(final.index(self.blocks[place - 1]) + 1 if place else 0, block)
        self.blocks = final
        if not any(map(self.text_of, self._of_kind("text"))) and (text := word(response.get("output_text"))):
            self.begin_block("text", {"content": [{"type": "output_text", "text": text}]})
        if status in {"queued", "in_progress"} and not self.blocks:
            raise invalid_reply(self.endpoint, f"sent a response that is not finished ({status})")
        yield from self._finish(status, response)

    def _finish(self, status: str, response: JSON) -> Iterator[ReplyDelta]:
        usage, details = members_of(response.get("usage")), members_of(response.get("incomplete_details"))
        prompt, written = (number(usage.get(name)) or 0 for name in ("input_tokens", "output_tokens"))
        # Some servers count the reasoning only in the total.
        written = max(written, (number(usage.get("total_tokens")) or 0) - prompt)
        cached = number(members_of(usage.get("input_tokens_details")).get("cached_tokens")) or 0
        self.usage = Usage(prompt, written, cached)
        self.model = word(response.get("model"))
        called, texts = self._of_kind("call"), [*filter(self.text_of, self._of_kind("text"))]
        reason = word(details.get("reason"))
        if status in {"completed", "done"}:
            self.finish = "tool_calls" if called else "stop"
        else:
            # Without a reason it is as good as cut.
            self.finish = "length" if status == "incomplete" and reason in {"", "max_output_tokens"} else "other"
        if not called and all(map(_is_refusal, texts)) and (texts or reason == "content_filter"):
            self.refusal = "".join(map(self.text_of, texts)) or reason
        yield from self.end_blocks()

    def _of_kind(self, kind: Kind) -> list[Block]:
        return [block for block in self.blocks if block.kind == kind]

    def _take_item(self, event: JSON, name: str, item: JSON) -> Iterator[ReplyDelta]:
        begins = name.endswith("added")
        kind = _KINDS.get(self.string(item.get("type"), "item.type"), "other")
        block = self._find(event, item, kind, begins=begins)
        if block is None or (begins and not self._continues(block, item)):
            block = self.begin_block(self._kind_of(item), {})
        self._register(block, event, item)
        self._merge_item(block, item, "item")
        yield from self.announce(block)
        if not begins:
            block.ended = True
            yield from self.show_rest([block])

    def _take_piece(self, event: JSON, name: str, kind: Kind) -> Iterator[ReplyDelta]:
        """Add a piece to the block that an event is about, or what its pieces make together."""
        block = self._known.get(word(event.get("item_id"))) or self._find(event, {}, kind)
        if block is None:
            block = self.begin_block(kind, {})
            self._register(block, event, {})
        part = number(event.get("summary_index")) or number(event.get("content_index")) or 0
        piece = self.string(event.get("delta"), "delta")
        whole = self.string(event.get("text"), "text") or self.string(event.get("refusal"), "refusal")
        if name.startswith("refusal"):
            block.members["refused"] = True
        if name.endswith("done") and kind == "call":
            self._merge_item(block, {"arguments": event.get("arguments"), "name": event.get("name")}, "event")
        elif name.endswith("done") and whole and block.kind != "other":
            self.keep(whole[sum(map(len, block.pieces.get(part, ()))) :])
            block.pieces[part] = [whole]
        elif piece:
            if block.kind == "reasoning":
                if self._part not in {None, (id(block), part)}:
                    yield ReplyDelta(reasoning=_BREAK)
                self._part = id(block), part
            yield from self.add_piece(block, piece, part)

    def _find(self, event: JSON, item: JSON, kind: Kind, *, begins: bool = False) -> Block | None:
        """Return the block that an event is about: by an id, by the index, or the last one that has not ended."""
        ids = [one for one in map(word, (event.get("item_id"), item.get("id"), item.get("call_id"))) if one]
        known = next((self._known[one] for one in ids if one in self._known), None)
        index = number(event.get("output_index"))
        if known is not None or begins:
            return known or self._known.get(-1 if index is None else index)
        if index is not None:
            block = self._known.get(index)
            # The same index for another item has another id.
            return block if block is not None and block.fits(kind) and not (block.ended and ids) else None
        left = [block for block in self.blocks if block.fits(kind) and not block.ended]
        if event.get("output_index") is None and ids:
            left = [block for block in left if "id" not in block.members]
        return left[-1] if left else None

    def _register(self, block: Block, event: JSON, item: JSON) -> None:
        index = number(event.get("output_index"))
        for name in (index, *map(word, (event.get("item_id"), item.get("id"), item.get("call_id")))):
            if name is not None and name != "" and self._known.get(name) is not block:
                self.keep(name if isinstance(name, str) else None)
                self._known[name] = block

    def _kind_of(self, item: JSON) -> Kind:
        if not item.get("type") and any(map(item.get, ("content", "arguments", "summary"))):
            raise invalid_reply(self.endpoint, "sent an item without a type")
        kind = _KINDS.get(self.string(item.get("type"), "type"), "other")
        return "reasoning" if kind == "text" and item.get("phase") == _COMMENTARY else kind

    def _continues(self, block: Block, item: JSON) -> bool:
        """Return whether an item that begins is that of a block: its event is sent again."""
        if word(item.get("id")) and item["id"] == block.members.get("id"):
            return True
        ids = {word(item.get("call_id")), word(block.members.get("call_id"))} - {""}
        return not block.ended and block.kind == self._kind_of(item) and len(ids) < 2  # noqa: PLR2004 - the same

    def _match(self, item: JSON, index: int, blocks: list[Block]) -> Block | None:
        """Return the block of an item of the final response: by its ids, by its index, or by its kind."""
        for name in ("call_id", "id"):
            for block in blocks if word(item.get(name)) else ():
                if block.members.get(name) == item[name]:
                    return block
        known = self._known.get(index)
        alike = [block for block in blocks if block.kind == self._kind_of(item)]
        if self._kind_of(item) == "call":
            alike = [block for block in alike if not (word(item.get("call_id")) and block.members.get("call_id"))]
        return known if known in alike else next(iter(alike), None)

    def _merge_item(self, block: Block, item: JSON, place: str) -> None:
        """Merge an item; a member beside the answer that is of another type is as good as none."""
        if item.get("type"):
            block.kind = self._kind_of({**item, "phase": word(item.get("phase")) or block.members.get("phase")})
        found = {name: one for name, one in item.items() if name not in _WORDS or isinstance(one, str)}
        for name in ("summary", "content"):
            if name in item and block.kind == "text":
                found[name] = self._parts(item[name], f"{place}.{name}")
            elif name in item and not _is_text_list(item[name]):
                del found[name]
        if block.kind == "call":
            written = item.get("arguments")
            arguments = arguments_text(written) if is_object(written) else self.string(written, f"{place}.arguments")
            found |= {"arguments": best_arguments(block.members.get("arguments", ""), arguments)}
            self.string(item.get("name"), f"{place}.name")
        self.merge(block, found if block.kind != "other" else {})

    # Any: a member of JSON.
    def _parts(self, content: Any, place: str) -> list[JSON]:
        """Return the parts of a message; of some servers it is a string."""
        parts = self.objects({"type": "output_text", "text": content} if isinstance(content, str) else content, place)
        for position, part in enumerate(parts):
            for name in ("type", "text", "refusal"):
                self.string(part.get(name), f"{place}.{position}.{name}")
        return parts

    def text_of(self, block: Block) -> str:
        """Return the text of a block of text or reasoning."""
        if block.kind == "reasoning":
            parts = block.members.get("summary") or block.members.get("content") or ()
            return _BREAK.join([part["text"] for part in parts if part.get("text")] or block.streamed)
        written = [part for part in block.members.get("content", ()) if part.get("type") not in _THOUGHTS]
        return "".join([part.get("text") or part.get("refusal") or "" for part in written]) or "".join(block.streamed)

    def thoughts_of(self, block: Block) -> str:
        """Return the parts of a message that are reasoning."""
        parts = block.members.get("content", ())
        return _BREAK.join([part["text"] for part in parts if part.get("type") in _THOUGHTS and part.get("text")])

    def call_of(self, block: Block) -> PartialCall:
        """Return a call; some servers have only the id of its item."""
        members = block.members
        arguments = best_arguments("".join(block.streamed), members.get("arguments", ""))
        return PartialCall(members.get("call_id") or members.get("id") or "", members.get("name") or "", [arguments])

    def data_of(self, block: Block) -> JSON | None:
        """Return an item of reasoning; `None` without a content, as the server has not stored it."""
        members = block.members
        if block.members.get("type") != "reasoning" or not (members.get("encrypted_content") or members.get("content")):
            return None
        sent = {name: members[name] for name in _SENT if members.get(name) is not None}
        return {"summary": [], **sent}


def _is_refusal(block: Block) -> bool:
    parts = block.members.get("content")
    if not parts:
        return bool(block.members.get("refused"))
    return any(part.get("refusal") for part in parts) and not any(part.get("text") for part in parts)


def _is_text_list(parts: object) -> bool:
    # Any: JSON.
    items: list[Any] = [*parts] if isinstance(parts, list) else []
    return bool(items) and all(isinstance(members_of(item).get("text"), str) for item in items)
