"""The methods of a machine prove it first, and then run it like the runner: `run`, `arun`, `stream`, `astream`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Unpack

import graphexec as gx
from graphexec import Effect, Limits, Machine, UnprovedError
from graphexec.errors import InputError, MissingHandlerError
from graphexec.kernel import Done, Event
from graphexec.runtime import runner
from graphexec.runtime.handlers import HandlerLike, MachineSettings
from tests.kernel import machines as m
from tests.parameters import cases

Way: TypeAlias = Callable[..., Done[Any]]
Handlers: TypeAlias = Mapping[type[Effect[Any]], HandlerLike]


def run(machine: Machine[Any, Any], value: Any, **options: Unpack[MachineSettings]) -> Done[Any]:
    return machine.run(value, **options)


def arun(machine: Machine[Any, Any], value: Any, **options: Unpack[MachineSettings]) -> Done[Any]:
    return asyncio.run(machine.arun(value, **options))


def stream(machine: Machine[Any, Any], value: Any, **options: Any) -> Done[Any]:
    return _last_event(list(machine.stream(value, **options)))


def astream(machine: Machine[Any, Any], value: Any, **options: Any) -> Done[Any]:
    return _last_event(asyncio.run(_collected(machine.astream(value, **options))))


async def _collected(events: AsyncGenerator[Event[Any], None]) -> list[Event[Any]]:
    return [event async for event in events]


def _last_event(events: list[Event[Any]]) -> Done[Any]:
    done = events[-1]
    assert isinstance(done, Done)
    return done


def travels(miles: float | None, log: list[m.Travel] | None = None) -> Handlers:
    """Return handlers for the road: each travel has these miles, and is logged."""

    def answer(effect: m.Travel) -> float | None:
        if log is not None:
            log.append(effect)
        return miles

    return {m.Travel: answer}


WAYS: tuple[Way, ...] = (run, arun, stream, astream)
in_every_way = cases("way", *WAYS)


def comparable(done: Done[Any]) -> object:
    """Return the end of a run without its seconds."""
    spent = done.spent
    return done.outcome, done.snapshot.node, spent.iterations, spent.meters


def stopped(miles: float, limit: str, value: float, reached: float) -> m.Stopped:
    return m.Stopped(m.Trip(miles), gx.Exhausted(limit, value, reached))


MACHINES: dict[str, tuple[Machine[Any, Any], Callable[[int], object], Handlers]] = {
    "diamond": (m.DIAMOND, m.Number, {}),
    "self-loop": (m.SELF_LOOP, m.Left, {}),
    "interview": (m.INTERVIEW, lambda number: m.Topic("tea", number), {m.Question: lambda asked: f"re: {asked.text}"}),
    "errand": (m.ERRAND, lambda number: m.Errand(("stop",) * number), {}),
    "road": (m.ROAD, m.Trip, travels(1.5)),
}


@given(name=st.sampled_from(sorted(MACHINES)), number=st.integers(0, 8), most=st.integers(0, 8))
def test_methods_run_like_the_runner(name: str, number: int, most: int) -> None:
    machine, start, handlers = MACHINES[name]
    limits = Limits({m.TOLLS: most, m.MILES: 6.5}, iterations=most)
    expected = comparable(runner.run(machine, start(number), handlers=handlers, limits=limits))
    # A machine without effects needs no handlers.
    options = {"limits": limits, "handlers": handlers} if handlers else {"limits": limits}
    for way in WAYS:
        assert comparable(way(machine, start(number), **options)) == expected, way


@in_every_way
def test_unproved_machine_is_refused(way: Way) -> None:
    travelled: list[m.Travel] = []
    with pytest.raises(UnprovedError, match="travel --Trip--> travel") as caught:
        way(m.ROAD, m.Trip(2), handlers=travels(1.0, travelled))
    assert (caught.value.verdict.status, travelled) == ("refuted", [])


@cases("start", m.ROAD.stream, m.ROAD.astream)
def test_stream_refuses_before_the_first_event(start: Callable[..., object]) -> None:
    with pytest.raises(UnprovedError):
        start(m.Trip(2), handlers=travels(1.0))


@in_every_way
@cases(
    ("miles", "reported", "options", "outcome", "tolls", "spent"),
    # An unproved machine runs on request, and limits prove it.
    (20, 1.0, {"allow_nonterminating": True}, m.Arrived(), 20, 20.0),
    (2, 1.0, {"limits": Limits({m.TOLLS: 3})}, m.Arrived(), 2, 2.0),
    # A charged meter stops before the effect, and the last effect may exceed a measured limit.
    (5, 1.0, {"limits": Limits({m.TOLLS: 0})}, stopped(5, "tolls", 0, 0), 0, 0),
    (5, 1.0, {"limits": Limits({m.TOLLS: 1})}, stopped(4, "tolls", 1, 1), 1, 1.0),
    (5, 1.0, {"limits": Limits({m.TOLLS: 4})}, stopped(1, "tolls", 4, 4), 4, 4.0),
    (50, 4.0, {"limits": Limits({m.TOLLS: 9, m.MILES: 10.0})}, stopped(38, "miles", 10, 12), 3, 12.0),
    # An amount that is not reported counts nothing if it is not limited.
    (2, None, {"limits": Limits({m.TOLLS: 3})}, stopped(2, "tolls", 3, 3), 3, 0),
)
def test_limits_on_meters_end_a_run(
    miles: float, reported: float | None, options: Any, outcome: object, tolls: int, spent: float, way: Way
) -> None:
    travelled: list[m.Travel] = []
    done = way(m.ROAD, m.Trip(miles), handlers=travels(reported, travelled), **options)
    assert (done.outcome, done.spent[m.TOLLS], done.spent[m.MILES]) == (outcome, tolls, spent)
    assert len(travelled) == tolls


@in_every_way
@cases(
    ("kind", "machine", "value", "options", "facts"),
    (
        InputError,
        m.ROAD,
        m.Trip(2),
        {"handlers": travels(None), "limits": Limits({m.TOLLS: 3, m.MILES: 10.0})},
        ["travel asked for Travel, and the reply does not report its miles", "is limited; report the miles"],
    ),
    (MissingHandlerError, m.INTERVIEW, m.Topic("tea"), {}, ["no handler answers Question; pass handlers="]),
    (InputError, m.SELF_LOOP, 3, {}, ["countdown takes Left, not int"]),
    (InputError, m.INTERVIEW, m.Topic("tea"), {"handlers": {"Question": str}}, ["use an effect class as the key"]),
)
def test_invalid_run_is_refused(kind: Any, machine: Any, value: Any, options: Any, facts: list[str], way: Way) -> None:
    m.check_refusal(kind, facts, lambda: way(machine, value, **options))


@in_every_way
def test_snapshot_is_resumed_with_what_is_spent(way: Way) -> None:
    first = m.ROAD.run(m.Trip(9), handlers=travels(1.0), limits=Limits({m.TOLLS: 2}))
    done = way(m.ROAD, first.snapshot, handlers=travels(1.0), limits=Limits({m.TOLLS: 5}))
    assert (done.outcome.at, done.spent[m.TOLLS]) == (m.Trip(4), 5)
