"""A nested run, within a call of another run, shares its limits and its time, and is charged to it."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, CallContext, Limits, Snapshot, actions, memory, messages, models, testing, tool
from graphexec.errors import AbandonedError, ModelError
from graphexec.runtime import arun as arun_graph
from graphexec.runtime import calls, current_call
from graphexec.runtime import run as run_graph
from tests.drivers import make_run_context, options_of
from tests.executor.actors import (
    HOW,
    MIXED,
    AnyTool,
    Caller,
    Running,
    act,
    answer,
    call,
    caller_of,
    delegate_to,
    echo,
    make_executor,
    replayed,
    run_async,
    run_by,
    run_sync,
    snapshot_after,
)
from tests.kernel.machines import INTERVIEW, ROAD, TOLLS, Interview, Question, Topic, Travel, Trip
from tests.parameters import cases
from tests.runtime.actors import LONG, ignore, in_thread, succeeds_in_fork, tool_named


def inner_of(model: Any, **options: Any) -> AgentExecutor:
    return caller_of(model, echo, **options)


def recording(inner: Callable[[], AgentExecutor], results: list[Any]) -> AnyTool:
    """Return a tool that runs another executor, and keeps its results."""

    @tool
    def delegate(text: str) -> str:
        """Let another agent do it."""
        results.append(inner().run(text))
        return str(results[-1].output)

    return delegate


# ---- limits


@MIXED
@cases(("levels", "most"), (1, 3), (2, 7), (None, 20))
def test_inner_runs_share_the_outermost_limit(run: Running, is_async: bool, levels: int | None, most: int) -> None:
    """With so many levels of inner runs, or without end."""
    model = Caller()
    executor: AgentExecutor = inner_of(model, max_iterations=15)
    inner = executor
    if levels == 2:
        inner = caller_of(model, delegate_to(lambda: executor, is_async=is_async), max_iterations=15)
    outer: AgentExecutor = caller_of(
        model, delegate_to(lambda: inner if levels else outer, is_async=is_async), max_model_calls=most
    )
    result = run(outer)
    assert model.calls == result.spent["model_calls"] == most
    assert result.reason == "model_calls"
    assert levels != 1 or result.steps[-1].observation == "Agent stopped due to model call limit."


@HOW
def test_tool_calls_tokens_and_cost_are_shared(run: Running) -> None:
    model = Caller(usage=messages.Usage(10, 0))
    costly = models.priced(model, models.Price(100_000, 0))
    inner = inner_of(costly)
    delegate = delegate_to(lambda: inner, is_async=False)
    tokens = run(caller_of(costly, delegate, max_tokens=35))
    assert (tokens.reason, model.calls, tokens.spent["tokens"], tokens.usage.prompt_tokens) == ("tokens", 4, 40, 40)
    cost = run(caller_of(costly, delegate, max_cost=3.0))
    assert (cost.reason, model.calls, cost.spent["cost"]) == ("cost", 4 + 3, 3.0)
    tools = run(caller_of(costly, delegate, max_tool_calls=4))
    # Of the delegating tool, and three within it; each of the two runs then makes one decision more.
    assert (tools.reason, model.calls, tools.spent["tool_calls"]) == ("tool_calls", 4 + 3 + 2 + 4, 4)


@cases(("run", "is_async"), (run_sync, False), (run_async, True))
def test_simultaneous_inner_runs_spend_exactly_the_limit(run: Running, is_async: bool) -> None:
    model = Caller()
    inner = inner_of(model, max_iterations=15)
    together = threading.Barrier(8)

    def meet() -> AgentExecutor:
        if not is_async:
            together.wait(LONG)
        return inner

    result = run(caller_of(Caller(8), delegate_to(meet, is_async=is_async), max_model_calls=50))
    assert (model.calls, result.spent["model_calls"], result.reason) == (49, 50, "model_calls")
    assert replayed(result) == result.spent


@MIXED
def test_inner_runs_are_charged_at_every_level_and_when_they_fail(run: Running, is_async: bool) -> None:
    # Every level of nesting is charged.
    model, results = Caller(), list[Any]()
    innermost = inner_of(model, max_model_calls=4)
    middle = caller_of(Caller(answers_after=1), delegate_to(lambda: innermost, is_async=is_async))
    result = run(caller_of(Caller(answers_after=1), recording(lambda: middle, results), max_model_calls=30))
    assert (model.calls, results[0].spent["model_calls"]) == (4, 2 + 4)
    assert (result.spent["model_calls"], result.spent.iterations) == (2 + 2 + 4, 2)
    # A failing inner run is charged.
    failing = models.ScriptedModel([call("echo", text="a"), ModelError("no more")])
    inner = inner_of(failing)
    result = run(caller_of(Caller(answers_after=1), delegate_to(lambda: inner, is_async=is_async)))
    assert (result.steps[0].status, result.spent["model_calls"]) == ("error", 2 + 2)
    assert replayed(result) == result.spent


@cases("is_async", False, True)
def test_batch_within_a_tool_is_charged(is_async: bool) -> None:
    model = Caller(answers_after=2)
    inner = inner_of(model)

    def delegate(text: str) -> str:
        return str(len(inner.batch([text] * 3)))

    async def adelegate(text: str) -> str:
        return str(len(await inner.abatch([text] * 3)))

    one = tool_named("delegate", adelegate if is_async else delegate)
    result = caller_of(Caller(answers_after=1), one).run("q")
    assert (model.calls, result.spent["model_calls"]) == (9, 11)


@cases("is_async", False, True)
def test_outer_limit_covers_unknown_meters(is_async: bool) -> None:
    travels: list[Travel] = []

    def mile(one: Travel) -> float:
        travels.append(one)
        return 1.0

    roads = make_run_context({Travel: mile}, limits=Limits(iterations=None))

    async def atravel(question: Question) -> str:
        return type((await arun_graph(ROAD, Trip(4.0), **options_of(roads))).outcome).__name__

    def travel(question: Question) -> str:
        return type(run_graph(ROAD, Trip(4.0), **options_of(roads)).outcome).__name__

    handlers: dict[Any, Any] = {Question: atravel if is_async else travel}
    done = run_graph(INTERVIEW, Topic("tea"), handlers=handlers, limits=Limits({TOLLS: 10}))
    assert done.outcome == Interview(("Arrived", "Arrived", "Stopped"))
    assert len(travels) == done.spent[TOLLS] == 10
    assert done.spent["miles"] == 10.0
    unlimited = run_graph(INTERVIEW, Topic("tea"), handlers=handlers)
    assert unlimited.spent[TOLLS] == 12
    assert Snapshot.from_json(unlimited.snapshot.to_json(), INTERVIEW).spent == unlimited.spent


# ---- recursion


@cases(("options", "depth"), ({}, 8), ({"max_depth": 2}, 2), ({"max_depth": 0}, 0))
@MIXED
def test_recursion_ends_at_the_depth_limit(run: Running, is_async: bool, options: dict[str, Any], depth: int) -> None:
    model = Caller(answers_after=1)
    executor: AgentExecutor = caller_of(model, delegate_to(lambda: executor, is_async=is_async), **options)
    result = run(executor)
    # Each run asks twice, except the one that is too deep.
    assert model.calls == result.spent["model_calls"] == 2 * (depth + 1)
    assert result.output == "Agent stopped due to depth limit."


@HOW
def test_limit_of_an_outer_run_holds_and_is_named(run: Running) -> None:
    results: list[Any] = []
    inner = inner_of(Caller())
    run(caller_of(Caller(), recording(lambda: inner, results), max_model_calls=3))
    assert str(results.pop().stopped.cause) == "the limit of 3 model calls was reached (3 spent), in an outer run"
    executor: AgentExecutor = caller_of(Caller(answers_after=1), recording(lambda: executor, results), max_depth=2)
    run(executor)
    says = "the limit of 2 levels of nested runs was reached, in an outer run"
    assert [one.stopped and str(one.stopped.cause) for one in results] == [says, None, None]
    # An inner limit on the depth does not extend the outer one.
    model = Caller(answers_after=1)
    deep: AgentExecutor = caller_of(model, delegate_to(lambda: deep, is_async=False), max_depth=50)
    run(caller_of(Caller(answers_after=1), delegate_to(lambda: deep, is_async=False), max_depth=1))
    assert model.calls == 2


@pytest.mark.medium
@cases(
    ("options", "runs"),
    ({"max_depth": 3}, 2 + 4 + 8),
    ({"max_depth": None, "max_nested_runs": 3}, 3),
    ({"max_depth": None, "max_nested_runs": 0}, 0),
)
@MIXED
def test_nested_runs_are_limited_together(run: Running, is_async: bool, options: dict[str, Any], runs: int) -> None:
    """Each run of a tree starts two; by the depth alone there would be 2**9 - 2."""
    model = Caller(2, answers_after=1)
    executor: AgentExecutor = caller_of(model, delegate_to(lambda: executor, is_async=is_async), **options)
    result = run(executor)
    assert result.spent["nested_runs"] == runs
    assert model.calls == result.spent["model_calls"] == 2 * (runs + 1)


def test_nested_runs_are_counted_over_a_resume() -> None:
    stops: list[Any] = []
    inner = inner_of(Caller(answers_after=0))

    def delegate(text: str) -> str:
        stops.append(inner.run(text).stopped)
        if len(stops) == 1:
            raise KeyboardInterrupt
        return "done"

    outer = caller_of(Caller(answers_after=3), tool_named("delegate", delegate), max_nested_runs=2)
    stored = snapshot_after(KeyboardInterrupt, lambda: outer.run("q"))
    assert stored.spent["nested_runs"] == 1
    result = outer.run(Snapshot.from_json(stored.to_json(), outer.graph))
    assert result.spent["nested_runs"] == 2
    says = "the limit of 2 nested runs was reached (2 spent), in an outer run"
    assert [stop and str(stop.cause) for stop in stops] == [None, None, says, says]


@HOW
def test_outer_limit_stops_where_no_own_limit_can(run: Running) -> None:
    # A run's own limits do not stop it before its memory is loaded.
    inner = inner_of(Caller(answers_after=1), memory=memory.BufferMemory(as_messages=True))
    delegate = delegate_to(lambda: inner, is_async=False)
    result = run(caller_of(Caller(answers_after=1), delegate, max_depth=0))
    assert (result.steps[0].status, result.output) == ("ok", "Agent stopped due to depth limit.")


# ---- where a run is within a call


@HOW
@cases("kind", "thread", "run_in_executor")
def test_host_places_a_run_within_a_call(run: Running, kind: str) -> None:
    model = Caller()
    inner = inner_of(model)

    def delegate(text: str, call: CallContext[Any]) -> str:
        return str(in_thread(lambda: inner.run(text, host=call).output))

    async def adelegate(text: str, call: CallContext[Any]) -> str:
        loop = asyncio.get_running_loop()
        return str(await loop.run_in_executor(None, lambda: inner.run(text, host=call).output))

    one = tool_named("delegate", delegate if kind == "thread" else adelegate)
    result = run(caller_of(Caller(), one, max_model_calls=5))
    assert (model.calls, result.spent["model_calls"]) == (4, 5)


@HOW
def test_code_outside_a_call_knows_none(run: Running) -> None:
    """In a bare thread, after a run, and where a stream is consumed."""

    def look(text: str) -> str:
        assert in_thread(current_call) is None
        return text

    options: dict[str, Any] = {"handle_tool_errors": "raise"}
    outer = caller_of(Caller(answers_after=1), tool_named("look", look), **options)
    assert run(outer).spent.meters == run(outer).spent.meters
    assert current_call() is None
    timed = caller_of(Caller(answers_after=1), echo, max_execution_time=LONG)
    for tokens in (False, True):
        assert {current_call() for _ in timed.stream("q", tokens=tokens)} == {None}


@cases("way", "stream", "stream_chunks", "iter")
def test_inner_run_of_a_stream_is_charged(way: str) -> None:
    inner, model = inner_of(Caller(), max_iterations=15), Caller()
    outer = caller_of(model, delegate_to(lambda: inner, is_async=False), max_model_calls=3)
    run_by(way, outer, "q", **({"tokens": True} if way == "stream" else {}))
    assert model.calls == 1


# ---- a call that is over


def test_leftover_task_goes_no_further() -> None:
    model = Caller()

    async def main() -> None:
        released, begun = asyncio.Event(), asyncio.Event()
        tasks: list[asyncio.Task[Any]] = []

        async def wait(text: str) -> str:
            begun.set()
            await released.wait()
            return text

        inner = caller_of(model, tool_named("wait", wait))

        async def leave(text: str) -> str:
            tasks.append(asyncio.create_task(inner.arun(text)))
            await begun.wait()
            return text

        result = await caller_of(Caller(answers_after=1), tool_named("leave", leave)).arun("q")
        assert result.spent["model_calls"] == 2 + 1
        released.set()
        with pytest.raises(AbandonedError, match="is over"):
            await tasks[0]

    asyncio.run(main())
    assert model.calls == 1


@cases("options", {}, {"max_execution_time": LONG}, {"observers": [ignore]})
@cases("when", "in the next call", "after the run")
def test_leftover_task_begins_nothing(options: dict[str, Any], when: str) -> None:
    model = Caller()

    async def main() -> None:
        released = asyncio.Event()
        tasks: list[asyncio.Task[Any]] = []
        inner = inner_of(model)

        async def later() -> Any:
            await released.wait()
            return await inner.arun("q")

        async def leave() -> str:
            tasks.append(asyncio.create_task(later()))
            return "left"

        async def release() -> str:
            if when == "in the next call":
                released.set()
                await asyncio.wait(tasks)
            return "released"

        tools = [tool_named("leave", leave), tool_named("release", release)]
        outer = make_executor(act("leave"), act("release"), answer(), tools=tools, **options)
        result = await outer.arun("q")
        released.set()
        with pytest.raises(AbandonedError, match="is over"):
            await tasks[0]
        assert result.spent["model_calls"] == 3

    asyncio.run(main())
    assert model.calls == 0


@cases("kind", "context", "host")
@cases("fails", False, True)
def test_leftover_thread_goes_no_further(kind: str, fails: bool) -> None:
    model, released, begun = Caller(), threading.Event(), threading.Event()
    raised: list[BaseException] = []
    threads: list[threading.Thread] = []

    def wait(text: str) -> str:
        begun.set()
        released.wait(LONG)
        return text

    inner = caller_of(model, tool_named("wait", wait))

    def work(host: CallContext[Any] | None) -> None:
        try:
            inner.run("q", host=host)
        except AbandonedError as error:
            raised.append(error)

    def leave(text: str, call: CallContext[Any]) -> str:
        context = contextvars.copy_context()
        target = (lambda: context.run(work, None)) if kind == "context" else (lambda: work(call))
        threads.append(threading.Thread(target=target))
        threads[0].start()
        begun.wait(LONG)
        if fails:
            raise ValueError(text)
        return text

    outer = caller_of(Caller(answers_after=1), tool_named("leave", leave, on_error="raise"))
    if fails:
        snapshot = snapshot_after(ValueError, lambda: outer.run("q"), "hello")
        assert snapshot.spent["model_calls"] == 1 + 1
    else:
        assert outer.run("q").spent["model_calls"] == 2 + 1
    released.set()
    threads[0].join(LONG)
    assert [type(one) for one in raised] == [AbandonedError]
    assert model.calls == 1


# ---- deadlines


@cases(("own", "reason"), (100.0, "seconds"), (None, "seconds"), (3.0, "finished"))
def test_earlier_deadline_holds_for_an_inner_run(own: float | None, reason: str) -> None:
    clock = testing.VirtualClock()
    left: list[float | None] = []
    ended: list[str] = []

    @tool
    async def sleep(text: str, call: CallContext[Any]) -> str:
        """Sleep."""
        left.append(call.seconds_left)
        await asyncio.sleep(1000)
        return text

    inner = testing.on_loop_time(caller_of(Caller(), sleep, max_execution_time=own), clock)

    @tool
    async def delegate(text: str) -> str:
        """Let another agent do it."""
        await asyncio.sleep(2)
        result = await inner.arun(text)
        ended.append(str(result.stopped and result.stopped.cause))
        return str(result.output)

    outer = testing.on_loop_time(caller_of(Caller(answers_after=1), delegate, max_execution_time=10), clock)
    result = clock.run(outer.arun("q"))
    assert result.reason == reason
    assert clock.seconds == pytest.approx(10 if own != 3 else 5, abs=1e-3)
    assert left == [8 if own != 3 else 3]
    if own == 3:
        assert ended == ["the limit of 3 seconds was reached (3 spent)"]
        assert replayed(result) == result.spent


@pytest.mark.medium
@cases("own", None, 3 * LONG)
@cases("width", 1, 8)
@HOW
def test_replay_counts_runs_within_cut_calls(
    run: Running, width: int, own: float | None, released: threading.Event
) -> None:
    def wait(text: str) -> bool:
        return released.wait(LONG)

    hang = tool_named("hang", wait)
    inner = caller_of(Caller(), hang, max_execution_time=own)
    options: dict[str, Any] = {"max_execution_time": 0.4, "tool_concurrency": width}
    for at_once in (1, 2):
        result = run(caller_of(Caller(at_once), delegate_to(lambda: inner, is_async=False), **options))
        assert result.reason == "seconds"
        assert result.spent.seconds < LONG
        assert result.spent["model_calls"] == 1 + (at_once if width > 1 else 1)
        assert replayed(result) == result.spent


# ---- snapshots


@MIXED
def test_resumed_run_keeps_nested_charges(run: Running, is_async: bool) -> None:
    model = Caller()
    inner = inner_of(model, max_model_calls=3)
    delegate = delegate_to(lambda: inner, is_async=is_async)
    broken = [True]

    @tool(name="unreliable", on_error="raise")
    async def unreliable(text: str) -> str:
        """Fail once, after its work."""
        await inner.arun(text)
        if broken.pop():
            raise ValueError(text)
        return text

    outer = caller_of(Caller(answers_after=1), unreliable, delegate, max_model_calls=100)
    snapshot = snapshot_after(ValueError, lambda: run(outer), "hello")
    assert snapshot.spent["model_calls"] == 1 + 3
    broken.append(False)
    stored = Snapshot.from_json(snapshot.restarted().to_json(), outer.graph)
    result = run(outer, stored)
    assert (result.spent["model_calls"], result.spent.restarts) == (1 + 3 + 3 + 1, 1)
    assert replayed(result) == result.spent


# ---- proofs


TURNS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), max_size=6)


@given(TURNS, st.integers(1, 25), st.booleans(), st.sampled_from([1, 8]))
def test_ranks_fall_with_nested_runs(turns: list[list[int]], limit: int, asynchronous: bool, width: int) -> None:
    model = Caller(usage=messages.Usage(3, 1))

    def agent(steps: Any, inputs: Any) -> Any:
        done = 0
        for turn in turns:
            if done >= len(steps):
                return [act("delegate", calls=calls) for calls in turn]
            done += len(turn)
        return answer()

    @tool
    def delegate(calls: int) -> str:
        """Let another agent make so many calls."""
        return str(inner_of(model, max_iterations=None, max_model_calls=calls).run("q").output)

    # Without a limit on iterations the certificate relies on the model calls.
    limits: dict[str, Any] = {"max_iterations": None, "max_model_calls": limit, "tool_concurrency": width}
    outer = AgentExecutor(agent=agent, tools=[delegate], **limits)
    result = (run_async if asynchronous else run_sync)(outer)
    wanted = sum(1 + sum(turn) for turn in turns) + 1
    assert result.spent["model_calls"] == min(wanted, limit)
    assert (result.reason == "finished") == (wanted <= limit)
    assert replayed(result) == result.spent


@pytest.mark.medium
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@cases("lock", calls.sharing, actions.extending)
def test_forked_process_holds_no_lock_of_another_thread(lock: Any) -> None:
    held, inner = threading.Event(), inner_of(Caller(answers_after=2))
    outer = caller_of(Caller(answers_after=2), delegate_to(lambda: inner, is_async=False))

    def hold() -> None:
        with lock:
            held.set()
            # A moment, in which the process forks, or waits to.
            threading.Event().wait(0.05)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(LONG)
    assert succeeds_in_fork(lambda: outer.run("q").spent["model_calls"] == 3 + 2 * 3)
    thread.join(LONG)
