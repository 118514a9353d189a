"""A client of the openai package as a model: our requests and reading of replies, its connection, keys and retries."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from functools import partial
from typing import Any, final

from graphexec._arguments import NAME, Constraint, optional, validate, whole
from graphexec._mistakes import explain_calls
from graphexec.messages import ChatRequest, ModelRequest
from graphexec.models.bridges.bridging import BridgedModel, require
from graphexec.models.http.dialect import Sampling
from graphexec.models.http.endpoint import provider_name
from graphexec.models.http.json_bodies import write
from graphexec.models.http.json_values import JSON
from graphexec.models.http.options import EFFORT, TEMPERATURE, copy_extra_body
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.runtime.background_loop import call_client, iterate_client
from graphexec.runtime.io import IO

_CLIENT = Constraint(
    "a client of the openai package, such as OpenAI() or AsyncAzureOpenAI()",
    lambda value: hasattr(value, "chat") and not isinstance(value, type),
)


# Any: the package is optional, so its types may be unknown.
@explain_calls("from_openai", "from_openai(client, 'gpt-5-mini')", {})
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
    Raises `InputError` for another client and invalid options, and if the package (extra `openai`) is missing.
    """
    require("openai", "openai")
    validate(
        "from_openai",
        ("client", client, _CLIENT),
        ("model", model, NAME),
        ("temperature", temperature, optional(TEMPERATURE, "the server's")),
        ("max_tokens", max_tokens, optional(whole(1), "the server's")),
        ("reasoning_effort", reasoning_effort, optional(EFFORT, "the server's")),
    )
    extra = copy_extra_body("from_openai", extra_body, CHAT_COMPLETIONS.remedies("top_p", "seed"))
    address = str(getattr(client, "base_url", ""))
    provider = provider_name(address)
    sampling = Sampling(
        model, temperature, max_tokens, reasoning_effort=reasoning_effort, extra_body=extra, provider=provider
    )
    return OpenAIModel(client, sampling, address)


@final
class OpenAIModel(BridgedModel):
    """A model that calls a client of the openai package; `from_openai` makes it."""

    def __init__(self, client: Any, sampling: Sampling, address: str) -> None:
        super().__init__(client, type(client).__name__, sampling, client, address=address)
        self._is_async = hasattr(client, "__aenter__")

    async def _ask(self, request: ModelRequest, timeout: float | None, io: IO, /) -> JSON:
        create = self._call(request, timeout, stream=False)
        return _to_dict(await call_client(io, *((None, create) if self._is_async else (create, None))))

    async def _chunks(self, request: ModelRequest, timeout: float | None, io: IO, /) -> AsyncGenerator[JSON, None]:
        create = self._call(request, timeout, stream=True)
        forms = (None, partial(_iterate_async, create)) if self._is_async else (partial(_iterate, create), None)
        # The client hides the marker of the end, so that a stream without a reason for it may have been cut.
        async for chunk in iterate_client(io, *forms):
            yield _to_dict(chunk)

    def _call(self, request: ModelRequest, timeout: float | None, *, stream: bool) -> Callable[[], Any]:
        """Return the call of the client for a request."""
        body: JSON = json.loads(write(CHAT_COMPLETIONS.encode(request, self._sampling, stream=stream)))
        client: Any = self._client
        resource = client.chat.completions if isinstance(request, ChatRequest) else client.completions
        named = {name: body.pop(name) for name in ("model", "messages", "prompt", "stream") if name in body}
        seconds = {} if timeout is None else {"timeout": timeout}
        return partial(resource.create, **named, **seconds, extra_body=body)


def _to_dict(given: Any) -> JSON:
    # Unset members are those that the server did not send. Servers send other types than the package declares.
    return given.model_dump(mode="json", exclude_unset=True, warnings=False)  # type: ignore[no-any-return]


def _iterate(create: Callable[[], Any]) -> Generator[Any, None, None]:
    with create() as stream:
        yield from stream


async def _iterate_async(create: Callable[[], Any]) -> AsyncGenerator[Any, None]:
    async with await create() as stream:
        async for chunk in stream:
            yield chunk
