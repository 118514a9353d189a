"""Concurrent tools of one step: answered as replies come, kept when another fails, and cut separately."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, final

import pytest

import graphexec as gx
from graphexec.effects import TOOL_CALLS, CallTool
from graphexec.runtime import IO, Handler, RunContext, arun, astream, current_call, report, run, stream, threads
from graphexec.runtime.handlers import handlers_for
from graphexec.runtime.tasks import call_in_thread
from graphexec.tools import AnyTool
from tests.executor.actors import until
from tests.parameters import cases

# Seconds to wait for an event that should happen at once.
LONG = 20.0
SOON = 0.1

Watch: TypeAlias = Callable[[gx.Event[Any]], None]
Make: TypeAlias = Callable[[Sequence[Watch]], gx.AgentExecutor]


def asking_for(*names: str) -> Callable[[Any, Any], Any]:
    """An agent that calls these tools in one step, and then answers."""
    return lambda steps, _inputs: (
        gx.AgentFinish({"output": "done"}) if steps else [gx.AgentAction(one, {}) for one in names]
    )


def executor(*tools: AnyTool, **options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=asking_for(*(one.name for one in tools)), tools=tools, **options)


def tool_named(name: str, function: Callable[[], Any], **options: Any) -> AnyTool:
    made: AnyTool = gx.tool(name=name, description="A tool.", **options)(function)
    return made


def name_here() -> str:
    """Return the name of the tool that is being called."""
    call = current_call()
    assert call is not None
    assert isinstance(call.effect, CallTool)
    return call.effect.name


def both(name: str, blocking: Callable[[], Any]) -> list[AnyTool]:
    """The tool as `def` and as `async def`."""

    async def awaiting() -> Any:
        return await call_in_thread(blocking)

    return [tool_named(name, blocking), tool_named(name, awaiting)]


# ---- every way to run an executor, with its observers


def observed_run(made: Make, watch: Watch, inputs: Any) -> None:
    made([watch]).run(inputs)


def observed_arun(made: Make, watch: Watch, inputs: Any) -> None:
    asyncio.run(made([watch]).arun(inputs))


def streamed(made: Make, watch: Watch, inputs: Any) -> None:
    for event in made([]).stream(inputs):
        watch(event)


def astreamed(made: Make, watch: Watch, inputs: Any) -> None:
    asyncio.run(_watch_all(made([]).astream(inputs), watch))


def streamed_tokens(made: Make, watch: Watch, inputs: Any) -> None:
    for event in made([]).stream(inputs, tokens=True):
        watch(event)


def astreamed_tokens(made: Make, watch: Watch, inputs: Any) -> None:
    asyncio.run(_watch_all(made([]).astream(inputs, tokens=True), watch))


async def _watch_all(events: AsyncIterator[gx.Event[Any]], watch: Watch) -> None:
    async for event in events:
        watch(event)


WAYS = (observed_run, observed_arun, streamed, astreamed, streamed_tokens, astreamed_tokens)
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
with_deadline = pytest.mark.parametrize("seconds", [None, 3 * LONG], ids=["", "deadline"])
Way: TypeAlias = Callable[[Make, Watch, Any], None]


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def is_answer_of(event: gx.Event[Any], name: str) -> bool:
    return isinstance(event, gx.Answered) and isinstance(event.effect, CallTool) and event.effect.name == name


@pytest.mark.medium
@every_way
@with_deadline
@pytest.mark.parametrize("kind", [0, 1], ids=["def", "async def"])
def test_a_quick_result_does_not_wait(way: Way, seconds: float | None, kind: int, released: threading.Event) -> None:
    """The slow tool waits until the answer of the quick one is seen."""
    in_time: list[bool] = []
    slow = both("slow", lambda: in_time.append(released.wait(LONG)))[kind]
    quick = both("quick", lambda: "at once")[kind]

    def watch(event: gx.Event[Any]) -> None:
        if is_answer_of(event, "quick"):
            released.set()

    way(lambda watches: executor(slow, quick, max_execution_time=seconds, observers=watches), watch, "q")
    assert in_time == [True]


@every_way
@with_deadline
def test_one_at_a_time_is_in_turn(way: Way, seconds: float | None) -> None:
    seen: list[tuple[str, str]] = []

    def watch(event: gx.Event[Any]) -> None:
        if isinstance(event, (gx.Asked, gx.Answered)) and isinstance(event.effect, CallTool):
            seen.append((type(event).__name__, event.effect.name))

    tools = [tool_named(name, lambda: seen.append(("carried out", name_here()))) for name in "abc"]
    way(
        lambda watches: executor(*tools, tool_concurrency=1, max_execution_time=seconds, observers=watches),
        watch,
        "q",
    )
    assert seen == [(what, name) for name in "abc" for what in ("Asked", "carried out", "Answered")]


@every_way
def test_events_say_which_call_they_are_of(way: Way) -> None:
    seen: list[tuple[str, object]] = []
    barrier = threading.Barrier(3)

    def work() -> None:
        name, call = name_here(), current_call()
        assert call is not None
        barrier.wait(LONG)
        report(name)
        seen.append((name, call.id))

    def watch(event: gx.Event[Any]) -> None:
        if isinstance(event, (gx.Asked, gx.Answered, gx.Reported)) and isinstance(event.effect, CallTool):
            assert event.call is not None
            seen.append((event.effect.name, event.call.id))
            if isinstance(event, gx.Reported):
                assert event.news == event.effect.name

    way(lambda watches: executor(*(tool_named(name, work) for name in "abc"), observers=watches), watch, "q")
    assert len(seen) == 3 * 4
    assert len(set(seen)) == 3


# ---- failures


class Siblings:
    """Three tools: one is done, then one fails, while one is running. The second time all answer."""

    def __init__(self, kind: str) -> None:
        self.released = threading.Event()
        self.done, self.running = threading.Event(), threading.Event()
        self.failing = True
        self.calls: list[str] = []
        self.ids: dict[str, list[object]] = {}
        functions = {"done": self.finish, "failed": self.fail, "running": self.block}
        made = {name: both(name, function)[kind == "async def"] for name, function in functions.items()}
        self.tools = list(made.values())

    def note(self, name: str) -> None:
        call = current_call()
        assert call is not None
        self.calls.append(name)
        self.ids.setdefault(name, []).append(call.id)

    def finish(self) -> str:
        self.note("done")
        return "first"

    def fail(self) -> str:
        self.note("failed")
        if self.failing:
            assert self.done.wait(LONG)
            assert self.running.wait(LONG)
            raise OSError("it broke")
        return "second"

    def block(self) -> str:
        self.note("running")
        self.running.set()
        if self.failing:
            self.released.wait(LONG)
        return "third"

    def watch(self, event: gx.Event[Any]) -> None:
        if is_answer_of(event, "done"):
            self.done.set()


@pytest.mark.medium
@every_way
@with_deadline
@cases("kind", ["def", "async def"])
@cases("as_json", [False, True])
def test_failure_keeps_finished_replies(way: Way, seconds: float | None, kind: str, as_json: bool) -> None:
    """The resume makes exactly two calls again, with their ids, and five are charged."""
    siblings = Siblings(kind)

    def make(observers: Sequence[Watch] = ()) -> gx.AgentExecutor:
        return executor(*siblings.tools, handle_tool_errors="raise", max_execution_time=seconds, observers=observers)

    with pytest.raises(OSError, match="it broke") as caught:
        way(make, siblings.watch, "q")
    siblings.released.set()
    snapshot = gx.snapshot_of(caught.value)
    assert snapshot is not None
    assert snapshot.spent[TOOL_CALLS] == 3
    if as_json:
        snapshot = gx.Snapshot.from_json(snapshot.to_json(), make().graph)
    siblings.failing = False
    seen: list[gx.Event[Any]] = []
    way(make, seen.append, snapshot)
    assert sorted(siblings.calls) == ["done", "failed", "failed", "running", "running"]
    assert all(len(set(ids)) == 1 for ids in siblings.ids.values())
    end = seen[-1]
    assert isinstance(end, gx.Done)
    assert end.spent[TOOL_CALLS] == 5
    assert [step.observation for step in end.outcome.steps] == ["first", "second", "third"]


@cases("how", ["sync", "async"])
def test_a_failure_stops_the_other_calls(how: str) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def fail() -> None:
        begun.wait(LONG)
        raise OSError("it broke")

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    one = executor(tool_named("fail", fail), tool_named("endless", endless), handle_tool_errors="raise")
    with pytest.raises(OSError, match="it broke"):
        one.run("q") if how == "sync" else asyncio.run(one.arun("q"))
    assert cancelled.wait(LONG)


@every_way
def test_unstarted_call_never_starts(way: Way) -> None:
    begun: list[str] = []

    def fail() -> None:
        raise OSError("it broke")

    one = tool_named("fail", fail)
    others = [tool_named(name, lambda: begun.append(name_here())) for name in "abc"]
    with pytest.raises(OSError, match="it broke"):
        way(
            lambda watches: executor(one, *others, tool_concurrency=1, handle_tool_errors="raise", observers=watches),
            lambda _: None,
            "q",
        )
    assert begun == []


@every_way
def test_reports_without_end_do_not_hide_a_failure(way: Way, released: threading.Event) -> None:
    reported = threading.Event()

    def fail() -> None:
        assert reported.wait(LONG)
        raise OSError("it broke")

    def talk() -> None:
        while not released.is_set():
            report("still here")
            reported.set()

    with pytest.raises(OSError, match="it broke"):
        way(
            lambda watches: executor(
                tool_named("fail", fail), tool_named("talk", talk), handle_tool_errors="raise", observers=watches
            ),
            lambda _: None,
            "q",
        )


PAGES = gx.Meter("pages")


@dataclass(frozen=True)
class Fetch(gx.Effect[str]):
    charges: ClassVar[Mapping[gx.Meter, int]] = {PAGES: 1}
    name: str


@dataclass(frozen=True)
class LookUp(Fetch):
    """An effect that is answered at once, without a thread or a task."""


@final
@dataclass(frozen=True)
class Wanted:
    """The effects of one batch."""

    all: tuple[Fetch, ...]


@final
@dataclass(frozen=True)
class Pages:
    pages: tuple[str, ...]


@final
@dataclass(frozen=True)
class Stopped:
    at: Wanted
    limit: gx.Exhausted


@gx.charged(when_spent=Stopped)
@gx.node
def fetch(wanted: Wanted) -> gx.Asks[Fetch | LookUp, Pages]:
    return Pages((yield from gx.ask_all(wanted.all)))


FETCHING = gx.graph(gx.edges(fetch, gx.on(Pages, gx.END) | gx.on(Stopped, gx.END)), start=fetch)
RUNS: list[Callable[..., Any]] = [
    run,
    lambda *args: asyncio.run(arun(*args)),
    lambda *args: list(stream(*args))[-1],
    lambda *args: asyncio.run(_last(astream(*args))),
]
every_run = pytest.mark.parametrize("run_it", RUNS, ids=["run", "arun", "stream", "astream"])


async def _last(events: AsyncIterator[gx.Event[Any]]) -> gx.Event[Any]:
    return [event async for event in events][-1]


@every_run
@with_deadline
def test_instant_failure_keeps_finished_replies(
    run_it: Callable[..., Any], seconds: float | None, released: threading.Event
) -> None:
    """Two at a time: one runs while the next ones are answered, and the last one fails at once."""
    asked: list[str] = []
    failing = ["fails"]
    running = threading.Event()

    def carry_out(effect: Fetch) -> str:
        asked.append(effect.name)
        if effect.name == "runs":
            running.set()
            assert not failing or released.wait(LONG)
        assert running.wait(LONG)
        if effect.name in failing:
            raise OSError("it broke")
        return effect.name.upper()

    async def carry_out_at_once(effect: Fetch, call: gx.CallContext[Any], io: IO) -> str:
        return carry_out(effect)

    handlers = {**handlers_for({Fetch: carry_out}), LookUp: Handler(carry_out_at_once, instant=True)}
    context = RunContext(handlers, gx.Limits(seconds=seconds), at_once=2)
    wanted = Wanted((Fetch("runs"), Fetch("done"), LookUp("found"), LookUp("fails")))
    with pytest.raises(OSError, match="it broke") as caught:
        run_it(FETCHING, wanted, context)
    snapshot = gx.snapshot_of(caught.value)
    assert snapshot is not None
    assert snapshot.spent[PAGES] == 4
    failing.clear()
    released.set()
    done = run_it(FETCHING, gx.Snapshot.from_json(snapshot.to_json(), FETCHING), context)
    assert done.outcome == Pages(("RUNS", "DONE", "FOUND", "FAILS"))
    assert sorted(asked) == ["done", "fails", "fails", "found", "runs", "runs"]
    assert done.spent[PAGES] == 6


@cases("seconds", [None, LONG])
def test_instant_failure_keeps_just_finished_replies(seconds: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other call's thread has ended, but its reply is not taken yet."""
    pool = vars(threads)["_Threads"]()
    monkeypatch.setattr(threads, "_threads", pool)
    begun = threading.Event()

    def carry_out(effect: Fetch) -> str:
        begun.set()
        return effect.name.upper()

    async def fail(effect: Fetch, call: gx.CallContext[Any], io: IO) -> str:
        assert begun.wait(LONG)
        # A call in a reused thread begins when the thread has delivered the previous reply.
        while len(pool.running) > (seconds is not None):
            threading.Event().wait(0.001)
        threads.start_in_thread(int).result(LONG)
        raise OSError("it broke")

    handlers = {**handlers_for({Fetch: carry_out}), LookUp: Handler(fail, instant=True)}
    with pytest.raises(OSError, match="it broke") as caught:
        run(FETCHING, Wanted((Fetch("done"), LookUp("fails"))), RunContext(handlers, gx.Limits(seconds=seconds)))
    snapshot = gx.snapshot_of(caught.value)
    assert snapshot is not None
    assert snapshot.open[0] == "DONE"


