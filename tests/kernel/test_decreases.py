"""`@node(decreases=...)`: the measure is checked at each visit, kept in snapshots, and reset by edges."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
from graphexec.errors import NodeError
from graphexec.kernel import Entered, Limits, MeasureError, Snapshot, snapshot_of
from graphexec.kernel.events import Journal, journal_of
from graphexec.kernel.stepping import replay
from tests.kernel.machines import machine_of, value
from tests.parameters import cases


@value
class Script:
    """The measures of the visits to come; before a `None`, the edge resets the measure."""

    measures: tuple[Any, ...]


@value
class Again:
    measures: tuple[Any, ...]


@value
class Over: ...


@gx.node(decreases=lambda script: script.measures[0])
def follow(script: Script) -> Script | Again | Over:
    rest = script.measures[1:]
    if not rest:
        return Over()
    return Again(rest[1:]) if rest[0] is None else Script(rest)


@gx.node
def start_over(again: Again) -> Script:
    return Script(again.measures)


FOLLOWING = machine_of(follow, start_over, resets={Again: [follow.measure]})
measures = st.one_of(st.integers(-2, 9), st.none(), st.sampled_from([2.0, True, "3", 10**30]))


def first_fault(script: tuple[Any, ...]) -> tuple[Any, int | None] | None:
    """Return the first measure that is refused, and the one before it if it is too large."""
    last: int | None = None
    for one in script:
        if one is not None and (type(one) is not int or one < 0):
            return one, None
        if one is not None and last is not None and one >= last:
            return one, last
        last = one
    return None


@given(script=st.lists(measures, min_size=1, max_size=8).map(tuple))
def test_visits_are_refused_unless_their_measures_fall(script: tuple[Any, ...]) -> None:
    """Two resets in a row, or one at an end, start a part that is empty: it has no first measure."""
    parts = " ".join(map(str, script))
    if script[0] is None or script[-1] is None or "None None" in parts:
        return
    fault = first_fault(script)
    if fault is None:
        done = FOLLOWING.run(Script(script), allow_nonterminating=True)
        assert done.snapshot.spent.meters == {"measure(follow)": script[-1] + 1}
        return
    with pytest.raises(MeasureError) as caught:
        FOLLOWING.run(Script(script), allow_nonterminating=True)
    assert ("follow", *fault) == (caught.value.node, caught.value.measure, caught.value.last)
    assert str(caught.value).startswith("follow ")
    # The state of the run still has the last measure, also after JSON, and the visit is refused again.
    state = snapshot_of(caught.value)
    assert state is not None
    if "10" not in parts:
        state = Snapshot.from_json(state.to_json(), FOLLOWING)
    with pytest.raises(MeasureError) as again:
        FOLLOWING.run(state, allow_nonterminating=True)
    assert again.value.last == caught.value.last


@value
class Todo:
    rest: tuple[str, ...]


def leave(todo: Todo, limit: gx.Exhausted) -> Over:
    return Over()


@gx.node(when_spent=leave, asks=1, decreases=lambda todo: len(todo.rest))
def ask_next(todo: Todo) -> gx.Asks[gx.AskHuman, Todo | Over]:
    reply = yield from gx.ask(gx.AskHuman("next?"))
    return Todo(todo.rest[1:] if reply == "on" else todo.rest) if todo.rest else Over()


ASKING = machine_of(ask_next)


def replying(text: str) -> Any:
    def reply(effect: gx.AskHuman) -> str:
        return text

    return {gx.AskHuman: reply}


ON, AGAIN = replying("on"), replying("again")


def test_proved_machine_runs_without_limits_and_replays() -> None:
    limits = Limits(iterations=None)
    events = [*ASKING.stream(Todo(("a", "b")), handlers=ON, limits=limits)]
    spent = [one.spent["measure(ask_next)"] for one in events if isinstance(one, Entered)]
    assert spent == [0, 3, 2]
    with pytest.raises(MeasureError, match="its measure is 2, and was 2") as caught:
        ASKING.run(Todo(("a", "b")), handlers=AGAIN, limits=limits)
    journal, state = journal_of(caught.value), snapshot_of(caught.value)
    assert isinstance(journal, Journal)
    # The replay ends where the run stood: before the second visit.
    assert [one.spent["measure(ask_next)"] for one in replay(journal, state) if isinstance(one, Entered)] == [0]
    # A person lowers the value of the stopped run.
    assert isinstance(state, Snapshot)
    lowered = Snapshot(state.node, Todo(("b",)), spent=state.spent, sequence=state.sequence)
    assert isinstance(ASKING.run(lowered, handlers=ON, limits=limits).outcome, Over)


def test_used_up_limit_comes_before_the_measure() -> None:
    counted = gx.node(when_spent=leave, meters=[gx.ITERATIONS])(ask_next)
    machine = machine_of(counted)
    assert isinstance(machine.run(Todo(("a",)), handlers=AGAIN, limits=Limits(iterations=1)).outcome, Over)
    assert str(machine.verify(Limits(iterations=3)).bounds.transitions) == "iterations + 1 = 4 (exact)"  # type: ignore[union-attr]


@cases(
    ("mistake", "message"),
    (lambda: gx.node(decreases=cast("Any", 3)), "a node has decreases=3; give a function of the node's value"),
    (lambda: start_over.measure, r"start_over has no measure; write @node\(decreases=...\)"),
)
def test_invalid_measure_is_explained(mistake: Any, message: str) -> None:
    with pytest.raises(NodeError, match=message):
        mistake()


def test_reset_of_a_missing_measure_is_a_fault() -> None:
    plain = gx.node(follow.function)
    routes = gx.on(Script, plain, resets=[follow.measure]) | gx.on(Again, start_over) | gx.on(Over, gx.END)
    with pytest.raises(gx.GraphError, match=r"resets measure\(follow\), but no node is metered by it"):
        gx.graph(gx.edges(plain, routes) | gx.edges(start_over, gx.on(Script, plain)), start=plain)


@value
class Anything:
    """An outcome for a limit whose first field takes any value."""

    given: Any
    limit: gx.Exhausted


def test_outcome_for_a_limit_may_have_a_field_of_any_value() -> None:
    stopping = gx.node(when_spent=Anything, meters=[gx.ITERATIONS])(start_over)
    assert stopping.spent_outcome is Anything
