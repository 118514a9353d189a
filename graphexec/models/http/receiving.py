"""Receive the body of a response within limits: decompression, the events of a stream, and the size of JSON.

Everything here is linear in what the server sends, and holds at most one body or one event of the allowed size.
"""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from graphexec._arguments import Constraint, validate, whole
from graphexec._parsing import compile_lazily
from graphexec.errors import InvalidReplyError, ReplyLimitError
from graphexec.kernel.meters import is_whole

# The nesting at which the JSON parser stops.
_DEEPEST = 200
_DEPTH = Constraint(f"a whole number from 1 to {_DEEPEST}", lambda one: is_whole(one) and 1 <= one <= _DEEPEST)
# The calls, or other parts, of one message that are read at all; providers limit calls to about a hundred.
MOST_PARTS = 10_000
_CALLS = Constraint(f"a whole number from 1 to {MOST_PARTS}", lambda one: is_whole(one) and 1 <= one <= MOST_PARTS)
# How many times its content a stream may be: a token has four characters, and comes in an event of 200 to 400.
_FRAMES = 16
# Bytes of decompressed data that are held at once.
_PIECE = 65_536
# Characters of the names of encodings that an error shows.
_LONGEST_NAMES = 60

_WORDS = {
    "bytes": "sent a reply of more than {} bytes",
    "calls": "sent a reply of more than {} tool calls or other parts",
    "depth": "sent JSON that is nested more than {} levels deep",
    "values": "sent a reply of more than {} JSON values or events",
}


@dataclass(frozen=True, slots=True)
class ReplyLimits:
    """The limits of one reply. A reply that exceeds one raises `ReplyLimitError`, and no more of it is read.

    `bytes` bounds a body, compressed and decompressed. In a stream it bounds each event, and the content of all events
    together; the whole stream may have 16 times as many bytes, because each event has a frame. `calls` (1 to 10,000)
    bounds the tool calls, `depth` (1 to 200) the nesting of JSON, also in the arguments of a call, and `values` the
    values of one JSON document and the events of a stream.

    Raises `InputError` unless they are whole numbers in these ranges, `bytes` and `values` 1 or more.
    """

    # The name of a limit in user code, not a type.
    bytes: int = 8 * 2**20
    calls: int = 1_000
    depth: int = 64
    values: int = 250_000

    def __post_init__(self) -> None:
        known = {"bytes": whole(1), "calls": _CALLS, "depth": _DEPTH, "values": whole(1)}
        validate("ReplyLimits", *((name, getattr(self, name), constraint) for name, constraint in known.items()))


# The constraint on the option `reply_limits`.
LIMITS = Constraint("ReplyLimits(bytes=..., calls=...)", lambda value: isinstance(value, ReplyLimits))
# The default `reply_limits` of a model.
REPLY_LIMITS = ReplyLimits()


def reply_limit_error(
    owner: object, limits: ReplyLimits, name: str, seen: int, *, status: int = 200
) -> ReplyLimitError:
    """Return the error for a reply that exceeds the limit `name`; `owner` is the server, as errors show it."""
    allowed: int = getattr(limits, name)
    fact = _WORDS[name].format(f"{allowed:,}")
    answer = "" if status == 200 else f" with status {status}"  # noqa: PLR2004 - OK, as everywhere
    return ReplyLimitError(
        f"{owner} {fact}{answer}, the limit {name}; check the server, "
        "or pass reply_limits=ReplyLimits(...) with a higher limit",
        status=status,
        limit=name,
        allowed=allowed,
        seen=seen,
    )


