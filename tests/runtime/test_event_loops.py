"""Event loops: none, as under trio, and other ones than the run's, which give one clear error; and the background's."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphexec import AgentExecutor, messages, models, snapshot_of, tool, tools
from graphexec.errors import AbandonedError, EventLoopError
from graphexec.integrations import langchain
from graphexec.memory import BufferMemory, SQLiteHistory
from graphexec.runtime.background_loop import BACKGROUND, BackgroundLoop
from graphexec.runtime.tasks import OwnLoop
from graphexec.runtime.threads import NOT_DONE, current_cancel_scope, wait_for
from tests import garbage
from tests.executor.actors import act, answer, make_executor, run_async, run_sync
from tests.parameters import cases
from tests.runtime.actors import in_thread
from tests.stopwatch import eventually

REQUEST = messages.ChatRequest([messages.UserMessage("Hello")])

# Seconds: no test waits so long.
DEADLINE = 60.0


def executor_of(one: tools.AnyTool, **options: Any) -> AgentExecutor:
    return make_executor(act(one.name), answer(), tools=[one], **options)


def observed(executor: AgentExecutor, run: Callable[[AgentExecutor], Any] = run_async) -> str:
    return str(run(executor).steps[0].observation)


def weather(wait: Callable[[], Awaitable[Any]], **options: Any) -> AgentExecutor:
    """Return an executor of an agent whose tool awaits this."""

    @tool(**options)
    async def weather() -> str:
        """The weather."""
        return str(await wait())

    return executor_of(weather, max_execution_time=DEADLINE)


@tool
def look() -> str:
    """Look."""
    return "seen"


async def drain(items: AsyncIterable[Any]) -> list[Any]:
    return [item async for item in items]


def model() -> models.OpenAICompatible:
    return models.OpenAICompatible("small", base_url="http://127.0.0.1:9/v1", api_key="k")


def memory(folder: Path) -> BufferMemory:
    return BufferMemory(history=SQLiteHistory(folder / "history", conversation="me"))


ASYNC_CALLS: dict[str, Callable[[Path], Awaitable[Any]]] = {
    "arun": lambda _: executor_of(look).arun("q"),
    "ainvoke": lambda _: executor_of(look).ainvoke("q"),
    "abatch": lambda _: executor_of(look).abatch(["q", "r"]),
    "astream": lambda _: drain(executor_of(look).astream("q")),
    "astream_chunks": lambda _: drain(langchain.astream_chunks(executor_of(look), "q")),
    "astream_answer": lambda _: drain(executor_of(look).astream_answer("q")),
    "iter": lambda _: drain(langchain.iterate(executor_of(look), "q")),
    "within a time": lambda _: executor_of(look, max_execution_time=60).arun("q"),
    "acomplete": lambda _: model().acomplete(REQUEST),
    "model astream": lambda _: drain(model().astream(REQUEST)),
    "model aclose": lambda _: model().aclose(),
    "wrapper": lambda _: models.retrying(model()).acomplete(REQUEST),
    "wrapper astream": lambda _: drain(models.retrying(model()).astream(REQUEST)),
    "aload": lambda folder: memory(folder).aload({}),
    "asave": lambda folder: memory(folder).asave({"input": "q"}, {"output": "a"}),
}


def step(call: Callable[[Path], Awaitable[Any]], folder: Path) -> None:
    """Run a coroutine as another library does, which knows nothing of asyncio."""
    made: Any = call(folder)
    try:
        made.send(None)
    finally:
        made.close()
        # A coroutine that is never awaited is reported when it is collected.
        garbage.collect()


@cases("name", *ASYNC_CALLS)
def test_async_call_without_asyncio_says_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        EventLoopError,
        match=r"no event loop of asyncio runs it; call a sync method, .*trio\.to_thread",
    ):
        step(ASYNC_CALLS[name], tmp_path)


def test_sync_methods_need_no_event_loop() -> None:
    # As `trio.to_thread.run_sync` calls it.
    assert in_thread(lambda: executor_of(look).invoke("q")) == {"input": "q", "output": "done"}


@pytest.fixture
def other_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    asyncio.run_coroutine_threadsafe(_cancel_tasks(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def _cancel_tasks() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def hold(lock: asyncio.Lock) -> None:
    await lock.acquire()
    await lock.acquire()


async def await_in_condition(condition: asyncio.Condition) -> None:
    async with condition:
        await condition.wait()


async def await_future(future: asyncio.Future[Any]) -> Any:
    return await future


async def await_in_group(future: asyncio.Future[Any]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(await_future(future))


async def await_completed(future: asyncio.Future[Any]) -> None:
    for one in asyncio.as_completed([future]):
        await one


def make_bound(make: Callable[[], Any], wait: Callable[[Any], Awaitable[object]], again: Callable[[Any], Any]) -> Any:
    """Bind a lock or a queue to a loop, as a task there does that waits for it, and wait for it again."""

    def in_loop(loop: asyncio.AbstractEventLoop) -> Callable[[], Awaitable[Any]]:
        one, begun = make(), threading.Event()

        async def bind() -> None:
            task = asyncio.ensure_future(wait(one))
            await asyncio.sleep(0)
            begun.set()
            with suppress(asyncio.CancelledError):
                await task

        asyncio.run_coroutine_threadsafe(bind(), loop)
        assert begun.wait(10)
        return partial(again, one)

    return in_loop


def future_of_a_closed_loop(_: asyncio.AbstractEventLoop) -> Callable[[], Awaitable[Any]]:
    loop = asyncio.new_event_loop()
    future: asyncio.Future[str] = loop.create_future()
    loop.close()
    return lambda: future


# What a tool may await that belongs to another loop.
FOREIGN: dict[str, Callable[[asyncio.AbstractEventLoop], Callable[[], Awaitable[Any]]]] = {
    "future": lambda loop: partial(await_future, loop.create_future()),
    "closed loop": future_of_a_closed_loop,
    "gather": lambda loop: partial(asyncio.gather, loop.create_future()),
    "wait_for": lambda loop: partial(asyncio.wait_for, loop.create_future(), 60),
    "shield": lambda loop: partial(asyncio.shield, loop.create_future()),
    "group": lambda loop: partial(await_in_group, loop.create_future()),
    "as_completed": lambda loop: partial(await_completed, loop.create_future()),
    "lock": make_bound(asyncio.Lock, hold, asyncio.Lock.acquire),
    "semaphore": make_bound(lambda: asyncio.Semaphore(0), asyncio.Semaphore.acquire, asyncio.Semaphore.acquire),
    "event": make_bound(asyncio.Event, asyncio.Event.wait, asyncio.Event.wait),
    "queue": make_bound(asyncio.Queue, asyncio.Queue[Any].get, asyncio.Queue[Any].get),
    "condition": make_bound(asyncio.Condition, await_in_condition, await_in_condition),
}


def run_under_a_loop(executor: AgentExecutor) -> Any:
    async def main() -> Any:
        return executor.run("q")

    return asyncio.run(main())


def run_twice(executor: AgentExecutor) -> Any:
    # A pending future that was awaited in the wrong loop once gives another message of asyncio's.
    first = run_async(executor)
    assert first.steps[0].status == "error"
    return run_async(executor)


RUNS = [run_sync, run_async, run_under_a_loop, run_twice]
Run = Callable[[AgentExecutor], Any]


@pytest.mark.medium
@cases("run", *RUNS)
@cases("name", *FOREIGN)
def test_tool_that_awaits_another_loop_gets_error(name: str, run: Run, other_loop: asyncio.AbstractEventLoop) -> None:
    result = run(weather(FOREIGN[name](other_loop)))
    assert result.steps[0].observation == (
        "weather failed: EventLoopError: the tool weather awaited something that belongs to another event loop; "
        "create it in the function that awaits it"
    )
    assert result.spent.seconds < DEADLINE / 2


@cases("run", *RUNS[:3])
def test_raised_error_names_its_cause(run: Run, other_loop: asyncio.AbstractEventLoop) -> None:
    future: asyncio.Future[str] = other_loop.create_future()
    with pytest.raises(EventLoopError, match="the tool weather awaited something") as raised:
        run(weather(lambda: future, on_error="raise"))
    assert isinstance(raised.value.__cause__, RuntimeError)
    assert snapshot_of(raised.value) is not None


def test_error_is_retried_as_the_runtime_error_that_it_is(other_loop: asyncio.AbstractEventLoop) -> None:
    calls: list[int] = []

    def wait() -> Awaitable[Any]:
        calls.append(1)
        return other_loop.create_future()

    run_async(weather(wait, retries=1, retry_on=RuntimeError))
    assert len(calls) == 2


@cases(
    ("run", "says"),
    *((run, "the tool weather needs an event loop and ran in a thread without one; write an") for run in RUNS[:2]),
    # A sync call in the thread of the loop finds it.
    (run_under_a_loop, "EventLoop"),
)
def test_function_that_needs_a_loop_must_be_async(run: Run, says: str) -> None:
    @tool
    def weather() -> str:
        """The weather."""
        return str(asyncio.get_running_loop())

    assert says in observed(executor_of(weather), run)


@cases("run", *RUNS[:3])
def test_other_awaits_of_a_tool_stay_as_they_are(run: Run, other_loop: asyncio.AbstractEventLoop) -> None:
    async def fail() -> str:
        raise RuntimeError("no rain")

    async def wrap() -> str:
        future = asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "rain"), other_loop)
        return await asyncio.wrap_future(future)

    async def run_within() -> str:
        return observed(weather(lambda: asyncio.sleep(0, "inside")), run_sync)

    found = [observed(weather(wait), run) for wait in (fail, wrap, run_within)]
    assert found == ["weather failed: RuntimeError: no rain", "rain", "inside"]


@cases("run", *RUNS[:3])
def test_model_of_an_agent_gets_the_error(run: Run, other_loop: asyncio.AbstractEventLoop) -> None:
    async def decide(steps: Any, inputs: Any) -> Any:
        del steps, inputs
        return await await_future(other_loop.create_future())

    with pytest.raises(EventLoopError, match=r"the handler of CallAgent awaited something that belongs") as raised:
        run(AgentExecutor(agent=decide, tools=[]))
    assert snapshot_of(raised.value) is not None


class KeptConnection(httpx.AsyncBaseTransport):
    """A transport whose connection belongs to the loop of its first request, as those of a pool do."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        future = self.loop.create_future()
        self.loop.call_soon(future.set_result, None)
        await future
        return httpx.Response(200, json={"choices": [{"message": {"content": "Hello"}}]}, request=request)


