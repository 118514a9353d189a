"""A model behind an HTTP server: what every client of one is, whatever its dialect."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Generator
from typing import ClassVar, Self

from graphexec._arguments import NAME, STRING, TIMEOUT, Constraint, has_methods, number, optional, validate, whole
from graphexec.errors import InputError
from graphexec.messages import ModelReply, ModelRequest
from graphexec.models.http.attempts import REAL_TIME, Attempts, Clock
from graphexec.models.http.connections import Connections, HTTPClient
from graphexec.models.http.dialect import Dialect, Piece, Sampling
from graphexec.models.http.endpoint import Endpoint, has_scheme
from graphexec.models.http.exchange import Exchange
from graphexec.models.http.failures import invalid_address_error, invalid_key_error, missing_key_error
from graphexec.runtime.io import ASYNC, BLOCKING, IO, iterate_sync, run_sync

TEMPERATURE = number("a number, 0 or more")
_CLIENT = has_methods("a client", "build_request", "send")
# The two are told apart by how they are closed; one of the user's own may not say.
_BLOCKING = Constraint(
    "an httpx.Client, or one like it",
    lambda value: _CLIENT.fits(value) and (hasattr(value, "__enter__") or not hasattr(value, "__aenter__")),
)
_ASYNC = Constraint(
    "an httpx.AsyncClient, or one like it",
    lambda value: _CLIENT.fits(value) and (hasattr(value, "__aenter__") or not hasattr(value, "__enter__")),
)


class ClosableModel(ABC):
    """A model with connections: its blocking and its async methods, of the three that a subclass writes once."""

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, within `timeout` seconds where there is one. Raises `ModelError`.

        A server that stalls in the middle of its answer can make it pass `timeout`, by as much again at most: a
        blocking read cannot be cut short.
        """
        return run_sync(self._complete(request, timeout, BLOCKING))

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, as `complete` does, and never later than `timeout`."""
        return await self._complete(request, timeout, ASYNC)

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Generator[Piece, None, None]:
        """Give the answer piece by piece while it comes, and last the whole of it.

        Asked, and so failing, at the first `next`. Raises `ModelError`, also in the middle: then there is no whole.
        Closing the iterator early closes the connection, and the server stops.
        """
        return iterate_sync(self._stream(request, timeout, BLOCKING))

    def astream(self, request: ModelRequest, *, timeout: float | None = None) -> AsyncGenerator[Piece, None]:
        """Give the answer piece by piece, as `stream` does."""
        return self._stream(request, timeout, ASYNC)

    def close(self) -> None:
        """Close the connections of blocking calls, and end a local server. A later call opens new ones."""
        run_sync(self._close(BLOCKING))

    async def aclose(self) -> None:
        """Close as `close` does, and also the connections of async calls in this event loop."""
        await self._close(ASYNC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @abstractmethod
    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply: ...

    @abstractmethod
    def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> AsyncGenerator[Piece, None]: ...

    @abstractmethod
    async def _close(self, io: IO) -> None: ...


class RemoteModel(ClosableModel):
    """A model at a server: what its clients have in common, whose `_dialect` differs."""

    _dialect: ClassVar[Dialect]

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
        client: HTTPClient | None = None,
        async_client: HTTPClient | None = None,
        clock: Clock = REAL_TIME,
    ) -> None:
        owner, provider = type(self).__name__, self._dialect.provider
        validate(
            owner,
            ("model", model, NAME),
            ("base_url", base_url, optional(STRING, f"{provider.base_url_variable} or the provider's own")),
            ("temperature", temperature, optional(TEMPERATURE, "the server's")),
            ("max_tokens", max_tokens, optional(whole(1), "the server's")),
            ("timeout", timeout, TIMEOUT),
            ("max_retries", max_retries, whole(0)),
            ("client", client, optional(_BLOCKING, "one of its own")),
            ("async_client", async_client, optional(_ASYNC, "one of its own")),
        )
        # What it is instead may hold the key, which is shown nowhere.
        if not optional(STRING).fits(api_key):
            raise InputError(f"{owner} has an api_key of the class {type(api_key).__name__}; give a string, or None")
        self._sampling = Sampling(model, temperature, max_tokens or self._dialect.max_tokens)
        self._base_url = (base_url or os.environ.get(provider.base_url_variable) or provider.url).strip().rstrip("/")
        # Tells its replies from another model's, in a cache.
        self.identity = f"{owner} {self._sampling!r} at {self._base_url}"
        self._api_key = api_key
        self._timeout = timeout
        self._max_retries = max_retries
        self._connections = Connections(client, async_client)
        self._clock = clock

    def __repr__(self) -> str:
        endpoint = Endpoint(self._sampling.model, self._base_url)
        return f"{type(self).__name__}({endpoint.model!r}, base_url={endpoint.shown_url!r})"

    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply:
        return await self._call(request, timeout, io, stream=False).send()

    async def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> AsyncGenerator[Piece, None]:
        call = self._call(request, timeout, io, stream=True)
        opened = await call.open()
        if isinstance(opened, ModelReply):
            yield opened
            return
        deltas = opened.deltas
        try:
            # To its end, beyond the last event that counts: else the connection could not be used again.
            while deltas is not None:
                for delta in deltas:
                    yield delta
                deltas = await call.next_deltas(opened)
        finally:
            await call.close(opened)
        yield opened.fold.reply()

    async def _close(self, io: IO) -> None:
        await io.either(self._connections.close, self._connections.aclose)

    def _call(self, request: ModelRequest, timeout: float | None, io: IO, *, stream: bool) -> Exchange:
        endpoint = self._endpoint()
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream" if stream else "application/json"}
        return Exchange(
            Attempts(endpoint, self._clock, io, read=self._timeout, timeout=timeout, max_retries=self._max_retries),
            self._connections,
            self._dialect,
            request,
            headers | self._dialect.headers(endpoint.key),
            self._dialect.encode(request, self._sampling, stream=stream),
            streams=stream,
        )

    def _endpoint(self) -> Endpoint:
        provider = self._dialect.provider
        given = self._api_key if self._api_key is not None else os.environ.get(provider.key_variable, "")
        # A key read from a file ends in a newline.
        endpoint = Endpoint(self._sampling.model, self._base_url, given.strip(), provider)
        if not has_scheme(endpoint.base_url):
            raise invalid_address_error(endpoint, "it begins with neither http:// nor https://")
        if not endpoint.key and self._api_key is None and not endpoint.is_local:
            raise missing_key_error(endpoint)
        if not (endpoint.key.isascii() and endpoint.key.isprintable()) or " " in endpoint.key:
            raise invalid_key_error(endpoint)
        return endpoint
