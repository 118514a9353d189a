"""The tools of one step run concurrently, up to a limit; sync calls work under a running event loop."""

import asyncio
import contextvars
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from graphexec import AgentExecutor, Event, Failed, models, tool
from tests.executor.actors import HOW, WAYS, AnyTool, Running, act, answer, call, caller_of, make_executor, run_by
from tests.parameters import cases


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
@pytest.mark.parametrize("width", [1, 3, 50])
def test_concurrency_reaches_its_limit(run: Running, kind: str, width: int, limit: float | None) -> None:
    meet, seen = make_meeting_tool(kind, width)
    numbers = range(max(9, width))
    batch = [act("meet", number=number) for number in numbers]
    options: Any = {"tool_concurrency": width, "max_execution_time": limit}
    result = run(make_executor(batch, answer(), tools=[meet], **options))
    assert [step.observation for step in result.steps] == list(numbers)
    assert max(seen) == width


# ---- sync calls where an event loop runs already, as in a notebook

USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


def greeting(seen: list[str], **options: Any) -> AgentExecutor:
    """Return an executor whose tool is called twice in one step, and greets the user."""

    @tool
    async def greet() -> None:
        """Greet the user."""
        await asyncio.sleep(0)
        seen.append(f"Hello, {USER.get()}.")

    return caller_of(models.ScriptedModel([(call("greet", "c1"), call("greet", "c2")), "done"]), greet, **options)


@cases("limits", {}, {"max_execution_time": 60})
@cases("way", *(way for way in WAYS if not way.startswith("a")))
def test_sync_call_works_under_a_running_loop(way: str, limits: Any) -> None:
    seen: list[str] = []

    async def cell() -> None:
        USER.set("Ada")
        run_by(way, greeting(seen, **limits))

    asyncio.run(cell())
    assert seen == ["Hello, Ada."] * 2


def test_proof_and_picture_work_under_a_running_loop(tmp_path: Path) -> None:
    async def cell() -> None:
        executor = greeting([])
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
