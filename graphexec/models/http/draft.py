"""The draft of a reply: its blocks, as they are received, and the cut before the first stop string."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from graphexec._parsing import compile_lazily
from graphexec._parsing.reasoning import ReasoningSplitter
from graphexec.errors import InvalidReplyError
from graphexec.messages import FinishReason, ModelReply, Reasoning, ReplyDelta, ToolCall, Usage, with_own_ids
from graphexec.models.http.endpoint import MOST, Endpoint, reply_limit_error
from graphexec.models.http.failures import ERROR_MEMBERS, ErrorReport, error_in_body, refusal_error
from graphexec.models.http.json_values import JSON, check_size, invalid_reply, mend_surrogates, parse

# An item of a stream: deltas, and finally the whole reply.
Piece: TypeAlias = ReplyDelta | ModelReply

# The markers of a model's template, which some servers leave in a name, with what follows: `now<|channel|>commentary`.
_MARKERS = compile_lazily(r"^(?:<\|[^|]*\|>)+|<\|.*", re.DOTALL)

# The kind `other` is no part of the answer: a call that the server itself answers, or a block of an unknown type.
Kind: TypeAlias = Literal["text", "reasoning", "call", "other"]


# The reasons for the end of a reply, of the providers and gateways of every protocol.
FINISH_REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    "model_context_window_exceeded": "length",
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
}


def read_finish(reason: object) -> FinishReason | None:
    """Return why a reply ends: `None` if the server does not say, "other" if its reason is unknown or no string."""
    if reason is None or reason == "":
        return None
    return FINISH_REASONS.get(reason.lower(), "other") if isinstance(reason, str) else "other"


@dataclass(slots=True, eq=False)
class Block:
    """A part of a reply that is still being received: a text, reasoning or a call.

    `members` are those of the server's objects for it, merged; `pieces` are the streamed strings of each of its parts.
    `sent` characters are in deltas. `position` is that of a call with a first delta.
    """

    kind: Kind
    members: JSON = field(default_factory=dict[str, Any])
    pieces: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    position: int | None = None
    sent: int = 0
    ended: bool = False
    # Of the whole reply: the characters of the text before it, and the call.
    after_text: int = 0
    call: ToolCall | None = None

    def fits(self, kind: Kind) -> bool:
        """Return whether a piece of this kind may belong to it; a commentary is reasoning that is sent as text."""
        return self.kind == kind or (self.kind == "reasoning" and kind == "text")

    @property
    def streamed(self) -> list[str]:
        """The streamed parts."""
        return ["".join(pieces) for _, pieces in sorted(self.pieces.items())]

    @property
    def text(self) -> str:
        """The streamed parts as one string."""
        return "".join(self.streamed)


@dataclass(slots=True)
class StopCutter:
    """Cuts a streamed reply before the first stop string in its content. `take` each piece, then call `rest`.

    Reasoning that the content begins with, such as `<think>...</think>`, is not cut. Of several stop strings, the one
    that ends first counts, as on a server that checks after every character, so the position does not depend on the
    pieces. `done` is true after the cut; a later closing tag, which shows that the cut was in reasoning, revokes it.
    """

    stops: tuple[str, ...]
    done: bool = False
    _splitter: ReasoningSplitter = field(default_factory=ReasoningSplitter, init=False)
    # The number of characters that were returned, and the text behind them: its end may begin a stop string.
    _shown: int = field(default=0, init=False)
    _held: list[str] = field(default_factory=list[str], init=False)

    def take(self, piece: str) -> str:
        """Add a piece, and return the text that can be shown now."""
        if not any(self.stops):
            return piece
        self._held.append(piece)
        self._splitter.take(piece)
        return self._advance()

    def rest(self) -> str:
        """Return the text that was held back, after the last piece."""
        if not any(self.stops):
            return ""
        self._splitter.rest()
        text = self._advance()
        return text if self.done else text + self._show("".join(self._held), "")

    def _advance(self) -> str:
        start = self._splitter.content_start - self._shown
        if self.done and start <= 0:
            return ""
        self.done = False
        text = "".join(self._held)
        start = max(0, start)
        if not self._splitter.in_content:
            return self._show(text[:start], text[start:])
        content = text[start:]
        found = [(content.index(stop) + len(stop), -len(stop)) for stop in self.stops if stop and stop in content]
        if found:
            self.done = True
            end = sum(min(found))
        else:
            begun = (stop[:length] for stop in self.stops for length in range(1, len(stop)))
            end = len(content) - max((len(one) for one in begun if content.endswith(one)), default=0)
        return self._show(text[: start + end], content[end:])

    def _show(self, text: str, held: str) -> str:
        self._shown += len(text)
        self._held = [held]
        return text


@dataclass(slots=True)
class Draft(ABC):
    """A reply that is still being received, as blocks in the order of the server; each protocol has a subclass.

    What the server says last and most completely wins: its final objects are merged with the deltas before them. What
    is odd beside the answer, such as an unknown block or a count of another type, never costs the answer. What is lost
    is an error, never an empty success.

    `finish` and `usage` are set when the server has sent them. The text is cut before the first of the `stops` behind
    its reasoning, and calls after that position are ignored, because a server may refuse or ignore stop strings. The
    methods that add something are iterators of deltas, to be read to their end. They raise `ReplyLimitError` for a
    reply with too many calls.
    """

    endpoint: Endpoint
    stops: tuple[str, ...] = ()
    cut: StopCutter = field(init=False)
    blocks: list[Block] = field(default_factory=list[Block], init=False)
    # The calls with a first delta.
    calls: list[Block] = field(default_factory=list[Block], init=False)
    # The pieces of the text that were streamed, before the cut.
    written: list[str] = field(default_factory=list[str], init=False)
    finish: FinishReason | None = field(default=None, init=False)
    usage: Usage | None = field(default=None, init=False)
    model: str = field(default="", init=False)
    # The server's words if it refuses to answer, or `None`.
    refusal: str | None = field(default=None, init=False)
    # After the end, all events are ignored.
    ended: bool = field(default=False, init=False)
    # The highest counts of tokens so far: those of later events include the earlier ones, or are zeros.
    counts: dict[str, int] = field(default_factory=dict[str, int], init=False)

    def __post_init__(self) -> None:
        self.cut = StopCutter(self.stops)

    def decode(self, body: bytes) -> ModelReply:
        """Return the reply in the whole body of a response with status 200.

        Raises `InvalidReplyError` if the body does not follow the protocol, and another `ModelError` if it reports one.
        """
        for _ in self._take_whole(parse(body, self.endpoint)):
            # The deltas are not needed.
            pass
        return self.reply()

    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Add one event and yield its deltas. Raises `ModelError` if the event is invalid or reports an error."""
        if self.ended or not data:
            return iter(())
        if data[0] != "{":
            if data.strip() == "[DONE]":
                return self._take_end()
            if self.finish is not None:
                # What is no object cannot belong to the answer.
                return iter(())
        return self._take_event(parse(data, self.endpoint))

    # Add a whole reply, an event of a stream, and the marker `[DONE]`, with which gateways may end any stream. What
    # makes the draft `complete` yields from `end_blocks`, too: nothing is called when the connection ends.
    @abstractmethod
    def _take_whole(self, body: JSON) -> Iterator[ReplyDelta]: ...
    @abstractmethod
    def _take_event(self, event: JSON) -> Iterator[ReplyDelta]: ...
    @abstractmethod
    def _take_end(self) -> Iterator[ReplyDelta]: ...

    # Return a text or reasoning; a call, with an empty id or name if the server has not sent it; and the reasoning with
    # what is sent back of it, `None` if the server cannot read it.
    @abstractmethod
    def _text_of(self, block: Block) -> str: ...
    @abstractmethod
    def _call_of(self, block: Block) -> ToolCall: ...
    @abstractmethod
    def _reasoning_of(self, block: Block) -> tuple[str, JSON | None]: ...

    def invalid(self, fact: str) -> InvalidReplyError:
        """Return the error for a reply that does not follow the protocol."""
        return invalid_reply(self.endpoint, fact)

    # Any: a member of JSON, here and below.
    def string(self, value: Any, place: str) -> str:
        """Return a string of the answer. Raises `InvalidReplyError`, with its place, for a value of another type."""
        if isinstance(value, str):
            return value
        if value:
            raise self.invalid(f"sent an invalid reply ({place}: {type(value).__name__} is not a string)")
        return ""

    def objects(self, value: Any, place: str) -> list[JSON]:
        """Return the objects in a list of the answer; a single one is a list of one. Raises as `string` does."""
        several: list[Any] = [*value] if isinstance(value, list) else [value]
        for one in several:
            if one and not isinstance(one, dict):
                raise self.invalid(f"sent an invalid reply ({place}: {type(one).__name__} is not an object)")
        return [one for one in several if isinstance(one, dict)]

    def arguments(self, value: Any, place: str) -> str:
        """Return the arguments of a call as a string; some servers send an object. Raises as `string` does."""
        return json.dumps(value) if isinstance(value, dict) else self.string(value, place)

    def check_error(self, body: JSON, *, answered: bool = True) -> None:
        """Raise the `ModelError` that the server reports, if there is one; `answered`: it has an answer, too."""
        if answered and ERROR_MEMBERS.isdisjoint(body):
            return
        report = ErrorReport.in_reply(body, answered=answered)
        if report is not None:
            raise error_in_body(self.endpoint, report)

    def add_counts(self, found: Mapping[str, int]) -> dict[str, int]:
        """Add the counts of tokens of an event, and return the highest so far."""
        self.counts = {name: max(number, self.counts.get(name, 0)) for name, number in found.items()}
        return self.counts

    def begin_block(self, kind: Kind, members: Mapping[str, Any]) -> Block:
        """Add a block of which the server sent these members."""
        if len(self.blocks) == MOST["calls"]:
            raise reply_limit_error(self.endpoint, "calls", len(self.blocks) + 1)
        block = Block(kind)
        self.blocks.append(block)
        self.merge(block, members)
        return block

    def merge(self, block: Block, members: Mapping[str, Any]) -> None:
        """Merge the members of a later object into a block; one that is empty replaces nothing."""
        if members:
            block.members |= {name: one for name, one in members.items() if one or name not in block.members}

    def add_piece(self, block: Block, piece: str, part: int = 0) -> Iterator[ReplyDelta]:
        """Add a streamed piece to a part of a block."""
        if block.kind == "other":
            return
        block.pieces.setdefault(part, []).append(piece)
        if block.kind == "text":
            self.written.append(piece)
            yield from _text_deltas(self.cut.take(piece))
        elif piece and (block.kind == "reasoning" or block.position is not None):
            block.sent += len(piece)
            index = block.position
            yield ReplyDelta(reasoning=piece) if index is None else ReplyDelta(index=index, arguments=piece)

    def begin_call(self, block: Block) -> None:
        """Give a call the next position."""
        block.position = len(self.calls)
        self.calls.append(block)

    def announce(self, block: Block) -> Iterator[ReplyDelta]:
        """Yield the first delta of a call, once its name is known."""
        # A server that supports stop strings would not have sent a call after one.
        if block.kind == "call" and block.position is None and not self.cut.done:
            call = self._call_of(block)
            if call.name:
                self.begin_call(block)
                yield ReplyDelta(index=block.position, call_id=call.id, name=call.name)

    def show_rest(self, blocks: Iterable[Block]) -> Iterator[ReplyDelta]:
        """Yield what calls and reasoning have beyond their deltas."""
        for block in blocks:
            yield from self.announce(block)
            if block.position is not None:
                arguments = self._call_of(block).arguments
                if arguments[block.sent :]:
                    yield ReplyDelta(index=block.position, arguments=arguments[block.sent :])
                    block.sent = len(arguments)
            elif block.kind == "reasoning" and not block.sent and (text := self._text_of(block)):
                yield ReplyDelta(reasoning=text)
                block.sent = len(text)

    def end_text(self) -> Iterator[ReplyDelta]:
        """Yield the text that was held back, after the last piece."""
        yield from _text_deltas(self.cut.rest())

    def end_blocks(self) -> Iterator[ReplyDelta]:
        """Yield what the reply has beyond its deltas."""
        shown, whole = "".join(self.written), "".join(map(self._text_of, self.of_kind("text")))
        if whole.startswith(shown):
            self.written.append(whole[len(shown) :])
            yield from _text_deltas(self.cut.take(self.written[-1]))
        yield from self.end_text()
        yield from self.show_rest(self.blocks)

    def of_kind(self, kind: Kind) -> list[Block]:
        """Return the blocks of a kind."""
        return [block for block in self.blocks if block.kind == kind]

    @property
    def complete(self) -> bool:
        """True if no part of the reply is missing: nothing more is awaited. Protocols with a last event override it."""
        return self.finish is not None

    @property
    def answered(self) -> bool:
        """True if the answer is complete, so that the end of the stream, or of the connection, does no harm."""
        return self.complete

    def reply(self) -> ModelReply:
        """Return the whole reply.

        Raises `InvalidReplyError` if it is incomplete or a call has no name, `RefusalError` for a refusal, and
        `ReplyLimitError` if the arguments of a call have too many values or are nested too deeply.
        """
        if not self.answered:
            raise self.invalid("ended its stream before the reply was complete")
        if self.refusal is not None:
            raise refusal_error(self.endpoint, self.endpoint.quote(self.refusal) or "without a message")
        texts: list[str] = []
        length = 0
        for block in self.blocks:
            block.after_text = length
            if block.kind == "text":
                texts.append(mend_surrogates(self._text_of(block)))
                length += len(texts[-1])
        cut = StopCutter(self.stops)
        text = cut.take("".join(texts))
        text += cut.rest()
        calls = self._finish_calls(len(text) if cut.done else length)
        finish = self.finish or "other"
        return ModelReply(
            text,
            calls,
            self.usage or Usage(),
            ("tool_calls" if calls else "stop") if cut.done else finish,
            self.model,
            reasoning=tuple(self._thoughts()),
        )

    def _finish_calls(self, length: int) -> tuple[ToolCall, ...]:
        """Set and return the calls of the reply, which begin within this length of the text.

        A call that a gateway repeats is one.
        """
        given: dict[ToolCall | int, tuple[Block, ToolCall]] = {}
        for place, block in enumerate(one for one in self.of_kind("call") if one.after_text <= length):
            call = self._call_of(block)
            given.setdefault(call if call.id else place, (block, call))
        calls: list[ToolCall] = []
        for (block, _), call in zip(given.values(), with_own_ids([call for _, call in given.values()]), strict=True):
            name = _MARKERS().sub("", call.name).strip()
            if not name:
                raise self.invalid("sent a tool call without a name")
            arguments = mend_surrogates(call.arguments)
            check_size(arguments, self.endpoint)
            block.call = ToolCall(call.id, name, arguments)
            calls.append(block.call)
        return tuple(calls)

    def _thoughts(self) -> Iterator[Reasoning]:
        """Yield the reasoning in its places."""
        calls = 0
        for block in self.blocks:
            calls += block.call is not None
            if block.kind in {"text", "reasoning"}:
                text, data = self._reasoning_of(block)
                if text or data is not None:
                    written = "" if data is None else json.dumps(data)
                    yield Reasoning(text, written, self.endpoint.provider_name, block.after_text, calls)


def _text_deltas(text: str) -> Iterator[ReplyDelta]:
    if text:
        yield ReplyDelta(text)
