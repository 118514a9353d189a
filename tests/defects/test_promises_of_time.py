"""Promises about time, tested on virtual clocks, so that nothing waits."""

import dataclasses
import sys
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from types import ModuleType, SimpleNamespace
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec.runtime.handlers as real_handlers
import graphexec.runtime.runner as real_runner
from graphexec import AgentAction, AgentExecutor, AgentFinish, Answered, Snapshot, tool
from graphexec.actions import Run, Steps
from graphexec.executor import Ready
from graphexec.executor.result import Ending
from graphexec.kernel.events import Done
from graphexec.kernel.meters import GRACE
from graphexec.testing.clock import VirtualClock
from graphexec.testing.scripted import pause
from tests.defects.bounds import bounded
from tests.drivers import LIVE, Driver, DriverResult, FakeClock, Script, options_of, run_script
from tests.executor.actors import answer, script_of, scripted

# ---- calls that wait, all at once, on an event loop whose time is virtual


@dataclass(frozen=True)
class Wait:
    """A call that takes so many seconds, and then works or fails; a stubborn one cannot be cancelled."""

    seconds: int
    works: bool = True
    stubborn: bool = False


@dataclass(frozen=True)
class Turn:
    """A decision of the agent, after some seconds of waiting or blocking."""

    seconds: int
    blocks: bool
    calls: tuple[Wait, ...]


# The end of a run: its reason, its time, and its observations.
Timed: TypeAlias = tuple[Literal["finished", "seconds"], float, list[tuple[str, object]]]


def interpret(turns: tuple[Turn, ...], limit: float | None) -> Timed:
    """Return the expected end of a run. No two events have the same time, since limits are halves."""
    until = float("inf") if limit is None else limit
    now, steps = 0.0, list[tuple[str, object]]()
    for turn in turns:
        if not turn.blocks and now + turn.seconds > until:
            return "seconds", until, steps
        now += turn.seconds
        if now > until:
            # A blocking decision cannot be cut off; it counts, but the run asks for nothing more.
            return "seconds", now, steps
        for number, call in enumerate(turn.calls):
            if now + call.seconds > until:
                steps.append(("cut", None))
            else:
                steps.append(("ok", number) if call.works else ("error", f"wait failed: ValueError: {number}"))
        now = min(until, now + max(call.seconds for call in turn.calls))
        if now == until:
            return "seconds", until, steps
    return "finished", now, steps


