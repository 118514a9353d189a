"""Mistakes of beginners are refused where they are made, with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import graphexec as gx
from graphexec import errors, executor
from graphexec.kernel import Limits, PendingEffect, reserved
from tests.drivers import make_run_context
from tests.kernel.machines import Halted, check_refusal, error_message, finish, machine_of, pending, run_machine, value
from tests.parameters import cases


@value
class Asked:
    text: str


@value
class Reply:
    text: str


class HasRun(Protocol):
    @property
    def run(self) -> str: ...


def stopped(given: Asked, limit: gx.Exhausted) -> Reply:
    return Reply(str(limit))


def of_a_run(given: HasRun, limit: gx.Exhausted) -> Reply:
    return Reply(given.run)


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


@gx.charged(when_spent=stopped)
@gx.node
def forgetful(asked: Asked) -> gx.Asks[gx.AskHuman, Reply]:
    result: Any = Reply(asked.text)
    pretended: gx.Asks[gx.AskHuman, Reply] = result
    return pretended


async def waits(asked: Asked) -> gx.Asks[gx.AskHuman, Reply]:
    raise AssertionError("it is refused before it is called")


async def waits_and_yields(asked: Asked) -> Any:
    yield Reply(asked.text)


NOT_A_NODE = ("respond is not a node", "decorate the function with @node")
IN_QUOTES = "is a string and not a node; write"
BUDGETS = "write resets=[BUDGET], a list of budgets"
BARE = "needs a when_spent, the outcome for a limit that stops it; write"
NODE, FORGETFUL, inquire_row = gx.node(respond), machine_of(forgetful), gx.edges(inquire, gx.on(Reply, gx.END))


@cases(
    ("mistake", "facts"),
    (lambda: as_edges(untyped, gx.on(Reply, gx.END)), NOT_A_NODE),
    (lambda: as_on(Asked, untyped), NOT_A_NODE),
    (lambda: as_on(Asked, None), ["None is not a node; decorate the function with @node"]),
    (lambda: as_graph(gx.edges(NODE, gx.on(Reply, gx.END)), start=untyped), NOT_A_NODE),
    (lambda: as_on("Reply", gx.END), ["'Reply' is not an outcome class; write on(Outcome, target), one for each"]),
    (lambda: as_on(Asked | Reply, gx.END), ["one for each class"]),
    (lambda: as_graph([1], start=NODE), ["the table is [1]; write edges(...) | edges(...)"]),
    (lambda: as_charge(untyped), ["respond is not a node; put @node below @charged or @metered"]),
    (lambda: as_metered(when_spent=stopped, budget="patience"), ["'patience'", "budget=Budget('patience', 3)"]),
    (
        lambda: gx.metered(when_spent=stopped, budget=gx.Budget("iterations", 5)),
        ["the limit of iterations", "Limits(iterations=...)", "@metered(when_spent=...) without a budget"],
    ),
    (
        lambda: gx.metered(when_spent=Halted, budget=PATIENCE)(as_charge(NODE)),
        ["respond has the outcome Reply when one limit stops it and Halted when another does", "same when_spent"],
    ),
    (lambda: as_on(Reply, gx.END, resets=PATIENCE), [f"on(Reply, ...) has resets={PATIENCE!r}; {BUDGETS}"]),
    (lambda: as_on(Reply, gx.END, resets=[PATIENCE, "a"]), [f"has resets=[{PATIENCE!r}, 'a']; {BUDGETS}"]),
    (lambda: as_node(NODE), ["respond is a node already; leave out the second @node"]),
    (lambda: as_on(Reply, "inquire"), [f"'inquire' {IN_QUOTES} the node itself, without quotes"]),
    (lambda: as_on(Reply, "END"), [f"'END' {IN_QUOTES} END, imported from graphexec, without quotes"]),
    (lambda: as_graph(inquire_row, start="inquire"), [f"'inquire' {IN_QUOTES} the node itself, without quotes"]),
    (
        lambda: as_charged(when_spent=executor.stopped_response),
        [
            "when_spent is stopped_response, a node; write when_spent=stop",
            "with def stop(value, limit: Exhausted) -> LimitReached, and on(LimitReached, stopped_response)",
        ],
    ),
    (lambda: as_metered(when_spent="stop"), ["when_spent is 'stop'; give a function", "such as limit_reached"]),
    (
        lambda: as_charged(when_spent=executor.LimitReached)(inquire),
        ["inquire takes Asked, which LimitReached does not", "as limit_reached makes a LimitReached, or widen"],
    ),
    (as_charged, [f"charged {BARE} @charged(when_spent=limit_reached)"]),
    (lambda: as_charged(inquire), [f"charged {BARE} @charged(when_spent=limit_reached)"]),
    (lambda: as_metered(inquire), [f"metered {BARE} @metered(when_spent=limit_reached)"]),
    (lambda: as_reserved(inquire), [f"reserved {BARE} @reserved(when_spent=limit_reached)"]),
    (lambda: as_reserved(when_spent=stopped, grace="10"), ["grace is '10'; give seconds, 0 or more"]),
    (lambda: as_node(waits), ["waits is async def, but", "write def waits(...) -> Asks[Effect, Outcome]"]),
    (
        lambda: as_node(waits_and_yields),
        ["waits_and_yields is async def, but a node that asks for effects is def; write def waits_and_yields(...)"],
    ),
    (lambda: gx.charged(when_spent=of_a_run)(NODE), ["respond takes Asked, which of_a_run does not"]),
    (lambda: gx.metered(when_spent=of_a_run)(NODE), ["respond takes Asked, which of_a_run does not"]),
    (lambda: run_machine(FORGETFUL, Asked("?")), ["forgetful", "Asks[...]", "reply = yield from ask(...)"]),
)
def test_mistake_is_refused_with_a_remedy(mistake: Callable[[], object], facts: Sequence[str]) -> None:
    check_refusal(errors.NodeError, facts, mistake)


@value
class Running:
    run: str


def run_on(running: Running) -> Reply:
    return Reply(running.run)


def test_value_with_the_members_of_a_protocol_fits() -> None:
    assert gx.metered(when_spent=of_a_run)(gx.node(run_on)).when_spent is of_a_run


@cases(
    ("handlers", "text"),
    ({"AskHuman": respond}, "handlers has the key 'AskHuman'; use an effect class as the key"),
    ({Asked: respond}, f"handlers has the key {Asked!r}; use an effect class as the key"),
    ({gx.AskHuman: "yes"}, "the handler of AskHuman is 'yes'; pass a function from the effect to its reply"),
)
def test_invalid_handlers_are_refused(handlers: Any, text: str) -> None:
    assert error_message(errors.InputError, make_run_context, handlers) == text


@gx.charged(when_spent=stopped)
@gx.node
def both(asked: Asked) -> gx.Asks[gx.AskHuman, Reply]:
    first, second = yield from gx.ask_all([gx.AskHuman("a"), gx.AskHuman("b")])
    return Reply(first + second)


QUESTION, BATCH = pending(machine_of(inquire), Asked("why?"), Limits(seconds=10)), pending(machine_of(both), Asked("?"))


def test_question_and_batch_are_answered() -> None:
    assert QUESTION.reply("because").spent.seconds == 0
    for replies in (["y", "n"], ("y", "n")):
        assert finish(machine_of(both), BATCH.reply(replies)).outcome == Reply("yn")

    async def fetched(question: str) -> str:
        return question.upper()

    behind = make_run_context({gx.AskHuman: lambda asked: fetched(asked.question)})
    assert run_machine(machine_of(inquire), Asked("why"), behind).outcome == Reply("WHY")


@value
class Measure(gx.Effect[float]):
    """An effect whose reply is a number."""


@value
class Look(gx.Effect[list[int] | None]):
    """An effect whose reply is a list, or nothing."""


@value
class Anything(gx.Effect[Any]):
    """An effect whose reply may be any value."""


def asking(effect: gx.Effect[Any]) -> PendingEffect:
    @gx.charged(when_spent=stopped)
    @gx.node
    def look(asked: Asked) -> gx.Asks[Measure | Look | Anything, Reply]:
        reply: Any = yield effect  # type: ignore[misc]  # pyright: ignore[reportReturnType] - one of the three
        return Reply(repr(reply))

    return pending(machine_of(look), Asked("?"), Limits(seconds=9))


@cases(
    ("wrong", "facts"),
    (lambda: QUESTION.reply(True), ["inquire asked for AskHuman", "answered with True; reply with a str"]),
    (lambda: asking(Measure()).reply("3"), ["look asked for Measure", "answered with '3'; reply with a float"]),
    (lambda: asking(Measure()).reply(None), ["look asked for Measure", "answered with None; reply with a float"]),
    (lambda: asking(Look()).reply("[1]"), ["look asked for Look", "with '[1]'; reply with list[int] | None"]),
    (lambda: BATCH.reply(("a", 2)), ["both asked for AskHuman", "2; reply with a str"]),
    (lambda: BATCH.reply_member(1, None), ["both asked for AskHuman", "answered with None; reply with a str"]),
)
def test_wrong_reply_is_refused(wrong: Callable[[], object], facts: Sequence[str]) -> None:
    check_refusal(errors.InputError, facts, wrong)


@cases(("effect", "reply"), (Measure(), 3), (Measure(), 2.5), (Look(), [1]), (Look(), None), (Anything(), object))
def test_reply_of_its_class_is_taken(effect: gx.Effect[Any], reply: object) -> None:
    assert asking(effect).reply(reply).replies == (reply,)
