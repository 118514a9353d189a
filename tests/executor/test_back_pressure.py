"""Back-pressure of streams: producers of pieces and reports are at most a few ahead of the consumer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any

from graphexec import AgentExecutor, Reported, create_tool_calling_agent, tool
from graphexec.messages import ModelRequest, ReplyDelta
from graphexec.models import ScriptedModel
from graphexec.runtime import report
from graphexec.runtime.threads import MOST_REPORTS
from tests.executor.actors import act, answer, make_executor
from tests.parameters import cases

# The number that may be produced ahead: the buffer, and one at the producer and one at the consumer.
AHEAD = MOST_REPORTS + 6
# The number of events that the test consumes.
TAKEN = 400
LONG = 20.0


class Endless(ScriptedModel):
    """A model that produces pieces endlessly."""

    instant = False

    def __init__(self) -> None:
        super().__init__([])
        self.made = 0
        self.ended = threading.Event()

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Generator[ReplyDelta, None, None]:
        try:
            while True:
                self.made += 1
                yield ReplyDelta("x")
        finally:
            self.ended.set()

    async def astream(self, request: ModelRequest, *, timeout: float | None = None) -> AsyncIterator[ReplyDelta]:
        with closing(self.stream(request)) as pieces:
            for piece in pieces:
                yield piece


def take(executor: AgentExecutor, how: str, look: Callable[[int], None], *, tokens: bool = True) -> None:
    """Take so many reports, and look at each; then close the stream."""
    taken = 0

    def saw(event: Any) -> bool:
        nonlocal taken
        if isinstance(event, Reported):
            taken += 1
            look(taken)
        return taken == TAKEN

    async def consume() -> None:
        async with aclosing(executor.astream("q", tokens=tokens)) as events:
            async for event in events:
                if saw(event):
                    break

    if how == "async":
        asyncio.run(consume())
        return
    with closing(executor.stream("q", tokens=tokens)) as events:
        assert any(map(saw, events))


HOW = cases("how", ["sync", "async"])
DEADLINE = cases("seconds", [None, 3 * LONG])


@HOW
@DEADLINE
def test_model_is_only_a_few_pieces_ahead(how: str, seconds: float | None) -> None:
    model = Endless()

    def look(taken: int) -> None:
        assert model.made - taken <= AHEAD

    agent = create_tool_calling_agent(model, [])
    take(AgentExecutor(agent=agent, tools=[], max_execution_time=seconds), how, look)
    assert model.ended.wait(LONG)
    assert model.made <= TAKEN + AHEAD


@HOW
@DEADLINE
@cases("tokens", [False, True])
def test_tools_in_threads_are_only_a_little_ahead(how: str, seconds: float | None, tokens: bool) -> None:
    """Both of the two tools in the step report endlessly."""
    lock, stop = threading.Lock(), threading.Event()
    ended, together = threading.Semaphore(0), threading.Barrier(2)
    made = 0

    @tool
    def talk() -> None:
        """Report endlessly."""
        nonlocal made
        together.wait(LONG)
        try:
            while not stop.is_set():
                with lock:
                    made += 1
                report("still here")
        finally:
            ended.release()

    def look(taken: int) -> None:
        assert made - taken <= AHEAD

    executor = make_executor([act("talk")] * 2, answer(), tools=[talk], max_execution_time=seconds)
    try:
        take(executor, how, look, tokens=tokens)
    finally:
        stop.set()
    for _ in range(2):
        assert ended.acquire(timeout=LONG)


@HOW
def test_closed_stream_ends_a_reporting_tool(how: str) -> None:
    """Otherwise, its thread would wait for room endlessly."""
    stop = threading.Event()
    ended, together = threading.Semaphore(0), threading.Barrier(8)

    @tool
    def talk() -> None:
        """Report until the stream is closed, and catch what `report` raises then."""
        together.wait(LONG)
        while not stop.is_set():
            try:
                report("still here")
            except Exception:  # noqa: BLE001 - a tool may do so
                continue
        ended.release()

    take(make_executor([act("talk")] * 8, answer(), tools=[talk]), how, lambda _: None)
    stop.set()
    for _ in range(8):
        assert ended.acquire(timeout=LONG)
