"""The events of a stream: their order, their classes, their end, and their producers, which wait for the consumer."""

import asyncio
import copy
import dataclasses
import functools
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any

import pytest

import graphexec as gx
from graphexec import kernel, models, runtime
from graphexec.effects import CallModel
from graphexec.messages import ModelRequest, ReplyDelta
from graphexec.runtime.threads import MOST_REPORTS
from tests.executor.actors import act, answer, echo, make_executor, make_react, run_executor, scripted
from tests.parameters import cases


def line(event: Any) -> str:
    """Return the class of an event, its node, and the class of its effect, or of its outcome with the target."""
    place = getattr(event, "node", "END")
    of = [type(getattr(event, name)).__name__ for name in ("effect", "outcome") if hasattr(event, name)]
    return " ".join([type(event).__name__, place, *of, getattr(event, "target", "")]).strip()


def visit(node: str, outcome: str, target: str, effect: str = "") -> list[str]:
    """Return the lines of the events of a node that asks for one effect or none."""
    asked = [f"Asked {node} {effect}", f"Answered {node} {effect}"] if effect else []
    return [f"Entered {node}", *asked, f"Moved {node} {outcome} {target}"]


ACT = "Action: echo\nAction Input: a"
PLAN = visit("plan", "Replied", "parse", "CallModel")
DISPATCH = visit("dispatch_tools", "Observed", "check_return_direct", "CallTool")
STEP = [*PLAN, *visit("parse", "Acted", "dispatch_tools"), *DISPATCH, *visit("check_return_direct", "Ready", "plan")]
STOPPED = [*visit("plan", "Stopped", "stopped_response"), *visit("stopped_response", "StoppedResponse", "END")]
PARSED = [*PLAN, *visit("parse", "Ready", "plan"), *PLAN, *visit("parse", "AgentFinish", "END")]


@cases(
    ("replies", "options", "events"),
    ([ACT, "?", "Final Answer: a"], {"handle_parsing_errors": True}, [*STEP, *PARSED, "Done END AgentFinish"]),
    ([ACT], {"max_iterations": 1}, [*STEP, *STOPPED, "Done END StoppedResponse"]),
)
def test_events_come_in_the_order_of_the_table(replies: list[str], options: dict[str, Any], events: list[str]) -> None:
    result = run_executor(lambda: make_react(*replies, **options))
    assert [line(event) for event in result.events] == events


def test_model_call_has_its_request() -> None:
    model = models.ScriptedModel(["Final Answer: a"])
    executor = gx.AgentExecutor(agent=gx.create_react_agent(model, []), tools=[])
    (request,) = [event for event in executor.stream("q") if isinstance(event, gx.Asked)]
    assert isinstance(request.effect, CallModel)
    assert request.effect.request is model.requests[0]


def test_usage_grows_with_every_event() -> None:
    result = run_executor(lambda: make_react(ACT, "Final Answer: done"))
    spent = [event.spent for event in result.events if isinstance(event, (gx.Entered, gx.Answered, gx.Done))]
    counts = [(one.iterations, one["model_calls"], one["tool_calls"]) for one in spent]
    assert counts == [(0, 0, 0), *[(1, 1, 0)] * 3, *[(1, 1, 1)] * 3, *[(2, 2, 1)] * 3]
    assert all(event.seconds >= 0 for event in result.events if isinstance(event, gx.Answered))


# ---- the classes of events and of what they have


@functools.cache
def made_in_a_run() -> dict[str, Any]:
    """Return one object of each class that a run makes, by the name of the class."""
    found: list[Any] = []
    executor = gx.AgentExecutor(agent=scripted(act("echo", text="a"), answer()), tools=[echo])
    for event in executor.stream("Go on."):
        found.append(event)
        match event:
            case kernel.Asked(effect=value) | kernel.Answered(reply=value) | kernel.Moved(outcome=value):
                found.append(value)
            case gx.Done():
                found += [event.snapshot, event.spent]
            case _:
                pass
    result = executor.run("Go on.")
    run = next(one.run for one in reversed(found) if isinstance(one, gx.AgentFinish))
    return {type(one).__name__: one for one in (*found, result, run, *run.steps)}


NAMES = [
    *("Entered", "Asked", "Answered", "Moved", "Done", "Snapshot", "Spent", "RunResult"),
    *("CallTool", "ToolResult", "Acted", "Observed", "AgentStep", "Run"),
]


@cases("name", *NAMES)
def test_object_of_a_run_is_frozen_and_copied_in_its_class(name: str) -> None:
    made = made_in_a_run()[name]
    first = dataclasses.fields(made)[0].name
    for change in (functools.partial(setattr, made, first, None), functools.partial(delattr, made, first)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert not hasattr(made, "__dict__")
    assert type(made).__module__.startswith("graphexec.")
    for other in (copy.copy(made), dataclasses.replace(made)):
        assert (type(other), other, repr(other)) == (type(made), made, repr(made))


# ---- back-pressure: producers of pieces and reports are at most a few ahead of the consumer

# The number that may be produced ahead: the buffer, and one at the producer and one at the consumer.
AHEAD = MOST_REPORTS + 6
# The number of events that the test consumes.
TAKEN = 400
LONG = 20.0


class Endless(models.ScriptedModel):
    """A model that produces pieces endlessly."""

    @property
    def instant(self) -> bool:
        return False

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


def take(executor: gx.AgentExecutor, how: str, look: Callable[[int], None], *, tokens: bool = True) -> None:
    """Take so many reports, and look at each; then close the stream."""
    taken = 0

    def saw(event: Any) -> bool:
        nonlocal taken
        if isinstance(event, gx.Reported):
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


IN_BOTH_WAYS = cases("how", "sync", "async")
DEADLINE = cases("seconds", None, 3 * LONG)


@IN_BOTH_WAYS
@DEADLINE
def test_model_is_only_a_few_pieces_ahead(how: str, seconds: float | None) -> None:
    model = Endless()

    def look(taken: int) -> None:
        assert model.made - taken <= AHEAD

    agent = gx.create_tool_calling_agent(model, [])
    take(gx.AgentExecutor(agent=agent, tools=[], max_execution_time=seconds), how, look)
    assert model.ended.wait(LONG)
    assert model.made <= TAKEN + AHEAD


@IN_BOTH_WAYS
@DEADLINE
@cases("tokens", False, True)
def test_tools_in_threads_are_only_a_little_ahead(how: str, seconds: float | None, tokens: bool) -> None:
    """Both of the two tools in the step report endlessly."""
    lock, stop = threading.Lock(), threading.Event()
    ended, together = threading.Semaphore(0), threading.Barrier(2)
    made = 0

    @gx.tool
    def talk() -> None:
        """Report endlessly."""
        nonlocal made
        together.wait(LONG)
        try:
            while not stop.is_set():
                with lock:
                    made += 1
                runtime.report("still here")
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


@IN_BOTH_WAYS
def test_closed_stream_ends_a_reporting_tool(how: str) -> None:
    """Otherwise, its thread would wait for room endlessly."""
    stop = threading.Event()
    ended, together = threading.Semaphore(0), threading.Barrier(8)

    @gx.tool
    def talk() -> None:
        """Report until the stream is closed, and catch what `report` raises then."""
        together.wait(LONG)
        while not stop.is_set():
            try:
                runtime.report("still here")
            except Exception:  # noqa: BLE001 - a tool may do so
                continue
        ended.release()

    take(make_executor([act("talk")] * 8, answer(), tools=[talk]), how, lambda _: None)
    stop.set()
    for _ in range(8):
        assert ended.acquire(timeout=LONG)
