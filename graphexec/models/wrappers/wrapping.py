"""Wrappers of models: a flow is a coroutine that handles one call; `priced` is the simplest of them.

A cache, a retry or a fallback is one flow for blocking and async calls, whole replies and streams.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, final

from graphexec._arguments import MODEL, Constraint, adapt, number, optional, validate
from graphexec.errors import ModelError
from graphexec.messages import (
    Model,
    ModelReply,
    ModelRequest,
    ReplyDelta,
    Usage,
    check_access,
    check_reply,
    request_parameters,
)
from graphexec.models.http.attempts import REAL_TIME, Clock
from graphexec.models.http.draft import Piece
from graphexec.runtime.emission import emit, stream_async, stream_sync
from graphexec.runtime.io import ASYNC, BLOCKING, IO, call_method, run_sync


@final
class ModelCall:
    """A call of a wrapped model, for its flow: the request, the remaining time, and functions that call and wait.

    `timeout` is in seconds, or `None`. After the first piece of a streamed reply, the call has `begun` and cannot be
    retried.
    """

    __slots__ = ("_check", "_clock", "_deadline", "_streamed", "begun", "io", "request", "timeout")

    def __init__(self, request: ModelRequest, timeout: float | None, clock: Clock, io: IO, *, streamed: bool) -> None:
        self.request = request
        self.timeout = timeout
        self.io = io
        self.begun = False
        self._clock = clock
        self._streamed = streamed
        self._deadline = math.inf if timeout is None else clock.monotonic() + timeout
        self._check = io.make_check()

    @property
    def seconds_left(self) -> float | None:
        """The remaining time in seconds, or `None` without a timeout."""
        return None if self.timeout is None else self._deadline - self._clock.monotonic()

    def allows(self, seconds: float) -> bool:
        """Return whether a model may be called again after that many seconds."""
        left = self.seconds_left
        return not self.begun and (left is None or seconds < left)

    async def ask(self, model: Model) -> ModelReply:
        """Return a model's reply to the request, within the remaining time. A streaming call emits the pieces.

        Raises `AbandonedError` if the caller has been cancelled, and `InvalidReplyError` for an invalid reply.
        """
        self._check()
        left, request = self.seconds_left, self.request
        # Any: models may lack one of the two methods or both, so they do not fit a protocol.
        stream: Any = getattr(model, "stream" if self.io.blocking else "astream", None) if self._streamed else None
        # Any: a user's model may return any value, which `check_reply` validates.
        reply: Any = None
        if stream is None:
            reply = await call_method(self.io, model, "complete", request, timeout=left)
        else:
            begin = partial(stream, request, timeout=left)
            pieces = self.io.iterate(begin, begin)
            async with aclosing(pieces):
                async for piece in pieces:
                    if isinstance(piece, ReplyDelta):
                        self.begun = True
                        await emit(piece)
                    else:
                        reply = piece
        return check_reply(reply, model_name(model))

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds."""
        await self._clock.wait(seconds, self.io)


CallFlow: TypeAlias = Callable[[ModelCall], Awaitable[ModelReply]]


