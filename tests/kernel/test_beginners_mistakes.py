"""Mistakes of beginners are refused where they are made, with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import graphexec as gx
from graphexec import errors, executor
from graphexec.kernel import Limits, PendingEffect
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


@gx.node(when_spent=stopped)
def inquire(asked: Asked) -> gx.Asks[gx.AskHuman, Reply]:
    return Reply((yield from gx.ask(gx.AskHuman(asked.text))))


# Any: the calls are wrong on purpose.
wrong: Any = None
untyped: Any = respond
as_edges: Any = gx.edges
as_on: Any = gx.on
as_graph: Any = gx.graph
as_node: Any = gx.node

PATIENCE = gx.Meter("patience", 4)


@gx.node(when_spent=stopped)
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
METERS = "write resets=[METER], a list of meters"
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
    (lambda: as_node(when_spent=stopped, meters=PATIENCE), [f"meters={PATIENCE!r}; write meters=[METER], a list"]),
    (lambda: as_node(when_spent=stopped, meters=["patience"]), ["meters=['patience']; write meters=[METER], a list"]),
    (lambda: as_node(meters=[PATIENCE])(respond), ["respond has a limit, but no outcome", "when_spent=limit_reached"]),
    (lambda: as_node(grace=3)(respond), ["respond has a limit, but no outcome", "when_spent=limit_reached"]),
    (lambda: as_node(opaque=True)(NODE), ["respond is a node already; write opaque=True where its function is"]),
    (
        lambda: gx.node(when_spent=stopped, meters=[gx.Meter("iterations", 5)]),
        ["the limit of iterations", "Limits(iterations=...)", "write meters=[ITERATIONS]"],
    ),
    (
        lambda: gx.node(when_spent=Halted, meters=[PATIENCE])(gx.node(when_spent=stopped)(NODE)),
        ["respond has the outcome Reply when a limit stops it, and cannot have Halted, too; give the same when_spent"],
    ),
    (lambda: as_on(Reply, gx.END, resets=PATIENCE), [f"on(Reply, ...) has resets={PATIENCE!r}; {METERS}"]),
    (lambda: as_on(Reply, gx.END, resets=[PATIENCE, "a"]), [f"has resets=[{PATIENCE!r}, 'a']; {METERS}"]),
    (lambda: as_on(Reply, "inquire"), [f"'inquire' {IN_QUOTES} the node itself, without quotes"]),
    (lambda: as_on(Reply, "END"), [f"'END' {IN_QUOTES} END, imported from graphexec, without quotes"]),
    (lambda: as_graph(inquire_row, start="inquire"), [f"'inquire' {IN_QUOTES} the node itself, without quotes"]),
    (
        lambda: as_node(when_spent=executor.stopped_response),
        [
            "when_spent is stopped_response, a node; write when_spent=stop",
            "with def stop(value, limit: Exhausted) -> Stopped, and on(Stopped, stopped_response)",
        ],
    ),
    (lambda: as_node(when_spent="stop"), ["when_spent is 'stop'; give a function", "such as limit_reached"]),
    (
        lambda: as_node(when_spent=executor.Stopped)(inquire),
        ["inquire takes Asked, which Stopped does not", "as limit_reached makes a Stopped, or widen"],
    ),
    (lambda: as_node(when_spent=stopped, grace="10"), ["grace is '10'; give seconds, 0 or more"]),
    (lambda: as_node(waits), ["waits is async def, but", "write def waits(...) -> Asks[Effect, Outcome]"]),
    (
        lambda: as_node(waits_and_yields),
        ["waits_and_yields is async def, but a node that asks for effects is def; write def waits_and_yields(...)"],
    ),
    (lambda: gx.node(when_spent=of_a_run)(NODE), ["respond takes Asked, which of_a_run does not"]),
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
    assert gx.node(when_spent=of_a_run, meters=[gx.ITERATIONS])(run_on).when_spent is of_a_run


@cases(
    ("handlers", "text"),
    ({"AskHuman": respond}, "handlers has the key 'AskHuman'; use an effect class as the key"),
    ({Asked: respond}, f"handlers has the key {Asked!r}; use an effect class as the key"),
    ({gx.AskHuman: "yes"}, "the handler of AskHuman is 'yes'; pass a function from the effect to its reply"),
)
def test_invalid_handlers_are_refused(handlers: Any, text: str) -> None:
    assert error_message(errors.InputError, make_run_context, handlers) == text


@gx.node(when_spent=stopped)
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
    @gx.node(when_spent=stopped)
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
