"""The timeout bounds a whole call, whatever the server sends, or does not send."""

import socket
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpcore
import httpx
import pytest

from graphexec.errors import ModelConnectionError, ModelError, ModelTimeoutError
from graphexec.messages import ChatRequest, ReplyDelta, UserMessage
from graphexec.models import OpenAICompatible
from graphexec.models.http import exchange
from graphexec.models.http.attempts import bound_waits
from graphexec.models.http.network import DeadlineBackend
from tests.models import actors
from tests.models.call_modes import MODES, Ask, call_blocking, stream_blocking
from tests.models.hostile import EVENTS_TYPE, PROTOCOLS, Protocol
from tests.models.recorded import CHAT_REPLY, STREAM
from tests.parameters import cases, mark_except
from tests.stopwatch import Stopwatch

EVENTS = actors.split_events(STREAM)
# The number of events up to the finish reason.
FINISHED = 4


def trickle(begin: bytes, piece: bytes) -> actors.Act:
    """Send a beginning, and then the same piece every 50 ms until the client closes the connection."""
    return actors.send(begin, *[piece] * 10_000, every=0.05)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n"
STREAM_HEAD = HEAD % EVENTS_TYPE.encode()
SLOW: dict[str, actors.Act] = {
    "status line": trickle(b"HTTP/1.1 200 O", b"K"),
    "headers": trickle(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
    "informational responses": trickle(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "body": trickle(HEAD % b"application/json", b" "),
    "error": trickle(b"HTTP/1.1 500 Oops\r\n\r\n", b" "),
    "comments": trickle(STREAM_HEAD, b": hello\n\n"),
    "line": trickle(STREAM_HEAD, b"d"),
    "events": trickle(STREAM_HEAD, b"data: {}\n\n"),
    "text": trickle(STREAM_HEAD, b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'),
}


@contextmanager
def slow_servers() -> Generator[dict[str, str]]:
    """Yield the addresses of servers that are slow in each way, one that is silent, and one that speaks no TLS."""
    with ExitStack() as stack:
        urls: dict[str, str] = {}
        for name, act in SLOW.items():
            urls[name] = stack.enter_context(actors.LoopbackServer(*[act] * 6)).url
        silent = stack.enter_context(actors.LoopbackServer())
        silent.add_acts(*[silent.stall()] * 6)
        urls["silent"] = silent.url
        # It waits for the end of a request, and so for ever.
        urls["handshake"] = stack.enter_context(actors.LoopbackServer()).url.replace("http:", "https:")
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1))
        full.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        urls["upload"] = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        yield urls


# More than the buffers of a connection hold.
LONG = ChatRequest([UserMessage("x" * 8_000_000)])


def check_late(call: Callable[[], object], limit: float) -> None:
    with Stopwatch() as watch, pytest.raises(ModelTimeoutError, match=r"did not .* within"):
        call()
    assert watch.elapsed < watch.extend(limit)


def call_all(urls: dict[str, str], protocol: Protocol, seconds: float, limit: float) -> None:
    """Call each server at the same time, in each mode."""

    def call(name: str) -> None:
        with protocol.model(urls[name], timeout=seconds) as model:
            for ask in MODES:
                check_late(partial(ask, model, LONG if name == "upload" else actors.HELLO), limit)

    with ThreadPoolExecutor(len(urls)) as pool:
        list(pool.map(call, urls))


# Each of these servers could make a call last for as long as it liked.
@pytest.mark.medium
def test_calls_to_slow_servers_end_in_time() -> None:
    with slow_servers() as urls:
        call_all(urls, PROTOCOLS[0], 0.5, 10)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", mark_except(PROTOCOLS, PROTOCOLS[0], mark=pytest.mark.full))
def test_calls_to_slow_servers_end_within_a_second_of_the_timeout(protocol: Protocol) -> None:
    with slow_servers() as urls:
        for name, url in urls.items():
            call_all({name: url}, protocol, 1.0, 2.0)


def stall() -> Iterator[bytes]:
    yield b"{"
    raise httpx.ReadTimeout("late")


@cases(
    ("answer", "phase"),
    *((kind("late"), "answer") for kind in (httpx.ConnectTimeout, httpx.WriteTimeout, httpx.PoolTimeout)),
    *((late, "answer") for late in (httpx.ReadTimeout("late"), TimeoutError())),
    (httpx.Response(200, content=stall()), "finish its reply"),
)
def test_error_says_what_the_server_did_not_do(answer: Exception | httpx.Response, phase: str) -> None:
    with pytest.raises(ModelTimeoutError, match=f"did not {phase} within 8 s; allow a longer timeout"):
        actors.scripted_server(answer).complete(actors.HELLO, timeout=8)


def test_timeout_bounds_all_attempts() -> None:
    # A server that does not accept within ten seconds is not there, however long its replies may take.
    with pytest.raises(ModelConnectionError, match="is the server running"):
        actors.scripted_server(*[httpx.ConnectTimeout("late")] * 3).complete(actors.HELLO, timeout=60)
    time = actors.FakeTime()
    busy = actors.send(b"HTTP/1.1 503 Busy\r\nRetry-After: 8\r\nContent-Length: 0\r\n\r\n")
    served = actors.serve(busy, busy, timeout=10, max_retries=5, clock=time.clock)
    with served as (_, model), pytest.raises(ModelError, match="503"):
        call_blocking(model)
    assert time.slept == [8.0]


def test_time_of_the_consumer_does_not_count() -> None:
    time = actors.FakeTime()
    with actors.serve(actors.send(actors.chunks(*EVENTS)), timeout=5, clock=time.clock) as (_, model):
        pieces = model.stream(actors.HELLO)
        assert next(pieces) == ReplyDelta("Café")
        time.now += 60
        assert actors.read_stream(pieces).content == "Café costs €4."


@pytest.mark.medium
@cases("ask", *MODES)
@cases("name", "LINGER", "TRAILING")
def test_silence_behind_the_answer_ends_its_stream(name: str, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that keeps the connection open is awaited for a second, or for the usage a little longer."""
    assert (exchange.LINGER, exchange.TRAILING) == (1, 5)
    monkeypatch.setattr(exchange, name, 0.3)
    # To its end, or only to the finish reason.
    events = EVENTS if name == "LINGER" else [*EVENTS[:FINISHED], b": hello\n\n"]
    with actors.serve(timeout=60) as (server, model), Stopwatch() as watch:
        server.add_acts(server.stall(actors.chunks(*events, end=False)))
        reply = ask(model)
        assert (reply.content, reply.finish_reason) == ("Café costs €4.", "stop")
        assert server.gone.wait(10)
    assert watch.elapsed < watch.extend(10)


def test_events_behind_the_finish_reason_are_awaited() -> None:
    """Each one anew: another choice, or the usage, may come late, and nothing of it is lost."""
    time = actors.FakeTime()

    def pieces() -> Iterator[bytes]:
        yield from EVENTS[:FINISHED]
        for event in (b'data: {"choices": []}\n\n', *EVENTS[FINISHED:]):
            time.now += 4
            yield event

    headers = {"content-type": EVENTS_TYPE}
    model = actors.scripted_server(lambda _: httpx.Response(200, headers=headers, content=pieces()), time=time)
    assert stream_blocking(model).usage == CHAT_REPLY.usage


def test_search_for_an_address_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = threading.Event()

    def search(*_: object, **__: object) -> list[object]:
        found.wait(30)
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", search)
    with OpenAICompatible("tiny", base_url="http://slow.example/v1", api_key="", timeout=0.3) as model:
        try:
            check_late(lambda: model.complete(actors.HELLO), 10)
        finally:
            found.set()


def test_addresses_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [(0, 0, 0, "", (f"10.0.0.{last}", 80)) for last in (1, 2, 2)]
    resolve: Callable[..., Any] = lambda *_, **__: addresses  # noqa: E731
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    tried: list[tuple[str, float]] = []

    def connect(host: str, port: int, timeout: float, *_: Any, **__: Any) -> None:
        tried.append((host, timeout))
        raise httpcore.ConnectTimeout("nobody is there")

    network: Any = SimpleNamespace(connect_tcp=connect)
    with pytest.raises(httpcore.ConnectTimeout), bound_waits(lambda: 8):
        DeadlineBackend(network).connect_tcp("example", 80, timeout=600)
    assert [address for address, _ in tried] == ["10.0.0.1", "10.0.0.2"]
    assert [seconds for _, seconds in tried] == pytest.approx([4, 8], abs=1)
