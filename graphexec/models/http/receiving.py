"""Receive the body of a response within limits: decompression, the events of a stream, and the size of JSON.

Everything here is linear in what the server sends, and holds at most one body or one event of the allowed size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any

from graphexec._arguments import Constraint, validate, whole
from graphexec._parsing import compile_lazily
from graphexec.errors import InvalidReplyError, ReplyLimitError
from graphexec.kernel.meters import is_whole

# The nesting at which the JSON parser stops.
_DEEPEST = 200
_DEPTH = Constraint(f"a whole number from 1 to {_DEEPEST}", lambda value: is_whole(value) and 1 <= value <= _DEEPEST)
# The calls, or other parts, of one message that are read at all; providers limit calls to about a hundred.
MOST_PARTS = 10_000
_CALLS = Constraint(
    f"a whole number from 1 to {MOST_PARTS}", lambda value: is_whole(value) and 1 <= value <= MOST_PARTS
)
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
        least_one = whole(1)
        known = {"depth": _DEPTH, "calls": _CALLS}
        validate(
            "ReplyLimits",
            *((one.name, getattr(self, one.name), known.get(one.name, least_one)) for one in fields(self)),
        )


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

    `encoding` is the response's `Content-Encoding`; a stream may be longer than a whole reply. `owner` is the server,
    as errors show it.
    """

    def __init__(
        self, owner: object, limits: ReplyLimits, encoding: str = "", *, streams: bool = False, status: int = 200
    ) -> None:
        self._owner = owner
        self._limits = limits
        self._status = status
        self._most = limits.bytes * (_FRAMES if streams else 1)
        self._received = 0
        self._decoded = 0
        names = [name for part in encoding.split(",") if (name := part.strip().lower()) not in {"", "identity"}]
        if names and (len(names) > 1 or names[0] not in {"gzip", "x-gzip", "deflate"}):
            # The request allows these two only, since their decompression can be bounded.
            raise InvalidReplyError(
                f"{owner} sent a response that cannot be read (Content-Encoding: {_format_names(names)}); make the "
                "server send gzip, deflate or no encoding, as the request asks",
                status=status,
            )
        self._encoding = names[0] if names else ""
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
        for data in self._inflate(piece) if self._encoding else (piece,):
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
            self._inflater = zlib.decompressobj(_window(self._encoding, piece))
        inflater, data = self._inflater, b" "
        try:
            while not inflater.eof and (piece or len(data) == _PIECE):
                data = inflater.decompress(piece, _PIECE)
                piece = inflater.unconsumed_tail
                if data:
                    yield data
        except zlib.error as error:
            raise InvalidReplyError(
                f"{self._owner} sent a response that cannot be read ({error}); check the base URL, or try again",
                status=self._status,
            ) from error


def _format_names(names: Sequence[str]) -> str:
    """Return the names of encodings. A long one is not cut, because it may be a key."""
    shown = ", ".join(names)
    return shown if len(shown) <= _LONGEST_NAMES else f"{len(shown):,} characters"


def _window(encoding: str, piece: bytes) -> int:
    """Return zlib's `wbits`: some servers send `deflate` without the header of zlib (RFC 1950), as RFC 1951 has it."""
    if encoding != "deflate":
        return 31
    # The compression method of a header is 8.
    return 15 if piece[0] & 0x0F == 8 else -15  # noqa: PLR2004


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

    Comments and the names, ids and retries of events are ignored, and so is an event that the stream's end cuts. But
    the data of an event named `error` become the member `error` of an object, unless they have it. Not httpx-sse, which
    bounds neither a line nor an event.
    """

    def __init__(self, owner: object, limits: ReplyLimits) -> None:
        self._owner = owner
        self._limits = limits
        self._line = bytearray()
        self._data: list[bytes] = []
        # The bytes of the event so far, the number of events, and whether the last line ended in a carriage return.
        self._size = 0
        self._count = 0
        self._returned = False
        self._is_error = False

    def take(self, piece: bytes) -> Iterator[str]:
        """Yield the data of each event that a piece ends. Raises `ReplyLimitError`."""
        for line in piece.splitlines(keepends=True):
            if self._returned and line == b"\n":
                # The rest of a line's end in two pieces.
                self._returned = False
                continue
            self._line += line
            self._size += len(line)
            if self._size > self._limits.bytes:
                raise reply_limit_error(self._owner, self._limits, "bytes", self._size)
            self._returned = line.endswith(b"\r")
            if self._returned or line.endswith(b"\n"):
                yield from self._end_line(bytes(self._line).rstrip(b"\r\n"))
                self._line.clear()

    def _end_line(self, line: bytes) -> Iterator[str]:
        if not line:
            self._size = 0
            if self._data:
                data, self._data = b"\n".join(self._data), []
                self._count += 1
                if self._count > self._limits.values:
                    raise reply_limit_error(self._owner, self._limits, "values", self._count)
                text, is_error = data.decode("utf-8", "replace"), self._is_error
                yield _to_error(text) if is_error and '"error"' not in text else text
            self._is_error = False
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._is_error = value.strip() == b"error"


def _to_error(text: str) -> str:
    """Return the data of an event named `error` as an object with this member."""
    return f'{{"error": {text if text.startswith("{") else json.dumps(text)}}}'
