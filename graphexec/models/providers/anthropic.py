"""A model behind Anthropic's Messages API or a compatible server, such as llama.cpp's: its requests and its replies.

Source: Anthropic's API reference. The API rejects some valid conversations with 400: blank texts, which mean nothing,
are removed; blank stop strings raise an error. Whole messages and the events of a stream are read; unknown blocks and
events are ignored, as the reference advises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import MODEL_OPTIONS
from graphexec.errors import BadRequestError
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Image,
    Message,
    ReplyDelta,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from graphexec.models.history import HistoryForm, ordered_parts
from graphexec.models.http.dialect import TOOL_CHOICE, Dialect, Sampling, option, written
from graphexec.models.http.draft import Block, Draft, Kind, read_finish
from graphexec.models.http.endpoint import Provider
from graphexec.models.http.json_bodies import instructions, stop_strings
from graphexec.models.http.json_values import (
    JSON,
    best_arguments,
    is_complete,
    parse_arguments,
    to_count,
    to_number,
    to_object,
    to_word,
)
from graphexec.models.http.meanings import FILTERED
from graphexec.models.http.remote import RemoteModel
from graphexec.models.providers.openai_repairs import FORMAT, REASONING
from graphexec.models.providers.schemas import close_schema, has_free_keys

# Not the latest version, 2026-10-21: for these requests it differs only in that it rejects a temperature with 400.
VERSION = "2023-06-01"

ANTHROPIC = Provider(
    "https://api.anthropic.com",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    kind="that of a server for Anthropic's Messages API",
    hint="which ends before /v1/messages",
    example="http://127.0.0.1:8080",
)

# The blocks of reasoning; a `redacted_thinking` block has only encrypted data.
THINKING = ("thinking", "redacted_thinking")
_KINDS: dict[str, Kind] = {"text": "text", "tool_use": "call", **dict.fromkeys(THINKING, "reasoning")}
# The members of a block, or of a delta, that are streamed in pieces.
_PIECES: dict[str, Kind] = {"text": "text", "thinking": "reasoning", "partial_json": "call"}
# `input_tokens` does not include the tokens that were written to or read from the API's cache.
_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_METRICS = ("inputTokenCount", "cacheWriteInputTokenCount", "cacheReadInputTokenCount", "outputTokenCount")


def _turns(messages: Sequence[Message], form: HistoryForm) -> list[JSON]:
    """Return the messages of user and assistant, with consecutive messages of one role merged."""
    turns: list[JSON] = []
    blocks: list[JSON]
    for message in form.fitted(messages):
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message, form)
        if not blocks:
            continue
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += blocks
    for turn in turns:
        # The results of the calls must precede any text of the turn; otherwise the API treats them as missing.
        blocks = turn["content"]
        blocks.sort(key=lambda block: bool(block["type"] != "tool_result"))
    if turns and turns[-1]["role"] == "assistant":
        last = turns[-1]["content"][-1]
        if last["type"] == "text":
            # The API continues a text of the assistant, and rejects one that ends in whitespace.
            last["text"] = last["text"].rstrip()
    return turns


def _blocks(message: UserMessage | AssistantMessage | ToolMessage, form: HistoryForm) -> list[JSON]:
    match message:
        case UserMessage(content, images):
            return [*map(_image, images), *_text(content)]
        case AssistantMessage():
            # The API requires the thinking of a reply with calls, unchanged and in its place.
            return [block for part in ordered_parts(message, form.provider, THINKING) for block in _part(part)]
        case ToolMessage(call_id, content, images):
            result: JSON = {"type": "tool_result", "tool_use_id": call_id}
            if images:
                return [result | {"content": [*map(_image, images), *_text(content)]}]
            return [result | ({"content": content} if content.strip() else {})]


def _image(image: Image) -> JSON:
    if image.is_data:
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    else:
        source = {"type": "url", "url": image.url}
    return {"type": "image", "source": source}


def _text(content: str) -> list[JSON]:
    """Return the block of a text, or none if the text is blank: the API rejects blank texts."""
    return [{"type": "text", "text": content}] if content.strip() else []


def _part(part: str | JSON | ToolCall) -> list[JSON]:
    match part:
        case str():
            return _text(part)
        case ToolCall(call_id, name, arguments):
            # The API accepts only objects. The observation of the call repeats what the model wrote instead.
            return [{"type": "tool_use", "id": call_id, "name": name, "input": parse_arguments(arguments)}]
        case _:
            return [part]


def _write_others(request: ChatRequest, sampling: Sampling) -> JSON:
    for stop in stop_strings(request):
        if not stop.strip():
            raise BadRequestError(
                f"{sampling.model} cannot stop at {stop!r}: Anthropic's API rejects stop strings that consist of "
                "blanks; use a stop string with another character"
            )
    system = instructions(request.messages)
    tools = [
        {"name": one.name, "description": one.description, "input_schema": one.parameters} for one in request.tools
    ]
    body: JSON = {
        "max_tokens": sampling.max_tokens,
        # Blocks can be joined, strings cannot.
        "system": _text(system) if "system" in (sampling.extra_body or {}) else system or None,
        "stop_sequences": list(stop_strings(request)) or None,
        "tools": tools or None,
    }
    # A reply without a format may be what the instructions ask for.
    if request.schema is not None and not has_free_keys(request.schema):
        body["output_config"] = {"format": {"type": "json_schema", "schema": close_schema(request.schema)}}
    return body


def _write_choice(choice: str) -> JSON:
    kinds = {"none": {"type": "none"}, "required": {"type": "any"}}
    return {"tool_choice": kinds.get(choice, {"type": "tool", "name": choice})}


@dataclass(slots=True)
class AnthropicStream(Draft):
    """The draft of a reply. `take` the data of each event, then call `reply`; or `decode` a whole body.

    It is complete with the stop reason, which comes with the usage; if that is null, at the end of the message.
    """

    # Whether the stop reason has been received, even if it is null.
    _stopped: bool = field(default=False, init=False)
    # The blocks by the server's index.
    _indexed: dict[int, Block] = field(default_factory=dict[int, Block], init=False)

    @property
    def complete(self) -> bool:
        """True if no part of the reply is missing."""
        return self.finish is not None or (self.ended and self._stopped)

    def _take_whole(self, body: JSON) -> Iterator[ReplyDelta]:
        self.check_error(body, answered=body.get("content") is not None)
        if body.get("content") is None:
            raise self.invalid("sent a reply without content")
        return self._end_message({"stop_reason": None, **body})

    def _take_end(self) -> Iterator[ReplyDelta]:
        return self._end_message({})

    def _end_message(self, message: JSON) -> Iterator[ReplyDelta]:
        """Add the whole message, as far as it was not streamed."""
        self.ended = True
        self._stopped = self._stopped or "stop_reason" in message
        yield from self._merge_message(message)
        yield from self._finish(message)

    def _take_event(self, event: JSON) -> Iterator[ReplyDelta]:
        self.check_error(event, answered=event.get("type") != "error")
        index = to_number(event.get("index"))
        delta = next(iter(self.objects(event.get("delta"), "delta")), JSON())
        match self.string(event.get("type"), "type"):
            case "content_block_delta":
                yield from self._extend(index, delta)
            case "message_start":
                yield from self._merge_message(to_object(event.get("message")))
            case "content_block_start":
                for block in self.objects(event.get("content_block"), "content_block"):
                    yield from self._begin(index, block)
            case "content_block_stop":
                yield from self._end(index, self.objects(event.get("content_block"), "content_block"))
            case "message_delta":
                self._stopped = self._stopped or "stop_reason" in delta
                self._count(to_object(event.get("usage")))
                yield from self._finish(delta)
            case "message_stop":
                # Bedrock's counts, in the last event.
                metrics = to_object(event.get("amazon-bedrock-invocationMetrics"))
                self._count({name: metrics.get(other) for name, other in zip(_COUNTS, _METRICS, strict=True)})
                yield from self._end_message(to_object(event.get("message")))
            case "" if delta or event.keys() & {"message", "content_block", "usage"}:
                raise self.invalid("sent an event without a type")
            case _:
                # Pings, and event types that may be added to the API.
                pass

    def _merge_message(self, message: JSON) -> Iterator[ReplyDelta]:
        """Add what a message says; some gateways begin with text, or end with the whole message."""
        content = message.get("content")
        blocks = {"type": "text", "text": content} if isinstance(content, str) else content
        for index, block in enumerate(self.objects(blocks, "content")):
            known = self._indexed.get(index)
            if known is not None and known.kind == _KINDS.get(to_word(block.get("type"))):
                self.merge(known, _without_odd_thoughts(block))
            else:
                yield from self._begin(index, block)
        self.model = to_word(message.get("model")) or self.model
        self._count(to_object(message.get("usage")))

    def _begin(self, index: int | None, members: JSON) -> Iterator[ReplyDelta]:
        """Begin a block; an event that is sent again begins none."""
        if members and not members.get("type"):
            raise self.invalid("sent a block without a type")
        kind = _KINDS.get(self.string(members.get("type"), f"content.{index}.type"), "other")
        block = self._indexed.get(index) if index is not None else None
        if block is None or block.ended or block.pieces or not _is_same(block, kind, members):
            members = _without_odd_thoughts(members)
            streamed = [name for name in ("text", "thinking") if members.get(name)]
            rest = {name: one for name, one in members.items() if name not in streamed and kind != "other"}
            pieces = [self.string(members[name], f"content.{index}.{name}") for name in streamed]
            block = self.begin_block(kind, rest)
            for piece in pieces:
                yield from self.add_piece(block, piece)
        if index is not None:
            self._indexed[index] = block
        yield from self.announce(block)

    def _find(self, index: int | None) -> Block | None:
        """Return the block of an index; an index that cannot be read, or was not, means the last block."""
        if index is not None and index in self._indexed:
            return self._indexed[index]
        last = self.blocks[-1] if self.blocks else None
        return last if index is None or (last is not None and last not in self._indexed.values()) else None

    def _extend(self, index: int | None, delta: JSON) -> Iterator[ReplyDelta]:
        block = self._find(index)
        for name, kind in _PIECES.items():
            piece = self.string(delta.get(name), f"delta.{name}")
            if piece and (block is None or block.kind not in {kind, "other"} or _is_complete_call(block)):
                # The event that begins the block is missing; only that of a call says what is needed.
                if kind == "call":
                    raise self.invalid("sent arguments without the beginning of their call")
                block = self.begin_block(kind, {"type": name})
                if index is not None:
                    self._indexed[index] = block
            if block is not None and block.kind == kind and name in delta:
                yield from self.add_piece(block, piece)
        if block is not None and block.kind == "reasoning" and "signature" in delta:
            self.merge(block, {"signature": to_word(delta["signature"])})

    def _end(self, index: int | None, blocks: list[JSON]) -> Iterator[ReplyDelta]:
        block = self._find(index)
        if block is None:
            raise self.invalid("ended a block that had not begun")
        block.ended = True
        for members in blocks if block.kind != "other" else ():
            self.merge(block, _without_odd_thoughts(members))
        yield from self.show_rest([block])

    def _count(self, usage: JSON) -> None:
        counts = self.add_counts({name: to_count(usage.get(name)) for name in _COUNTS})
        written = counts["output_tokens"]
        self.usage = Usage(sum(counts.values()) - written, written, counts["cache_read_input_tokens"])

    def _finish(self, end: JSON) -> Iterator[ReplyDelta]:
        """Read the stop reason and its details."""
        reason = to_word(end.get("stop_reason"))
        self.finish = read_finish(end.get("stop_reason")) or self.finish
        if FILTERED.search(reason):
            self.refusal = to_word(to_object(end.get("stop_details")).get("explanation"))
        if self.complete:
            called = any(block.kind == "call" for block in self.blocks)
            if reason == "tool_use" and not called and not self.cut.done:
                raise self.invalid("announced a tool call, and sent none")
            self.finish = self.finish or ("tool_calls" if called else "stop")
            yield from self.end_blocks()

    def _text_of(self, block: Block) -> str:
        name = "text" if block.kind == "text" else "thinking"
        return self.string(block.members.get(name), name) or block.text

    def _call_of(self, block: Block) -> ToolCall:
        begun = self.arguments(block.members.get("input") or {}, "input")
        name = self.string(block.members.get("name"), "name")
        return ToolCall(to_word(block.members.get("id")), name, best_arguments(begun, *block.streamed))

    def _reasoning_of(self, block: Block) -> tuple[str, JSON | None]:
        if block.kind == "text":
            return "", None
        members, kind = block.members, block.members["type"]
        if kind == "redacted_thinking":
            return "", {"type": kind, "data": to_word(members.get("data"))}
        signature = {"signature": members["signature"]} if isinstance(members.get("signature"), str) else {}
        return self._text_of(block), {"type": kind, "thinking": self._text_of(block), **signature}


def _is_complete_call(block: Block) -> bool:
    """Return whether a call has ended; some gateways end it before its arguments."""
    return block.kind == "call" and block.ended and is_complete(block.text)


def _without_odd_thoughts(members: JSON) -> JSON:
    """Return the members of a block but for thoughts that are no string: they stand beside the answer."""
    return {name: one for name, one in members.items() if name != "thinking" or isinstance(one, str)}


def _is_same(block: Block, kind: Kind, members: JSON) -> bool:
    return block.kind == kind and all(block.members.get(name) == members.get(name) for name in ("id", "name", "data"))


# Anthropic's Messages API.
MESSAGES = Dialect(
    draft=AnthropicStream,
    members=(
        *map(written, ("messages", "output_config.format")),
        written("stop_sequences", refusable=True, aliases=("stop",)),
        option("temperature"),
        option("top_p"),
        option("reasoning_effort", "output_config.effort"),
        TOOL_CHOICE,
    ),
    route=lambda _request, _model, _stream: "v1/messages",
    headers=lambda key: {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {}),
    write_messages=_turns,
    write_others=_write_others,
    write_choice=_write_choice,
    form=lambda _: HistoryForm(alternates=True),
    max_tokens=4096,
    repairs=(replace(FORMAT, part="output_config.format"), REASONING),
)


@explain_class("Anthropic('claude-sonnet-4-5')", options=MODEL_OPTIONS)
class Anthropic(RemoteModel):
    """A model that is called with Anthropic's Messages API.

    `base_url` is the server's address, which begins with `http://` or `https://` and ends before `/v1`. The default is
    the environment variable `ANTHROPIC_BASE_URL`, or else Anthropic's own server. The default of `api_key` is
    `ANTHROPIC_API_KEY`. `max_tokens` bounds a reply; `None` means 4096, since the API requires a number.
    `reasoning_effort` is sent as the effort of the API's `output_config`; `extra_body={"thinking": ...}` makes a model
    think. There is no `seed`. The other options are as in `OpenAICompatible`.

    System messages are joined and sent separately from the conversation. A `CompletionRequest` is sent as a user
    message. A blank stop string is a `BadRequestError`, since the API rejects it. The parts of a schema that the API
    does not support (ranges, sizes, patterns) are sent as descriptions. Prompt tokens include those of the API's cache.
    """

    _dialect = MESSAGES
    _provider = ANTHROPIC
