"""Tasks: an interrupt reaches the run, and exceptions of abandoned tasks are ignored."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from graphexec import AgentExecutor, Snapshot, snapshot_of, tool
from graphexec.runtime.tasks import CallTaskGroup, abandon, start
from tests.executor.actors import act, answer, scripted
from tests.parameters import cases

# Seconds that a test waits for an event that should happen at once.
LONG = 20.0


def finish(executor: AgentExecutor, snapshot: Snapshot) -> Any:
    return executor.run(Snapshot.from_json(snapshot.to_json(), executor.graph))


async def consume(executor: AgentExecutor, *, tokens: bool) -> None:
    async for _ in executor.astream("q", tokens=tokens):
        pass


WAYS: dict[str, Callable[[AgentExecutor], Any]] = {
    "run": lambda executor: executor.arun("q"),
    "stream": partial(consume, tokens=False),
    "tokens": partial(consume, tokens=True),
}


@pytest.mark.medium
@cases("kind", [KeyboardInterrupt, SystemExit])
@cases("timeout", [None, LONG])
@cases("seconds", [None, LONG])
@cases("count", [1, 3])
@cases("way", WAYS)
def test_interrupt_in_a_task_keeps_the_snapshot(
    way: str, count: int, seconds: float | None, timeout: float | None, kind: type[BaseException]
) -> None:
    """asyncio raises it out of the loop, so the run must see it first; finished calls are not repeated."""
    called: list[int] = []

    @tool(timeout=timeout)
    async def leave(number: int) -> int:
        """Leave at the first call of the last one."""
        called.append(number)
        await asyncio.sleep(0)
        if number == count - 1 and called.count(number) == 1:
            for _ in range(10):
                await asyncio.sleep(0)
            raise kind
        return number

    actions = [act("leave", number=number) for number in range(count)]
    executor = AgentExecutor(agent=scripted(actions, answer()), tools=[leave], max_execution_time=seconds)
    with pytest.raises(kind) as caught:
        asyncio.run(WAYS[way](executor))
    snapshot = snapshot_of(caught.value)
    assert snapshot is not None
    result = finish(executor, snapshot)
    assert [step.observation for step in result.steps] == list(range(count))
    assert sorted(called) == sorted([*range(count), count - 1])
    assert result.spent["tool_calls"] == count + 1


async def reported(main: Callable[[], Any]) -> list[Any]:
    """Return the loop's error reports about tasks that `main` starts."""
    contexts: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    await main()
    gc.collect()
    await asyncio.sleep(0)
    return contexts


async def fail() -> None:
    raise ValueError("ignored")


def test_unretrieved_failure_is_not_reported() -> None:
    async def main() -> None:
        async with CallTaskGroup[None]() as group:
            group.start(0, fail)
            group.start(1, fail)
            await group.take(None)

    assert asyncio.run(reported(main)) == []


def test_abandoned_task_is_not_reported_when_the_loop_ends() -> None:
    contexts: list[Any] = []

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # The second cancellation is that of `asyncio.run`.
            try:
                await asyncio.Event().wait()
            finally:
                await fail()

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
        task = start(stubborn)
        await asyncio.sleep(0)
        await abandon([task])

    asyncio.run(main())
    assert contexts == []


def test_interrupt_in_an_abandoned_task_ends_the_loop() -> None:
    async def leave() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyboardInterrupt

    async def main() -> None:
        task = start(leave)
        await asyncio.sleep(0)
        await abandon([task])

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
