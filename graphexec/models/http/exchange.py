"""Send one request and receive its response, whole or event by event.

This module does the I/O, with a blocking or an async client. The other modules of this package decide what to send,
what a response means, and which failures are retried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from graphexec.errors import BadRequestError, ModelConnectionError, ModelError
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, images_of
from graphexec.models.http.attempts import Attempts
from graphexec.models.http.connections import Connections, OpenClient
from graphexec.models.http.dialect import Dialect, Draft
from graphexec.models.http.json_bodies import write
from graphexec.models.http.json_values import JSON
from graphexec.models.http.receiving import Body, EventReader, is_event_stream, is_event_type, skip_blanks
from graphexec.models.http.refusals import Refusals
from graphexec.models.http.tracebacks import remove_secrets
from graphexec.models.progress_reports import report_retry
from graphexec.models.secret import Secret, reveal_headers
from graphexec.runtime.io import IO, Items
from graphexec.runtime.progress import report
from graphexec.runtime.retry import retry

# Seconds. A stream that is read to its end leaves a connection that can be used again, but this is not worth a wait.
LINGER = 1.0


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A stream whose first piece has been received. Before that, nothing was passed on, so a retry was possible."""

    response: Any  # the client's own class of responses
    events: _Events
    draft: Draft
    # `None` if the stream ended without any.
    deltas: tuple[ReplyDelta, ...] | None


@dataclass(slots=True)
class _Content:
    """The decompressed content of a response: the pieces that have not been received, and the rest of the last one."""

    pieces: Items[bytes]
    body: Body
    attempts: Attempts
    parts: Iterator[bytes] = field(default_factory=lambda: iter(()))

    async def next(self) -> bytes | None:
        """Return the next part, or `None` at the end. Raises `ReplyLimitError`."""
        while (part := next(self.parts, None)) is None:
            piece = await anext(self.pieces, None)
            if piece is None:
                return None
            self.parts = self.body.take(piece)
        self.attempts.check_time()
        return part


