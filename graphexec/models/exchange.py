"""One request on its way: sent, and its answer received, whole or event by event.

What to send, what came back, what went wrong and whether to try again is decided in the modules beside this one. Here
it is sent: blocking and async are the same few lines with and without `await`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from graphexec.errors import ModelError
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta
from graphexec.models.attempts import Attempts
from graphexec.models.connections import Connections, Used
from graphexec.models.dialect import Dialect, Folding


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream whose first piece has come. Until then nothing was handed out, so it could be tried anew."""

    response: Any  # the client's own class of responses
    events: Any  # an iterator of httpx_sse.ServerSentEvent, blocking or async
    fold: Folding
    # `None` where the stream ended before it had any.
    deltas: tuple[ReplyDelta, ...] | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and whoever carries it. Each method is one attempt, and raises what `attempts` makes of a failure."""

    attempts: Attempts
    connections: Connections
    dialect: Dialect
    asked: ModelRequest
    headers: dict[str, str]
    body: bytes

    def send(self) -> ModelReply:
        """Send the request, and return the reply. Raises `ModelError`."""
        used = self.connections.blocking()
        with self.attempts.attempt(reused=used.warm):
            response = used.client.send(self._request(used), stream=True)
            used.warm = True
            try:
                body = self._read(response)
            finally:
                response.close()
            return self._reply(response, body)

    async def asend(self) -> ModelReply:
        """Send the request, and return the reply, as `send` does."""
        used = await self.connections.of_this_loop()
        with self.attempts.attempt(reused=used.warm):
            async with asyncio.timeout(self.attempts.left):
                response = await used.client.send(self._request(used), stream=True)
                used.warm = True
                try:
                    body: bytes = await response.aread()
                finally:
                    await response.aclose()
            return self._reply(response, body)

    def open(self) -> Opened | ModelReply:
        """Send the request, and wait for the first piece. A server that does not stream gives the whole reply."""
        used = self.connections.blocking()
        with self.attempts.attempt(reused=used.warm):
            response = used.client.send(self._request(used), stream=True)
            used.warm = True
            try:
                if not _is_stream(response):
                    body = self._read(response)
                    response.close()
                    return self._reply(response, body)
                events = _events(response).iter_sse()
                fold = self.dialect.fold(self.asked, self.attempts.endpoint)
                deltas = None
                for event in events:
                    self.attempts.check_time()
                    deltas = tuple(fold.take(event.data))
                    if deltas or fold.complete:
                        break
            except BaseException:
                response.close()
                raise
            return Opened(response, events, fold, deltas)

    async def aopen(self) -> Opened | ModelReply:
        """Send the request, and wait for the first piece, as `open` does."""
        used = await self.connections.of_this_loop()
        with self.attempts.attempt(reused=used.warm):
            async with asyncio.timeout(self.attempts.left):
                response = await used.client.send(self._request(used), stream=True)
                used.warm = True
                events: Any = None
                try:
                    if not _is_stream(response):
                        body: bytes = await response.aread()
                        await response.aclose()
                        return self._reply(response, body)
                    events = _events(response).aiter_sse()
                    fold = self.dialect.fold(self.asked, self.attempts.endpoint)
                    deltas = None
                    async for event in events:
                        deltas = tuple(fold.take(event.data))
                        if deltas or fold.complete:
                            break
                except BaseException:
                    if events is not None:
                        await events.aclose()
                    await response.aclose()
                    raise
            return Opened(response, events, fold, deltas)

    def following(self, opened: Opened) -> tuple[ReplyDelta, ...] | None:
        """Return what the next event adds, or `None` at the end."""
        try:
            with self.attempts.attempt():
                event = next(opened.events, None)
        except ModelError:
            # Once the reply is whole, a connection that breaks loses nothing.
            if opened.fold.complete:
                return None
            raise
        return None if event is None else tuple(opened.fold.take(event.data))

    async def afollowing(self, opened: Opened) -> tuple[ReplyDelta, ...] | None:
        """Return what the next event adds, as `following` does."""
        try:
            with self.attempts.attempt():
                async with asyncio.timeout(self.attempts.left):
                    event = await anext(opened.events, None)
        except ModelError:
            if opened.fold.complete:
                return None
            raise
        return None if event is None else tuple(opened.fold.take(event.data))

    def _request(self, used: Used) -> Any:  # the client's own class of requests
        url = f"{self.attempts.endpoint.base_url}/{self.dialect.route(self.asked)}"
        return used.client.build_request(
            "POST", url, content=self.body, headers=self.headers, timeout=self.attempts.timeouts
        )

    # Any: the response is of the client's own class.
    def _reply(self, response: Any, body: bytes) -> ModelReply:
        if not response.is_success:
            raise self.attempts.refuse(response.status_code, response.headers, body)
        return self.dialect.decode(body, self.asked, self.attempts.endpoint)

    # Any: the response is of the client's own class.
    def _read(self, response: Any) -> bytes:
        body = bytearray()
        for piece in response.iter_bytes():
            self.attempts.check_time()
            body += piece
        return bytes(body)


# Any: the response is of the client's own class.
def _is_stream(response: Any) -> bool:
    kind: str = response.headers.get("content-type", "")
    return response.is_success and kind.partition(";")[0].strip().lower() == "text/event-stream"


# Any: an httpx_sse.EventSource. Its annotation asks for httpx's own response; one of httpx2 does as well.
def _events(response: Any) -> Any:
    from httpx_sse import EventSource

    return EventSource(response)