def test_shared_async_client_under_two_loops_gets_an_error() -> None:
    client = httpx.AsyncClient(transport=KeptConnection())
    shared = models.OpenAICompatible("small", base_url="http://127.0.0.1:9/v1", api_key="k", async_client=client)
    assert asyncio.run(shared.acomplete(REQUEST)).content == "Hello"
    with pytest.raises(EventLoopError, match="the async_client of small used something of an event loop"):
        asyncio.run(shared.acomplete(REQUEST))


# ---- the loop in the background: async functions for blocking callers

PLACE: ContextVar[str] = ContextVar("place")


async def count(ended: threading.Event) -> AsyncGenerator[int, None]:
    try:
        for number in range(3):
            yield number
        await asyncio.sleep(60)
    finally:
        ended.set()


def test_all_calls_run_on_one_loop_in_the_callers_context() -> None:
    async def tell() -> tuple[str, int]:
        return PLACE.get(), id(asyncio.get_running_loop())

    PLACE.set("here")
    first, second = BACKGROUND.run(tell), BACKGROUND.run(tell)
    assert (first, first[0]) == (second, "here")


def test_error_is_raised_in_the_caller() -> None:
    async def fail() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        BACKGROUND.run(fail)


def test_closed_iteration_cancels_its_task() -> None:
    ended = threading.Event()
    items = BACKGROUND.iterate(lambda: count(ended))
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    items.close()
    assert ended.wait(10)


def test_cancelled_caller_cancels_its_task() -> None:
    ended = threading.Event()
    assert wait_for(lambda: list(BACKGROUND.iterate(lambda: count(ended))), 0.05) is NOT_DONE
    assert ended.wait(10)


def test_forked_process_has_a_loop_of_its_own() -> None:
    loop = BackgroundLoop()

    async def tell() -> int:
        return threading.get_ident()

    before = loop.run(tell)
    loop.reset_after_fork()
    assert loop.run(tell) != before


def test_loop_is_closed_though_its_caller_is_cancelled() -> None:
    own = OwnLoop()

    async def tell() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    loop = own.run(tell)

    def close_when_cancelled() -> None:
        scope = current_cancel_scope()
        assert scope is not None
        scope.cancel()
        own.close()

    with suppress(AbandonedError):
        wait_for(close_when_cancelled, 10)
    eventually(loop.is_closed)
