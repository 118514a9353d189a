"""A run's context reaches its tools, handlers, nodes and events by annotation, and is stored nowhere."""

import asyncio
import dataclasses
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypedDict, runtime_checkable

import pytest

import graphexec as gx
from graphexec import draw
from graphexec.kernel.stepping import replay
from graphexec.runtime.handlers import MachineSettings, RunOptions
from tests.executor import actors
from tests.executor.actors import HOW, WAYS, AnyTool, Running, act, answer, make_executor, run_by, scripted
from tests.kernel.machines import Halted, value
from tests.parameters import cases
from tests.traces import unpack_page

# Seconds that a test waits for something that must happen immediately.
LONG = 20.0
SECRET = "hunter2"


@dataclass(frozen=True)
class User:
    name: str
    password: str = SECRET


ADA = User("ada")


@gx.tool
def greet(text: str, call: gx.CallContext[User]) -> str:
    """Greet the user."""
    return f"{text} {call.context.name}"


@gx.tool
async def agreet(text: str, call: gx.CallContext[User]) -> str:
    """Greet the user."""
    return f"{text} {call.context.name}"


@gx.tool(on_error="raise")
def fail(text: str, call: gx.CallContext[User]) -> str:
    """Fail."""
    raise OSError(text)


def make_greeter(one: AnyTool, **options: Any) -> gx.AgentExecutor:
    both = [act(one.name, text="hello"), act(one.name, text="bye")]
    return make_executor(both, answer(), tools=[one], **options)


# ---- recipients


@HOW
@pytest.mark.parametrize("one", [greet, agreet], ids=["sync", "async"])
@pytest.mark.parametrize("options", [{}, {"tool_concurrency": 1}, {"max_execution_time": LONG}])
def test_tools_get_the_context(run: Running, one: AnyTool, options: dict[str, Any]) -> None:
    result = run(make_greeter(one, **options), context=ADA)
    assert [step.observation for step in result.steps] == ["hello ada", "bye ada"]


@cases("way", *WAYS)
def test_every_way_to_run_takes_it(way: str) -> None:
    returned = run_by(way, make_greeter(greet, return_intermediate_steps=True), context=ADA)
    # The streams of the answer have no steps.
    assert ("bye ada" in repr(returned)) == (not way.endswith("answer"))


@value
class Start:
    pass


@value
class Seen:
    names: tuple[str, ...]


@dataclass(frozen=True)
class WhoAmI(gx.Effect[str]):
    pass


@gx.node
def see(start: Start, call: gx.CallContext[User]) -> Seen:
    return Seen((call.context.name,))


@gx.node(when_spent=Halted)
def see_and_ask(seen: Seen, call: gx.CallContext[User]) -> gx.Asks[WhoAmI, Seen]:
    name = yield from gx.ask(WhoAmI())
    return Seen((*seen.names, call.context.name, name))


@gx.node(when_spent=Halted, opaque=True)
def see_freely(seen: Seen, call: gx.CallContext[User]) -> Seen:
    return Seen((*seen.names, call.context.name))


@gx.node(when_spent=Halted)
async def asee_freely(seen: Seen, call: gx.CallContext[User]) -> Seen:
    return Seen((*seen.names, call.context.name))


# Any: the last node may be of either kind.
def machine(last: Any) -> gx.Machine[Start, Any]:
    return gx.graph(
        gx.edges(see, gx.on(Seen, see_and_ask))
        | gx.edges(see_and_ask, gx.on(Seen, last) | gx.on(Halted, gx.END))
        | gx.edges(last, gx.on(Seen, gx.END) | gx.on(Halted, gx.END)),
        start=see,
    )


def who_am_i(effect: WhoAmI, call: gx.CallContext[User]) -> str:
    return call.context.name


async def awho_am_i(effect: WhoAmI, call: gx.CallContext[User]) -> str:
    return call.context.name


@cases("last", see_freely, asee_freely)
@cases("handler", who_am_i, awho_am_i)
def test_nodes_and_handlers_get_the_context(last: Any, handler: Callable[..., Any]) -> None:
    one = machine(last)
    options: MachineSettings = {"handlers": {WhoAmI: handler}, "context": ADA}
    done = one.run(Start(), **options)
    *_, last_event = one.stream(Start(), **options)
    assert isinstance(last_event, gx.Done)
    for ended in (done, asyncio.run(one.arun(Start(), **options)), last_event):
        assert ended.outcome == Seen(("ada",) * 4)
    assert done.journal is not None
    *_, replayed = replay(done.journal)
    assert replayed == done


@HOW
def test_events_have_the_context(run: Running) -> None:
    seen: list[Any] = []
    assert run(make_greeter(greet, observers=[seen.append]), context=ADA).reason == "finished"
    assert type(seen[-1]) is gx.Done
    assert {event.call.context for event in seen} == {ADA}
    assert len({event.call.run_id for event in seen}) == 1
    failing: list[Any] = []
    with pytest.raises(OSError, match=r"hello|bye"):
        run(make_greeter(fail, observers=[failing.append]), context=ADA)
    assert [place for place, event in enumerate(failing) if isinstance(event, gx.Failed)] == [len(failing) - 1]
    assert (failing[-1].call.context, failing[-1].call.node) == (ADA, "dispatch_tools")


