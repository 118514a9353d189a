"""Each call of a run has an identity that its tool, handler, node, events and span share."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any, final

import pytest

import graphexec as gx
from graphexec.kernel import CallId, PendingEffect, advance, begin, replay
from graphexec.kernel.effects import DetachedScope
from graphexec.models import ScriptedModel
from graphexec.runtime import RunContext, RunOptions, arun, current_call, make_run_context, report, run, stream
from graphexec.testing import VirtualClock, on_loop_time
from tests.executor import actors
from tests.executor.actors import call
from tests.parameters import cases

# Seconds that a test waits for an event that should happen at once.
LONG = 20.0

# ---- a machine that asks for one effect, then for two, and then runs an opaque node


@final
@dataclass(frozen=True)
class Start:
    pass


@final
@dataclass(frozen=True)
class Begun:
    ids: tuple[str, ...]


@final
@dataclass(frozen=True)
class Replied:
    ids: tuple[str, ...]


@final
@dataclass(frozen=True)
class Finished:
    ids: tuple[str, ...]


@final
@dataclass(frozen=True)
class Stopped:
    at: Begun | Replied
    limit: gx.Exhausted


@dataclass(frozen=True)
class Look(gx.Effect[str]):
    """Its reply is the id of the call."""


@gx.node
def pure(start: Start, call: gx.CallContext[Any]) -> Begun:
    return Begun((str(call.id),))


@gx.charged(when_spent=Stopped)
@gx.node
def asking(given: Begun, *, call: gx.CallContext[object]) -> gx.Asks[Look, Replied]:
    first = yield from gx.ask(Look())
    both = yield from gx.ask_all([Look(), Look()])
    return Replied((*given.ids, str(call.id), first, *both))


@gx.charged(when_spent=Stopped)
@gx.opaque
def act_freely(given: Replied, here: gx.CallContext) -> Finished:  # type: ignore[type-arg]  # pyright: ignore
    return Finished((*given.ids, str(here.id), str(current_call())))


MACHINE: gx.Graph[Start, Finished | Stopped] = gx.graph(
    gx.edges(pure, gx.on(Begun, asking))
    | gx.edges(asking, gx.on(Replied, act_freely) | gx.on(Stopped, gx.END))
    | gx.edges(act_freely, gx.on(Finished, gx.END) | gx.on(Stopped, gx.END)),
    start=pure,
)
IDS = ("r/1.0", "r/1.0", "r/1.0", "r/2.0", "r/2.1", "r/3.0", "<call r/3.0 of act_freely>")


def look(effect: Look, call: gx.CallContext[Any]) -> str:
    assert call.effect is effect
    assert current_call() is call
    return str(call.id)


async def alook(effect: Look, call: gx.CallContext[Any]) -> str:
    assert call.effect is effect
    assert current_call() is call
    return str(call.id)


def run_machine(world: RunContext, value: Start | gx.Snapshot, **options: Any) -> Any:
    return run(MACHINE, value, world, options=RunOptions(**options))


def arun_machine(world: RunContext, value: Start | gx.Snapshot, **options: Any) -> Any:
    return asyncio.run(arun(MACHINE, value, world, options=RunOptions(**options)))


def stream_machine(world: RunContext, value: Start | gx.Snapshot, **options: Any) -> Any:
    *_, done = stream(MACHINE, value, world, options=RunOptions(**options))
    return done


MACHINES = cases("run_it", [run_machine, arun_machine, stream_machine])


@MACHINES
@cases("handler", [look, alook])
@cases("at_once", [1, 64])
def test_handlers_and_nodes_get_their_call(run_it: Any, handler: Callable[..., Any], at_once: int) -> None:
    done = run_it(make_run_context({Look: handler}, at_once=at_once), Start(), run_id="r")
    assert done.outcome == Finished(IDS)
    assert done.snapshot.run_id == "r"


def test_graph_run_takes_the_run_id() -> None:
    assert MACHINE.run(Start(), handlers={Look: look}, run_id="r").outcome == Finished(IDS)


def test_annotation_may_be_annotated_or_optional() -> None:
    def annotated(effect: Look, call: Annotated[gx.CallContext[Any], "the call"]) -> str:
        return str(call.id)

    def optional(effect: Look, call: gx.CallContext[Any] | None = None) -> str:
        return "none" if call is None else str(call.id)

    for handler in (annotated, optional):
        assert run_machine(make_run_context({Look: handler}), Start(), run_id="r").outcome.ids == IDS


def test_run_id_is_made_up_and_kept() -> None:
    world = make_run_context({Look: look})
    first, second = (run_machine(world, Start()) for _ in range(2))
    assert first.snapshot.run_id != second.snapshot.run_id
    resumed = run_machine(world, gx.Snapshot.from_json(first.snapshot.to_json(), MACHINE))
    assert resumed.snapshot.run_id == first.snapshot.run_id
    assert CallId("r", 2, 1) == ("r", 2, 1)


@MACHINES
@cases("failing", ["r/1.0", "r/2.0", "r/2.1", "r/3.0"])
def test_id_survives_a_resume_from_json(run_it: Any, failing: str) -> None:
    attempts: list[str] = []

    def flaky(effect: Look, call: gx.CallContext[Any]) -> str:
        attempts.append(str(call.id))
        if attempts.count(failing) == 1 and attempts[-1] == failing:
            raise ValueError(failing)
        return str(call.id)

    world = make_run_context({Look: flaky})
    if failing == "r/3.0":
        snapshot = run_it(world, Start(), run_id="r").snapshot
        snapshot = gx.Snapshot(
            snapshot.node, snapshot.value, spent=snapshot.spent, entered=True, sequence=2, run_id="r"
        )
    else:
        with pytest.raises(ValueError, match=failing) as raised:
            run_it(world, Start(), run_id="r")
        found = gx.snapshot_of(raised.value)
        assert found is not None
        snapshot = found
    done = run_it(world, gx.Snapshot.from_json(snapshot.restarted().to_json(), MACHINE))
    assert done.outcome.ids == IDS


def test_stepping_and_replay_have_the_same_ids() -> None:
    limits = make_run_context({}).limits
    state = advance(MACHINE, begin(MACHINE, Start()), limits)
    ids: list[str] = []
    while isinstance(state, PendingEffect):
        ids += [str(call.id) for call in state.calls]
        replies = [str(call.id) for call in state.calls]
        if len(replies) == 1 and not isinstance(state.effect, Look):
            break
        state = advance(MACHINE, state.reply(replies if len(replies) > 1 else replies[0]), limits)
    assert ids == ["/1.0", "/2.0", "/2.1", "/3.0"]
    done = run_machine(make_run_context({Look: look}), Start(), run_id="r")
    replayed = [str(event.call) for event in replay(done.journal) if isinstance(event, gx.Answered)]
    assert sorted(replayed) == [
        "<call r/1.0 of asking>",
        "<call r/2.0 of asking>",
        "<call r/2.1 of asking>",
        "<call r/3.0 of act_freely>",
    ]


# ---- tools


def ids_of(how: actors.Running, *tools: actors.AnyTool, turns: Any = None, **options: Any) -> Any:
    turns = turns or [actors.act(one.name, text="a") for one in tools]
    return how(gx.AgentExecutor(agent=actors.scripted(*turns, actors.answer()), tools=tools, **options))


@gx.tool
def identify(text: str, call: gx.CallContext[Any]) -> str:
    """Return the id of the call."""
    assert current_call() is call
    return f"{call.id.sequence}.{call.id.member}"


@gx.tool
async def aidentify(text: str, call: gx.CallContext[object]) -> str:
    """Return the id of the call."""
    assert current_call() is call
    return f"{call.id.sequence}.{call.id.member}"


@actors.HOW
@pytest.mark.parametrize("options", [{}, {"tool_concurrency": 1}, {"max_execution_time": LONG}])
@pytest.mark.parametrize("one", [identify, aidentify], ids=["sync", "async"])
def test_tools_get_their_call(run: actors.Running, options: dict[str, Any], one: actors.AnyTool) -> None:
    both = [actors.act(one.name, text="a"), actors.act(one.name, text="b")]
    result = ids_of(run, one, turns=[actors.act(one.name, text="a"), both], **options)
    assert [step.observation for step in result.steps] == ["2.0", "4.0", "4.1"]


@actors.HOW
@pytest.mark.parametrize("timeout", [None, LONG])
def test_id_survives_the_retries_of_a_tool(run: actors.Running, timeout: float | None) -> None:
    seen: list[CallId] = []

    @gx.tool(retries=2, timeout=timeout)
    def flaky(text: str, call: gx.CallContext[Any]) -> str:
        """Fail twice."""
        assert current_call() is call
        seen.append(call.id)
        if len(seen) < 3:
            raise OSError(text)
        return text

    result = ids_of(run, flaky)
    assert [step.observation for step in result.steps] == ["a"]
    assert len(seen) == 3
    assert len(set(seen)) == 1


@actors.HOW
def test_native_calls_keep_the_providers_id(run: actors.Running) -> None:
    seen: list[str | None] = []

    @gx.tool
    def look_up(text: str, call: gx.CallContext[Any]) -> str:
        """Look it up."""
        seen.append(call.provider_id)
        return text

    events: list[gx.Event[Any]] = []
    calls = [call("look_up", "call_1", text="a"), call("look_up", "call_2", text="b")]
    model = ScriptedModel([calls, call("look_up", "call_3", text="c"), "done"])
    run(actors.caller_of(model, look_up, observers=[events.append], tool_concurrency=1))
    assert seen == ["call_1", "call_2", "call_3"]
    assert [
        event.call.provider_id
        for event in events
        if isinstance(event, gx.Answered) and event.call is not None and event.node == "dispatch_tools"
    ] == ["call_1", "call_2", "call_3"]


def test_text_agent_calls_have_no_provider_id() -> None:
    seen: list[str | None] = []

    @gx.tool
    def look_up(text: str, call: gx.CallContext[Any]) -> str:
        """Look it up."""
        seen.append(call.provider_id)
        return text

    ids_of(actors.run_sync, look_up)
    assert seen == [None]


def test_call_has_the_seconds_left() -> None:
    clock = VirtualClock()
    left: list[float | None] = []

    @gx.tool
    async def measure(text: str, call: gx.CallContext[Any]) -> str:
        """Measure the time."""
        left.append(call.seconds_left)
        await asyncio.sleep(4)
        left.append(call.seconds_left)
        return text

    timed = gx.AgentExecutor(
        agent=actors.scripted(actors.act("measure", text="a"), actors.answer()), tools=[measure], max_execution_time=10
    )
    clock.run(on_loop_time(timed, clock).arun("q"))
    ids_of(actors.run_async, gx.tool(name="untimed", description="Measure.")(lambda_of(left)))
    assert left == [10, 6, None]


def lambda_of(left: list[float | None]) -> Callable[..., str]:
    def untimed(text: str, call: gx.CallContext[Any]) -> str:
        left.append(call.seconds_left)
        return text

    return untimed


# ---- events


@gx.tool
def announce(text: str, call: gx.CallContext[Any]) -> str:
    """Report it."""
    report(f"{text} {call.id.sequence}.{call.id.member}")
    return text


@actors.HOW
@pytest.mark.parametrize("options", [{}, {"tool_concurrency": 1}, {"max_execution_time": LONG}])
def test_events_carry_their_call(run: actors.Running, options: dict[str, Any]) -> None:
    events: list[Any] = []
    both = [actors.act("announce", text="a"), actors.act("announce", text="b")]
    result = ids_of(run, announce, turns=[both], observers=[events.append], **options)
    assert result.reason == "finished"
    of_calls: list[Any] = [event for event in events if isinstance(event, (gx.Asked, gx.Answered, gx.Reported))]
    assert sorted({event.call.id[1:] for event in of_calls}) == [(1, 0), (2, 0), (2, 1), (3, 0)]
    assert {event.call.run_id for event in events if hasattr(event, "call")} == {of_calls[0].call.run_id}
    for event in of_calls:
        assert event.call.effect is event.effect
        assert event.call.node == event.node
    reported: list[Any] = [event for event in events if isinstance(event, gx.Reported)]
    assert sorted(event.news for event in reported) == ["a 2.0", "b 2.1"]
    assert all(event.news.endswith(f"{event.call.id.sequence}.{event.call.id.member}") for event in reported)


def test_reports_of_a_stream_carry_their_call() -> None:
    both = [actors.act("announce", text="a"), actors.act("announce", text="b")]
    executor = gx.AgentExecutor(agent=actors.scripted(both, actors.answer()), tools=[announce])
    for tokens in (False, True):
        reported = [event for event in executor.stream("q", tokens=tokens) if isinstance(event, gx.Reported)]
        assert sorted((event.news, event.call.id[1:]) for event in reported if event.call is not None) == [
            ("a 2.0", (2, 0)),
            ("b 2.1", (2, 1)),
        ]


# ---- around each call

span: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")


def ignore(event: object) -> None:
    """Observe an event, and do nothing."""


class Spans:
    """Enters a span around each call, and records its id, its thread, and its end."""

    def __init__(self) -> None:
        self.ended: list[tuple[tuple[int, int], str]] = []
        self.threads: dict[tuple[int, int], int] = {}

    @contextmanager
    def __call__(self, call: gx.CallContext[Any]) -> Generator[None, None, None]:
        of_call = call.id[1:]
        assert of_call not in self.threads, "once"
        self.threads[of_call] = threading.get_ident()
        token = span.set(str(of_call))
        try:
            yield
        except BaseException as error:
            self.ended.append((of_call, type(error).__name__))
            raise
        else:
            self.ended.append((of_call, "ok"))
        finally:
            span.reset(token)


@actors.HOW
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"tool_concurrency": 1}, {"max_execution_time": LONG}, {"observers": [ignore]}],
    ids=["plain", "in turn", "deadline", "observed"],
)
def test_span_is_around_each_call_once(run: actors.Running, is_async: bool, options: dict[str, Any]) -> None:
    @gx.tool
    def see(text: str) -> str:
        """Return the span."""
        return span.get()

    @gx.tool(name="see")
    async def asee(text: str) -> str:
        """Return the span."""
        return span.get()

    spans = Spans()
    both = [actors.act("see", text="a"), actors.act("see", text="b")]
    result = ids_of(
        run, asee if is_async else see, turns=[both, actors.act("see", text="c")], around_call=spans, **options
    )
    assert [step.observation for step in result.steps] == ["(2, 0)", "(2, 1)", "(4, 0)"]
    assert sorted(spans.ended) == [(one, "ok") for one in [(1, 0), (2, 0), (2, 1), (3, 0), (4, 0), (5, 0)]]
    assert span.get() == "none"


@cases("how", ["sync", "async"])
@cases("tokens", [False, True])
@cases("seconds", [None, LONG])
def test_span_is_around_the_calls_of_a_stream(how: str, tokens: bool, seconds: float | None) -> None:
    seen: list[str] = []

    @gx.tool
    def see(text: str) -> str:
        """Note the span."""
        seen.append(span.get())
        return text

    spans = Spans()
    turns = [actors.act("see", text="a"), [actors.act("see", text="b"), actors.act("see", text="c")], actors.answer()]
    executor = gx.AgentExecutor(
        agent=actors.scripted(*turns), tools=[see], around_call=spans, max_execution_time=seconds
    )

    async def collect() -> None:
        async for _ in executor.astream("q", tokens=tokens):
            pass

    if how == "sync":
        list(executor.stream("q", tokens=tokens))
    else:
        asyncio.run(collect())
    assert sorted(seen) == ["(2, 0)", "(4, 0)", "(4, 1)"]
    assert sorted(spans.ended) == [(one, "ok") for one in [(1, 0), (2, 0), (3, 0), (4, 0), (4, 1), (5, 0)]]


def test_span_of_a_member_is_in_its_thread() -> None:
    seen: dict[str, int] = {}
    together = threading.Barrier(2)

    @gx.tool
    def see(text: str) -> str:
        """Note the thread."""
        together.wait(LONG)
        seen[text] = threading.get_ident()
        return text

    spans = Spans()
    ids_of(actors.run_sync, see, turns=[[actors.act("see", text="a"), actors.act("see", text="b")]], around_call=spans)
    assert spans.threads[2, 0] == seen["a"] != threading.get_ident()
    assert spans.threads[2, 1] == seen["b"] != seen["a"]


@actors.HOW
def test_span_receives_the_exception_of_a_call(run: actors.Running) -> None:
    @gx.tool(on_error="raise")
    def fail(text: str) -> str:
        """Fail."""
        raise KeyError(text)

    spans = Spans()
    with pytest.raises(KeyError):
        ids_of(run, fail, around_call=spans)
    assert spans.ended[-1] == ((2, 0), "KeyError")


@actors.HOW
@pytest.mark.parametrize("width", [1, 8])
def test_exception_of_a_span_ends_the_run(run: actors.Running, width: int) -> None:
    @contextmanager
    def broken(call: gx.CallContext[Any]) -> Generator[None, None, None]:
        if call.id.member:
            raise LookupError("no exporter")
        yield

    with pytest.raises(LookupError, match="no exporter") as raised:
        ids_of(
            run,
            actors.echo,
            turns=[[actors.act("echo", text="a"), actors.act("echo", text="b")]],
            around_call=broken,
            tool_concurrency=width,
        )
    snapshot = gx.snapshot_of(raised.value)
    assert snapshot is not None
    assert snapshot.spent["tool_calls"] == 2


@actors.HOW
def test_span_of_a_call_encloses_its_nested_runs(run: actors.Running) -> None:
    seen: list[str] = []

    @gx.tool
    def see(text: str) -> str:
        """Note the span."""
        seen.append(span.get())
        return text

    inner = actors.caller_of(actors.Caller(answers_after=1), see)
    delegate = actors.delegate_to(lambda: inner, is_async=False)
    run(actors.caller_of(actors.Caller(answers_after=1), delegate, around_call=Spans()))
    assert seen == ["(2, 0)"]


def test_calls_of_one_id_are_equal() -> None:
    def call(sequence: int, **scope: Any) -> gx.CallContext[Any]:
        return gx.CallContext(DetachedScope("a-run", **scope), "look", None, None, sequence, 0)

    assert call(1) == call(1, context="another") != call(2)
    assert len({call(1), call(1), call(2)}) == 2
    assert call(1) != "a-run/1.0"
    assert repr(call(1)) == "<call a-run/1.0 of look>"
    assert call(1).seconds_left is None
    assert call(1).provider_id is None


@actors.HOW
def test_span_that_suppresses_an_exception_is_named(run: actors.Running) -> None:
    @gx.tool(on_error="raise")
    def fail(text: str) -> str:
        """Fail."""
        raise KeyError(text)

    def suppress_errors(call: gx.CallContext[Any]) -> suppress:
        return suppress(KeyError)

    suppressed = r"around_call suppressed the KeyError of a CallTool at dispatch_tools, .*; let its context manager"
    with pytest.raises(gx.InputError, match=suppressed) as caught:
        ids_of(run, fail, around_call=suppress_errors)
    assert isinstance(caught.value.__cause__, KeyError)
