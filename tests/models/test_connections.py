"""Connections on real sockets: reuse, failures and closing."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from typing import Any

import httpx
import httpx2
import pytest

from graphexec.errors import InvalidReplyError, ModelConnectionError, ModelTimeoutError, RateLimitError, ServerError
from graphexec.messages import ModelReply, ReplyDelta
from graphexec.models import OpenAICompatible
from graphexec.models.http.connections import Connections
from graphexec.runtime.calls import ForkSafeLock
from tests.models import actors
from tests.models.recorded import CHAT, CHAT_REPLY, STREAM
from tests.parameters import cases

EVENTS = tuple(event + b"\n\n" for event in STREAM.split(b"\n\n")[:-1])
GOOD = actors.send(actors.response(CHAT))
# The beginning of a streamed reply.
BEGINNING = actors.chunks(*EVENTS[:2], end=False)
STREAMED = actors.send(actors.chunks(*EVENTS))


def ask(model: OpenAICompatible) -> ModelReply:
    return model.complete(actors.HELLO)


def ask_async(model: OpenAICompatible) -> ModelReply:
    return asyncio.run(model.acomplete(actors.HELLO))


def test_one_connection_serves_many_calls_and_streams() -> None:
    with (
        actors.LoopbackServer(GOOD, STREAMED, GOOD, STREAMED) as server,
        OpenAICompatible("tiny", base_url=server.url) as model,
    ):
        assert model.complete(actors.HELLO) == CHAT_REPLY
        assert actors.read_stream(model.stream(actors.HELLO)) == CHAT_REPLY
        assert model.complete(actors.HELLO) == CHAT_REPLY
        assert actors.read_stream(model.stream(actors.HELLO)) == CHAT_REPLY
        assert server.connections == 1


def test_async_calls_share_one_connection() -> None:
    async def talk(model: OpenAICompatible) -> None:
        assert await model.acomplete(actors.HELLO) == CHAT_REPLY
        assert await actors.aread_stream(model) == CHAT_REPLY
        assert await model.acomplete(actors.HELLO) == CHAT_REPLY

    with actors.LoopbackServer(GOOD, STREAMED, GOOD) as server:
        asyncio.run(talk(OpenAICompatible("tiny", base_url=server.url)))
        assert server.connections == 1


def test_each_event_loop_closes_its_own_connections() -> None:
    with actors.LoopbackServer(GOOD, GOOD, GOOD) as server:
        model = OpenAICompatible("tiny", base_url=server.url)
        for run in range(1, 4):
            server.gone.clear()
            assert ask_async(model) == CHAT_REPLY
            assert server.connections == run
            # The end of the event loop closed them, without a call of aclose.
            assert server.gone.wait(10)


def test_many_tasks_share_the_client_of_their_loop() -> None:
    async def talk(model: OpenAICompatible) -> None:
        assert await asyncio.gather(*(model.acomplete(actors.HELLO) for _ in range(5))) == [CHAT_REPLY] * 5
        await model.aclose()
        assert await model.acomplete(actors.HELLO) == CHAT_REPLY

    with actors.LoopbackServer(*[GOOD] * 6) as server:
        asyncio.run(talk(OpenAICompatible("tiny", base_url=server.url)))


def test_many_threads_share_one_model() -> None:
    replies: list[ModelReply] = []
    with actors.LoopbackServer(*[GOOD] * 8) as server, OpenAICompatible("tiny", base_url=server.url) as model:
        threads = [threading.Thread(target=lambda: replies.append(model.complete(actors.HELLO))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert replies == [CHAT_REPLY] * 8


def test_model_can_be_used_after_close() -> None:
    with actors.LoopbackServer(GOOD, GOOD) as server:
        model = OpenAICompatible("tiny", base_url=server.url)
        assert model.complete(actors.HELLO) == CHAT_REPLY
        model.close()
        model.close()
        assert server.gone.wait(10)
        assert model.complete(actors.HELLO) == CHAT_REPLY
        model.close()
        assert server.connections == 2


def test_close_does_not_leave_a_call_waiting() -> None:
    with actors.LoopbackServer() as server:
        server.add_acts(server.stall(), GOOD)
        model = OpenAICompatible("tiny", base_url=server.url)
        replies: list[ModelReply] = []
        thread = threading.Thread(target=lambda: replies.append(model.complete(actors.HELLO)), daemon=True)
        thread.start()
        assert server.asked.wait(10)
        model.close()
        # The call sends its request again, in a connection of its own.
        thread.join(10)
        assert replies == [CHAT_REPLY]
        model.close()


def test_collected_model_closes_its_connections() -> None:
    with actors.LoopbackServer(GOOD) as server:
        OpenAICompatible("tiny", base_url=server.url).complete(actors.HELLO)
        gc.collect()
        assert server.gone.wait(10)


@pytest.mark.medium
@cases(
    "use",
    [
        "threading.Thread(target=list, args=(pieces,), daemon=True).start()",
        "threading.Thread(target=model.complete, args=(request,), daemon=True).start()",
        "next(pieces)",
        "model.complete(request)",
    ],
)
def test_program_can_end_at_any_time_silently(use: str) -> None:
    program = f"""
