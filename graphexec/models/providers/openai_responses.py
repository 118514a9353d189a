"""A model behind OpenAI's Responses API or a compatible server: its requests and its replies.

Source: OpenAI's API reference; comments say where servers differ. Whole responses and the events of a stream are read;
unknown items and events are ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import MODEL_OPTIONS
from graphexec.messages import AssistantMessage, ChatRequest, Image, Message, ReplyDelta, ToolCall, ToolMessage
from graphexec.models.history import HistoryForm, ordered_parts
from graphexec.models.http.dialect import TOOL_CHOICE, Dialect, Sampling, describe_tool, option, written
from graphexec.models.http.draft import Block, Draft, Kind, read_finish
from graphexec.models.http.json_bodies import instructions, valid_arguments
from graphexec.models.http.json_values import JSON, best_arguments, to_number, to_object, to_objects, to_word
from graphexec.models.http.meanings import FILTERED
from graphexec.models.http.refusals import Member
from graphexec.models.http.remote import RemoteModel
from graphexec.models.providers.openai_repairs import FORMAT, STRICT_SCHEMA
from graphexec.models.providers.openai_reply import read_counts, to_usage

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


def _items(messages: Sequence[Message], form: HistoryForm) -> Iterator[JSON]:
    for message in form.fitted(messages):
        match message:
            case AssistantMessage():
                # The API requires each item of reasoning before the item that followed it.
                yield from filter(None, map(_part, ordered_parts(message, form.provider, {"reasoning"})))
            case ToolMessage(call_id, content, images):
                yield {"type": "function_call_output", "call_id": call_id, "output": _content(content, images)}
            case _:
                yield {"role": "user", "content": _content(message.content, message.images)}


def _content(content: str, images: Sequence[Image]) -> str | list[JSON]:
    """Return a text, or a list of images and the text, as messages and results of calls may hold it.

    Source: OpenAI's API reference, "Create a model response". `detail` is sent, because some servers require it.
    """
    if not images:
        return content
    parts: list[JSON] = [{"type": "input_image", "image_url": image.url, "detail": "auto"} for image in images]
    # The text is last, as in chat completions.
    return [*parts, {"type": "input_text", "text": content}] if content else parts


def _part(part: str | JSON | ToolCall) -> JSON:
    match part:
        case str():
            said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": part}]}
            return said if part.strip() else {}
        case ToolCall(call_id, name, arguments):
            members = {"call_id": call_id, "name": name, "arguments": valid_arguments(arguments)}
            return {"type": "function_call"} | members
        case _:
            return part


def _write_others(request: ChatRequest, _: Sampling) -> JSON:
    # `strict` is sent, because the default of this API is True.
    tools = [{"type": "function", **describe_tool(tool), "strict": False} for tool in request.tools]
    body: JSON = {
        # The server need not store anything: each request contains the whole conversation.
        "store": False,
        "instructions": instructions(request.messages) or None,
        "tools": tools or None,
        # A server that stores nothing needs its encrypted reasoning again before the results of calls.
        "include": ["reasoning.encrypted_content"] if tools else None,
    }
    if request.schema is not None:
        # Not `strict`, as in chat completions; `STRICT_SCHEMA` is for servers that demand its rules.
        body["text"] = {"format": {"type": "json_schema", "name": "reply", "schema": request.schema}}
    return body


def _write_choice(choice: str) -> JSON:
    return {"tool_choice": choice if choice in {"none", "required"} else {"type": "function", "name": choice}}


@dataclass(slots=True)
class ResponsesStream(Draft):
    """The draft of a reply. `take` the data of each event, then call `reply`; or `decode` a whole body.

    It is complete with the final response; if a gateway leaves that out, at `[DONE]`, when each item has ended.
    """

    # The blocks by the server's index or id of the item. llama.cpp's server has only ids, and gateways change the ids.
    _known: dict[int | str, Block] = field(default_factory=dict[int | str, Block], init=False)
    # The last event, which a gateway may send again.
    _last: JSON = field(default_factory=dict[str, Any], init=False)
    # The blocks of which more may come.
    _open: list[Block] = field(default_factory=list[Block], init=False)
    # The part of the reasoning of which the last piece was streamed.
    _part: tuple[int, int] | None = field(default=None, init=False)

    def _take_whole(self, body: JSON) -> Iterator[ReplyDelta]:
        self.check_error(body, answered=body.get("output") is not None)
        yield from self._end_response(body, "completed")
        if body.get("output") is None and not self.blocks:
            raise self.invalid("sent a reply without output")

    def _take_end(self) -> Iterator[ReplyDelta]:
        if self.blocks and all(block.ended for block in self.blocks):
            yield from self._finish("completed", {})

    def _take_event(self, event: JSON) -> Iterator[ReplyDelta]:
        if event == self._last and to_number(event.get("sequence_number")):
            return
        self._last = event
        self.check_error(event, answered=event.get("type") != "error")
        name = self.string(event.get("type"), "type").removeprefix("response.")
        if name == "content_part.done" and to_word(event.get("item_id")) in self._known:
            # The whole part; some gateways send its text nowhere else.
            part = to_object(event.get("part"))
            event, name = {**event, **part}, f"{self.string(part.get('type'), 'part.type')}.done"
        kind: Kind | None = next((_ABOUT[start] for start in _ABOUT if name.startswith(start)), None)
        if kind is not None:
            yield from self._take_piece(event, name, kind)
        elif name.startswith("output_item."):
            for item in self.objects(event.get("item"), "item"):
                yield from self._take_item(event, name, item)
        elif name in _ENDINGS:
            for response in self.objects(event.get("response"), "response"):
                yield from self._end_response(response, name)
        elif not name and event.keys() & {"delta", "item", "response"}:
            raise self.invalid("sent an event without a type")

    def _end_response(self, response: JSON, status: str) -> Iterator[ReplyDelta]:
        """Add the final response, and yield the deltas that were not streamed.

        Raises the `ModelError` that a failed response reports.
        """
        self.check_error(response)
        status = to_word(response.get("status")) or status
        if status == "failed":
            raise self.invalid("reports that it failed, without a message")
        left, begun, final = _Unmatched(self.blocks), [*self.blocks], list[Block]()
        for index, item in enumerate(self.objects(response.get("output"), "output")):
            block = left.take(item, self._kind_of(item), self._known.get(index))
            final.append(block or self.begin_block(self._kind_of(item), {}))
            self._merge_item(final[-1], item, f"output.{index}")
        # What the final response leaves out stays behind the block before it, but for pieces of one that it has: a
        # gateway changed their ids and indexes.
        behind: dict[Block | None, list[Block]] = {}
        last: Block | None = None
        said: dict[Kind, str] = {}
        for block in begun:
            text = self._text_of(block) if block.kind in {"text", "reasoning"} else ""
            if block not in left.blocks:
                last, said[block.kind] = block, text
            elif not text or text not in {(known := said.get(block.kind, ""))[: len(text)], known[-len(text) :]}:
                behind.setdefault(last, []).append(block)
        self.blocks = [*behind.get(None, ()), *(one for block in final for one in (block, *behind.get(block, ())))]
        if not any(map(self._text_of, self.of_kind("text"))) and (text := to_word(response.get("output_text"))):
            self.begin_block("text", {"content": [{"type": "output_text", "text": text}]})
        if status in {"queued", "in_progress"} and not self.blocks:
            raise self.invalid(f"sent a response that is not finished ({status})")
        yield from self._finish(status, response)

    def _finish(self, status: str, response: JSON) -> Iterator[ReplyDelta]:
        details = to_object(response.get("incomplete_details"))
        self.usage = to_usage(read_counts(to_object(response.get("usage"))))
        self.model = to_word(response.get("model"))
        called, texts = self.of_kind("call"), [*filter(self._text_of, self.of_kind("text"))]
        reason = to_word(details.get("reason"))
        if status in {"completed", "done"}:
            self.finish = "tool_calls" if called else "stop"
        else:
            self.finish = "length" if read_finish(reason) == "length" else "other"
        if not called and all(map(_is_refusal, texts)) and (texts or FILTERED.search(reason)):
            self.refusal = "".join(map(self._text_of, texts)) or reason
        yield from self.end_blocks()

    def _take_item(self, event: JSON, name: str, item: JSON) -> Iterator[ReplyDelta]:
        begins = name.endswith("added")
        kind = _KINDS.get(self.string(item.get("type"), "item.type"), "other")
        block = self._find(event, item, kind, begins=begins)
        if block is None or (begins and not self._continues(block, item)):
            block = self._begin(self._kind_of(item))
        self._register(block, event, item)
        self._merge_item(block, item, "item")
        yield from self.announce(block)
        if not begins:
            block.ended = True
            yield from self.show_rest([block])

    def _take_piece(self, event: JSON, name: str, kind: Kind) -> Iterator[ReplyDelta]:
        """Add a piece to the block that an event is about, or what its pieces make together."""
        block = self._known.get(to_word(event.get("item_id"))) or self._find(event, {}, kind)
        if block is None:
            block = self._begin(kind)
            self._register(block, event, {})
        part = to_number(event.get("summary_index")) or to_number(event.get("content_index")) or 0
        piece = self.string(event.get("delta"), "delta")
        whole = self.string(event.get("text"), "text") or self.string(event.get("refusal"), "refusal")
        if name.startswith("refusal"):
            block.members["refused"] = True
        if name.endswith("done") and kind == "call":
            self._merge_item(block, {"arguments": event.get("arguments"), "name": event.get("name")}, "event")
        elif name.endswith("done") and whole and block.kind != "other":
            block.pieces[part] = [whole]
        elif piece:
            if block.kind == "reasoning":
                if self._part not in {None, (id(block), part)}:
                    yield ReplyDelta(reasoning=_BREAK)
                self._part = id(block), part
            yield from self.add_piece(block, piece, part)

    def _find(self, event: JSON, item: JSON, kind: Kind, *, begins: bool = False) -> Block | None:
        """Return the block that an event is about: by an id, by the index, or the last one that has not ended."""
        ids = [one for one in map(to_word, (event.get("item_id"), item.get("id"), item.get("call_id"))) if one]
        known = next((self._known[one] for one in ids if one in self._known), None)
        index = to_number(event.get("output_index"))
        if known is not None or begins:
            return known or self._known.get(-1 if index is None else index)
        if index is not None:
            block = self._known.get(index)
            # The same index for another item has another id.
            return block if block is not None and block.fits(kind) and not (block.ended and ids) else None
        while self._open and self._open[-1].ended:
            self._open.pop()
        is_new = event.get("output_index") is None and bool(ids)
        fitting = (block for block in reversed(self._open) if block.fits(kind) and not block.ended)
        return next((block for block in fitting if not (is_new and "id" in block.members)), None)

    def _begin(self, kind: Kind) -> Block:
        self._open.append(self.begin_block(kind, {}))
        return self._open[-1]

    def _register(self, block: Block, event: JSON, item: JSON) -> None:
        index = to_number(event.get("output_index"))
        for name in (index, *map(to_word, (event.get("item_id"), item.get("id"), item.get("call_id")))):
            if name is not None and name != "" and self._known.get(name) is not block:
                self._known[name] = block

    def _kind_of(self, item: JSON) -> Kind:
        if not item.get("type") and any(map(item.get, ("content", "arguments", "summary"))):
            raise self.invalid("sent an item without a type")
        kind = _KINDS.get(self.string(item.get("type"), "type"), "other")
        return "reasoning" if kind == "text" and item.get("phase") == _COMMENTARY else kind

    def _continues(self, block: Block, item: JSON) -> bool:
        """Return whether an item that begins is that of a block: its event is sent again."""
        if to_word(item.get("id")) and item["id"] == block.members.get("id"):
            return True
        ids = {to_word(item.get("call_id")), to_word(block.members.get("call_id"))} - {""}
        return not block.ended and block.kind == self._kind_of(item) and len(ids) < 2  # noqa: PLR2004 - the same

    def _merge_item(self, block: Block, item: JSON, place: str) -> None:
        """Merge an item; a member beside the answer that is of another type is as good as none."""
        if item.get("type"):
            block.kind = self._kind_of({**item, "phase": to_word(item.get("phase")) or block.members.get("phase")})
        found = {name: one for name, one in item.items() if name not in _WORDS or isinstance(one, str)}
        for name in ("summary", "content"):
            if name in item and block.kind == "text":
                found[name] = self._parts(item[name], f"{place}.{name}")
            elif name in item and not _is_text_list(item[name]):
                del found[name]
        if block.kind == "call":
            arguments = self.arguments(item.get("arguments"), f"{place}.arguments")
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

    def _text_of(self, block: Block) -> str:
        if block.kind == "reasoning":
            members = block.members
            return _BREAK.join(_texts(members.get("summary")) or _texts(members.get("content")) or block.streamed)
        written = [part for part in block.members.get("content", ()) if to_word(part.get("type")) not in _THOUGHTS]
        return "".join([part.get("text") or part.get("refusal") or "" for part in written]) or block.text

    def _call_of(self, block: Block) -> ToolCall:
        members = block.members
        arguments = best_arguments(block.text, members.get("arguments", ""))
        return ToolCall(members.get("call_id") or members.get("id") or "", members.get("name") or "", arguments)

    def _reasoning_of(self, block: Block) -> tuple[str, JSON | None]:
        members = block.members
        if block.kind == "text":
            parts = [part for part in members.get("content", ()) if to_word(part.get("type")) in _THOUGHTS]
            return _BREAK.join(_texts(parts)), None
        if members.get("type") != "reasoning" or not (members.get("encrypted_content") or members.get("content")):
            return self._text_of(block), None
        sent = {name: members[name] for name in _SENT if members.get(name) is not None}
        return self._text_of(block), {"summary": [], **sent}


class _Unmatched:
    """The blocks that no item of the final response has matched; an item is found in constant time."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.blocks = dict.fromkeys(blocks)
        self._queues: dict[object, deque[Block]] = {}
        for block in self.blocks:
            ids = {name: to_word(block.members.get(name)) for name in ("call_id", "id")}
            for key in (*ids.items(), block.kind, None if ids["call_id"] else (block.kind, "")):
                self._queues.setdefault(key, deque()).append(block)

    def _first(self, key: object) -> Block | None:
        queue = self._queues.get(key, deque[Block]())
        while queue and queue[0] not in self.blocks:
            queue.popleft()
        return queue[0] if queue else None

    def take(self, item: JSON, kind: Kind, known: Block | None) -> Block | None:
        """Remove and return the block of an item: by its ids, its index (that of the `known` one), or its kind."""
        ids = [(name, one) for name in ("call_id", "id") if (one := to_word(item.get(name)))]
        found = next(filter(None, map(self._first, ids)), None)
        # Another id is that of another call.
        is_named = kind == "call" and bool(to_word(item.get("call_id")))
        if found is None and known in self.blocks and known.kind == kind:
            found = None if is_named and known.members.get("call_id") else known
        found = found or self._first((kind, "") if is_named else kind)
        if found is not None:
            del self.blocks[found]
        return found


