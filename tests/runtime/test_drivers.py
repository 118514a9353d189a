"""Every small machine behaves alike in every driver: sync, async, both streams, and resumed from JSON."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from graphexec import Asks, Effect, Exhausted, Graph, ask, messages, node
from graphexec.effects import ToolResult, agent_limits
from tests.drivers import LIVE, Driver, Script, drive_from_text, drive_sync, make_run_context, run_script
from tests.kernel import machines as m
from tests.parameters import cases

SCRIPTS: dict[str, tuple[Callable[[], Script[Any, Any]], object]] = {
    "clock": (
        lambda: Script(m.CLOCK, m.Tick(), m.limited(iterations=3)),
        m.Stopped(m.Tick(3), Exhausted("iterations", 3, 3)),
    ),
    "even": (lambda: Script(m.DIAMOND, m.Number(6), m.without_handlers()), m.Total("halved to 3")),
    "odd": (lambda: Script(m.DIAMOND, m.Number(7), m.without_handlers()), m.Total("tripled to 22")),
    "self-loop": (lambda: Script(m.SELF_LOOP, m.Left(4), m.without_handlers()), m.Landed()),
    "interview": (
        lambda: Script(m.INTERVIEW, m.Topic("tea", 3), m.reporter()),
        m.Interview(("re: tea 0 0", "re: tea 1 1", "re: tea 2 2")),
    ),
    "survey": (
        lambda: Script(m.SURVEY, m.Topics(("a", "b", "c")), m.surveyors()),
        m.Survey((ToolResult("a"), ToolResult("b"), ToolResult("c"))),
    ),
    "a survey of one": (lambda: Script(m.SURVEY, m.Topics(("a",)), m.surveyors()), m.Survey((ToolResult("a"),))),
    "an empty survey": (lambda: Script(m.SURVEY, m.Topics(()), m.without_handlers()), m.Survey(())),
    "prompts": (
        lambda: Script(m.PROMPTS, m.Prompt(), m.model_of(messages.Usage(1, 1), agent_limits(tokens=5))),
        m.Stopped(m.Prompt(3), Exhausted("tokens", 5, 6)),
    ),
    "errand": (lambda: Script(m.ERRAND, m.Errand(), m.without_handlers()), m.Home(("left", "back"))),
}


@cases("name", *SCRIPTS)
def test_every_driver_comes_to_the_same(name: str) -> None:
    script, outcome = SCRIPTS[name]
    assert run_script(script).outcome == outcome


@cases("name", *SCRIPTS)
def test_every_driver_works_under_a_running_loop(name: str) -> None:
    script, outcome = SCRIPTS[name]

    async def notebook() -> object:
        # A sync run in the loop's own thread, as in a notebook's cell.
        return drive_sync(script()).outcome

    assert asyncio.run(notebook()) == outcome


def test_state_is_kept_for_start_and_each_effect() -> None:
    result = run_script(lambda: Script(m.INTERVIEW, m.Topic("tea", 3), m.reporter()))
    assert (len(result.texts), len(result.asked)) == (4, 3)


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


def test_common_exception_is_raised() -> None:
    with pytest.raises(OSError, match="the line is dead"):
        run_script(lambda: Script(FETCH, m.Left(1), make_run_context({Fetch: fail})))


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