import atexit, sys, threading, time

# Hooks run in reverse order, so a thread has time to notice that its connection has been closed.
atexit.register(time.sleep, 0.3)
from graphexec.messages import ChatRequest, UserMessage
from graphexec.models import OpenAICompatible

model = OpenAICompatible("tiny", base_url=sys.argv[1])
request = ChatRequest([UserMessage("hello")])
model.complete(request)
pieces = model.stream(request)
{use}
# The request is being answered, or has been.
time.sleep(0.1)
"""
    with actors.LoopbackServer(GOOD) as server:
        # Pieces wake a reader whose connection was closed; nothing else would.
        server.add_acts(
            GOOD if use == "model.complete(request)" else actors.send(BEGINNING, *[b"3\r\n:\n\n\r\n"] * 100, every=0.01)
        )
        command = [sys.executable, "-X", "dev", "-c", program, server.url]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_dropped_idle_connection_is_replaced_at_once() -> None:
    time = actors.FakeTime()
    with (
        actors.LoopbackServer(GOOD, actors.send_and_drop(), GOOD) as server,
        OpenAICompatible("tiny", base_url=server.url, clock=time.clock, max_retries=0) as model,
    ):
        assert model.complete(actors.HELLO) == CHAT_REPLY
        assert model.complete(actors.HELLO) == CHAT_REPLY
        assert server.connections == 2
    assert time.slept == [0.0]


HALF = actors.response(CHAT)[: -len(CHAT) // 2]


@cases("way", [ask, ask_async])
def test_connection_dropped_during_reply_is_retried(
    way: Callable[[OpenAICompatible], ModelReply],
) -> None:
    time = actors.FakeTime()
    with (
        actors.LoopbackServer(actors.send_and_drop(HALF), GOOD) as server,
        OpenAICompatible("tiny", base_url=server.url, clock=time.clock) as model,
    ):
        assert way(model) == CHAT_REPLY
    assert len(time.slept) == 1


def test_connection_dropped_during_stream_is_an_error() -> None:
    with (
        actors.LoopbackServer(actors.send_and_drop(actors.chunks(*EVENTS[:3], end=False))) as server,
        OpenAICompatible("tiny", base_url=server.url) as model,
    ):
        pieces = model.stream(actors.HELLO)
        assert next(pieces) == ReplyDelta("Café")
        assert next(pieces) == ReplyDelta(" costs €4.")
        with pytest.raises(ModelConnectionError, match="broke"):
            next(pieces)


def test_stream_that_ends_too_early_is_invalid() -> None:
    with (
        actors.LoopbackServer(actors.send(actors.chunks(*EVENTS[:3]))) as server,
        OpenAICompatible("tiny", base_url=server.url) as model,
        pytest.raises(InvalidReplyError, match="ended its stream before the reply was complete"),
    ):
        actors.read_stream(model.stream(actors.HELLO))


@cases("way", [ask, ask_async])
def test_error_asks_if_the_server_is_running(way: Callable[[OpenAICompatible], ModelReply]) -> None:
    with actors.LoopbackServer() as server:
        url = server.url
    time = actors.FakeTime()
    model = OpenAICompatible("tiny", base_url=url, clock=time.clock)
    with model, pytest.raises(ModelConnectionError, match="is the server running at http://127"):
        way(model)
    assert len(time.slept) == 2


@pytest.mark.medium
@cases("sent", [b"", HALF])
def test_slow_server_is_a_timeout(sent: bytes) -> None:
    with actors.LoopbackServer() as server:
        server.add_acts(server.stall(sent), server.stall(sent), server.stall(sent))
        # The request is sent in this time on a busy machine, too.
        with OpenAICompatible("tiny", base_url=server.url, timeout=1.5) as model:
            with pytest.raises(ModelTimeoutError, match=r"did not (answer|finish its reply) within 1\.5 s"):
                model.complete(actors.HELLO)
            assert server.gone.wait(10)
        with OpenAICompatible("tiny", base_url=server.url) as model:
            with pytest.raises(ModelTimeoutError, match=r"did not (answer|finish its reply) within 1\.5 s"):
                model.complete(actors.HELLO, timeout=1.5)
            with pytest.raises(ModelTimeoutError, match=r"did not (answer|finish its reply) within 1\.5 s"):
                asyncio.run(model.acomplete(actors.HELLO, timeout=1.5))


def test_stalled_stream_is_a_timeout() -> None:
    with actors.LoopbackServer() as server:
        server.add_acts(*[server.stall(BEGINNING)] * 2)
        with OpenAICompatible("tiny", base_url=server.url, timeout=0.3) as model:
            with pytest.raises(ModelTimeoutError):
                actors.read_stream(model.stream(actors.HELLO))
            with pytest.raises(ModelTimeoutError):
                asyncio.run(actors.aread_stream(model))


def test_closing_a_stream_early_closes_its_connection() -> None:
    with actors.LoopbackServer() as server:
        server.add_acts(server.stall(BEGINNING))
        with OpenAICompatible("tiny", base_url=server.url) as model:
            pieces = model.stream(actors.HELLO)
            assert next(pieces) == ReplyDelta("Café")
            pieces.close()
            assert server.gone.wait(10)
            assert list(pieces) == []


def test_closing_an_async_stream_closes_its_connection() -> None:
    with actors.LoopbackServer() as server:
        server.add_acts(server.stall(BEGINNING))

        async def talk() -> None:
            pieces = OpenAICompatible("tiny", base_url=server.url).astream(actors.HELLO)
            assert await anext(pieces) == ReplyDelta("Café")
            await pieces.aclose()
            assert await asyncio.to_thread(server.gone.wait, 10)

        asyncio.run(talk())


def test_collected_stream_closes_its_connection() -> None:
    with actors.LoopbackServer() as server:
        server.add_acts(*[server.stall(BEGINNING)] * 2)
        model = OpenAICompatible("tiny", base_url=server.url)

        async def talk() -> None:
            async for _ in model.astream(actors.HELLO):
                break
            gc.collect()
            assert await asyncio.to_thread(server.gone.wait, 10)

        asyncio.run(talk())
        server.gone.clear()
        for _ in model.stream(actors.HELLO):
            break
        gc.collect()
        assert server.gone.wait(10)
        model.close()


def test_cancelling_a_call_closes_its_connection() -> None:
    with actors.LoopbackServer() as server:
        server.add_acts(server.stall())

        async def talk() -> None:
            call = asyncio.ensure_future(OpenAICompatible("tiny", base_url=server.url).acomplete(actors.HELLO))
            assert await asyncio.to_thread(server.asked.wait, 10)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await asyncio.to_thread(server.gone.wait, 10)

        asyncio.run(talk())


class TestForks:
    """The hook of a fork, without one; tests/models/test_forks.py forks."""

    def test_forked_process_opens_its_own_connections(self) -> None:
        connections = Connections()
        used = connections.blocking_client()
        assert connections.blocking_client() is used
        connections.reset_after_fork()
        assert connections.blocking_client().client is not used.client
        # The parent uses it, and its locks may be held.
        assert not used.client.is_closed
        used.client.close()
        connections.close()

    def test_passed_client_belongs_to_one_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with httpx.Client() as client:
            connections = Connections(client)
            assert connections.blocking_client().client is client
            monkeypatch.setattr(os, "getpid", lambda: -1)
            with pytest.raises(ModelConnectionError, match="used before this process was forked"):
                connections.blocking_client()

    def test_lock_is_free_after_a_fork(self) -> None:
        lock = ForkSafeLock()
        with lock:
            assert not lock.acquire(blocking=False)
            lock.reset_after_fork()
        assert lock.acquire(blocking=False)


class TestProxies:
    """Servers on this machine are called directly, others through the proxy of the environment."""

    @pytest.fixture
    def proxy(self, monkeypatch: pytest.MonkeyPatch) -> Generator[actors.LoopbackServer, None, None]:
        with actors.LoopbackServer(*[actors.send(actors.response(b"", status="502 Bad Gateway"))] * 4) as proxy:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
                monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
                monkeypatch.setenv(name.lower(), proxy.url.removesuffix("/v1"))
            monkeypatch.delenv("NO_PROXY", raising=False)
            monkeypatch.delenv("no_proxy", raising=False)
            yield proxy

    @pytest.mark.parametrize("way", [ask, ask_async])
    @pytest.mark.parametrize(
        "host",
        [
            "127.0.0.1",
            "127.8.9.1",
            "localhost",
            "tiny.localhost",
            "[::ffff:127.0.0.1]",
            "127.1",
            "0x7f.0.0.1",
            "2130706433",
            "0",
        ],
    )
    def test_loopback_server_is_called_directly(
        self, proxy: actors.LoopbackServer, host: str, way: Callable[[OpenAICompatible], ModelReply]
    ) -> None:
        with actors.LoopbackServer(GOOD) as server:
            model = OpenAICompatible("tiny", base_url=server.url.replace("127.0.0.1", host), max_retries=0)
            try:
                assert way(model) == CHAT_REPLY
            except ModelConnectionError:
                # This machine may not resolve the name, or not have the address.
                assert server.connections == 0
            model.close()
        assert proxy.connections == 0

    @pytest.mark.parametrize("way", [ask, ask_async])
    def test_other_servers_are_called_through_the_proxy(
        self,
        proxy: actors.LoopbackServer,
        way: Callable[[OpenAICompatible], ModelReply],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        options: dict[str, Any] = {"base_url": "http://models.invalid/v1", "api_key": "k" * 8, "max_retries": 0}
        with OpenAICompatible("tiny", **options) as model, pytest.raises(ServerError, match="502"):
            way(model)
        assert proxy.connections == 1
        monkeypatch.setenv("NO_PROXY", "models.invalid")
        monkeypatch.setenv("no_proxy", "models.invalid")
        with OpenAICompatible("tiny", **options) as model, pytest.raises(ModelConnectionError):
            way(model)
        assert proxy.connections == 1

    @cases("way", [ask, ask_async])
    def test_unusable_proxy_is_an_error_without_its_password(
        self, way: Callable[[OpenAICompatible], ModelReply], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ALL_PROXY", "gopher://me:hunter2-at-home@127.0.0.1:9")
        monkeypatch.setenv("all_proxy", "gopher://me:hunter2-at-home@127.0.0.1:9")
        model = OpenAICompatible("tiny", base_url="http://models.invalid/v1", api_key="")
        with model, pytest.raises(ModelConnectionError, match="the proxy of the environment cannot be used") as caught:
            way(model)
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))
        with actors.LoopbackServer(GOOD) as server, OpenAICompatible("tiny", base_url=server.url) as model:
            assert way(model) == CHAT_REPLY


class TestClientsOfTheUsers:
    def test_passed_client_is_used_and_stays_open(self) -> None:
        with actors.LoopbackServer(GOOD, GOOD) as server, httpx.Client(headers={"X-Mine": "yes"}) as client:
            with OpenAICompatible("tiny", base_url=server.url, client=client) as model:
                assert model.complete(actors.HELLO) == CHAT_REPLY
            assert not client.is_closed
            assert OpenAICompatible("tiny", base_url=server.url, client=client).complete(actors.HELLO) == CHAT_REPLY
            assert server.connections == 1

    def test_httpx2_client_is_supported(self) -> None:
        async def talk(url: str) -> None:
            async with httpx2.AsyncClient() as client:
                model = OpenAICompatible("tiny", base_url=url, async_client=client)
                assert await model.acomplete(actors.HELLO) == CHAT_REPLY
                assert await actors.aread_stream(model) == CHAT_REPLY
                await model.aclose()
                assert not client.is_closed

        with actors.LoopbackServer(GOOD, STREAMED, GOOD, STREAMED) as server:
            with httpx2.Client() as client:
                model = OpenAICompatible("tiny", base_url=server.url, client=client)
                assert model.complete(actors.HELLO) == CHAT_REPLY
                assert actors.read_stream(model.stream(actors.HELLO)) == CHAT_REPLY
            asyncio.run(talk(server.url))
            assert server.connections == 2

    def test_httpx2_exceptions_have_the_same_errors(self) -> None:
        time = actors.FakeTime()
        busy = actors.send(actors.response(b"", status="429 Too Many Requests"))
        with actors.LoopbackServer() as server, httpx2.Client() as client:
            server.add_acts(busy, GOOD, actors.send_and_drop(), server.stall(), GOOD, busy)
            model = OpenAICompatible("tiny", base_url=server.url, client=client, clock=time.clock)
            assert model.complete(actors.HELLO) == CHAT_REPLY
            with pytest.raises(ModelTimeoutError):
                model.complete(actors.HELLO, timeout=0.05)
            assert model.complete(actors.HELLO) == CHAT_REPLY
            with pytest.raises(RateLimitError):
                OpenAICompatible("tiny", base_url=server.url, client=client, max_retries=0).complete(actors.HELLO)
        with httpx2.Client() as client, pytest.raises(ModelConnectionError, match="is the server running"):
            OpenAICompatible("tiny", base_url=server.url, client=client, clock=time.clock).complete(actors.HELLO)
        with httpx2.Client() as client, pytest.raises(ModelConnectionError, match="must be an address"):
            OpenAICompatible("tiny", base_url="nonsense", api_key="", client=client).complete(actors.HELLO)


def test_import_loads_neither_http_client_nor_llama() -> None:
    heavy = {"httpx", "httpx_sse", "xllamacpp", "rich", "filelock", "platformdirs"}
    program = f"import sys; from graphexec.models import *; print(sorted({heavy!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout.strip() == b"[]"
