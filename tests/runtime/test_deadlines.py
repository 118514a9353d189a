"""Deadlines: in the engine, where they are numbers, and in the drivers, which cut late calls."""

import asyncio
import itertools
import threading
from typing import Any

import pytest

from graphexec import Exhausted, Limits, effects, node
from graphexec.kernel.effects import CallContext
from graphexec.runtime import IO, Handler
from graphexec.runtime.handlers import RunContext, handlers_for
from tests.drivers import ALL_DRIVERS, Driver, FakeClock, Script, drive_async, drive_sync, make_run_context, run_script
from tests.kernel import machines as m
from tests.parameters import cases
from tests.semantics.endings import raising

TEN = Limits(seconds=10)


# ---- in the engine


STOPPED = m.Stopped(m.Topic("tea", 2), Exhausted("seconds", 10, 99))


@cases(("count", "outcome"), (1, m.Interview(("at last",))), (2, STOPPED))
def test_late_reply_counts_but_ends_asking(count: int, outcome: object) -> None:
    late = m.pending(m.INTERVIEW, m.Topic("tea", count), TEN).reply("at last", at=99.0)
    assert m.finish(m.INTERVIEW, m.reload(late, m.INTERVIEW), TEN).outcome == outcome


# ---- in the drivers, with a clock that only handlers advance


@cases(("seconds_each", "answers"), (1.0, 3), (4.0, 3), (5.0, 2), (9.0, 2), (10.0, 1), (99.0, 1))
def test_clock_is_read_between_effects(seconds_each: float, answers: int) -> None:
    asked: list[str] = []

    def script() -> Script[Any, Any]:
        asked.clear()
        clock = FakeClock(1000.0)

        def answer(question: m.Question) -> str:
            asked.append(question.text)
            clock.advance(seconds_each)
            return "fine"

        context = RunContext(handlers_for({m.Question: answer}), TEN, clock=clock)
        return Script(m.INTERVIEW, m.Topic("tea", 3), context)

    result = run_script(script)
    assert (len(asked), result.spent.seconds) == (answers, seconds_each * answers)
    assert isinstance(result.outcome, m.Interview if answers == 3 else m.Stopped)


def late(answers: Any) -> RunContext:
    """The limit is ten seconds, and the node takes eleven before it asks for the first effect."""
    times = itertools.chain([0.0], itertools.repeat(11.0))
    return RunContext(handlers_for(answers), TEN, clock=lambda: next(times))


def never(effect: object) -> Any:
    raise AssertionError(f"{effect} was carried out")


async def never_at_once(effect: object, call: CallContext[Any], io: IO) -> Any:
    return never(effect)


@cases("driver", *ALL_DRIVERS)
@cases("answer", never, Handler(never_at_once, instant=True))
def test_past_deadline_cuts_a_batch_and_an_effect(driver: Driver, answer: Any) -> None:
    done = driver(Script(m.SURVEY, m.Topics(("a", "b")), late({effects.CallTool: answer})))
    assert [result.status for result in done.outcome.results] == ["cut", "cut"]
    assert done.spent.seconds == 11
    done = driver(Script(m.INTERVIEW, m.Topic("tea"), late({m.Question: answer})))
    assert done.outcome == m.Stopped(m.Topic("tea"), Exhausted("seconds", 10, 11))
    assert done.spent.seconds == 11


# ---- in the drivers, with a handler that blocks until the test is over

SOON = 0.05


async def await_forever(question: m.Question) -> str:
    await asyncio.get_running_loop().create_future()
    return "never"


@pytest.mark.medium
@cases("driver", *ALL_DRIVERS)
@cases("kind", "def", "async def")
def test_a_handler_that_blocks_is_cut(driver: Driver, kind: str) -> None:
    over = threading.Event()

    def block(question: m.Question) -> str:
        over.wait()
        return "too late"

    answers: dict[Any, Any] = {m.Question: block if kind == "def" else await_forever}
    result = driver(Script(m.INTERVIEW, m.Topic("tea"), make_run_context(answers, limits=Limits(seconds=SOON))))

    @node(when_spent=m.Stopped, opaque=True)
    def wait(errand: m.Errand) -> m.Home:
        over.wait()
        return m.Home(())

    opaque: Script[Any, Any] = Script(m.machine_of(wait), m.Errand(), m.without_handlers(Limits(seconds=SOON)))
    assert kind == "async def" or isinstance(driver(opaque).outcome, m.Stopped)
    over.set()
    assert isinstance(result.outcome, m.Stopped)
    assert result.outcome.limit.limit == "seconds"
    assert result.outcome.limit.reached >= SOON


@cases("driver", *ALL_DRIVERS)
@cases(("error", "raises"), (TimeoutError("mine"), TimeoutError), (StopIteration(), (RuntimeError, StopIteration)))
def test_error_of_a_handler_is_neither_a_deadline_nor_an_end(driver: Driver, error: Exception, raises: Any) -> None:
    with pytest.raises(raises):
        driver(Script(m.INTERVIEW, m.Topic("tea"), make_run_context({m.Question: raising(error)}, limits=TEN)))


@cases("driver", *ALL_DRIVERS)
@cases(("limits", "left"), (TEN, [10, 7, 7, 4, 4, 1]), (Limits(), [None] * 6))
def test_handlers_know_the_seconds_left(driver: Driver, limits: Limits, left: list[float | None]) -> None:
    result: list[float | None] = []
    clock = FakeClock()

    async def answer(question: m.Question, call: CallContext[Any], io: IO) -> str:
        result.append(call.seconds_left)
        clock.advance(3)
        result.append(call.seconds_left)
        return "fine"

    driver(
        Script(m.INTERVIEW, m.Topic("tea"), make_run_context({m.Question: Handler(answer)}, limits=limits, clock=clock))
    )
    assert result == left


@cases("seconds", None, 60.0)
def test_instant_handler_runs_in_the_driver_thread(seconds: float | None) -> None:
    threads: set[int] = set()

    async def answer(effect: effects.CallTool | m.Question, call: CallContext[Any], io: IO) -> Any:
        assert io.blocking, "an instant handler does not wait"
        threads.add(threading.get_ident())
        return effects.ToolResult("x") if isinstance(effect, effects.CallTool) else "x"

    instant = Handler(answer, instant=True)
    made = make_run_context({m.Question: instant, effects.CallTool: instant}, limits=Limits(seconds=seconds))
    for drive in (drive_sync, drive_async):
        drive(Script(m.INTERVIEW, m.Topic("tea"), made))
        drive(Script(m.SURVEY, m.Topics(("a", "b")), made))
    assert threads == {threading.get_ident()}