_STRING = compile_lazily(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
# A part of a document that ends at the beginning or the end of a string: what replaces the strings of one takes memory.
_SEGMENT = compile_lazily(rb'(?:[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?){1,20000}+', re.DOTALL)
_BLANKS = b" \t\r\n"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def find_excess(data: bytes, limits: ReplyLimits) -> tuple[str, int] | None:
    """Return the limit that a JSON document exceeds, `depth` or `values`, and the number seen; `None` if it fits.

    The document may be invalid: then only what a parser reads before the first error is sure to be counted.
    """
    opened = data.count(b"[") + data.count(b"{")
    # Every value follows a bracket or a comma. Strings may have both, too, so these are upper bounds.
    if opened <= limits.depth and opened + data.count(b",") < limits.values:
        return None
    depth, values = 0, 1
    for segment in _SEGMENT().finditer(data):
        bare = _STRING().sub(b"0", segment[0]).translate(None, _BLANKS)
        # Of more brackets, the values are too many in any case.
        brackets = bare.translate(None, _NO_BRACKETS)[: 2 * limits.values + 2]
        for level in accumulate(map(_STEPS.__getitem__, brackets), initial=depth):
            if level > limits.depth:
                return "depth", level
            depth = level
        # Between two strings, so no segment ends within an empty list or object.
        empty = bare.count(b"[]") + bare.count(b"{}")
        values += bare.count(b",") + bare.count(b"[") + bare.count(b"{") - empty
        if values > limits.values:
            return "values", values
    return None


class Body:
    """The body of one response: decompresses its pieces, and counts their bytes before and after.

    `encoding` is the response's `Content-Encoding`. `owner` is the server, as errors show it.
    """

    def __init__(self, owner: object, limits: ReplyLimits, encoding: str = "", *, status: int = 200) -> None:
        self._owner = owner
        self._limits = limits
        self._status = status
        self._most = limits.bytes
        self._received = 0
        self._decoded = 0
        names = (part.strip().lower() for part in encoding.split(","))
        self._encodings = [name for name in names if name not in {"", "identity"}]
        # Any: the class of zlib's decompressors has no public name.
        self._inflater: Any = None

    def expect(self, *, streams: bool) -> None:
        """Set whether the body is a stream, which may be longer than a whole reply."""
        self._most = self._limits.bytes * (_FRAMES if streams else 1)
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
            raise reply_limit_error(self._owner, self._limits, "bytes", seen, status=self._status)

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
            names = ", ".join(self._encodings)
            # A long one is not cut, because it may be a key.
            shown = names if len(names) <= _LONGEST_NAMES else f"{len(names):,} characters"
            remedy = "make the server send gzip, deflate or no encoding, as the request asks"
            raise self._unreadable(f"Content-Encoding: {shown}", remedy)
        # Some servers send `deflate` without the header of zlib (RFC 1950), in which the compression method is 8.
        is_bare = self._encodings == ["deflate"] and piece[0] & 0x0F != 8  # noqa: PLR2004
        return -15 if is_bare else 47

    def _unreadable(self, fact: str, remedy: str) -> InvalidReplyError:
        message = f"{self._owner} sent a response that cannot be read ({fact}); {remedy}"
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

    def __init__(self, owner: object, limits: ReplyLimits) -> None:
        # It loads httpx, which only a call needs.
        from httpx_sse._decoders import SSEDecoder, SSELineDecoder

        self._owner = owner
        self._limits = limits
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
        if self._held > self._limits.bytes:
            raise reply_limit_error(self._owner, self._limits, "bytes", self._held)

    def end(self) -> Iterator[str]:
        """Yield the data of an event that ends in a carriage return, or of a whole one without an end."""
        yield from self._read(self._lines.flush())
        yield from filter(self._is_whole, self._read([""]))

    def _is_whole(self, data: str) -> bool:
        try:
            if data.strip() == "[DONE]" or find_excess(data.encode(), self._limits) is not None:
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
                for name, seen in (("bytes", len(event.data)), ("values", self._count)):
                    if seen > getattr(self._limits, name):
                        raise reply_limit_error(self._owner, self._limits, name, seen)
                is_error = event.event.strip() == "error" and '"error"' not in event.data
                yield _to_error(event.data) if is_error else event.data


def _to_error(text: str) -> str:
    """Return the data of an event named `error` as an object with this member."""
    return f'{{"error": {text if text.startswith("{") else json.dumps(text)}}}'
