"""Surgery returns a new, validated graph and leaves the old one unchanged."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.errors import InputError, UndeclaredOutcomeError
from graphexec.kernel import bind, drop_edge, rename
from graphexec.kernel.surgery import unbind
from graphexec.runtime import make_run_context
from tests.drivers import LIVE, Script, run_script
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
    halve,
    interview,
    join,
    leave,
    limited,
    reporter,
    split,
    tick,
    tock,
    triple,
    without_handlers,
)
from tests.parameters import cases

loosely: Any = gx.edges


def outcome_of(machine: gx.Graph[Any, Any], value: object, make_context: Any = without_handlers) -> object:
    return run_script(lambda: Script(machine, value, make_context())).outcome


def text_of(error: Any) -> str:
    return str(error.value)


@pytest.fixture(autouse=True)
def _old_graphs_are_untouched() -> Any:
    before = [(str(machine), list(machine)) for machine in (DIAMOND, CLOCK, ERRAND, INTERVIEW)]
    yield
    assert [(str(machine), list(machine)) for machine in (DIAMOND, CLOCK, ERRAND, INTERVIEW)] == before


# ---- replace


def test_replace_changes_the_function_of_a_node() -> None:
    @gx.node
    def round_down(even: Even) -> Sum:
        return Sum(even.value // 10 * 10, "rounded")

    machine = gx.replace(DIAMOND, rename(round_down, "halve"))
    assert outcome_of(machine, Number(46)) == Total("rounded to 40")
    assert outcome_of(DIAMOND, Number(46)) == Total("halved to 23")
    assert machine.edges == DIAMOND.edges


def test_surgery_keeps_the_groups_of_nodes() -> None:
    grouped = gx.replace(DIAMOND, dataclasses.replace(halve, group="rounding"))
    again = bind(gx.wrap(gx.replace(grouped, halve), halve, after=lambda value: value))
    assert {one.name: one.group for one in again if one.group} == {"halve": "rounding"}
    assert gx.replace(grouped, dataclasses.replace(halve, group="other"))["halve"].group == "other"


def test_replace_of_a_missing_node_is_refused() -> None:
    with pytest.raises(gx.GraphError) as caught:
        gx.replace(DIAMOND, rename(halve, "quarter"))
    assert text_of(caught) == "the graph has no node quarter; its nodes are split, halve, triple, join"


def test_replace_with_a_misfitting_node_is_refused() -> None:
    @gx.node
    def halve(even: Odd) -> Sum | Total:
        return Total("")

    with pytest.raises(gx.GraphError) as caught:
        gx.replace(DIAMOND, halve)
    assert text_of(caught).splitlines() == [
        "split sends Even to halve, which takes Odd; send it to a node that takes it",
        "halve may return Total, which no edge takes; add on(Total, ...)",
    ]


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


def test_splice_inserts_nodes_into_one_edge() -> None:
    assert outcome_of(guarded(), Number(6)) == Total("halved to 3")
    assert outcome_of(guarded(), Number(600)) == Total("600 is too much")
    assert outcome_of(guarded(), Number(601)) == Total("tripled to 1804")
    assert set(guarded().edges) - set(DIAMOND.edges) == {
        edge for edge in guarded().edges if edge.source in ("guard", "excuse") or edge.target in ("guard", "excuse")
    }


def test_pictures_show_the_spliced_node() -> None:
    assert "guard" in f"{guarded():mermaid}"
    assert "Refused" in f"{guarded():mermaid}"
    assert "guard" in f"{guarded():dot}"
    assert "guard" not in f"{DIAMOND:mermaid}"


def test_spliced_node_may_ask() -> None:
    machine = gx.splice(
        INTERVIEW, gx.edges(doubt, gx.on(Interview, gx.END) | gx.on(Unsure, gx.END)), after=interview, on=Interview
    )
    assert outcome_of(machine, Topic("tea", 1), reporter) == Interview(("re: tea 0 0", "re: sure?"))


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


def test_splice_on_an_edge_to_end() -> None:
    @gx.node
    def shout(total: Total) -> Total:
        return Total(total.text.upper())

    machine = gx.splice(DIAMOND, gx.edges(shout, gx.on(Total, gx.END)), after=join, on=Total)
    assert outcome_of(machine, Number(6)) == Total("HALVED TO 3")


def test_splice_keeps_the_edges_of_other_nodes() -> None:
    @gx.node
    def note(total: Sum) -> Sum:
        return Sum(total.value, f"{total.way}, noted,")

    machine = gx.splice(DIAMOND, gx.edges(note, gx.on(Sum, join)), after=halve, on=Sum)
    assert outcome_of(machine, Number(6)) == Total("halved, noted, to 3")
    assert outcome_of(machine, Number(7)) == Total("tripled to 22")


def test_splice_into_a_loop() -> None:
    @gx.node
    def skip(tock: Tock) -> Tock:
        return Tock(tock.count + 100)

    machine = gx.splice(CLOCK, gx.edges(skip, gx.on(Tock, tock)), after=tick, on=Tock)
    result = run_script(lambda: Script(machine, Tick(), limited(iterations=2)))
    assert result.outcome.at == Tick(202)


def test_splice_on_a_missing_edge_is_refused() -> None:
    with pytest.raises(gx.GraphError) as caught:
        gx.splice(DIAMOND, gx.edges(guard, gx.on(Even, halve) | gx.on(Refused, gx.END)), after=split, on=Sum)
    assert text_of(caught) == "split has no edge for Sum; splice on one of Even, Odd"
    with pytest.raises(gx.GraphError) as caught:
        gx.splice(DIAMOND, gx.edges(guard, gx.on(Even, halve) | gx.on(Refused, gx.END)), after=tick, on=Sum)
    assert text_of(caught) == "the graph has no node tick; its nodes are split, halve, triple, join"


@cases(
    ("options", "text"),
    [
        ({"on": []}, "splice has on=[]; give an outcome class, or a list of them"),
        ({"on": [Even, "Odd"]}, "give an outcome class, or a list of them"),
        ({"on": {Even}}, "give an outcome class, or a list of them"),
        ({"after": ()}, "splice has after=(); give a node, or a list of them"),
        ({"after": "split"}, "splice has after='split'; give a node, or a list of them"),
    ],
)
def test_splice_on_an_invalid_edge_is_refused(options: dict[str, Any], text: str) -> None:
    place: dict[str, Any] = {"after": split, "on": Even} | options
    with pytest.raises(InputError, match=re.escape(text)):
        gx.splice(DIAMOND, gx.edges(guard, gx.on(Even, halve) | gx.on(Refused, gx.END)), **place)


def test_splice_of_a_used_name_is_refused() -> None:
    named = rename(guard, "halve")
    with pytest.raises(gx.GraphError) as caught:
        gx.splice(DIAMOND, gx.edges(named, gx.on(Even, halve) | gx.on(Refused, gx.END)), after=split, on=Even)
    assert text_of(caught) == "the graph already has a node halve; rename the function, or use replace"


def test_splice_of_a_repeated_node_is_refused() -> None:
    rows = gx.edges(guard, gx.on(Even, halve) | gx.on(Refused, gx.END))
    with pytest.raises(gx.GraphError) as caught:
        gx.splice(DIAMOND, rows | rows, after=split, on=Even)
    assert "the graph already has a node guard; rename the function, or use replace" in text_of(caught)


def test_splice_to_an_unknown_node_is_refused() -> None:
    with pytest.raises(gx.GraphError) as caught:
        gx.splice(DIAMOND, gx.edges(guard, gx.on(Even, halve) | gx.on(Refused, excuse)), after=split, on=Even)
    assert text_of(caught) == "guard leads to excuse, which is not in the graph; add edges(excuse, ...) to the table"


def test_splice_of_an_incomplete_table_is_refused() -> None:
    with pytest.raises(gx.GraphError) as caught:
        gx.splice(DIAMOND, loosely(guard, gx.on(Even, halve)), after=split, on=Even)
    assert text_of(caught) == "guard may return Refused, which no edge takes; add on(Refused, ...)"


def test_splice_of_a_misfitting_node_is_refused() -> None:
    @gx.node
    def other(odd: Odd) -> Odd:
        return odd

    with pytest.raises(gx.GraphError) as caught:
        gx.splice(DIAMOND, gx.edges(other, gx.on(Odd, triple)), after=split, on=Even)
    assert "split sends Even to other, which takes Odd; send it to a node that takes it" in text_of(caught)


def test_splice_inserts_one_node_into_several_edges() -> None:
    @gx.node
    def note(total: Sum) -> Sum:
        return Sum(total.value, f"{total.way}, noted,")

    machine = gx.splice(DIAMOND, gx.edges(note, gx.on(Sum, join)), after=[halve, triple], on=Sum)
    assert outcome_of(machine, Number(6)) == Total("halved, noted, to 3")
    assert outcome_of(machine, Number(7)) == Total("tripled, noted, to 22")


def test_splice_inserts_one_node_for_several_outcomes() -> None:
    @gx.node
    def count(number: Even | Odd) -> Sum:
        return Sum(number.value, "counted")

    with pytest.raises(gx.GraphError) as caught:
        gx.splice(DIAMOND, gx.edges(count, gx.on(Sum, join)), after=split, on=[Even, Odd])
    assert {fault.text.partition(" ")[0] for fault in caught.value.faults} == {"halve", "triple"}

    @gx.node
    def keep(number: Even | Odd) -> Even | Odd:
        return number

    machine = gx.splice(DIAMOND, gx.edges(keep, gx.on(Even, halve) | gx.on(Odd, triple)), after=split, on=[Even, Odd])
    assert outcome_of(machine, Number(6)) == Total("halved to 3")
    assert outcome_of(machine, Number(7)) == Total("tripled to 22")


def test_splice_needs_an_edge_for_each_pair() -> None:
    @gx.node
    def note(total: Sum) -> Sum:
        return total

    rows = gx.edges(note, gx.on(Sum, join))
    with pytest.raises(gx.GraphError) as caught:
        gx.splice(DIAMOND, rows, after=[halve, split, join], on=Sum)
    assert text_of(caught).splitlines() == [
        "split has no edge for Sum; splice on one of Even, Odd",
        "join has no edge for Sum; splice on one of Total",
    ]
    with pytest.raises(gx.GraphError) as caught:
        gx.splice(DIAMOND, rows, after=[halve, triple], on=[Sum, Total])
    assert text_of(caught) == "none of halve, triple has an edge for Total; leave Total out of on="


# ---- drop_edge


def test_dropped_edge_is_not_taken() -> None:
    machine = drop_edge(DIAMOND, after=split, on=Odd)
    assert list(machine.nodes) == ["split", "halve", "join"]
    assert [edge.outcome for edge in machine.edges if edge.source == "split"] == [Even]
    assert outcome_of(machine, Number(6)) == Total("halved to 3")
    with pytest.raises(UndeclaredOutcomeError, match="split returned"):
        outcome_of(machine, Number(7))
    assert "triple" in DIAMOND


def test_edge_of_when_spent_cannot_be_dropped() -> None:
    with pytest.raises(gx.GraphError) as caught:
        drop_edge(CLOCK, after=tick, on=Stopped)
    assert text_of(caught) == "tick returns Stopped when a limit stops it; keep the edge, or splice into it"


def test_only_edge_of_a_node_cannot_be_dropped() -> None:
    with pytest.raises(gx.GraphError) as caught:
        drop_edge(DIAMOND, after=halve, on=Sum)
    assert text_of(caught) == "halve returns nothing but Sum; keep the edge, or splice into it"


def test_dropping_a_missing_edge_is_refused() -> None:
    with pytest.raises(gx.GraphError) as caught:
        drop_edge(DIAMOND, after=split, on=Sum)
    assert text_of(caught) == "split has no edge for Sum; drop one of Even, Odd"
    several: Any = [Even, Odd]
    with pytest.raises(InputError, match="give one node and one outcome class"):
        drop_edge(DIAMOND, after=split, on=several)


# ---- wrap


def test_wrap_changes_a_pure_node() -> None:
    machine = gx.wrap(
        DIAMOND, halve, before=lambda even: Even(even.value + 2), after=lambda total: Sum(-total.value, total.way)
    )
    assert outcome_of(machine, Number(6)) == Total("halved to -4")


def test_wrap_changes_an_asking_node() -> None:
    machine = gx.wrap(
        INTERVIEW,
        interview,
        before=lambda topic: Topic(topic.name.upper(), topic.questions),
        after=lambda outcome: Interview(outcome.answers[::-1]) if isinstance(outcome, Interview) else outcome,
    )
    assert outcome_of(machine, Topic("tea", 2), reporter) == Interview(("re: TEA 1 1", "re: TEA 0 0"))


def test_wrap_changes_an_async_node() -> None:
    machine = gx.wrap(ERRAND, leave, before=lambda errand: Errand((*errand.stops, "keys")))
    assert outcome_of(machine, Errand()) == Home(("keys", "left", "back"))


def test_wrap_changes_an_opaque_node() -> None:
    machine = gx.wrap(
        ERRAND, come_back, after=lambda home: Home((*home.stops, "tea")) if isinstance(home, Home) else home
    )
    assert outcome_of(machine, Errand()) == Home(("left", "back", "tea"))


def test_wrap_without_functions_changes_nothing() -> None:
    assert outcome_of(gx.wrap(DIAMOND, halve), Number(6)) == Total("halved to 3")


def test_wraps_can_be_nested() -> None:
    machine = gx.wrap(DIAMOND, join, after=lambda total: Total(total.text + "!"))
    machine = gx.wrap(machine, join, after=lambda total: Total(total.text + "?"))
    assert outcome_of(machine, Number(6)) == Total("halved to 3!?")


def test_wrap_ignores_the_when_spent_outcome() -> None:
    seen: list[object] = []

    def look(outcome: Any) -> Any:
        seen.append(outcome)
        return outcome

    machine = gx.wrap(CLOCK, tick, after=look)
    result = run_script(lambda: Script(machine, Tick(), limited(iterations=1)), drivers=LIVE[:1])
    assert isinstance(result.outcome, Stopped)
    assert seen == [Tock(1)]


def test_undeclared_outcome_of_a_wrap_is_refused() -> None:
    from graphexec.errors import UndeclaredOutcomeError

    def wrong(_: object) -> Any:
        return Total("wrong")

    with pytest.raises(UndeclaredOutcomeError, match="halve returned a Total"):
        outcome_of(gx.wrap(DIAMOND, halve, after=wrong), Number(6))


def test_wrap_of_a_missing_node_is_refused() -> None:
    with pytest.raises(gx.GraphError, match="the graph has no node tick"):
        gx.wrap(DIAMOND, tick)


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
def shout(left: Left, greeting: Greeting) -> Total:
    return Total(greeting.word.upper())


@gx.charged(when_spent=Stopped)
@gx.node
async def whisper(left: Left, greeting: Greeting) -> Total:
    return Total(greeting.word.lower())


GREET: gx.Graph[Number, Total] = gx.graph(gx.edges(greet, gx.on(Total, gx.END)), start=greet)


def test_bind_supplies_settings_by_class() -> None:
    assert outcome_of(bind(GREET, Mark("!"), Greeting("Hello")), Number(3)) == Total("Hello, 3!")


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
    [(with_one, "Hi 3"), (with_two, "Hi 3!"), (with_three, "Hi 3! 7"), (with_call, "Hi 3 in with_call")],
)
def test_bound_node_receives_its_settings(greeter: gx.Node[Number, Total], text: str) -> None:
    table: gx.Graph[Number, Total] = gx.graph(gx.edges(greeter, gx.on(Total, gx.END)), start=greeter)
    bound = bind(table, Left(7), Mark("!"), Greeting("Hi"))
    assert outcome_of(bound, Number(3)) == Total(text)
    again = bind(unbind(bound), Left(7), Mark("?"), Greeting("Hi"))
    assert outcome_of(again, Number(3)) == Total(text.replace("!", "?"))


@cases(
    ("source", "text"),
    [(ask_politely, "re: Hello"), (shout, "HELLO"), (whisper, "hello")],
)
def test_bind_supplies_every_kind_of_node(source: Any, text: str) -> None:
    machine = gx.graph(gx.edges(source, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=source)
    assert outcome_of(bind(machine, Greeting("Hello")), Left(1), reporter) == Total(text)


@cases("source", [ask_politely, shout, whisper])
def test_node_may_be_wrapped_before_it_is_bound(source: Any) -> None:
    machine = gx.graph(gx.edges(source, gx.on(Total, gx.END) | gx.on(Stopped, gx.END)), start=source)
    wrapped = gx.wrap(machine, source, after=lambda outcome: Total(outcome.text + "?"))
    bound = outcome_of(bind(wrapped, Greeting("Hello")), Left(1), reporter)
    assert isinstance(bound, Total)
    assert bound.text.endswith("?")


def test_bind_keeps_bound_nodes_and_ignores_extra_settings() -> None:
    bound = bind(GREET, Mark("!"), Greeting("Hello"), "something else", 3)
    assert outcome_of(bind(bound, Mark("?"), Greeting("Bye")), Number(3)) == Total("Hello, 3!")
    assert greet.settings == {"greeting": (Greeting,), "mark": (Mark,)}


def test_bind_reports_missing_and_ambiguous_settings() -> None:
    with pytest.raises(gx.GraphError) as caught:
        bind(GREET, Mark("!"), Mark("?"))
    assert text_of(caught).splitlines() == [
        "greet needs one Greeting for greeting, and none was given; pass it to bind(machine, ...)",
        "greet needs one Mark for mark, and 2 were given; pass it to bind(machine, ...)",
    ]


def test_surgery_can_be_repeated() -> None:
    machine = gx.wrap(guarded(), guard, before=lambda even: Even(even.value + 200))
    machine = gx.replace(machine, machine["split"])
    assert outcome_of(machine, Number(6)) == Total("206 is too much")
    assert outcome_of(machine, Number(7)) == Total("tripled to 22")


def test_splice_keeps_other_node_objects() -> None:
    for name in ("split", "halve", "triple", "join"):
        assert guarded()[name] is DIAMOND[name]
    assert CLOCK["tock"] is tock
    assert DIAMOND["triple"] is triple
    assert make_run_context({}).limits.iterations == 15


def test_replacement_without_the_meter_is_refused() -> None:
    @gx.node
    def tick(tick: Tick) -> Tock | Stopped:
        return Tock(tick.count)

    text = "tick is metered by iterations in the graph and not in its replacement; decorate it with @metered(...)"
    with pytest.raises(gx.GraphError) as caught:
        gx.replace(CLOCK, tick)
    assert str(caught.value) == text
