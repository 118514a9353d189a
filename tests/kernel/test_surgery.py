"""Surgery returns a new, validated graph and leaves the old one unchanged."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import graphexec as gx
from graphexec import kernel
from graphexec.errors import InputError, UndeclaredOutcomeError
from graphexec.kernel import node
from graphexec.kernel.graph import build
from tests.drivers import LIVE
from tests.kernel import machines as m
from tests.kernel.machines import interview, tick, tock
from tests.parameters import cases

loosely: Any = gx.edges


def run_to(machine: gx.Graph[Any, Any], value: object, context: Any = None) -> object:
    return m.run_machine(machine, value, context).outcome


@pytest.fixture(autouse=True)
def _old_graphs_are_untouched() -> Any:
    before = [(str(machine), list(machine)) for machine in (m.DIAMOND, m.CLOCK, m.ERRAND, m.INTERVIEW)]
    yield
    assert [(str(machine), list(machine)) for machine in (m.DIAMOND, m.CLOCK, m.ERRAND, m.INTERVIEW)] == before


round_down = m.pure("round_down", m.Even, m.Sum, lambda even: m.Sum(even.value // 10 * 10, "rounded"))


def test_splice_and_replace_keep_other_edges() -> None:
    machine = gx.replace(m.DIAMOND, node(name="halve")(round_down))
    assert run_to(machine, m.Number(46)) == m.Total("rounded to 40")
    assert run_to(m.DIAMOND, m.Number(46)) == m.Total("halved to 23")
    assert machine.edges == m.DIAMOND.edges
    grouped = gx.replace(m.DIAMOND, dataclasses.replace(m.halve, group="rounding"))
    again = gx.wrap(gx.replace(grouped, m.halve), m.halve, after=lambda value: value)
    assert {one.name: one.group for one in again if one.group} == {"halve": "rounding"}
    assert gx.replace(grouped, dataclasses.replace(m.halve, group="other"))["halve"].group == "other"
    inserted = {"guard", "excuse"}
    added = {edge for edge in GUARDED.edges if edge.source in inserted or edge.target in inserted}
    assert set(GUARDED.edges) - set(m.DIAMOND.edges) == added
    for name in ("split", "halve", "triple", "join"):
        assert GUARDED[name] is m.DIAMOND[name]
    assert m.CLOCK["tock"] is tock
    assert m.DIAMOND["triple"] is m.triple


@m.value
class Refused:
    value: int


guard = m.pure("guard", m.Even, m.Even | Refused, lambda even: even if even.value < 100 else Refused(even.value))
excuse = m.pure("excuse", Refused, m.Total, lambda refused: m.Total(f"{refused.value} is too much"))


def negate(total: m.Sum) -> m.Sum:
    return m.Sum(-total.value, total.way)


def add(end: str) -> Callable[[m.Total], m.Total]:
    return lambda total: m.Total(total.text + end)


note = m.pure("note", m.Sum, m.Sum, lambda total: m.Sum(total.value, f"{total.way}, noted,"))
shout = m.pure("shout", m.Total, m.Total, lambda total: m.Total(total.text.upper()))
keep = m.pure("keep", m.Even | m.Odd, m.Even | m.Odd, lambda number: number)
count = m.pure("count", m.Even | m.Odd, m.Sum, lambda number: m.Sum(number.value, "counted"))


take_as_even = m.pure("split", m.Number, m.Even, lambda number: m.Even(number.value * 2))
NARROWED = gx.replace(m.DIAMOND, take_as_even, narrowed=True)
GUARD_TO_EXCUSE = gx.edges(guard, gx.on(m.Even, m.halve) | gx.on(Refused, excuse))
GUARDED = gx.splice(m.DIAMOND, GUARD_TO_EXCUSE | gx.edges(excuse, gx.on(m.Total, gx.END)), after=m.split, on=m.Even)
NOTED = gx.edges(note, gx.on(m.Sum, m.join))
WRAPPED_TWICE = gx.replace(gx.wrap(GUARDED, guard, before=lambda even: m.Even(even.value + 200)), m.DIAMOND["split"])
KEPT = gx.edges(keep, gx.on(m.Even, m.halve) | gx.on(m.Odd, m.triple))


@cases(
    ("machine", "number", "text"),
    (GUARDED, 6, "halved to 3"),
    (GUARDED, 600, "600 is too much"),
    (GUARDED, 601, "tripled to 1804"),
    # An edge to END.
    (gx.splice(m.DIAMOND, gx.edges(shout, gx.on(m.Total, gx.END)), after=m.join, on=m.Total), 6, "HALVED TO 3"),
    # The edges of other nodes are kept, or one node is inserted into several edges.
    (gx.splice(m.DIAMOND, NOTED, after=m.halve, on=m.Sum), 6, "halved, noted, to 3"),
    (gx.splice(m.DIAMOND, NOTED, after=m.halve, on=m.Sum), 7, "tripled to 22"),
    (gx.splice(m.DIAMOND, NOTED, after=[m.halve, m.triple], on=m.Sum), 6, "halved, noted, to 3"),
    (gx.splice(m.DIAMOND, NOTED, after=[m.halve, m.triple], on=m.Sum), 7, "tripled, noted, to 22"),
    (gx.splice(m.DIAMOND, KEPT, after=m.split, on=[m.Even, m.Odd]), 6, "halved to 3"),
    (gx.splice(m.DIAMOND, KEPT, after=m.split, on=[m.Even, m.Odd]), 7, "tripled to 22"),
    (NARROWED, 7, "halved to 7"),
    # A pure node is wrapped: not at all, before and after, or twice.
    (gx.wrap(m.DIAMOND, m.halve), 6, "halved to 3"),
    (gx.wrap(m.DIAMOND, m.halve, before=lambda even: m.Even(even.value + 2), after=negate), 6, "halved to -4"),
    (gx.wrap(gx.wrap(m.DIAMOND, m.join, after=add("!")), m.join, after=add("?")), 6, "halved to 3!?"),
    # Surgery can be repeated.
    (WRAPPED_TWICE, 6, "206 is too much"),
    (WRAPPED_TWICE, 7, "tripled to 22"),
)
def test_changed_diamond_runs(machine: gx.Graph[m.Number, m.Total], number: int, text: str) -> None:
    assert run_to(machine, m.Number(number)) == m.Total(text)


@cases("kind, splice", (gx.Machine, gx.splice), (gx.Graph, kernel.splice))
def test_surgery_keeps_the_class_of_a_graph(kind: Any, splice: Any) -> None:
    table = gx.edges(m.halve, gx.on(m.Sum, m.join)) | gx.edges(m.join, gx.on(m.Total, gx.END))
    made = build(kind, table, m.halve)
    spliced = splice(made, NOTED, after=m.halve, on=m.Sum)
    changed = gx.wrap(gx.replace(spliced, m.halve), m.join, after=add("!"))
    assert {type(one) for one in (made, spliced, changed, changed.with_settings())} == {kind}
    assert run_to(changed, m.Even(6)) == m.Total("halved, noted, to 3!")


@gx.node(when_spent=m.Halted)
def doubt(interview: m.Interview) -> gx.Asks[m.Question, m.Interview]:
    answer = yield from gx.ask(m.Question("sure?"))
    return m.Interview((*interview.answers, answer))


skip = m.pure("skip", m.Tock, m.Tock, lambda tock: m.Tock(tock.count + 100))


def test_splice_changes_an_asking_node_or_a_loop() -> None:
    rows = gx.edges(doubt, gx.on(m.Interview, gx.END) | gx.on(m.Halted, gx.END))
    machine = gx.splice(m.INTERVIEW, rows, after=interview, on=m.Interview)
    assert run_to(machine, m.Topic("tea", 1), m.reporter()) == m.Interview(("re: tea 0 0", "re: sure?"))
    clock = gx.splice(m.CLOCK, gx.edges(skip, gx.on(m.Tock, tock)), after=tick, on=m.Tock)
    assert m.run_machine(clock, m.Tick(), m.limited(iterations=2)).outcome.at == m.Tick(202)
    faults = m.faults_of(gx.splice, m.DIAMOND, gx.edges(count, gx.on(m.Sum, m.join)), after=m.split, on=[m.Even, m.Odd])
    assert {fault.split()[1] for fault in faults} == {"halve", "triple"}


other = m.pure("other", m.Odd, m.Odd, lambda odd: odd)
misfitting = m.pure("misfitting", m.Odd, m.Sum | m.Total, lambda even: m.Total(""))
unmetered = m.pure("unmetered", m.Tick, m.Tock | m.Stopped, lambda tick: m.Tock(tick.count))


ROWS = gx.edges(guard, gx.on(m.Even, m.halve) | gx.on(Refused, gx.END))
NO_NODE = "the graph has no node {}; its nodes are split, halve, triple, join"


# Any: type checkers refuse some of these.
def splice(rows: Any = ROWS, *, after: Any = m.split, on: Any = m.Even) -> object:
    return gx.splice(m.DIAMOND, rows, after=after, on=on)


TAKEN = "the graph already has a node {}; rename the function, or use replace"
renamed_guard: Any = gx.edges(node(name="halve")(guard), gx.on(m.Even, m.halve) | gx.on(Refused, gx.END))


@cases(
    ("change", "faults"),
    (lambda: gx.replace(m.DIAMOND, node(name="quarter")(m.halve)), NO_NODE.format("quarter")),
    (
        lambda: gx.replace(m.DIAMOND, node(name="halve")(misfitting)),
        "split sends Even to halve, which takes Odd; send it to a node that takes it\n"
        "halve may return Total, which no edge takes; add on(Total, ...)",
    ),
    (
        lambda: gx.replace(m.CLOCK, node(name="tick")(unmetered)),
        "tick is metered by iterations in the graph and not in its replacement; add meters=[...] to its @node",
    ),
    (lambda: splice(on=m.Sum), "split has no edge for Sum; splice on one of Even, Odd"),
    (lambda: splice(after=tick, on=m.Sum), NO_NODE.format("tick")),
    (
        lambda: splice(NOTED, after=[m.halve, m.split, m.join], on=m.Sum),
        "split has no edge for Sum; splice on one of Even, Odd\njoin has no edge for Sum; splice on one of Total",
    ),
    (
        lambda: splice(NOTED, after=[m.halve, m.triple], on=[m.Sum, m.Total]),
        "none of halve, triple has an edge for Total; leave Total out of on=",
    ),
    (lambda: splice(renamed_guard), TAKEN.format("halve")),
    (lambda: splice(ROWS | ROWS), f"{TAKEN.format('guard')}\n{TAKEN.format('guard')}"),
    (
        lambda: splice(GUARD_TO_EXCUSE),
        "guard leads to excuse, which is not in the graph; add edges(excuse, ...) to the table",
    ),
    (
        lambda: splice(loosely(guard, gx.on(m.Even, m.halve))),
        "guard may return Refused, which no edge takes; add on(Refused, ...)",
    ),
    (
        lambda: splice(gx.edges(other, gx.on(m.Odd, m.triple))),
        "split sends Even to other, which takes Odd; send it to a node that takes it\n"
        "halve cannot be reached from split; route an outcome to it, or remove its row",
    ),
    (lambda: gx.wrap(m.DIAMOND, tick), NO_NODE.format("tick")),
    (
        lambda: run_to(GREET.with_settings(Mark("!"), Mark("?")), m.Number(3)),
        "greet needs one Greeting for greeting, and none was given; pass it to machine.with_settings(...)\n"
        "greet needs one Mark for mark, and 2 were given; pass it to machine.with_settings(...)",
    ),
)
def test_change_with_faults_is_refused(change: Callable[[], object], faults: str) -> None:
    assert m.error_message(gx.GraphError, change) == faults


@cases(
    ("change", "text"),
    (lambda: splice(on=[]), "splice has on=[]; give an outcome class, or a list of them"),
    (lambda: splice(on=[m.Even, "Odd"]), "give an outcome class, or a list of them"),
    (lambda: splice(on={m.Even}), "give an outcome class, or a list of them"),
    (lambda: splice(after=()), "splice has after=(); give a node, or a list of them"),
    (lambda: splice(after="split"), "splice has after='split'; give a node, or a list of them"),
)
def test_change_of_an_invalid_edge_is_refused(change: Callable[[], object], text: str) -> None:
    assert text in m.error_message(InputError, change)


def test_narrowed_replacement_takes_nodes_with_it() -> None:
    assert list(NARROWED.nodes) == ["split", "halve", "join"]
    assert [edge.outcome for edge in NARROWED.edges if edge.source == "split"] == [m.Even]


doubt_total = m.pure("doubt_total", m.Total, m.Total | Refused, lambda total: total)
insist = m.pure("insist", Refused, m.Total, lambda refused: m.Total(str(refused.value)))
DOUBTING: Any = gx.splice(
    m.DIAMOND,
    gx.edges(doubt_total, gx.on(m.Total, gx.END) | gx.on(Refused, insist))
    | gx.edges(insist, gx.on(m.Total, doubt_total)),
    after=m.join,
    on=m.Total,
)


def test_run_of_a_spliced_loop_is_refused() -> None:
    """Surgery changes the table alone; the proof is asked for where the machine runs."""
    with pytest.raises(gx.UnprovedError) as caught:
        DOUBTING.run(m.Number(6))
    (finding,) = caught.value.verdict.findings
    assert finding.witness is not None
    assert {step.source for step in finding.witness.loop} == {"doubt_total", "insist"}
    assert DOUBTING.run(m.Number(6), allow_nonterminating=True).outcome == m.Total("halved to 3")


def shout_topic(topic: m.Topic) -> m.Topic:
    return m.Topic(topic.name.upper(), topic.questions)


# Any: an outcome for a limit is not given to it.
def turn_round(interview: Any) -> m.Interview:
    return m.Interview(interview.answers[::-1])


def add_tea(home: Any) -> m.Home:
    return m.Home((*home.stops, "tea"))


def test_asking_async_and_opaque_nodes_can_be_wrapped() -> None:
    machine: gx.Machine[Any, Any] = gx.wrap(m.INTERVIEW, interview, before=shout_topic, after=turn_round)
    assert run_to(machine, m.Topic("tea", 2), m.reporter()) == m.Interview(("re: TEA 1 1", "re: TEA 0 0"))
    machine = gx.wrap(m.ERRAND, m.leave, before=lambda errand: m.Errand((*errand.stops, "keys")))
    assert run_to(machine, m.Errand()) == m.Home(("keys", "left", "back"))
    machine = gx.wrap(m.ERRAND, m.come_back, after=add_tea)
    assert run_to(machine, m.Errand()) == m.Home(("left", "back", "tea"))


def test_wrap_sees_what_a_node_returns() -> None:
    seen: list[object] = []

    def look(outcome: Any) -> Any:
        seen.append(outcome)
        return m.Total("wrong") if isinstance(outcome, m.Sum) else outcome

    # It does not see the outcome for a limit.
    machine = gx.wrap(m.CLOCK, tick, after=look)
    assert isinstance(m.run_machine(machine, m.Tick(), m.limited(iterations=1), LIVE[:1]).outcome, m.Stopped)
    assert seen == [m.Tock(1)]
    # It may not return an outcome that the node does not declare.
    message = m.error_message(UndeclaredOutcomeError, run_to, gx.wrap(m.DIAMOND, m.halve, after=look), m.Number(6))
    assert "halve returned a Total" in message


@dataclass(frozen=True)
class Greeting:
    word: str


@dataclass(frozen=True)
class Mark:
    text: str


@gx.node
def greet(number: m.Number, greeting: Greeting, *, mark: Mark) -> m.Total:
    return m.Total(f"{greeting.word}, {number.value}{mark.text}")


@gx.node(when_spent=m.Stopped)
def ask_politely(left: m.Left, greeting: Greeting) -> gx.Asks[m.Question, m.Total]:
    return m.Total((yield from gx.ask(m.Question(greeting.word))))


@gx.node(when_spent=m.Stopped, opaque=True)
def shout_out(left: m.Left, greeting: Greeting) -> m.Total:
    return m.Total(greeting.word.upper())


@gx.node(when_spent=m.Stopped)
async def whisper(left: m.Left, greeting: Greeting) -> m.Total:
    return m.Total(greeting.word.lower())


GREET: gx.Graph[m.Number, m.Total] = m.machine_of(greet)


@gx.node
def with_three(number: m.Number, greeting: Greeting, mark: Mark, left: m.Left) -> m.Total:
    return m.Total(f"{greeting.word} {number.value}{mark.text} {left.steps}")


@gx.node
def with_call(number: m.Number, call: gx.CallContext[None], greeting: Greeting) -> m.Total:
    return m.Total(f"{greeting.word} {number.value} in {call.node}")


@cases(
    ("greeter", "text"),
    (with_three, "Hi 3! 7"),
    (with_call, "Hi 3 in with_call"),
    (greet, "Hi, 3!"),
)
def test_node_receives_its_settings(greeter: gx.Node[m.Number, m.Total], text: str) -> None:
    machine = m.machine_of(greeter).with_settings(m.Left(7), Mark("!"), Greeting("Hi"), "something else", 3)
    assert run_to(machine, m.Number(3)) == m.Total(text)
    again = machine.with_settings(m.Left(7), Mark("?"), Greeting("Hi"))
    assert run_to(again, m.Number(3)) == m.Total(text.replace("!", "?"))
    assert greet.parameters == {"greeting": (Greeting,), "mark": (Mark,)}


@cases(("source", "text"), (ask_politely, "re: Hello"), (shout_out, "HELLO"), (whisper, "hello"))
def test_every_kind_of_node_has_settings_and_is_wrapped(source: Any, text: str) -> None:
    machine = m.machine_of(source)
    assert run_to(machine.with_settings(Greeting("Hello")), m.Left(1), m.reporter()) == m.Total(text)
    wrapped = gx.wrap(machine, source, after=lambda outcome: m.Total(outcome.text + "?"))
    assert run_to(wrapped.with_settings(Greeting("Hello")), m.Left(1), m.reporter()) == m.Total(f"{text}?")
