"""A model on this machine, without an account: llama.cpp with small weights or with any GGUF file."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from graphexec._arguments import FLAG, NAME, PATH, STRING, optional, validate, whole
from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import LOCAL_MODEL_OPTIONS
from graphexec.errors import BadRequestError, WeightsError
from graphexec.messages import ChatRequest, ModelReply, ModelRequest, ToolSpec, UserMessage
from graphexec.models.http.dialect import Sampling, option
from graphexec.models.http.draft import Piece
from graphexec.models.http.endpoint import REPLY_BYTES, Address, provider_name
from graphexec.models.http.json_bodies import write
from graphexec.models.local.llama_process import LlamaProcess, Settings, require_llama
from graphexec.models.local.weights import DEFAULT, check_gguf, pull, weights_path
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS, OpenAICompatible
from graphexec.models.secret import Secret
from graphexec.runtime.calls import ForkSafeLock
from graphexec.runtime.io import IO

# The chat template gets the effort.
_EFFORT = option("reasoning_effort", "chat_template_kwargs.reasoning_effort")
_MEMBERS = (_EFFORT if one.option == "reasoning_effort" else one for one in CHAT_COMPLETIONS.members)
_LLAMA_CPP = replace(CHAT_COMPLETIONS, members=tuple(_MEMBERS))

# The name of a tool that no template contains.
_PROBE = "graphexecprobe"
_PROBING = ChatRequest([UserMessage("Hello")], (ToolSpec(_PROBE, "", {"type": "object", "properties": {}}),))
# Seconds. The server answers in milliseconds, even while it generates a reply; a busy machine is slower.
_TEMPLATE_TIMEOUT = 10.0


@explain_class("LocalModel() or LocalModel('model.gguf')", options=LOCAL_MODEL_OPTIONS)
class LocalModel(OpenAICompatible):
    """A model served by llama.cpp in a separate process, which only this machine can reach, with a random key.

    It serves the GGUF file at `path`, or the named weights `model`, which the first call downloads if they are missing
    (the default is a download of 93 MB and a file of 98 MB; `download=False` forbids it). `context`, in tokens, holds
    prompt and reply; `max_tokens` bounds a reply, since a small model may never stop. More `threads` than idle cores
    make the model many times slower. `extra_body` has further members of a request, as in `OpenAICompatible`.
    `chat_template` (Jinja) replaces the template of the weights. A request with tools is a `BadRequestError` if the
    template does not support tools, as that of the default weights, and so is a request with images, which the server
    refuses, since it is started without the projector of a model that sees.

    The first call starts the server in half a second; the start and a download do not count towards the `timeout` of
    the call. The server ends with `close` or with the program; a forked process starts one of its own. It answers one
    call at a time. Needs `pip install "graphexec-agents[local]"`. Every failure is a `ModelError`; missing or invalid
    weights are a `WeightsError`.
    """

    _dialect = _LLAMA_CPP

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
        max_reply_bytes: int = REPLY_BYTES,
        chat_template: str | None = None,
        download: bool = True,
    ) -> None:
        validate(
            "LocalModel",
            ("path", path, optional(PATH, "named weights")),
            ("model", model, NAME),
            ("context", context, whole(1)),
            ("threads", threads, whole(1)),
            ("chat_template", chat_template, optional(STRING, "that of the weights")),
            ("download", download, FLAG),
        )
        self._path, key = None if path is None else Path(path), Secret(secrets.token_urlsafe(24))
        super().__init__(
            model if self._path is None else self._path.stem,
            # Until the server has its port.
            base_url="http://127.0.0.1",
            api_key=key,
            temperature=temperature,
            max_tokens=max_tokens,
            top_p=top_p,
            seed=seed,
            reasoning_effort=reasoning_effort,
            extra_body=extra_body,
            timeout=timeout,
            max_reply_bytes=max_reply_bytes,
        )
        # Distinguishes this model's replies from other models' replies in a cache.
        self.identity = f"LocalModel {self._path} {context} {self._sampling!r} {chat_template!r}"
        options: dict[str, Any] = {"context": context, "threads": threads, "chat_template": chat_template}
        self._settings = partial(Settings, name=self.name, key=key, **options)
        self._download = download
        # Only one thread starts the server; the others wait.
        self._lock = ForkSafeLock()
        self._process: LlamaProcess | None = None
        # Whether the chat template is known to support tools.
        self._supports_tools = False

    @property
    def provider(self) -> str:
        """`llama.cpp`, which serves the model."""
        return "llama.cpp"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What each request has beside messages and tools; without the address, which changes with each start."""
        return {name: value for name, value in super().parameters.items() if name != "base_url"}

    def check_access(self) -> None:
        """Raise `WeightsError` if llama.cpp is not installed, or the weights are missing and may not be downloaded."""
        require_llama()
        self._weights(load=False)

    def __repr__(self) -> str:
        what = f"model={self.name!r}" if self._path is None else repr(str(self._path))
        return f"LocalModel({what})"

    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply:
        await self._prepare(request, io)
        return await super()._complete(request, timeout, io)

    # The generator keeps a reference to this model, so its server lives until the stream ends.
    async def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> AsyncGenerator[Piece, None]:
        await self._prepare(request, io)
        async with aclosing(super()._stream(request, timeout, io)) as pieces:
            async for piece in pieces:
                yield piece

    async def _close(self, io: IO) -> None:
        with self._lock:
            process, self._process = self._process, None
        try:
            await super()._close(io)
        finally:
            if process is not None:
                process.close()

    async def _prepare(self, request: ModelRequest, io: IO) -> None:
        """Start the server if it is not running. Raises `BadRequestError` for tools that its template ignores."""
        process, has_tools = self._process, isinstance(request, ChatRequest) and bool(request.tools)
        if process is None or not process.alive or (has_tools and not self._supports_tools):
            # The start and a download block, so they run in a thread if there is an event loop.
            await io.call(partial(self._start_if_needed, has_tools=has_tools))

    def _start_if_needed(self, *, has_tools: bool) -> None:
        with self._lock:
            if self._process is None or not self._process.alive:
                process = LlamaProcess(self._settings(path=str(self._weights(load=True))))
                self._base_url = f"{process.url}/v1"
                self._address = Address.parse(self._base_url)
                self._sampling = replace(self._sampling, provider=provider_name(self._base_url))
                # Last, because other threads then send their requests.
                self._process = process
            if has_tools and not self._supports_tools:
                if not _template_supports_tools(self._process.url, self._endpoint().key):
                    raise BadRequestError(
                        f"the chat template of {self.name} does not support tools, so the model would see none; use "
                        "the structured agent, or give a chat template that supports tools"
                    )
                self._supports_tools = True

    def _weights(self, *, load: bool) -> Path:
        """Return the path of the file; to `load` it, weights are downloaded if necessary."""
        if self._path is not None:
            return check_gguf(self._path)
        path = weights_path(self.name)
        if self._download:
            return pull(self.name) if load else path
        if not path.is_file():
            raise WeightsError(
                f"the weights {self.name} are not at {path}, and download=False; fetch them with "
                f"graphexec.models.pull({self.name!r}), or pass the path of a GGUF file instead"
            )
        return path


def _template_supports_tools(url: str, key: Secret) -> bool:
    """Return whether the server's chat template writes tools into the prompt; `True` if the server cannot tell.

    In that case the call itself reports the problem.
    """
    import httpx

    body = write(CHAT_COMPLETIONS.encode(_PROBING, Sampling(""), stream=False))
    try:
        response = httpx.post(
            f"{url}/apply-template",
            content=body,
            headers=CHAT_COMPLETIONS.headers(key.get_secret_value()),
            timeout=_TEMPLATE_TIMEOUT,
            # Not through a proxy.
            trust_env=False,
        )
    except httpx.HTTPError:
        return True
    return _PROBE in response.text or not response.is_success
