"""`observers`: whoever is told of each event of every run, whichever door it came through."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentExecutor, Answered, Asked, Done, Entered, Limits, Moved, snapshot_of
from graphexec.actions import Run
from graphexec.errors import InputError
from graphexec.executor import Ready
from graphexec.runtime import run as run_table
from tests.executor.actors import act, answer, echo, scripted


def executor_of(*observers: Callable[[Any], object], **settings: Any) -> AgentExecutor:
    return AgentExecutor(agent=scripted(act("echo", text="a"), answer()), tools=[echo], observers=observers, **settings)


async def _collected(executor: AgentExecutor) -> list[Any]:
    return [event async for event in executor.astream("q")]


async def _stepped(executor: AgentExecutor) -> list[Any]:
    return [steps async for steps in executor.iter("q")]


async def _chunked(executor: AgentExecutor) -> list[Any]:
    return [chunk async for chunk in executor.astream_chunks("q")]


DOORS: dict[str, Callable[[AgentExecutor], object]] = {
    "run": lambda executor: executor.run("q"),
    "arun": lambda executor: asyncio.run(executor.arun("q")),
    "invoke": lambda executor: executor.invoke("q"),
    "ainvoke": lambda executor: asyncio.run(executor.ainvoke("q")),
    "batch": lambda executor: executor.batch(["q"]),
    "abatch": lambda executor: asyncio.run(executor.abatch(["q"])),
    "stream": lambda executor: list(executor.stream("q")),
    "astream": lambda executor: asyncio.run(_collected(executor)),
    "stream_chunks": lambda executor: list(executor.stream_chunks("q")),
    "astream_chunks": lambda executor: asyncio.run(_chunked(executor)),
    "iter": lambda executor: list(executor.iter("q")),
    "aiter": lambda executor: asyncio.run(_stepped(executor)),
}

every_door = pytest.mark.parametrize("door", DOORS)


def kinds(events: list[Any]) -> list[type]:
    return [type(event) for event in events]


WHOLE = [Entered, Asked, Answered, Moved, Entered, Moved, Entered, Asked, Answered, Moved, Entered, Moved]


@every_door
def test_every_door_tells_every_watcher_everything_once(door: str) -> None:
    first: list[Any] = []
    second: list[Any] = []
    DOORS[door](executor_of(first.append, second.append))
    assert first == second
    assert kinds(first) == [*WHOLE, Entered, Asked, Answered, Moved, Entered, Moved, Done]


@every_door
def test_what_a_watcher_raises_ends_the_run(door: str) -> None:
    seen: list[Any] = []

    def watcher(event: object) -> None:
        seen.append(event)
        if isinstance(event, Asked):
            raise OSError("enough")

    with pytest.raises(OSError, match="enough") as caught:
        DOORS[door](executor_of(watcher))
    # What was asked for is not carried out.
    assert kinds(seen) == [Entered, Asked]
    if "batch" not in door:
        # And the run may go on from there.
        snapshot = snapshot_of(caught.value)
        assert snapshot is not None
        assert (snapshot.node, snapshot.spent["model_calls"]) == ("plan", 1)
        assert executor_of().run(snapshot).reason == "finished"


def test_a_watcher_is_told_before_whoever_iterates() -> None:
    order: list[str] = []
    executor = executor_of(lambda event: order.append(f"watcher {type(event).__name__}"))
    for event in executor.stream("q"):
        order.append(f"iterates {type(event).__name__}")  # noqa: PERF401 - observers append meanwhile
    assert order[::2] == [line.replace("iterates", "watcher") for line in order[1::2]]


def test_two_runs_tell_the_same_watcher() -> None:
    seen: list[Any] = []
    executor = executor_of(seen.append)
    executor.run("q")
    executor.run("q")
    assert sum(isinstance(event, Done) for event in seen) == 2


def test_a_copy_with_other_limits_keeps_its_watchers() -> None:
    seen: list[Any] = []
    executor_of(seen.append).with_limits(Limits(iterations=1)).run("q")
    assert isinstance(seen[-1], Done)


def test_the_result_is_the_same_with_and_without() -> None:
    watched, unwatched = executor_of(lambda event: None), executor_of()
    one, other = watched.run("q"), unwatched.run("q")
    assert (one.ending, one.steps) == (other.ending, other.steps)
    assert one.spent.iterations == other.spent.iterations


def test_a_run_that_nobody_watches_is_told_to_nobody() -> None:
    # The table itself, driven without the executor, knows of no observers.
    seen: list[Any] = []
    executor = executor_of(seen.append)
    run_table(executor.graph, Ready(Run({"input": "q"})), executor.run_context)
    assert seen == []


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_watched_run_keeps_none_of_its_events(how: str) -> None:
    alive: list[int] = []

    def watch(event: object) -> None:
        if isinstance(event, Done):
            alive.append(sum(type(one) is Asked for one in gc.get_objects()))

    executor = AgentExecutor(agent=scripted(*[act("echo", text="a")] * 20, answer()), tools=[echo], observers=[watch])
    executor = executor.with_limits(Limits(iterations=30))
    before = sum(type(one) is Asked for one in gc.get_objects())
    result = executor.run("q") if how == "sync" else asyncio.run(executor.arun("q"))
    assert len(result.steps) == 20
    assert alive[0] - before <= 2


class Awaited:
    """An object whose call is a coroutine."""

    async def __call__(self, event: object) -> None:
        """Nobody would await it."""


WRONG: dict[str, object] = {
    "one function": print,
    "no functions": [1],
    "a text": "print",
    "a coroutine function": [asyncio.sleep],
    "an object that is called like one": [Awaited()],
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_watch_is_refused_when_the_executor_is_made(what: str) -> None:
    observers: Any = WRONG[what]
    with pytest.raises(InputError, match=r"^observers (is|has) .*; pass"):
        AgentExecutor(agent=scripted(answer()), tools=[], observers=observers)
