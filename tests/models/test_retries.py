"""Retries of HTTP calls. No test waits: the clock is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from graphexec import errors
from graphexec.models import Retried
from tests.models.actors import HELLO, FakeTime, scripted_server, sse
from tests.models.call_modes import Ask, all_modes, record_reports, stream_blocking
from tests.models.recorded import CHAT, CHAT_REPLY, STREAM
from tests.parameters import cases

GOOD = httpx.Response(200, content=CHAT)


def busy_response(after: str | None = None, status: int = 429) -> httpx.Response:
    return httpx.Response(status, headers={} if after is None else {"retry-after": after}, content=b"busy")


BUSY = [busy_response(status=status) for status in (429, 500, 503)]


@all_modes
@cases("failure", [*BUSY, httpx.ConnectError("refused"), httpx.ReadError("reset")])
def test_transient_errors_are_retried_after_growing_waits(ask: Ask, failure: httpx.Response | Exception) -> None:
    time = FakeTime()
    with record_reports() as reports:
        assert ask(scripted_server(failure, failure, GOOD, time=time)) == CHAT_REPLY
    first, second = time.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0
    # Each retry is reported.
    retries = [one for one in reports if isinstance(one, Retried)]
    assert [(one.attempt, one.wait) for one in retries] == [(1, first), (2, second)]
    assert all(isinstance(one.error, errors.ModelError) for one in retries)


@all_modes
@cases(
    ("failure", "kind"),
    [
        (httpx.Response(400), errors.BadRequestError),
        (httpx.Response(200, content=b"hm"), errors.InvalidReplyError),
        (httpx.ReadTimeout("slow"), errors.ModelTimeoutError),
        (httpx.Response(429, json={"error": {"code": "insufficient_quota", "message": "pay"}}), errors.RateLimitError),
    ],
)
def test_permanent_errors_are_raised_at_once(
    ask: Ask, failure: httpx.Response | Exception, kind: type[errors.ModelError]
) -> None:
    time = FakeTime()
    with pytest.raises(kind), record_reports() as reports:
        ask(scripted_server(failure, GOOD, time=time))
    assert time.slept == reports == []


@all_modes
def test_last_server_error_is_raised(ask: Ask) -> None:
    time = FakeTime()
    with pytest.raises(errors.ServerError, match="503: busy"):
        ask(scripted_server(BUSY[1], BUSY[1], BUSY[2], GOOD, time=time))
    assert len(time.slept) == 2


@all_modes
@cases(("after", "wait"), [("7", 7.0), ("0", 0.0), ("Thu, 01 Jan 1970 00:17:10 GMT", 30.0)])
def test_server_determines_the_wait(ask: Ask, after: str, wait: float) -> None:
    time = FakeTime()
    assert ask(scripted_server(busy_response(after), GOOD, time=time)) == CHAT_REPLY
    assert time.slept == [wait]


@all_modes
def test_waits_above_a_minute_are_errors(ask: Ask) -> None:
    time = FakeTime()
    with pytest.raises(errors.RateLimitError, match=r"asks for 61 s, more than this client waits \(60 s\)") as caught:
        ask(scripted_server(busy_response("61"), GOOD, time=time))
    assert time.slept == []
    assert caught.value.retry_after == 61
    assert ask(scripted_server(busy_response("60"), GOOD, time=time)) == CHAT_REPLY
    assert time.slept == [60]


@all_modes
def test_wait_beyond_the_timeout_is_not_started(ask: Ask) -> None:
    time = FakeTime()
    with pytest.raises(errors.RateLimitError):
        ask(scripted_server(busy_response("7"), busy_response("7"), GOOD, time=time), timeout=10)
    assert time.slept == [7.0]


@all_modes
def test_zero_timeout_fails_before_sending(ask: Ask) -> None:
    with pytest.raises(errors.ModelTimeoutError, match=r"tiny at http://127\.0\.0\.1:1/v1 did not answer within 0 s"):
        ask(scripted_server(), timeout=0)


def test_attempt_has_the_remaining_time() -> None:
    seen: list[dict[str, float]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return busy_response("7") if len(seen) == 1 else GOOD

    assert scripted_server(answer, answer).complete(HELLO, timeout=30) == CHAT_REPLY
    assert [(timeouts["read"], timeouts["connect"]) for timeouts in seen] == [(30, 10), (23, 10)]


@all_modes
def test_idle_connection_is_replaced_only_once(ask: Ask) -> None:
    time = FakeTime()
    dropped = httpx.RemoteProtocolError("Server disconnected without sending a response.")
    model = scripted_server(GOOD, dropped, GOOD, *[dropped] * 4, time=time)
    assert [ask(model), ask(model)] == [CHAT_REPLY] * 2
    assert time.slept == [0.0]
    with pytest.raises(errors.ModelConnectionError):
        ask(model)
    # One reconnection, then the two retries.
    assert [seconds > 0 for seconds in time.slept] == [False, False, True, True]


@all_modes
def test_dropped_new_connection_is_a_failure(ask: Ask) -> None:
    time = FakeTime()
    assert ask(scripted_server(httpx.RemoteProtocolError("gone"), GOOD, time=time)) == CHAT_REPLY
    assert len(time.slept) == 1


def test_a_cancellation_is_never_retried() -> None:
    def cancel(_: httpx.Request) -> httpx.Response:
        raise asyncio.CancelledError

    time = FakeTime()
    model = scripted_server(busy_response(), cancel, GOOD, time=time)

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await model.acomplete(HELLO)

    asyncio.run(run())
    assert len(time.slept) == 1


def streamed(pieces: Iterator[bytes]) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=pieces)


def broken_after(body: bytes) -> httpx.Response:
    def pieces() -> Iterator[bytes]:
        yield body
        raise httpx.RemoteProtocolError("peer closed connection")

    return streamed(pieces())


def test_stream_is_retried_only_before_first_delta() -> None:
    time = FakeTime()
    assert stream_blocking(scripted_server(broken_after(b""), sse(STREAM), time=time)) == CHAT_REPLY
    assert len(time.slept) == 1
    pieces = scripted_server(broken_after(STREAM[:200]), sse(STREAM), time=time).stream(HELLO)
    next(pieces)
    with pytest.raises(errors.ModelConnectionError):
        next(pieces)
    assert len(time.slept) == 1


def test_connection_may_break_after_the_whole_reply() -> None:
    assert stream_blocking(scripted_server(broken_after(STREAM))) == CHAT_REPLY


def test_stream_respects_its_timeout() -> None:
    time = FakeTime()

    def pieces() -> Iterator[bytes]:
        for event in STREAM.split(b"\n\n"):
            time.now += 2
            yield event + b"\n\n"

    slow = [lambda _: streamed(pieces())] * 2
    with pytest.raises(errors.ModelTimeoutError, match="within 5 s"):
        stream_blocking(scripted_server(*slow, time=time), timeout=5)
    assert stream_blocking(scripted_server(*slow, time=time), timeout=50) == CHAT_REPLY
