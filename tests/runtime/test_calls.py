"""Each call of a run has an identity that its tool, handler, node, events and span share."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

import graphexec as gx
from graphexec import kernel, models
from graphexec.kernel.effects import CallId, DetachedScope
from graphexec.kernel.stepping import replay
from graphexec.runtime import arun, current_call, report, run, stream
from tests.executor import actors
from tests.executor.actors import act, call, run_by, snapshot_after
from tests.kernel.machines import Halted, machine_of, reload, value
from tests.parameters import cases
from tests.runtime.actors import LONG, ignore, tool_named

# ---- a machine that asks for one effect, then for two, and then runs an opaque node


@value
class Start: ...


@value
class Begun:
    ids: tuple[str, ...]


@value
class Replied:
    ids: tuple[str, ...]


@value
class Finished:
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Look(gx.Effect[str]):
    """Its reply is the id of the call."""


@gx.node
def pure(start: Start, call: gx.CallContext[Any]) -> Begun:
    return Begun((str(call.id),))


@gx.node(when_spent=Halted)
def asking(given: Begun, *, call: gx.CallContext[object]) -> gx.Asks[Look, Replied]:
    first = yield from gx.ask(Look())
    both = yield from gx.ask_all([Look(), Look()])
    return Replied((*given.ids, str(call.id), first, *both))


@gx.node(when_spent=Halted, opaque=True)
def act_freely(given: Replied, here: gx.CallContext) -> Finished:  # type: ignore[type-arg]  # pyright: ignore
    return Finished((*given.ids, str(here.id), str(current_call())))


MACHINE: gx.Machine[Start, Finished | Halted] = machine_of(pure, asking, act_freely)
IDS = ("r/1.0", "r/1.0", "r/1.0", "r/2.0", "r/2.1", "r/3.0", "<call r/3.0 of act_freely>")


def look(effect: Look, call: gx.CallContext[Any]) -> str:
    assert call.effect is effect
    assert current_call() is call
    return str(call.id)


async def alook(effect: Look, call: gx.CallContext[Any]) -> str:
    return look(effect, call)


def annotated(effect: Look, call: Annotated[gx.CallContext[Any], "the call"]) -> str:
    return str(call.id)


def optional(effect: Look, call: gx.CallContext[Any] | None = None) -> str:
    return "none" if call is None else str(call.id)


RUNS: list[Callable[..., Any]] = [
    gx.Machine[Any, Any].run,
    run,
    lambda *args, **options: asyncio.run(arun(*args, **options)),
    lambda *args, **options: list(stream(*args, **options))[-1],
]


@cases("run_it", *RUNS)
@cases("handler", look, alook, annotated, optional)
@cases("at_once", 1, 64)
def test_handlers_and_nodes_get_their_call(run_it: Any, handler: Callable[..., Any], at_once: int) -> None:
    done = run_it(MACHINE, Start(), handlers={Look: handler}, at_once=at_once, run_id="r")
    assert done.outcome == Finished(IDS)
    assert done.snapshot.run_id == "r"


def test_run_id_is_made_up_and_kept() -> None:
    first, second = (run(MACHINE, Start(), handlers={Look: look}) for _ in range(2))
    assert first.snapshot.run_id != second.snapshot.run_id
    resumed = run(MACHINE, reload(first.snapshot, MACHINE), handlers={Look: look})
    assert resumed.snapshot.run_id == first.snapshot.run_id
    assert CallId("r", 2, 1) == ("r", 2, 1)


@cases("run_it", *RUNS)
@cases("failing", "r/1.0", "r/2.0", "r/2.1", "r/3.0")
def test_id_survives_a_resume_from_json(run_it: Any, failing: str) -> None:
    attempts: list[str] = []

    def flaky(effect: Look, call: gx.CallContext[Any]) -> str:
        attempts.append(str(call.id))
        if attempts.count(failing) == 1 and attempts[-1] == failing:
            raise ValueError(failing)
        return str(call.id)

    if failing == "r/3.0":
        end = run_it(MACHINE, Start(), handlers={Look: flaky}, run_id="r").snapshot
        snapshot = gx.Snapshot(end.node, end.value, spent=end.spent, entered=True, sequence=2, run_id="r")
    else:
        snapshot = snapshot_after(
            ValueError, lambda: run_it(MACHINE, Start(), handlers={Look: flaky}, run_id="r"), failing
        )
    done = run_it(MACHINE, reload(snapshot.restarted(), MACHINE), handlers={Look: flaky})
    assert done.outcome.ids == IDS


def test_stepping_and_replay_have_the_same_ids() -> None:
    limits = gx.Limits()
    state = kernel.advance(MACHINE, kernel.begin(MACHINE, Start()), limits)
    ids: list[str] = []
    while isinstance(state, kernel.PendingEffect):
        ids += [str(call.id) for call in state.calls]
        replies = [str(call.id) for call in state.calls]
        if len(replies) == 1 and not isinstance(state.effect, Look):
            break
        state = kernel.advance(MACHINE, state.reply(replies if len(replies) > 1 else replies[0]), limits)
    assert ids == ["/1.0", "/2.0", "/2.1", "/3.0"]
    done: Any = run(MACHINE, Start(), handlers={Look: look}, run_id="r")
    replayed = [str(event.call) for event in replay(done.journal) if isinstance(event, gx.Answered)]
    by_asking = [f"<call r/{number} of asking>" for number in ("1.0", "2.0", "2.1")]
    assert sorted(replayed) == [*by_asking, "<call r/3.0 of act_freely>"]


# ---- tools


def acts(name: str, *texts: str) -> list[gx.AgentAction]:
    return [act(name, text=text) for text in texts]


def ids_of(how: actors.Running, *tools: actors.AnyTool, turns: Any = None, **options: Any) -> Any:
    turns = turns or [act(one.name, text="a") for one in tools]
    return how(actors.make_executor(*turns, actors.answer(), tools=tools, **options))


@gx.tool
def identify(text: str, call: gx.CallContext[Any]) -> str:
    """Return the id of the call."""
    assert current_call() is call
    return f"{call.id.sequence}.{call.id.member}"


@gx.tool(name="identify")
async def aidentify(text: str, call: gx.CallContext[object]) -> str:
    """Return the id of the call."""
    return identify(text, call)


@actors.HOW
@cases("options", {}, {"tool_concurrency": 1}, {"max_execution_time": LONG})
@cases("one", identify, aidentify)
def test_tools_get_their_call(run: actors.Running, options: dict[str, Any], one: actors.AnyTool) -> None:
    result = ids_of(run, one, turns=[act("identify", text="a"), acts("identify", "a", "b")], **options)
    assert [step.observation for step in result.steps] == ["2.0", "4.0", "4.1"]


@actors.HOW
@cases("timeout", None, LONG)
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

    assert [step.observation for step in ids_of(run, flaky).steps] == ["a"]
    assert (len(seen), len(set(seen))) == (3, 1)


def noting(seen: list[Any], note: Callable[[gx.CallContext[Any]], Any]) -> actors.AnyTool:
    """Return a tool that notes something of its call."""

    @gx.tool
    def look_up(text: str, call: gx.CallContext[Any]) -> str:
        """Look it up."""
        seen.append(note(call))
        return text

    return look_up


@actors.HOW
def test_native_calls_keep_the_providers_id(run: actors.Running) -> None:
    seen, events = list[Any](), list[gx.Event[Any]]()
    look_up = noting(seen, lambda call: call.provider_id)
    calls = [call("look_up", "call_1", text="a"), call("look_up", "call_2", text="b")]
    model = models.ScriptedModel([calls, call("look_up", "call_3", text="c"), "done"])
    run(actors.caller_of(model, look_up, observers=[events.append], tool_concurrency=1))
    assert seen == ["call_1", "call_2", "call_3"]
    answered = [event.call for event in events if isinstance(event, gx.Answered) and event.node == "dispatch_tools"]
    assert [call and call.provider_id for call in answered] == seen
    # The calls of a text agent have none.
    ids_of(run, look_up)
    assert seen[3:] == [None]


# ---- events


@gx.tool
def announce(text: str, call: gx.CallContext[Any]) -> str:
    """Report it."""
    report(f"{text} {call.id.sequence}.{call.id.member}")
    return text


@actors.HOW
@cases("options", {}, {"tool_concurrency": 1}, {"max_execution_time": LONG})
def test_events_carry_their_call(run: actors.Running, options: dict[str, Any]) -> None:
    events: list[Any] = []
    result = ids_of(run, announce, turns=[acts("announce", "a", "b")], observers=[events.append], **options)
    assert result.reason == "finished"
    of_calls: list[Any] = [event for event in events if isinstance(event, (gx.Asked, gx.Answered, gx.Reported))]
    assert sorted({event.call.id[1:] for event in of_calls}) == [(1, 0), (2, 0), (2, 1), (3, 0)]
    assert {event.call.run_id for event in events if hasattr(event, "call")} == {of_calls[0].call.run_id}
    for event in of_calls:
        assert event.call.effect == event.effect
        assert event.call.node == event.node
    reported: list[Any] = [event for event in events if isinstance(event, gx.Reported)]
    assert sorted(event.news for event in reported) == ["a 2.0", "b 2.1"]
    assert all(event.news.endswith(f"{event.call.id.sequence}.{event.call.id.member}") for event in reported)


# ---- around each call

STREAMS = ("stream", "astream")
span: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")


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


def seeing(seen: list[str], *, is_async: bool = False) -> actors.AnyTool:
    """Return a tool that notes the span."""

    def see(text: str) -> str:
        seen.append(span.get())
        return seen[-1]

    async def asee(text: str) -> str:
        return see(text)

    return tool_named("see", asee if is_async else see)


@cases(
    ("way", "tokens"), ("run", {}), ("arun", {}), *((way, {"tokens": on}) for way in STREAMS for on in (False, True))
)
@cases("is_async", False, True)
@cases("options", {}, {"tool_concurrency": 1}, {"max_execution_time": LONG}, {"observers": [ignore]})
def test_span_is_around_each_call_once(way: str, tokens: Any, is_async: bool, options: dict[str, Any]) -> None:
    seen, spans = list[str](), Spans()
    turns = acts("see", "a", "b"), act("see", text="c"), actors.answer()
    one = seeing(seen, is_async=is_async)
    run_by(way, actors.make_executor(*turns, tools=[one], around_call=spans, **options), "q", **tokens)
    assert sorted(seen) == ["(2, 0)", "(2, 1)", "(4, 0)"]
    assert sorted(spans.ended) == [(one, "ok") for one in [(1, 0), (2, 0), (2, 1), (3, 0), (4, 0), (5, 0)]]
    assert span.get() == "none"


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
    ids_of(actors.run_sync, see, turns=[acts("see", "a", "b")], around_call=spans)
    assert spans.threads[2, 0] == seen["a"] != threading.get_ident()
    assert spans.threads[2, 1] == seen["b"] != seen["a"]


STRICT = gx.tool(on_error="raise")(actors.fail.function)


@actors.HOW
def test_span_receives_the_exception_of_a_call(run: actors.Running) -> None:
    spans = Spans()
    with pytest.raises(ValueError, match="no a"):
        ids_of(run, STRICT, around_call=spans)
    assert spans.ended[-1] == ((2, 0), "ValueError")


@actors.HOW
@cases("width", 1, 8)
def test_exception_of_a_span_ends_the_run(run: actors.Running, width: int) -> None:
    @contextmanager
    def broken(call: gx.CallContext[Any]) -> Generator[None, None, None]:
        if call.id.member:
            raise LookupError("no exporter")
        yield

    options: dict[str, Any] = {"around_call": broken, "tool_concurrency": width, "turns": [acts("echo", "a", "b")]}
    snapshot = snapshot_after(LookupError, lambda: ids_of(run, actors.echo, **options), "no exporter")
    assert snapshot.spent["tool_calls"] == 2


@actors.HOW
def test_span_of_a_call_encloses_its_nested_runs(run: actors.Running) -> None:
    seen: list[str] = []
    inner = actors.caller_of(actors.Caller(answers_after=1), seeing(seen))
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
    suppressed = r"around_call suppressed the ValueError of a CallTool at dispatch_tools, .*; let its context manager"
    around: Callable[[Any], suppress] = lambda _: suppress(ValueError)  # noqa: E731
    with pytest.raises(gx.InputError, match=suppressed) as caught:
        ids_of(run, STRICT, around_call=around)
    assert isinstance(caught.value.__cause__, ValueError)
