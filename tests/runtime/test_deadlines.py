"""Deadlines: in the engine, where they are numbers, and in the drivers, which cut late calls."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from graphexec import Done, Exhausted, Limits, Snapshot, advance, begin
from graphexec.effects import CallTool, ToolResult
from graphexec.kernel import Cut, PendingEffect
from graphexec.kernel.effects import CallContext
from graphexec.runtime import IO, Handler, RunContext, arun, make_run_context, run
from graphexec.runtime.handlers import handlers_for
from tests.drivers import ALL_DRIVERS, Driver, FakeClock, Script, run_script
from tests.kernel.machines import (
    CLOCK,
    ERRAND,
    INTERVIEW,
    SURVEY,
    Errand,
    Home,
    Interview,
    Question,
    Stopped,
    Survey,
    Tick,
    Topic,
    Topics,
    Underway,
    without_handlers,
)
from tests.parameters import cases

TEN = Limits(seconds=10)


def asking(graph: Any, snapshot: Snapshot, limits: Limits = TEN) -> PendingEffect:
    state = advance(graph, Snapshot.from_json(snapshot.to_json(), graph), limits)
    assert isinstance(state, PendingEffect)
    return state


def finish(graph: Any, snapshot: Snapshot, limits: Limits = TEN) -> Done[Any]:
    state = advance(graph, Snapshot.from_json(snapshot.to_json(), graph), limits)
    assert isinstance(state, Done)
    return state


# ---- in the engine


def test_call_has_its_deadline() -> None:
    assert asking(INTERVIEW, begin(INTERVIEW, Topic("tea"))).deadline == 10
    assert asking(INTERVIEW, begin(INTERVIEW, Topic("tea")), Limits()).deadline is None


def test_cut_effect_takes_the_drawn_edge() -> None:
    first = asking(INTERVIEW, begin(INTERVIEW, Topic("tea"))).reply("fine", at=4.0)
    cut = asking(INTERVIEW, first).cut(at=10.5)
    assert finish(INTERVIEW, cut).outcome == Stopped(Topic("tea"), Exhausted("seconds", 10, 10.5))


def test_effect_continues_with_its_cut_reply() -> None:
    state = asking(SURVEY, begin(SURVEY, Topics(("a",))))
    outcome = finish(SURVEY, state.cut(at=11.0)).outcome
    text = "a was cut off: the limit of 10 seconds was reached (11 spent)."
    assert outcome == Survey((ToolResult(text, "cut"),))


def test_cut_batch_keeps_finished_results_in_order() -> None:
    state = asking(SURVEY, begin(SURVEY, Topics(("a", "b", "c"))))
    outcome = finish(SURVEY, state.cut(at=10.0, answers=(Cut(), ToolResult("b"), Cut()))).outcome
    assert [(result.status, result.observation) for result in outcome.results] == [
        ("cut", "a was cut off: the limit of 10 seconds was reached (10 spent)."),
        ("ok", "b"),
        ("cut", "c was cut off: the limit of 10 seconds was reached (10 spent)."),
    ]


def test_unstarted_batch_is_cut_whole() -> None:
    state = asking(SURVEY, begin(SURVEY, Topics(("a", "b"))))
    outcome = finish(SURVEY, state.cut(at=10.0)).outcome
    assert [result.status for result in outcome.results] == ["cut", "cut"]


def test_late_reply_counts_but_ends_asking() -> None:
    late = asking(INTERVIEW, begin(INTERVIEW, Topic("tea", 1))).reply("at last", at=99.0)
    assert finish(INTERVIEW, late).outcome == Interview(("at last",))
    late = asking(INTERVIEW, begin(INTERVIEW, Topic("tea", 2))).reply("at last", at=99.0)
    assert finish(INTERVIEW, late).outcome == Stopped(Topic("tea", 2), Exhausted("seconds", 10, 99))


def test_no_second_stops_a_run_at_once() -> None:
    assert finish(CLOCK, begin(CLOCK, Tick()), Limits(seconds=0)).outcome == Stopped(Tick(), Exhausted("seconds", 0, 0))


def test_backward_clock_gives_no_time_back() -> None:
    first = asking(INTERVIEW, begin(INTERVIEW, Topic("tea"))).reply("one", at=9.0)
    second = asking(INTERVIEW, first).reply("two", at=3.0)
    assert second.spent.seconds == 9.0


def test_cut_opaque_node_takes_the_drawn_edge() -> None:
    first = asking(ERRAND, begin(ERRAND, Errand())).reply(Underway(("left",)), at=1.0)
    assert finish(ERRAND, asking(ERRAND, first).cut(at=10.0)).outcome == Stopped(
        Underway(("left",)), Exhausted("seconds", 10, 10)
    )


# ---- in the drivers, with a clock that only handlers advance


def ticking(seconds_each: float, limits: Limits, asked: list[str] | None = None) -> RunContext:
    """Questions are answered at once, but each advances the clock."""
    clock = FakeClock(1000.0)

    def answer(question: Question) -> str:
        if asked is not None:
            asked.append(question.text)
        clock.advance(seconds_each)
        return "fine"

    return RunContext(handlers_for({Question: answer}), limits, clock=clock)


@cases(("seconds_each", "answers"), [(1.0, 3), (4.0, 3), (5.0, 2), (9.0, 2), (10.0, 1), (99.0, 1)])
def test_clock_is_read_between_effects(seconds_each: float, answers: int) -> None:
    asked: list[str] = []

    def script() -> Script[Any, Any]:
        asked.clear()
        return Script(INTERVIEW, Topic("tea", 3), ticking(seconds_each, TEN, asked))

    result = run_script(script)
    assert len(asked) == answers
    assert result.spent.seconds == seconds_each * answers
    assert isinstance(result.outcome, Interview if answers == 3 else Stopped)


def late(answers: Any) -> RunContext:
    """The limit is ten seconds, and the node takes eleven before it asks for the first effect."""
    times = itertools.chain([0.0], itertools.repeat(11.0))
    return RunContext(handlers_for(answers), TEN, clock=lambda: next(times))


def test_past_deadline_cuts_a_whole_batch() -> None:
    for driver in ALL_DRIVERS:
        outcome = driver(Script(SURVEY, Topics(("a", "b")), late({CallTool: never}))).outcome
        assert [result.status for result in outcome.results] == ["cut", "cut"]


def test_past_deadline_cuts_an_effect() -> None:
    for driver in ALL_DRIVERS:
        outcome = driver(Script(INTERVIEW, Topic("tea"), late({Question: never}))).outcome
        assert outcome == Stopped(Topic("tea"), Exhausted("seconds", 10, 11))


def test_instant_handler_respects_the_deadline() -> None:
    async def answer(effect: object, call: CallContext[Any], io: IO) -> Any:
        return never(effect)

    instant = Handler(answer, instant=True)
    for driver in ALL_DRIVERS:
        answers = {Question: instant, CallTool: instant}
        assert driver(Script(INTERVIEW, Topic("tea"), late(answers))).spent.seconds == 11
        assert driver(Script(SURVEY, Topics(("a", "b")), late(answers))).spent.seconds == 11


def never(effect: object) -> Any:
    raise AssertionError(f"{effect} was carried out")


# ---- in the drivers, with a handler that blocks until the test is over

SOON = 0.05


@pytest.fixture
def over() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("driver", ALL_DRIVERS, ids=lambda driver: driver.__name__)
def test_a_handler_that_blocks_is_cut(driver: Driver, over: threading.Event) -> None:
    def block(question: Question) -> str:
        over.wait()
        return "too late"

    result = driver(Script(INTERVIEW, Topic("tea"), make_run_context({Question: block}, limits=Limits(seconds=SOON))))
    assert isinstance(result.outcome, Stopped)
    assert result.outcome.limit.limit == "seconds"
    assert result.outcome.limit.reached >= SOON


@cases("driver", ALL_DRIVERS)
def test_a_handler_that_awaits_is_cut(driver: Driver) -> None:
    async def block(question: Question) -> str:
        await asyncio.get_running_loop().create_future()
        return "never"

    result = driver(Script(INTERVIEW, Topic("tea"), make_run_context({Question: block}, limits=Limits(seconds=SOON))))
    assert isinstance(result.outcome, Stopped)


@pytest.mark.parametrize("driver", ALL_DRIVERS, ids=lambda driver: driver.__name__)
@pytest.mark.parametrize("at_once", [1, 2, 64])
def test_only_blocking_calls_of_a_batch_are_cut(driver: Driver, at_once: int, over: threading.Event) -> None:
    def survey(call: CallTool) -> ToolResult:
        if call.name == "slow":
            over.wait()
        return ToolResult(call.name)

    # Enough time for the other calls to begin and end on a busy machine.
    made = make_run_context({CallTool: survey}, limits=Limits(seconds=6 * SOON), at_once=at_once)
    run_result = driver(Script(SURVEY, Topics(("a", "slow", "c")), made))
    statuses = [result.status for result in run_result.outcome.results]
    # One at a time: the calls after the slow one never begin.
    assert statuses == (["ok", "cut", "cut"] if at_once == 1 else ["ok", "cut", "ok"])


@pytest.mark.parametrize("driver", ALL_DRIVERS, ids=lambda driver: driver.__name__)
def test_an_opaque_node_that_blocks_is_cut(driver: Driver, over: threading.Event) -> None:
    from graphexec import END, charged, edges, graph, on, opaque

    @charged(when_spent=Stopped)
    @opaque
    def wait(errand: Errand) -> Home:
        over.wait()
        return Home(())

    machine = graph(edges(wait, on(Home, END) | on(Stopped, END)), start=wait)
    assert isinstance(driver(Script(machine, Errand(), without_handlers(Limits(seconds=SOON)))).outcome, Stopped)


@cases("driver", ALL_DRIVERS)
def test_timeout_error_of_a_handler_is_not_a_deadline(driver: Driver) -> None:
    def failing(question: Question) -> str:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        driver(Script(INTERVIEW, Topic("tea"), make_run_context({Question: failing}, limits=TEN)))


@cases("driver", ALL_DRIVERS)
def test_handlers_know_the_seconds_left(driver: Driver) -> None:
    result: list[float | None] = []
    clock = FakeClock()

    async def answer(question: Question, call: CallContext[Any], io: IO) -> str:
        result.append(call.seconds_left)
        clock.advance(3)
        return "fine"

    driver(Script(INTERVIEW, Topic("tea"), RunContext({Question: Handler(answer)}, TEN, clock=clock)))
    assert result == [10, 7, 4]
    result.clear()
    driver(Script(INTERVIEW, Topic("tea"), RunContext({Question: Handler(answer)}, Limits(), clock=clock)))
    assert result == [None, None, None]


@cases("seconds", [None, 60.0])
def test_instant_handler_runs_in_the_driver_thread(seconds: float | None) -> None:
    threads: set[int] = set()

    async def answer(effect: CallTool | Question, call: CallContext[Any], io: IO) -> Any:
        assert io.blocking, "an instant handler does not wait"
        threads.add(threading.get_ident())
        return ToolResult("x") if isinstance(effect, CallTool) else "x"

    instant = Handler(answer, instant=True)
    made = RunContext({Question: instant, CallTool: instant}, Limits(seconds=seconds))
    runs: list[Callable[[], object]] = [
        lambda: run(INTERVIEW, Topic("tea"), made),
        lambda: run(SURVEY, Topics(("a", "b")), made),
        lambda: asyncio.run(arun(INTERVIEW, Topic("tea"), made)),
        lambda: asyncio.run(arun(SURVEY, Topics(("a", "b")), made)),
    ]
    for one in runs:
        one()
    assert threads == {threading.get_ident()}
