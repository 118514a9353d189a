"""Events: each one is emitted when it happens, in the same order with every driver."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import Any

import pytest

import graphexec as gx
from graphexec.effects import CallTool, ToolResult, agent_limits
from graphexec.runtime import astream, stream
from graphexec.runtime.handlers import RunContext
from tests.drivers import LIVE, Driver, FakeClock, Script, make_run_context, options_of
from tests.kernel import machines as m
from tests.parameters import cases


def test_events_of_a_clock() -> None:
    spent = gx.Exhausted("iterations", 1, 1)
    result = m.run_machine(m.CLOCK, m.Tick(), m.limited(iterations=1))
    *events, last = result.events
    assert events == [
        gx.Entered("tick", m.Tick(0), gx.Spent()),
        gx.Moved("tick", m.Tock(1), "tock"),
        gx.Entered("tock", m.Tock(1), gx.Spent(iterations=1)),
        gx.Moved("tock", m.Tick(1), "tick"),
        gx.Entered("tick", m.Tick(1), gx.Spent(iterations=1)),
        gx.Moved("tick", m.Stopped(m.Tick(1), spent), "END"),
    ]
    assert isinstance(last, gx.Done)
    assert (last.outcome, last.spent) == (m.Stopped(m.Tick(1), spent), gx.Spent(iterations=1))


def test_events_of_a_batch() -> None:
    observed = m.run_machine(m.SURVEY, m.Topics(("a", "b")), m.surveyors())
    members = (CallTool("a", "now"), CallTool("b", "now"))
    results = (ToolResult("a"), ToolResult("b"))
    entered, *between, moved, last = observed.events
    assert entered == gx.Entered("survey", m.Topics(("a", "b")), gx.Spent())
    asked = [event for event in between if isinstance(event, gx.Asked)]
    assert asked == [gx.Asked("survey", member) for member in members]
    answered = [event for event in between if isinstance(event, gx.Answered)]
    assert {(event.node, event.effect, event.reply.observation) for event in answered} == {
        ("survey", member, reply.observation) for member, reply in zip(members, results, strict=True)
    }
    assert all(event.spent["tool_calls"] == 2 and event.seconds >= 0 for event in answered)
    assert sorted(event.call.id.member for event in answered if event.call is not None) == [0, 1]
    assert moved == gx.Moved("survey", m.Survey(results), "END")
    assert isinstance(last, gx.Done)


RESUMED = gx.Snapshot("interview", m.Topic("tea", 2), ("fine",))


@cases(
    ("machine", "value", "context", "names"),
    # A resumed node has no second event for its entry, and a refused effect has none.
    (m.INTERVIEW, RESUMED, m.reporter(), ["Asked", "Answered", "Moved", "Done"]),
    (m.SURVEY, m.Topics(("a",)), m.surveyors(agent_limits(tool_calls=0)), ["Entered", "Moved", "Done"]),
)
def test_only_what_happens_has_an_event(machine: Any, value: object, context: RunContext, names: list[str]) -> None:
    assert [type(event).__name__ for event in m.run_machine(machine, value, context).events] == names


CLOSED: list[str] = []


@gx.node(when_spent=m.Stopped)
def careful(left: m.Left) -> gx.Asks[m.Question, m.Total]:
    try:
        first = yield from gx.ask(m.Question("?"))
        second = yield from gx.ask(m.Question("?"))
    finally:
        CLOSED.append("careful")
    return m.Total(first + second)


KEPT: list[Any] = []


@gx.node(when_spent=m.Stopped)
def keep_generator(left: m.Left) -> gx.Asks[m.Question, m.Total]:
    # A second reference keeps the generator from closing itself.
    KEPT.append(careful.function(left))
    asking: gx.Asks[m.Question, m.Total] = KEPT[-1]
    return asking


CAREFUL, KEEPING = m.machine_of(careful), m.machine_of(keep_generator)


def until(events: Generator[Any, None, None], kind: type) -> None:
    for event in events:
        if isinstance(event, kind):
            return
    raise AssertionError(kind)


@cases("machine", CAREFUL, KEEPING)
@cases("kind", gx.Asked, gx.Answered)
def test_closing_a_stream_closes_the_node(machine: gx.Graph[Any, Any], kind: type) -> None:
    CLOSED.clear()
    events = stream(machine, m.Left(1), **options_of(m.reporter()))
    until(events, kind)
    assert CLOSED == []
    events.close()
    assert (CLOSED, list(events)) == (["careful"], [])
    KEPT.clear()


@cases("kind", gx.Asked, gx.Answered)
def test_closing_an_async_stream_closes_the_node(kind: type) -> None:
    CLOSED.clear()

    async def watch() -> None:
        events: AsyncGenerator[Any, None] = astream(CAREFUL, m.Left(1), **options_of(m.reporter()))
        async with aclosing(events):
            async for event in events:
                if isinstance(event, kind):
                    break
            assert CLOSED == []

    asyncio.run(watch())
    assert CLOSED == ["careful"]


@cases("driver", *LIVE)
def test_failing_run_closes_its_node(driver: Driver) -> None:
    CLOSED.clear()

    def fail(_: m.Question) -> str:
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead"):
        driver(Script(CAREFUL, m.Left(1), make_run_context({m.Question: fail})))
    assert CLOSED == ["careful"]


def test_closed_stream_carries_out_nothing() -> None:
    asked: list[str] = []

    def answer(question: m.Question) -> str:
        asked.append(question.text)
        return "fine"

    context = make_run_context({m.Question: answer})
    stream(m.INTERVIEW, m.Topic("tea"), **options_of(context)).close()
    assert asked == []
    for events in (
        stream(m.INTERVIEW, m.Topic("tea"), **options_of(context)),
        m.INTERVIEW.stream(m.Topic("tea"), handlers={m.Question: answer}),
    ):
        asked.clear()
        until(events, gx.Asked)
        assert asked == []
        until(events, gx.Answered)
        events.close()
        assert (asked, list(events)) == (["tea 0 0"], [])
    asked.clear()

    async def watch() -> None:
        events = astream(m.INTERVIEW, m.Topic("tea"), **options_of(context))
        assert [type(await anext(events)) for _ in range(2)] == [gx.Entered, gx.Asked]
        await events.aclose()
        assert [event async for event in events] == []

    asyncio.run(watch())
    assert asked == []


def test_answered_has_the_seconds_of_the_call() -> None:
    """It excludes the time of pure nodes and of the consumer."""
    clock = FakeClock()

    def answer(question: m.Question) -> str:
        clock.advance(2)
        return "fine"

    seconds: list[float] = []
    context = make_run_context({m.Question: answer}, clock=clock)
    for event in stream(m.INTERVIEW, m.Topic("tea", 2), **options_of(context)):
        clock.advance(100)
        if isinstance(event, gx.Answered):
            seconds.append(event.seconds)
    assert seconds == [2, 2]
