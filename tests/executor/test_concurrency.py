"""The tools of one step run concurrently, up to a limit; sync calls work under a running event loop."""

import asyncio
import contextvars
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from graphexec import AgentExecutor, Event, Failed, RunResult, models, tool
from tests.executor.actors import HOW, AnyTool, Running, act, answer, call, caller_of, make_executor
from tests.parameters import cases


@tool
def blocking(number: int) -> int:
    """Take ten milliseconds."""
    time.sleep(0.01)
    return number


@tool
async def awaiting(number: int) -> int:
    """Take ten milliseconds."""
    await asyncio.sleep(0.01)
    return number


@pytest.mark.medium
@HOW
@pytest.mark.parametrize("slow", [blocking, awaiting])
@pytest.mark.parametrize("limit", [None, 30.0])
def test_fifty_short_calls_run_concurrently(run: Running, slow: AnyTool, limit: float | None) -> None:
    batch = [act(slow.name, number=number) for number in range(50)]
    executor = make_executor(batch, answer(), tools=[slow], max_execution_time=limit)
    # The best of several attempts, compared with plain threads in case other programs keep this machine busy. One after
    # another they would take half a second.
    took, plainly = list[float](), list[float]()
    while not any(one < min(0.4, max(0.1, 3 * other)) for one, other in zip(took, plainly, strict=True)):
        assert len(took) < 20, (took, plainly)
        began = time.perf_counter()
        result = run(executor)
        took.append(time.perf_counter() - began)
        assert [step.observation for step in result.steps] == list(range(50))
        plainly.append(seconds_of_fifty_threads())


def seconds_of_fifty_threads() -> float:
    """Return the seconds that fifty plain threads take to sleep for ten milliseconds."""
    began = time.perf_counter()
    with ThreadPoolExecutor(50) as pool:
        list(pool.map(blocking.function, range(50)))
    return time.perf_counter() - began


def make_meeting_tool(kind: str, width: int) -> tuple[AnyTool, list[int]]:
    """Return a tool whose calls wait until `width` of them run, and the numbers of calls that ran concurrently."""
    barrier = threading.Barrier(width)
    lock = threading.Lock()
    inside = 0
    seen: list[int] = []

    def entering(by: int) -> None:
        nonlocal inside
        with lock:
            inside += by
            seen.append(inside)

    def meet_blocking(number: int) -> int:
        """Meet the others."""
        entering(1)
        barrier.wait(20)
        entering(-1)
        return number

    async def meet_awaiting(number: int) -> int:
        """Meet the others."""
        entering(1)
        while max(seen) < width:  # noqa: ASYNC110 - the others may be in other event loops
            await asyncio.sleep(0)
        entering(-1)
        return number

    return tool(name="meet")(meet_blocking if kind == "def" else meet_awaiting), seen


@pytest.mark.medium
@HOW
@pytest.mark.parametrize("limit", [None, 30.0])
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("width", [1, 3])
def test_concurrency_reaches_its_limit(run: Running, kind: str, width: int, limit: float | None) -> None:
    meet, seen = make_meeting_tool(kind, width)
    batch = [act("meet", number=number) for number in range(9)]
    options: Any = {"tool_concurrency": width, "max_execution_time": limit}
    result = run(make_executor(batch, answer(), tools=[meet], **options))
    assert [step.observation for step in result.steps] == list(range(9))
    assert max(seen) == width


def test_executor_is_shared_by_threads_and_tasks() -> None:
    turns = [[act("echo", text="a"), act("fail", text="b")], [], act("nope"), answer()]
    executor = make_executor(*turns, handle_parsing_errors=True)
    expected = executor.run("q")
    with ThreadPoolExecutor(8) as pool:
        results: Sequence[RunResult] = list(pool.map(executor.run, ["q"] * 40))

    async def gathered() -> list[RunResult]:
        return await asyncio.gather(*(executor.arun("q") for _ in range(40)))

    for result in [*results, *asyncio.run(gathered())]:
        assert result.ending == expected.ending
        assert result.steps is not expected.steps
        assert (result.spent.iterations, result.spent["tool_calls"]) == (4, 3)


# ---- sync calls where an event loop runs already, as in a notebook

USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


@tool
async def greet() -> str:
    """Greet the user."""
    await asyncio.sleep(0)
    return f"Hello, {USER.get()}."


def greeting(**options: Any) -> AgentExecutor:
    model = models.ScriptedModel([(call("greet", "c1"), call("greet", "c2")), "done"] * 4)
    return caller_of(model, greet, **options)


def invoke(executor: AgentExecutor) -> Any:
    found = executor.with_limits(executor.limits).invoke("?")
    assert found["output"] == "done"
    return found["intermediate_steps"]


USES: list[Callable[[AgentExecutor], Any]] = [
    lambda executor: executor.run("?").steps,
    invoke,
    lambda executor: list(executor.stream("?"))[-1].outcome.steps,  # type: ignore[union-attr]
]


@cases("limits", {}, {"max_execution_time": 60})
@cases("use", *USES)
def test_sync_call_works_under_a_running_loop(use: Callable[[AgentExecutor], Any], limits: Any) -> None:
    async def cell() -> list[str]:
        USER.set("Ada")
        return [observation for _, observation in use(greeting(return_intermediate_steps=True, **limits))]

    assert asyncio.run(cell()) == ["Hello, Ada."] * 2


def test_proof_and_picture_work_under_a_running_loop(tmp_path: Path) -> None:
    async def cell() -> None:
        executor = greeting()
        assert executor.verify().proved
        executor.draw(tmp_path / "machine.mmd")
        executor.run("?").draw(tmp_path / "run.mmd")

    asyncio.run(cell())
    assert {path.name for path in tmp_path.iterdir()} == {"machine.mmd", "run.mmd"}


@pytest.mark.medium
@cases("limits", {}, {"max_execution_time": 60})
def test_interrupt_reaches_an_async_tool(limits: Any) -> None:
    """A kernel interrupts a cell by the signal, in the thread that waits for the run."""
    cancelled = threading.Event()
    main = threading.get_ident()

    @tool
    async def wait() -> str:
        """Wait."""
        try:
            while True:
                # Again if it is not cancelled: Python may miss a signal just before the main thread blocks.
                signal.pthread_kill(main, signal.SIGINT)
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), 2)
        finally:
            cancelled.set()

    seen: list[Event[Any]] = []
    executor = caller_of(models.ScriptedModel([call("wait")]), wait, observers=[seen.append], **limits)

    async def cell() -> int:
        with pytest.raises(KeyboardInterrupt):
            executor.run("?")
        return len(asyncio.all_tasks())

    # Not `asyncio.run`, which would take the signal for its own task.
    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(cell()) == 1
    finally:
        loop.close()
    assert cancelled.wait(20)
    assert isinstance(seen[-1], Failed)
    assert isinstance(seen[-1].error, KeyboardInterrupt)
