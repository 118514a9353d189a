"""Surgery returns a new, validated graph and leaves the old one unchanged."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.errors import InputError, UndeclaredOutcomeError
from graphexec.kernel import bind, drop_edge, rename
from graphexec.kernel.surgery import unbind
from tests.drivers import LIVE
from tests.kernel.machines import (
    CLOCK,
    DIAMOND,
    ERRAND,
    INTERVIEW,
    Errand,
    Even,
    Home,
    Interview,
    Left,
    Number,
    Odd,
    Question,
    Stopped,
    Sum,
    Tick,
    Tock,
    Topic,
    Total,
    come_back,
    error_message,
    faults_of,
    halve,
    interview,
    join,
    leave,
    limited,
    machine_of,
    reporter,
    run_machine,
    split,
    tick,
    tock,
    triple,
)
from tests.parameters import cases

loosely: Any = gx.edges


def run_to(machine: gx.Graph[Any, Any], value: object, context: Any = None) -> object:
    return run_machine(machine, value, context).outcome


@pytest.fixture(autouse=True)
def _old_graphs_are_untouched() -> Any:
    before = [(str(machine), list(machine)) for machine in (DIAMOND, CLOCK, ERRAND, INTERVIEW)]
    yield
    assert [(str(machine), list(machine)) for machine in (DIAMOND, CLOCK, ERRAND, INTERVIEW)] == before


# ---- replace


@gx.node
def round_down(even: Even) -> Sum:
    return Sum(even.value // 10 * 10, "rounded")


def test_replace_keeps_edges_and_groups() -> None:
    machine = gx.replace(DIAMOND, rename(round_down, "halve"))
    assert run_to(machine, Number(46)) == Total("rounded to 40")
    assert run_to(DIAMOND, Number(46)) == Total("halved to 23")
    assert machine.edges == DIAMOND.edges
    grouped = gx.replace(DIAMOND, dataclasses.replace(halve, group="rounding"))
    again = bind(gx.wrap(gx.replace(grouped, halve), halve, after=lambda value: value))
    assert {one.name: one.group for one in again if one.group} == {"halve": "rounding"}
    assert gx.replace(grouped, dataclasses.replace(halve, group="other"))["halve"].group == "other"


# ---- splice


@final
@dataclass(frozen=True)
class Refused:
    value: int


@gx.node
def guard(even: Even) -> Even | Refused:
    return even if even.value < 100 else Refused(even.value)


@gx.node
def excuse(refused: Refused) -> Total:
    return Total(f"{refused.value} is too much")


def guarded() -> gx.Graph[Number, Total]:
    table = gx.edges(guard, gx.on(Even, halve) | gx.on(Refused, excuse)) | gx.edges(excuse, gx.on(Total, gx.END))
    return gx.splice(DIAMOND, table, after=split, on=Even)


def negate(total: Sum) -> Sum:
    return Sum(-total.value, total.way)


def add(end: str) -> Callable[[Total], Total]:
    return lambda total: Total(total.text + end)


@gx.node
def note(total: Sum) -> Sum:
    return Sum(total.value, f"{total.way}, noted,")


@gx.node
def shout(total: Total) -> Total:
    return Total(total.text.upper())


@gx.node
def keep(number: Even | Odd) -> Even | Odd:
    return number


@gx.node
def count(number: Even | Odd) -> Sum:
    return Sum(number.value, "counted")


GUARDED = guarded()
NOTED = gx.edges(note, gx.on(Sum, join))
WRAPPED_TWICE = gx.replace(gx.wrap(GUARDED, guard, before=lambda even: Even(even.value + 200)), DIAMOND["split"])
KEPT = gx.edges(keep, gx.on(Even, halve) | gx.on(Odd, triple))


@cases(
    ("machine", "number", "text"),
    [
        (GUARDED, 6, "halved to 3"),
        (GUARDED, 600, "600 is too much"),
        (GUARDED, 601, "tripled to 1804"),
        # An edge to END.
        (gx.splice(DIAMOND, gx.edges(shout, gx.on(Total, gx.END)), after=join, on=Total), 6, "HALVED TO 3"),
        # The edges of other nodes are kept, or one node is inserted into several edges.
        (gx.splice(DIAMOND, NOTED, after=halve, on=Sum), 6, "halved, noted, to 3"),
        (gx.splice(DIAMOND, NOTED, after=halve, on=Sum), 7, "tripled to 22"),
        (gx.splice(DIAMOND, NOTED, after=[halve, triple], on=Sum), 6, "halved, noted, to 3"),
        (gx.splice(DIAMOND, NOTED, after=[halve, triple], on=Sum), 7, "tripled, noted, to 22"),
        (gx.splice(DIAMOND, KEPT, after=split, on=[Even, Odd]), 6, "halved to 3"),
        (gx.splice(DIAMOND, KEPT, after=split, on=[Even, Odd]), 7, "tripled to 22"),
        (drop_edge(DIAMOND, after=split, on=Odd), 6, "halved to 3"),
        # A pure node is wrapped: not at all, before and after, or twice.
        (gx.wrap(DIAMOND, halve), 6, "halved to 3"),
        (gx.wrap(DIAMOND, halve, before=lambda even: Even(even.value + 2), after=negate), 6, "halved to -4"),
        (gx.wrap(gx.wrap(DIAMOND, join, after=add("!")), join, after=add("?")), 6, "halved to 3!?"),
        # Surgery can be repeated.
        (WRAPPED_TWICE, 6, "206 is too much"),
        (WRAPPED_TWICE, 7, "tripled to 22"),
    ],
)
def test_changed_diamond_runs(machine: gx.Graph[Number, Total], number: int, text: str) -> None:
    assert run_to(machine, Number(number)) == Total(text)


def test_splice_changes_no_other_edges_and_nodes() -> None:
    inserted = {"guard", "excuse"}
    added = {edge for edge in GUARDED.edges if edge.source in inserted or edge.target in inserted}
    assert set(GUARDED.edges) - set(DIAMOND.edges) == added
    for name in ("split", "halve", "triple", "join"):
        assert GUARDED[name] is DIAMOND[name]
    assert CLOCK["tock"] is tock
    assert DIAMOND["triple"] is triple


@cases("form", ["mermaid", "dot"])
def test_pictures_show_the_spliced_node(form: str) -> None:
    assert "guard" in format(GUARDED, form)
    assert "Refused" in format(GUARDED, form)
    assert "guard" not in format(DIAMOND, form)


@final
@dataclass(frozen=True)
class Unsure:
    at: Interview
    limit: gx.Exhausted


@gx.charged(when_spent=Unsure)
@gx.node
def doubt(interview: Interview) -> gx.Asks[Question, Interview]:
    answer = yield from gx.ask(Question("sure?"))
    return Interview((*interview.answers, answer))


DOUBT = gx.edges(doubt, gx.on(Interview, gx.END) | gx.on(Unsure, gx.END))


@gx.node
def skip(tock: Tock) -> Tock:
    return Tock(tock.count + 100)


def test_splice_changes_an_asking_node_or_a_loop() -> None:
    machine = gx.splice(INTERVIEW, DOUBT, after=interview, on=Interview)
    assert run_to(machine, Topic("tea", 1), reporter()) == Interview(("re: tea 0 0", "re: sure?"))
    machine = gx.splice(CLOCK, gx.edges(skip, gx.on(Tock, tock)), after=tick, on=Tock)
    assert run_machine(machine, Tick(), limited(iterations=2)).outcome.at == Tick(202)
    faults = faults_of(gx.splice, DIAMOND, gx.edges(count, gx.on(Sum, join)), after=split, on=[Even, Odd])
    assert {fault.split()[1] for fault in faults} == {"halve", "triple"}


@gx.node
def other(odd: Odd) -> Odd:
    return odd


@gx.node
def misfitting(even: Odd) -> Sum | Total:
    return Total("")


@gx.node
def unmetered(tick: Tick) -> Tock | Stopped:
    return Tock(tick.count)


ROWS = gx.edges(guard, gx.on(Even, halve) | gx.on(Refused, gx.END))
NO_NODE = "the graph has no node {}; its nodes are split, halve, triple, join"


# Any: type checkers refuse these.
# Any: type checkers refuse some of these.
def splice(rows: Any = ROWS, *, after: Any = split, on: Any = Even) -> object:
    return gx.splice(DIAMOND, rows, after=after, on=on)


def drop(machine: Any = DIAMOND, *, after: Any = split, on: Any = Sum) -> object:
    return drop_edge(machine, after=after, on=on)


GUARD_TO_EXCUSE = gx.edges(guard, gx.on(Even, halve) | gx.on(Refused, excuse))
TAKEN = "the graph already has a node {}; rename the function, or use replace"
renamed_guard: Any = gx.edges(rename(guard, "halve"), gx.on(Even, halve) | gx.on(Refused, gx.END))


@cases(
    ("change", "faults"),
    [
        (lambda: gx.replace(DIAMOND, rename(halve, "quarter")), NO_NODE.format("quarter")),
        (
            lambda: gx.replace(DIAMOND, rename(misfitting, "halve")),
            "split sends Even to halve, which takes Odd; send it to a node that takes it\n"
            "halve may return Total, which no edge takes; add on(Total, ...)",
        ),
        (
            lambda: gx.replace(CLOCK, rename(unmetered, "tick")),
            "tick is metered by iterations in the graph and not in its replacement; decorate it with @metered(...)",
        ),
        (lambda: splice(on=Sum), "split has no edge for Sum; splice on one of Even, Odd"),
        (lambda: splice(after=tick, on=Sum), NO_NODE.format("tick")),
        (
            lambda: splice(NOTED, after=[halve, split, join], on=Sum),
            "split has no edge for Sum; splice on one of Even, Odd\njoin has no edge for Sum; splice on one of Total",
        ),
        (
            lambda: splice(NOTED, after=[halve, triple], on=[Sum, Total]),
            "none of halve, triple has an edge for Total; leave Total out of on=",
        ),
        (lambda: splice(renamed_guard), TAKEN.format("halve")),
        (lambda: splice(ROWS | ROWS), f"{TAKEN.format('guard')}\n{TAKEN.format('guard')}"),
        (
            lambda: splice(GUARD_TO_EXCUSE),
            "guard leads to excuse, which is not in the graph; add edges(excuse, ...) to the table",
        ),
        (
            lambda: splice(loosely(guard, gx.on(Even, halve))),
            "guard may return Refused, which no edge takes; add on(Refused, ...)",
        ),
        (
            lambda: splice(gx.edges(other, gx.on(Odd, triple))),
            "split sends Even to other, which takes Odd; send it to a node that takes it\n"
            "halve cannot be reached from split; route an outcome to it, or remove its row",
        ),
        (drop, "split has no edge for Sum; drop one of Even, Odd"),
        (
            lambda: drop(CLOCK, after=tick, on=Stopped),
            "tick returns Stopped when a limit stops it; keep the edge, or splice into it",
        ),
        (lambda: drop(after=halve), "halve returns nothing but Sum; keep the edge, or splice into it"),
        (lambda: gx.wrap(DIAMOND, tick), NO_NODE.format("tick")),
        (
            lambda: bind(GREET, Mark("!"), Mark("?")),
            "greet needs one Greeting for greeting, and none was given; pass it to bind(machine, ...)\n"
            "greet needs one Mark for mark, and 2 were given; pass it to bind(machine, ...)",
        ),
    ],
)
def test_change_with_faults_is_refused(change: Callable[[], object], faults: str) -> None:
    assert error_message(gx.GraphError, change) == faults


@cases(
    ("change", "text"),
    [
        (lambda: splice(on=[]), "splice has on=[]; give an outcome class, or a list of them"),
        (lambda: splice(on=[Even, "Odd"]), "give an outcome class, or a list of them"),
        (lambda: splice(on={Even}), "give an outcome class, or a list of them"),
        (lambda: splice(after=()), "splice has after=(); give a node, or a list of them"),
        (lambda: splice(after="split"), "splice has after='split'; give a node, or a list of them"),
        (lambda: drop(on=[Even, Odd]), "give one node and one outcome class"),
    ],
)
def test_change_of_an_invalid_edge_is_refused(change: Callable[[], object], text: str) -> None:
    assert text in error_message(InputError, change)


# ---- drop_edge


def test_dropped_edge_is_not_taken() -> None:
    machine = drop_edge(DIAMOND, after=split, on=Odd)
    assert list(machine.nodes) == ["split", "halve", "join"]
    assert [edge.outcome for edge in machine.edges if edge.source == "split"] == [Even]
    assert "split returned" in error_message(UndeclaredOutcomeError, run_to, machine, Number(7))


# ---- wrap


@cases(
    ("machine", "value", "outcome"),
    [
        (
            gx.wrap(
                INTERVIEW,
                interview,
                before=lambda topic: Topic(topic.name.upper(), topic.questions),
                after=lambda outcome: Interview(outcome.answers[::-1]) if isinstance(outcome, Interview) else outcome,
            ),
            Topic("tea", 2),
            Interview(("re: TEA 1 1", "re: TEA 0 0")),
        ),
        (
            gx.wrap(ERRAND, leave, before=lambda errand: Errand((*errand.stops, "keys"))),
            Errand(),
            Home(("keys", "left", "back")),
        ),
        (
            gx.wrap(
                ERRAND, come_back, after=lambda home: Home((*home.stops, "tea")) if isinstance(home, Home) else home
            ),
            Errand(),
            Home(("left", "back", "tea")),
        ),
    ],
)
def test_asking_async_and_opaque_nodes_can_be_wrapped(machine: Any, value: object, outcome: object) -> None:
    assert run_to(machine, value, reporter()) == outcome


def test_wrap_ignores_the_when_spent_outcome() -> None:
    seen: list[object] = []

    def look(outcome: Any) -> Any:
        seen.append(outcome)
        return outcome

    machine = gx.wrap(CLOCK, tick, after=look)
    assert isinstance(run_machine(machine, Tick(), limited(iterations=1), LIVE[:1]).outcome, Stopped)
    assert seen == [Tock(1)]


def test_undeclared_outcome_of_a_wrap_is_refused() -> None:
    def wrong(_: object) -> Any:
        return Total("wrong")

    message = error_message(UndeclaredOutcomeError, run_to, gx.wrap(DIAMOND, halve, after=wrong), Number(6))
    assert "halve returned a Total" in message


# ---- bind


@dataclass(frozen=True)
class Greeting:
    word: str


@dataclass(frozen=True)
class Mark:
    text: str


@gx.node
def greet(number: Number, greeting: Greeting, *, mark: Mark) -> Total:
    return Total(f"{greeting.word}, {number.value}{mark.text}")


@gx.charged(when_spent=Stopped)
@gx.node
def ask_politely(left: Left, greeting: Greeting) -> gx.Asks[Question, Total]:
    return Total((yield from gx.ask(Question(greeting.word))))


@gx.charged(when_spent=Stopped)
@gx.opaque
def shout_out(left: Left, greeting: Greeting) -> Total:
    return Total(greeting.word.upper())


@gx.charged(when_spent=Stopped)
@gx.node
async def whisper(left: Left, greeting: Greeting) -> Total:
    return Total(greeting.word.lower())


GREET = machine_of(greet)


@gx.node
def with_one(number: Number, greeting: Greeting) -> Total:
    return Total(f"{greeting.word} {number.value}")


@gx.node
def with_two(number: Number, greeting: Greeting, mark: Mark) -> Total:
    return Total(f"{greeting.word} {number.value}{mark.text}")


@gx.node
def with_three(number: Number, greeting: Greeting, mark: Mark, left: Left) -> Total:
    return Total(f"{greeting.word} {number.value}{mark.text} {left.steps}")


@gx.node
def with_call(number: Number, call: gx.CallContext[None], greeting: Greeting) -> Total:
    return Total(f"{greeting.word} {number.value} in {call.node}")


@cases(
    ("greeter", "text"),
    [
        (with_one, "Hi 3"),
        (with_two, "Hi 3!"),
        (with_three, "Hi 3! 7"),
        (with_call, "Hi 3 in with_call"),
        (greet, "Hi, 3!"),
    ],
)
def test_bound_node_receives_its_settings(greeter: gx.Node[Number, Total], text: str) -> None:
    bound = bind(machine_of(greeter), Left(7), Mark("!"), Greeting("Hi"))
    assert run_to(bound, Number(3)) == Total(text)
    again = bind(unbind(bound), Left(7), Mark("?"), Greeting("Hi"))
    assert run_to(again, Number(3)) == Total(text.replace("!", "?"))


@cases(("source", "text"), [(ask_politely, "re: Hello"), (shout_out, "HELLO"), (whisper, "hello")])
def test_every_kind_of_node_is_bound_and_wrapped(source: Any, text: str) -> None:
    machine = machine_of(source)
    assert run_to(bind(machine, Greeting("Hello")), Left(1), reporter()) == Total(text)
    wrapped = gx.wrap(machine, source, after=lambda outcome: Total(outcome.text + "?"))
    assert run_to(bind(wrapped, Greeting("Hello")), Left(1), reporter()) == Total(f"{text}?")


def test_bind_keeps_bound_nodes_and_ignores_extra_settings() -> None:
    bound = bind(GREET, Mark("!"), Greeting("Hello"), "something else", 3)
    assert run_to(bind(bound, Mark("?"), Greeting("Bye")), Number(3)) == Total("Hello, 3!")
    assert greet.settings == {"greeting": (Greeting,), "mark": (Mark,)}
