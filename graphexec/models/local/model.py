"""A model on this machine, without an account: llama.cpp with small weights or with any GGUF file."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from graphexec._arguments import FLAG, NAME, PATH, STRING, TIMEOUT, optional, validate, whole
from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import LOCAL_MODEL_OPTIONS
from graphexec.errors import BadRequestError, WeightsError
from graphexec.messages import ChatRequest, ModelReply, ModelRequest, ToolSpec, UserMessage, images_of
from graphexec.models.http.dialect import Piece, Sampling, bearer
from graphexec.models.http.json_bodies import write
from graphexec.models.http.options import SEED, TEMPERATURE, TOP_P, copy_extra_body, refuse_absent
from graphexec.models.http.receiving import LIMITS, REPLY_LIMITS, ReplyLimits
from graphexec.models.http.remote import ClosableModel
from graphexec.models.local.llama_process import LlamaProcess, Settings, require_llama
from graphexec.models.local.weights import DEFAULT, check_gguf, pull, verify_weights, weights_path
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS, OpenAICompatible, encode
from graphexec.models.secret import Secret
from graphexec.runtime.calls import ForkSafeLock
from graphexec.runtime.io import IO

_ABSENT = {
    "reasoning_effort": (
        "pass extra_body={'chat_template_kwargs': {'reasoning_effort': ...}} if the chat template reads it"
    )
}

# The name of a tool that no template contains.
_PROBE = "graphexecprobe"
_PROBING = ChatRequest([UserMessage("Hello")], (ToolSpec(_PROBE, "", {"type": "object", "properties": {}}),))
# Seconds. The server answers in milliseconds, even while it generates a reply; a busy machine is slower.
_TEMPLATE_TIMEOUT = 10.0


@dataclass(slots=True)
class _Running:
    """A server, and whether its chat template is known to support tools."""

    process: LlamaProcess
    client: OpenAICompatible
    key: Secret
    supports_tools: bool = False

    def can_serve(self, request: ModelRequest) -> bool:
        """Return whether the server can be sent the request without checking its chat template."""
        return self.process.alive and (self.supports_tools or not _has_tools(request))


@explain_class("LocalModel() or LocalModel('model.gguf')", options=LOCAL_MODEL_OPTIONS)
class LocalModel(ClosableModel):
    """A model served by llama.cpp in a separate process, which only this machine can reach, with a random key.

    It serves the GGUF file at `path`, or the named weights `model`, which the first call downloads if they are missing
    (the default is a download of 93 MB and a file of 98 MB; `download=False` forbids it). `context`, in tokens, holds
    prompt and reply; `max_tokens` bounds a reply, since a small model may never stop. More `threads` than idle cores
    make the model many times slower. `extra_body` has further members of a request, as in `OpenAICompatible`.
    `chat_template` (Jinja) replaces the template of the weights. A request with tools is a `BadRequestError` if the
    template does not support tools, as that of the default weights, and so is a request with images, since the server
    is started without the projector of a model that sees.

    The first call starts the server in half a second; the start and a download do not count towards the `timeout` of
    the call. The server ends with `close` or with the program; a forked process starts one of its own. It answers one
    call at a time. Needs `pip install "graphexec-agents[local]"`. Every failure is a `ModelError`; missing or invalid
    weights are a `WeightsError`.
    """

    # Each parameter is a separate setting; an options object would only move the list.
    def __init__(  # noqa: PLR0913
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        model: str = DEFAULT,
        context: int = 4096,
        threads: int = 1,
        temperature: float | None = 0.0,
        max_tokens: int | None = 512,
        top_p: float | None = None,
        seed: int | None = None,
        reasoning_effort: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
        timeout: float = 300.0,
        reply_limits: ReplyLimits = REPLY_LIMITS,
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
            ("top_p", top_p, optional(TOP_P, "llama.cpp's own")),
            ("seed", seed, optional(SEED, "a random one")),
            ("timeout", timeout, TIMEOUT),
            ("reply_limits", reply_limits, LIMITS),
            ("chat_template", chat_template, optional(STRING, "that of the weights")),
            ("download", download, FLAG),
        )
        refuse_absent("LocalModel", _ABSENT, {"reasoning_effort": reasoning_effort})
        extra = copy_extra_body("LocalModel", extra_body, CHAT_COMPLETIONS.reserved, _ABSENT)
        self._path = None if path is None else Path(path)
        self._name = model if self._path is None else self._path.stem
        # Distinguishes this model's replies from other models' replies in a cache.
        sampling = (context, temperature, max_tokens, top_p, seed, extra, chat_template)
        self.identity = f"LocalModel {self._name} {self._path} {sampling!r}"
        self._settings = partial(
            Settings, name=self._name, context=context, threads=threads, chat_template=chat_template
        )
        self._client_at = partial(
            OpenAICompatible,
            self._name,
            temperature=temperature,
            max_tokens=max_tokens,
            top_p=top_p,
            seed=seed,
            extra_body=extra,
            timeout=timeout,
            reply_limits=reply_limits,
        )
        self._download = download
        # Only one thread starts the server; the others wait.
        self._lock = ForkSafeLock()
        self._running: _Running | None = None

    @property
    def name(self) -> str:
        """The name of the weights, or of the file without its suffix."""
        return self._name

    @property
    def provider(self) -> str:
        """`llama.cpp`, which serves the model."""
        return "llama.cpp"

    def check_access(self) -> None:
        """Raise `WeightsError` if llama.cpp is not installed, or the weights are missing and may not be downloaded."""
        require_llama()
        self._weights(load=False)

    def __repr__(self) -> str:
        what = f"model={self._name!r}" if self._path is None else repr(str(self._path))
        return f"LocalModel({what})"

    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply:
        client = await self._client(request, io)
        return await io.either(
            lambda: client.complete(request, timeout=timeout), lambda: client.acomplete(request, timeout=timeout)
        )

    # The generator keeps a reference to this model, so its server lives until the stream ends.
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
        if next(images_of(request), None) is not None:
            raise BadRequestError(
                f"the local model {self._name} cannot see the images in the request; use a model that can, such as "
                "OpenAICompatible with the address of llama-server --mmproj, or leave the images out"
            )
        running = self._running
        if running is not None and running.can_serve(request):
            return running.client
        # The start and a download block, so they run in a thread if there is an event loop.
        return await io.call(partial(self._start_if_needed, request))

    def _start_if_needed(self, request: ModelRequest) -> OpenAICompatible:
        with self._lock:
            if self._running is None or not self._running.process.alive:
                self._running = self._start()
            running = self._running
            if not running.can_serve(request):
                if not _template_supports_tools(running.process.url, running.key):
                    raise BadRequestError(
                        f"the chat template of {self._name} does not support tools, so the model would see none; use "
                        "the structured agent, or give a chat template that supports tools"
                    )
                running.supports_tools = True
            return running.client

    def _start(self) -> _Running:
        key = Secret(secrets.token_urlsafe(24))
        process = LlamaProcess(self._settings(path=str(self._weights(load=True)), key=key))
        return _Running(process, self._client_at(base_url=f"{process.url}/v1", api_key=key), key)

    def _weights(self, *, load: bool) -> Path:
        """Return the path of the file; to `load` it, weights are downloaded if necessary, and verified."""
        if self._path is not None:
            return check_gguf(self._path)
        path = weights_path(self._name)
        if self._download:
            return pull(self._name) if load else path
        if not path.is_file():
            raise WeightsError(
                f"the weights {self._name} are not at {path}, and download=False; fetch them with "
                f"graphexec.models.pull({self._name!r}), or pass the path of a GGUF file instead"
            )
        return verify_weights(self._name) if load else path


def _has_tools(request: ModelRequest) -> bool:
    return isinstance(request, ChatRequest) and bool(request.tools)


def _template_supports_tools(url: str, key: Secret) -> bool:
    """Return whether the server's chat template writes tools into the prompt; `True` if the server cannot tell.

    In that case the call itself reports the problem.
    """
    import httpx

    body = write(encode(_PROBING, Sampling(""), stream=False))
    try:
        response = httpx.post(
            f"{url}/apply-template",
            content=body,
            headers=bearer(key.get_secret_value()),
            timeout=_TEMPLATE_TIMEOUT,
            # Not through a proxy.
            trust_env=False,
        )
    except httpx.HTTPError:
        return True
    return _PROBE in response.text or not response.is_success
