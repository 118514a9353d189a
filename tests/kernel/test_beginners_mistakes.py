"""Mistakes of beginners are refused where they are made, with a remedy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

import pytest

import graphexec as gx
from graphexec.errors import InputError, NodeError
from graphexec.executor import LimitReached, stopped_response
from graphexec.kernel import Limits, PendingEffect, Snapshot, advance, begin, reserved
from graphexec.runtime import arun, make_run_context, run
from tests.parameters import cases


@final
@dataclass(frozen=True)
class Asked:
    text: str


@final
@dataclass(frozen=True)
class Reply:
    text: str


class HasRun(Protocol):
    @property
    def run(self) -> str: ...


def stopped(given: Asked, limit: gx.Exhausted) -> Reply:
    return Reply(str(limit))


def of_a_run(given: HasRun, limit: gx.Exhausted) -> Reply:
    return Reply(given.run)


@final
@dataclass(frozen=True)
class Late:
    at: Asked
    limit: gx.Exhausted


def respond(asked: Asked) -> Reply:
    return Reply(asked.text)


@gx.charged(when_spent=stopped)
@gx.node
def inquire(asked: Asked) -> gx.Asks[gx.AskHuman, Reply]:
    return Reply((yield from gx.ask(gx.AskHuman(asked.text))))


# Any: the calls are wrong on purpose.
wrong: Any = None
untyped: Any = respond
as_edges: Any = gx.edges
as_on: Any = gx.on
as_graph: Any = gx.graph
as_charge: Any = gx.charged(when_spent=stopped)
as_node: Any = gx.node
as_metered: Any = gx.metered

PATIENCE = gx.Budget("patience", 4)


as_charged: Any = gx.charged
as_reserved: Any = reserved


async def waits(asked: Asked) -> gx.Asks[gx.AskHuman, Reply]:
    raise AssertionError("it is refused before it is called")


async def waits_and_yields(asked: Asked) -> Any:
    yield Reply(asked.text)


BARE = "needs a when_spent, the outcome for a limit that stops it; write"
COUNT = "give a number of effects, or (least, most)"

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "edges of a function": (
        lambda: as_edges(untyped, gx.on(Reply, gx.END)),
        "respond is not a node; decorate the function with @node",
    ),
    "an edge to a function": (lambda: as_on(Asked, untyped), "respond is not a node; decorate the function with @node"),
    "an edge to nothing": (lambda: as_on(Asked, None), "None is not a node; decorate the function with @node"),
    "a start that is a function": (
        lambda: as_graph(gx.edges(gx.node(respond), gx.on(Reply, gx.END)), start=untyped),
        "respond is not a node; decorate the function with @node",
    ),
    "an outcome in quotes": (
        lambda: as_on("Reply", gx.END),
        "'Reply' is not an outcome class; write on(Outcome, target), one for each class",
    ),
    "a list of rows": (
        lambda: as_graph([1], start=gx.node(respond)),
        "the table is [1]; write edges(...) | edges(...)",
    ),
    "node above charged": (
        lambda: as_charge(untyped),
        "respond is not a node; put @node below @charged or @metered",
    ),
    "a budget's name as what is charged": (
        lambda: as_metered(when_spent=stopped, budget="patience"),
        "'patience' is not a budget; write budget=Budget('patience', 3)",
    ),
    "iterations with a limit of their own": (
        lambda: gx.metered(when_spent=stopped, budget=gx.Budget("iterations", 5)),
        "the limit of iterations belongs in Limits(iterations=...); write @metered(when_spent=...) without a budget",
    ),
    "two ways to leave one node": (
        lambda: gx.metered(when_spent=Late, budget=PATIENCE)(as_charge(gx.node(respond))),
        "respond has the outcome Reply when one limit stops it and Late when another does; give both decorators the "
        "same when_spent",
    ),
    "a budget that is reset alone": (
        lambda: as_on(Reply, gx.END, resets=PATIENCE),
        "on(Reply, ...) has resets=Budget(name='patience', limit=4); write resets=[BUDGET], a list of budgets",
    ),
    "a budget's name as what is reset": (
        lambda: as_on(Reply, gx.END, resets=[PATIENCE, "patience"]),
        "on(Reply, ...) has resets=[Budget(name='patience', limit=4), 'patience']; write resets=[BUDGET], a list of "
        "budgets",
    ),
    "node twice": (lambda: as_node(gx.node(respond)), "respond is a node already; leave out the second @node"),
    "an edge to a name": (
        lambda: as_on(Reply, "inquire"),
        "'inquire' is a string and not a node; write the node itself, without quotes",
    ),
    "an edge to the end in quotes": (
        lambda: as_on(Reply, "END"),
        "'END' is a string and not a node; write END, imported from graphexec, without quotes",
    ),
    "a start in quotes": (
        lambda: as_graph(gx.edges(inquire, gx.on(Reply, gx.END)), start="inquire"),
        "'inquire' is a string and not a node; write the node itself, without quotes",
    ),
    "a node as when_spent": (
        lambda: as_charged(when_spent=stopped_response),
        "when_spent is stopped_response, a node; write when_spent=stop, with def stop(value, limit: Exhausted) -> "
        "LimitReached, and on(LimitReached, stopped_response) in the table",
    ),
    "a text as when_spent": (
        lambda: as_metered(when_spent="stop"),
        "when_spent is 'stop'; give a function of the value and the limit, such as limit_reached",
    ),
    "the outcome as when_spent": (
        lambda: as_charged(when_spent=LimitReached)(inquire),
        "inquire takes Asked, which LimitReached does not; give a function that makes one, as limit_reached makes a "
        "LimitReached, or widen its field",
    ),
    "charged without parentheses": (
        lambda: as_charged(inquire),
        f"charged {BARE} @charged(when_spent=limit_reached), for example",
    ),
    "charged with empty ones": (as_charged, f"charged {BARE} @charged(when_spent=limit_reached), for example"),
    "metered without parentheses": (
        lambda: as_metered(inquire),
        f"metered {BARE} @metered(when_spent=limit_reached), for example",
    ),
    "reserved without parentheses": (
        lambda: as_reserved(inquire),
        f"reserved {BARE} @reserved(when_spent=limit_reached), for example",
    ),
    "a grace in quotes": (
        lambda: as_reserved(when_spent=stopped, grace="10"),
        "grace is '10'; give seconds, 0 or more",
    ),
    "a count in words": (
        lambda: as_charged(when_spent=stopped, asks="many")(inquire),
        f"inquire has asks='many'; {COUNT}",
    ),
    "a count as a list": (
        lambda: as_charged(when_spent=stopped, asks=[1, 16])(inquire),
        f"inquire has asks=[1, 16]; {COUNT}",
    ),
    "a count that is True": (
        lambda: as_charged(when_spent=stopped, asks=True)(inquire),
        f"inquire has asks=True; {COUNT}",
    ),
    "a count of three": (
        lambda: as_charged(when_spent=stopped, asks=(1, 2, 3))(inquire),
        f"inquire has asks=(1, 2, 3); {COUNT}",
    ),
    "an async function that asks": (
        lambda: as_node(waits),
        "waits is async def, but a node that asks for effects is def; write def waits(...) -> Asks[Effect, Outcome]",
    ),
    "an async generator": (
        lambda: as_node(waits_and_yields),
        "waits_and_yields is async def, but a node that asks for effects is def; write def waits_and_yields(...) -> "
        "Asks[Effect, Outcome]",
    ),
}


@cases("mistake", MISTAKES)
def test_mistake_is_refused_with_a_remedy(mistake: str) -> None:
    make, text = MISTAKES[mistake]
    with pytest.raises(NodeError) as caught:
        make()
    assert str(caught.value) == text


def test_missing_charged_is_reported_for_an_async_node() -> None:
    @gx.node
    async def fetch(asked: Asked) -> Reply:
        raise AssertionError("it is refused before it is called")

    with pytest.raises(gx.GraphError) as caught:
        gx.graph(gx.edges(fetch, gx.on(Reply, gx.END)), start=fetch)
    assert caught.value.faults[0].text == (
        "fetch is an async function, which a limit may stop, but has no outcome for that; decorate it with "
        "@charged(when_spent=...) and route that outcome"
    )


def test_on_with_two_classes_is_refused() -> None:
    with pytest.raises(NodeError, match="one for each class"):
        as_on(Asked | Reply, gx.END)


def test_node_that_does_not_yield_is_reported() -> None:
    @gx.charged(when_spent=stopped)
    @gx.node
    def forgetful(asked: Asked) -> gx.Asks[gx.AskHuman, Reply]:
        result: Any = Reply(asked.text)
        pretended: gx.Asks[gx.AskHuman, Reply] = result
        return pretended

    machine = gx.graph(gx.edges(forgetful, gx.on(Reply, gx.END)), start=forgetful)
    text = "forgetful is declared as Asks[...] but returned a Reply without asking; write reply = yield from ask(...)"
    with pytest.raises(NodeError) as caught:
        run(machine, Asked("?"), make_run_context({}))
    assert str(caught.value) == text


@cases("charge", [gx.charged, gx.metered])
def test_when_spent_needs_values_of_its_protocol(charge: Any) -> None:
    with pytest.raises(NodeError, match="respond takes Asked, which of_a_run does not"):
        charge(when_spent=of_a_run)(gx.node(respond))


def test_value_with_the_members_of_a_protocol_fits() -> None:
    @final
    @dataclass(frozen=True)
    class Running:
        run: str

    def run_on(running: Running) -> Reply:
        return Reply(running.run)

    assert gx.metered(when_spent=of_a_run)(gx.node(run_on)).when_spent is of_a_run


@cases(
    ("handlers", "text"),
    [
        ({"AskHuman": respond}, "handlers has the key 'AskHuman'; use an effect class as the key"),
        ({Asked: respond}, f"handlers has the key {Asked!r}; use an effect class as the key"),
        ({gx.AskHuman: "yes"}, "the handler of AskHuman is 'yes'; pass a function from the effect to its reply"),
    ],
)
def test_invalid_handlers_are_refused(handlers: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        make_run_context(handlers)
    assert str(caught.value) == text


def pending_question() -> PendingEffect:
    machine = gx.graph(gx.edges(inquire, gx.on(Reply, gx.END)), start=inquire)
    state = advance(machine, begin(machine, Asked("why?")), Limits(seconds=10))
    assert isinstance(state, PendingEffect)
    assert isinstance(state.effect, gx.Effect)
    return state


def test_reply_without_a_time_takes_no_time() -> None:
    assert pending_question().reply("because").spent.seconds == 0


@cases("at", [-1, float("nan")])
def test_reply_with_a_negative_time_is_refused(at: float) -> None:
    with pytest.raises(InputError, match="give the seconds since the start of the run, 0 or more"):
        pending_question().reply("because", at=at)


def test_async_function_in_a_lambda_is_awaited() -> None:
    async def fetched(question: str) -> str:
        return question.upper()

    machine = gx.graph(gx.edges(inquire, gx.on(Reply, gx.END)), start=inquire)
    behind = make_run_context({gx.AskHuman: lambda asked: fetched(asked.question)})
    assert run(machine, Asked("why"), behind).outcome == Reply("WHY")
    assert asyncio.run(arun(machine, Asked("why"), behind)).outcome == Reply("WHY")


def test_batch_needs_one_reply_for_each_member() -> None:
    @gx.charged(when_spent=stopped)
    @gx.node
    def both(asked: Asked) -> gx.Asks[gx.AskHuman, Reply]:
        first, second = yield from gx.ask_all([gx.AskHuman("a"), gx.AskHuman("b")])
        return Reply(first + second)

    machine = gx.graph(gx.edges(both, gx.on(Reply, gx.END)), start=both)
    state = advance(machine, begin(machine, Asked("?")), Limits())
    assert isinstance(state, PendingEffect)
    for wrong_reply in ("yes", ("yes",), None):
        with pytest.raises(InputError, match="a batch of 2 effects was answered with"):
            state.reply(wrong_reply)
    assert run(machine, state.reply(["y", "n"]), make_run_context({})).outcome == Reply("yn")


@final
@dataclass(frozen=True)
class Measure(gx.Effect[float]):
    """An effect whose reply is a number."""


@final
@dataclass(frozen=True)
class Look(gx.Effect[list[int] | None]):
    """An effect whose reply is a list, or nothing."""


@final
@dataclass(frozen=True)
class Anything(gx.Effect[Any]):
    """An effect whose reply may be any value."""


def pending(effect: gx.Effect[Any]) -> PendingEffect:
    @gx.charged(when_spent=stopped)
    @gx.node
    def look(asked: Asked) -> gx.Asks[Measure | Look | Anything, Reply]:
        reply: Any = yield effect  # type: ignore[misc]  # pyright: ignore[reportReturnType] - one of the three
        return Reply(repr(reply))

    state = advance(
        gx.graph(gx.edges(look, gx.on(Reply, gx.END)), start=look), Snapshot("look", Asked("?")), Limits(seconds=9)
    )
    assert isinstance(state, PendingEffect)
    return state


@cases(
    ("effect", "reply", "wanted"),
    [
        (Measure(), "3", "a float"),
        (Measure(), None, "a float"),
        (Look(), "[1]", "list[int] | None"),
    ],
)
def test_reply_of_another_class_is_refused(effect: gx.Effect[Any], reply: object, wanted: str) -> None:
    state = pending(effect)
    with pytest.raises(InputError) as caught:
        state.reply(reply)
    asked = type(effect).__name__
    assert str(caught.value) == f"look asked for {asked} and was answered with {reply!r}; reply with {wanted}"


@cases(("effect", "reply"), [(Measure(), 3), (Measure(), 2.5), (Look(), [1]), (Look(), None), (Anything(), object)])
def test_reply_of_its_class_is_taken(effect: gx.Effect[Any], reply: object) -> None:
    assert pending(effect).reply(reply).replies == (reply,)


def test_wrong_reply_to_a_question_is_refused() -> None:
    message = "inquire asked for AskHuman and was answered with True; reply with a str"
    with pytest.raises(InputError, match=message):
        pending_question().reply(True)


def test_wrong_replies_to_a_batch_are_refused() -> None:
    @gx.charged(when_spent=stopped)
    @gx.node
    def both(asked: Asked) -> gx.Asks[gx.AskHuman, Reply]:
        first, second = yield from gx.ask_all([gx.AskHuman("a"), gx.AskHuman("b")])
        return Reply(first + second)

    state = advance(gx.graph(gx.edges(both, gx.on(Reply, gx.END)), start=both), Snapshot("both", Asked("?")), Limits())
    assert isinstance(state, PendingEffect)
    with pytest.raises(InputError, match="both asked for AskHuman and was answered with 2; reply with a str"):
        state.reply(("a", 2))
    with pytest.raises(InputError, match="both asked for AskHuman and was answered with None; reply with a str"):
        state.reply_member(1, None)
