"""A dialect: where requests go in one protocol, how they are written, and how replies are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from graphexec.messages import ModelReply, ModelRequest, ReplyDelta
from graphexec.models.http.endpoint import Endpoint, Provider


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model is to answer, whatever the request. `None` leaves it to the server. `max_tokens` bounds the reply."""

    model: str
    temperature: float | None = None
    max_tokens: int | None = None


class Folding(Protocol):
    """The events of one stream, as far as they came."""

    def take(self, data: str) -> Iterator[ReplyDelta]:
        """Take in one event, and give what it adds. Raises `ModelError` where it tells of one, or is no event."""
        ...

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        ...

    def reply(self) -> ModelReply:
        """Return the whole reply. Raises `InvalidReplyError` where the stream ended before the reply did."""
        ...


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
    fold: Callable[[ModelRequest, Endpoint], Folding]
    max_tokens: int | None = None


def bearer(key: str) -> dict[str, str]:
    """Return the header with which OpenAI and most others are given a key."""
    return {"Authorization": f"Bearer {key}"} if key else {}
