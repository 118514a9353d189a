"""A model with limits on the rate of its calls. No test waits: the clock is a fake."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, create_react_agent
from graphexec.errors import InputError, ModelTimeoutError
from graphexec.messages import ModelRequest
from graphexec.models import Clock, FunctionModel, ScriptedModel, Waited, WrappedModel, rate_limited
from graphexec.models.wrappers.rate_limits import Pace
from tests.executor.actors import run_by
from tests.models.actors import HELLO, FakeTime
from tests.models.call_modes import Ask, Typewriter, all_modes, record_reports
from tests.parameters import cases


@all_modes
def test_calls_above_the_rate_wait(ask: Ask) -> None:
    time = FakeTime()
    inner = Typewriter(["a", "b", "c"], time)
    model = rate_limited(inner, per_second=2, clock=time.clock)
    with record_reports() as reports:
        assert [ask(model).content for _ in "abc"] == ["a", "b", "c"]
    assert time.slept == [1.0]
    assert reports == [Waited(1.0, "2 per second")]
    assert str(Waited(1.25, "2 per second")) == "waited 1.2 s for a turn: 2 per second"
    with pytest.raises(InputError, match="rate_limited has no limit; pass per_second or per_minute"):
        rate_limited(inner)


@all_modes
def test_call_that_would_wait_too_long_uses_no_turn(ask: Ask) -> None:
    time = FakeTime()
    inner = Typewriter(["a", "b"], time)
    model = rate_limited(inner, per_minute=1, clock=time.clock)
    ask(model, timeout=10)
    for _ in range(3):
        with pytest.raises(ModelTimeoutError, match=r"timeout of 10 s \(1 per minute\); allow a longer"):
            ask(model, timeout=10)
    assert time.slept == []
    assert ask(model, timeout=61).content == "b"
    assert time.slept == [60.0]
    assert inner.timeouts == [10, 1], "waiting counts towards the timeout"


class Dozing(FakeTime):
    """A clock whose sleeps end early."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds if seconds < 0.1 else seconds / 2)


@all_modes
def test_sleep_that_ends_early_is_continued(ask: Ask) -> None:
    time = Dozing()
    model = rate_limited(Typewriter(["a", "b"], time), per_second=1, clock=time.clock)
    ask(model)
    began = time.now
    ask(model)
    assert time.now == began + 1


def test_cancelled_task_releases_its_time() -> None:
    """The next call does not wait for the turns of cancelled calls."""
    time = FakeTime()

    async def sleep_indefinitely(_: float) -> None:
        await asyncio.Event().wait()

    stuck = Clock(monotonic=time.clock.monotonic, sleep=time.sleep, asleep=sleep_indefinitely)

    async def run(model: WrappedModel) -> None:
        tasks = [asyncio.create_task(model.acomplete(HELLO)) for _ in range(50)]
        await tasks[0]
        for task in tasks[1:]:
            task.cancel()
        await asyncio.wait(tasks)

    model = rate_limited(ScriptedModel(["a"], repeat_last=True), per_second=1, clock=stuck)
    asyncio.run(run(model))
    model.complete(HELLO)
    assert time.slept == [1.0]


gaps = st.lists(st.one_of(st.just(0.0), st.floats(0, 3), st.floats(0, 100)), max_size=60)
spans = st.tuples(st.integers(1, 6), st.sampled_from([1.0, 60.0]))
limits = st.lists(spans, min_size=1, max_size=2, unique_by=lambda limit: limit[1])


@given(limits, gaps)
def test_no_span_has_more_calls_than_allowed(rates: list[tuple[int, float]], gaps: list[float]) -> None:
    """Calls arrive one after another at any times; each starts as early as the limits allow."""
    time = FakeTime()
    began: list[float] = []

    def note(_: ModelRequest) -> str:
        began.append(time.now)
        return "a"

    by_span = {span: count for count, span in rates}
    options = {"per_second": by_span.get(1.0), "per_minute": by_span.get(60.0)}
    model = rate_limited(FunctionModel(note), **options, clock=time.clock)
    for gap in gaps:
        time.now += gap
        came = time.now
        model.complete(HELLO)
        earliest = [began[-1 - count] + span for count, span in rates if len(began) > count]
        assert began[-1] == max([came, *earliest])


arrivals = st.tuples(st.sampled_from([0.0, 0.0, 0.3, 1.7]), st.integers(0, 3))


@given(limits, st.lists(arrivals, max_size=40), st.data())
def test_reserved_times_stay_ordered_and_within_limits(
    rates: list[tuple[int, float]], calls: list[tuple[float, int]], data: st.DataObject
) -> None:
    pace, now, given_out = Pace(rates), 1000.0, list[float]()
    for gap, give_up in calls:
        now += gap
        start, _ = pace.take(now, latest=None)
        assert start is not None
        assert start >= now
        given_out.append(start)
        for _ in range(give_up):
            future = [each for each in given_out if each > now]
            if future:
                unused = data.draw(st.sampled_from(future))
                given_out.remove(unused)
                pace.give_back(unused)
    assert all(earlier <= later for earlier, later in pairwise(given_out))
    for count, span in rates:
        assert all(later >= earlier + span for earlier, later in zip(given_out, given_out[count:], strict=False))


@cases("way", "run", "arun")
def test_turn_after_the_run_deadline_stops_it(way: str) -> None:
    model = rate_limited(ScriptedModel(["Action: nothing\nAction Input: x"], repeat_last=True), per_minute=1)
    executor = AgentExecutor(agent=create_react_agent(model, []), tools=[], max_execution_time=20)
    result = run_by(way, executor)
    assert (result.reason, len(result.steps), result.spent["model_calls"]) == ("seconds", 1, 2)
