"""The four modes of calling a wrapped model, a recorder of its reports, and a model that streams."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from graphexec import errors, models
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, Usage
from graphexec.models.http.remote import RemoteModel
from tests.models.actors import HELLO, FakeTime, aread_stream, read_stream
from tests.parameters import cases
from tests.runtime.actors import listening

Ask: TypeAlias = Callable[..., ModelReply]
Called: TypeAlias = models.WrappedModel | RemoteModel


def call_blocking(model: Called, request: ModelRequest = HELLO, *, timeout: float | None = None) -> ModelReply:
    return model.complete(request, timeout=timeout)


def call_async(model: Called, request: ModelRequest = HELLO, *, timeout: float | None = None) -> ModelReply:
    return asyncio.run(model.acomplete(request, timeout=timeout))


def stream_blocking(model: Called, request: ModelRequest = HELLO, *, timeout: float | None = None) -> ModelReply:
    return read_stream(model.stream(request, timeout=timeout))


def stream_async(model: Called, request: ModelRequest = HELLO, *, timeout: float | None = None) -> ModelReply:
    return asyncio.run(aread_stream(model, request, timeout=timeout))


MODES: tuple[Ask, ...] = (call_blocking, call_async, stream_blocking, stream_async)


def check_reply_or_error(call: Callable[[], object]) -> None:
    """Assert that a call returns, or raises a readable model error. Any other exception fails the test."""
    message = ""
    try:
        call()
    except errors.ModelError as error:
        message = str(error)
    assert message.isprintable()
    assert len(message) < 1000


# The modes of calling a model, as cases of a test.
all_modes = cases("ask", *MODES)
both_calls = cases("ask", *MODES[:2])
both_streams = cases("ask", *MODES[2:])


@contextmanager
def record_reports() -> Generator[list[object], None, None]:
    """Collect the reports inside the block."""
    reports: list[object] = []
    with listening(reports.append):
        yield reports


@dataclass
class Typewriter:
    """A model that streams its scripts character by character; an exception after a text breaks the stream there.

    Each call takes `takes` seconds. `timeouts` are the timeouts that it received, `handed_out` the characters.
    """

    scripts: list[str | Exception | tuple[str, Exception]]
    time: FakeTime = field(default_factory=FakeTime)
    takes: float = 0.0
    identity: str = "typewriter"
    model: str = "tw-1"
    timeouts: list[float | None] = field(default_factory=list[float | None])
    handed_out: str = ""
    closed: int = 0

    def __repr__(self) -> str:
        return f"<{self.identity}>"

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        del request
        text, error = self._next(timeout)
        if error is not None:
            raise error
        return self._reply(text)

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        return self.complete(request, timeout=timeout)

    def stream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> Generator[ReplyDelta | ModelReply, None, None]:
        del request
        text, error = self._next(timeout)
        try:
            for letter in text:
                self.handed_out += letter
                yield ReplyDelta(letter)
            if error is not None:
                raise error
            yield self._reply(text)
        finally:
            self.closed += 1

    async def astream(
        self, request: ModelRequest, *, timeout: float | None = None
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        pieces = self.stream(request, timeout=timeout)
        try:
            for piece in pieces:
                yield piece
        finally:
            pieces.close()

    def _next(self, timeout: float | None) -> tuple[str, Exception | None]:
        self.timeouts.append(timeout)
        self.time.now += self.takes
        script = self.scripts.pop(0)
        match script:
            case str():
                return script, None
            case Exception():
                return "", script
            case (text, error):
                return text, error

    def _reply(self, text: str) -> ModelReply:
        return ModelReply(text, usage=Usage(10, len(text)), model=self.model)