@cases("turns", range(6))
@with_deadline
def test_failure_keeps_replies_that_finish_with_it(turns: int, seconds: float | None) -> None:
    """A task that ends some iterations of the event loop later is cancelled, or its reply is kept."""
    done: list[str] = []

    async def main() -> BaseException:
        failed = asyncio.Event()

        async def carry_out(effect: Fetch) -> str:
            if effect.name == "fails":
                failed.set()
                raise OSError("it broke")
            await failed.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            done.append(effect.name)
            return effect.name

        context = RunContext(handlers_for({Fetch: carry_out}), gx.Limits(seconds=seconds))
        with pytest.raises(OSError, match="it broke") as caught:
            await arun(FETCHING, Wanted((Fetch("done"), Fetch("fails"))), context)
        return caught.value

    snapshot = gx.snapshot_of(asyncio.run(main()))
    assert snapshot is not None
    assert [state for state in snapshot.open if state == "done"] == done


# ---- the deadline


@pytest.mark.medium
@every_way
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_deadline_cuts_only_open_members(way: Way, kind: str, released: threading.Event) -> None:
    answered: dict[str, str] = {}

    async def hang() -> None:
        await until(released)

    slow = tool_named("slow", lambda: released.wait(LONG)) if kind == "def" else tool_named("slow", hang)

    def watch(event: gx.Event[Any]) -> None:
        if isinstance(event, gx.Answered) and isinstance(event.effect, CallTool):
            answered[event.effect.name] = event.reply.status

    quick = tool_named("quick", lambda: "at once")
    way(lambda watches: executor(slow, quick, max_execution_time=5 * SOON, observers=watches), watch, "q")
    assert answered == {"quick": "ok", "slow": "cut"}


@every_way
def test_a_cut_in_turn_begins_no_more(way: Way, released: threading.Event) -> None:
    """Cut in the middle of the second of three calls."""
    begun: list[str] = []
    answered: dict[str, str] = {}

    def watch(event: gx.Event[Any]) -> None:
        if isinstance(event, gx.Answered) and isinstance(event.effect, CallTool):
            answered[event.effect.name] = event.reply.status

    def work() -> None:
        begun.append(name_here())
        if begun[-1] == "b":
            released.wait(LONG)

    tools = [tool_named(name, work) for name in "abc"]
    way(
        lambda watches: executor(*tools, tool_concurrency=1, max_execution_time=5 * SOON, observers=watches),
        watch,
        "q",
    )
    assert answered == {"a": "ok", "b": "cut", "c": "cut"}
    released.set()
    assert begun == ["a", "b"]
