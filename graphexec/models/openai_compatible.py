"""A model behind an OpenAI-compatible server: OpenAI, llama.cpp, Ollama, vLLM, LM Studio and many others.

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
from graphexec.messages import ChatRequest, ModelReply, ModelRequest, ReplyDelta
from graphexec.models.attempts import Attempts, Clock
from graphexec.models.chat_wire import Sampling, encode, route
from graphexec.models.connections import AsyncioClient, BlockingClient, Connections, Used
from graphexec.models.endpoint import BASE_URL_VARIABLE, KEY_VARIABLE, OPENAI, Endpoint, has_scheme
from graphexec.models.failures import address_unusable, key_missing, key_unusable
from graphexec.models.reply_wire import Fold, decode

_REAL_TIME = Clock()


@dataclass(frozen=True, slots=True)
class _Call:
    """One request on its way."""

    attempts: Attempts
    endpoint: Endpoint
    url: str
    headers: dict[str, str]
    body: bytes
    chat: bool

    def request(self, used: Used) -> Any:  # the client's own class of requests
        return used.client.build_request(
            "POST", self.url, content=self.body, headers=self.headers, timeout=self.attempts.timeouts
        )

    # Any: the response is of the client's own class.
    def reply(self, response: Any, body: bytes) -> ModelReply:
        if not response.is_success:
            raise self.attempts.refuse(response.status_code, response.headers, body)
        return decode(body, self.endpoint, chat=self.chat)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A stream whose first event has come. Until then nothing was handed out, so it could be tried anew."""

    response: Any  # the client's own class of responses
    events: Any  # an iterator of httpx_sse.ServerSentEvent, blocking or async
    first: str | None


class OpenAICompatible:
    """A model that is asked over OpenAI's Chat Completions and Completions protocols.

    `base_url` is the server's address, from `http://` or `https://` up to and with `/v1`; without it, the environment's
    `OPENAI_BASE_URL`, else OpenAI's own. The key is `api_key`, else `OPENAI_API_KEY`; a server on this machine needs
    none, and `api_key=""` says that another one does not either. `temperature` and `max_tokens` (of the reply) are the
    server's where `None`.

    `timeout` is how many seconds an attempt waits for the server to say something; the `timeout` of a call bounds all
    its attempts and waits together. A rate limit, a server error or a broken connection is tried `max_retries` times
    more, after the wait that the server asks for. Where that is more than 60 s, the error is raised at once instead. A
    `client` or `async_client` of yours (an `httpx.Client`, or one like it) is used as it is and not closed.

    Every failure is a `ModelError`. Threads and event loops may share a model.
    """

    # Each parameter is a setting of its own; a bag of them would only move the list.
    def __init__(  # noqa: PLR0913
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
        client: BlockingClient | None = None,
        async_client: AsyncioClient | None = None,
        clock: Clock = _REAL_TIME,
    ) -> None:
        self._base_url = (base_url or os.environ.get(BASE_URL_VARIABLE) or OPENAI).strip().rstrip("/")
        self._api_key = api_key
        self._sampling = Sampling(model, temperature, max_tokens)
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
        fold = Fold(call.endpoint)
        event = opened.first
        try:
            # To its end, beyond [DONE]: else the connection could not be used again.
            while event is not None:
                yield from fold.take(event)
                event = self._next(call, opened.events, fold)
        finally:
            opened.response.close()
        yield fold.reply()

    async def astream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Give the answer piece by piece, as `stream` does."""
        call = self._call(request, timeout, stream=True)
        opened: _Opened | ModelReply = await call.attempts.async_retrying()(self._aopen, call)
        if isinstance(opened, ModelReply):
            yield opened
            return
        fold = Fold(call.endpoint)
        event = opened.first
        try:
            while event is not None:
                for delta in fold.take(event):
                    yield delta
                event = await self._anext(call, opened.events, fold)
        finally:
            await opened.events.aclose()
            await opened.response.aclose()
        yield fold.reply()

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
        return f"OpenAICompatible({endpoint.model!r}, base_url={endpoint.shown_url!r})"

    def _call(self, request: ModelRequest, timeout: float | None, *, stream: bool) -> _Call:
        endpoint = self._endpoint()
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream" if stream else "application/json"}
        if endpoint.key:
            headers["Authorization"] = f"Bearer {endpoint.key}"
        return _Call(
            Attempts(endpoint, self._clock, read=self._timeout, timeout=timeout, max_retries=self._max_retries),
            endpoint,
            f"{endpoint.base_url}/{route(request)}",
            headers,
            encode(request, self._sampling, stream=stream),
            isinstance(request, ChatRequest),
        )

    def _endpoint(self) -> Endpoint:
        """Return who is asked.

        Raises `ConnectionFailed` for an address without a scheme, `MissingAPIKey` and `AuthenticationFailed` where no
        key can be sent.
        """
        given = self._api_key if self._api_key is not None else os.environ.get(KEY_VARIABLE, "")
        # A key read from a file ends in a newline.
        endpoint = Endpoint(self._sampling.model, self._base_url, given.strip())
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
        """Send the request, and wait for the first event. A server that does not stream gives the whole reply."""
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
                first = next(events, None)
            except BaseException:
                response.close()
                raise
            return _Opened(response, events, first.data if first is not None else None)

    async def _aopen(self, call: _Call) -> _Opened | ModelReply:
        """Send the request, and wait for the first event, as `_open` does."""
        used = await self._connections.of_this_loop()
        with call.attempts.attempt(reused=used.warm):
            async with asyncio.timeout(call.attempts.left):
                response = await used.client.send(call.request(used), stream=True)
                used.warm = True
                try:
                    if not _is_stream(response):
                        body: bytes = await response.aread()
                        await response.aclose()
                        return call.reply(response, body)
                    events = _events(response).aiter_sse()
                    first = await anext(events, None)
                except BaseException:
                    await response.aclose()
                    raise
            return _Opened(response, events, first.data if first is not None else None)

    # Any: events of httpx_sse, which is loaded late.
    def _next(self, call: _Call, events: Any, fold: Fold) -> str | None:
        try:
            with call.attempts.attempt():
                event = next(events, None)
        except ModelError:
            # Once the reply is whole, a connection that breaks loses nothing.
            if fold.complete:
                return None
            raise
        return event.data if event is not None else None

    # Any: events of httpx_sse, which is loaded late.
    async def _anext(self, call: _Call, events: Any, fold: Fold) -> str | None:
        try:
            with call.attempts.attempt():
                async with asyncio.timeout(call.attempts.left):
                    event = await anext(events, None)
        except ModelError:
            if fold.complete:
                return None
            raise
        return event.data if event is not None else None


# Any: the response is of the client's own class.
def _is_stream(response: Any) -> bool:
    kind: str = response.headers.get("content-type", "")
    return response.is_success and kind.partition(";")[0].strip().lower() == "text/event-stream"


# Any: an httpx_sse.EventSource. Its annotation asks for httpx's own response; one of httpx2 does as well.
def _events(response: Any) -> Any:
    from httpx_sse import EventSource

    return EventSource(response)
