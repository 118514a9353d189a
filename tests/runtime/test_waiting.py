"""Waiting for calls: late ones are abandoned, excess ones wait, and failures are raised."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.effects import CallTool, ToolResult, agent_limits
from graphexec.errors import AbandonedError
from graphexec.kernel.meters import GRACE
from graphexec.runtime import arun, make_run_context, run
from graphexec.runtime.handlers import handlers_for
from graphexec.runtime.loop import TURN
from graphexec.runtime.tasks import await_all, await_for, call_in_thread
from graphexec.runtime.threads import (
    NOT_DONE,
    open_cancel_scope,
    run_on_own_loop,
    start_in_thread,
    wait_for,
    wait_for_all,
)
from tests.drivers import ALL_DRIVERS, LIVE, Driver, Script
from tests.kernel.machines import (
    INTERVIEW,
    PROMPTS,
    SURVEY,
    Interview,
    Prompt,
    Question,
    Stopped,
    Survey,
    Topic,
    Topics,
    model_of,
    reporter,
)
from tests.parameters import cases

# Long enough for a thread to be started on a busy machine, short enough to wait for.
SOON = 0.03
# Never reached if a test passes.
LONG = 30.0


@pytest.fixture
def over() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def join(threads: set[threading.Thread]) -> None:
    for thread in threads:
        thread.join(LONG)


# ---- a single call


def test_a_call_that_comes_in_time_is_returned() -> None:
    assert wait_for(lambda: 3, LONG) == 3


def test_late_call_is_abandoned(over: threading.Event) -> None:
    assert wait_for(over.wait, SOON) is NOT_DONE


@cases("seconds", [0.0, -1.0])
def test_without_time_nothing_is_begun(seconds: float) -> None:
    begun: list[int] = []
    assert wait_for(lambda: begun.append(1), seconds) is NOT_DONE
    assert wait_for_all([lambda: begun.append(1)] * 2, seconds, at_once=2) == (NOT_DONE, NOT_DONE)
    assert begun == []


def test_far_future_deadline_is_accepted() -> None:
    assert wait_for(lambda: 3, 1e300) == 3
    assert wait_for_all([lambda: 3], 1e300, at_once=1) == (3,)


@cases("raised", [TimeoutError("mine"), KeyError("x"), StopIteration("x"), SystemExit(3)])
def test_exception_of_a_call_is_raised(raised: BaseException) -> None:
    def fail() -> None:
        raise raised

    for waiting in (
        lambda: wait_for(fail, LONG),
        lambda: wait_for_all([fail], None, at_once=1),
        lambda: wait_for_all([fail, fail], LONG, at_once=2),
    ):
        with pytest.raises(type(raised)) as caught:
            waiting()
        assert caught.value is raised


def test_wait_ends_when_the_caller_is_cancelled(over: threading.Event) -> None:
    begun = threading.Event()

    def hang() -> None:
        begun.set()
        over.wait(LONG)

    with open_cancel_scope() as scope:
        waiting = start_in_thread(lambda: wait_for(hang, LONG), scope)
        assert begun.wait(LONG)
    with pytest.raises(AbandonedError):
        waiting.result(LONG / 2)


# ---- several calls


def test_no_calls_are_done_at_once() -> None:
    assert wait_for_all([], None, at_once=3) == ()
    assert asyncio.run(await_all([], None, at_once=3)) == ()
    assert asyncio.run(await_all([], SOON, at_once=3)) == ()


@given(count=st.integers(0, 12), at_once=st.integers(1, 15), seconds=st.sampled_from([None, LONG]))
def test_results_come_in_the_order_of_the_calls(count: int, at_once: int, seconds: float | None) -> None:
    calls = [partial(int, number) for number in range(count)]
    assert wait_for_all(calls, seconds, at_once=at_once) == tuple(range(count))

    async def soon(number: int) -> int:
        # Later calls end first.
        for _ in range(count - number):
            await asyncio.sleep(0)
        return number

    async def together() -> tuple[Any, ...]:
        return await await_all([soon(number) for number in range(count)], seconds, at_once=at_once)

    assert asyncio.run(together()) == tuple(range(count))


class Crowd:
    """Counts who is inside at the same time; a guest leaves when so many have been in together."""

    def __init__(self, at_once: int) -> None:
        self.barrier = threading.Barrier(at_once)
        self.lock = threading.Lock()
        self.inside = self.most = 0

    def visit(self) -> None:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.barrier.wait(LONG)
        with self.lock:
            self.inside -= 1


@cases("at_once", [1, 2, 5])
def test_exactly_at_once_calls_run_concurrently(at_once: int) -> None:
    crowd = Crowd(at_once)
    wait_for_all([crowd.visit] * (at_once * 3), None, at_once=at_once)
    assert crowd.most == at_once
    crowd = Crowd(at_once)

    async def together() -> None:
        await await_all([call_in_thread(crowd.visit) for _ in range(at_once * 3)], None, at_once=at_once)

    asyncio.run(together())
    assert crowd.most == at_once


@cases("driver", LIVE)
def test_batch_runs_at_most_at_once_effects(driver: Driver) -> None:
    crowd = Crowd(3)

    def survey(call: CallTool) -> ToolResult:
        crowd.visit()
        return ToolResult(call.name)

    topics = tuple(str(number) for number in range(9))
    result = driver(Script(SURVEY, Topics(topics), make_run_context({CallTool: survey}, at_once=3)))
    assert result.outcome == Survey(tuple(ToolResult(name) for name in topics))
    assert crowd.most == 3


@pytest.mark.parametrize("at_once", [1, 2, 9])
@pytest.mark.parametrize("seconds", [None, LONG])
def test_first_error_abandons_the_other_calls(at_once: int, seconds: float | None, over: threading.Event) -> None:
    begun = threading.Event()

    def block() -> None:
        begun.set()
        over.wait()

    def fail() -> None:
        if at_once > 1:
            begun.wait(LONG)
        raise ValueError("first")

    calls: list[Callable[[], None]] = [fail, block] if at_once == 1 else [block, fail]
    with pytest.raises(ValueError, match="first"):
        wait_for_all(calls * 2, seconds, at_once=at_once)


def test_unstarted_call_never_starts_after_timeout(over: threading.Event) -> None:
    before = set(threading.enumerate())
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        over.wait()

    assert wait_for_all([partial(work, number) for number in range(4)], SOON, at_once=2) == (NOT_DONE,) * 4
    over.set()
    join(set(threading.enumerate()) - before)
    assert sorted(begun) == [0, 1]


def test_late_result_is_not_taken(over: threading.Event) -> None:
    results = wait_for_all([lambda: over.wait() or 1, lambda: 2], SOON, at_once=2)
    over.set()
    assert results == (NOT_DONE, 2)


# ---- async


def test_late_async_call_is_cancelled() -> None:
    cancelled: list[bool] = []

    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    assert asyncio.run(await_for(wait(), SOON)) is NOT_DONE
    assert cancelled == [True]


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
        result = await await_for(stubborn(release), SOON)
        took = loop.time() - begun
        release.set()
        return result, took

    result, took = asyncio.run(both())
    assert result is NOT_DONE
    # Not before the grace is over; how long after depends on the machine.
    assert took >= SOON + GRACE - 0.01


def test_failure_of_abandoned_task_is_ignored() -> None:
    lost: list[Any] = []

    async def spiteful() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise ValueError("spite") from None

    async def watched() -> object:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
        return await await_for(spiteful(), SOON)

    assert asyncio.run(watched()) is NOT_DONE
    gc.collect()
    assert lost == []


def test_unstarted_calls_leave_no_warning() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    async def together() -> tuple[object, ...]:
        return await await_all([wait() for _ in range(3)], SOON, at_once=1)

    assert asyncio.run(together()) == (NOT_DONE,) * 3
    assert asyncio.run(await_all([wait() for _ in range(3)], 0, at_once=2)) == (NOT_DONE,) * 3
    gc.collect()


def test_timeout_error_of_an_async_call_is_raised() -> None:
    async def fail() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(await_for(fail(), LONG))
    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(await_all([fail(), fail()], None, at_once=2))


def test_stop_iteration_in_a_thread_becomes_runtime_error() -> None:
    def fail() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        asyncio.run(call_in_thread(fail))


@cases("driver", ALL_DRIVERS)
def test_stop_iteration_of_a_handler_raises(driver: Driver) -> None:
    empty: Iterator[str] = iter(())
    with pytest.raises((RuntimeError, StopIteration)):
        driver(Script(INTERVIEW, Topic("tea"), make_run_context({Question: lambda _: next(empty)})))


def test_cancelling_a_run_cancels_its_calls() -> None:
    cancelled: list[str] = []

    async def cancel_run(value: Any, machine: Any, seconds: float | None) -> None:
        from graphexec import Limits

        begun = asyncio.Event()

        async def answer(effect: Any) -> Any:
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                cancelled.append(type(effect).__name__)
                raise

        made = make_run_context({Question: answer, CallTool: answer}, limits=Limits(seconds=seconds))
        task = asyncio.create_task(arun(machine, value, made))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        from graphexec import snapshot_of

        assert snapshot_of(caught.value) is not None

    asyncio.run(cancel_run(Topic("tea"), INTERVIEW, None))
    asyncio.run(cancel_run(Topic("tea"), INTERVIEW, LONG))
    asyncio.run(cancel_run(Topics(("a", "b")), SURVEY, None))
    assert cancelled == ["Question", "Question", "CallTool", "CallTool"]


def test_cancelling_an_async_run_abandons_its_thread(over: threading.Event) -> None:
    async def cancel_run() -> None:
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()

        def answer(question: Question) -> str:
            loop.call_soon_threadsafe(begun.set)
            over.wait()
            return "too late"

        task = asyncio.create_task(arun(INTERVIEW, Topic("tea"), make_run_context({Question: answer})))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_run())
    # The loop is closed when the call ends: nothing is delivered or reported.
    over.set()


def test_late_thread_of_cancelled_run_is_ignored(over: threading.Event) -> None:
    before = set(threading.enumerate())
    lost: list[Any] = []

    async def cancel_and_stay() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: lost.append(context))
        waiting = asyncio.create_task(call_in_thread(over.wait))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        over.set()
        join(set(threading.enumerate()) - before)
        # The loop handles the thread's callback in its next iteration.
        await asyncio.sleep(0)

    asyncio.run(cancel_and_stay())
    assert lost == []


def test_busy_async_run_yields_to_other_tasks() -> None:
    from graphexec import Limits
    from graphexec.effects import CallModel
    from graphexec.executor.handlers import make_model_handler
    from graphexec.messages import ModelReply, ModelRequest, Usage
    from graphexec.runtime import RunContext
    from graphexec.runtime.handlers import Handler

    class Instant:
        instant = True

        def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
            return ModelReply("so")

        async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
            raise AssertionError("it is instant")

    handler: Handler = make_model_handler(Instant())
    made = RunContext({CallModel: handler}, agent_limits(model_calls=TURN * 5))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def together() -> Stopped:
        task = asyncio.create_task(others())
        done = await arun(PROMPTS, Prompt(), made)
        task.cancel()
        return done.outcome

    assert asyncio.run(together()).at == Prompt(TURN * 5)
    assert turns >= 5
    assert model_of(Usage(), Limits()).at_once == 64


# ---- context variables

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="no one")


@cases("seconds", [None, LONG])
@cases("driver", ALL_DRIVERS)
def test_context_variables_reach_the_handlers(driver: Driver, seconds: float | None) -> None:
    from graphexec import Limits

    seen: list[str] = []

    def survey(call: CallTool) -> ToolResult:
        seen.append(WHO.get())
        return ToolResult(call.name)

    async def asurvey(call: CallTool) -> ToolResult:
        return survey(call)

    token = WHO.set("me")
    try:
        for answer in (survey, asurvey):
            for topics in (("a",), ("a", "b")):
                driver(
                    Script(SURVEY, Topics(topics), make_run_context({CallTool: answer}, limits=Limits(seconds=seconds)))
                )
    finally:
        WHO.reset(token)
    assert seen == ["me"] * 6


@cases("driver", LIVE)
def test_batch_calls_have_separate_contexts(driver: Driver) -> None:
    seen: list[str] = []

    def survey(call: CallTool) -> ToolResult:
        seen.append(WHO.get())
        WHO.set(call.name)
        return ToolResult(call.name)

    driver(Script(SURVEY, Topics(("a", "b", "c")), make_run_context({CallTool: survey}, at_once=1)))
    assert seen == ["no one"] * 3
    assert WHO.get() == "no one"


# ---- running loops, and the end of the program


def test_async_handler_serves_a_sync_run() -> None:
    async def answer(question: Question) -> str:
        await asyncio.sleep(0)
        return "fine"

    async def notebook() -> object:
        return run(INTERVIEW, Topic("tea", 1), make_run_context({Question: answer})).outcome

    assert asyncio.run(notebook()) == Interview(("fine",))


def test_own_loop_raises_the_exception_of_the_call() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        run_on_own_loop(fail)


def test_abandoned_thread_does_not_delay_exit() -> None:
    program = """
        import threading
        from graphexec.runtime.threads import wait_for, wait_for_all

        wait_for(threading.Event().wait, 0.01)
        wait_for_all([threading.Event().wait] * 2, 0.01, at_once=1)
        print("the end")
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")


def test_threads_are_daemons_of_a_name() -> None:
    def here() -> tuple[bool, str]:
        thread = threading.current_thread()
        return thread.daemon, thread.name

    assert start_in_thread(here).result() == (True, "graphexec-call")


def test_functions_become_handlers() -> None:
    made = handlers_for({Question: lambda question: "fine"})
    assert handlers_for({Question: made[Question]})[Question] is made[Question]
    assert reporter().handlers.keys() == made.keys()


@cases("several", [1, 3])
def test_async_call_is_cancelled_with_its_sync_caller(several: int) -> None:
    cancelled = threading.Semaphore(0)

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.release()
            raise

    def call() -> None:
        run_on_own_loop(endless)

    if several == 1:
        assert wait_for(call, 0.05) is NOT_DONE
    else:
        assert wait_for_all([call] * several, 0.05, at_once=several) == (NOT_DONE,) * several
    for _ in range(several):
        assert cancelled.acquire(timeout=LONG)