@dataclass(slots=True)
class _Events:
    """The events of a stream: the content that has not been received, and the events of its last part."""

    content: _Content
    reader: EventReader
    waiting: deque[str] = field(default_factory=deque[str])

    async def next(self) -> str | None:
        """Return the data of the next event, or `None` at the end. Raises `ReplyLimitError`."""
        while not self.waiting:
            data = await self.content.next()
            if data is None:
                return None
            self.waiting.extend(self.reader.take(data))
        return self.waiting.popleft()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request with its connections. `attempts` converts failures to errors, and limits the number of attempts."""

    attempts: Attempts
    connections: Connections
    dialect: Dialect
    request: ModelRequest
    url: Secret
    headers: Mapping[str, Secret]
    body: JSON
    # The parameters that the server has refused so far, in this call and others of the model.
    refusals: Refusals
    # Whether the request asks for a stream.
    streams: bool

    async def send(self) -> ModelReply:
        """Send the request, and return the reply. Raises `ModelError`."""
        reply = await self.open()
        assert isinstance(reply, ModelReply), "the request does not ask for a stream"
        return reply

    async def open(self) -> OpenStream | ModelReply:
        """Send the request, and wait for the first piece. A server that does not stream sends the whole reply."""
        check = self._io.make_check()

        async def once() -> OpenStream | ModelReply:
            # Repeats within one attempt: each refusal removes a parameter, and a call reconnects at most once.
            while True:
                self.refusals.apply(self.body)
                try:
                    return await self._open()
                except ModelConnectionError:
                    if not self.attempts.should_reconnect():
                        raise
                    lost = True
                except BadRequestError as error:
                    if not self._learn(error):
                        raise
                    lost = False
                check()
                if lost:
                    await self.attempts.sleep(0.0)

        attempts = self.attempts
        return await retry(
            once, attempts.policy, self._io, announce=self._announce, sleep=attempts.sleep, allows=attempts.allows
        )

    def _announce(self, error: Exception, attempt: int, wait: float) -> None:
        report_retry(remove_secrets(error, self.attempts.endpoint.secrets), attempt, wait)

    def _learn(self, error: BadRequestError) -> bool:
        """Return whether to repeat the attempt because the server refused optional parameters; report them."""
        found = self.attempts.report
        refused = [] if found is None else self.refusals.learn(self.body, error.status or 0, found)
        for news in refused:
            report(news)
        return bool(refused)

    async def next_deltas(self, opened: OpenStream) -> tuple[ReplyDelta, ...] | None:
        """Return the deltas of the next event, or `None` at the end of the stream."""
        self.attempts.resume()
        if opened.draft.complete:
            # Only the end of the stream is missing.
            self.attempts.end_within(LINGER)
        try:
            data = await self._next_data(opened)
            return None if data is None else tuple(opened.draft.take(data))
        finally:
            self.attempts.pause()

    async def _next_data(self, opened: OpenStream) -> str | None:
        try:
            with self.attempts.attempt():
                async with self._io.timeout(self.attempts.seconds_left):
                    return await opened.events.next()
        except ModelError:
            # The answer is complete, so a broken connection does not matter.
            if opened.draft.answered:
                return None
            raise

    async def close(self, opened: OpenStream) -> None:
        """Release the connection; it can be reused if the stream was read to its end."""
        await self._close(opened.response, opened.events.content.pieces)

    @property
    def _io(self) -> IO:
        return self.attempts.io

    async def _open(self) -> OpenStream | ModelReply:
        used = await self._io.either(self.connections.blocking_client, self.connections.async_client)
        with self.attempts.attempt(reused=used.warm):
            async with self._io.timeout(self.attempts.seconds_left):
                self.attempts.record_answer(begun=False)
                response = await self._post(used)
                self.attempts.record_answer(begun=True)
                pieces: Items[bytes] | None = None
                try:
                    body = self._body(response)
                    pieces = _raw_pieces(response, self._io)
                    content = _Content(pieces, body, self.attempts)
                    streams, beginning = await self._begin(response, content)
                    body.expect(streams=streams)
                    if not streams:
                        whole = await self._read(content, beginning)
                        await self._close(response, pieces)
                        return self._reply(response, whole)
                    endpoint = self.attempts.endpoint
                    events = _Events(content, EventReader(endpoint, endpoint.limits))
                    draft = self.dialect.make_draft(self.request, endpoint)
                    events.waiting.extend(events.reader.take(beginning))
                    deltas = None
                    while (data := await events.next()) is not None:
                        self.attempts.check_time()
                        deltas = tuple(draft.take(data))
                        if self.streams and (deltas or draft.complete):
                            break
                    if not (self.streams and deltas):
                        # Nothing has been passed on, so a call that cannot be read may be repeated.
                        await self._close(response, pieces)
                        return draft.reply()
                except BaseException:
                    await self._close(response, pieces)
                    raise
            self.attempts.pause()
            return OpenStream(response, events, draft, deltas)

    async def _post(self, used: OpenClient) -> Any:  # the client's own class of responses
        request = used.client.build_request(
            "POST",
            self.url.get_secret_value(),
            content=write(self.body),
            headers=reveal_headers(self.headers),
            timeout=self.attempts.timeouts,
        )
        # A key in a header would follow a redirect to another host, as httpx removes only one of these headers.
        options = {"follow_redirects": False} if getattr(used.client, "follow_redirects", False) else {}
        send = partial(used.client.send, request, stream=True, **options)
        response = await self._io.either(send, send)
        used.warm = True
        return response

    # Any: the class of the response is the client's own, here and below.
    def _body(self, response: Any) -> Body:
        endpoint = self.attempts.endpoint
        encoding = "" if _is_decoded(response) else response.headers.get("content-encoding", "")
        streams = response.is_success and is_event_type(response.headers.get("content-type", ""))
        return Body(endpoint, endpoint.limits, encoding, streams=streams, status=response.status_code)

    async def _begin(self, response: Any, content: _Content) -> tuple[bool, bytes]:
        """Return whether the body is a stream of events, and its beginning, which tells."""
        if not response.is_success:
            return False, b""
        content_type = response.headers.get("content-type", "")
        beginning = b""
        while (data := await content.next()) is not None:
            beginning = skip_blanks(beginning + data)
            found = is_event_stream(beginning, content_type, ended=False)
            if found is not None:
                return found, beginning
        return bool(is_event_stream(beginning, content_type, ended=True)), beginning

    async def _read(self, content: _Content, beginning: bytes) -> bytes:
        whole = bytearray(beginning)
        while (data := await content.next()) is not None:
            whole += data
        return bytes(whole)

    async def _close(self, response: Any, pieces: Items[bytes] | None = None) -> None:
        if pieces is not None:
            await pieces.aclose()
        # The response of a user's client may have only one of the two methods.
        await self._io.either(lambda: response.close(), lambda: response.aclose())  # noqa: PLW0108

    def _reply(self, response: Any, body: bytes) -> ModelReply:
        if not response.is_success:
            images = next(images_of(self.request), None) is not None
            raise self.attempts.response_error(response.status_code, response.headers, body, images=images)
        return self.dialect.make_draft(self.request, self.attempts.endpoint).decode(body)


def _is_decoded(response: Any) -> bool:
    """Return whether the client has read and decompressed the body, as that of a cache or of a test may do."""
    return bool(getattr(response, "is_stream_consumed", True))


def _raw_pieces(response: Any, io: IO) -> Items[bytes]:
    """Return the pieces of the body as they come: compressed, because a client's decompression has no bound."""
    if _is_decoded(response):
        return io.iterate(lambda: response.iter_bytes(), lambda: response.aiter_bytes())  # noqa: PLW0108
    return io.iterate(lambda: response.iter_raw(), lambda: response.aiter_raw())  # noqa: PLW0108
