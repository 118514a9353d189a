"""Sync calls work where an event loop runs already, as in a notebook, and an interrupt reaches them."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from graphexec import AgentExecutor, Progress, create_tool_calling_agent, tool
from graphexec.models import ScriptedModel
from tests.executor.actors import call
from tests.executor.test_progress import Shown, assert_no_ticker
from tests.parameters import cases

USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


@tool
async def greet() -> str:
    """Greet the user."""
    await asyncio.sleep(0)
    return f"Hello, {USER.get()}."


def greeting(**options: Any) -> AgentExecutor:
    model = ScriptedModel([call("greet"), "done"] * 4)
    return AgentExecutor(agent=create_tool_calling_agent(model, [greet]), tools=[greet], **options)


def invoke(executor: AgentExecutor) -> Any:
    found = executor.with_limits(executor.limits).invoke("?")
    assert found["output"] == "done"
    return found["intermediate_steps"]


USES: list[Callable[[AgentExecutor], Any]] = [
    lambda executor: executor.run("?").steps,
    invoke,
    lambda executor: list(executor.stream("?"))[-1].outcome.steps,  # type: ignore[union-attr]
    lambda executor: executor.batch(["?"], progress=True)[0]["intermediate_steps"],
]


@cases("limits", [{}, {"max_execution_time": 60}])
@cases("use", USES)
def test_sync_call_works_under_a_running_loop(use: Callable[[AgentExecutor], Any], limits: Any) -> None:
    async def cell() -> list[str]:
        USER.set("Ada")
        return [observation for _, observation in use(greeting(return_intermediate_steps=True, **limits))]

    assert asyncio.run(cell()) == ["Hello, Ada."]


def test_proof_and_picture_work_under_a_running_loop(tmp_path: Path) -> None:
    async def cell() -> None:
        executor = greeting()
        assert executor.verify().proved
        executor.draw(tmp_path / "machine.mmd")
        executor.run("?").draw(tmp_path / "run.mmd")

    asyncio.run(cell())
    assert {path.name for path in tmp_path.iterdir()} == {"machine.mmd", "run.mmd"}


@cases("limits", [{}, {"max_execution_time": 60}])
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

    view = Shown(ticks=True)
    agent = create_tool_calling_agent(ScriptedModel([call("wait")]), [wait])
    executor = AgentExecutor(agent=agent, tools=[wait], observers=[Progress(view)], **limits)

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
    assert view.last.interrupted == 1
    assert view.last.has_ended
    assert_no_ticker()