SECONDS = st.sampled_from([0, 1, 2, 5, 1000])
TURNS = st.lists(
    st.builds(
        Turn,
        st.sampled_from([0, 0, 1, 4]),
        st.booleans(),
        st.lists(st.builds(Wait, SECONDS, st.booleans(), st.booleans()), min_size=1, max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
HALVES = st.none() | st.integers(0, 12).map(lambda seconds: seconds + 0.5)


def waiting_executor(turns: tuple[Turn, ...], limit: float | None, clock: VirtualClock) -> AgentExecutor:
    @tool
    async def wait(number: int, seconds: int, works: bool, stubborn: bool) -> int:
        """Wait."""
        await pause(seconds, stubborn=stubborn)
        if not works:
            raise ValueError(number)
        return number

    async def decide(steps: Steps, inputs: dict[str, Any]) -> list[AgentAction] | AgentFinish:
        done = len(steps)
        for turn in turns:
            if done <= 0:
                if turn.blocks:
                    clock.advance(turn.seconds)
                else:
                    await pause(turn.seconds)
                return [
                    AgentAction("wait", {"number": number, **dataclasses.asdict(call)})
                    for number, call in enumerate(turn.calls)
                ]
            done -= len(turn.calls)
        return answer()

    executor = AgentExecutor(agent=decide, tools=[wait], max_execution_time=limit)
    return executor.with_context(dataclasses.replace(executor.run_context, clock=clock))


# More examples than elsewhere, because many numbers together determine which call is cut off.
@settings(max_examples=2 * settings().max_examples)
@given(turns=TURNS, limit=HALVES)
def test_run_stops_at_deadline_and_keeps_finished_steps(turns: tuple[Turn, ...], limit: float | None) -> None:
    clock = VirtualClock()
    executor = waiting_executor(turns, limit, clock)

    async def timed() -> tuple[Any, float]:
        return await executor.arun("q"), clock()

    result, ended = clock.run(timed())
    reason, seconds, expected = interpret(turns, limit)
    steps = [(step.status, None if step.status == "cut" else step.observation) for step in result.steps]
    assert (result.reason, steps) == (reason, expected)
    assert seconds <= ended <= seconds + GRACE
    # Every effect asked for was charged and has an event.
    assert result.spent["tool_calls"] == len(steps)


# ---- calls that take time without waiting, one after another, in every driver, with pauses

# Long units, so that the real time in between is negligible.
UNIT = 100
TAKING = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5)


def taking_script(
    taking: list[tuple[int, int]], limit: float | None, began: float, paused: str | None = None
) -> Script[Any, Ending]:
    """Return a script whose decisions and calls take these units each, on a clock that starts at `began`."""
    clock = FakeClock(began)

    @tool
    def take(units: int) -> int:
        """Take this long."""
        clock.advance(units * UNIT)
        return units

    def decide(steps: Steps, inputs: dict[str, Any]) -> AgentAction | AgentFinish:
        if len(steps) == len(taking):
            return answer()
        deciding, acting = taking[len(steps)]
        clock.advance(deciding * UNIT)
        return AgentAction("take", {"units": acting})

    executor = AgentExecutor(agent=decide, tools=[take], max_execution_time=None if limit is None else limit * UNIT)
    script = script_of(executor)
    value = script.value if paused is None else Snapshot.from_json(paused, script.graph)
    return bounded(Script(script.graph, value, dataclasses.replace(script.run_context, clock=clock)))


def summarize(result: DriverResult[Ending]) -> object:
    return type(result.outcome), len(result.outcome.steps), result.spent


@pytest.mark.medium
@given(taking=TAKING, limit=HALVES, other_day=st.integers(-1000, 1000), driver=st.sampled_from(LIVE))
def test_seconds_continue_through_pauses(
    taking: list[tuple[int, int]], limit: float | None, other_day: int, driver: Driver
) -> None:
    whole = run_script(lambda: taking_script(taking, limit, 0))
    now, steps = 0, 0
    for deciding, acting in taking:
        now += deciding
        if limit is None or now < limit:
            now, steps = now + acting, steps + 1
        if limit is not None and now > limit:
            break
    assert (whole.spent.seconds, len(whole.outcome.steps)) == (now * UNIT, steps)
    for text in whole.texts:
        resumed = driver(taking_script(taking, limit, other_day * UNIT, text))
        assert summarize(resumed) == summarize(whole)


# ---- the clock itself


def module_that_reads(clocks: SimpleNamespace, module: ModuleType) -> ModuleType:
    """Return the module as imported with these clocks."""
    assert module.__file__ is not None
    # A seeded defect has a loader with the changed source; pytest's own loader has none to give.
    loader = module.__loader__
    if not isinstance(loader, SourceFileLoader):
        loader = SourceFileLoader(module.__name__, module.__file__)
    code = loader.get_code(module.__name__)
    assert code is not None
    again = ModuleType("tests.defects.module_that_reads")
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "time", clocks)
        patched.setitem(sys.modules, again.__name__, again)
        exec(code, vars(again))
    return again


@given(
    calls=st.lists(st.tuples(st.integers(0, 100), st.integers(-1000, 1000)), min_size=1, max_size=4),
    how=st.sampled_from(["RunContext", "stream"]),
)
def test_wall_clock_changes_do_not_affect_seconds(calls: list[tuple[int, int]], how: str) -> None:
    passing, wall = FakeClock(), FakeClock()
    clocks = SimpleNamespace(monotonic=passing, perf_counter=passing, time=wall)

    @tool
    def take(seconds: int, set_by: int) -> int:
        """Take this long, while the system clock is changed."""
        passing.advance(seconds)
        wall.advance(seconds + set_by)
        return seconds

    actions = [AgentAction("take", {"seconds": seconds, "set_by": set_by}) for seconds, set_by in calls]
    executor = AgentExecutor(agent=scripted(*actions, answer()), tools=[take])
    handlers, limits = executor.run_context.handlers, executor.limits
    if how == "RunContext":
        imported = module_that_reads(clocks, real_handlers)
        # The module imported again has a class of its own for the same handlers.
        vars(imported)["Handler"] = real_handlers.Handler
        stream: Any = partial(real_runner.stream, **options_of(imported.RunContext(handlers, limits)))
    else:
        stream = partial(module_that_reads(clocks, real_runner).stream, handlers=handlers, limits=limits)
    *events, done = stream(executor.graph, Ready(Run({"input": "q"})))
    assert isinstance(done, Done)
    assert done.spent.seconds == sum(seconds for seconds, _ in calls)
    took = [event.seconds for event in events if isinstance(event, Answered) and event.node == "dispatch_tools"]
    assert took == [seconds for seconds, _ in calls]
