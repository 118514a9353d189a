"""A model on this machine, without an account: llama.cpp with small weights, or with any GGUF file of yours."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from graphexec._arguments import FLAG, NAME, PATH, STRING, TIMEOUT, optional, validate, whole
from graphexec.errors import BadRequestError, WeightsError
from graphexec.messages import ChatRequest, ModelReply, ModelRequest, ToolSpec, UserMessage
from graphexec.models.http.dialect import Piece, Sampling, bearer
from graphexec.models.http.remote import TEMPERATURE, ClosableModel
from graphexec.models.local.llama_process import LlamaProcess, Settings
from graphexec.models.local.weights import DEFAULT, check_gguf, pull, weights_path
from graphexec.models.providers.openai_compatible import OpenAICompatible, encode
from graphexec.runtime.io import IO

# A tool that no template names of its own accord.
_PROBE = "graphexecprobe"
_PROBING = ChatRequest([UserMessage("Hello")], (ToolSpec(_PROBE, "", {"type": "object", "properties": {}}),))
# Seconds. The server answers in milliseconds, also while it writes a reply; a loaded machine is slower.
_PATIENCE = 10.0


@dataclass(slots=True)
class _Running:
    """A server, and whether it was seen to tell its model of tools."""

    process: LlamaProcess
    client: OpenAICompatible
    key: str
    supports_tools: bool = False

    def can_serve(self, request: ModelRequest) -> bool:
        """Whether it can be given that request without a further look."""
        return self.process.alive and (self.supports_tools or not _has_tools(request))


class LocalModel(ClosableModel):
    """A model served by llama.cpp in a process of its own, reachable from this machine only and with a random key.

    It serves the GGUF file at `path`, or else the named weights `model`, which the first call fetches where they are
    not there yet (for the default a download of 93 MB, which becomes a file of 98 MB; not with `download=False`).
    `context`, in tokens, holds prompt and reply; `max_tokens` bounds a reply, since a small model may never stop. More
    `threads` than idle cores make it many times slower. `chat_template` (Jinja) replaces the weights' own. A request
    with tools is a `BadRequestError` where the template knows none, as that of the default weights.

    The first call starts the server, in half a second; that, and fetching, do not count towards a call's `timeout`.
    `close`, or the program's end, ends it. One call is answered at a time. Needs `pip install
    "graphexec-agents[local]"`. Every failure is a `ModelError`; missing or unusable weights are a `WeightsError`.
    """

    # Each parameter is a setting of its own; a bag of them would only move the list.
    def __init__(  # noqa: PLR0913
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        model: str = DEFAULT,
        context: int = 4096,
        threads: int = 1,
        temperature: float | None = 0.0,
        max_tokens: int | None = 512,
        timeout: float = 300.0,
        chat_template: str | None = None,
        download: bool = True,
    ) -> None:
        validate(
            "LocalModel",
            ("path", path, optional(PATH, "named weights")),
            ("model", model, NAME),
            ("context", context, whole(1)),
            ("threads", threads, whole(1)),
            ("temperature", temperature, optional(TEMPERATURE, "llama.cpp's own")),
            ("max_tokens", max_tokens, optional(whole(1), "no limit")),
            ("timeout", timeout, TIMEOUT),
            ("chat_template", chat_template, optional(STRING, "that of the weights")),
            ("download", download, FLAG),
        )
        self._path = None if path is None else Path(path)
        self._name = model if self._path is None else self._path.stem
        # Tells its replies from another model's, in a cache.
        sampling = (context, temperature, max_tokens, chat_template)
        self.identity = f"LocalModel {self._name} {self._path} {sampling!r}"
        self._settings = partial(
            Settings, name=self._name, context=context, threads=threads, chat_template=chat_template
        )
        self._client_at = partial(
            OpenAICompatible, self._name, temperature=temperature, max_tokens=max_tokens, timeout=timeout
        )
        self._download = download
        # One start at a time; the others wait for it.
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def __repr__(self) -> str:
        what = f"model={self._name!r}" if self._path is None else repr(str(self._path))
        return f"LocalModel({what})"

    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply:
        client = await self._client(request, io)
        return await io.either(
            lambda: client.complete(request, timeout=timeout), lambda: client.acomplete(request, timeout=timeout)
        )

    # A generator's frame holds this model, whose server ends with it.
    async def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> AsyncGenerator[Piece, None]:
        client = await self._client(request, io)
        pieces = io.iterate(
            lambda: client.stream(request, timeout=timeout), lambda: client.astream(request, timeout=timeout)
        )
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def _close(self, io: IO) -> None:
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            try:
                await io.either(running.client.close, running.client.aclose)
            finally:
                running.process.close()

    async def _client(self, request: ModelRequest, io: IO) -> OpenAICompatible:
        running = self._running
        if running is not None and running.can_serve(request):
            return running.client
        # Starting blocks, and fetching does for long: an event loop goes on meanwhile.
        return await io.call(partial(self._start_if_needed, request))

    def _start_if_needed(self, request: ModelRequest) -> OpenAICompatible:
        with self._lock:
            if self._running is None or not self._running.process.alive:
                self._running = self._start()
            running = self._running
            if not running.can_serve(request):
                if not _template_supports_tools(running.process.url, running.key):
                    raise BadRequestError(
                        f"the chat template of {self._name} knows no tools, so the model would see none; use the "
                        "structured agent, or give a chat template that knows tools"
                    )
                running.supports_tools = True
            return running.client

    def _start(self) -> _Running:
        key = secrets.token_urlsafe(24)
        process = LlamaProcess(self._settings(path=str(self._weights()), key=key))
        return _Running(process, self._client_at(base_url=f"{process.url}/v1", api_key=key), key)

    def _weights(self) -> Path:
        if self._path is not None:
            return check_gguf(self._path)
        there = weights_path(self._name)
        if self._download:
            return pull(self._name)
        if not there.is_file():
            raise WeightsError(
                f"the weights {self._name} are not at {there}, and download=False; fetch them with "
                f"graphexec.models.pull({self._name!r}), or name a GGUF file of yours instead"
            )
        return there


def _has_tools(request: ModelRequest) -> bool:
    return isinstance(request, ChatRequest) and bool(request.tools)


def _template_supports_tools(url: str, key: str) -> bool:
    """Whether the server's chat template names a tool in its prompt; also where it does not say, as the call will."""
    import httpx

    asked = encode(_PROBING, Sampling("", None, None), stream=False)
    try:
        response = httpx.post(f"{url}/apply-template", content=asked, headers=bearer(key), timeout=_PATIENCE)
    except httpx.HTTPError:
        return True
    return _PROBE in response.text or not response.is_success
