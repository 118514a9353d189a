"""Replies of several blocks: texts, reasoning and calls in order, as Anthropic and OpenAI's Responses send them."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, TypeAlias, TypeGuard

from graphexec._parsing.json import read_object
from graphexec.errors import RefusalError
from graphexec.messages import ModelReply, Reasoning, ReplyDelta, Usage
from graphexec.models.http.dialect import Draft, PartialCall
from graphexec.models.http.failures import ErrorReport, error_in_body
from graphexec.models.http.json_bodies import JSON, invalid_reply, mend_surrogates
from graphexec.models.http.receiving import MOST_PARTS, reply_limit_error
from graphexec.models.http.stop_cutter import StopCutter

# The kind `other` is no part of the answer: a call that the server itself answers, or a block of an unknown type.
Kind: TypeAlias = Literal["text", "reasoning", "call", "other"]
# Tokens. A larger count is a mistake.
_MAX_COUNT = 10**12


@dataclass(slots=True, eq=False)
class Block:
    """A block that is still being received.

    `members` are those of the server's objects for it, merged; `pieces` are the streamed strings of each of its parts.
    `kept` characters have been counted, and `sent` are in deltas. `position` is that of a call with a first delta.
    """

    kind: Kind
    members: JSON = field(default_factory=dict[str, Any])
    pieces: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    kept: int = 0
    position: int | None = None
    sent: int = 0
    ended: bool = False

    def fits(self, kind: Kind) -> bool:
        """Return whether a piece of this kind may belong to it; a commentary is reasoning that is sent as text."""
        return self.kind == kind or (self.kind == "reasoning" and kind == "text")

    @property
    def streamed(self) -> list[str]:
        """The streamed parts."""
        return ["".join(pieces) for _, pieces in sorted(self.pieces.items())]


@dataclass(slots=True)
class BlockDraft(Draft):
    """A draft of blocks in the order of the server.

    What the server says last and most completely wins: its final objects are merged with the deltas before them. What
    is odd beside the answer, such as an unknown block or a count of another type, never costs the answer. What is lost
    is an error, never an empty success.
    """

    blocks: list[Block] = field(default_factory=list[Block], init=False)
    # The server's words if it refuses to answer, or `None`.
    refusal: str | None = field(default=None, init=False)
    # The pieces of the text that were streamed, before the cut.
    _written: list[str] = field(default_factory=list[str], init=False)

    @abstractmethod
    def text_of(self, block: Block) -> str:
        """Return the text of a block of text or reasoning."""

    def thoughts_of(self, block: Block) -> str:  # noqa: ARG002 - some protocols have them
        """Return the reasoning within a block of text."""
        return ""

    @abstractmethod
    def call_of(self, block: Block) -> PartialCall:
        """Return a call, with an empty id or name if the server has not sent it."""

    @abstractmethod
    def data_of(self, block: Block) -> JSON | None:
        """Return a block of reasoning as it is sent back; `None` if the server cannot read it."""

    def begin_block(self, kind: Kind, members: Mapping[str, Any], place: int | None = None) -> Block:
        """Add a block of which the server sent these members, at the end or at a place."""
        if len(self.blocks) == MOST_PARTS:
            raise reply_limit_error(self.endpoint, self.endpoint.limits, "calls", MOST_PARTS + 1)
        block = Block(kind)
        self.blocks.insert(len(self.blocks) if place is None else place, block)
        self.merge(block, members)
        return block

    def merge(self, block: Block, members: Mapping[str, Any]) -> None:
        """Merge the members of a later object into a block; one that is empty replaces nothing."""
        block.members |= {name: one for name, one in members.items() if one or name not in block.members}
        # What was streamed has been counted.
        self._keep_more(block, _count_characters(block.members) - block.kept)

    def _keep_more(self, block: Block, characters: int) -> None:
        if characters > 0:
            block.kept += characters
            self._kept += characters
            self.keep()

    def add_piece(self, block: Block, piece: str, part: int = 0) -> Iterator[ReplyDelta]:
        """Add a streamed piece to a part of a block, and yield its delta."""
        if block.kind == "other":
            return
        block.pieces.setdefault(part, []).append(piece)
        self._keep_more(block, len(piece))
        if block.kind == "text":
            self._written.append(piece)
            yield from self._show(self.cut.take(piece))
        elif piece and (block.kind == "reasoning" or block.position is not None):
            block.sent += len(piece)
            index = block.position
            yield ReplyDelta(reasoning=piece) if index is None else ReplyDelta(index=index, arguments=piece)

    def announce(self, block: Block) -> Iterator[ReplyDelta]:
        """Yield the first delta of a call, once its name is known."""
        # A server that supports stop strings would not have sent a call after one.
        if block.kind != "call" or block.position is not None or self.cut.done:
            return
        call = self.call_of(block)
        if call.name:
            block.position = self.begin_call(call.id, call.name)
            yield ReplyDelta(index=block.position, call_id=self.calls[block.position].id, name=call.name)

    def show_rest(self, blocks: Iterable[Block]) -> Iterator[ReplyDelta]:
        """Yield what calls and reasoning have beyond their deltas."""
        for block in blocks:
            yield from self.announce(block)
            if block.position is not None:
                arguments = "".join(self.call_of(block).arguments)
                if arguments[block.sent :]:
                    yield ReplyDelta(index=block.position, arguments=arguments[block.sent :])
                    block.sent = len(arguments)
            elif block.kind == "reasoning" and not block.sent and (text := self.text_of(block)):
                yield ReplyDelta(reasoning=text)
                block.sent = len(text)

    def end_blocks(self) -> Iterator[ReplyDelta]:
        """Yield what the reply has beyond its deltas."""
        shown, whole = "".join(self._written), "".join([self.text_of(one) for one in self.blocks if one.kind == "text"])
        if whole.startswith(shown):
            self._written.append(whole[len(shown) :])
            yield from self._show(self.cut.take(self._written[-1]))
        yield from self.end_text()
        yield from self.show_rest(self.blocks)

    def reply(self) -> ModelReply:
        """Return the whole reply.

        Raises `InvalidReplyError` if it is incomplete or a call has no name, and `RefusalError` for a refusal.
        """
        if not self.complete:
            raise invalid_reply(self.endpoint, "ended its stream before the reply was complete")
        if self.refusal is not None:
            reason = self.endpoint.quote(self.refusal) or "without a message"
            fact = f"refuses to answer ({reason}); change the question, or ask another model"
            raise RefusalError(f"{self.endpoint} {fact}", status=200)
        texts: list[str] = []
        # With the number of characters of the text before each.
        calls: list[tuple[int, PartialCall]] = []
        thoughts: list[Reasoning] = []
        length = 0
        for block in self.blocks:
            if block.kind == "text":
                if inner := self.thoughts_of(block):
                    thoughts.append(Reasoning(inner, "", self.endpoint.provider_name, length, len(calls)))
                texts.append(mend_surrogates(self.text_of(block)))
                length += len(texts[-1])
            elif block.kind == "call":
                calls.append((length, self.call_of(block)))
            elif block.kind == "reasoning":
                text, data = self.text_of(block), self.data_of(block)
                if text or data is not None:
                    written = "" if data is None else json.dumps(data)
                    thoughts.append(Reasoning(text, written, self.endpoint.provider_name, length, len(calls)))
        cut = StopCutter(self.stops)
        text = cut.take("".join(texts))
        text += cut.rest()
        kept = [call for place, call in calls if not cut.done or place <= len(text)]
        # Gateways repeat a call.
        kept = list(
            {(call.id or position, call.name, *call.arguments): call for position, call in enumerate(kept)}.values()
        )
        used = {call.id for call in kept}
        for position, call in enumerate(kept):
            # The result of the call must refer to it.
            call.id = call.id or next(made for number in count(position) if (made := f"call_{number}") not in used)
            used.add(call.id)
        finish = self.finish or "other"
        return ModelReply(
            text,
            tuple(call.to_call(self.endpoint) for call in kept),
            self.usage or Usage(),
            ("tool_calls" if kept else "stop") if cut.done else finish,
            self.model,
            reasoning=tuple(thoughts),
        )

    # Any: a member of JSON, here and below.
    def string(self, value: Any, place: str) -> str:
        """Return a string of the answer. Raises `InvalidReplyError`, with its place, for a value of another type."""
        if value is None or isinstance(value, str):
            return value or ""
        raise invalid_reply(self.endpoint, f"sent an invalid reply ({place}: {type(value).__name__} is not a string)")

    def objects(self, value: Any, place: str) -> list[JSON]:
        """Return a list of objects of the answer. Raises as `string` does."""
        items: list[Any] = [*value] if isinstance(value, list) else [value]
        for position, item in enumerate(items):
            if item is not None and not is_object(item):
                fact = f"{place}.{position}: {type(item).__name__} is not an object"
                raise invalid_reply(self.endpoint, f"sent an invalid reply ({fact})")
        return list(filter(is_object, items))

    def check_error(self, error: Any) -> None:
        """Raise the `ModelError` that the server reports, if there is one."""
        if any(error.values()) if isinstance(error, dict) else error:  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            raise error_in_body(self.endpoint, ErrorReport.from_json({"error": error}))


def best_arguments(*candidates: str) -> str:
    """Return the most complete arguments of a call, of equal ones the last."""
    return max(reversed(candidates), key=completeness)


def completeness(arguments: str) -> int:
    """Return 0 for no arguments, 2 for a part of them, and an odd number for an object."""
    try:
        # An empty object stands where arguments follow, too.
        return 3 if read_object(arguments) else 1
    except ValueError:
        return 2 if arguments.strip() else 0


def number(value: Any) -> int | None:
    """Return an index or a count; `None` if it cannot be read. Some servers write `12.0` or `"12"`."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < len(str(_MAX_COUNT)):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MAX_COUNT:
        return None
    return int(value) if value == int(value) else None


def is_object(value: object) -> TypeGuard[JSON]:
    """Return whether a value is an object of JSON."""
    return isinstance(value, dict)


def members_of(value: object) -> JSON:
    """Return an object beside the answer; an empty one for another value."""
    return value if is_object(value) else {}


def word(value: Any) -> str:
    """Return a string beside the answer, such as an id; an empty one for another value."""
    return value if isinstance(value, str) else ""


def _count_characters(value: Any) -> int:
    """Return the number of characters of the strings in a JSON value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        value = list(value.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return sum(map(_count_characters, value)) if isinstance(value, list) else 0  # pyright: ignore[reportUnknownArgumentType]
