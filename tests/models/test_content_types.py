"""The type that a server gives to its reply may be written in any way, be missing, or be wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import httpx
import pytest

from graphexec.errors import InvalidReplyError, ModelError
from graphexec.messages import ModelReply
from graphexec.models import OpenAICompatible
from graphexec.models.http.receiving import is_event_stream, skip_blanks
from graphexec.models.http.remote import RemoteModel
from tests.models.actors import HELLO, aread_stream, read_stream, scripted_server
from tests.models.recorded import CHAT, CHAT_REPLY, STREAM
from tests.parameters import cases

Way = Callable[[OpenAICompatible], ModelReply]


def complete(model: RemoteModel) -> ModelReply:
    return model.complete(HELLO)


def acomplete(model: RemoteModel) -> ModelReply:
    return asyncio.run(model.acomplete(HELLO))


def stream(model: RemoteModel) -> ModelReply:
    return read_stream(model.stream(HELLO))


def astream(model: RemoteModel) -> ModelReply:
    return asyncio.run(aread_stream(model))


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body of one byte at a time."""

    def __init__(self, body: bytes) -> None:
        self._pieces: Sequence[bytes] = [body[i : i + 1] for i in range(len(body))]

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def ask(way: Way, content_type: str | None, body: bytes) -> ModelReply:
    headers = {} if content_type is None else {"content-type": content_type}
    return way(scripted_server(lambda _: httpx.Response(200, headers=headers, stream=Pieces(body))))


ALL_WAYS = cases("way", [complete, acomplete, stream, astream])


@cases(
    "content_type",
    [
        "text/event-stream",
        "Text/Event-Stream; Charset=UTF-8",
        "TEXT/EVENT-STREAM",
        " text/event-stream ;charset=utf-8",
        "text/event-stream;charset=iso-8859-1",
        # Wrong, missing and invalid ones.
        "application/json",
        "text/plain",
        "",
        "?",
        None,
    ],
)
@ALL_WAYS
def test_stream_may_have_any_type(way: Way, content_type: str | None) -> None:
    assert ask(way, content_type, STREAM) == CHAT_REPLY


@cases(
    "content_type",
    [
        "application/json",
        "APPLICATION/JSON",
        "application/json ; Charset=UTF-8",
        "text/html",
        None,
        "Text/Event-Stream",
    ],
)
@ALL_WAYS
def test_json_may_have_any_type(way: Way, content_type: str | None) -> None:
    assert ask(way, content_type, CHAT) == CHAT_REPLY
    assert ask(way, content_type, b"\r\n \n" + CHAT) == CHAT_REPLY


@cases("begin", [b": a comment\n\n", b"\xef\xbb\xbf", b"\n\n", b"event: x\n", b"id: 1\n", b"retry: 5\n"])
@ALL_WAYS
def test_stream_is_known_by_its_beginning(way: Way, begin: bytes) -> None:
    assert ask(way, "application/json", begin + STREAM) == CHAT_REPLY


@cases("content_type", ["text/event-stream", "application/json", None])
@cases("body", [b"", b"\n\n", b"<html>", b"dat", b"x: y", b"{", b"[]", b"null"])
@ALL_WAYS
def test_other_bodies_are_clear_errors(way: Way, body: bytes, content_type: str | None) -> None:
    with pytest.raises(InvalidReplyError, match="check that the base URL is"):
        ask(way, content_type, body)


def test_type_is_decided_by_as_few_bytes_as_possible() -> None:
    def decide(body: bytes, content_type: str) -> int:
        found = (
            end for end in range(len(body) + 1) if is_event_stream(body[:end], content_type, ended=False) is not None
        )
        return next(found, -1)

    assert decide(b"data: x", "text/event-stream") == 1
    assert decide(b"data: x", "application/json") == 5
    assert decide(b'{"a": 1}', "application/json") == 1
    assert decide(b"dark", "application/json") == 3
    assert decide(b"dat", "application/json") == -1
    assert not is_event_stream(b"dat", "application/json", ended=True)
    assert skip_blanks(b"\xef\xbb\xbf \r\n\tdata") == b"data"


def test_errors_are_read_as_json_whatever_their_type() -> None:
    body = b'{"error": {"message": "because"}}'
    model = scripted_server(httpx.Response(400, headers={"content-type": "text/event-stream"}, content=body))
    with pytest.raises(ModelError, match="400: because"):
        stream(model)
