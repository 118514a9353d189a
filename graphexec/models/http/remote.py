"""The base classes of models behind an HTTP server."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import TYPE_CHECKING, Any, Never, Self, TypedDict

from graphexec._arguments import NAME, STRING, TIMEOUT, Constraint, has_methods, optional, validate, whole
from graphexec.errors import InputError, SecretError, format_value
from graphexec.messages import ChatRequest, CompletionRequest, ModelReply, ModelRequest, ReplyDelta
from graphexec.models.http import options
from graphexec.models.http.attempts import REAL_TIME, Clock
from graphexec.models.http.connections import Connections, HTTPClient
from graphexec.models.http.dialect import OPTIONS, Dialect, Sampling
from graphexec.models.http.draft import Piece
from graphexec.models.http.endpoint import (
    OPENAI,
    REPLY_BYTES,
    Address,
    Endpoint,
    Provider,
    has_scheme,
    is_local,
    provider_name,
    proxy_secrets,
)
from graphexec.models.http.exchange import Exchange
from graphexec.models.http.failures import invalid_address_error, invalid_key_error, missing_key_error
from graphexec.models.http.json_bodies import stop_strings
from graphexec.models.http.refusals import Refusals
from graphexec.models.provider_names import PROVIDERS, find_provider
from graphexec.models.secret import HasSecretValue, Secret, hide_in_logs, redact, remove_secrets, to_secret
from graphexec.runtime.io import ASYNC, BLOCKING, IO, iterate_sync, run_sync

if TYPE_CHECKING:
    from typing_extensions import Unpack

_CLIENT = has_methods("a client", "build_request", "send")
# The context manager methods distinguish the two kinds; a user's client may have none of these methods.
_BLOCKING = Constraint(
    "an httpx.Client, or one like it",
    lambda value: _CLIENT.fits(value) and (hasattr(value, "__enter__") or not hasattr(value, "__aenter__")),
)
_ASYNC = Constraint(
    "an httpx.AsyncClient, or one like it",
    lambda value: _CLIENT.fits(value) and (hasattr(value, "__aenter__") or not hasattr(value, "__enter__")),
)


def _require_request(request: ModelRequest) -> ModelRequest:
    """Return the request. Raises `InputError` for any other value: users without a type checker pass a prompt."""
    if not isinstance(request, (ChatRequest, CompletionRequest)):  # pyright: ignore[reportUnnecessaryIsInstance]
        given = format_value(request)
        raise InputError(f"the request is {given}; write model.complete(ChatRequest([UserMessage('...')]))")
    return request


class ClosableModel(ABC):
    """A model with connections: blocking and async methods, which use three methods of a subclass."""

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole reply, within `timeout` seconds if given, and never later than the model's own `timeout`.

        Raises `ModelError`.
        """
        return run_sync(self._complete(_require_request(request), timeout, BLOCKING))

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole reply, as `complete` does."""
        return await self._complete(_require_request(request), timeout, ASYNC)

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Generator[Piece, None, None]:
        """Yield the reply piece by piece while it is received, and finally the whole reply.

        The request is sent at the first `next`. Raises `ModelError`, also in the middle of a reply; then there is no
        whole reply. Closing the iterator early closes the connection, and the server stops. The `timeout` bounds the
        time that the server takes in all; the time between a piece and the next `next` does not count.
        """
        return iterate_sync(self._stream(_require_request(request), timeout, BLOCKING))

    def astream(self, request: ModelRequest, *, timeout: float | None = None) -> AsyncGenerator[Piece, None]:
        """Yield the reply piece by piece, as `stream` does."""
        return self._stream(_require_request(request), timeout, ASYNC)

    def close(self) -> None:
        """Close the connections of blocking calls, and stop a local server. A later call opens new ones."""
        run_sync(self._close(BLOCKING))

    async def aclose(self) -> None:
        """Close as `close` does, and also close the connections of async calls in this event loop."""
        await self._close(ASYNC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __reduce_ex__(self, _: object) -> Never:
        fact = "cannot be pickled or copied, since it has connections and an API key"
        remedy = f"make the {type(self).__name__} where it is used, such as in each worker process"
        raise SecretError(f"{self!r} {fact}; {remedy}")

    @abstractmethod
    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply: ...

    @abstractmethod
    def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> AsyncGenerator[Piece, None]: ...

    @abstractmethod
    async def _close(self, io: IO) -> None: ...


class ModelOptions(TypedDict, total=False):
    """The options of a model at a server that do not depend on its address; see `OpenAICompatible`."""

    api_key: str | HasSecretValue | None
    temperature: float | None
    max_tokens: int | None
    top_p: float | None
    seed: int | None
    reasoning_effort: str | None
    extra_body: Mapping[str, Any] | None
    extra_headers: Mapping[str, str] | None
    timeout: float
    max_retries: int
    max_reply_bytes: int


class RemoteModel(ClosableModel):
    """A model at a server. Subclasses differ only in their `_dialect`, and in its provider."""

    _dialect: Dialect
    _provider = OPENAI

    # Each parameter is a separate setting; an options object would only move the list.
    def __init__(  # noqa: PLR0913
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | HasSecretValue | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        reasoning_effort: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        timeout: float = 600.0,
        max_retries: int = 2,
        max_reply_bytes: int = REPLY_BYTES,
        client: HTTPClient | None = None,
        async_client: HTTPClient | None = None,
        clock: Clock = REAL_TIME,
    ) -> None:
        owner, provider = type(self).__name__, self._provider
        key, address = to_secret(api_key), None
        if isinstance(base_url, str):
            address = Address.parse(base_url.strip())
            base_url = address.url
        validate(
            owner,
            ("model", model, NAME),
            ("base_url", base_url, optional(STRING, f"{provider.base_url_variable} or the provider's own")),
            ("temperature", temperature, optional(options.TEMPERATURE, "the server's")),
            ("max_tokens", max_tokens, optional(whole(1), "the server's")),
            ("top_p", top_p, optional(options.TOP_P, "the server's")),
            ("seed", seed, optional(options.SEED, "the server's")),
            ("reasoning_effort", reasoning_effort, optional(options.EFFORT, "the server's")),
            ("timeout", timeout, TIMEOUT),
            ("max_retries", max_retries, whole(0)),
            ("max_reply_bytes", max_reply_bytes, whole(1)),
            ("client", client, optional(_BLOCKING, "a new one")),
            ("async_client", async_client, optional(_ASYNC, "a new one")),
        )
        if key is None and api_key is not None:
            kind = type(api_key).__name__
            raise InputError(f"{owner} has an api_key of the class {kind}; give a string, a Secret, or None")
        given = {"top_p": top_p, "seed": seed, "reasoning_effort": reasoning_effort}
        for name, value in given.items():
            if value is not None and name not in self._dialect.options:
                fact = f"{owner} has {name}={format_value(value)}, which its protocol does not have"
                raise InputError(f"{fact}; leave it out, or pass extra_body={{'{name}': ...}} if your server takes it")
        extra = options.copy_extra_body(owner, extra_body, self._dialect.remedies())
        self._headers = options.copy_headers(owner, extra_headers)
        if address is None or not base_url:
            address = Address.parse((os.environ.get(provider.base_url_variable) or provider.url).strip())
        self._address, self._base_url = address, address.url
        before, colon, _ = model.partition(":")
        if colon and self._base_url == provider.url and find_provider(before) in PROVIDERS:
            # The provider's own server has no such model, and this is the form of `create_model`.
            shown = format_value(model)
            raise InputError(f"{owner} has model={shown}, a name with a provider; write create_model({shown})")
        limit, place = max_tokens or self._dialect.max_tokens, provider_name(self._base_url)
        self._sampling = Sampling(model, temperature, limit, top_p, seed, reasoning_effort, extra, place)
        self._refusals = Refusals(self._dialect.members, self._dialect.repairs)
        self._api_key = key
        # What a server may repeat in its errors, beside the key.
        self._others = (*address.secrets, *options.find_secrets(self._headers, extra))
        # Distinguishes this model's replies from other models' replies in a cache. It shows no secret.
        identity = f"{owner} {self._sampling!r} {options.digest(self._headers)} at {self._base_url}"
        self.identity = redact(identity, self._others)
        self._timeout = timeout
        self._max_retries = max_retries
        self._reply_bytes = max_reply_bytes
        self._connections = Connections(client, async_client, is_local=is_local(self._base_url))
        self._clock = clock

    @classmethod
    def at_provider(cls, model: str, provider: Provider, **options: Unpack[ModelOptions]) -> Self:
        """Return a model of another provider with the same protocol, with its own variables of address and key."""
        # Any: a caller may pass an address, too.
        settings: dict[str, Any] = {**options}
        address = settings.pop("base_url", None) or os.environ.get(provider.base_url_variable) or provider.url
        made = cls(model, base_url=address, **settings)
        made._provider = provider
        return made

    @property
    def name(self) -> str:
        """The name of the model at its provider."""
        return self._sampling.model

    @property
    def provider(self) -> str:
        """The name of the provider: a well-known one, such as `openai`, or the server's host and port."""
        return self._sampling.provider

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What each request has beside messages and tools; without the key, the headers and `extra_body`."""
        settings = {"base_url": self._base_url, **{name: getattr(self._sampling, name) for name in OPTIONS}}
        return {name: value for name, value in settings.items() if value is not None}

    def check_access(self) -> None:
        """Raise the error of a call that fails before it is sent, such as `MissingAPIKeyError`. Sends nothing."""
        self._checked_endpoint()

    def __repr__(self) -> str:
        if not hasattr(self, "_sampling"):
            # An invalid option ended its creation; a debugger may show it.
            return object.__repr__(self)
        return f"{type(self).__name__}({self.name!r}, base_url={self._base_url!r})"

    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply:
        try:
            reply = await self._call(request, timeout, io, stream=False).open()
        except BaseException as error:
            remove_secrets(error, self._endpoint().secrets)
            raise
        assert isinstance(reply, ModelReply), "the request does not ask for a stream"
        return reply

    async def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> AsyncGenerator[Piece, None]:
        try:
            call = self._call(request, timeout, io, stream=True)
            opened = await call.open()
            if isinstance(opened, ModelReply):
                yield opened
                return
            deltas: tuple[ReplyDelta, ...] | None = opened.deltas
            try:
                # Read the stream to its end, even after the reply is complete, so that the connection can be reused.
                while deltas is not None:
                    for delta in deltas:
                        yield delta
                    deltas = await call.next_deltas(opened)
            finally:
                await opened.close()
            yield opened.draft.reply()
        except BaseException as error:
            remove_secrets(error, self._endpoint().secrets)
            raise

    async def _close(self, io: IO) -> None:
        await io.either(self._connections.close, self._connections.aclose)

    def _call(self, request: ModelRequest, timeout: float | None, io: IO, *, stream: bool) -> Exchange:
        endpoint = self._checked_endpoint()
        hide_in_logs(endpoint.secrets)
        seconds = self._timeout if timeout is None else min(self._timeout, timeout)
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream" if stream else "application/json",
            # Their decompression can be bounded.
            "Accept-Encoding": "gzip, deflate",
        }
        headers |= self._dialect.headers(endpoint.key.get_secret_value())
        hidden = {name: Secret(value) for name, value in headers.items()}
        if self._address.authorization:
            hidden = options.replace_headers(hidden, {"Authorization": self._address.authorization})
        return Exchange(
            endpoint=endpoint,
            clock=self._clock,
            io=io,
            timeout=seconds,
            max_retries=self._max_retries,
            connections=self._connections,
            draft=self._dialect.draft,
            stops=stop_strings(request),
            url=self._address.join(self._dialect.route(request, self._sampling.model, stream)),
            headers=options.replace_headers(hidden, self._headers),
            body=self._dialect.encode(request, self._sampling, stream=stream),
            refusals=self._refusals,
            streams=stream,
        )

    def _endpoint(self) -> Endpoint:
        provider, given = self._provider, self._api_key
        if given is None:
            given = Secret(os.environ.get(provider.key_variable, ""))
        # A key read from a file ends in a newline.
        key, others = Secret(given.get_secret_value().strip()), (*self._others, *proxy_secrets())
        return Endpoint(self._sampling.model, self._base_url, key, provider, self._reply_bytes, others)

    def _checked_endpoint(self) -> Endpoint:
        endpoint = self._endpoint()
        if not has_scheme(endpoint.base_url):
            raise invalid_address_error(endpoint, "it begins with neither http:// nor https://")
        if not (
            endpoint.key
            or self._api_key is not None
            or is_local(self._base_url)
            or options.has_credentials(self._headers)
        ):
            raise missing_key_error(endpoint)
        if not options.is_header_value(endpoint.key) or " " in endpoint.key.get_secret_value():
            raise invalid_key_error(endpoint)
        return endpoint
