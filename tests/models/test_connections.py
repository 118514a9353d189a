"""Connections on real sockets: reuse, failures and closing."""

import asyncio
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import httpx2
import pytest

from graphexec.errors import InvalidReplyError, ModelConnectionError, ModelTimeoutError, ServerError
from graphexec.messages import ReplyDelta
from graphexec.models import OpenAICompatible
from tests import garbage
from tests.models import actors
from tests.models.call_modes import MODES, Ask, both_calls, call_async, call_blocking, stream_blocking
from tests.models.recorded import CHAT, CHAT_REPLY, STREAM
from tests.parameters import cases

EVENTS = actors.split_events(STREAM)
GOOD = actors.send(actors.response(CHAT))
# The beginning of a streamed reply.
BEGINNING = actors.chunks(*EVENTS[:2], end=False)
STREAMED = actors.send(actors.chunks(*EVENTS))


def test_one_connection_serves_many_calls_and_streams() -> None:
    async def talk(model: OpenAICompatible) -> None:
        assert await model.acomplete(actors.HELLO) == CHAT_REPLY
        assert await actors.aread_stream(model) == CHAT_REPLY
        assert await model.acomplete(actors.HELLO) == CHAT_REPLY

    with actors.serve(*[GOOD, STREAMED] * 3, GOOD) as (server, model):
        for ask in (call_blocking, stream_blocking) * 2:
            assert ask(model) == CHAT_REPLY
        assert server.connections == 1
        asyncio.run(talk(model))
        assert server.connections == 2


def test_each_event_loop_closes_its_own_connections() -> None:
    with actors.serve(GOOD, GOOD, GOOD) as (server, model):
        for run in range(1, 4):
            server.gone.clear()
            assert call_async(model) == CHAT_REPLY
            assert server.connections == run
            # The end of the event loop closed them, without a call of aclose.
            assert server.gone.wait(10)


def test_many_tasks_and_threads_share_one_model() -> None:
    async def talk(model: OpenAICompatible) -> None:
        assert await asyncio.gather(*(model.acomplete(actors.HELLO) for _ in range(5))) == [CHAT_REPLY] * 5
        await model.aclose()
        assert await model.acomplete(actors.HELLO) == CHAT_REPLY

    with actors.serve(*[GOOD] * 14) as (_, model), ThreadPoolExecutor(8) as threads:
        asyncio.run(talk(model))
        assert [*threads.map(call_blocking, [model] * 8)] == [CHAT_REPLY] * 8


def test_model_can_be_used_after_close() -> None:
    with actors.serve(GOOD, GOOD) as (server, model):
        assert call_blocking(model) == CHAT_REPLY
        model.close()
        model.close()
        assert server.gone.wait(10)
        assert call_blocking(model) == CHAT_REPLY
        assert server.connections == 2
        # One that is not closed closes its connections when it is collected.
        server.gone.clear()
        server.add_acts(GOOD)
        call_blocking(OpenAICompatible("tiny", base_url=server.url))
        garbage.collect()
        assert server.gone.wait(10)


def test_close_does_not_leave_a_call_waiting() -> None:
    with actors.serve() as (server, model), ThreadPoolExecutor(1) as thread:
        server.add_acts(server.stall(), GOOD)
        call = thread.submit(call_blocking, model)
        assert server.asked.wait(10)
        model.close()
        # The call sends its request again, in a connection of its own.
        assert call.result(10) == CHAT_REPLY


