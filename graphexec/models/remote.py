"""A model behind an HTTP server: its requests sent, its replies and streams received, in whatever dialect.

What to send, what came back, what went wrong and whether to try again is decided in the modules beside this one. Here
it is sent: blocking and async are the same few lines with and without `await`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from graphexec.errors import ModelError
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta
from graphexec.models.attempts import Attempts, Clock
from graphexec.models.connections import AsyncioClient, BlockingClient, Connections, Used
from graphexec.models.dialect import Dialect, Folding, Sampling
from graphexec.models.endpoint import Endpoint, has_scheme
from graphexec.models.failures import address_unusable, key_missing, key_unusable

# What a model's `clock` is where no test has its own.
REAL_TIME = Clock()


@dataclass(frozen=True, slots=True)
class _Call:
    """One request on its way."""

    attempts: Attempts
    dialect: Dialect
    asked: ModelRequest
    endpoint: Endpoint
    headers: dict[str, str]
    body: bytes

    def request(self, used: Used) -> Any:  # the client's own class of requests
        url = f"{self.endpoint.base_url}/{self.dialect.route(self.asked)}"
        return used.client.build_request(
            "POST", url, content=self.body, headers=self.headers, timeout=self.attempts.timeouts
        )

    # Any: the response is of the client's own class.
    def reply(self, response: Any, body: bytes) -> ModelReply:
        if not response.is_success:
            raise self.attempts.refuse(response.status_code, response.headers, body)
        return self.dialect.decode(body, self.asked, self.endpoint)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A stream whose first piece has come. Until then nothing was handed out, so it could be tried anew."""

    response: Any  # the client's own class of responses
    events: Any  # an iterator of httpx_sse.ServerSentEvent, blocking or async
    fold: Folding
    # `None` where the stream ended before it had any.
    deltas: tuple[ReplyDelta, ...] | None


