"""Concurrent tools of one step: answered as replies come, kept when another fails, and cut separately."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

import pytest

import graphexec as gx
from graphexec.effects import TOOL_CALLS, CallTool
from graphexec.runtime import IO, Handler, arun, current_call, report, run, threads
from graphexec.runtime.tasks import call_in_thread
from graphexec.tools import AnyTool
from tests.drivers import LIVE, Driver, Script, make_run_context, options_of
from tests.executor.actors import HOW, Running, act, answer, make_executor, snapshot_after, snapshot_in, until
from tests.kernel.machines import Halted, machine_of, reload, value
from tests.parameters import cases
from tests.runtime.actors import LONG, ignore, start_in_thread, tool_named

SOON = 0.1

Watch: TypeAlias = Callable[[gx.Event[Any]], None]
Make: TypeAlias = Callable[[Sequence[Watch]], gx.AgentExecutor]


def executor(*tools: AnyTool, **options: Any) -> gx.AgentExecutor:
    """Return an executor of an agent that calls these tools in one step, and then answers."""
    return make_executor([act(one.name) for one in tools], answer(), tools=tools, **options)


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


def stream_to(made: Make, watch: Watch, inputs: Any, **options: Any) -> None:
    for event in made([]).stream(inputs, **options):
        watch(event)


def astream_to(made: Make, watch: Watch, inputs: Any, **options: Any) -> None:
    async def watch_all() -> None:
        async for event in made([]).astream(inputs, **options):
            watch(event)

    asyncio.run(watch_all())


WAYS: dict[str, Callable[[Make, Watch, Any], object]] = {
    "run": lambda made, watch, inputs: made([watch]).run(inputs),
    "arun": lambda made, watch, inputs: asyncio.run(made([watch]).arun(inputs)),
    "stream": stream_to,
    "astream": astream_to,
    "stream with tokens": partial(stream_to, tokens=True),
    "astream with tokens": partial(astream_to, tokens=True),
}
every_way = cases("way", *WAYS)
with_deadline = cases("seconds", None, 3 * LONG)


def run_in(way: str, tools: Sequence[AnyTool], watch: Watch, inputs: Any = "q", **options: Any) -> None:
    """Run an executor of these tools to its end, and watch its events."""
    WAYS[way](lambda observers: executor(*tools, observers=observers, **options), watch, inputs)


def is_answer_of(event: gx.Event[Any], name: str) -> bool:
    return isinstance(event, gx.Answered) and isinstance(event.effect, CallTool) and event.effect.name == name


@pytest.mark.medium
@every_way
@with_deadline
@cases("kind", 0, 1)
def test_a_quick_result_does_not_wait(way: str, seconds: float | None, kind: int) -> None:
    """The slow tool waits until the answer of the quick one is seen."""
    in_time, released = list[bool](), threading.Event()
    slow = both("slow", lambda: in_time.append(released.wait(LONG)))[kind]
    quick = both("quick", lambda: "at once")[kind]

    def watch(event: gx.Event[Any]) -> None:
        if is_answer_of(event, "quick"):
            released.set()

    run_in(way, [slow, quick], watch, max_execution_time=seconds)
    assert in_time == [True]


@every_way
@with_deadline
def test_one_at_a_time_is_in_turn(way: str, seconds: float | None) -> None:
    seen: list[tuple[str, str]] = []

    def watch(event: gx.Event[Any]) -> None:
        if isinstance(event, (gx.Asked, gx.Answered)) and isinstance(event.effect, CallTool):
            seen.append((type(event).__name__, event.effect.name))

    tools = [tool_named(name, lambda: seen.append(("carried out", name_here()))) for name in "abc"]
    run_in(way, tools, watch, tool_concurrency=1, max_execution_time=seconds)
    assert seen == [(what, name) for name in "abc" for what in ("Asked", "carried out", "Answered")]


@every_way
def test_events_say_which_call_they_are_of(way: str) -> None:
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

    run_in(way, [tool_named(name, work) for name in "abc"], watch)
    assert (len(seen), len(set(seen))) == (3 * 4, 3)


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
@cases("kind", "def", "async def")
@cases("as_json", False, True)
def test_failure_keeps_finished_replies(way: str, seconds: float | None, kind: str, as_json: bool) -> None:
    """The resume makes exactly two calls again, with their ids, and five are charged."""
    siblings = Siblings(kind)
    options: dict[str, Any] = {"handle_tool_errors": "raise", "max_execution_time": seconds}
    snapshot = snapshot_after(OSError, lambda: run_in(way, siblings.tools, siblings.watch, **options), "it broke")
    siblings.released.set()
    assert snapshot.spent[TOOL_CALLS] == 3
    if as_json:
        snapshot = gx.Snapshot.from_json(snapshot.to_json(), executor(*siblings.tools, **options).graph)
    siblings.failing = False
    seen: list[gx.Event[Any]] = []
    run_in(way, siblings.tools, seen.append, snapshot, **options)
    assert sorted(siblings.calls) == ["done", "failed", "failed", "running", "running"]
    assert all(len(set(ids)) == 1 for ids in siblings.ids.values())
    end = seen[-1]
    assert isinstance(end, gx.Done)
    assert end.spent[TOOL_CALLS] == 5
    assert [step.observation for step in end.outcome.steps] == ["first", "second", "third"]


@HOW
def test_a_failure_stops_the_other_calls(run: Running) -> None:
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
        run(one)
    assert cancelled.wait(LONG)


def fail() -> None:
    raise OSError("it broke")


@every_way
def test_unstarted_call_never_starts(way: str) -> None:
    begun: list[str] = []
    others = [tool_named(name, lambda: begun.append(name_here())) for name in "abc"]
    with pytest.raises(OSError, match="it broke"):
        run_in(way, [tool_named("fail", fail), *others], ignore, tool_concurrency=1, handle_tool_errors="raise")
    assert begun == []


@every_way
def test_reports_without_end_do_not_hide_a_failure(way: str) -> None:
    reported, released = threading.Event(), threading.Event()

    def fail_when_reported() -> None:
        assert reported.wait(LONG)
        fail()

    def talk() -> None:
        while not released.is_set():
            report("still here")
            reported.set()

    tools = [tool_named("fail", fail_when_reported), tool_named("talk", talk)]
    try:
        with pytest.raises(OSError, match="it broke"):
            run_in(way, tools, ignore, handle_tool_errors="raise")
    finally:
        released.set()


PAGES = gx.Meter("pages")


@dataclass(frozen=True)
class Fetch(gx.Effect[str]):
    charges: ClassVar[Mapping[gx.Meter, int]] = {PAGES: 1}
    name: str


@dataclass(frozen=True)
class LookUp(Fetch):
    """An effect that is answered at once, without a thread or a task."""

    # Distinguishes the two in a snapshot.
    at_once: bool = True


@value
class Wanted:
    """The effects of one batch."""

    all: tuple[Fetch | LookUp, ...]


@value
class Pages:
    pages: tuple[str, ...]


@gx.node(when_spent=Halted)
def fetch(wanted: Wanted) -> gx.Asks[Fetch | LookUp, Pages]:
    return Pages((yield from gx.ask_all(wanted.all)))


FETCHING: gx.Machine[Wanted, Pages | Halted] = machine_of(fetch)


@cases("drive", *LIVE)
@with_deadline
def test_instant_failure_keeps_finished_replies(drive: Driver, seconds: float | None) -> None:
    """Two at a time: one runs while the next ones are answered, and the last one fails at once."""
    asked: list[str] = []
    failing = ["fails"]
    running, released = threading.Event(), threading.Event()

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

    handlers: dict[Any, Any] = {Fetch: carry_out, LookUp: Handler(carry_out_at_once, instant=True)}
    context = make_run_context(handlers, limits=gx.Limits(seconds=seconds), at_once=2)
    wanted = Wanted((Fetch("runs"), Fetch("done"), LookUp("found"), LookUp("fails")))
    snapshot = snapshot_after(OSError, lambda: drive(Script(FETCHING, wanted, context)), "it broke")
    assert snapshot.spent[PAGES] == 4
    failing.clear()
    released.set()
    done = drive(Script(FETCHING, reload(snapshot, FETCHING), context))
    assert done.outcome == Pages(("RUNS", "DONE", "FOUND", "FAILS"))
    assert (sorted(asked), done.spent[PAGES]) == (["done", "fails", "fails", "found", "runs", "runs"], 6)


@cases("seconds", None, LONG)
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
        start_in_thread(int).result(LONG)
        raise OSError("it broke")

    handlers: dict[Any, Any] = {Fetch: carry_out, LookUp: Handler(fail, instant=True)}
    context = make_run_context(handlers, limits=gx.Limits(seconds=seconds))
    wanted = Wanted((Fetch("done"), LookUp("fails")))
    snapshot = snapshot_after(OSError, lambda: run(FETCHING, wanted, **options_of(context)), "it broke")
    assert snapshot.open[0] == "DONE"


@cases("turns", *range(6))
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

        context = make_run_context({Fetch: carry_out}, limits=gx.Limits(seconds=seconds))
        with pytest.raises(OSError, match="it broke") as caught:
            await arun(FETCHING, Wanted((Fetch("done"), Fetch("fails"))), **options_of(context))
        return caught.value

    assert [state for state in snapshot_in(asyncio.run(main())).open if state == "done"] == done


# ---- the deadline


def statuses_of(way: str, tools: Sequence[AnyTool], **options: Any) -> dict[str, str]:
    """Return the status of each tool's reply in a run that its deadline cuts."""
    answered: dict[str, str] = {}

    def watch(event: gx.Event[Any]) -> None:
        if isinstance(event, gx.Answered) and isinstance(event.effect, CallTool):
            answered[event.effect.name] = event.reply.status

    run_in(way, tools, watch, max_execution_time=5 * SOON, **options)
    return answered


@pytest.mark.medium
@every_way
@cases("kind", "def", "async def")
def test_the_deadline_cuts_only_open_members(way: str, kind: str, released: threading.Event) -> None:
    async def hang() -> None:
        await until(released)

    slow = tool_named("slow", (lambda: released.wait(LONG)) if kind == "def" else hang)
    assert statuses_of(way, [slow, tool_named("quick", lambda: "at once")]) == {"quick": "ok", "slow": "cut"}


@pytest.mark.medium
@every_way
def test_a_cut_in_turn_begins_no_more(way: str) -> None:
    """Cut in the middle of the second of three calls."""
    begun, released = list[str](), threading.Event()

    def work() -> None:
        begun.append(name_here())
        if begun[-1] == "b":
            released.wait(LONG)

    statuses = statuses_of(way, [tool_named(name, work) for name in "abc"], tool_concurrency=1)
    assert statuses == {"a": "ok", "b": "cut", "c": "cut"}
    released.set()
    assert begun == ["a", "b"]
