"""Events: each one is emitted when it happens, in the same order with every driver."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import Any

import graphexec as gx
from graphexec.effects import CallTool, ToolResult, agent_limits
from graphexec.runtime import astream, make_run_context, stream
from tests.drivers import FakeClock, Script, run_script
from tests.kernel import machines
from tests.parameters import cases


def test_events_of_a_clock() -> None:
    spent = gx.Exhausted("iterations", 1, 1)
    result = run_script(lambda: Script(machines.CLOCK, machines.Tick(), machines.limited(iterations=1)))
    *events, last = result.events
    assert events == [
        gx.Entered("tick", machines.Tick(0), gx.Spent()),
        gx.Moved("tick", machines.Tock(1), "tock"),
        gx.Entered("tock", machines.Tock(1), gx.Spent(iterations=1)),
        gx.Moved("tock", machines.Tick(1), "tick"),
        gx.Entered("tick", machines.Tick(1), gx.Spent(iterations=1)),
        gx.Moved("tick", machines.Stopped(machines.Tick(1), spent), "END"),
    ]
    assert isinstance(last, gx.Done)
    assert (last.outcome, last.spent) == (machines.Stopped(machines.Tick(1), spent), gx.Spent(iterations=1))


def test_events_of_a_batch() -> None:
    observed = run_script(lambda: Script(machines.SURVEY, machines.Topics(("a", "b")), machines.surveyors()))
    members = (CallTool("a", "now"), CallTool("b", "now"))
    results = (ToolResult("a"), ToolResult("b"))
    entered, *between, moved, last = observed.events
    assert entered == gx.Entered("survey", machines.Topics(("a", "b")), gx.Spent())
    asked = [event for event in between if isinstance(event, gx.Asked)]
    assert asked == [gx.Asked("survey", member) for member in members]
    answered = [event for event in between if isinstance(event, gx.Answered)]
    assert {(event.node, event.effect, event.reply.observation) for event in answered} == {
        ("survey", member, reply.observation) for member, reply in zip(members, results, strict=True)
    }
    assert all(event.spent["tool_calls"] == 2 and event.seconds >= 0 for event in answered)
    assert sorted(event.call.id.member for event in answered if event.call is not None) == [0, 1]
    assert moved == gx.Moved("survey", machines.Survey(results), "END")
    assert isinstance(last, gx.Done)


def test_resumed_node_has_no_second_entered_event() -> None:
    from graphexec import Snapshot

    result = run_script(
        lambda: Script(
            machines.INTERVIEW, Snapshot("interview", machines.Topic("tea", 2), ("fine",)), machines.reporter()
        )
    )
    assert [type(event).__name__ for event in result.events] == ["Asked", "Answered", "Moved", "Done"]


def test_refused_effect_has_no_event() -> None:
    result = run_script(
        lambda: Script(machines.SURVEY, machines.Topics(("a",)), machines.surveyors(agent_limits(tool_calls=0)))
    )
    assert [type(event).__name__ for event in result.events] == ["Entered", "Moved", "Done"]


def test_event_precedes_the_next_action() -> None:
    seen: list[str] = []

    def answer(question: machines.Question) -> str:
        seen.append("answered")
        return "fine"

    events = stream(machines.INTERVIEW, machines.Topic("tea", 1), make_run_context({machines.Question: answer}))
    while (event := next(events, None)) is not None:
        seen.append(type(event).__name__)
    assert seen == ["Entered", "Asked", "answered", "Answered", "Moved", "Done"]


# ---- streams that are closed early

CLOSED: list[str] = []


@gx.charged(when_spent=machines.Stopped)
@gx.node
def careful(left: machines.Left) -> gx.Asks[machines.Question, machines.Total]:
    try:
        first = yield from gx.ask(machines.Question("?"))
        second = yield from gx.ask(machines.Question("?"))
    finally:
        CLOSED.append("careful")
    return machines.Total(first + second)


CAREFUL = gx.graph(gx.edges(careful, gx.on(machines.Total, gx.END) | gx.on(machines.Stopped, gx.END)), start=careful)


def until(events: Generator[Any, None, None], kind: type) -> None:
    for event in events:
        if isinstance(event, kind):
            return
    raise AssertionError(kind)


@cases("kind", [gx.Asked, gx.Answered])
def test_closing_a_stream_closes_the_node(kind: type) -> None:
    CLOSED.clear()
    events = stream(CAREFUL, machines.Left(1), machines.reporter())
    until(events, kind)
    assert CLOSED == []
    events.close()
    assert CLOSED == ["careful"]
    assert list(events) == []


@cases("kind", [gx.Asked, gx.Answered])
def test_closing_an_async_stream_closes_the_node(kind: type) -> None:
    CLOSED.clear()

    async def watch() -> None:
        events: AsyncGenerator[Any, None] = astream(CAREFUL, machines.Left(1), machines.reporter())
        async with aclosing(events):
            async for event in events:
                if isinstance(event, kind):
                    break
            assert CLOSED == []

    asyncio.run(watch())
    assert CLOSED == ["careful"]


KEPT: list[Any] = []


@gx.charged(when_spent=machines.Stopped)
@gx.node
def keep_generator(left: machines.Left) -> gx.Asks[machines.Question, machines.Total]:
    # A second reference keeps the generator from closing itself.
    asking: gx.Asks[machines.Question, machines.Total] = careful.function(left)
    KEPT.append(asking)
    return asking


@cases("kind", [gx.Asked, gx.Answered])
def test_node_is_closed_despite_other_references(kind: type) -> None:
    CLOSED.clear()
    events = stream(
        gx.graph(
            gx.edges(keep_generator, gx.on(machines.Total, gx.END) | gx.on(machines.Stopped, gx.END)),
            start=keep_generator,
        ),
        machines.Left(1),
        machines.reporter(),
    )
    until(events, kind)
    assert CLOSED == []
    events.close()
    assert CLOSED == ["careful"]
    KEPT.clear()


def test_closed_stream_carries_out_nothing() -> None:
    asked: list[str] = []

    def answer(question: machines.Question) -> str:
        asked.append(question.text)
        return "fine"

    events = stream(machines.INTERVIEW, machines.Topic("tea", 3), make_run_context({machines.Question: answer}))
    until(events, gx.Answered)
    events.close()
    assert asked == ["tea 0 0"]


def test_stream_without_iteration_does_nothing() -> None:
    asked: list[object] = []
    answer: Any = asked.append
    stream(machines.INTERVIEW, machines.Topic("tea"), make_run_context({machines.Question: answer})).close()
    assert asked == []


def test_last_move_has_the_outcome_of_the_run() -> None:
    result = run_script(lambda: Script(machines.INTERVIEW, machines.Topic("tea", 1), machines.reporter()))
    moved, done = result.events[-2:]
    assert isinstance(moved, gx.Moved)
    assert isinstance(done, gx.Done)
    assert moved.outcome is done.outcome
    assert moved.outcome == machines.Interview(("re: tea 0 0",))


def test_answered_has_the_seconds_of_the_call() -> None:
    """It excludes the time of pure nodes and of the consumer."""
    clock = FakeClock()

    def answer(question: machines.Question) -> str:
        clock.advance(2)
        return "fine"

    seconds: list[float] = []
    for event in stream(
        machines.INTERVIEW,
        machines.Topic("tea", 2),
        dataclasses.replace(make_run_context({machines.Question: answer}), clock=clock),
    ):
        clock.advance(100)
        if isinstance(event, gx.Answered):
            seconds.append(event.seconds)
    assert seconds == [2, 2]
