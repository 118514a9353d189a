"""Retries of HTTP calls. No test waits: the clock is a fake."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from graphexec import errors
from graphexec.models import OpenAICompatible, Retried
from tests.models.actors import HELLO, FakeTime, scripted_server, sse
from tests.models.call_modes import Ask, all_modes, record_reports, stream_blocking
from tests.models.recorded import CHAT, CHAT_REPLY, STREAM
from tests.parameters import cases

GOOD = httpx.Response(200, content=CHAT)


def busy_response(after: str | int | None = None, status: int = 429) -> httpx.Response:
    return httpx.Response(status, headers={} if after is None else {"retry-after": str(after)}, content=b"busy")


BUSY = [busy_response(status=status) for status in (429, 500, 503)]


def client(*failures: httpx.Response | Exception, time: FakeTime) -> OpenAICompatible:
    return scripted_server(*failures, GOOD, time=time)


@all_modes
@cases("failure", *BUSY, httpx.ConnectError("refused"), httpx.ReadError("reset"))
def test_transient_errors_are_retried_after_growing_waits(ask: Ask, failure: Any) -> None:
    time = FakeTime()
    with record_reports() as reports:
        assert ask(client(failure, failure, time=time)) == CHAT_REPLY
    first, second = time.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0
    # Each retry is reported.
    retries = [one for one in reports if isinstance(one, Retried)]
    assert [(one.attempt, one.wait) for one in retries] == [(1, first), (2, second)]
    for error, shown in (
        (errors.ServerError("503: busy"), "ServerError: 503: busy"),
        (errors.ServerError(""), "ServerError"),
    ):
        assert str(Retried(error, 1, 0.46)) == f"attempt 1 failed with {shown}; the next one follows in 0.5 s"
    assert len(reports) == 2
    assert all(isinstance(one.error, errors.ModelError) for one in retries)
    # The last error is raised.
    time = FakeTime()
    with pytest.raises(errors.ServerError, match="503: busy"):
        ask(client(BUSY[1], BUSY[1], BUSY[2], time=time))
    assert len(time.slept) == 2


QUOTA = httpx.Response(429, json={"error": {"code": "insufficient_quota", "message": "pay"}})


@all_modes
@cases(
    ("failure", "kind"),
    (httpx.Response(400), errors.BadRequestError),
    (httpx.Response(200, content=b"hm"), errors.InvalidReplyError),
    (httpx.ReadTimeout("slow"), errors.ModelTimeoutError),
    (QUOTA, errors.RateLimitError),
)
def test_permanent_errors_are_raised_at_once(ask: Ask, failure: Any, kind: type[Exception]) -> None:
    time = FakeTime()
    with pytest.raises(kind), record_reports() as reports:
        ask(client(failure, time=time))
    assert time.slept == reports == []


@all_modes
@cases(("after", "wait"), *((f"{wait:g}", wait) for wait in (0.0, 7.0, 60.0)), ("Thu, 01 Jan 1970 00:17:10 GMT", 30.0))
def test_server_determines_the_wait(ask: Ask, after: str, wait: float) -> None:
    time = FakeTime()
    assert ask(client(busy_response(after), time=time)) == CHAT_REPLY
    assert time.slept == [wait]


# Above a minute, or beyond the timeout.
@all_modes
@cases(("seconds", "timeout", "slept"), (61, None, []), (7, 10, [7]))
def test_too_long_wait_is_not_started(ask: Ask, seconds: int, timeout: float | None, slept: list[float]) -> None:
    time = FakeTime()
    with pytest.raises(errors.RateLimitError) as caught:
        ask(client(*[busy_response(seconds)] * 2, time=time), timeout=timeout)
    assert (time.slept, caught.value.retry_after) == (slept, seconds)


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


def test_a_cancellation_is_never_retried() -> None:
    def cancel(_: httpx.Request) -> httpx.Response:
        raise asyncio.CancelledError

    time = FakeTime()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scripted_server(busy_response(), cancel, GOOD, time=time).acomplete(HELLO))
    assert len(time.slept) == 1


def broken_after(body: bytes) -> httpx.Response:
    def pieces() -> Iterator[bytes]:
        yield body
        raise httpx.RemoteProtocolError("peer closed connection")

    return sse(pieces())


def test_stream_is_retried_only_before_first_delta() -> None:
    # It may break after the whole reply.
    assert stream_blocking(scripted_server(broken_after(STREAM))) == CHAT_REPLY
    time = FakeTime()
    assert stream_blocking(scripted_server(broken_after(b""), sse(STREAM), time=time)) == CHAT_REPLY
    assert len(time.slept) == 1
    pieces = scripted_server(broken_after(STREAM[:200]), sse(STREAM), time=time).stream(HELLO)
    next(pieces)
    with pytest.raises(errors.ModelConnectionError):
        next(pieces)
    assert len(time.slept) == 1


def test_stream_respects_its_timeout() -> None:
    time = FakeTime()

    def pieces() -> Iterator[bytes]:
        for event in STREAM.split(b"\n\n"):
            time.now += 2
            yield event + b"\n\n"

    slow: list[Callable[[Any], httpx.Response]] = [lambda _: sse(pieces())] * 2
    with pytest.raises(errors.ModelTimeoutError, match="within 5 s"):
        stream_blocking(scripted_server(*slow, time=time), timeout=5)
    assert stream_blocking(scripted_server(*slow, time=time), timeout=50) == CHAT_REPLY
