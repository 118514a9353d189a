"""Replies that attack a client, for each protocol: too long, too deep, too many, compressed, or without an end."""

import json
import socket
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, count, repeat
from typing import Any, TypeAlias

from graphexec.models import Anthropic, OpenAICompatible, OpenAIResponses
from graphexec.models.http.remote import RemoteModel
from tests.models.actors import Act

JSON_TYPE = "application/json"
EVENTS_TYPE = "text/event-stream"


def respond(
    pieces: Callable[[], Iterator[bytes]], *, kind: str = JSON_TYPE, status: str = "200 OK", encoding: str = ""
) -> Act:
    """Send a response of these pieces, until the client closes the connection."""

    def act(connection: socket.socket) -> bool:
        header = f"Content-Encoding: {encoding}\r\n" if encoding else ""
        connection.sendall(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{header}Connection: close\r\n\r\n".encode())
        for piece in pieces():
            connection.sendall(piece)
        return False

    return act


def endless(piece: bytes) -> Callable[[], Iterator[bytes]]:
    """Repeat a piece for ever."""
    return lambda: repeat(piece)


def once(body: bytes) -> Callable[[], Iterator[bytes]]:
    """Send one piece."""
    return lambda: iter([body])


# zlib's `wbits`, by the encoding; some servers send `deflate` without a header.
WINDOWS = {"gzip": 31, "deflate": 15, "deflate without a header": -15}


def compress(body: bytes, window: int) -> bytes:
    """Compress a body."""
    work = zlib.compressobj(9, zlib.DEFLATED, window)
    return work.compress(body) + work.flush()


@cache
def make_bomb(window: int, megabytes: int) -> bytes:
    """Return so many megabytes of blanks, compressed to a thousandth."""
    work = zlib.compressobj(9, zlib.DEFLATED, window)
    return b"".join(work.compress(b" " * 1_000_000) for _ in range(megabytes)) + work.flush()


def to_json(data: Any) -> bytes:
    return json.dumps(data).encode()


def event(data: Any) -> bytes:
    """Return one event of a stream."""
    return b"data: " + to_json(data) + b"\n\n"


@dataclass(frozen=True)
class Protocol:
    """One protocol, and how it writes calls and texts. `name` is that of the class of its models.

    `calls` makes a body of calls with these arguments, `call_events` the events of one call, and `text_event` an event
    with a piece of text.
    """

    make: type[RemoteModel]
    calls: Callable[[list[str]], bytes]
    call_events: Callable[[int, str], bytes]
    text_event: Callable[[str], bytes]

    def __str__(self) -> str:
        return self.make.__name__

    def model(self, url: str, **options: Any) -> RemoteModel:
        """Return a model at the address of a server, which ends in the version of the API."""
        address = url.removesuffix("/v1") if self.make is Anthropic else url
        return self.make("tiny", base_url=address, api_key="", **options)


def _chat_call(position: int, arguments: str) -> dict[str, Any]:
    return {"index": position, "id": f"c{position}", "function": {"name": "f", "arguments": arguments}}


CHAT = Protocol(
    OpenAICompatible,
    lambda calls: to_json({"choices": [{"message": {"tool_calls": [_chat_call(*one) for one in enumerate(calls)]}}]}),
    lambda position, arguments: (
        event({"choices": [{"delta": {"tool_calls": [_chat_call(position, arguments)]}}]})
        + event({"choices": [{"finish_reason": "tool_calls"}]})
    ),
    lambda text: event({"choices": [{"delta": {"content": text}}]}),
)


def _responses_call(position: int, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"c{position}", "name": "f", "arguments": arguments}


RESPONSES = Protocol(
    OpenAIResponses,
    lambda calls: to_json({"status": "completed", "output": [_responses_call(*one) for one in enumerate(calls)]}),
    lambda position, arguments: event(
        {"type": "response.output_item.added", "output_index": position, "item": _responses_call(position, arguments)}
    ),
    lambda text: event({"type": "response.output_text.delta", "delta": text}),
)


def _block(position: int, arguments: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"c{position}", "name": "f", "input": arguments}


MESSAGES = Protocol(
    Anthropic,
    lambda calls: to_json({"content": [_block(*one) for one in enumerate(calls)], "stop_reason": "end"}),
    lambda position, arguments: (
        event({"type": "content_block_start", "index": position, "content_block": _block(position, arguments)})
        + event({"type": "content_block_stop", "index": position})
    ),
    lambda text: event({"type": "content_block_delta", "index": 0, "delta": {"text": text}}),
)

PROTOCOLS = (CHAT, RESPONSES, MESSAGES)

# The lists of a whole reply with parts such as calls.
_LISTS = {
    CHAT: (b'{"choices": [{"message": {"tool_calls": [', b"]}}]}"),
    RESPONSES: (b'{"output": [', b"]}"),
    MESSAGES: (b'{"content": [', b"]}"),
}
Attack: TypeAlias = Callable[[Protocol], Act]


def list_of(protocol: Protocol, part: bytes, thousands: int) -> Act:
    """Send a reply with so many thousands of parts."""
    (begin, end), parts = _LISTS[protocol], b",".join([part] * 1_000)
    return respond(lambda: chain([begin, parts], repeat(b"," + parts, thousands - 1), [end]))


def _bomb(name: str, megabytes: int, kind: str = JSON_TYPE) -> Attack:
    return lambda _: respond(once(make_bomb(WINDOWS[name], megabytes)), kind=kind, encoding=name.split(maxsplit=1)[0])


def whole_attacks(thousands: int) -> dict[str, Attack]:
    """Return attacks with a body, of a size that grows with the number; without a limit some would not end."""
    blanks = endless(b" " * 65_536)
    return {
        "endless body": lambda _: respond(blanks),
        "endless error 500": lambda _: respond(blanks, status="500 Oops"),
        "endless error 401": lambda _: respond(blanks, status="401 No"),
        **{name: _bomb(name, thousands) for name in WINDOWS},
        "nested body": lambda _: respond(once(b"[" * 1_000 * thousands)),
        "many calls": lambda protocol: list_of(protocol, b"{}", thousands),
    }


def streamed_attacks(thousands: int) -> dict[str, Attack]:
    """Return attacks with a stream, as `whole_attacks` does."""

    def stream(pieces: Callable[[Protocol], Callable[[], Iterator[bytes]]]) -> Attack:
        return lambda protocol: respond(pieces(protocol), kind=EVENTS_TYPE)

    return {
        "endless line": stream(lambda _: lambda: chain([b"data: "], repeat(b"x" * 10_000))),
        "endless comments": stream(lambda _: endless(b": hello, hello, hello\n\n" * 1_000)),
        "endless text": stream(lambda protocol: endless(protocol.text_event("x" * 100) * 100)),
        "endless calls": stream(lambda protocol: lambda: (protocol.call_events(n, "{}") for n in count())),
        "compressed stream": _bomb("gzip", thousands, EVENTS_TYPE),
        "nested event": stream(lambda _: once(b"data: " + b"[" * 1_000 * thousands + b"\n\n")),
    }