@final
class WrappedModel:
    """A model whose calls are handled by a `flow`; `cached`, `retrying` and the others return one.

    It can stream; the whole reply of a model that cannot stream is its only piece. It does not close the inner models.
    `name` and `provider` are those of the first inner model, or empty if it has none. A call needs access to one of the
    models; with `check`, that function decides instead.
    """

    __slots__ = ("_check", "_clock", "_flow", "_kind", "_models", "instant")

    def __init__(
        self,
        kind: str,
        models: Sequence[Model],
        flow: CallFlow,
        *,
        instant: bool = False,
        clock: Clock = REAL_TIME,
        check: Callable[[], None] | None = None,
    ) -> None:
        validate(kind, *(("model", model, MODEL) for model in models))
        self._kind = kind
        self._models = tuple(models)
        self._flow = flow
        self._clock = clock
        self._check = check or partial(require_access, self._models)
        self.instant = instant and all(getattr(model, "instant", False) for model in models)

    @property
    def identity(self) -> str:
        """The identities of the inner models, or an empty string if one of them has none."""
        identities = [identity(model) for model in self._models]
        return " or ".join(identities) if all(identities) else ""

    @property
    def name(self) -> str:
        """The name of the first inner model, or an empty string if it has none."""
        return next((str(getattr(model, "name", "")) for model in self._models), "")

    @property
    def provider(self) -> str:
        """The name of the provider of the first inner model, or an empty string if it has none."""
        return next((str(getattr(model, "provider", "")) for model in self._models), "")

    @property
    def parameters(self) -> Mapping[str, Any] | None:
        """The parameters of the first inner model, or `None` if it has none."""
        return next((request_parameters(model) for model in self._models), None)

    def check_access(self) -> None:
        """Raise the error that a call would raise before it is sent, such as `MissingAPIKeyError`. Sends nothing."""
        self._check()

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole reply, within `timeout` seconds if given. Raises `ModelError`."""
        return run_sync(self._complete(request, timeout, BLOCKING))

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole reply, as `complete` does."""
        return await self._complete(request, timeout, ASYNC)

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Generator[Piece, None, None]:
        """Yield the reply piece by piece while it is received, and finally the whole reply. Raises `ModelError`."""
        return stream_sync(partial(self._stream, request, timeout, BLOCKING))

    def astream(self, request: ModelRequest, *, timeout: float | None = None) -> AsyncGenerator[Piece, None]:
        """Yield the reply piece by piece, as `stream` does."""
        return stream_async(partial(self._stream, request, timeout, ASYNC))

    def __repr__(self) -> str:
        return f"{self._kind}({', '.join(map(model_name, self._models))})"

    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply:
        return await self._flow(ModelCall(request, timeout, self._clock, io, streamed=False))

    async def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> None:
        await emit(await self._flow(ModelCall(request, timeout, self._clock, io, streamed=True)))


def identity(model: Model) -> str:
    """Return the string that identifies a model with its settings, or an empty string if it has none."""
    return str(getattr(model, "identity", ""))


def require_access(
    models: Sequence[Model], is_recoverable: Callable[[Exception], bool] = lambda error: isinstance(error, ModelError)
) -> None:
    """Raise the last error of the models if none can be called; one that is not recoverable at once."""
    for model, following in zip(models, (*models[1:], None), strict=True):
        try:
            check_access(model)
        except Exception as error:
            if following is None or not is_recoverable(error):
                raise
        else:
            return


def model_name(model: Model) -> str:
    """Return the name of a model for messages."""
    return type(model).__name__ if type(model).__repr__ is object.__repr__ else repr(model)


_MONEY = number("money per million tokens, 0 or more")


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens of prompts and of replies, in any currency; use it with `priced`.

    `cached` is the price of those tokens of prompts that the provider has stored (`Usage.cached_tokens`); the default
    is that of other tokens. Raises `InputError` for a price that is not a number, negative or not finite.
    """

    prompt: float
    completion: float
    cached: float | None = None

    def __post_init__(self) -> None:
        cached = ("cached", self.cached, optional(_MONEY, "the price of prompts"))
        validate("Price", ("prompt", self.prompt, _MONEY), ("completion", self.completion, _MONEY), cached)

    def of(self, usage: Usage) -> float:
        """Return the cost of these tokens; infinity if it is too large for a float."""
        # The provider may report more cached tokens than tokens of the prompt.
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        try:
            prompt = (usage.prompt_tokens - cached) * self.prompt
            stored = cached * (self.prompt if self.cached is None else self.cached)
            return (prompt + stored + usage.completion_tokens * self.completion) / 1_000_000
        except OverflowError:
            return math.inf


_PRICE = Constraint("Price(prompt, completion)", lambda value: isinstance(value, Price))


def priced(model: Model, price: Price) -> WrappedModel:
    """Make a model whose replies have a cost, calculated from their `usage` and the `price` of the model.

    Of several models with prices of their own, such as fallbacks, each is `priced` itself. The cost of a model that is
    not `priced` counts as zero, and a run with a `max_cost` rejects it. Raises `InputError` for an invalid price.
    """
    model = adapt(model, "model")
    validate("priced", ("model", model, MODEL), ("price", price, _PRICE))

    async def flow(call: ModelCall) -> ModelReply:
        reply = await call.ask(model)
        return check_reply(replace(reply, cost=price.of(reply.usage)), model_name(model))

    return WrappedModel("priced", [model], flow, instant=True)
