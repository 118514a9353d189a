"""Send one request and receive its response, whole or event by event.

This module does the I/O, with a blocking or an async client. The other modules of this package decide what to send,
what a response means, and which failures are retried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from graphexec.errors import BadRequestError, ModelConnectionError, ModelError
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, images_of
from graphexec.models.http.attempts import Attempts
from graphexec.models.http.connections import Connections, OpenClient
from graphexec.models.http.dialect import Dialect, Draft
from graphexec.models.http.json_bodies import JSON, write
from graphexec.models.http.refusals import Refusals
from graphexec.models.progress_reports import report_retry
from graphexec.runtime.io import IO, Items
from graphexec.runtime.progress import report
from graphexec.runtime.retry import retry


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A stream whose first piece has been received. Before that, nothing was passed on, so a retry was possible."""

    response: Any  # the client's own class of responses
    events: Items[Any]  # of httpx_sse.ServerSentEvent
    draft: Draft
    # `None` if the stream ended without any.
    deltas: tuple[ReplyDelta, ...] | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request with its connections. `attempts` converts failures to errors, and limits the number of attempts."""

    attempts: Attempts
    connections: Connections
    dialect: Dialect
    request: ModelRequest
    headers: dict[str, str]
    body: JSON
    # The parameters that the server has refused so far, in this call and others of the model.
    refusals: Refusals
    # Whether the request asks for a stream.
    streams: bool

    async def send(self) -> ModelReply:
        """Send the request, and return the reply. Raises `ModelError`."""
        reply = await self.open()
        assert isinstance(reply, ModelReply), "the request does not ask for a stream"
        return reply

    async def open(self) -> OpenStream | ModelReply:
        """Send the request, and wait for the first piece. A server that does not stream sends the whole reply."""
        check = self._io.make_check()

        async def once() -> OpenStream | ModelReply:
            # Repeats within one attempt: each refusal removes a parameter, and a call reconnects at most once.
            while True:
                self.refusals.apply(self.body)
                try:
                    return await self._open()
                except ModelConnectionError:
                    if not self.attempts.should_reconnect():
                        raise
                    lost = True
                except BadRequestError as error:
                    if not self._learn(error):
                        raise
                    lost = False
                check()
                if lost:
                    await self.attempts.sleep(0.0)

        attempts = self.attempts
        return await retry(
            once, attempts.policy, self._io, announce=report_retry, sleep=attempts.sleep, allows=attempts.allows
        )

    def _learn(self, error: BadRequestError) -> bool:
        """Return whether to repeat the attempt because the server refused optional parameters; report them."""
        found = self.attempts.report
        refused = [] if found is None else self.refusals.learn(self.body, error.status or 0, found)
        for news in refused:
            report(news)
        return bool(refused)

    async def next_deltas(self, opened: OpenStream) -> tuple[ReplyDelta, ...] | None:
        """Return the deltas of the next event, or `None` at the end of the stream."""
        try:
            with self.attempts.attempt():
                async with self._io.timeout(self.attempts.seconds_left):
                    event = await anext(opened.events, None)
        except ModelError:
            # The reply is complete, so a broken connection does not matter.
            if opened.draft.complete:
                return None
            raise
        return None if event is None else tuple(opened.draft.take(event.data))

    async def close(self, opened: OpenStream) -> None:
        """Release the connection; it can be reused if the stream was read to its end."""
        await self._close(opened.response, opened.events)

    @property
    def _io(self) -> IO:
        return self.attempts.io

    async def _open(self) -> OpenStream | ModelReply:
        used = await self._io.either(self.connections.blocking_client, self.connections.async_client)
        with self.attempts.attempt(reused=used.warm):
            async with self._io.timeout(self.attempts.seconds_left):
                response = await self._post(used)
                events: Items[Any] | None = None
                try:
                    if not (self.streams and _is_stream(response)):
                        body = await self._read(response)
                        await self._close(response)
                        return self._reply(response, body)
                    source = _source(response)
                    events = self._io.iterate(source.iter_sse, source.aiter_sse)
                    draft = self.dialect.make_draft(self.request, self.attempts.endpoint)
                    deltas = None
                    async for event in events:
                        self.attempts.check_time()
                        deltas = tuple(draft.take(event.data))
                        if deltas or draft.complete:
                            break
                except BaseException:
                    await self._close(response, events)
                    raise
            return OpenStream(response, events, draft, deltas)

    async def _post(self, used: OpenClient) -> Any:  # the client's own class of responses
        url = f"{self.attempts.endpoint.base_url}/{self.dialect.route(self.request)}"
        request = used.client.build_request(
            "POST", url, content=write(self.body), headers=self.headers, timeout=self.attempts.timeouts
        )
        send = partial(used.client.send, request, stream=True)
        response = await self._io.either(send, send)
        used.warm = True
        return response

    # Any: the class of the response is the client's own, here and below. The response of a user's client may have only
    # one of the two methods, so the lambdas delay the attribute access.
    async def _read(self, response: Any) -> bytes:
        return await self._io.either(lambda: self._read_in_time(response), lambda: response.aread())  # noqa: PLW0108

    def _read_in_time(self, response: Any) -> bytes:
        body = bytearray()
        for piece in response.iter_bytes():
            self.attempts.check_time()
            body += piece
        return bytes(body)

    async def _close(self, response: Any, events: Items[Any] | None = None) -> None:
        if events is not None:
            await events.aclose()
        await self._io.either(lambda: response.close(), lambda: response.aclose())  # noqa: PLW0108

    def _reply(self, response: Any, body: bytes) -> ModelReply:
        if not response.is_success:
            images = next(images_of(self.request), None) is not None
            raise self.attempts.response_error(response.status_code, response.headers, body, images=images)
        return self.dialect.decode(body, self.request, self.attempts.endpoint)


def _is_stream(response: Any) -> bool:
    kind: str = response.headers.get("content-type", "")
    return response.is_success and kind.partition(";")[0].strip().lower() == "text/event-stream"


# Any: an httpx_sse.EventSource. Its annotation requires a response of httpx, but one of httpx2 works, too.
def _source(response: Any) -> Any:
    from httpx_sse import EventSource

    return EventSource(response)
