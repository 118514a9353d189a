"""Retries of HTTP calls, and a model with retries. No test waits: the clock is a fake."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import errors
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta
from graphexec.models import FunctionModel, OpenAICompatible, Retried, ScriptedModel, WrappedModel, retrying
from graphexec.runtime.threads import open_cancel_scope
from tests.models.actors import HELLO, FakeTime, scripted_server, sse
from tests.models.call_modes import Ask, Called, Typewriter, all_modes, both_streams, record_reports, stream_blocking
from tests.models.recorded import CHAT, CHAT_REPLY, STREAM
from tests.parameters import cases
from tests.runtime.actors import start_in_thread

DOWN = errors.ServerError("503: busy")
GOOD = httpx.Response(200, content=CHAT)


def busy_response(after: str | int | None = None, status: int = 429) -> httpx.Response:
    return httpx.Response(status, headers={} if after is None else {"retry-after": str(after)}, content=b"busy")


def busy(seconds: float) -> errors.RateLimitError:
    return errors.RateLimitError("busy", retry_after=seconds)


BUSY = [busy_response(status=status) for status in (429, 500, 503, 529)]
Make = Callable[..., Called]


def client(*failures: httpx.Response | BaseException, time: FakeTime) -> OpenAICompatible:
    return scripted_server(*failures, GOOD, time=time)


def wrapper(*failures: Exception, time: FakeTime) -> WrappedModel:
    return retrying(ScriptedModel([*failures, CHAT_REPLY]), clock=time.clock)


# ---- a client, and a model with retries


TRANSIENT = [errors.RateLimitError("slow"), errors.ModelConnectionError("reset"), errors.ModelTimeoutError("slow")]


@all_modes
@cases(
    ("make", "failure"),
    *((wrapper, error) for error in (DOWN, *TRANSIENT)),
    *((client, failure) for failure in (*BUSY, httpx.ConnectError("refused"), httpx.ReadError("reset"))),
)
def test_transient_errors_are_retried_after_growing_waits(ask: Ask, make: Make, failure: Any) -> None:
    time = FakeTime()
    with record_reports() as reports:
        assert ask(make(failure, failure, time=time)) == CHAT_REPLY
    first, second = time.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0
    # Each retry is reported.
    retries = [one for one in reports if isinstance(one, Retried)]
    assert [(one.attempt, one.wait) for one in retries] == [(1, first), (2, second)]
    for error, shown in ((DOWN, "ServerError: 503: busy"), (errors.ServerError(""), "ServerError")):
        assert str(Retried(error, 1, 0.46)) == f"attempt 1 failed with {shown}; the next one follows in 0.5 s"
    assert len(reports) == 2
    assert all(isinstance(one.error, errors.ModelError) for one in retries)
    assert make is client or [one.error for one in retries] == [failure, failure]


QUOTA = httpx.Response(429, json={"error": {"code": "insufficient_quota", "message": "pay"}})


@all_modes
@cases(
    ("make", "failure", "kind"),
    *((wrapper, error, type(error)) for error in (errors.BadRequestError("no"), errors.InvalidReplyError("hm"))),
    (wrapper, ValueError("a bug"), ValueError),
    (client, httpx.Response(400), errors.BadRequestError),
    (client, httpx.Response(200, content=b"hm"), errors.InvalidReplyError),
    (client, httpx.ReadTimeout("slow"), errors.ModelTimeoutError),
    (client, QUOTA, errors.RateLimitError),
    (client, asyncio.CancelledError(), asyncio.CancelledError),
)
def test_permanent_errors_are_raised_at_once(ask: Ask, make: Make, failure: Any, kind: type[BaseException]) -> None:
    time = FakeTime()
    with pytest.raises(kind) as caught, record_reports() as reports:
        ask(make(failure, time=time))
    assert time.slept == reports == []
    assert make is client or caught.value is failure


@all_modes
@cases(
    ("make", "failure", "wait"),
    *((wrapper, busy(wait), wait) for wait in (0.0, 7.0, 60.0)),
    *((client, busy_response(f"{wait:g}"), wait) for wait in (0.0, 7.0, 60.0)),
    (client, busy_response("Thu, 01 Jan 1970 00:17:10 GMT"), 30.0),
)
def test_server_determines_the_wait(ask: Ask, make: Make, failure: Any, wait: float) -> None:
    time = FakeTime()
    assert ask(make(failure, time=time)) == CHAT_REPLY
    assert time.slept == [wait]


# Above a minute, or beyond the timeout.
@all_modes
@cases(("seconds", "timeout", "slept"), (61, None, []), (7, 10, [7]))
@cases(("make", "fail"), (wrapper, busy), (client, busy_response))
def test_too_long_wait_is_not_started(
    ask: Ask, make: Make, fail: Callable[[int], Any], seconds: int, timeout: float | None, slept: list[float]
) -> None:
    time = FakeTime()
    with pytest.raises(errors.RateLimitError) as caught:
        ask(make(fail(seconds), fail(seconds), time=time), timeout=timeout)
    assert (time.slept, caught.value.retry_after) == (slept, seconds)


# ---- a client


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


def broken_after(body: bytes) -> httpx.Response:
    return sse(body, error=httpx.RemoteProtocolError("peer closed connection"))


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

    slow: list[Callable[[Any], httpx.Response]] = [lambda _: httpx.Response(200, content=pieces())] * 2
    with pytest.raises(errors.ModelTimeoutError, match="within 5 s"):
        stream_blocking(scripted_server(*slow, time=time), timeout=5)
    assert stream_blocking(scripted_server(*slow, time=time), timeout=50) == CHAT_REPLY


# ---- a model with retries


@all_modes
def test_last_error_is_raised(ask: Ask) -> None:
    last = errors.ServerError("the last")
    scripted = ScriptedModel([DOWN, DOWN, last, "never asked for"])
    with record_reports() as reports, pytest.raises(errors.ServerError) as caught:
        ask(retrying(scripted, attempts=3, clock=FakeTime().clock))
    assert caught.value is last
    assert len(scripted.requests) == 3
    assert len(reports) == 2, "no wait follows the last attempt"
    time = FakeTime()
    with pytest.raises(errors.ServerError, match="503: busy"):
        ask(scripted_server(BUSY[1], BUSY[3], BUSY[2], GOOD, time=time))
    assert len(time.slept) == 2


@all_modes
def test_retried_errors_can_be_selected(ask: Ask) -> None:
    options: dict[str, Any] = {"on": (errors.InvalidReplyError,), "clock": FakeTime().clock}
    assert ask(retrying(ScriptedModel([errors.InvalidReplyError("hm"), "fine"]), **options)).content == "fine"
    with pytest.raises(errors.ServerError):
        ask(retrying(ScriptedModel([DOWN]), **options))


@all_modes
def test_function_selects_errors_and_waits_grow_by_a_factor(ask: Ask) -> None:
    time, failures = FakeTime(), ScriptedModel([DOWN] * 4 + ["up"])
    waits: dict[str, Any] = {"attempts": 5, "first_wait": 1.0, "longest_wait": 50.0, "factor": 5, "jitter": 0.0}
    model = retrying(failures, on=lambda error: "busy" in str(error), clock=time.clock, **waits)
    assert (ask(model).content, time.slept) == ("up", [1, 5, 25, 50])
    with pytest.raises(errors.ServerError):
        ask(retrying(ScriptedModel([DOWN]), on=lambda _: False))


@cases(
    ("option", "value", "words"),
    ("factor", 0.5, "a number from 1 .* to 10"),
    ("jitter", 2, "a number from 0 to 1"),
    ("on", ValueError, "a tuple of classes of exceptions, or a function"),
)
def test_wrong_options_of_retries_are_refused(option: str, value: object, words: str) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(errors.InputError, match=f"retrying has {option}=.*; give {words}"):
        retrying(ScriptedModel([]), **options)


@all_modes
def test_each_attempt_has_the_remaining_time(ask: Ask) -> None:
    time = FakeTime()
    inner = Typewriter([errors.RateLimitError("", retry_after=3), "up"], time, takes=1.0)
    assert ask(retrying(inner, clock=time.clock), timeout=10).content == "up"
    assert inner.timeouts == [10, 6]


@both_streams
def test_stream_is_retried_only_before_first_piece(ask: Ask) -> None:
    time = FakeTime()
    inner = Typewriter([DOWN, ("ha", DOWN), "never asked for"], time)
    with record_reports() as reports, pytest.raises(errors.ServerError):
        ask(retrying(inner, clock=time.clock))
    assert inner.handed_out == "ha"
    assert len(reports) == len(inner.timeouts) - 1 == 1


@all_modes
@cases("error", KeyboardInterrupt(), asyncio.CancelledError())
def test_cancelled_or_interrupted_call_is_not_retried(ask: Ask, error: BaseException) -> None:
    scripted = ScriptedModel([error, "never"])
    with pytest.raises(type(error)):
        ask(retrying(scripted, on=(Exception,)))
    assert len(scripted.requests) == 1


def test_closing_a_stream_closes_the_inner_stream() -> None:
    inner = Typewriter(["hello", "hello"])
    pieces = retrying(inner).stream(HELLO)
    assert next(pieces) == ReplyDelta("h")
    pieces.close()
    assert (inner.handed_out, inner.closed) == ("h", 1)

    async def run() -> None:
        pieces = retrying(inner).astream(HELLO)
        assert await anext(pieces) == ReplyDelta("h")
        await pieces.aclose()

    asyncio.run(run())
    assert (inner.handed_out, inner.closed) == ("hh", 2)


@given(attempts=st.integers(1, 8), failures=st.integers(0, 10), longest=st.floats(0, 20))
def test_attempts_and_waits_respect_their_limits(attempts: int, failures: int, longest: float) -> None:
    time = FakeTime()
    scripted = ScriptedModel([DOWN] * failures + ["up"])
    model = retrying(scripted, attempts=attempts, longest_wait=longest, clock=time.clock)
    if failures < attempts:
        assert model.complete(HELLO).content == "up"
    else:
        with pytest.raises(errors.ServerError):
            model.complete(HELLO)
    assert len(scripted.requests) == min(failures + 1, attempts)
    assert len(time.slept) == len(scripted.requests) - 1
    assert all(wait <= min(longest, 0.5 * 2**number) for number, wait in enumerate(time.slept))


@both_streams
@cases("way", "stream", "astream")
def test_model_may_have_only_one_stream_method(ask: Ask, way: str) -> None:
    inner = Typewriter(["hello"])
    half: Any = SimpleNamespace(**{name: getattr(inner, name) for name in ("complete", "acomplete", way)})
    assert ask(retrying(half)).content == "hello"
    assert inner.handed_out == ("hello" if (way == "stream") == (ask is stream_blocking) else "")


@all_modes
@cases("reply", "a text", None)
def test_invalid_return_value_is_an_error(ask: Ask, reply: Any) -> None:
    class Wrong:
        def complete(self, request: ModelRequest, *, timeout: float | None = None) -> Any:
            return reply

        async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> Any:
            return reply

    with pytest.raises(errors.InvalidReplyError, match=r"the model Wrong returned .*; return a ModelReply"):
        ask(retrying(Wrong()))


def test_abandoned_call_is_not_retried() -> None:
    asked, ended = threading.Event(), threading.Event()
    calls: list[ModelRequest] = []

    def fail(request: ModelRequest) -> ModelReply:
        calls.append(request)
        asked.set()
        raise errors.ServerError("down")

    model = retrying(FunctionModel(fail), attempts=5, first_wait=60.0, longest_wait=60.0)

    def call() -> None:
        try:
            model.complete(HELLO)
        finally:
            ended.set()

    with open_cancel_scope() as scope:
        future = start_in_thread(call, scope)
        assert asked.wait(10)
    # The call would sleep for at least half a minute.
    assert ended.wait(10)
    assert isinstance(future.exception(10), errors.AbandonedError)
    assert len(calls) == 1
