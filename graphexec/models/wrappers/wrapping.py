"""Models around other models: a flow, one coroutine, says what is done for a call.

So a cache, a retry or a fallback is written once, and serves blocking and async calls, whole replies and streams.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeAlias, final

from graphexec._arguments import MODEL, validate
from graphexec.errors import InputError, format_value
from graphexec.messages import Model, ModelReply, ModelRequest, ReplyDelta, check_reply
from graphexec.models.http.attempts import REAL_TIME, Clock
from graphexec.models.http.dialect import Piece
from graphexec.runtime.emission import emit, stream_async, stream_sync
from graphexec.runtime.io import ASYNC, BLOCKING, IO, run_sync


@final
class ModelCall:
    """A call of a wrapped model, as its flow sees it: the request, the time that is left, and how to wait.

    `timeout` is in seconds, or `None`. Once a piece of a reply was handed out the call has `begun`: an error is final.
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
        """The seconds left, or `None` for as many as it takes."""
        return None if self.timeout is None else self._deadline - self._clock.monotonic()

    def allows(self, seconds: float) -> bool:
        """Return whether a model may be asked again after that many seconds."""
        left = self.seconds_left
        return not self.begun and (left is None or seconds < left)

    async def ask(self, model: Model) -> ModelReply:
        """Return a model's reply to the request, within the time that is left. In a stream its pieces are handed out.

        Raises `AbandonedError` for a caller who does not wait any more, and `InvalidReplyError` for what is no reply.
        """
        self._check()
        left, request = self.seconds_left, self.request
        # Any: a protocol with it would refuse the models that cannot stream, or can in one of the two ways only.
        stream: Any = getattr(model, "stream" if self.io.blocking else "astream", None) if self._streamed else None
        # Any: a model of the user's own may know no better than to return something else.
        reply: Any = None
        if stream is None:
            reply = await self.io.either(
                lambda: model.complete(request, timeout=left), lambda: model.acomplete(request, timeout=left)
            )
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
        """Let that many seconds pass."""
        await self._clock.wait(seconds, self.io)


CallFlow: TypeAlias = Callable[[ModelCall], Awaitable[ModelReply]]


@final
class WrappedModel:
    """A model whose calls follow the `flow` that its maker wrote: `cached`, `retrying` and the like.

    It streams, too: the whole reply of a model that cannot is its only piece. Closing the models is up to their owner.
    """

    __slots__ = ("_clock", "_flow", "_kind", "_models", "instant")

    def __init__(
        self,
        kind: str,
        models: Sequence[Model],
        flow: CallFlow,
        *,
        instant: bool = False,
        clock: Clock = REAL_TIME,
    ) -> None:
        validate(kind, *(("model", model, MODEL) for model in models))
        self._kind = kind
        self._models = tuple(models)
        self._flow = flow
        self._clock = clock
        self.instant = instant and all(getattr(model, "instant", False) for model in models)

    @property
    def identity(self) -> str:
        """The identities of the models inside, or nothing where one of them has none."""
        identities = [identity(model) for model in self._models]
        return " or ".join(identities) if all(identities) else ""

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, within `timeout` seconds where there is one. Raises `ModelError`."""
        return run_sync(self._complete(request, timeout, BLOCKING))

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, as `complete` does."""
        return await self._complete(request, timeout, ASYNC)

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Generator[Piece, None, None]:
        """Give the answer piece by piece while it comes, and last the whole of it. Raises `ModelError`."""
        return stream_sync(partial(self._stream, request, timeout, BLOCKING))

    def astream(self, request: ModelRequest, *, timeout: float | None = None) -> AsyncGenerator[Piece, None]:
        """Give the answer piece by piece, as `stream` does."""
        return stream_async(partial(self._stream, request, timeout, ASYNC))

    def __repr__(self) -> str:
        return f"{self._kind}({', '.join(map(model_name, self._models))})"

    async def _complete(self, request: ModelRequest, timeout: float | None, io: IO) -> ModelReply:
        return await self._flow(ModelCall(request, timeout, self._clock, io, streamed=False))

    async def _stream(self, request: ModelRequest, timeout: float | None, io: IO) -> None:
        await emit(await self._flow(ModelCall(request, timeout, self._clock, io, streamed=True)))


def identity(model: Model) -> str:
    """Return what tells a model, with its settings, from others, or nothing where it does not say."""
    return str(getattr(model, "identity", ""))


def model_name(model: Model) -> str:
    """Return a model as people know it."""
    return type(model).__name__ if type(model).__repr__ is object.__repr__ else repr(model)


def recoverable_errors(kind: str, on: Sequence[type[Exception]]) -> tuple[type[Exception], ...]:
    """Return the classes of errors in `on`. Raises `InputError` for what is none."""
    # Users without a type checker pass a lone class, or asyncio.CancelledError.
    if not isinstance(on, Sequence) or isinstance(on, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{kind} has on={format_value(on)}; give a tuple of classes of exceptions")
    for error in on:
        if not isinstance(error, type) or not issubclass(error, Exception):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"{kind} has {error!r} in on; give classes of exceptions")
    return tuple(on)
