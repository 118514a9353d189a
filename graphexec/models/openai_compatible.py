"""A model behind an OpenAI-compatible server: OpenAI, llama.cpp, Ollama, vLLM, LM Studio and many others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from graphexec.errors import ModelError
from graphexec.messages import ChatRequest, ModelReply, ModelRequest, ReplyDelta
from graphexec.models.chat_wire import Sampling, encode, route
from graphexec.models.connections import AsyncioClient, BlockingClient, Connections
from graphexec.models.endpoint import BASE_URL_VARIABLE, KEY_VARIABLE, OPENAI, Endpoint
from graphexec.models.failures import key_missing, key_unusable
from graphexec.models.reply_wire import Fold, decode

if TYPE_CHECKING:
    from graphexec.models.attempts import Attempts, Clock


class OpenAICompatible:
    """A model that is asked over OpenAI's Chat Completions and Completions protocols.

    `base_url` is the server's address up to and with `/v1`; without it, the environment's `OPENAI_BASE_URL`, else
    OpenAI's own. The key is `api_key`, else `OPENAI_API_KEY`; a server on this machine needs none, and `api_key=""`
    says that another one does not either. `temperature` and `max_tokens` (of the reply) are the server's where `None`.

    `timeout` is how many seconds an attempt waits for the server to say something; the `timeout` of a call bounds all
    its attempts and waits together. A rate limit, a server error or a broken connection is tried `max_retries` times
    more. An own `client` or `async_client` (an `httpx.Client`, or one like it) is used as it is and not closed.

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
        clock: Clock | None = None,
    ) -> None:
        url = base_url or os.environ.get(BASE_URL_VARIABLE) or OPENAI
        self._endpoint = Endpoint(model, url.strip().rstrip("/"))
        self._api_key = api_key
        self._sampling = Sampling(model, temperature, max_tokens)
        self._timeout = timeout
        self._max_retries = max_retries
        self._connections = Connections(client, async_client)
        self._clock = clock

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, within `timeout` seconds where there is one. Raises `ModelError`.

        A server that sends its answer in drips can make it pass `timeout`, by as much again at most: a blocking read
        cannot be cut short.
        """
        call = self._call(request, timeout, stream=False)
        return call.attempts.retrying()(self._exchange, call)

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, as `complete` does, and never later than `timeout`."""
        call = self._call(request, timeout, stream=False)
        reply: ModelReply = await call.attempts.async_retrying()(self._aexchange, call)
        return reply

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Iterator[ReplyDelta | ModelReply]:
        """Give the answer piece by piece while it comes, and last the whole of it.

        Asked, and so failing, at the first `next`. Raises `ModelError`, also in the middle: then the pieces so far are
        all there is. Closing the iterator early closes the connection, and the server stops.
        """
        call = self._call(request, timeout, stream=True)
        opened = call.attempts.retrying()(self._open, call)
        if isinstance(opened, ModelReply):
            yield opened
            return
        fold = Fold(self._endpoint)
        event = opened.first
        try:
            while event is not None:
                yield from fold.take(event)
                with call.rest_of(fold):
                    event = next(opened.events, None)
        finally:
            opened.response.close()
        yield fold.reply()
