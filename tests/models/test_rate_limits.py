"""A model with limits on the rate and the concurrency of its calls. No test waits: the clock is a fake."""

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, create_react_agent
from graphexec.errors import InputError, ModelTimeoutError
from graphexec.messages import ModelReply, ModelRequest
from graphexec.models import Clock, FunctionModel, ScriptedModel, Waited, WrappedModel, rate_limited
from graphexec.models.wrappers.rate_limits import Gate, Pace
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
    with pytest.raises(InputError, match="rate_limited has no limit; pass per_second, per_minute or at_once"):
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


@all_modes
def test_sleep_that_ends_early_is_continued(ask: Ask) -> None:
    time = FakeTime()

    def doze(seconds: float) -> None:
        time.sleep(seconds if seconds < 0.1 else seconds / 2)

    async def adoze(seconds: float) -> None:
        doze(seconds)

    early = Clock(monotonic=time.clock.monotonic, sleep=doze, asleep=adoze)
    model = rate_limited(Typewriter(["a", "b"], time), per_second=1, clock=early)
    ask(model)
    began = time.now
    ask(model)
    assert time.now == began + 1


@all_modes
def test_every_end_of_a_call_frees_its_place(ask: Ask) -> None:
    model = rate_limited(Typewriter(["a", ValueError("a bug"), "c", "held", "free"]), at_once=1)
    assert ask(model).content == "a"
    with pytest.raises(ValueError, match="a bug"):
        ask(model)
    assert ask(model, timeout=5).content == "c"
    holder = model.stream(HELLO)
    next(holder)
    with pytest.raises(ModelTimeoutError, match=r"timeout of 0 s.*\(1 at once\); allow a longer timeout"):
        ask(model, timeout=0)
    holder.close()
    assert ask(model, timeout=0).content == "free"


def test_threads_and_event_loops_share_places() -> None:
    """Each call waits until two of them are active."""
    active, most = 0, 0
    lock, party = threading.Lock(), threading.Barrier(2)

    def meet(_: ModelRequest) -> str:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        party.wait(10)
        with lock:
            active -= 1
        return "met"

    model = rate_limited(FunctionModel(meet), at_once=2)

    async def four() -> None:
        await asyncio.gather(*(model.acomplete(HELLO) for _ in range(4)))

    with ThreadPoolExecutor(6) as threads:
        calls = [threads.submit(model.complete, HELLO) for _ in range(4)]
        loops = [threads.submit(asyncio.run, four()) for _ in range(2)]
    assert all(call.result() == ModelReply("met") for call in calls)
    assert [loop.result() for loop in loops] == [None, None]
    assert most == 2, "as many as are allowed, and no more"


def test_tasks_take_turns_in_order_unless_cancelled() -> None:
    async def run() -> None:
        model = rate_limited(Typewriter([*"abcdef"]), at_once=1)
        replies = await asyncio.gather(*(model.acomplete(HELLO) for _ in range(6)))
        assert [reply.content for reply in replies] == [*"abcdef"]
        model = rate_limited(Typewriter(["held", "free"]), at_once=1)
        holder = model.astream(HELLO)
        await anext(holder)
        waiting = [asyncio.create_task(model.acomplete(HELLO)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in waiting[:2]:
            task.cancel()
        await asyncio.wait(waiting[:2])
        await holder.aclose()
        assert (await asyncio.wait_for(waiting[2], 10)).content == "free"

    asyncio.run(run())


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


def test_wait_for_a_place_is_reported() -> None:
    gate_held, released = threading.Event(), threading.Event()
    time = FakeTime()
    looks = 0

    def hold(_: ModelRequest) -> str:
        gate_held.set()
        released.wait(10)
        return ""

    def look() -> float:
        # While the place is occupied, the next call that reads the clock is the one that begins to wait.
        nonlocal looks
        looks += 1
        if gate_held.is_set():
            released.set()
        return time.now + 3 * looks

    model = rate_limited(FunctionModel(hold), at_once=1, clock=Clock(monotonic=look))
    holder = threading.Thread(target=lambda: model.complete(HELLO))
    holder.start()
    assert gate_held.wait(10)
    with record_reports() as reports:
        model.complete(HELLO)
    holder.join(10)
    (waited,) = reports
    assert isinstance(waited, Waited)
    assert (waited.seconds > 0, waited.why) == (True, "1 at once")


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


@given(st.integers(1, 4), st.lists(st.sampled_from(["enter", "leave", "cancel"]), max_size=60))
def test_places_are_first_come_first_served(places: int, acts: list[str]) -> None:
    gate = Gate(places)
    inside: list[int] = []
    queue: deque[int] = deque()
    called: set[int] = set()
    for number, act in enumerate(acts):
        if act == "enter":
            gate.turns[number] = None
            (inside if gate.admits(number) else queue).append(number)
            if number in queue:
                gate.call_at(number, partial(called.add, number))
        elif act == "leave" and inside:
            del gate.turns[inside.pop(0)]
            gate.ring()
            if queue:
                assert queue[0] in called, "the one that waits longest is the next"
                inside.append(queue.popleft())
        elif act == "cancel" and queue:
            del gate.turns[queue.pop()]
            gate.ring()
        assert len(inside) <= places
        assert not queue or len(inside) == places, "no call waits while a place is free"
        assert all(map(gate.admits, inside))
        assert not called.intersection(queue)
        assert not any(map(gate.admits, queue))


@cases("how", "sync", "async")
def test_turn_after_the_run_deadline_stops_it(how: str) -> None:
    model = rate_limited(ScriptedModel(["Action: nothing\nAction Input: x"], repeat_last=True), per_minute=1)
    executor = AgentExecutor(agent=create_react_agent(model, []), tools=[], max_execution_time=20)
    result = executor.run("q") if how == "sync" else asyncio.run(executor.arun("q"))
    assert (result.reason, len(result.steps), result.spent["model_calls"]) == ("seconds", 1, 2)
