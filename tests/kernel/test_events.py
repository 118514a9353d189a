"""Events: each one is emitted when it happens, in the same order with every driver."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import Any

from graphexec import (
    END,
    Answered,
    Asked,
    Asks,
    Done,
    Entered,
    Exhausted,
    Moved,
    Spent,
    ask,
    charged,
    edges,
    graph,
    node,
    on,
)
from graphexec.effects import CallTool, ToolResult, agent_limits
from graphexec.runtime import astream, make_run_context, stream
from tests.drivers import FakeClock, Script, run_script
from tests.kernel.machines import (
    CLOCK,
    INTERVIEW,
    SURVEY,
    Interview,
    Left,
    Question,
    Stopped,
    Survey,
    Tick,
    Tock,
    Topic,
    Topics,
    Total,
    limited,
    reporter,
    surveyors,
)
from tests.parameters import cases


def test_events_of_a_clock() -> None:
    spent = Exhausted("iterations", 1, 1)
    result = run_script(lambda: Script(CLOCK, Tick(), limited(iterations=1)))
    *events, last = result.events
    assert events == [
        Entered("tick", Tick(0), Spent()),
        Moved("tick", Tock(1), "tock"),
        Entered("tock", Tock(1), Spent(iterations=1)),
        Moved("tock", Tick(1), "tick"),
        Entered("tick", Tick(1), Spent(iterations=1)),
        Moved("tick", Stopped(Tick(1), spent), "END"),
    ]
    assert isinstance(last, Done)
    assert (last.outcome, last.spent) == (Stopped(Tick(1), spent), Spent(iterations=1))


def test_events_of_a_batch() -> None:
    observed = run_script(lambda: Script(SURVEY, Topics(("a", "b")), surveyors()))
    members = (CallTool("a", "now"), CallTool("b", "now"))
    results = (ToolResult("a"), ToolResult("b"))
    entered, *between, moved, last = observed.events
    assert entered == Entered("survey", Topics(("a", "b")), Spent())
    asked = [event for event in between if isinstance(event, Asked)]
    assert asked == [Asked("survey", member) for member in members]
    answered = [event for event in between if isinstance(event, Answered)]
    assert {(event.node, event.effect, event.reply.observation) for event in answered} == {
        ("survey", member, reply.observation) for member, reply in zip(members, results, strict=True)
    }
    assert all(event.spent["tool_calls"] == 2 and event.seconds >= 0 for event in answered)
    assert sorted(event.call.id.member for event in answered if event.call is not None) == [0, 1]
    assert moved == Moved("survey", Survey(results), "END")
    assert isinstance(last, Done)


def test_resumed_node_has_no_second_entered_event() -> None:
    from graphexec import Snapshot

    result = run_script(lambda: Script(INTERVIEW, Snapshot("interview", Topic("tea", 2), ("fine",)), reporter()))
    assert [type(event).__name__ for event in result.events] == ["Asked", "Answered", "Moved", "Done"]


def test_refused_effect_has_no_event() -> None:
    result = run_script(lambda: Script(SURVEY, Topics(("a",)), surveyors(agent_limits(tool_calls=0))))
    assert [type(event).__name__ for event in result.events] == ["Entered", "Moved", "Done"]


def test_event_precedes_the_next_action() -> None:
    seen: list[str] = []

    def answer(question: Question) -> str:
        seen.append("answered")
        return "fine"

    events = stream(INTERVIEW, Topic("tea", 1), make_run_context({Question: answer}))
    while (event := next(events, None)) is not None:
        seen.append(type(event).__name__)
    assert seen == ["Entered", "Asked", "answered", "Answered", "Moved", "Done"]


# ---- streams that are closed early

CLOSED: list[str] = []


@charged(when_spent=Stopped)
@node
def careful(left: Left) -> Asks[Question, Total]:
    try:
        first = yield from ask(Question("?"))
        second = yield from ask(Question("?"))
    finally:
        CLOSED.append("careful")
    return Total(first + second)


CAREFUL = graph(edges(careful, on(Total, END) | on(Stopped, END)), start=careful)


def until(events: Generator[Any, None, None], kind: type) -> None:
    for event in events:
        if isinstance(event, kind):
            return
    raise AssertionError(kind)


@cases("kind", [Asked, Answered])
def test_closing_a_stream_closes_the_node(kind: type) -> None:
    CLOSED.clear()
    events = stream(CAREFUL, Left(1), reporter())
    until(events, kind)
    assert CLOSED == []
    events.close()
    assert CLOSED == ["careful"]
    assert list(events) == []


@cases("kind", [Asked, Answered])
def test_closing_an_async_stream_closes_the_node(kind: type) -> None:
    CLOSED.clear()

    async def watch() -> None:
        events: AsyncGenerator[Any, None] = astream(CAREFUL, Left(1), reporter())
        async with aclosing(events):
            async for event in events:
                if isinstance(event, kind):
                    break
            assert CLOSED == []

    asyncio.run(watch())
    assert CLOSED == ["careful"]


KEPT: list[Any] = []


@charged(when_spent=Stopped)
@node
def keep_generator(left: Left) -> Asks[Question, Total]:
    # A second reference keeps the generator from closing itself.
    asking: Asks[Question, Total] = careful.function(left)
    KEPT.append(asking)
    return asking


@cases("kind", [Asked, Answered])
def test_node_is_closed_despite_other_references(kind: type) -> None:
    CLOSED.clear()
    events = stream(
        graph(edges(keep_generator, on(Total, END) | on(Stopped, END)), start=keep_generator), Left(1), reporter()
    )
    until(events, kind)
    assert CLOSED == []
    events.close()
    assert CLOSED == ["careful"]
    KEPT.clear()


def test_closed_stream_carries_out_nothing() -> None:
    asked: list[str] = []

    def answer(question: Question) -> str:
        asked.append(question.text)
        return "fine"

    events = stream(INTERVIEW, Topic("tea", 3), make_run_context({Question: answer}))
    until(events, Answered)
    events.close()
    assert asked == ["tea 0 0"]


def test_stream_without_iteration_does_nothing() -> None:
    asked: list[object] = []
    answer: Any = asked.append
    stream(INTERVIEW, Topic("tea"), make_run_context({Question: answer})).close()
    assert asked == []


def test_last_move_has_the_outcome_of_the_run() -> None:
    result = run_script(lambda: Script(INTERVIEW, Topic("tea", 1), reporter()))
    moved, done = result.events[-2:]
    assert isinstance(moved, Moved)
    assert isinstance(done, Done)
    assert moved.outcome is done.outcome
    assert moved.outcome == Interview(("re: tea 0 0",))


def test_answered_has_the_seconds_of_the_call() -> None:
    """It excludes the time of pure nodes and of the consumer."""
    clock = FakeClock()

    def answer(question: Question) -> str:
        clock.advance(2)
        return "fine"

    seconds: list[float] = []
    for event in stream(
        INTERVIEW, Topic("tea", 2), dataclasses.replace(make_run_context({Question: answer}), clock=clock)
    ):
        clock.advance(100)
        if isinstance(event, Answered):
            seconds.append(event.seconds)
    assert seconds == [2, 2]
