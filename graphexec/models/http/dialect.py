"""A dialect: the routes of one protocol, and functions that encode requests and decode replies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from graphexec.messages import FinishReason, ModelReply, ModelRequest, ReplyDelta, ToolCall, Usage
from graphexec.models.http.endpoint import Endpoint, Provider
from graphexec.models.http.json_bodies import invalid_reply

# An item of a stream: deltas, and finally the whole reply.
Piece: TypeAlias = ReplyDelta | ModelReply


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings of a model for all requests; `None` is the server's default. `max_tokens` bounds a reply."""

    model: str
    temperature: float | None = None
    max_tokens: int | None = None


@dataclass(slots=True)
class PartialCall:
    """A tool call that is still being received."""

    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])

    def to_call(self, endpoint: Endpoint) -> ToolCall:
        """Return the complete call. Raises `InvalidReplyError` if it has no name."""
        if not self.name:
            raise invalid_reply(endpoint, "sent a tool call without a name")
        return ToolCall(self.id, self.name, "".join(self.arguments))


def make_call_id(position: int) -> str:
    """Return an id for a call that the server sent without one: the call's result must refer to it."""
    return f"call_{position}"


@dataclass(slots=True)
class Draft(ABC):
    """A reply that is still being received. The methods that add a piece are generators of deltas; iterate over them.

    Each protocol has a subclass that reads its events. `finish` and `usage` are set when the server has sent them.
    """

    endpoint: Endpoint
    texts: list[str] = field(default_factory=list[str], init=False)
    calls: list[PartialCall] = field(default_factory=list[PartialCall], init=False)
    finish: FinishReason | None = field(default=None, init=False)
    usage: Usage | None = field(default=None, init=False)
    model: str = field(default="", init=False)

    def add_text(self, text: str | None) -> Iterator[ReplyDelta]:
        """Add a piece of the text."""
        if text:
            self.texts.append(text)
            yield ReplyDelta(text)

    def add_call(self, call_id: str | None, name: str | None) -> Iterator[ReplyDelta]:
        """Begin the next call."""
        position = len(self.calls)
        call = PartialCall(call_id or make_call_id(position), name or "")
        self.calls.append(call)
        yield ReplyDelta(index=position, call_id=call.id, name=call.name)

    def add_arguments(self, position: int | None, arguments: str | None) -> Iterator[ReplyDelta]:
        """Add a piece of the arguments of a call; a piece without a position is ignored."""
        if arguments and position is not None:
            self.calls[position].arguments.append(arguments)
            yield ReplyDelta(index=position, arguments=arguments)

    @abstractmethod
    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Add one event and yield its deltas. Raises `ModelError` if the event is invalid or reports an error."""

    @property
    def complete(self) -> bool:
        """True if no part of the reply is missing."""
        return self.finish is not None

    def reply(self) -> ModelReply:
        """Return the whole reply. Raises `InvalidReplyError` if it is incomplete, or a call has no name."""
        if not self.complete:
            raise invalid_reply(self.endpoint, "ended its stream before the reply was complete")
        calls = tuple(call.to_call(self.endpoint) for call in self.calls)
        return ModelReply("".join(self.texts), calls, self.usage or Usage(), self.finish or "other", self.model)


class Encode(Protocol):
    """A function that encodes a request as the body of a POST."""

    def __call__(self, request: ModelRequest, sampling: Sampling, *, stream: bool) -> bytes:
        """Return the body. Raises `BadRequestError` if the protocol cannot express the request."""
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """The functions and settings of one protocol.

    `route` returns a path below the base URL; `headers` returns the headers with the API key, if there is one.
    `make_draft` makes the draft of a streamed reply. `max_tokens` bounds a reply if the user does not; `None` is the
    server's default.
    """

    provider: Provider
    route: Callable[[ModelRequest], str]
    headers: Callable[[str], dict[str, str]]
    encode: Encode
    decode: Callable[[bytes, ModelRequest, Endpoint], ModelReply]
    make_draft: Callable[[ModelRequest, Endpoint], Draft]
    max_tokens: int | None = None


def bearer(key: str) -> dict[str, str]:
    """Return the header with the API key that OpenAI and most other servers use."""
    return {"Authorization": f"Bearer {key}"} if key else {}
