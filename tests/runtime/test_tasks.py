"""Tasks: an interrupt reaches the run, and exceptions of abandoned tasks are ignored."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from graphexec import Snapshot, tool
from graphexec.runtime.tasks import abandon, start
from tests.executor.actors import act, answer, make_executor, run_by, snapshot_after
from tests.parameters import cases
from tests.runtime.actors import LONG


@pytest.mark.medium
@cases("kind", KeyboardInterrupt, SystemExit)
@cases("timeout", None, LONG)
@cases("seconds", None, LONG)
@cases("count", 1, 3)
@cases(("way", "options"), ("arun", {}), ("astream", {"tokens": False}), ("astream", {"tokens": True}))
def test_interrupt_in_a_task_keeps_the_snapshot(
    way: str, options: Any, count: int, seconds: float | None, timeout: float | None, kind: type[BaseException]
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
    executor = make_executor(actions, answer(), tools=[leave], max_execution_time=seconds)
    snapshot = snapshot_after(kind, lambda: run_by(way, executor, "q", **options))
    result = executor.run(Snapshot.from_json(snapshot.to_json(), executor.graph))
    assert [step.observation for step in result.steps] == list(range(count))
    assert sorted(called) == sorted([*range(count), count - 1])
    assert result.spent["tool_calls"] == count + 1


async def begun(work: Callable[[], Any]) -> Any:
    task = start(work)
    await asyncio.sleep(0)
    return task


def test_interrupt_in_an_abandoned_task_ends_the_loop() -> None:
    async def leave() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyboardInterrupt

    async def main() -> None:
        await abandon([await begun(leave)])

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