@actors.MIXED
def test_inner_run_gets_it_only_by_the_tool(run: Running, is_async: bool) -> None:
    inner, seen = actors.look_by(lambda call: call.context)
    delegate = actors.delegate_to(lambda: inner, is_async=is_async)
    run(actors.caller_of(actors.Caller(answers_after=1), delegate), context=ADA)
    assert seen == [None]


# ---- invalid contexts


@HOW
@pytest.mark.parametrize("given", [None, "ada"])
def test_wrong_context_is_refused_before_the_run(run: Running, given: Any) -> None:
    asked: list[Any] = []

    def agent(steps: Any, inputs: Any) -> Any:
        asked.append(steps)
        return answer()

    executor = gx.AgentExecutor(agent=agent, tools=[greet])
    fact = "the run has no context" if given is None else "the run's context is a str"
    expected = rf"{fact}, but a node, handler or tool takes CallContext\[User\]; pass run\(\.\.\., context="
    with pytest.raises(gx.InputError, match=expected):
        run(executor, context=given)
    assert asked == []


@HOW
@pytest.mark.parametrize("options", [{"run_id": 3}, {"run_id": ""}, {"host": "ada"}, {"host": 3}])
def test_wrong_run_options_are_refused(run: Running, options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(gx.InputError, match=rf"^{name} is .*; give a "):
        run(make_executor(answer(), tools=[]), **options)


def test_wrong_context_of_nodes_and_handlers_is_refused() -> None:
    @gx.node
    def indifferent(start: Start) -> Seen:
        return Seen(())

    plain = gx.graph(gx.edges(indifferent, gx.on(Seen, gx.END)), start=indifferent)
    handling: Any = {"handlers": {WhoAmI: who_am_i}, "context": 3}
    for run in (lambda: plain.run(Start(), **handling), lambda: machine(see_freely).run(Start(), handlers={})):
        with pytest.raises(gx.InputError, match=r"CallContext\[User\]"):
            run()
    assert plain.run(Start(), context=3).outcome == Seen(())


class Named(Protocol):
    name: str


@runtime_checkable
class Closing(Protocol):
    def close(self) -> None: ...


class Settings(TypedDict):
    name: str


def seeing(of: Any) -> AnyTool:
    """Return a tool that takes a context of a class."""

    def see(text: str, call: gx.CallContext[Any]) -> str:
        return str(call.context)

    annotation: Any = gx.CallContext
    see.__annotations__["call"] = annotation[of]
    return gx.tool(name="see", description="See.")(see)


@cases(("of", "context"), (Named, ADA), (Settings, {"name": "ada"}), (User | str, "ada"), (list[str], ["ada"]))
def test_classes_that_cannot_be_checked_are_accepted(of: Any, context: Any) -> None:
    assert make_greeter(seeing(of)).run("q", context=context).steps[0].observation == str(context)
    # A protocol that can be checked is.
    with pytest.raises(gx.InputError, match=r"CallContext\[Closing\]"):
        make_greeter(seeing(Closing)).run("q", context=context)


# ---- independence of runs


@cases("kind", "threads", "tasks")
def test_simultaneous_runs_have_their_own_context(kind: str) -> None:
    users = [User(f"user {number}") for number in range(8)]
    together = threading.Barrier(len(users))

    @gx.tool
    def meet(text: str, call: gx.CallContext[User]) -> str:
        """Wait for the others."""
        together.wait(LONG)
        return call.context.name

    executor = gx.AgentExecutor(agent=scripted(act("meet", text="a"), answer()), tools=[meet])

    async def gathered() -> list[Any]:
        return [*await asyncio.gather(*(executor.arun("q", context=user) for user in users))]

    if kind == "tasks":
        results = asyncio.run(gathered())
    else:
        with ThreadPoolExecutor(len(users)) as pool:
            results = [one.result() for one in [pool.submit(executor.run, "q", context=user) for user in users]]
    assert [result.steps[0].observation for result in results] == [user.name for user in users]


# ---- storage


@pytest.mark.medium
@HOW
def test_context_is_stored_nowhere(run: Running, tmp_path: Path) -> None:
    events: list[gx.Event[Any]] = []
    executor = make_greeter(greet, observers=[events.append])
    recorder = draw.Recorder(executor.verify())
    result = run(executor, context=ADA)
    for event in events:
        recorder(event)
    stored = [
        recorder.recording.to_json_lines(),
        unpack_page(result.draw(tmp_path / "run.html").read_text("utf-8")),
        result.draw(tmp_path / "run.svg").read_text("utf-8"),
        repr(result),
        repr(events),
        repr(result.journal),
        repr(RunOptions(context=ADA)),
        pickle.dumps(result).decode("latin-1"),
        pickle.dumps(events).decode("latin-1"),
        repr([dataclasses.asdict(event) for event in events]),
    ]
    assert all("hello ada" in text for text in stored[:2])
    assert not any(SECRET in text for text in stored)


@HOW
def test_context_is_in_no_snapshot_or_exception(run: Running) -> None:
    executor = make_greeter(fail)
    with pytest.raises(OSError, match=r"hello|bye") as raised:
        run(executor, context=ADA)
    snapshot = actors.snapshot_in(raised.value)
    for text in (snapshot.to_json(), repr(snapshot), "\n".join(raised.value.__notes__)):
        assert SECRET not in text
    # The caller who resumes the run passes it again.
    with pytest.raises(gx.InputError, match="the run has no context"):
        run(executor, gx.Snapshot.from_json(snapshot.to_json(), executor.graph))