@pytest.mark.medium
@cases(
    "use",
    "threading.Thread(target=list, args=(pieces,), daemon=True).start()",
    "threading.Thread(target=model.complete, args=(request,), daemon=True).start()",
    "next(pieces)",
    "model.complete(request)",
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


HALF = actors.response(CHAT)[: -len(CHAT) // 2]


def test_stream_that_breaks_or_ends_too_early_is_an_error() -> None:
    broken = actors.send_and_drop(actors.chunks(*EVENTS[:3], end=False))
    with actors.serve(broken, actors.send(actors.chunks(*EVENTS[:3]))) as (_, model):
        pieces = model.stream(actors.HELLO)
        assert [next(pieces), next(pieces)] == [ReplyDelta("Café"), ReplyDelta(" costs €4.")]
        with pytest.raises(ModelConnectionError, match="broke"):
            next(pieces)
        with pytest.raises(InvalidReplyError, match="ended its stream before the reply was complete"):
            stream_blocking(model)


@both_calls
def test_failed_connections_are_retried(ask: Ask) -> None:
    time = actors.FakeTime()
    with actors.serve(actors.send_and_drop(HALF), GOOD, clock=time.clock) as (server, model):
        assert ask(model) == CHAT_REPLY
    assert len(time.slept) == 1
    model = OpenAICompatible("tiny", base_url=server.url, clock=time.clock)
    with model, pytest.raises(ModelConnectionError, match="is the server running at http://127"):
        ask(model)
    assert len(time.slept) == 3


@pytest.mark.medium
@cases("sent", b"", HALF, BEGINNING)
@cases(("ask", "own", "timeout"), *((ask, 60, 1.5) for ask in MODES), (call_blocking, 1.5, None))
def test_slow_server_is_a_timeout(sent: bytes, ask: Ask, own: float, timeout: float | None) -> None:
    # The request is sent in this time on a busy machine, too.
    with actors.serve(timeout=own) as (server, model):
        server.add_acts(server.stall(sent))
        with pytest.raises(ModelTimeoutError, match=r"did not (answer|finish its reply) within 1\.5 s"):
            ask(model, timeout=timeout)
        assert server.gone.wait(10)


@cases("collected", False, True)
def test_closed_or_collected_stream_closes_its_connection(collected: bool) -> None:
    async def talk(server: actors.LoopbackServer, model: OpenAICompatible) -> None:
        pieces = model.astream(actors.HELLO)
        assert await anext(pieces) == ReplyDelta("Café")
        if not collected:
            await pieces.aclose()
        del pieces
        garbage.collect()
        assert await asyncio.to_thread(server.gone.wait, 10)

    with actors.serve() as (server, model):
        server.add_acts(*[server.stall(BEGINNING)] * 2)
        asyncio.run(talk(server, model))
        server.gone.clear()
        pieces = model.stream(actors.HELLO)
        assert next(pieces) == ReplyDelta("Café")
        if not collected:
            pieces.close()
            assert list(pieces) == []
        del pieces
        garbage.collect()
        assert server.gone.wait(10)


def test_cancelling_a_call_closes_its_connection() -> None:
    async def talk(server: actors.LoopbackServer, model: OpenAICompatible) -> None:
        call = asyncio.ensure_future(model.acomplete(actors.HELLO))
        assert await asyncio.to_thread(server.asked.wait, 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(server.gone.wait, 10)

    with actors.serve() as (server, model):
        server.add_acts(server.stall())
        asyncio.run(talk(server, model))


class TestProxies:
    """Servers on this machine are called directly, others through the proxy of the environment."""

    @pytest.fixture
    def proxy(self, monkeypatch: pytest.MonkeyPatch) -> Generator[actors.LoopbackServer, None, None]:
        with actors.LoopbackServer(*[actors.send(actors.response(b"", status="502 Bad Gateway"))] * 4) as proxy:
            for name in ("http_proxy", "https_proxy", "all_proxy"):
                for variable in (name, name.upper()):
                    monkeypatch.setenv(variable, proxy.url.removesuffix("/v1"))
            for variable in ("NO_PROXY", "no_proxy"):
                monkeypatch.delenv(variable, raising=False)
            yield proxy

    @pytest.mark.medium
    @both_calls
    @cases("host", "127.0.0.1", "127.8.9.1", "localhost", "tiny.localhost")
    def test_loopback_server_is_called_directly(self, proxy: actors.LoopbackServer, host: str, ask: Ask) -> None:
        with actors.LoopbackServer(GOOD) as server:
            url = server.url.replace("127.0.0.1", host)
            with OpenAICompatible("tiny", base_url=url, max_retries=0) as model:
                try:
                    assert ask(model) == CHAT_REPLY
                except ModelConnectionError:
                    # This machine may not resolve the name, or not have the address.
                    assert server.connections == 0
        assert proxy.connections == 0

    @pytest.mark.medium
    @pytest.mark.parametrize("ask", [call_blocking, call_async])
    def test_other_servers_are_called_through_the_proxy(
        self, proxy: actors.LoopbackServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options: dict[str, Any] = {"base_url": "http://models.invalid/v1", "api_key": "k" * 8, "max_retries": 0}
        with OpenAICompatible("tiny", **options) as model, pytest.raises(ServerError, match="502"):
            ask(model)
        assert proxy.connections == 1
        monkeypatch.setenv("NO_PROXY", "models.invalid")
        monkeypatch.setenv("no_proxy", "models.invalid")
        with OpenAICompatible("tiny", **options) as model, pytest.raises(ModelConnectionError):
            ask(model)
        assert proxy.connections == 1


class TestClientsOfTheUsers:
    def test_passed_client_is_used_and_stays_open(self) -> None:
        with (
            httpx.Client(headers={"X-Mine": "yes"}) as client,
            actors.serve(GOOD, GOOD, client=client) as (server, one),
        ):
            with one as model:
                assert call_blocking(model) == CHAT_REPLY
            assert not client.is_closed
            assert call_blocking(OpenAICompatible("tiny", base_url=server.url, client=client)) == CHAT_REPLY
            assert server.connections == 1
            # The server waits for its clients.
            client.close()

    def test_httpx2_client_is_supported(self) -> None:
        async def talk(url: str) -> None:
            async with httpx2.AsyncClient() as client:
                model = OpenAICompatible("tiny", base_url=url, async_client=client)
                assert await model.acomplete(actors.HELLO) == CHAT_REPLY
                assert await actors.aread_stream(model) == CHAT_REPLY
                await model.aclose()
                assert not client.is_closed

        with httpx2.Client() as client, actors.serve(GOOD, STREAMED, GOOD, STREAMED, client=client) as (server, model):
            assert call_blocking(model) == stream_blocking(model) == CHAT_REPLY
            asyncio.run(talk(server.url))
            assert server.connections == 2
            client.close()

    @pytest.mark.medium
    def test_httpx2_exceptions_have_the_same_errors(self) -> None:
        clock = actors.FakeTime().clock
        with httpx2.Client() as client, actors.serve(client=client, clock=clock) as (server, model):
            server.add_acts(actors.send_and_drop(), GOOD, server.stall())
            assert call_blocking(model) == CHAT_REPLY
            with pytest.raises(ModelTimeoutError):
                call_blocking(model, timeout=0.05)
        for url, words in ((server.url, "is the server running"), ("nonsense", "must be an address")):
            with httpx2.Client() as client, pytest.raises(ModelConnectionError, match=words):
                call_blocking(OpenAICompatible("tiny", base_url=url, api_key="", client=client, clock=clock))