def _is_refusal(block: Block) -> bool:
    parts = block.members.get("content")
    if not parts:
        return bool(block.members.get("refused"))
    return any(part.get("refusal") for part in parts) and not any(part.get("text") for part in parts)


def _texts(parts: object) -> list[str]:
    return [text for part in to_objects(parts) if (text := to_word(part.get("text")))]


def _is_text_list(parts: object) -> bool:
    items = to_objects(parts)
    return isinstance(parts, list) and bool(items) and all(isinstance(item.get("text"), str) for item in items)


# OpenAI's Responses API. It does not support stop strings.
RESPONSES = Dialect(
    draft=ResponsesStream,
    members=(
        *map(written, ("input", "instructions", "text.format")),
        option("temperature"),
        option("top_p"),
        option("max_tokens", "max_output_tokens"),
        option("reasoning_effort", "reasoning.effort", aliases=("reasoning", "reasoning_effort")),
        Member("include"),
        TOOL_CHOICE,
    ),
    route=lambda _request, _model, _stream: "responses",
    conversation="input",
    write_messages=lambda messages, form: list(_items(messages, form)),
    write_others=_write_others,
    write_choice=_write_choice,
    repairs=(STRICT_SCHEMA, replace(FORMAT, part="text.format")),
)


@explain_class("OpenAIResponses('gpt-5-mini')", options=MODEL_OPTIONS)
class OpenAIResponses(RemoteModel):
    """A model that is called with OpenAI's Responses API. Requests ask the server to store nothing.

    The API does not support stop strings and seeds. Replies are cut before the first stop string, also while they
    stream; `usage` includes the part that was cut off, and calls after that position are dropped. System messages are
    joined and sent as `instructions`. A `CompletionRequest` is sent as a user message. `max_tokens` bounds a reply
    including its reasoning, which the API returns encrypted, and gets back before the results of the reply's calls;
    `extra_body={"reasoning": {"summary": "auto"}}` asks for a readable summary. The options are as in
    `OpenAICompatible`.
    """

    _dialect = RESPONSES
