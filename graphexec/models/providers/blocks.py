"""Replies of several blocks: texts, reasoning and calls in order, as Anthropic and OpenAI's Responses send them."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from graphexec._parsing.json import read_json
from graphexec.errors import ModelRefusalError
from graphexec.messages import ModelReply, Reasoning, ReplyDelta, ToolCall, Usage
from graphexec.models.http.dialect import Draft, PartialCall, make_call_id
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.failures import ErrorReport, error_in_body
from graphexec.models.http.json_bodies import JSON, invalid_reply
from graphexec.models.http.stop_cutter import StopCutter

# The kind `other` is a block that is no part of the answer, such as a call that the server makes itself.
Kind: TypeAlias = Literal["text", "reasoning", "call", "other"]
# Tokens. A larger count is a mistake.
_MAX_COUNT = 10**12


@dataclass(slots=True, eq=False)
class Block:
    """A block that is still being received.

    `members` are those of the server's objects for it, merged. `pieces` are the streamed strings of each part: of its
    text, or of the arguments of the call. `position` is that of a call whose first delta has been emitted, and `sent`
    the number of characters of its arguments in deltas.
    """

    kind: Kind
    members: JSON
    pieces: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    position: int | None = None
    sent: int = 0
    ended: bool = False

    @property
    def streamed(self) -> list[str]:
        """The strings of the parts that were streamed."""
        return ["".join(pieces) for _, pieces in sorted(self.pieces.items())]

    def merge(self, members: Mapping[str, Any]) -> None:
        """Add the members of a later object for the block; an empty one does not replace what is known."""
        self.members |= {name: one for name, one in members.items() if one or name not in self.members}


@dataclass(slots=True)
class BlockDraft(Draft):
    """A draft of blocks.

    What the server says last and most completely wins: its final objects are merged with the deltas before them. What
    is odd beside the answer, such as an unknown member or a count of another type, never costs the answer. What is lost
    is an error, never an empty success.
    """

    blocks: list[Block] = field(default_factory=list[Block], init=False)
    # The server's words if it refuses an answer; `None` if it does not.
    refusal: str | None = field(default=None, init=False)

    @abstractmethod
    def text_of(self, block: Block) -> str:
        """Return the text of a block of text or reasoning."""

    @abstractmethod
    def name_of(self, block: Block) -> tuple[str, str]:
        """Return the id and the name of a call, as far as they are known."""

    @abstractmethod
    def arguments_of(self, block: Block) -> str:
        """Return the arguments of a call."""

    @abstractmethod
    def data_of(self, block: Block) -> JSON | None:
        """Return a block of reasoning as it is sent back; `None` if the server does not read it."""

    def add_piece(self, block: Block, piece: str, part: int = 0) -> Iterator[ReplyDelta]:
        """Add a streamed piece to a part of a block, and yield its delta."""
        if block.kind in {"other", "reasoning"}:
            self.keep(piece)
        block.pieces.setdefault(part, []).append(piece)
        match block.kind:
            case "text":
                yield from self.add_text(piece)
            case "reasoning" if piece:
                yield ReplyDelta(reasoning=piece)
            case "call" if piece and block.position is not None:
                yield from self.add_arguments(block.position, piece)
                block.sent += len(piece)
            case "call":
                self.keep(piece)
            case _:
                pass

    def begin_block(self, kind: Kind, members: Mapping[str, Any]) -> Block:
        """Add a block, of which the server sent these members."""
        block = Block(kind, {})
        self.blocks.append(block)
        self.merge(block, members)
        return block

    def merge(self, block: Block, members: Mapping[str, Any]) -> None:
        """Merge the members of an object into a block, and count what they add."""
        before = _size(block.members) + sum(map(len, block.streamed))
        block.merge(members)
        self.keep_more(_size(block.members) - before)

    def announce(self, block: Block) -> Iterator[ReplyDelta]:
        """Yield the first delta of a call, as soon as its name is known."""
        call_id, name = self.name_of(block)
        # A server that supports stop strings would not have sent a call after one.
        if block.kind == "call" and block.position is None and name and not self.cut.done:
            block.position = self.begin_call(call_id, name)
            yield ReplyDelta(index=block.position, call_id=self.calls[block.position].id, name=name)

    def emit_rest(self, blocks: Iterable[Block]) -> Iterator[ReplyDelta]:
        """Yield what the blocks have beyond their deltas; the text can be continued only at its end."""
        for block in blocks:
            yield from self.announce(block)
            if block.position is not None:
                arguments = self.arguments_of(block)
                if arguments[block.sent :] and arguments.startswith("".join(block.streamed)[: block.sent]):
                    yield ReplyDelta(index=block.position, arguments=arguments[block.sent :])
                    block.sent = len(arguments)

    def end_blocks(self) -> Iterator[ReplyDelta]:
        """Yield what was not streamed, after the last block."""
        raw = "".join([piece for block in self.blocks if block.kind == "text" for piece in block.streamed])
        whole = "".join([self.text_of(block) for block in self.blocks if block.kind == "text"])
        if whole.startswith(raw):
            yield from self._show(self.cut.take(whole[len(raw) :]))
        yield from self.end_text()
        yield from self.emit_rest(self.blocks)

    def reply(self) -> ModelReply:
        """Return the whole reply.

        Raises `InvalidReplyError` if it is incomplete or a call has no name, and `ModelRefusalError` for a refusal.
        """
        if not self.complete:
            raise invalid_reply(self.endpoint, "ended its stream before the reply was complete")
        texts: list[str] = []
        # Each call with the number of characters of the text before it.
        calls: list[tuple[int, PartialCall]] = []
        thoughts: list[Reasoning] = []
        length = 0
        for block in self.blocks:
            match block.kind:
                case "text":
                    texts.append(self.text_of(block))
                    length += len(texts[-1])
                case "call":
                    call_id, name = self.name_of(block)
                    call = PartialCall(call_id or make_call_id(len(calls)), name, [self.arguments_of(block)])
                    calls.append((length, call))
                case "reasoning":
                    data = self.data_of(block)
                    if data is not None or self.text_of(block):
                        written = json.dumps(data) if data is not None else ""
                        part = Reasoning(self.text_of(block), written, self.endpoint.provider_name, length, len(calls))
                        thoughts.append(part)
                case "other":
                    pass
        cut = StopCutter(self.stops)
        text = cut.take("".join(texts))
        text += cut.rest()
        made: list[ToolCall] = [
            call.to_call(self.endpoint) for after, call in calls if not cut.done or after <= len(text)
        ]
        if self.refusal is not None and not made:
            raise refusal_error(self.endpoint, self.refusal)
        finish = ("tool_calls" if made else "stop") if cut.done else self.finish or "other"
        return ModelReply(text, tuple(made), self.usage or Usage(), finish, self.model, reasoning=tuple(thoughts))
