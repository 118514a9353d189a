"""A model around other models, whose flow says what is to be done and yields it: asking, sleeping, waiting.

So a cache, a retry or a fallback is written once, and serves blocking and async calls, whole replies and streams. The
flow of a call goes on where what it yielded was answered; the two loops that carry this out differ by their `await`s.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from graphexec.awaiting import from_thread
from graphexec.errors import BadReply, InputError
from graphexec.given import MODEL, check, told
from graphexec.messages import Model, ModelReply, ModelRequest, ReplyDelta
from graphexec.models.attempts import REAL_TIME, Clock
from graphexec.waiting import still_waited_for

# What a stream gives: pieces, and last the whole.
Piece: TypeAlias = ReplyDelta | ModelReply


@final
class Deadline:
    """When a call is to be over: `timeout` seconds, or `None`, after it was made."""

    __slots__ = ("_at", "_clock", "timeout")

    def __init__(self, timeout: float | None, clock: Clock) -> None:
        self.timeout = timeout
        self._clock = clock
        self._at = math.inf if timeout is None else clock.monotonic() + timeout

    @property
    def left(self) -> float | None:
        """The seconds left, or `None` for as many as it takes."""
        return None if self.timeout is None else self._at - self._clock.monotonic()

    def allows(self, seconds: float) -> bool:
        """Whether something is left after that many seconds."""
        left = self.left
        return left is None or seconds < left


@final
@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a model for the reply to the call's request, within `timeout` seconds. Answered with the whole reply."""

    model: Model
    timeout: float | None


@final
@dataclass(frozen=True, slots=True)
class Sleep:
    """Let that many seconds pass."""

    seconds: float


@final
@dataclass(frozen=True, slots=True)
class Await:
    """Wait until `turn` is done. Raises `TimeoutError` after `timeout` seconds."""

    turn: Future[None]
    timeout: float | None


@final
@dataclass(frozen=True, slots=True)
class Do:
    """Call a function, which may block unless it is `instant`. Answered with what it returns."""

    call: Callable[[], Any]  # whatever it returns
    instant: bool = False


Step: TypeAlias = Ask | Sleep | Await | Do
# What a step is answered with depends on the step.
Flow: TypeAlias = Generator[Step, Any, ModelReply]


