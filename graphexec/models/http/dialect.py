"""A dialect: where requests go in one protocol, how they are written, and how replies are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from graphexec.messages import FinishReason, ModelReply, ModelRequest, ReplyDelta, ToolCall, Usage
from graphexec.models.http.endpoint import Endpoint, Provider
from graphexec.models.http.json_bodies import invalid_reply

# What a stream gives: pieces, and last the whole.
Piece: TypeAlias = ReplyDelta | ModelReply


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model is to answer, whatever the request. `None` leaves it to the server. `max_tokens` bounds the reply."""

    model: str
    temperature: float | None = None
    max_tokens: int | None = None


@dataclass(slots=True)
class PartialCall:
    """A tool call while it comes."""

    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])

    def to_call(self, endpoint: Endpoint) -> ToolCall:
        """Return the call. Raises `InvalidReplyError` where it has no name."""
        if not self.name:
            raise invalid_reply(endpoint, "sent a tool call without a name")
        return ToolCall(self.id, self.name, "".join(self.arguments))


def make_call_id(position: int) -> str:
    """Return an id for a call that came without: its result must name one."""
    return f"call_{position}"


@dataclass(slots=True)
class Draft(ABC):
    """A reply as far as it came. What takes in a piece gives what it adds, and has to be iterated.

    A protocol's stream is one that takes in events: `finish` and `usage` are set once the server gave them.
    """

    endpoint: Endpoint
    said: list[str] = field(default_factory=list[str], init=False)
    calls: list[PartialCall] = field(default_factory=list[PartialCall], init=False)
    finish: FinishReason | None = field(default=None, init=False)
    usage: Usage | None = field(default=None, init=False)
    model: str = field(default="", init=False)

    def say(self, text: str | None) -> Iterator[ReplyDelta]:
        """Take in a piece of the text."""
        if text:
            self.said.append(text)
            yield ReplyDelta(text)

    def call(self, call_id: str | None, name: str | None) -> Iterator[ReplyDelta]:
        """Begin a call, the last one so far."""
        position = len(self.calls)
        pieces = PartialCall(call_id or make_call_id(position), name or "")
        self.calls.append(pieces)
        yield ReplyDelta(index=position, call_id=pieces.id, name=pieces.name)

    def extend(self, position: int | None, arguments: str | None) -> Iterator[ReplyDelta]:
        """Take in a piece of a call's arguments; one of no call is left out."""
        if arguments and position is not None:
            self.calls[position].arguments.append(arguments)
            yield ReplyDelta(index=position, arguments=arguments)

    @abstractmethod
    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Take in one event, and give what it adds. Raises `ModelError` where it is none, or tells of an error."""

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.finish is not None

    def reply(self) -> ModelReply:
        """Return the whole reply. Raises `InvalidReplyError` if it is incomplete, or a call has no name."""
        if not self.complete:
            raise invalid_reply(self.endpoint, "ended its stream before the reply was complete")
        calls = tuple(pieces.to_call(self.endpoint) for pieces in self.calls)
        return ModelReply("".join(self.said), calls, self.usage or Usage(), self.finish or "other", self.model)


class Encode(Protocol):
    """What writes the body of a POST."""

    def __call__(self, request: ModelRequest, sampling: Sampling, *, stream: bool) -> bytes:
        """Return it. Raises `BadRequestError` for what the protocol cannot say."""
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """One protocol, for the sender. `route` is below the base URL; `headers` are those that carry the key, if any.

    `max_tokens` bounds a reply where its user does not; `None` leaves it to the server.
    """

    provider: Provider
    route: Callable[[ModelRequest], str]
    headers: Callable[[str], dict[str, str]]
    encode: Encode
    decode: Callable[[bytes, ModelRequest, Endpoint], ModelReply]
    fold: Callable[[ModelRequest, Endpoint], Draft]
    max_tokens: int | None = None


def bearer(key: str) -> dict[str, str]:
    """Return the header with which OpenAI and most others are given a key."""
    return {"Authorization": f"Bearer {key}"} if key else {}
