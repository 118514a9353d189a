"""A client of the openai package as a model: our requests and reading of replies, its connection, keys and retries."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from functools import partial
from typing import Any, final

from graphexec._arguments import NAME, Constraint, validate
from graphexec.messages import ChatRequest, ModelReply, ModelRequest
from graphexec.models.bridges.bridging import BridgedModel, require
from graphexec.models.http.dialect import Piece, Sampling
from graphexec.models.http.endpoint import provider_name
from graphexec.models.http.json_bodies import write
from graphexec.models.http.json_values import JSON
from graphexec.models.providers.openai_compatible import encode
from graphexec.models.providers.openai_reply import ChatStream
from graphexec.runtime.background_loop import call_client, iterate_client
from graphexec.runtime.io import IO

_CLIENT = Constraint(
    "a client of the openai package, such as OpenAI() or AsyncAzureOpenAI()", lambda value: hasattr(value, "chat")
)


# Any: the package is optional, so its types may be unknown.
def from_openai(
    client: Any,
    model: str,
    *,
    temperature: float | None = None,
    max_tokens: int | None = None,
    reasoning_effort: str | None = None,
    extra_body: Mapping[str, Any] | None = None,
) -> OpenAIModel:
    """Return a model that calls a client of the openai package, blocking or async, for chat completions.

    The address, the key, headers, proxies and retries are the client's. The client is not closed. It works in sync and
    async runs: a blocking one is called in threads in an async run, an async one on a loop of its own in a sync run.
    Raises `InputError` for another client, and if the package (extra `openai`) is missing.
    """
    require("openai", "openai")
    validate("from_openai", ("client", client, _CLIENT), ("model", model, NAME))
    address = str(getattr(client, "base_url", ""))
    sampling = Sampling(
        model,
        temperature,
        max_tokens,
        reasoning_effort=reasoning_effort,
        extra_body=extra_body,
        provider=provider_name(address),
    )
    return OpenAIModel(client, sampling)


@final
class OpenAIModel(BridgedModel):
    """A model that calls a client of the openai package; `from_openai` makes it."""

    def __init__(self, client: Any, sampling: Sampling) -> None:
        super().__init__(client, type(client).__name__, sampling.model, sampling.provider, client)
        self._sampling = sampling
        self._is_async = hasattr(client, "__aenter__")

    async def _ask(self, request: ModelRequest, timeout: float | None, io: IO, /) -> ModelReply:
        create = self._prepare(request, timeout, stream=False)
        given = await call_client(io, *((None, create) if self._is_async else (create, None)))
        return ChatStream(self._endpoint).decode(_to_json(given).encode())

    async def _pieces(self, request: ModelRequest, timeout: float | None, io: IO, /) -> AsyncGenerator[Piece, None]:
        create = self._prepare(request, timeout, stream=True)
        draft = ChatStream(self._endpoint)
        forms = (None, partial(_iterate_async, create)) if self._is_async else (partial(_iterate, create), None)
        async for chunk in iterate_client(io, *forms):
            for delta in draft.take(_to_json(chunk)):
                yield delta
        # The client hides the marker of the end, so that a stream without a reason for it may have been cut.
        yield draft.reply()

    def _prepare(self, request: ModelRequest, timeout: float | None, *, stream: bool) -> Callable[[], Any]:
        """Return the call of the client for a request."""
        body: JSON = json.loads(write(encode(request, self._sampling, stream=stream)))
        client: Any = self._client
        resource = client.chat.completions if isinstance(request, ChatRequest) else client.completions
        named = {name: body.pop(name) for name in ("model", "messages", "prompt", "stream") if name in body}
        seconds = {} if timeout is None else {"timeout": timeout}
        return partial(resource.create, **named, **seconds, extra_body=body)


def _to_json(given: Any) -> str:
    # Unset members are those that the server did not send. Servers send other types than the package declares.
    return json.dumps(given.model_dump(mode="json", exclude_unset=True, warnings=False))


def _iterate(create: Callable[[], Any]) -> Generator[Any, None, None]:
    with create() as stream:
        yield from stream


async def _iterate_async(create: Callable[[], Any]) -> AsyncGenerator[Any, None]:
    async with await create() as stream:
        async for chunk in stream:
            yield chunk
