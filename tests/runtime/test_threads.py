"""The pool of threads: reused, with a cap on abandoned calls; no call continues after an error."""

import asyncio
import dataclasses
import gc
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphexec import AgentAction, AgentExecutor, AgentFinish, CallContext, Done, Spent, tool
from graphexec.errors import AbandonedError, ThreadLimitError
from graphexec.runtime import threads
from graphexec.runtime.threads import MOST_ABANDONED, open_cancel_scope
from tests import garbage
from tests.executor.actors import (
    Running,
    act,
    answer,
    make_executor,
    run_async,
    run_sync,
    scripted,
    snapshot_after,
    snapshot_in,
)
from tests.runtime.actors import LONG, count_abandoned, start_in_thread, succeeds_in_fork, tool_named
from tests.stopwatch import eventually

# Seconds of the deadlines.
SOON = 0.002

# Each run needs a pool of its own.
HOW = pytest.mark.parametrize("run", [run_sync, run_async])


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A separate pool for this test, without calls that other tests abandoned."""
    made = vars(threads)["_Threads"]()
    monkeypatch.setattr(threads, "_threads", made)
    yield made
    eventually(lambda: not made.running)


def graphexec_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "graphexec-call"}


def executor_of(*functions: Callable[[], Any], **options: Any) -> AgentExecutor:
    """Return an executor of an agent that calls each function in one step, and then answers."""
    tools = [tool_named(f"tool_{number}", function) for number, function in enumerate(functions)]
    return make_executor([act(one.name) for one in tools], answer(), tools=tools, **options)


# ---- runs that the deadline cuts


def cut_runs(run: Running, count: int) -> None:
    """Cut `count` runs in a tool that ends soon after."""
    released = threading.Event()
    executor = executor_of(lambda: released.wait(LONG), max_execution_time=SOON)
    for number in range(count):
        result = run(executor)
        assert result.reason == "seconds"
        assert result.spent["tool_calls"] <= 1
        if number % 50 == 49:
            assert count_abandoned() <= MOST_ABANDONED
            assert len(graphexec_threads()) <= 2 * MOST_ABANDONED
            released.set()
            eventually(lambda: count_abandoned() == 0)
            released.clear()
    released.set()
    eventually(lambda: count_abandoned() == 0)


def count_own_objects() -> Counter[str]:
    """Return the number of objects of each of the package's classes."""
    garbage.collect()
    # Some foreign classes have a `__module__` that is no string.
    return Counter(
        type(one).__qualname__ for one in gc.get_objects() if str(type(one).__module__).startswith("graphexec")
    )


def assert_cut_runs_are_forgotten(run: Running, first: int, runs: int, most: int) -> None:
    """After the first runs, so many more leave fewer objects than this behind."""
    cut_runs(run, first)
    before = count_own_objects()
    cut_runs(run, runs)
    grown = count_own_objects()
    grown.subtract(before)
    assert grown.total() < most, grown.most_common(5)


@pytest.mark.medium
@HOW
def test_cut_runs_leave_nothing_behind(run: Running, pool: Any) -> None:
    # Less than one object a run.
    assert_cut_runs_are_forgotten(run, 50, 150, 150)