@final
class WrappedModel:
    """A model whose calls follow the `flow` that its maker wrote: `cached`, `retrying` and the like.

    It streams, too: where the model inside cannot, the whole reply is its only piece. Once a piece was handed out an
    error is final, since nobody can take the piece back: the flow does not see it. `identity` tells the model from
    others, with its settings, as far as the models inside do. Closing those is up to whoever made them.
    """

    __slots__ = ("_clock", "_flow", "_kind", "_models", "instant")

    def __init__(
        self,
        kind: str,
        models: Sequence[Model],
        flow: Callable[[ModelRequest, Deadline], Flow],
        *,
        instant: bool = False,
        clock: Clock = REAL_TIME,
    ) -> None:
        check(kind, *(("model", model, MODEL) for model in models))
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
        (reply,) = self._run(request, timeout, streamed=False)
        assert isinstance(reply, ModelReply), "a stream of one piece is the whole"
        return reply

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the whole answer, as `complete` does."""
        (reply,) = [piece async for piece in self._arun(request, timeout, streamed=False)]
        assert isinstance(reply, ModelReply), "a stream of one piece is the whole"
        return reply

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Generator[Piece, None, None]:
        """Give the answer piece by piece while it comes, and last the whole of it. Raises `ModelError`."""
        return self._run(request, timeout, streamed=True)

    def astream(self, request: ModelRequest, *, timeout: float | None = None) -> AsyncGenerator[Piece, None]:
        """Give the answer piece by piece, as `stream` does."""
        return self._arun(request, timeout, streamed=True)

    def __repr__(self) -> str:
        return f"{self._kind}({', '.join(map(shown, self._models))})"

    def _run(self, request: ModelRequest, timeout: float | None, *, streamed: bool) -> Generator[Piece, None, None]:
        begun = False
        with closing(self._flow(request, Deadline(timeout, self._clock))) as flow:
            step = _sent(flow, None)
            while not isinstance(step, ModelReply):
                answer: Any = None
                try:
                    # A thread that was abandoned meanwhile asks no more, and waits for nothing.
                    still_waited_for()
                    match step:
                        case Ask(model):
                            with closing(_pieces(step, request, streamed=streamed)) as pieces:
                                for piece in pieces:
                                    if isinstance(piece, ReplyDelta):
                                        begun = True
                                        yield piece
                                    else:
                                        answer = piece
                            answer = _whole(model, answer)
                        case Sleep(seconds):
                            self._clock.sleep(seconds)
                        case Await(turn, seconds):
                            turn.result(seconds)
                        case Do(call):
                            answer = call()
                # Which errors it can mend is the flow's affair; the others come back out of it.
                except Exception as error:
                    if begun:
                        raise
                    step = _thrown(flow, error)
                else:
                    step = _sent(flow, answer)
            yield step

    async def _arun(
        self, request: ModelRequest, timeout: float | None, *, streamed: bool
    ) -> AsyncGenerator[Piece, None]:
        begun = False
        with closing(self._flow(request, Deadline(timeout, self._clock))) as flow:
            step = _sent(flow, None)
            while not isinstance(step, ModelReply):
                answer: Any = None
                try:
                    match step:
                        case Ask(model):
                            async with aclosing(_apieces(step, request, streamed=streamed)) as pieces:
                                async for piece in pieces:
                                    if isinstance(piece, ReplyDelta):
                                        begun = True
                                        yield piece
                                    else:
                                        answer = piece
                            answer = _whole(model, answer)
                        case Sleep(seconds):
                            await self._clock.asleep(seconds)
                        case Await(turn, seconds):
                            await asyncio.wait_for(asyncio.wrap_future(turn), seconds)
                        case Do(call, instant):
                            answer = call() if instant else await from_thread(call)
                except Exception as error:
                    if begun:
                        raise
                    step = _thrown(flow, error)
                else:
                    step = _sent(flow, answer)
            yield step


def identity(model: Model) -> str:
    """Return what tells a model, with its settings, from others, or nothing where it does not say."""
    return str(getattr(model, "identity", ""))


def shown(model: Model) -> str:
    """Return a model as people know it."""
    return type(model).__name__ if type(model).__repr__ is object.__repr__ else repr(model)


def errors_to_mend(kind: str, on: Sequence[type[Exception]]) -> tuple[type[Exception], ...]:
    """Return the classes of errors in `on`. Raises `InputError` for what is none."""
    # Users without a type checker pass a lone class, or asyncio.CancelledError.
    if not isinstance(on, Sequence) or isinstance(on, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{kind} has on={told(on)}; give a tuple of classes of exceptions")
    for error in on:
        if not isinstance(error, type) or not issubclass(error, Exception):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"{kind} has {error!r} in on; give classes of exceptions")
    return tuple(on)


def _pieces(ask: Ask, request: ModelRequest, *, streamed: bool) -> Generator[Piece, None, None]:
    stream = getattr(ask.model, "stream", None) if streamed else None
    if stream is None:
        yield ask.model.complete(request, timeout=ask.timeout)
    else:
        yield from stream(request, timeout=ask.timeout)


async def _apieces(ask: Ask, request: ModelRequest, *, streamed: bool) -> AsyncGenerator[Piece, None]:
    stream = getattr(ask.model, "astream", None) if streamed else None
    if stream is None:
        yield await ask.model.acomplete(request, timeout=ask.timeout)
    else:
        async with aclosing(stream(request, timeout=ask.timeout)) as pieces:
            async for piece in pieces:
                yield piece


def _whole(model: Model, reply: object) -> ModelReply:
    # A model of the user's own may know no better.
    if not isinstance(reply, ModelReply):
        raise BadReply(f"the model {shown(model)} returned {reply!r}; return a ModelReply, and last of a stream")
    return reply


def _sent(flow: Flow, answer: object) -> Step | ModelReply:
    try:
        return flow.send(answer)
    except StopIteration as end:
        return _returned(end)


def _thrown(flow: Flow, error: Exception) -> Step | ModelReply:
    try:
        return flow.throw(error)
    except StopIteration as end:
        return _returned(end)


def _returned(end: StopIteration) -> ModelReply:
    reply = end.value
    assert isinstance(reply, ModelReply), "a flow returns the reply"
    return reply
