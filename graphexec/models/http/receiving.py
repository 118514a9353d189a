"""Receive the body of a response within limits: decompression, the events of a stream, and the size of JSON.

Everything here is linear in what the server sends, and holds at most one body or one event of the allowed size.
"""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from graphexec._parsing import compile_lazily
from graphexec.errors import InvalidReplyError
from graphexec.models.http.endpoint import MOST, Endpoint, reply_limit_error

# How many times as many bytes a stream may have: a token has four characters, and comes in an event of 200 to 400.
_FRAMES = 8
# Bytes of decompressed data that are held at once.
_PIECE = 65_536

_STRING = compile_lazily(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = compile_lazily(r"[\[\]{}]")
_BLANKS = b" \t\r\n"


def find_excess(text: str) -> tuple[str, int] | None:
    """Return the limit that a JSON document exceeds, `depth` or `values`, and the number seen; `None` if it fits."""
    # Every value follows a bracket or a comma. Strings may have both, too, so this is an upper bound.
    values = text.count("[") + text.count("{") + text.count(",")
    if values > MOST["values"]:
        return "values", values
    if values > MOST["depth"]:
        levels = accumulate(1 if one in "[{" else -1 for one in _BRACKET().findall(_STRING().sub("", text)))
        if (depth := max(levels, default=0)) > MOST["depth"]:
            return "depth", depth
    return None


class Body:
    """The body of one response: decompresses its pieces, and counts their bytes before and after.

    `encoding` is the response's `Content-Encoding`.
    """

    def __init__(self, endpoint: Endpoint, encoding: str = "", *, status: int = 200) -> None:
        self._endpoint = endpoint
        self._status = status
        self._most = endpoint.reply_bytes
        self._received = 0
        self._decoded = 0
        names = (part.strip().lower() for part in encoding.split(","))
        self._encodings = [name for name in names if name not in {"", "identity"}]
        # Any: the class of zlib's decompressors has no public name.
        self._inflater: Any = None

    def expect(self, *, streams: bool) -> None:
        """Set whether the body is a stream, which may be longer than a whole reply."""
        self._most = self._endpoint.reply_bytes * (_FRAMES if streams else 1)
        self._check(max(self._received, self._decoded))

    def take(self, piece: bytes) -> Iterator[bytes]:
        """Yield the data of the next piece. Raises `ReplyLimitError`, and `InvalidReplyError` for invalid data."""
        self._received += len(piece)
        self._check(self._received)
        for data in self._inflate(piece) if self._encodings else (piece,):
            self._decoded += len(data)
            self._check(self._decoded)
            yield data

    def _check(self, seen: int) -> None:
        if seen > self._most:
            raise reply_limit_error(self._endpoint, "bytes", seen, status=self._status)

    def _inflate(self, piece: bytes) -> Iterator[bytes]:
        import zlib

        if self._inflater is None:
            if not piece:
                return
            self._inflater = zlib.decompressobj(self._window(piece))
        inflater, data = self._inflater, b" "
        try:
            while not inflater.eof and (piece or len(data) == _PIECE):
                data = inflater.decompress(piece, _PIECE)
                piece = inflater.unconsumed_tail
                if data:
                    yield data
        except zlib.error as error:
            raise self._unreadable(str(error), "check the base URL, or try again") from error

    def _window(self, piece: bytes) -> int:
        """Return zlib's `wbits` for a body that begins with this piece."""
        if self._encodings not in (["gzip"], ["x-gzip"], ["deflate"]):
            # The request allows these only, since their decompression can be bounded.
            shown = self._endpoint.quote(", ".join(self._encodings))
            remedy = "make the server send gzip, deflate or no encoding, as the request asks"
            raise self._unreadable(f"Content-Encoding: {shown}", remedy)
        # Some servers send `deflate` without the header of zlib (RFC 1950), in which the compression method is 8.
        is_bare = self._encodings == ["deflate"] and piece[0] & 0x0F != 8  # noqa: PLR2004
        return -15 if is_bare else 47

    def _unreadable(self, fact: str, remedy: str) -> InvalidReplyError:
        message = f"{self._endpoint} sent a response that cannot be read ({fact}); {remedy}"
        return InvalidReplyError(message, status=self._status)


# How a stream of events begins: with the name of a field, or a comment.
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
# A byte order mark.
_MARK = b"\xef\xbb\xbf"


def skip_blanks(beginning: bytes) -> bytes:
    """Return the beginning of a body without a byte order mark and blanks, which mean nothing there."""
    return beginning.removeprefix(_MARK).lstrip(_BLANKS)


def is_event_type(content_type: str) -> bool:
    """Return whether a `Content-Type` is that of a stream of events."""
    return content_type.partition(";")[0].strip().lower() == "text/event-stream"


def is_event_stream(beginning: bytes, content_type: str, *, ended: bool) -> bool | None:
    """Return whether a body is a stream of events; `None` if its beginning is too short to tell.

    The beginning decides, as far as it can: some servers and gateways send a stream as JSON, and JSON as a stream.
    """
    if _MARK.startswith(beginning) and not ended:
        return None
    if is_event_type(content_type):
        return not beginning.startswith((b"{", b"["))
    if beginning.startswith(_FIELDS):
        return True
    return False if ended or not any(field.startswith(beginning) for field in _FIELDS) else None


class EventReader:
    """Reads the data of server-sent events from the bytes of a stream (WHATWG HTML, 9.2.6), by pieces of any size.

    Comments and the names, ids and retries of events are ignored, and so is an event whose data the stream's end cuts.
    But the data of an event named `error` become the member `error` of an object, unless they have it.

    The decoders of httpx-sse split the lines and collect the events. They hold a line or an event of any length, so
    the bytes since the last event are bounded here; its `EventSource` would read the response without a bound.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        # It loads httpx, which only a call needs.
        from httpx_sse._decoders import SSEDecoder, SSELineDecoder

        self._endpoint = endpoint
        self._text = getincrementaldecoder("utf-8")("replace")
        self._lines = SSELineDecoder()
        self._events = SSEDecoder()
        # The bytes since the last event, but for those behind it in its piece, and the number of events.
        self._held = 0
        self._count = 0

    def take(self, piece: bytes) -> Iterator[str]:
        """Yield the data of each event that a piece ends. Raises `ReplyLimitError`."""
        self._held += len(piece)
        yield from self._read(self._lines.decode(self._text.decode(piece)))
        if self._held > self._endpoint.reply_bytes:
            raise reply_limit_error(self._endpoint, "bytes", self._held)

    def end(self) -> Iterator[str]:
        """Yield the data of an event that ends in a carriage return, or of a whole one without an end."""
        yield from self._read(self._lines.flush())
        yield from filter(self._is_whole, self._read([""]))

    def _is_whole(self, data: str) -> bool:
        try:
            if data.strip() == "[DONE]" or find_excess(data) is not None:
                return True
            return isinstance(json.loads(data), dict)
        except (ValueError, RecursionError):
            return False

    def _read(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            event = self._events.decode(line)
            # An event without data has no meaning in any of the protocols.
            if event is not None and event.data:
                self._held = 0
                self._count += 1
                if self._count > MOST["events"]:
                    raise reply_limit_error(self._endpoint, "events", self._count)
                if len(event.data) > self._endpoint.reply_bytes:
                    raise reply_limit_error(self._endpoint, "bytes", len(event.data))
                is_error = event.event.strip() == "error" and '"error"' not in event.data
                yield _to_error(event.data) if is_error else event.data


def _to_error(text: str) -> str:
    """Return the data of an event named `error` as an object with this member."""
    return f'{{"error": {text if text.startswith("{") else json.dumps(text)}}}'
