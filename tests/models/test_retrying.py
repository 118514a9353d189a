"""A model with retries. No test waits: the clock is a fake."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import errors
from graphexec.errors import ModelTimeoutError, RateLimitError, ServerError
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta
from graphexec.models import FunctionModel, Retried, ScriptedModel, retrying
from graphexec.runtime.threads import open_cancel_scope, start_in_thread
from tests.models.actors import HELLO, FakeTime
from tests.models.call_modes import Ask, Typewriter, all_modes, both_streams, record_reports, stream_blocking
from tests.parameters import cases

DOWN = ServerError("503: busy")


TRANSIENT = [DOWN, RateLimitError("slow"), errors.ModelConnectionError("reset"), ModelTimeoutError("slow")]


@all_modes
@cases("error", TRANSIENT)
def test_transient_errors_are_retried_after_growing_waits(ask: Ask, error: errors.ModelError) -> None:
    time = FakeTime()
    model = retrying(ScriptedModel([error, error, "up"]), clock=time.clock)
    with record_reports() as reports:
        assert ask(model).content == "up"
    first, second = time.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0
    assert reports == [Retried(error, 1, first), Retried(error, 2, second)]


@all_modes
@cases("error", [errors.BadRequestError("no"), errors.InvalidReplyError("hm"), ValueError("a bug")])
def test_permanent_errors_are_raised_at_once(ask: Ask, error: Exception) -> None:
    time = FakeTime()
    with record_reports() as reports, pytest.raises(type(error)) as caught:
        ask(retrying(ScriptedModel([error]), clock=time.clock))
    assert caught.value is error
    assert (time.slept, reports) == ([], [])


@all_modes
def test_last_error_is_raised(ask: Ask) -> None:
    last = ServerError("the last")
    scripted = ScriptedModel([DOWN, DOWN, last, "never asked for"])
    with record_reports() as reports, pytest.raises(ServerError) as caught:
        ask(retrying(scripted, attempts=3, clock=FakeTime().clock))
    assert caught.value is last
    assert len(scripted.requests) == 3
    assert len(reports) == 2, "no wait follows the last attempt"


@all_modes
def test_retried_errors_can_be_selected(ask: Ask) -> None:
    options: dict[str, Any] = {"on": (errors.InvalidReplyError,), "clock": FakeTime().clock}
    assert ask(retrying(ScriptedModel([errors.InvalidReplyError("hm"), "fine"]), **options)).content == "fine"
    with pytest.raises(ServerError):
        ask(retrying(ScriptedModel([DOWN]), **options))


@all_modes
@cases("advised", [0.0, 7.0, 60.0])
def test_server_determines_the_wait(ask: Ask, advised: float) -> None:
    time = FakeTime()
    busy = RateLimitError("", retry_after=advised)
    assert ask(retrying(ScriptedModel([busy, "up"]), clock=time.clock)).content == "up"
    assert time.slept == [advised]


@all_modes
@cases(("advised", "timeout", "slept"), [(61, None, []), (6, 10, [6])])
def test_too_long_wait_is_not_started(ask: Ask, advised: float, timeout: float | None, slept: list[float]) -> None:
    time = FakeTime()
    busy = RateLimitError("busy", retry_after=advised)
    with pytest.raises(RateLimitError):
        ask(retrying(ScriptedModel([busy, busy, "late"]), clock=time.clock), timeout=timeout)
    assert time.slept == slept


@all_modes
def test_each_attempt_has_the_remaining_time(ask: Ask) -> None:
    time = FakeTime()
    inner = Typewriter([RateLimitError("", retry_after=3), "up"], time, takes=1.0)
    assert ask(retrying(inner, clock=time.clock), timeout=10).content == "up"
    assert inner.timeouts == [10, 6]


@both_streams
def test_stream_is_retried_only_before_first_piece(ask: Ask) -> None:
    time = FakeTime()
    inner = Typewriter([DOWN, ("ha", DOWN), "never asked for"], time)
    with record_reports() as reports, pytest.raises(ServerError):
        ask(retrying(inner, clock=time.clock))
    assert inner.handed_out == "ha"
    assert len(reports) == len(inner.timeouts) - 1 == 1


def test_cancelled_call_is_not_retried() -> None:
    asked = asyncio.Event()
    calls: list[ModelRequest] = []

    async def wait(request: ModelRequest) -> str:
        calls.append(request)
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets it")

    async def run() -> None:
        task = asyncio.create_task(retrying(FunctionModel(wait)).acomplete(HELLO))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert len(calls) == 1


def test_keyboard_interrupt_is_not_retried() -> None:
    scripted = ScriptedModel([KeyboardInterrupt(), "never"])
    with pytest.raises(KeyboardInterrupt):
        retrying(scripted, on=(Exception,)).complete(HELLO)
    assert len(scripted.requests) == 1


def test_closing_a_stream_closes_the_inner_stream() -> None:
    inner = Typewriter(["hello"])
    pieces = retrying(inner).stream(HELLO)
    assert next(pieces) == ReplyDelta("h")
    pieces.close()
    assert (inner.handed_out, inner.closed) == ("h", 1)


def test_closing_async_stream_closes_the_inner_stream() -> None:
    inner = Typewriter(["hello"])

    async def run() -> None:
        pieces = retrying(inner).astream(HELLO)
        assert await anext(pieces) == ReplyDelta("h")
        await pieces.aclose()

    asyncio.run(run())
    assert (inner.handed_out, inner.closed) == ("h", 1)


@given(attempts=st.integers(1, 8), failures=st.integers(0, 10), longest=st.floats(0, 20))
def test_attempts_and_waits_respect_their_limits(attempts: int, failures: int, longest: float) -> None:
    time = FakeTime()
    scripted = ScriptedModel([DOWN] * failures + ["up"])
    model = retrying(scripted, attempts=attempts, longest_wait=longest, clock=time.clock)
    if failures < attempts:
        assert model.complete(HELLO).content == "up"
    else:
        with pytest.raises(ServerError):
            model.complete(HELLO)
    assert len(scripted.requests) == min(failures + 1, attempts)
    assert len(time.slept) == len(scripted.requests) - 1
    assert all(wait <= min(longest, 0.5 * 2**number) for number, wait in enumerate(time.slept))


@both_streams
@cases("way", ["stream", "astream"])
def test_model_may_have_only_one_stream_method(ask: Ask, way: str) -> None:
    inner = Typewriter(["hello"])

    class Half:
        complete, acomplete = inner.complete, inner.acomplete

    setattr(Half, way, staticmethod(getattr(inner, way)))
    assert ask(retrying(Half())).content == "hello"
    assert inner.handed_out == ("hello" if (way == "stream") == (ask is stream_blocking) else "")


@all_modes
@cases("reply", ["a text", None])
def test_invalid_return_value_is_an_error(ask: Ask, reply: Any) -> None:
    class Wrong:
        def complete(self, request: ModelRequest, *, timeout: float | None = None) -> Any:
            return reply

        async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> Any:
            return reply

    with pytest.raises(errors.InvalidReplyError, match=r"the model Wrong returned .*; return a ModelReply"):
        ask(retrying(Wrong()))


@cases(
    ("error", "number", "shown"),
    [
        (DOWN, 1, "attempt 1 failed with ServerError: 503: busy"),
        (ServerError(""), 2, "attempt 2 failed with ServerError"),
    ],
)
def test_progress_is_readable(error: ServerError, number: int, shown: str) -> None:
    assert str(Retried(error, number, 0.46)) == f"{shown}; the next one follows in 0.5 s"


def test_abandoned_call_is_not_retried() -> None:
    asked, ended = threading.Event(), threading.Event()
    calls: list[ModelRequest] = []

    def fail(request: ModelRequest) -> ModelReply:
        calls.append(request)
        asked.set()
        raise ServerError("down")

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
