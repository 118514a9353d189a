"""Small machines: a clock, a diamond, a self-loop, and one for each way to ask; and what tests do with them."""

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, dataclass_transform, final

import pytest

import graphexec as gx
from graphexec import END, Asks, Effect, Exhausted, Graph, Machine, ask, ask_all, edges, graph, on
from graphexec.effects import AskHuman, CallModel, CallTool, ToolResult, agent_limits
from graphexec.kernel import ITERATIONS, Limits, Meter, PendingEffect, node
from graphexec.messages import CompletionRequest, ModelReply, Usage
from graphexec.runtime.handlers import RunContext
from tests.drivers import ALL_DRIVERS, Driver, DriverResult, Script, make_run_context, run_script

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(kind: type[T]) -> type[T]:
    """Make a class one of a machine's values: a final, frozen dataclass."""
    return final(dataclass(frozen=True)(kind))


# ---- inputs of the machines, and their outcome for a limit


@value
class Tick:
    count: int = 0


@value
class Left:
    steps: int


@value
class Topic:
    name: str
    questions: int = 3


@value
class Topics:
    names: tuple[str, ...]


@value
class Errand:
    stops: tuple[str, ...] = ()


@value
class Underway:
    stops: tuple[str, ...]


@value
class Prompt:
    calls: int = 0


@value
class Trip:
    miles: float


@value
class Stopped:
    """The outcome for a limit: the value of the stopped node, and the limit."""

    at: Tick | Left | Topic | Topics | Errand | Underway | Prompt | Trip
    limit: Exhausted


@value
class Halted:
    """The outcome for a limit at a value of any class."""

    at: object
    limit: Exhausted


def machine_of(first: Any, *others: Any, resets: Mapping[type, Sequence[gx.Meter]] | None = None) -> Machine[Any, Any]:
    """Return the graph of these nodes: an outcome leads to the node that takes it, and any other ends the run.

    `resets` has the budgets that the edges of an outcome reset.
    """
    table: Any = edges
    nodes = {kind: one for one in (first, *others) for kind in one.takes}
    assert len(nodes) == sum(len(one.takes) for one in (first, *others)), "no two nodes take one class"
    rows: list[Any] = []
    for one in (first, *others):
        routes = [on(kind, nodes.get(kind, END), resets=(resets or {}).get(kind, ())) for kind in one.outcomes]
        rows.append(table(one, functools.reduce(lambda some, more: some | more, routes)))
    machine: Machine[Any, Any] = graph(functools.reduce(lambda some, more: some | more, rows), start=first)
    return machine


def pure(name: str, takes: Any, returns: Any, function: Callable[[Any], Any]) -> Any:
    """Return a pure node of these types that calls a function."""

    def call(value: Any) -> Any:
        return function(value)

    call.__name__ = call.__qualname__ = name
    call.__annotations__ = {"value": takes, "return": returns}
    return node(call)


def stub(name: str, takes: Any, returns: Any, *, asks: Any = None) -> Any:
    """Return a node of these types that nothing calls: proofs and tables look at the types alone."""

    def fail(value: Any) -> Any:
        raise AssertionError(f"{name} is called with {value}")

    def asking(value: Any) -> Any:
        yield fail(value)

    if asks is None:
        return pure(name, takes, returns, fail)
    function: Any = asking
    function.__name__ = function.__qualname__ = name
    function.__annotations__ = {"value": takes, "return": Asks[asks, returns]}
    return node(function)


# ---- a clock: an endless loop of two nodes, stopped by its meter


@value
class Tock:
    count: int


@node(when_spent=Stopped, meters=[ITERATIONS])
def tick(at: Tick) -> Tock:
    return Tock(at.count + 1)


@node
def tock(at: Tock) -> Tick:
    return Tick(at.count)


CLOCK: Machine[Tick, Stopped] = machine_of(tick, tock)


# ---- a diamond: two paths from one node to another, no loop, no effects