class RemoteModel:
    """A model at a server: what every client of one is, apart from its dialect and its options."""

    # Each parameter is a setting of its own; a bag of them would only move the list.
    def __init__(  # noqa: PLR0913
        self,
        dialect: Dialect,
        sampling: Sampling,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float,
        max_retries: int,
        client: BlockingClient | None,
        async_client: AsyncioClient | None,
        clock: Clock,
    ) -> None:
        provider = dialect.provider
        self._dialect = dialect
        self._sampling = sampling
        self._base_url = (base_url or os.environ.get(provider.base_url_variable) or provider.url).strip().rstrip("/")
        self._api_key = api_key
        self._timeout = timeout
        self._max_retries = max_retries
        self._connections = Connections(client, async_client)
        self._clock = clock

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, within `timeout` seconds where there is one. Raises `ModelError`.

        A server that stalls in the middle of its answer can make it pass `timeout`, by as much again at most: a
        blocking read cannot be cut short.
        """
        call = self._call(request, timeout, stream=False)
        return call.attempts.retrying()(self._exchange, call)

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, as `complete` does, and never later than `timeout`."""
        call = self._call(request, timeout, stream=False)
        reply: ModelReply = await call.attempts.async_retrying()(self._aexchange, call)
        return reply

    def stream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> Generator[ReplyDelta | ModelReply, None, None]:
        """Give the answer piece by piece while it comes, and last the whole of it.

        Asked, and so failing, at the first `next`. Raises `ModelError`, also in the middle: then there is no whole.
        Closing the iterator early closes the connection, and the server stops.
        """
        call = self._call(request, timeout, stream=True)
        opened = call.attempts.retrying()(self._open, call)
        if isinstance(opened, ModelReply):
            yield opened
            return
        deltas = opened.deltas
        try:
            # To its end, beyond the last event that counts: else the connection could not be used again.
            while deltas is not None:
                yield from deltas
                deltas = self._next(call, opened)
        finally:
            opened.response.close()
        yield opened.fold.reply()

    async def astream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Give the answer piece by piece, as `stream` does."""
        call = self._call(request, timeout, stream=True)
        opened: _Opened | ModelReply = await call.attempts.async_retrying()(self._aopen, call)
        if isinstance(opened, ModelReply):
            yield opened
            return
        deltas = opened.deltas
        try:
            while deltas is not None:
                for delta in deltas:
                    yield delta
                deltas = await self._anext(call, opened)
        finally:
            await opened.events.aclose()
            await opened.response.aclose()
        yield opened.fold.reply()

    def close(self) -> None:
        """Close the connections of blocking calls. A later call opens new ones."""
        self._connections.close()

    async def aclose(self) -> None:
        """Close the connections of blocking calls, and of async calls in this event loop."""
        await self._connections.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        endpoint = Endpoint(self._sampling.model, self._base_url)
        return f"{type(self).__name__}({endpoint.model!r}, base_url={endpoint.shown_url!r})"

    @property
    def identity(self) -> str:
        """What tells its replies from another model's, in a cache."""
        return f"{type(self).__name__} {self._sampling!r} at {self._base_url}"

    def _call(self, request: ModelRequest, timeout: float | None, *, stream: bool) -> _Call:
        endpoint = self._endpoint()
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream" if stream else "application/json"}
        return _Call(
            Attempts(endpoint, self._clock, read=self._timeout, timeout=timeout, max_retries=self._max_retries),
            self._dialect,
            request,
            endpoint,
            headers | self._dialect.headers(endpoint.key),
            self._dialect.encode(request, self._sampling, stream=stream),
        )

    def _endpoint(self) -> Endpoint:
        """Return who is asked.

        Raises `ConnectionFailed` for an address without a scheme, `MissingAPIKey` and `AuthenticationFailed` where no
        key can be sent.
        """
        provider = self._dialect.provider
        given = self._api_key if self._api_key is not None else os.environ.get(provider.key_variable, "")
        # A key read from a file ends in a newline.
        endpoint = Endpoint(self._sampling.model, self._base_url, given.strip(), provider)
        if not has_scheme(endpoint.base_url):
            raise address_unusable(endpoint, "it begins with neither http:// nor https://")
        if not endpoint.key and self._api_key is None and not endpoint.is_local:
            raise key_missing(endpoint)
        if not (endpoint.key.isascii() and endpoint.key.isprintable()) or " " in endpoint.key:
            raise key_unusable(endpoint)
        return endpoint

    def _exchange(self, call: _Call) -> ModelReply:
        used = self._connections.blocking()
        with call.attempts.attempt(reused=used.warm):
            response = used.client.send(call.request(used), stream=True)
            used.warm = True
            try:
                body = self._read(response, call)
            finally:
                response.close()
            return call.reply(response, body)

    async def _aexchange(self, call: _Call) -> ModelReply:
        used = await self._connections.of_this_loop()
        with call.attempts.attempt(reused=used.warm):
            async with asyncio.timeout(call.attempts.left):
                response = await used.client.send(call.request(used), stream=True)
                used.warm = True
                try:
                    body: bytes = await response.aread()
                finally:
                    await response.aclose()
            return call.reply(response, body)

    # Any: the response is of the client's own class.
    def _read(self, response: Any, call: _Call) -> bytes:
        body = bytearray()
        for piece in response.iter_bytes():
            call.attempts.check_time()
            body += piece
        return bytes(body)

    def _open(self, call: _Call) -> _Opened | ModelReply:
        """Send the request, and wait for the first piece. A server that does not stream gives the whole reply."""
        used = self._connections.blocking()
        with call.attempts.attempt(reused=used.warm):
            response = used.client.send(call.request(used), stream=True)
            used.warm = True
            try:
                if not _is_stream(response):
                    body = self._read(response, call)
                    response.close()
                    return call.reply(response, body)
                events = _events(response).iter_sse()
                fold = call.dialect.fold(call.asked, call.endpoint)
                deltas = None
                for event in events:
                    call.attempts.check_time()
                    deltas = tuple(fold.take(event.data))
                    if deltas or fold.complete:
                        break
            except BaseException:
                response.close()
                raise
            return _Opened(response, events, fold, deltas)

    async def _aopen(self, call: _Call) -> _Opened | ModelReply:
        """Send the request, and wait for the first piece, as `_open` does."""
        used = await self._connections.of_this_loop()
        with call.attempts.attempt(reused=used.warm):
            async with asyncio.timeout(call.attempts.left):
                response = await used.client.send(call.request(used), stream=True)
                used.warm = True
                events: Any = None
                try:
                    if not _is_stream(response):
                        body: bytes = await response.aread()
                        await response.aclose()
                        return call.reply(response, body)
                    events = _events(response).aiter_sse()
                    fold = call.dialect.fold(call.asked, call.endpoint)
                    deltas = None
                    async for event in events:
                        deltas = tuple(fold.take(event.data))
                        if deltas or fold.complete:
                            break
                except BaseException:
                    if events is not None:
                        await events.aclose()
                    await response.aclose()
                    raise
            return _Opened(response, events, fold, deltas)

    def _next(self, call: _Call, opened: _Opened) -> tuple[ReplyDelta, ...] | None:
        """Return what the next event adds, or `None` at the end."""
        try:
            with call.attempts.attempt():
                event = next(opened.events, None)
        except ModelError:
            # Once the reply is whole, a connection that breaks loses nothing.
            if opened.fold.complete:
                return None
            raise
        return None if event is None else tuple(opened.fold.take(event.data))

    async def _anext(self, call: _Call, opened: _Opened) -> tuple[ReplyDelta, ...] | None:
        """Return what the next event adds, as `_next` does."""
        try:
            with call.attempts.attempt():
                async with asyncio.timeout(call.attempts.left):
                    event = await anext(opened.events, None)
        except ModelError:
            if opened.fold.complete:
                return None
            raise
        return None if event is None else tuple(opened.fold.take(event.data))


# Any: the response is of the client's own class.
def _is_stream(response: Any) -> bool:
    kind: str = response.headers.get("content-type", "")
    return response.is_success and kind.partition(";")[0].strip().lower() == "text/event-stream"


# Any: an httpx_sse.EventSource. Its annotation asks for httpx's own response; one of httpx2 does as well.
def _events(response: Any) -> Any:
    from httpx_sse import EventSource

    return EventSource(response)
