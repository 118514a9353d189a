"""What people write on their first day is refused where they wrote it, with what to write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

import pytest

from graphexec import (
    END,
    AskHuman,
    Asks,
    Budget,
    Effect,
    Exhausted,
    GraphError,
    ask,
    ask_all,
    charged,
    edges,
    graph,
    metered,
    node,
    on,
)
from graphexec.errors import InputError, NodeError
from graphexec.executor import LimitReached, stopped_response
from graphexec.kernel import Limits, PendingEffect, advance, begin, reserved
from graphexec.runtime import arun, make_run_context, run


@final
@dataclass(frozen=True)
class Asked:
    text: str


@final
@dataclass(frozen=True)
class Told:
    text: str


class HasRun(Protocol):
    @property
    def run(self) -> str: ...


def stopped(given: Asked, limit: Exhausted) -> Told:
    return Told(str(limit))


def of_a_run(given: HasRun, limit: Exhausted) -> Told:
    return Told(given.run)


@final
@dataclass(frozen=True)
class Late:
    at: Asked
    limit: Exhausted


def tell(asked: Asked) -> Told:
    return Told(asked.text)


@charged(when_spent=stopped)
@node
def inquire(asked: Asked) -> Asks[AskHuman, Told]:
    return Told((yield from ask(AskHuman(asked.text))))


# Wrong on purpose, and so beyond what types allow.
wrong: Any = None
untyped: Any = tell
as_edges: Any = edges
as_on: Any = on
as_graph: Any = graph
as_charge: Any = charged(when_spent=stopped)
as_node: Any = node
as_metered: Any = metered

PATIENCE = Budget("patience", 4)


as_charged: Any = charged
as_reserved: Any = reserved


async def waits(asked: Asked) -> Asks[AskHuman, Told]:
    raise AssertionError("it is refused before it is called")


async def waits_and_yields(asked: Asked) -> Any:
    yield Told(asked.text)


BARE = "needs a when_spent, the outcome for a limit that stops it; write"
COUNT = "give a number of effects, or (least, most)"

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "edges of a function": (
        lambda: as_edges(untyped, on(Told, END)),
        "tell is not a node; decorate the function with @node",
    ),
    "an edge to a function": (lambda: as_on(Asked, untyped), "tell is not a node; decorate the function with @node"),
    "an edge to nothing": (lambda: as_on(Asked, None), "None is not a node; decorate the function with @node"),
    "a start that is a function": (
        lambda: as_graph(edges(node(tell), on(Told, END)), start=untyped),
        "tell is not a node; decorate the function with @node",
    ),
    "an outcome in quotes": (
        lambda: as_on("Told", END),
        "'Told' is not an outcome class; write on(Outcome, target), one for each class",
    ),
    "a list of rows": (
        lambda: as_graph([1], start=node(tell)),
        "the table is [1]; write edges(...) | edges(...)",
    ),
    "node above charged": (
        lambda: as_charge(untyped),
        "tell is not a node; put @node below @charged or @metered",
    ),
    "a budget's name as what is charged": (
        lambda: as_metered(when_spent=stopped, budget="patience"),
        "'patience' is not a budget; write budget=Budget('patience', 3)",
    ),
    "iterations with a limit of their own": (
        lambda: metered(when_spent=stopped, budget=Budget("iterations", 5)),
        "the limit of iterations belongs in Limits(iterations=...); write @metered(when_spent=...) without a budget",
    ),
    "two ways to leave one node": (
        lambda: metered(when_spent=Late, budget=PATIENCE)(as_charge(node(tell))),
        "tell has the outcome Told when one limit stops it and Late when another does; give both decorators the same "
        "when_spent",
    ),
    "a budget that is reset alone": (
        lambda: as_on(Told, END, resets=PATIENCE),
        "on(Told, ...) has resets=Budget(name='patience', limit=4); write resets=[BUDGET], a list of budgets",
    ),
    "a budget's name as what is reset": (
        lambda: as_on(Told, END, resets=[PATIENCE, "patience"]),
        "on(Told, ...) has resets=[Budget(name='patience', limit=4), 'patience']; write resets=[BUDGET], a list of "
        "budgets",
    ),
    "node twice": (lambda: as_node(node(tell)), "tell is a node already; leave out the second @node"),
    "an edge to a name": (
        lambda: as_on(Told, "inquire"),
        "'inquire' is a string and not a node; write the node itself, without quotes",
    ),
    "an edge to the end in quotes": (
        lambda: as_on(Told, "END"),
        "'END' is a string and not a node; write END, imported from graphexec, without quotes",
    ),
    "a start in quotes": (
        lambda: as_graph(edges(inquire, on(Told, END)), start="inquire"),
        "'inquire' is a string and not a node; write the node itself, without quotes",
    ),
    "a node as when_spent": (
        lambda: as_charged(when_spent=stopped_response),
        "when_spent is stopped_response, a node; give a function of the value and the limit, such as limit_reached",
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


@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_is_refused_with_what_to_write(mistake: str) -> None:
    make, text = MISTAKES[mistake]
    with pytest.raises(NodeError) as caught:
        make()
    assert str(caught.value) == text


def test_an_async_node_is_told_of_in_its_own_words() -> None:
    @node
    async def fetch(asked: Asked) -> Told:
        raise AssertionError("it is refused before it is called")

    with pytest.raises(GraphError) as caught:
        graph(edges(fetch, on(Told, END)), start=fetch)
    assert caught.value.faults[0].text == (
        "fetch is an async function, which a limit may stop, but has no outcome for that; decorate it with "
        "@charged(when_spent=...) and route that outcome"
    )


def test_two_classes_in_one_on_are_refused() -> None:
    with pytest.raises(NodeError, match="one for each class"):
        as_on(Asked | Told, END)


def test_a_node_that_forgets_to_yield_is_named() -> None:
    @charged(when_spent=stopped)
    @node
    def forgetful(asked: Asked) -> Asks[AskHuman, Told]:
        result: Any = Told(asked.text)
        pretended: Asks[AskHuman, Told] = result
        return pretended

    machine = graph(edges(forgetful, on(Told, END)), start=forgetful)
    text = "forgetful is declared as Asks[...] but returned a Told without asking; write reply = yield from ask(...)"
    with pytest.raises(NodeError) as caught:
        run(machine, Asked("?"), make_run_context({}))
    assert str(caught.value) == text


@pytest.mark.parametrize("charge", [charged, metered])
def test_what_is_made_of_a_run_needs_values_that_have_one(charge: Any) -> None:
    with pytest.raises(NodeError, match="tell takes Asked, which of_a_run does not"):
        charge(when_spent=of_a_run)(node(tell))


def test_a_value_with_the_members_of_a_protocol_fits_it() -> None:
    @final
    @dataclass(frozen=True)
    class Running:
        run: str

    def run_on(running: Running) -> Told:
        return Told(running.run)

    assert metered(when_spent=of_a_run)(node(run_on)).when_spent is of_a_run


@pytest.mark.parametrize(
    ("handlers", "text"),
    [
        ({"AskHuman": tell}, "handlers has the key 'AskHuman'; use an effect class as the key"),
        ({Asked: tell}, f"handlers has the key {Asked!r}; use an effect class as the key"),
        ({AskHuman: "yes"}, "the handler of AskHuman is 'yes'; pass a function from the effect to its reply"),
    ],
)
def test_handlers_that_are_none_are_refused(handlers: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        make_run_context(handlers)
    assert str(caught.value) == text


def asking() -> PendingEffect:
    machine = graph(edges(inquire, on(Told, END)), start=inquire)
    state = advance(machine, begin(machine, Asked("why?")), Limits(seconds=10))
    assert isinstance(state, PendingEffect)
    assert isinstance(state.effect, Effect)
    return state


def test_a_reply_without_a_time_took_none() -> None:
    assert asking().reply("because").spent.seconds == 0


@pytest.mark.parametrize("at", [-1, float("nan")])
def test_a_reply_before_the_run_is_refused(at: float) -> None:
    with pytest.raises(InputError, match="give the seconds since the start of the run, 0 or more"):
        asking().reply("because", at=at)


def test_an_async_function_behind_a_lambda_is_awaited() -> None:
    async def fetched(question: str) -> str:
        return question.upper()

    machine = graph(edges(inquire, on(Told, END)), start=inquire)
    behind = make_run_context({AskHuman: lambda asked: fetched(asked.question)})
    assert run(machine, Asked("why"), behind).outcome == Told("WHY")
    assert asyncio.run(arun(machine, Asked("why"), behind)).outcome == Told("WHY")


def test_a_batch_is_answered_by_as_many_replies() -> None:
    @charged(when_spent=stopped)
    @node
    def both(asked: Asked) -> Asks[AskHuman, Told]:
        first, second = yield from ask_all([AskHuman("a"), AskHuman("b")])
        return Told(first + second)

    machine = graph(edges(both, on(Told, END)), start=both)
    state = advance(machine, begin(machine, Asked("?")), Limits())
    assert isinstance(state, PendingEffect)
    for wrong_reply in ("yes", ("yes",), None):
        with pytest.raises(InputError, match="a batch of 2 effects was answered with"):
            state.reply(wrong_reply)
    assert run(machine, state.reply(["y", "n"]), make_run_context({})).outcome == Told("yn")
