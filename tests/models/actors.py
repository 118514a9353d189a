"""Fakes of servers and of time for the tests of the models."""

import json
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

import httpx

from graphexec.messages import ChatRequest, ModelReply, ModelRequest, ReplyDelta, UserMessage
from graphexec.models import Clock, OpenAICompatible, WrappedModel
from graphexec.models.http.dialect import Dialect, Sampling
from graphexec.models.http.json_bodies import write
from graphexec.models.http.remote import RemoteModel

HELLO = ChatRequest([UserMessage("hello")])


# Any: JSON, and the settings of a model.
def encode(dialect: Dialect, request: ModelRequest, *, stream: bool = False, model: str = "tiny", **rest: Any) -> Any:
    """Return the body of a request."""
    return json.loads(write(dialect.encode(request, Sampling(model, **rest), stream=stream)))


class FakeTime:
    """A clock that advances only by sleeping. `slept` are the durations."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []
        self.clock = Clock(monotonic=lambda: self.now, wall=lambda: self.now, sleep=self.sleep, asleep=self.asleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


Answer = Callable[[httpx.Request], httpx.Response]


class Script:
    """An httpx transport that returns the next response, or raises the next exception, for each request."""

    def __init__(self, *answers: httpx.Response | BaseException | Answer) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = list(answers)
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        if not isinstance(answer, httpx.Response):
            answer = answer(request)
        # An unread copy: a client binds the stream of what it receives to itself, and tests share responses.
        return httpx.Response(answer.status_code, headers=answer.headers, stream=answer.stream)


def scripted_server(
    *answers: httpx.Response | BaseException | Answer, time: FakeTime | None = None
) -> OpenAICompatible:
    """Make a model whose server returns these responses, one for each request, blocking or async."""
    clients = clients_of(Script(*answers).transport)
    return OpenAICompatible("tiny", base_url="http://127.0.0.1:1/v1", clock=(time or FakeTime()).clock, **clients)


def clients_of(transport: httpx.MockTransport) -> dict[str, Any]:
    """Return the options of a model that make it use a transport."""
    return {"client": httpx.Client(transport=transport), "async_client": httpx.AsyncClient(transport=transport)}


class Content(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The content of a response, in pieces; behind them the `error` is raised, if there is one."""

    def __init__(self, pieces: Iterable[bytes], error: Exception | None = None) -> None:
        self._pieces = pieces
        self._error = error

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def sse(*pieces: bytes, error: Exception | None = None) -> httpx.Response:
    """Return a streamed response, which breaks with the error behind its pieces."""
    headers = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=headers, stream=Content(pieces, error))


def split_events(body: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in body.split(b"\n\n")[:-1]]


def read_stream(pieces: Iterator[ReplyDelta | ModelReply]) -> ModelReply:
    """Return the reply at the end of a stream, which must be the last piece and the only reply."""
    *deltas, last = pieces
    assert all(isinstance(delta, ReplyDelta) for delta in deltas)
    assert isinstance(last, ModelReply)
    return last


async def aread_stream(
    model: RemoteModel | WrappedModel, request: ModelRequest = HELLO, *, timeout: float | None = None
) -> ModelReply:
    return read_stream(iter([piece async for piece in model.astream(request, timeout=timeout)]))


# A server's action on a connection after reading a request; returns whether to continue reading.
Act = Callable[[socket.socket], bool]


def send(*pieces: bytes, every: float = 0.0) -> Act:
    """Send these bytes, a piece `every` so many seconds, and wait for the next request."""

    def act(connection: socket.socket) -> bool:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(every)
        return True

    return act


def send_and_drop(*pieces: bytes) -> Act:
    """Send these bytes, if any, and close the connection."""

    def act(connection: socket.socket) -> bool:
        send(*pieces)(connection)
        return False

    return act


class LoopbackServer:
    """An HTTP server on a local socket, which performs the next act for each request.

    `connections` is the number of opened connections, `bodies` those of the requests; `asked` is set by a request,
    `gone` when a client closes its connection.
    """

    def __init__(self, *acts: Act) -> None:
        self.connections = 0
        self.bodies: list[bytes] = []
        self.asked = threading.Event()
        self.gone = threading.Event()
        self._acts = deque(acts)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def add_acts(self, *acts: Act) -> None:
        """Add acts; `stall` is a method of this class."""
        self._acts.extend(acts)

    def stall(self, *pieces: bytes) -> Act:
        """Send these bytes, if any, and then nothing until the client closes the connection."""

        def act(connection: socket.socket) -> bool:
            send(*pieces)(connection)
            connection.settimeout(10)
            with suppress(OSError):
                if connection.recv(1) == b"":
                    self.gone.set()
            return False

        return act

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # Wakes the accepting thread, which `close` does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(15)
        if kind is None:
            assert not any(thread.is_alive() for thread in self._threads), "a thread goes on without its client"

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._start(partial(self._serve, connection))

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(10)
            while request := self._read_request(connection):
                body = request.partition(b"\r\n\r\n")[2]
                self.bodies.append(body)
                self.asked.set()
                if not self.answer(connection, body):
                    return

    def answer(self, connection: socket.socket, body: bytes) -> bool:
        """Perform the next act."""
        return self._acts.popleft()(connection)

    def _read_request(self, connection: socket.socket) -> bytes:
        """Return a whole request, or nothing if the client has gone before its end."""
        request = b""
        length: int | None = None
        while length is None or len(request) < length:
            piece = connection.recv(65536)
            if not piece:
                self.gone.set()
                return b""
            request += piece
            if length is None and b"\r\n\r\n" in request:
                head, end, _ = request.partition(b"\r\n\r\n")
                lines = (line.lower() for line in head.split(b"\r\n"))
                bodies = (int(line[15:]) for line in lines if line.startswith(b"content-length:"))
                # A request to a proxy for a tunnel has no body.
                length = len(head) + len(end) + next(bodies, 0)
        return request


@contextmanager
def serve(*acts: Act, **options: Any) -> Generator[tuple[LoopbackServer, OpenAICompatible], None, None]:
    """Run a server that performs these acts, and make a model that calls it."""
    with LoopbackServer(*acts) as server, OpenAICompatible("tiny", base_url=server.url, **options) as model:
        yield server, model


def response(body: bytes, *, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """Return the bytes of a response that keeps its connection open."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def chunks(*pieces: bytes, end: bool = True) -> bytes:
    """Return the bytes of a streamed response."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + (b"0\r\n\r\n" if end else b"")
