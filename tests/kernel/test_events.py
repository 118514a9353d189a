"""Events: each one is emitted when it happens, in the same order with every driver."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import Any

import graphexec as gx
from graphexec.effects import CallTool, ToolResult, agent_limits
from graphexec.runtime import RunContext, astream, make_run_context, stream
from tests.drivers import FakeClock
from tests.kernel import machines
from tests.kernel.machines import machine_of, run_machine
from tests.parameters import cases


def test_events_of_a_clock() -> None:
    spent = gx.Exhausted("iterations", 1, 1)
    result = run_machine(machines.CLOCK, machines.Tick(), machines.limited(iterations=1))
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
    observed = run_machine(machines.SURVEY, machines.Topics(("a", "b")), machines.surveyors())
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


RESUMED = gx.Snapshot("interview", machines.Topic("tea", 2), ("fine",))


@cases(
    ("machine", "value", "context", "names"),
    [
        # A resumed node has no second event for its entry, and a refused effect has none.
        (machines.INTERVIEW, RESUMED, machines.reporter(), ["Asked", "Answered", "Moved", "Done"]),
        (
            machines.SURVEY,
            machines.Topics(("a",)),
            machines.surveyors(agent_limits(tool_calls=0)),
            ["Entered", "Moved", "Done"],
        ),
    ],
)
def test_only_what_happens_has_an_event(machine: Any, value: object, context: RunContext, names: list[str]) -> None:
    assert [type(event).__name__ for event in run_machine(machine, value, context).events] == names


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


KEPT: list[Any] = []


@gx.charged(when_spent=machines.Stopped)
@gx.node
def keep_generator(left: machines.Left) -> gx.Asks[machines.Question, machines.Total]:
    # A second reference keeps the generator from closing itself.
    KEPT.append(careful.function(left))
    asking: gx.Asks[machines.Question, machines.Total] = KEPT[-1]
    return asking


CAREFUL, KEEPING = machine_of(careful), machine_of(keep_generator)


def until(events: Generator[Any, None, None], kind: type) -> None:
    for event in events:
        if isinstance(event, kind):
            return
    raise AssertionError(kind)


@cases("machine", [CAREFUL, KEEPING])
@cases("kind", [gx.Asked, gx.Answered])
def test_closing_a_stream_closes_the_node(machine: gx.Graph[Any, Any], kind: type) -> None:
    CLOSED.clear()
    events = stream(machine, machines.Left(1), machines.reporter())
    until(events, kind)
    assert CLOSED == []
    events.close()
    assert CLOSED == ["careful"]
    assert list(events) == []
    KEPT.clear()


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


def test_closed_stream_carries_out_nothing() -> None:
    asked: list[str] = []

    def answer(question: machines.Question) -> str:
        asked.append(question.text)
        return "fine"

    context = make_run_context({machines.Question: answer})
    stream(machines.INTERVIEW, machines.Topic("tea"), context).close()
    assert asked == []
    events = stream(machines.INTERVIEW, machines.Topic("tea", 3), context)
    until(events, gx.Answered)
    events.close()
    assert asked == ["tea 0 0"]


def test_last_move_has_the_outcome_of_the_run() -> None:
    moved, done = run_machine(machines.INTERVIEW, machines.Topic("tea", 1), machines.reporter()).events[-2:]
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
    context = make_run_context({machines.Question: answer}, clock=clock)
    for event in stream(machines.INTERVIEW, machines.Topic("tea", 2), context):
        clock.advance(100)
        if isinstance(event, gx.Answered):
            seconds.append(event.seconds)
    assert seconds == [2, 2]
