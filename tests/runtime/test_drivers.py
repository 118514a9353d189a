"""Every small machine behaves alike in every driver: sync, async, both streams, and resumed from JSON."""

import asyncio
from dataclasses import dataclass

import pytest

from graphexec import Asks, Effect, Graph, ask, node
from tests.drivers import LIVE, Driver, Script, drive_from_text, drive_sync, make_run_context, run_script
from tests.kernel import machines as m
from tests.parameters import cases


def test_sync_run_works_under_a_running_loop() -> None:
    async def notebook() -> object:
        # In the loop's own thread, as in a notebook's cell.
        return drive_sync(Script(m.INTERVIEW, m.Topic("tea", 1), m.reporter())).outcome

    assert asyncio.run(notebook()) == m.Interview(("re: tea 0 0",))


@dataclass(frozen=True)
class Fetch(Effect[int]):
    pass


@m.value
class Fetched:
    value: int


@node(when_spent=m.Stopped)
def fetch(left: m.Left) -> Asks[Fetch, Fetched]:
    return Fetched((yield from ask(Fetch())))


FETCH: Graph[m.Left, Fetched | m.Stopped] = m.machine_of(fetch)


def test_drivers_that_disagree_are_found_out() -> None:
    replies = iter(range(5))
    different = make_run_context({Fetch: lambda _: next(replies)})
    with pytest.raises(AssertionError, match=r"drive_async: .*\n.*drive_sync: "):
        run_script(lambda: Script(FETCH, m.Left(1), different))


def fail(_: Fetch) -> int:
    raise OSError("the line is dead")


@cases("odd_one", drive_from_text, LIVE[1])
def test_a_driver_that_alone_raises_is_found_out(odd_one: Driver) -> None:
    scripts = iter([make_run_context({Fetch: lambda _: 1}), make_run_context({Fetch: fail})])
    with pytest.raises(AssertionError, match="the line is dead") as caught:
        run_script(lambda: Script(FETCH, m.Left(1), next(scripts)), drivers=[drive_sync, odd_one])
    assert isinstance(caught.value.__cause__, OSError)


@m.value
class Holding:
    thing: object


THING = object()


@node
def hold(given: m.Left) -> Holding:
    return Holding(THING)


def test_values_outside_json_pass_live_drivers() -> None:
    result = run_script(lambda: Script(m.machine_of(hold), m.Left(1), m.without_handlers()), drivers=LIVE)
    assert result.outcome.thing is THING