@pytest.mark.medium
@HOW
def test_past_the_cap_an_error_says_so(run: Running, pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MOST_ABANDONED", 2)
    released = threading.Event()
    # A call begins in this time on a busy machine, too.
    executor = executor_of(lambda: released.wait(LONG), max_execution_time=1.5)
    # On a very busy one a run may end before.
    while count_abandoned() < 2:
        assert run(executor).reason == "seconds"
    snapshot = snapshot_after(ThreadLimitError, lambda: run(executor), "2 abandoned calls still run")
    assert count_abandoned() == 2
    released.set()
    eventually(lambda: count_abandoned() == 0)
    assert run(executor, snapshot).output == "done"


# ---- no thread available


def let_start(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let so many threads start, and no more."""
    start_thread = vars(threads)["start_new_thread"]

    def start(*arguments: Any) -> object:
        nonlocal left
        if not left:
            raise RuntimeError("can't start new thread")
        left -= 1
        return start_thread(*arguments)

    monkeypatch.setattr(threads, "start_new_thread", start)


@pytest.mark.parametrize("seconds", [None, LONG], ids=["", "deadline"])
@pytest.mark.parametrize("left", [2, 3, 7])
def test_few_threads_carry_out_all_tools(
    seconds: float | None, left: int, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_start(left, monkeypatch)
    paid: list[int] = []
    executor = executor_of(*[lambda: paid.append(1)] * 20, max_execution_time=seconds)
    assert [step.status for step in executor.run("q").steps] == ["ok"] * 20
    assert len(paid) == 20


@HOW
@pytest.mark.parametrize(("left", "seconds"), [(0, None), (0, LONG), (1, None), (3, None), (7, None)])
def test_nothing_runs_after_a_thread_error(
    run: Running, left: int, seconds: float | None, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The issue saw 20 of 20 payments made after the error; what has been made is in the snapshot."""
    let_start(left, monkeypatch)
    raised, late = threading.Event(), list[int]()
    paid: list[int] = []

    def pay() -> None:
        # No tool ends before the threads are used up, unless all of them are wanted.
        raised.wait(0.02)
        paid.append(1)
        if raised.is_set():
            late.append(1)

    async def decide(steps: Any, _: Any) -> Any:
        return answer() if steps else [act("pay")] * 20

    agent: Any = decide if run is run_async else scripted([act("pay")] * 20, answer())
    executor = AgentExecutor(agent=agent, tools=[tool_named("pay", pay)], max_execution_time=seconds)
    result: Any = None
    error: BaseException | None = None
    try:
        result = run(executor)
    except ThreadLimitError as limit:
        error = limit
    raised.set()
    eventually(lambda: not pool.running)
    assert late == []
    if error is None:
        assert left > 0
        assert len(paid) == len(result.steps) == 20
    else:
        assert "no thread can be started" in str(error)
        assert sum(not hasattr(state, "name") for state in snapshot_in(error).open) == len(paid)
        assert left == 0 or run is run_async


def test_last_thread_carries_out_the_call(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts, and no thread after it does."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert start_in_thread(lambda: 6).result(LONG) == 6


def test_call_of_cancelled_scope_does_not_start(pool: Any) -> None:
    called: list[int] = []
    with open_cancel_scope() as scope:
        pass
    with pytest.raises(AbandonedError):
        start_in_thread(lambda: called.append(1), scope).result(LONG)
    assert called == []
    assert count_abandoned() == 0


# ---- reuse by many callers


def test_threads_are_used_again(pool: Any) -> None:
    idents = set[int]()
    for _ in range(50):
        idents.add(start_in_thread(threading.get_ident).result(LONG))
    assert len(idents) == 1
    executor = executor_of(lambda: idents.add(threading.get_ident()), max_execution_time=LONG)
    for _ in range(20):
        executor.run("q")
    assert len(idents) == 1


def test_idle_threads_end(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_IDLE_SECONDS", 0.001)
    before = graphexec_threads()
    start_in_thread(int).result(LONG)
    eventually(lambda: graphexec_threads() <= before)


@pytest.mark.medium
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    executor = executor_of(lambda: "fine", lambda: "fine", max_execution_time=LONG)
    assert executor.run("q").output == "done"
    assert succeeds_in_fork(lambda: executor.run("q").output == "done")
    assert executor.run("q").output == "done"


@tool
def add(x: int) -> int:
    """Add one."""
    return x + 1


@tool
async def meet(x: int, call: CallContext[Any]) -> int:
    """Add one, when all runs are here that the test has begun at once."""
    await call.context()
    return x + 1


def adding_up(**options: Any) -> AgentExecutor:
    """Every run adds up its own number, with two tools a step."""

    def decide(steps: Any, inputs: Any) -> Any:
        number = int(inputs["input"])
        if len(steps) >= 4:
            return AgentFinish({"output": sum(step.observation for step in steps)})
        return [AgentAction("add", {"x": number}), AgentAction("meet", {"x": number + 1})]

    return AgentExecutor(agent=decide, tools=[add, meet], **options)


class Heard:
    """Observes the runs of one executor, each by its id."""

    def __init__(self) -> None:
        self.events: dict[str, list[Any]] = {}

    def __call__(self, event: Any) -> None:
        self.events.setdefault(event.call.run_id, []).append(event)

    def of(self, result: Any, run_id: str) -> tuple[Any, Spent, list[Any]]:
        """Return what there is to see of a run; the tools of a step may begin and end in any order."""
        events = self.events[run_id]
        summary = [
            (type(event).__name__, event.call.id[1:], getattr(event, "node", ""), getattr(event, "effect", None))
            for event in events
        ]
        assert isinstance(events[-1], Done)
        assert events[-1].spent == result.spent
        return result.ending, dataclasses.replace(result.spent, seconds=0.0), sorted(summary, key=repr)


async def alone() -> None:
    """Return at once."""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [None, 6 * LONG], ids=["", "deadline"])
def test_many_runs_at_once_are_as_alone(seconds: float | None, pool: Any) -> None:
    """One executor under 50 threads, and beside them 500 tasks: results, what is spent, and events."""
    expected, together = Heard(), Heard()
    one = adding_up(max_execution_time=seconds, observers=[expected])
    seen_alone = [expected.of(one.run(str(n), run_id=str(n), context=alone), str(n)) for n in range(500)]
    assert [result[0].output for result in seen_alone[:2]] == [6, 10]
    executor = adding_up(max_execution_time=seconds, observers=[together])
    barrier = threading.Barrier(50)

    async def meet_threads() -> None:
        barrier.wait(LONG)

    async def in_tasks() -> list[Any]:
        gate = asyncio.Barrier(500)
        runs = [executor.arun(str(n), run_id=f"task {n}", context=gate.wait) for n in range(500)]
        return await asyncio.wait_for(asyncio.gather(*runs), 3 * LONG)

    def in_thread_of_its_own(number: int) -> Any:
        return executor.run(str(number), run_id=f"thread {number}", context=meet_threads)

    with ThreadPoolExecutor(51) as workers:
        tasks = workers.submit(asyncio.run, in_tasks())
        in_threads = list(workers.map(in_thread_of_its_own, range(50)))
        of_tasks: list[Any] = tasks.result()
    assert [together.of(result, f"thread {n}") for n, result in enumerate(in_threads)] == seen_alone[:50]
    assert [together.of(result, f"task {n}") for n, result in enumerate(of_tasks)] == seen_alone
    assert len(together.events) == 550
    eventually(lambda: count_abandoned() == 0)
