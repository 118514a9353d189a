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

from graphexec import (
    END,
    AgentExecutor,
    Answered,
    Asked,
    Asks,
    CallContext,
    Effect,
    Event,
    Exhausted,
    Graph,
    InputError,
    Reported,
    Snapshot,
    ask,
    ask_all,
    charged,
    edges,
    graph,
    node,
    on,
    opaque,
    snapshot_of,
    tool,
)
from graphexec.kernel import CallId, PendingEffect, advance, begin, replay
from graphexec.kernel.effects import DetachedScope
from graphexec.models import ScriptedModel
from graphexec.runtime import RunContext, RunOptions, arun, current_call, make_run_context, report, run, stream
from graphexec.testing import VirtualClock, on_loop_time
from tests.executor.actors import (
    HOW,
    AnyTool,
    Caller,
    Running,
    act,
    answer,
    call,
    caller_of,
    delegate_to,
    echo,
    run_async,
    run_sync,
    scripted,
)
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
    limit: Exhausted


@dataclass(frozen=True)
class Look(Effect[str]):
    """Its reply is the id of the call."""


@node
def pure(start: Start, call: CallContext[Any]) -> Begun:
    return Begun((str(call.id),))


@charged(when_spent=Stopped)
@node
def asking(given: Begun, *, call: CallContext[object]) -> Asks[Look, Replied]:
    first = yield from ask(Look())
    both = yield from ask_all([Look(), Look()])
    return Replied((*given.ids, str(call.id), first, *both))


@charged(when_spent=Stopped)
@opaque
def act_freely(given: Replied, here: CallContext) -> Finished:  # type: ignore[type-arg]  # pyright: ignore
    return Finished((*given.ids, str(here.id), str(current_call())))


MACHINE: Graph[Start, Finished | Stopped] = graph(
    edges(pure, on(Begun, asking))
    | edges(asking, on(Replied, act_freely) | on(Stopped, END))
    | edges(act_freely, on(Finished, END) | on(Stopped, END)),
    start=pure,
)
IDS = ("r/1.0", "r/1.0", "r/1.0", "r/2.0", "r/2.1", "r/3.0", "<call r/3.0 of act_freely>")


def look(effect: Look, call: CallContext[Any]) -> str:
    assert call.effect is effect
    assert current_call() is call
    return str(call.id)


async def alook(effect: Look, call: CallContext[Any]) -> str:
    assert call.effect is effect
    assert current_call() is call
    return str(call.id)


def run_machine(world: RunContext, value: Start | Snapshot, **options: Any) -> Any:
    return run(MACHINE, value, world, options=RunOptions(**options))


def arun_machine(world: RunContext, value: Start | Snapshot, **options: Any) -> Any:
    return asyncio.run(arun(MACHINE, value, world, options=RunOptions(**options)))


def stream_machine(world: RunContext, value: Start | Snapshot, **options: Any) -> Any:
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
    def annotated(effect: Look, call: Annotated[CallContext[Any], "the call"]) -> str:
        return str(call.id)

    def optional(effect: Look, call: CallContext[Any] | None = None) -> str:
        return "none" if call is None else str(call.id)

    for handler in (annotated, optional):
        assert run_machine(make_run_context({Look: handler}), Start(), run_id="r").outcome.ids == IDS


def test_run_id_is_made_up_and_kept() -> None:
    world = make_run_context({Look: look})
    first, second = (run_machine(world, Start()) for _ in range(2))
    assert first.snapshot.run_id != second.snapshot.run_id
    resumed = run_machine(world, Snapshot.from_json(first.snapshot.to_json(), MACHINE))
    assert resumed.snapshot.run_id == first.snapshot.run_id
    assert CallId("r", 2, 1) == ("r", 2, 1)


@MACHINES
@cases("failing", ["r/1.0", "r/2.0", "r/2.1", "r/3.0"])
def test_id_survives_a_resume_from_json(run_it: Any, failing: str) -> None:
    attempts: list[str] = []

    def flaky(effect: Look, call: CallContext[Any]) -> str:
        attempts.append(str(call.id))
        if attempts.count(failing) == 1 and attempts[-1] == failing:
            raise ValueError(failing)
        return str(call.id)

    world = make_run_context({Look: flaky})
    if failing == "r/3.0":
        snapshot = run_it(world, Start(), run_id="r").snapshot
        snapshot = Snapshot(snapshot.node, snapshot.value, spent=snapshot.spent, entered=True, sequence=2, run_id="r")
    else:
        with pytest.raises(ValueError, match=failing) as raised:
            run_it(world, Start(), run_id="r")
        found = snapshot_of(raised.value)
        assert found is not None
        snapshot = found
    done = run_it(world, Snapshot.from_json(snapshot.restarted().to_json(), MACHINE))
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
    replayed = [str(event.call) for event in replay(done.journal) if isinstance(event, Answered)]
    assert sorted(replayed) == [
        "<call r/1.0 of asking>",
        "<call r/2.0 of asking>",
        "<call r/2.1 of asking>",
        "<call r/3.0 of act_freely>",
    ]