@value
class Number:
    value: int


@value
class Even:
    value: int


@value
class Odd:
    value: int


@value
class Sum:
    value: int
    way: str


@value
class Total:
    text: str


@node
def split(number: Number) -> Even | Odd:
    return Odd(number.value) if number.value % 2 else Even(number.value)


@node
def halve(even: Even) -> Sum:
    return Sum(even.value // 2, "halved")


@node
def triple(odd: Odd) -> Sum:
    return Sum(odd.value * 3 + 1, "tripled")


@node
def join(total: Sum) -> Total:
    return Total(f"{total.way} to {total.value}")


DIAMOND: Machine[Number, Total] = machine_of(split, halve, triple, join)


# ---- a self-loop: one metered node that leads to itself


@value
class Landed: ...


@node(when_spent=Stopped, meters=[ITERATIONS])
def countdown(left: Left) -> Left | Landed:
    return Left(left.steps - 1) if left.steps > 1 else Landed()


SELF_LOOP: Machine[Left, Landed | Stopped] = machine_of(countdown)


# ---- an interview: one node that asks for several effects, one after another


@dataclass(frozen=True)
class Question(Effect[str]):
    text: str


@value
class Interview:
    answers: tuple[str, ...]


@node(when_spent=Stopped)
def interview(topic: Topic) -> Asks[Question, Interview]:
    answers: list[str] = []
    for number in range(topic.questions):
        answers.append((yield from ask(Question(f"{topic.name} {number} {len(answers)}"))))
    return Interview(tuple(answers))


INTERVIEW: Machine[Topic, Interview | Stopped] = machine_of(interview)


def reporter() -> RunContext:
    """Return a context that answers each question with its own text."""
    return make_run_context({Question: lambda question: f"re: {question.text}"})


# ---- a survey: one node that asks for a batch of tool calls, which have their own reply to being cut


@value
class Survey:
    results: tuple[ToolResult, ...]


@node(when_spent=Stopped)
def survey(topics: Topics) -> Asks[CallTool, Survey]:
    results = yield from ask_all([CallTool(name, "now") for name in topics.names])
    return Survey(results)


SURVEY: Machine[Topics, Survey | Stopped] = machine_of(survey)


def surveyors(limits: Limits | None = None) -> RunContext:
    """Return a context that answers each tool call with its name."""
    return make_run_context({CallTool: lambda call: ToolResult(call.name)}, limits=limits)


# ---- prompts: a loop of model calls without iterations; only the cost of the calls bounds it


@node(when_spent=Stopped)
def prompt(given: Prompt) -> Asks[CallModel, Prompt]:
    yield from ask(CallModel(CompletionRequest(f"call {given.calls}")))
    return Prompt(given.calls + 1)


PROMPTS: Machine[Prompt, Stopped] = machine_of(prompt)


@node(when_spent=Stopped)
def brainstorm(given: Prompt) -> Asks[CallModel, Prompt]:
    replies = yield from ask_all([CallModel(CompletionRequest("left")), CallModel(CompletionRequest("right"))])
    return Prompt(given.calls + len(replies))


# Each round of its loop asks for two calls at once.
BRAINSTORM: Machine[Prompt, Stopped] = machine_of(brainstorm)


def model_of(usage: Usage, limits: Limits) -> RunContext:
    """Return a context that answers model calls; each call takes `usage` tokens."""
    return make_run_context({CallModel: lambda call: ModelReply("so", usage=usage)}, limits=limits)


# ---- a road: each round of the loop pays a toll, and its reply reports the miles

TOLLS = Meter("tolls")
MILES = Meter("miles", whole=False, unit="a number of miles", remedy="report the miles")


@dataclass(frozen=True)
class Travel(Effect[float | None]):
    charges: ClassVar[Mapping[Meter, int]] = {TOLLS: 1}
    measures: ClassVar[tuple[Meter, ...]] = (MILES,)

    def measure(self, reply: float | None) -> tuple[float | None]:
        return (reply,)


@value
class Arrived: ...


@node(when_spent=Stopped, asks=1)
def travel(trip: Trip) -> Asks[Travel, Trip | Arrived]:
    miles = yield from ask(Travel())
    left = trip.miles - (miles or 0.0)
    return Trip(left) if left > 0 else Arrived()


ROAD: Machine[Trip, Arrived | Stopped] = machine_of(travel)


# ---- errands: opaque nodes, async def and def


@value
class Home:
    stops: tuple[str, ...]


@node(when_spent=Stopped)
async def leave(errand: Errand) -> Underway:
    await asyncio.sleep(0)
    return Underway((*errand.stops, "left"))


@node(when_spent=Stopped, opaque=True)
def come_back(underway: Underway) -> Home:
    return Home((*underway.stops, "back"))


ERRAND: Machine[Errand, Home | Stopped] = machine_of(leave, come_back)


# ---- a node that asks until the answer is "yes"


@value
class Asking:
    question: str


@value
class Agreed: ...


@value
class GaveUp:
    at: Asking
    limit: Exhausted


@node(when_spent=GaveUp)
def insist(asking: Asking) -> Asks[AskHuman, Agreed]:
    while (yield from ask(AskHuman(asking.question))) != "yes":
        pass
    return Agreed()


INSISTENT: Machine[Asking, Agreed | GaveUp] = machine_of(insist)


def without_handlers(limits: Limits | None = None) -> RunContext:
    """Return a context that answers no effects."""
    return make_run_context({}, limits=limits)


def limited(**limits: int) -> RunContext:
    """Return a context with these limits that answers no effects."""
    given: dict[str, Any] = {"iterations": None, **limits}
    return without_handlers(agent_limits(**given))


# ---- what tests do with a machine


def pending(machine: Graph[Any, Any], at: object, limits: Limits | None = None) -> PendingEffect:
    """Step from a value or a snapshot to the next request."""
    state = gx.advance(machine, at if isinstance(at, gx.Snapshot) else gx.begin(machine, at), limits or Limits())
    assert isinstance(state, PendingEffect)
    return state


def finish(machine: Graph[Any, Any], at: object, limits: Limits | None = None) -> gx.Done[Any]:
    """Step from a value or a snapshot to the end of the run, without another request."""
    state = gx.advance(machine, at if isinstance(at, gx.Snapshot) else gx.begin(machine, at), limits or Limits())
    assert isinstance(state, gx.Done)
    return state


def reload(snapshot: gx.Snapshot, machine: Graph[Any, Any]) -> gx.Snapshot:
    """Return the snapshot as it is read from JSON."""
    return gx.Snapshot.from_json(snapshot.to_json(), machine)


def run_machine(
    machine: Graph[Any, Any], value: object, context: RunContext | None = None, drivers: Sequence[Driver] = ALL_DRIVERS
) -> DriverResult[Any]:
    """Run with every driver; the context, without handlers by default, has no state."""
    return run_script(lambda: Script(machine, value, context or without_handlers()), drivers=drivers)


def error_message(kind: type[Exception], call: Callable[..., object], *arguments: object, **options: object) -> str:
    """Return the message of the exception that a call raises."""
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    return str(caught.value)


def check_refusal(kind: type[Exception], facts: Sequence[str], call: Callable[..., object], *arguments: object) -> None:
    """Require that a call raises an exception whose message has these facts."""
    message = error_message(kind, call, *arguments)
    for fact in facts:
        assert fact in message, message


def faults_of(call: Callable[..., object], *arguments: object, **options: object) -> list[str]:
    """Return the code, node, outcome and text of each fault that a call reports."""
    with pytest.raises(gx.GraphError) as caught:
        call(*arguments, **options)
    assert str(caught.value) == "\n".join(map(str, caught.value.faults))
    return [f"{fault.code} {fault.node} {fault.outcome}: {fault.text}" for fault in caught.value.faults]
