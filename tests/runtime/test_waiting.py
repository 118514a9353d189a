"""Waiting for calls: late ones are abandoned, failures are raised, and a cancelled run cancels its calls."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable
from functools import partial
from queue import Empty
from typing import Any

import pytest

from graphexec import Limits, errors, snapshot_of
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits
from graphexec.executor.handlers import make_model_handler
from graphexec.kernel.meters import GRACE
from graphexec.messages import ModelReply, ModelRequest, Usage
from graphexec.runtime import arun
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import ASYNC
from graphexec.runtime.loop import TURN
from graphexec.runtime.tasks import await_for, call_in_thread, run_on_own_loop
from graphexec.runtime.threads import NOT_DONE, get_within, open_cancel_scope, wait_for
from tests.drivers import LIVE, Driver, Script, make_run_context, options_of
from tests.kernel import machines as m
from tests.parameters import cases
from tests.runtime.actors import LONG, cancel_when, start_in_thread

# Long enough for a thread to be started on a busy machine, short enough to wait for.
SOON = 0.03


async def hang() -> None:
    """Wait without end."""
    await asyncio.get_running_loop().create_future()


# ---- a single call


def test_call_is_returned_in_time_or_abandoned(released: threading.Event) -> None:
    begun: list[int] = []
    assert [wait_for(lambda: 3, seconds) for seconds in (LONG, 1e300)] == [3, 3]
    assert wait_for(released.wait, SOON) is NOT_DONE
    assert [wait_for(lambda: begun.append(1), seconds) for seconds in (0.0, -1.0)] == [NOT_DONE] * 2
    assert begun == []


@cases("raised", TimeoutError("mine"), KeyError("x"), StopIteration("x"), SystemExit(3))
def test_exception_of_a_call_is_raised(raised: BaseException) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(type(raised)) as caught:
        wait_for(fail, LONG)
    assert caught.value is raised


def test_wait_ends_when_the_caller_is_cancelled(released: threading.Event) -> None:
    begun = threading.Event()

    def hang() -> None:
        begun.set()
        released.wait(LONG)

    with open_cancel_scope() as scope:
        waiting = start_in_thread(lambda: wait_for(hang, LONG), scope)
        assert begun.wait(LONG)
    with pytest.raises(errors.AbandonedError):
        waiting.result(LONG / 2)


# ---- async


def test_stubborn_coroutine_is_abandoned_within_the_grace() -> None:
    async def stubborn(release: asyncio.Event) -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    async def both() -> tuple[object, float]:
        release = asyncio.Event()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        result = await await_for(partial(stubborn, release), SOON)
        took = loop.time() - begun
        release.set()
        return result, took

    result, took = asyncio.run(both())
    assert result is NOT_DONE
    # Not before the grace is over; how long after depends on the machine.
    assert took >= SOON + GRACE - 0.01


async def fail() -> None:
    raise TimeoutError("mine")


@cases(
    ("waiting", "error", "says"),
    (lambda: asyncio.run(await_for(fail, LONG)), TimeoutError, "mine"),
    (lambda: asyncio.run(call_in_thread(lambda: next(iter(())))), RuntimeError, "raised StopIteration"),
    (lambda: run_on_own_loop(fail), TimeoutError, "mine"),
)
def test_exception_of_an_async_call_is_raised(waiting: Callable[[], object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        waiting()


@cases(
    ("machine", "value", "seconds", "effects"),
    (m.INTERVIEW, m.Topic("tea"), None, ["Question"]),
    (m.INTERVIEW, m.Topic("tea"), LONG, ["Question"]),
    (m.SURVEY, m.Topics(("a", "b")), None, ["CallTool", "CallTool"]),
)
def test_cancelled_run_cancels_its_calls(machine: Any, value: Any, seconds: float | None, effects: list[str]) -> None:
    cancelled: list[str] = []

    async def cancel_run() -> None:
        begun = asyncio.Event()

        async def answer(effect: Any) -> Any:
            begun.set()
            try:
                await hang()
            except asyncio.CancelledError:
                cancelled.append(type(effect).__name__)
                raise

        made = make_run_context({m.Question: answer, CallTool: answer}, limits=Limits(seconds=seconds))
        caught = await cancel_when(begun.wait(), arun(machine, value, **options_of(made)))
        assert snapshot_of(caught) is not None

    asyncio.run(cancel_run())
    assert cancelled == effects


def test_busy_async_run_yields_to_other_tasks() -> None:
    class Instant:
        instant = True

        def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
            return ModelReply("so")

        async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
            raise AssertionError("it is instant")

    handler: Handler = make_model_handler(Instant())
    made = make_run_context({CallModel: handler}, limits=agent_limits(model_calls=TURN * 5))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def together() -> m.Stopped:
        task = asyncio.create_task(others())
        done = await arun(m.PROMPTS, m.Prompt(), **options_of(made))
        task.cancel()
        return done.outcome

    assert asyncio.run(together()).at == m.Prompt(TURN * 5)
    assert turns >= 5
    assert m.model_of(Usage(), Limits()).at_once == 64


# ---- context variables

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="no one")


@cases("driver", *LIVE)
def test_batch_calls_have_separate_contexts(driver: Driver) -> None:
    seen: list[str] = []

    def survey(call: CallTool) -> ToolResult:
        seen.append(WHO.get())
        WHO.set(call.name)
        return ToolResult(call.name)

    token = WHO.set("me")
    try:
        for at_once in (1, 2):
            driver(Script(m.SURVEY, m.Topics(("a", "b", "c")), make_run_context({CallTool: survey}, at_once=at_once)))
        assert seen == ["me"] * 6
        assert WHO.get() == "me"
    finally:
        WHO.reset(token)


# ---- the end of the program


def test_threads_are_daemons_of_a_name() -> None:
    def here() -> tuple[bool, str]:
        thread = threading.current_thread()
        return thread.daemon, thread.name

    assert start_in_thread(here).result() == (True, "graphexec-call")


def test_no_wait_is_longer_than_its_time() -> None:
    """A wait looks for signals in between, and no later than it ends."""
    waits: list[float] = []

    class Silent:
        def get(self, *, timeout: float) -> None:
            waits.append(timeout)
            raise Empty

    queue: Any = Silent()
    with pytest.raises(Empty):
        get_within(queue, 0.01)
    assert 0 <= min(waits) <= max(waits) <= 0.01


def test_closed_items_are_closed_at_once() -> None:
    ended: list[str] = []

    async def count() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            ended.append("closed")

    async def main() -> None:
        items = ASYNC.iterate(list[int], count)
        assert await anext(items) == 1
        await items.aclose()
        assert ended == ["closed"]

    asyncio.run(main())
