"""No ending of a run leaves an exception or a coroutine for asyncio to report."""

import asyncio
import gc
import inspect
import logging
import sys
import threading
import warnings
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from graphexec import AgentExecutor, effects, runtime
from graphexec.integrations import langchain
from graphexec.runtime.tasks import call_in_thread, start
from graphexec.tools import AnyTool
from graphexec.tools.calling import make_tool_handler
from tests import garbage
from tests.executor.actors import HOW, Running, act, answer, call_of, scripted
from tests.parameters import cases
from tests.runtime.actors import tool_named
from tests.stopwatch import eventually

# Seconds that a run may take, in the scenarios that reach their deadline; and for which a test waits.
SOON, LONG = 0.02, 20.0


class LateError(Exception):
    """Raised by a tool, perhaps after its run."""


@dataclass
class World:
    """The events that the tools of one scenario share with it."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    released: threading.Event = field(default_factory=threading.Event)


def make_tools(world: World) -> dict[str, AnyTool]:
    loop = asyncio.get_running_loop()

    async def fails() -> str:
        world.begun.set()
        await asyncio.sleep(0)
        raise LateError("at once")

    async def fails_in_cleanup() -> str:
        world.begun.set()
        try:
            return str(await asyncio.Event().wait())
        finally:
            raise LateError("in cleanup")

    async def ignores_cancellation() -> str:
        world.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # Longer than the run waits for it.
            await call_in_thread(lambda: world.released.wait(0.1))
        raise LateError("later")

    def blocks() -> str:
        loop.call_soon_threadsafe(world.begun.set)
        world.released.wait(0.1)
        raise LateError("in a thread")

    def raises_cancellation() -> str:
        loop.call_soon_threadsafe(world.begun.set)
        raise asyncio.CancelledError

    def returns_coroutine() -> Any:
        loop.call_soon_threadsafe(world.begun.set)
        world.released.wait(0.1)
        return asyncio.sleep(0)

    made: Any = (fails, fails_in_cleanup, ignores_cancellation, blocks, raises_cancellation, returns_coroutine)
    return {one.__name__: tool_named(one.__name__, one) for one in made}


SEVERAL = ("fails", "fails_in_cleanup", "ignores_cancellation", "blocks")


def make_executor(world: World, names: tuple[str, ...], **options: Any) -> AgentExecutor:
    tools = make_tools(world)
    calls: Any = [act(name) for name in names]
    agent = scripted(calls if len(calls) > 1 else calls[0], answer())
    return AgentExecutor(agent=agent, tools=[tools[name] for name in names], **options)


Make = Callable[..., AgentExecutor]
Scenario = Callable[[Make, World], Awaitable[object]]


async def take_all(items: AsyncIterable[object]) -> None:
    async for _ in items:
        pass


async def cancel_when_begun(work: Coroutine[Any, Any, object], world: World) -> None:
    task = asyncio.ensure_future(work)
    begun = asyncio.ensure_future(world.begun.wait())
    await asyncio.wait([task, begun], return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    begun.cancel()
    await asyncio.gather(task, begun, return_exceptions=True)


async def leave(items: AsyncIterable[object]) -> None:
    """Leave a stream early, and close it not."""
    async for _ in items:
        break


@dataclass
class Refuse:
    """An observer whose errors may end the run."""

    raise_error: bool

    def __call__(self, event: object) -> None:
        raise LateError("an observer")


async def leave_streams(make: Make, _: World) -> None:
    await leave(make().astream("q"))
    await leave(make(max_execution_time=SOON).astream("q", tokens=True))
    await leave(langchain.astream_chunks(make(max_execution_time=SOON), "q"))


async def begin_no_stream(make: Make, _: World) -> None:
    make().astream("q")
    langchain.astream_chunks(make(), "q")
    make().astream_answer("q")


QUICKLY: dict[str, Any] = {"max_execution_time": SOON}
RAISING: dict[str, Any] = {**QUICKLY, "handle_tool_errors": "raise"}

SCENARIOS: dict[str, Scenario] = {
    "cancel a run": lambda make, world: cancel_when_begun(make().arun("q"), world),
    "cancel a timed run": lambda make, world: cancel_when_begun(make(max_execution_time=60).arun("q"), world),
    "reach the deadline": lambda make, _: make(**QUICKLY).arun("q"),
    "reach the deadline in a stream": lambda make, _: take_all(make(**QUICKLY).astream("q", tokens=True)),
    "end the run by an exception": lambda make, _: make(**RAISING).arun("q"),
    "wait for a run": lambda make, _: asyncio.wait_for(make().arun("q"), SOON),
    "cancel a stream": lambda make, world: cancel_when_begun(take_all(make().astream("q")), world),
    "cancel a stream of tokens": lambda make, world: cancel_when_begun(
        take_all(make().astream("q", tokens=True)), world
    ),
    "leave streams": leave_streams,
    "leave turns": lambda make, _: leave(langchain.iterate(make(**QUICKLY), "q")),
    "begin no stream": begin_no_stream,
    "cancel a batch": lambda make, world: cancel_when_begun(make().abatch(["a", "b", "c"], max_concurrency=2), world),
    "fail in a batch": lambda make, _: make(**RAISING).abatch(["a", "b", "c"], max_concurrency=2),
    "observe badly": lambda make, _: make(**QUICKLY, observers=[Refuse(raise_error=False)]).arun("q"),
    "end by an observer": lambda make, _: take_all(make(**QUICKLY, observers=[Refuse(raise_error=True)]).astream("q")),
}


# What a loop that is closed too early reports of any task, and since Python 3.13 of any async generator, also of those
# that the caller began.
OF_A_CLOSED_LOOP = ("Task was destroyed but it is pending", "coroutine method 'aclose' of ")


@contextmanager
def collect_messages(loop: asyncio.AbstractEventLoop) -> Generator[list[str], None, None]:
    """Collect what asyncio and Python report instead of raising it."""
    messages: list[str] = []
    # The handler outlives the scenario: a task is reported when it is collected.
    loop.set_exception_handler(lambda _, found: messages.append(f"{found['message']}: {found.get('exception')!r}"))
    hook = sys.unraisablehook
    sys.unraisablehook = lambda found: messages.append(f"{found.err_msg}: {found.exc_value!r} {found.object!r}")
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield messages
        messages += [str(warning.message) for warning in warned]
    finally:
        logger.removeHandler(handler)
        sys.unraisablehook = hook


@pytest.fixture(autouse=True, scope="module")
def _collects_fast() -> None:
    """Exclude what other tests have made from garbage collection, which each of these tests begins."""
    garbage.collect()
    gc.freeze()


def run_scenario(scenario: Scenario, names: tuple[str, ...], *, closes_early: bool = False) -> list[str]:
    """Run a scenario on a loop of its own; return the messages. The late tools end before or after the loop."""
    loop = asyncio.new_event_loop()
    world = World()

    def make(**options: Any) -> AgentExecutor:
        return make_executor(world, names, **options)

    async def main() -> None:
        await scenario(make, world)

    with collect_messages(loop) as messages:
        # An observer or a tool may end the run.
        with suppress(LateError, TimeoutError, asyncio.CancelledError):
            loop.run_until_complete(main())
        garbage.collect()
        if not closes_early:
            world.released.set()
            loop.run_until_complete(finish())
        loop.close()
        world.released.set()
        garbage.collect()
    return messages


async def finish() -> None:
    """Let the abandoned tasks end, and close the streams, as `asyncio.run` does."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        await asyncio.wait(left, timeout=1)
    left = {task for task in left if not task.done()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


@pytest.mark.medium
@cases("closes_early", False, True)
@cases("names", *((name,) for name in SEVERAL), ("raises_cancellation",), ("returns_coroutine",), SEVERAL)
@cases("scenario", *SCENARIOS)
def test_nothing_is_left_unretrieved(scenario: str, names: tuple[str, ...], closes_early: bool) -> None:
    messages = run_scenario(SCENARIOS[scenario], names, closes_early=closes_early)
    usual = OF_A_CLOSED_LOOP if closes_early else ()
    assert [message for message in messages if not any(one in message for one in usual)] == []


@cases("kind", "agent", "tool", "handler")
@HOW
def test_late_coroutine_is_closed(kind: str, run: Running) -> None:
    begun, released = threading.Event(), threading.Event()
    late: list[Coroutine[Any, Any, str]] = []

    def return_late(*_: Any) -> Coroutine[Any, Any, str]:
        begun.set()
        released.wait(LONG)
        late.append(asyncio.sleep(0, "late"))
        return late[0]

    slow = tool_named("slow", lambda: return_late() if kind == "tool" else "done")
    agent = return_late if kind == "agent" else scripted(act("slow"), answer())
    handlers: Any = {effects.CallTool: return_late} if kind == "handler" else None
    executor = AgentExecutor(agent=agent, tools=[slow], handlers=handlers, max_execution_time=SOON)
    # On a busy machine a run may end before its call begins.
    while not begun.is_set():
        assert run(executor, "?").reason == "seconds"
    released.set()
    eventually(lambda: late and inspect.getcoroutinestate(late[0]) == inspect.CORO_CLOSED)


def test_cleanup_may_fail_after_its_loop() -> None:
    async def begin() -> asyncio.Task[Any]:
        handler = make_tool_handler({"fails_in_cleanup": make_tools(World())["fails_in_cleanup"]})
        effect = effects.CallTool("fails_in_cleanup", {})
        task = start(lambda: handler.answer(effect, call_of(effect), runtime.ASYNC))
        await asyncio.sleep(0)
        return task

    loop = asyncio.new_event_loop()
    with collect_messages(loop):
        task = loop.run_until_complete(begin())
        loop.close()
        # As Python does at its exit, where it prints what this raises.
        coroutine: Any = task.get_coro()
        coroutine.close()
        del task, coroutine
        garbage.collect()


def test_messages_are_collected() -> None:
    async def forget(_make: Make, _world: World) -> None:
        async def fail() -> None:
            raise LateError

        asyncio.get_running_loop().create_task(fail())
        fail()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    messages = "\n".join(run_scenario(forget, ("fails",)))
    assert "Task exception was never retrieved" in messages
    assert "was never awaited" in messages
