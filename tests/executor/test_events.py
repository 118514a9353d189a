"""The events of a stream: their order, their classes, their end, and their producers, which wait for the consumer."""

import asyncio
import copy
import dataclasses
import functools
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any

import pytest

import graphexec as gx
from graphexec import errors, kernel, models, runtime
from graphexec.effects import CallModel, CallTool, ToolResult
from graphexec.executor.result import Ending
from graphexec.kernel.program import unfrozen
from graphexec.messages import ModelRequest, ReplyDelta
from graphexec.runtime.threads import MOST_REPORTS
from tests.executor.actors import act, answer, echo, make_executor, make_react, run_executor, scripted
from tests.parameters import cases
from tests.semantics.endings import noting_tool


def line(event: gx.Event[Ending]) -> str:
    match event:
        case gx.Entered(node):
            return f"enter {node}"
        case gx.Asked(node, effect):
            return f"{node} asks {type(effect).__name__}"
        case gx.Answered(node, effect):
            return f"{node} has {type(effect).__name__}"
        case gx.Moved(node, outcome, target):
            return f"{node} --{type(outcome).__name__}--> {target}"
        case gx.Done(outcome):
            return f"done {type(outcome).__name__}"
        case _:
            raise AssertionError(event)


def visit(node: str, outcome: str, target: str, effect: str = "") -> list[str]:
    """Return the lines of the events of a node that asks for one effect or none."""
    asked = [f"{node} asks {effect}", f"{node} has {effect}"] if effect else []
    return [f"enter {node}", *asked, f"{node} --{outcome}--> {target}"]


ACT = "Action: echo\nAction Input: a"
PLAN = visit("plan", "Replied", "parse", "CallModel")
DISPATCH = visit("dispatch_tools", "Observed", "check_return_direct", "CallTool")
STEP = [*PLAN, *visit("parse", "Acted", "dispatch_tools"), *DISPATCH, *visit("check_return_direct", "Ready", "plan")]
STOPPED = [*visit("plan", "LimitReached", "stopped_response"), *visit("stopped_response", "StoppedResponse", "END")]
PARSED = [*PLAN, *visit("parse", "Ready", "plan"), *PLAN, *visit("parse", "AgentFinish", "END")]


@cases(
    ("replies", "options", "events"),
    ([ACT, "?", "Final Answer: a"], {"handle_parsing_errors": True}, [*STEP, *PARSED, "done AgentFinish"]),
    ([ACT], {"max_iterations": 1}, [*STEP, *STOPPED, "done StoppedResponse"]),
)
def test_events_come_in_the_order_of_the_table(replies: list[str], options: dict[str, Any], events: list[str]) -> None:
    result = run_executor(lambda: make_react(*replies, **options))
    assert [line(event) for event in result.events] == events


def test_every_call_has_its_effect_and_reply() -> None:
    batch = [act("echo", text="a"), act("nope"), act("echo", text="b")]
    result = run_executor(lambda: make_executor(batch, answer(), tools=[echo]))
    asked = [(one.name, one.tool_input) for one in result.asked if isinstance(one, CallTool)]
    assert asked == [("echo", {"text": "a"}), ("nope", {}), ("echo", {"text": "b"})]
    answered = [one for one in result.events if isinstance(one, gx.Answered) and isinstance(one.effect, CallTool)]
    names = [event.effect.name for event in answered if isinstance(event.effect, CallTool)]
    assert sorted(names) == ["echo", "echo", "nope"]
    assert sorted(event.reply.observation for event in answered)[:2] == ["a", "b"]
    assert all(event.spent["tool_calls"] == 3 for event in answered)