# ---- tools


def ids_of(how: Running, *tools: AnyTool, turns: Any = None, **options: Any) -> Any:
    turns = turns or [act(one.name, text="a") for one in tools]
    return how(AgentExecutor(agent=scripted(*turns, answer()), tools=tools, **options))


@tool
def identify(text: str, call: CallContext[Any]) -> str:
    """Return the id of the call."""
    assert current_call() is call
    return f"{call.id.sequence}.{call.id.member}"


@tool
async def aidentify(text: str, call: CallContext[object]) -> str:
    """Return the id of the call."""
    assert current_call() is call
    return f"{call.id.sequence}.{call.id.member}"


@HOW
@pytest.mark.parametrize("options", [{}, {"tool_concurrency": 1}, {"max_execution_time": LONG}])
@pytest.mark.parametrize("one", [identify, aidentify], ids=["sync", "async"])
def test_tools_get_their_call(run: Running, options: dict[str, Any], one: AnyTool) -> None:
    both = [act(one.name, text="a"), act(one.name, text="b")]
    result = ids_of(run, one, turns=[act(one.name, text="a"), both], **options)
    assert [step.observation for step in result.steps] == ["2.0", "4.0", "4.1"]


@HOW
@pytest.mark.parametrize("timeout", [None, LONG])
def test_id_survives_the_retries_of_a_tool(run: Running, timeout: float | None) -> None:
    seen: list[CallId] = []

    @tool(retries=2, timeout=timeout)
    def flaky(text: str, call: CallContext[Any]) -> str:
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


@HOW
def test_native_calls_keep_the_providers_id(run: Running) -> None:
    seen: list[str | None] = []

    @tool
    def look_up(text: str, call: CallContext[Any]) -> str:
        """Look it up."""
        seen.append(call.provider_id)
        return text

    events: list[Event[Any]] = []
    calls = [call("look_up", "call_1", text="a"), call("look_up", "call_2", text="b")]
    model = ScriptedModel([calls, call("look_up", "call_3", text="c"), "done"])
    run(caller_of(model, look_up, observers=[events.append], tool_concurrency=1))
    assert seen == ["call_1", "call_2", "call_3"]
    assert [
        event.call.provider_id
        for event in events
        if isinstance(event, Answered) and event.call is not None and event.node == "dispatch_tools"
    ] == ["call_1", "call_2", "call_3"]


def test_text_agent_calls_have_no_provider_id() -> None:
    seen: list[str | None] = []

    @tool
    def look_up(text: str, call: CallContext[Any]) -> str:
        """Look it up."""
        seen.append(call.provider_id)
        return text

    ids_of(run_sync, look_up)
    assert seen == [None]


def test_call_has_the_seconds_left() -> None:
    clock = VirtualClock()
    left: list[float | None] = []

    @tool
    async def measure(text: str, call: CallContext[Any]) -> str:
        """Measure the time."""
        left.append(call.seconds_left)
        await asyncio.sleep(4)
        left.append(call.seconds_left)
        return text

    timed = AgentExecutor(agent=scripted(act("measure", text="a"), answer()), tools=[measure], max_execution_time=10)
    clock.run(on_loop_time(timed, clock).arun("q"))
    ids_of(run_async, tool(name="untimed", description="Measure.")(lambda_of(left)))
    assert left == [10, 6, None]


def lambda_of(left: list[float | None]) -> Callable[..., str]:
    def untimed(text: str, call: CallContext[Any]) -> str:
        left.append(call.seconds_left)
        return text

    return untimed


# ---- events


@tool
def announce(text: str, call: CallContext[Any]) -> str:
    """Report it."""
    report(f"{text} {call.id.sequence}.{call.id.member}")
    return text


@HOW
@pytest.mark.parametrize("options", [{}, {"tool_concurrency": 1}, {"max_execution_time": LONG}])
def test_events_carry_their_call(run: Running, options: dict[str, Any]) -> None:
    events: list[Any] = []
    both = [act("announce", text="a"), act("announce", text="b")]
    result = ids_of(run, announce, turns=[both], observers=[events.append], **options)
    assert result.reason == "finished"
    of_calls: list[Any] = [event for event in events if isinstance(event, (Asked, Answered, Reported))]
    assert sorted({event.call.id[1:] for event in of_calls}) == [(1, 0), (2, 0), (2, 1), (3, 0)]
    assert {event.call.run_id for event in events if hasattr(event, "call")} == {of_calls[0].call.run_id}
    for event in of_calls:
        assert event.call.effect is event.effect
        assert event.call.node == event.node
    reported: list[Any] = [event for event in events if isinstance(event, Reported)]
    assert sorted(event.news for event in reported) == ["a 2.0", "b 2.1"]
    assert all(event.news.endswith(f"{event.call.id.sequence}.{event.call.id.member}") for event in reported)


