"""The methods of a machine prove it first, and then run it like the runner: `run`, `arun`, `stream`, `astream`."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import Effect, Graph, Limits, Snapshot, UnprovedError, snapshot_of
from graphexec.errors import InputError, LimitsError, MissingHandlerError
from graphexec.kernel import Asked, Done, Entered, Event
from graphexec.runtime import HandlerLike, runner
from tests.kernel import machines
from tests.parameters import cases

Way: TypeAlias = Callable[..., Done[Any]]
Handlers: TypeAlias = Mapping[type[Effect[Any]], HandlerLike]


def run(machine: Graph[Any, Any], value: Any, **options: Any) -> Done[Any]:
    return machine.run(value, **options)


def arun(machine: Graph[Any, Any], value: Any, **options: Any) -> Done[Any]:
    return asyncio.run(machine.arun(value, **options))


def stream(machine: Graph[Any, Any], value: Any, **options: Any) -> Done[Any]:
    return _last_event(list(machine.stream(value, **options)))


def astream(machine: Graph[Any, Any], value: Any, **options: Any) -> Done[Any]:
    return _last_event(asyncio.run(_collected(machine.astream(value, **options))))


async def _collected(events: AsyncGenerator[Event[Any], None]) -> list[Event[Any]]:
    return [event async for event in events]


def _last_event(events: list[Event[Any]]) -> Done[Any]:
    done = events[-1]
    assert isinstance(done, Done)
    return done


def travels(miles: float | None, log: list[machines.Travel] | None = None) -> Handlers:
    """Return handlers for the road: each travel has these miles, and is logged."""

    def answer(effect: machines.Travel) -> float | None:
        if log is not None:
            log.append(effect)
        return miles

    return {machines.Travel: answer}


def answers(text: str) -> Handlers:
    """Return handlers for the interview: each answer is the same."""

    def answer(_: machines.Question) -> str:
        return text

    return {machines.Question: answer}


WAYS: tuple[Way, ...] = (run, arun, stream, astream)
in_every_way = cases("way", WAYS)


def comparable(done: Done[Any]) -> object:
    """Return the end of a run without its seconds."""
    spent = done.spent
    return done.outcome, done.snapshot.node, spent.iterations, spent.budgets, spent.meters


MACHINES: dict[str, tuple[Graph[Any, Any], Callable[[int], object], Handlers]] = {
    "diamond": (machines.DIAMOND, machines.Number, {}),
    "self-loop": (machines.SELF_LOOP, machines.Left, {}),
    "interview": (
        machines.INTERVIEW,
        lambda number: machines.Topic("tea", number),
        {machines.Question: lambda asked: f"re: {asked.text}"},
    ),
    "errand": (machines.ERRAND, lambda number: machines.Errand(("stop",) * number), {}),
    "road": (machines.ROAD, machines.Trip, travels(1.5)),
}


@given(name=st.sampled_from(sorted(MACHINES)), number=st.integers(0, 8), most=st.integers(0, 8))
def test_methods_run_like_the_runner(name: str, number: int, most: int) -> None:
    machine, start, handlers = MACHINES[name]
    limits = Limits({machines.TOLLS: most, machines.MILES: 6.5}, iterations=most)
    expected = comparable(runner.run(machine, start(number), runner.make_run_context(handlers, limits=limits)))
    for way in WAYS:
        assert comparable(way(machine, start(number), handlers=handlers, limits=limits)) == expected, way


def test_streams_yield_the_events_of_the_runner() -> None:
    limits = Limits({machines.TOLLS: 3})
    handlers = travels(1.0)
    expected = list(runner.stream(machines.ROAD, machines.Trip(9), runner.make_run_context(handlers, limits=limits)))
    sync = list(machines.ROAD.stream(machines.Trip(9), handlers=handlers, limits=limits))
    unblocking = asyncio.run(_collected(machines.ROAD.astream(machines.Trip(9), handlers=handlers, limits=limits)))
    kinds = [type(event) for event in expected]
    assert kinds.count(Asked) == 3
    assert [type(event) for event in sync] == [type(event) for event in unblocking] == kinds


# ---- the proof before the first step


@in_every_way
def test_unproved_machine_is_refused(way: Way) -> None:
    travelled: list[machines.Travel] = []
    with pytest.raises(UnprovedError, match="travel --Trip--> travel") as caught:
        way(machines.ROAD, machines.Trip(2), handlers={machines.Travel: travelled.append})
    assert caught.value.verdict.status == "refuted"
    assert travelled == []


@cases("start", [machines.ROAD.stream, machines.ROAD.astream])
def test_stream_refuses_before_the_first_event(start: Callable[..., object]) -> None:
    with pytest.raises(UnprovedError):
        start(machines.Trip(2), handlers=travels(1.0))


@in_every_way
def test_unproved_machine_runs_on_request(way: Way) -> None:
    done = way(machines.ROAD, machines.Trip(20), handlers=travels(1.0), allow_nonterminating=True)
    assert (done.outcome, done.spent[machines.TOLLS], done.spent[machines.MILES]) == (machines.Arrived(), 20, 20.0)


@in_every_way
def test_limits_prove_a_machine(way: Way) -> None:
    done = way(machines.ROAD, machines.Trip(2), handlers=travels(1.0), limits=Limits({machines.TOLLS: 3}))
    assert done.outcome == machines.Arrived()


@in_every_way
def test_unknown_budget_is_refused(way: Way) -> None:
    with pytest.raises(LimitsError, match="patience"):
        way(machines.SELF_LOOP, machines.Left(1), limits=Limits(budgets={"patience": 1}))


# ---- limits on meters


@in_every_way
@cases(("limit", "miles"), [(0, 5.0), (1, 5.0), (4, 5.0)])
def test_charged_meter_stops_before_the_effect(way: Way, limit: int, miles: float) -> None:
    travelled: list[machines.Travel] = []
    handlers = travels(1.0, travelled)
    done = way(machines.ROAD, machines.Trip(miles), handlers=handlers, limits=Limits({machines.TOLLS: limit}))
    assert isinstance(done.outcome, machines.Stopped)
    assert (done.outcome.at, done.outcome.limit.limit) == (machines.Trip(miles - limit), "tolls")
    assert len(travelled) == done.spent["tolls"] == limit


@in_every_way
def test_last_effect_may_exceed_a_measured_limit(way: Way) -> None:
    done = way(
        machines.ROAD,
        machines.Trip(50),
        handlers=travels(4.0),
        limits=Limits({machines.TOLLS: 9, machines.MILES: 10.0}),
    )
    assert str(done.outcome.limit) == "the limit of 10 on the miles was reached (12 spent)"
    assert (done.spent[machines.TOLLS], done.spent[machines.MILES]) == (3, 12.0)


@in_every_way
def test_unreported_amount_with_a_limit_is_an_error(way: Way) -> None:
    with pytest.raises(InputError) as caught:
        way(
            machines.ROAD,
            machines.Trip(2),
            handlers=travels(None),
            limits=Limits({machines.TOLLS: 3, machines.MILES: 10.0}),
        )
    assert str(caught.value) == (
        "travel asked for Travel, and the reply does not report its miles, which is limited; report the miles"
    )


@in_every_way
def test_unreported_amount_without_a_limit_counts_nothing(way: Way) -> None:
    done = way(machines.ROAD, machines.Trip(2), handlers=travels(None), limits=Limits({machines.TOLLS: 3}))
    assert (done.spent[machines.TOLLS], done.spent[machines.MILES]) == (3, 0)


@in_every_way
def test_negative_amounts_are_refused(way: Way) -> None:
    with pytest.raises(InputError) as caught:
        way(machines.ROAD, machines.Trip(2), handlers=travels(-1.0), limits=Limits({machines.TOLLS: 3}))
    assert str(caught.value) == (
        "travel asked for Travel, whose measure returned -1.0; "
        "return a finite number of miles, 0 or more, or None if the reply does not report it"
    )


# ---- values, snapshots and handlers


@in_every_way
def test_snapshot_is_resumed(way: Way) -> None:
    def fail_at_third(asked: machines.Question) -> str:
        if asked.text.startswith("tea 2"):
            raise OSError("the line is dead")
        return "first"

    with pytest.raises(OSError, match="the line is dead") as caught:
        way(machines.INTERVIEW, machines.Topic("tea"), handlers={machines.Question: fail_at_third})
    snapshot = snapshot_of(caught.value)
    assert snapshot is not None
    stored = Snapshot.from_json(snapshot.to_json(), machines.INTERVIEW)
    done = way(machines.INTERVIEW, stored, handlers=answers("second"))
    assert done.outcome == machines.Interview(("first", "first", "second"))


@in_every_way
def test_resumed_run_keeps_what_is_spent(way: Way) -> None:
    first = machines.ROAD.run(machines.Trip(9), handlers=travels(1.0), limits=Limits({machines.TOLLS: 2}))
    done = way(machines.ROAD, first.snapshot, handlers=travels(1.0), limits=Limits({machines.TOLLS: 5}))
    assert (done.outcome.at, done.spent[machines.TOLLS]) == (machines.Trip(4), 5)


@in_every_way
def test_effect_without_handler_is_refused(way: Way) -> None:
    with pytest.raises(MissingHandlerError, match="no handler answers Question; pass handlers=") as caught:
        way(machines.INTERVIEW, machines.Topic("tea"))
    assert caught.value.effect == machines.Question("tea 0 0")


@in_every_way
def test_value_of_another_class_is_refused(way: Way) -> None:
    with pytest.raises(InputError, match="countdown takes Left, not int"):
        way(machines.SELF_LOOP, 3)


@in_every_way
def test_invalid_handlers_are_an_error(way: Way) -> None:
    with pytest.raises(InputError, match="use an effect class as the key"):
        way(machines.INTERVIEW, machines.Topic("tea"), handlers={"Question": str})


@in_every_way
def test_machine_without_effects_needs_no_handlers(way: Way) -> None:
    assert way(machines.DIAMOND, machines.Number(6)).outcome == machines.Total("halved to 3")


@in_every_way
def test_opaque_nodes_are_performed(way: Way) -> None:
    assert way(machines.ERRAND, machines.Errand(), limits=Limits()).outcome == machines.Home(("left", "back"))


@in_every_way
def test_async_handler_answers(way: Way) -> None:
    async def answer(asked: machines.Question) -> str:
        await asyncio.sleep(0)
        return asked.text

    outcome = way(machines.INTERVIEW, machines.Topic("tea", 1), handlers={machines.Question: answer}).outcome
    assert outcome == machines.Interview(("tea 0 0",))


def test_sync_run_works_under_a_running_loop() -> None:
    async def answer(asked: machines.Question) -> str:
        await asyncio.sleep(0)
        return asked.text

    async def outcomes() -> list[object]:
        handlers: Handlers = {machines.Question: answer}
        (*_, last) = machines.INTERVIEW.stream(machines.Topic("tea", 1), handlers=handlers)
        assert isinstance(last, Done)
        return [machines.INTERVIEW.run(machines.Topic("tea", 1), handlers=handlers).outcome, last.outcome]

    assert asyncio.run(outcomes()) == [machines.Interview(("tea 0 0",))] * 2


@cases("way", [arun, astream])
def test_blocking_handler_runs_beside_the_loop(way: Way) -> None:
    threads: list[threading.Thread] = []

    def answer(_: machines.Question) -> str:
        threads.append(threading.current_thread())
        return ""

    way(machines.INTERVIEW, machines.Topic("tea", 1), handlers={machines.Question: answer})
    assert threading.main_thread() not in threads


def test_closed_stream_stops_asking() -> None:
    travelled: list[machines.Travel] = []
    handlers = travels(1.0, travelled)
    events = machines.ROAD.stream(machines.Trip(9), handlers=handlers, limits=Limits({machines.TOLLS: 5}))
    assert isinstance(next(events), Entered)
    assert isinstance(next(events), Asked)
    assert travelled == []
    events.close()
    assert (travelled, list(events)) == ([], [])