def test_usage_grows_with_every_event() -> None:
    result = run_executor(lambda: make_react(ACT, "Final Answer: done"))
    spent = [event.spent for event in result.events if isinstance(event, (gx.Entered, gx.Answered, gx.Done))]
    counts = [(one.iterations, one["model_calls"], one["tool_calls"]) for one in spent]
    assert counts == [(0, 0, 0), *[(1, 1, 0)] * 3, *[(1, 1, 1)] * 3, *[(2, 2, 1)] * 3]
    assert all(event.seconds >= 0 for event in result.events if isinstance(event, gx.Answered))


def asks_tool(event: object) -> bool:
    return isinstance(event, gx.Asked) and isinstance(event.effect, CallTool)


def test_asked_comes_before_the_call() -> None:
    note, called = noting_tool()
    for event in make_executor(act("note", text="a"), answer(), tools=[note]).stream("q"):
        if asks_tool(event):
            assert called == []
        if isinstance(event, gx.Answered) and isinstance(event.effect, CallTool):
            assert called == ["a"]
    assert called == ["a"]


def test_closed_stream_makes_no_more_calls() -> None:
    note, called = noting_tool()
    executor = make_executor(act("note", text="a"), answer(), tools=[note])
    events = executor.stream("q")
    assert any(map(asks_tool, events))
    events.close()
    assert list(events) == []

    async def closed() -> None:
        stream = executor.astream("q")
        async for event in stream:
            if asks_tool(event):
                break
        await stream.aclose()
        assert [event async for event in stream] == []

    asyncio.run(closed())
    assert called == []
    # The executor can still be used.
    assert executor.run("q").output == "done"
    assert called == ["a"]


def test_streams_of_one_executor_are_independent() -> None:
    turns = [act("echo", text="a"), act("echo", text="b"), answer()]
    executor = make_executor(*turns, tools=[echo])
    alone = [line(event) for event in executor.stream("q")]
    pairs = list(zip(executor.stream("q"), executor.stream("q"), strict=True))
    assert [line(left) for left, _ in pairs] == [line(right) for _, right in pairs] == alone


def test_stream_raises_the_runs_exception() -> None:
    events = make_react("garbage").stream("q")
    lines: list[str] = []

    def iterate() -> None:
        lines.extend(map(line, events))

    with pytest.raises(errors.ParseError):
        iterate()
    assert lines == [*PLAN, "enter parse"]


def test_model_call_has_its_request() -> None:
    model = models.ScriptedModel(["Final Answer: a"])
    executor = gx.AgentExecutor(agent=gx.create_react_agent(model, []), tools=[])
    # A stream that is not iterated runs nothing.
    executor.stream("q").close()
    assert not model.requests
    (asked,) = [event for event in executor.stream("q") if isinstance(event, gx.Asked)]
    assert isinstance(asked.effect, CallModel)
    assert asked.effect.request is model.requests[0]


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
def test_object_of_a_run_is_frozen(name: str) -> None:
    made = made_in_a_run()[name]
    first = dataclasses.fields(made)[0].name
    for change in (functools.partial(setattr, made, first, None), functools.partial(delattr, made, first)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert not hasattr(made, "__dict__")


@cases("copied", copy.copy, dataclasses.replace)
@cases("name", *NAMES)
def test_object_of_a_run_is_of_its_class(name: str, copied: Callable[[Any], Any]) -> None:
    made = made_in_a_run()[name]
    other = copied(made)
    assert type(made).__module__.startswith("graphexec.")
    assert (type(other), other, repr(other)) == (type(made), made, repr(made))


def test_unfrozen_class_has_the_parameters_of_its_class() -> None:
    made = unfrozen(ToolResult)("found")
    made.__class__ = ToolResult
    assert (made, hash(made)) == (ToolResult("found"), hash(ToolResult("found")))
    call: Any = unfrozen(CallTool)("double", "21")
    call.__class__ = CallTool
    assert call == CallTool("double", "21")
    assert pickle.loads(pickle.dumps(call)) == call
    create: Any = unfrozen(CallTool)
    with pytest.raises(TypeError, match="tool_input"):
        create("double")


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