def test_reports_of_a_stream_carry_their_call() -> None:
    both = [act("announce", text="a"), act("announce", text="b")]
    executor = AgentExecutor(agent=scripted(both, answer()), tools=[announce])
    for tokens in (False, True):
        reported = [event for event in executor.stream("q", tokens=tokens) if isinstance(event, Reported)]
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
    def __call__(self, call: CallContext[Any]) -> Generator[None, None, None]:
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


@HOW
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"tool_concurrency": 1}, {"max_execution_time": LONG}, {"observers": [ignore]}],
    ids=["plain", "in turn", "deadline", "observed"],
)
def test_span_is_around_each_call_once(run: Running, is_async: bool, options: dict[str, Any]) -> None:
    @tool
    def see(text: str) -> str:
        """Return the span."""
        return span.get()

    @tool(name="see")
    async def asee(text: str) -> str:
        """Return the span."""
        return span.get()

    spans = Spans()
    both = [act("see", text="a"), act("see", text="b")]
    result = ids_of(run, asee if is_async else see, turns=[both, act("see", text="c")], around_call=spans, **options)
    assert [step.observation for step in result.steps] == ["(2, 0)", "(2, 1)", "(4, 0)"]
    assert sorted(spans.ended) == [(one, "ok") for one in [(1, 0), (2, 0), (2, 1), (3, 0), (4, 0), (5, 0)]]
    assert span.get() == "none"


@cases("how", ["sync", "async"])
@cases("tokens", [False, True])
@cases("seconds", [None, LONG])
def test_span_is_around_the_calls_of_a_stream(how: str, tokens: bool, seconds: float | None) -> None:
    seen: list[str] = []

    @tool
    def see(text: str) -> str:
        """Note the span."""
        seen.append(span.get())
        return text

    spans = Spans()
    turns = [act("see", text="a"), [act("see", text="b"), act("see", text="c")], answer()]
    executor = AgentExecutor(agent=scripted(*turns), tools=[see], around_call=spans, max_execution_time=seconds)

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

    @tool
    def see(text: str) -> str:
        """Note the thread."""
        together.wait(LONG)
        seen[text] = threading.get_ident()
        return text

    spans = Spans()
    ids_of(run_sync, see, turns=[[act("see", text="a"), act("see", text="b")]], around_call=spans)
    assert spans.threads[2, 0] == seen["a"] != threading.get_ident()
    assert spans.threads[2, 1] == seen["b"] != seen["a"]


@HOW
def test_span_receives_the_exception_of_a_call(run: Running) -> None:
    @tool(on_error="raise")
    def fail(text: str) -> str:
        """Fail."""
        raise KeyError(text)

    spans = Spans()
    with pytest.raises(KeyError):
        ids_of(run, fail, around_call=spans)
    assert spans.ended[-1] == ((2, 0), "KeyError")


@HOW
@pytest.mark.parametrize("width", [1, 8])
def test_exception_of_a_span_ends_the_run(run: Running, width: int) -> None:
    @contextmanager
    def broken(call: CallContext[Any]) -> Generator[None, None, None]:
        if call.id.member:
            raise LookupError("no exporter")
        yield

    with pytest.raises(LookupError, match="no exporter") as raised:
        ids_of(
            run,
            echo,
            turns=[[act("echo", text="a"), act("echo", text="b")]],
            around_call=broken,
            tool_concurrency=width,
        )
    snapshot = snapshot_of(raised.value)
    assert snapshot is not None
    assert snapshot.spent["tool_calls"] == 2


@HOW
def test_span_of_a_call_encloses_its_nested_runs(run: Running) -> None:
    seen: list[str] = []

    @tool
    def see(text: str) -> str:
        """Note the span."""
        seen.append(span.get())
        return text

    inner = caller_of(Caller(answers_after=1), see)
    delegate = delegate_to(lambda: inner, is_async=False)
    run(caller_of(Caller(answers_after=1), delegate, around_call=Spans()))
    assert seen == ["(2, 0)"]


def test_calls_of_one_id_are_equal() -> None:
    def call(sequence: int, **scope: Any) -> CallContext[Any]:
        return CallContext(DetachedScope("a-run", **scope), "look", None, None, sequence, 0)

    assert call(1) == call(1, context="another") != call(2)
    assert len({call(1), call(1), call(2)}) == 2
    assert call(1) != "a-run/1.0"
    assert repr(call(1)) == "<call a-run/1.0 of look>"
    assert call(1).seconds_left is None
    assert call(1).provider_id is None


@HOW
def test_span_that_suppresses_an_exception_is_named(run: Running) -> None:
    @tool(on_error="raise")
    def fail(text: str) -> str:
        """Fail."""
        raise KeyError(text)

    def suppress_errors(call: CallContext[Any]) -> suppress:
        return suppress(KeyError)

    suppressed = r"around_call suppressed the KeyError of a CallTool at dispatch_tools, .*; let its context manager"
    with pytest.raises(InputError, match=suppressed) as caught:
        ids_of(run, fail, around_call=suppress_errors)
    assert isinstance(caught.value.__cause__, KeyError)
