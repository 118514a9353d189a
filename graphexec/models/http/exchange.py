"""Send one request and receive its response, whole or event by event, within the time and the attempts of a call.

This module does the I/O, with a blocking or an async client. The other modules of this package decide what to send,
what a response means, and which failures are retried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from graphexec._mistakes.user_errors import raise_loop_error
from graphexec.errors import ModelError
from graphexec.messages import ModelReply, ReplyDelta
from graphexec.models.http import failures
from graphexec.models.http.attempts import RETRIES, Clock, advised_wait, bound_waits
from graphexec.models.http.connections import Connections
from graphexec.models.http.draft import Draft
from graphexec.models.http.endpoint import Endpoint
from graphexec.models.http.json_bodies import write
from graphexec.models.http.json_values import JSON
from graphexec.models.http.receiving import Body, EventReader, is_event_stream, is_event_type, skip_blanks
from graphexec.models.http.refusals import Refusals
from graphexec.models.progress_reports import Retried
from graphexec.models.secret import Secret, remove_secrets
from graphexec.runtime.calls import report
from graphexec.runtime.io import IO, retry

# Seconds. A stream that is read to its end leaves a connection that can be used again, but this is not worth a wait.
LINGER = 1.0
# Seconds of silence behind the finish reason, where the usage may follow. The official clients wait their whole timeout
# for a server that sends nothing more and keeps the connection open, and lose the answer.
TRAILING = 5.0


class Incoming:
    """A response that is being received: its decompressed content by parts, its events, and the draft of the reply.

    The methods raise `ReplyLimitError`, and `InvalidReplyError` for a content that cannot be decompressed.
    """

    # Any: the class of the response is the client's own.
    def __init__(self, response: Any, exchange: Exchange, draft: Draft) -> None:
        self.response = response
        self.draft = draft
        # The first piece of a stream. Before that, nothing is passed on, so a retry is possible.
        self.deltas: tuple[ReplyDelta, ...] = ()
        # The events that have been received and not been read.
        self.waiting = deque[str]()
        self._exchange = exchange
        io = exchange.io
        encoding = ""
        if getattr(response, "is_stream_consumed", True):
            # The client has read and decompressed the body, as that of a cache or of a test may do.
            self._pieces = io.iterate(lambda: response.iter_bytes(), lambda: response.aiter_bytes())  # noqa: PLW0108
        else:
            # As they come: compressed, because a client's decompression has no bound.
            self._pieces = io.iterate(lambda: response.iter_raw(), lambda: response.aiter_raw())  # noqa: PLW0108
            encoding = response.headers.get("content-encoding", "")
        self._body = Body(exchange.endpoint, encoding, status=response.status_code)
        self._parts: Iterator[bytes] = iter(())

    async def begin(self) -> bytes | None:
        """Return the beginning of the body; `None` if the body is a stream of events, which its beginning tells."""
        if not self.response.is_success:
            return b""
        content_type = self.response.headers.get("content-type", "")
        self._body.expect(streams=is_event_type(content_type))
        beginning = b""
        streams: bool | None = None
        while streams is None:
            data = await self._next_part()
            beginning = skip_blanks(beginning + (data or b""))
            streams = is_event_stream(beginning, content_type, ended=data is None)
        self._body.expect(streams=streams)
        if not streams:
            return beginning
        self._events = EventReader(self._exchange.endpoint)
        self.waiting.extend(self._events.take(beginning))
        return None

    async def rest(self, beginning: bytes) -> bytes:
        """Return the whole body."""
        whole = bytearray(beginning)
        while (data := await self._next_part()) is not None:
            whole += data
        return bytes(whole)

    async def next_event(self) -> str | None:
        """Return the data of the next event of a stream, or `None` at the end."""
        while not self.waiting:
            data = await self._next_part()
            self.waiting.extend(self._events.end() if data is None else self._events.take(data))
            if data is None and not self.waiting:
                return None
        return self.waiting.popleft()

    async def close(self) -> None:
        """Release the connection; it can be reused if the body was read to its end."""
        await self._pieces.aclose()
        response = self.response
        # The response of a user's client may have only one of the two methods.
        await self._exchange.io.either(lambda: response.close(), lambda: response.aclose())  # noqa: PLW0108

    async def _next_part(self) -> bytes | None:
        while (part := next(self._parts, None)) is None:
            piece = await anext(self._pieces, None)
            if piece is None:
                return None
            self._parts = self._body.take(piece)
        self._exchange.check_time()
        return part


@dataclass(slots=True, eq=False, kw_only=True)
class Exchange:
    """A call: its request with its connections, the number of its attempts, and its deadline.

    `timeout` is the time in seconds for all attempts and the waits between them. A failure becomes one typed error.
    """

    endpoint: Endpoint
    clock: Clock
    io: IO
    timeout: float
    max_retries: int
    connections: Connections
    # The class of the drafts of the protocol, and the stop strings of the request.
    draft: type[Draft]
    stops: tuple[str, ...]
    url: Secret
    headers: Mapping[str, Secret]
    body: JSON
    # The parameters that the server has refused so far, in this call and others of the model.
    refusals: Refusals
    # Whether the request asks for a stream.
    streams: bool
    # Whether the server's response has begun, for the text of a timeout.
    _answered: bool = field(default=False, init=False)
    _deadline: float = field(init=False)
    # When the consumer of a stream received its last piece, while it has it.
    _paused: float | None = field(default=None, init=False)
    # The last one.
    _failure: failures.CallFailure = field(default=failures.CallFailure(ModelError("")), init=False)

    def __post_init__(self) -> None:
        self._deadline = self.clock.monotonic() + self.timeout

    @property
    def seconds_left(self) -> float:
        """The remaining time of the whole call in seconds."""
        return self._deadline - self.clock.monotonic()

    def check_time(self) -> None:
        """Raise `ModelTimeoutError` if the deadline has passed."""
        if self.seconds_left <= 0:
            raise failures.timeout_error(self.endpoint, self.timeout, answered=self._answered)

    async def open(self) -> Incoming | ModelReply:
        """Send the request, and wait for the first piece of a stream, or for the whole reply. Raises `ModelError`.

        A server that does not stream sends the whole reply, too.
        """
        check = self.io.make_check()

        async def once() -> Incoming | ModelReply:
            # Repeats within one attempt: each refusal removes a member of the body.
            while True:
                self.refusals.apply(self.body)
                try:
                    return await self._open()
                except ModelError as error:
                    found = self._failure.report
                    refused = [] if found is None else self.refusals.learn(self.body, error.status or 0, found)
                    for news in refused:
                        report(news)
                    if not refused:
                        raise
                check()

        def announce(error: Exception, attempt: int, wait: float) -> None:
            report(Retried(remove_secrets(error, self.endpoint.secrets), attempt, wait))

        def may_pass(error: Exception) -> bool:
            # Cancellations and exceptions of other code are never retried.
            return self._failure.error is error and self._failure.transient

        advised: Callable[[Exception], float | None] = lambda _: self._failure.advised  # noqa: E731
        policy = replace(RETRIES, attempts=self.max_retries + 1, may_pass=may_pass, advised=advised)
        return await retry(
            once,
            policy,
            self.io,
            announce=announce,
            sleep=lambda seconds: self.clock.wait(seconds, self.io),
            allows=lambda seconds: seconds < self.seconds_left,
        )

    async def next_deltas(self, incoming: Incoming) -> tuple[ReplyDelta, ...] | None:
        """Return the deltas of the next event, or `None` at the end of the stream."""
        if incoming.waiting:
            return tuple(incoming.draft.take(incoming.waiting.popleft()))
        if self._paused is not None:
            # The timeout bounds the server's time only.
            self._deadline += self.clock.monotonic() - self._paused
            self._paused = None
        data = await self._next_event(incoming)
        self._paused = self.clock.monotonic()
        return None if data is None else tuple(incoming.draft.take(data))

    async def _next_event(self, incoming: Incoming) -> str | None:
        """Return the data of the next event, or `None` at the end: behind the answer, silence and failures are one."""
        answered = incoming.draft.answered
        within = None if not answered else LINGER if incoming.draft.complete else TRAILING
        try:
            with self._attempt(within=within):
                async with self.io.timeout(self.seconds_left):
                    return await incoming.next_event()
        except ModelError:
            if answered:
                return None
            raise

    @contextmanager
    def _attempt(self, *, within: float | None = None) -> Generator[None, None, None]:
        """Convert a failure inside to one typed error; it has the time that is left, but not more than `within`."""
        self.check_time()
        ends = self._deadline
        if within is not None:
            self._deadline = min(ends, self.clock.monotonic() + within)
        try:
            # On an event loop, `IO.timeout` bounds every wait.
            with bound_waits(lambda: self.seconds_left) if self.io.blocking else nullcontext():
                yield
        except ModelError as error:
            if self._failure.error is not error:
                # The server reported the error in a body or an event with status 200.
                self._failure = failures.to_failure(error, advised_wait(error))
            raise
        # Only the client's exceptions are converted.
        except Exception as error:
            failure = failures.classify_exception(self.endpoint, error, seconds=self.timeout, answered=self._answered)
            if failure is None:
                raise_loop_error(error, f"the async_client of {self.endpoint.model}")
                raise
            self._failure = failure
            raise failure.error from error
        finally:
            self._deadline = ends

    async def _open(self) -> Incoming | ModelReply:
        client = await self.io.either(self.connections.blocking_client, self.connections.async_client)
        with self._attempt():
            async with self.io.timeout(self.seconds_left):
                draft = self.draft(self.endpoint, self.stops)
                incoming = Incoming(await self._post(client), self, draft)
                goes_on = False
                try:
                    reply = await self._receive(incoming)
                    self._paused = self.clock.monotonic()
                    goes_on = reply is None
                    return reply or incoming
                finally:
                    if not goes_on:
                        await incoming.close()

    async def _post(self, client: Any) -> Any:  # the client's own classes
        self._answered = False
        left = max(self.seconds_left, 0.001)
        if not self.io.blocking:
            # Before `IO.timeout`, because the client's own error says what the server did not do.
            left -= min(left / 10, 0.05)
        request = client.build_request(
            "POST",
            self.url.get_secret_value(),
            content=write(self.body),
            headers={name: value.get_secret_value() for name, value in self.headers.items()},
            # To connect, read, write, and to get a connection of the pool.
            timeout=(min(failures.CONNECT, left), left, left, left),
        )
        # A key in a header would follow a redirect to another host, as httpx removes only one of these headers.
        options = {"follow_redirects": False} if getattr(client, "follow_redirects", False) else {}
        send = partial(client.send, request, stream=True, **options)
        response = await self.io.either(send, send)
        self._answered = True
        return response

    async def _receive(self, incoming: Incoming) -> ModelReply | None:
        """Return the whole reply, or `None` once a stream has its first piece."""
        response, draft = incoming.response, incoming.draft
        beginning = await incoming.begin()
        if beginning is not None:
            body = await incoming.rest(beginning)
            if response.is_success:
                return draft.decode(body)
            now, status = self.clock.wall(), response.status_code
            self._failure = failures.classify_response(self.endpoint, status, response.headers, body, now=now)
            raise self._failure.error
        while (data := await self._next_event(incoming)) is not None:
            self.check_time()
            deltas = tuple(draft.take(data))
            if self.streams and deltas:
                incoming.deltas = deltas
                return None
            if self.streams and draft.complete:
                break
        # Nothing has been passed on, so a call that cannot be read may be repeated.
        return draft.reply()
