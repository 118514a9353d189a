"""Budgets of a machine's own: charged at the gate of a node, and full again where an edge says so."""

import math
from dataclasses import dataclass
from typing import Any, final

import pytest

from graphexec import (
    END,
    Asks,
    Budget,
    Done,
    Exhausted,
    Graph,
    GraphError,
    Limits,
    Snapshot,
    Spent,
    advance,
    ask,
    begin,
    charged,
    edges,
    graph,
    metered,
    node,
    on,
)
from graphexec.effects import agent_limits
from graphexec.errors import LimitsError
from graphexec.kernel import ITERATIONS, PendingEffect
from graphexec.runtime import RunContext
from tests.drivers import DriverResult, Script, run_script
from tests.kernel.machines import CLOCK, INTERVIEW, Interview, Question, Stopped, Tick, Topic, limited, nobody, reporter

# ---- a book: its chapters are written, read, and revised as often as they have flaws

REVISIONS = Budget("revisions", 2)


@final
@dataclass(frozen=True)
class Chapters:
    """The flaws of each chapter that is still to be written."""

    flaws: tuple[int, ...]


@final
@dataclass(frozen=True)
class Text:
    flaws: tuple[int, ...]


@final
@dataclass(frozen=True)
class Poor:
    flaws: tuple[int, ...]


@final
@dataclass(frozen=True)
class Book:
    pass


@final
@dataclass(frozen=True)
class GaveUp:
    at: Poor
    limit: Exhausted


@node
def write(chapters: Chapters) -> Text:
    return Text(chapters.flaws)


@node
def read(text: Text) -> Poor | Chapters | Book:
    first, *others = text.flaws
    if first:
        return Poor(text.flaws)
    return Chapters(tuple(others)) if others else Book()


@node
def mend(poor: Poor) -> Text:
    return Text((poor.flaws[0] - 1, *poor.flaws[1:]))


revise = metered(when_spent=GaveUp, budget=REVISIONS)(mend)


def book(*, resets: tuple[Budget, ...] = (REVISIONS,)) -> Graph[Chapters, Book | GaveUp]:
    """A machine that writes books; the next chapter has its revisions anew, unless `resets` says otherwise."""
    return graph(
        edges(write, on(Text, read))
        | edges(read, on(Poor, revise) | on(Chapters, write, resets=resets) | on(Book, END))
        | edges(revise, on(Text, read) | on(GaveUp, END)),
        start=write,
    )


def written(*flaws: int, of: Graph[Chapters, Any] | None = None, within: RunContext | None = None) -> DriverResult[Any]:
    machine = book() if of is None else of
    return run_script(lambda: Script(machine, Chapters(flaws), within or nobody()))


def allowing(revisions: int | None) -> RunContext:
    return nobody(Limits(budgets={"revisions": revisions}))


def test_a_node_is_entered_as_often_as_its_budget_says() -> None:
    result = written(3)
    assert result.outcome == GaveUp(Poor((1,)), Exhausted("revisions", 2, 2))
    assert result.spent == Spent(budgets={"revisions": 2})


def test_what_is_not_spent_is_told_as_nothing() -> None:
    result = written(0)
    assert (result.outcome, result.spent) == (Book(), Spent(budgets={"revisions": 0}))


def test_a_machine_without_budgets_of_its_own_tells_of_none() -> None:
    assert run_script(lambda: Script(CLOCK, Tick(), limited(iterations=2))).spent == Spent(iterations=2)


@pytest.mark.parametrize(("allowed", "flaws", "ends"), [(0, 1, GaveUp), (0, 0, Book), (1, 2, GaveUp), (5, 5, Book)])
def test_the_limits_of_a_run_may_say_another_number(allowed: int, flaws: int, ends: type) -> None:
    result = written(flaws, within=allowing(allowed))
    assert type(result.outcome) is ends
    assert result.spent.budgets == {"revisions": min(allowed, flaws)}
    if isinstance(result.outcome, GaveUp):
        assert result.outcome.limit == Exhausted("revisions", allowed, allowed)


def test_the_limits_of_a_run_may_lift_a_budgets() -> None:
    result = written(30, within=allowing(None))
    assert (result.outcome, result.spent.budgets) == (Book(), {"revisions": 30})


def test_a_budget_without_a_limit_only_counts() -> None:
    counting = metered(when_spent=GaveUp, budget=Budget("revisions"))(mend)
    machine = graph(
        edges(write, on(Text, read))
        | edges(read, on(Poor, counting) | on(Chapters, write) | on(Book, END))
        | edges(counting, on(Text, read) | on(GaveUp, END)),
        start=write,
    )
    assert machine.budgets == {"revisions": None}
    assert written(7, 7, of=machine).spent.budgets == {"revisions": 14}
    assert type(written(2, of=machine, within=allowing(1)).outcome) is GaveUp


def test_a_machine_knows_its_budgets_and_iterations_are_none_of_them() -> None:
    assert book().budgets == {"revisions": 2}
    assert CLOCK.budgets == {}


# ---- resets


def test_an_edge_that_resets_a_budget_makes_it_full_again() -> None:
    result = written(2, 2, 1)
    assert (result.outcome, result.spent.budgets) == (Book(), {"revisions": 1})
    assert written(2, 3).outcome == GaveUp(Poor((1,)), Exhausted("revisions", 2, 2))


def test_an_edge_that_does_not_leaves_it_as_it_is() -> None:
    result = written(2, 2, 1, of=book(resets=()))
    assert result.outcome == GaveUp(Poor((2, 1)), Exhausted("revisions", 2, 2))


def test_iterations_can_be_reset_as_well() -> None:
    iterated = metered(when_spent=GaveUp)(mend)

    def machine(*resets: Budget) -> Graph[Chapters, Book | GaveUp]:
        return graph(
            edges(write, on(Text, read))
            | edges(read, on(Poor, iterated) | on(Chapters, write, resets=resets) | on(Book, END))
            | edges(iterated, on(Text, read) | on(GaveUp, END)),
            start=write,
        )

    again = written(2, 1, of=machine(ITERATIONS), within=limited(iterations=2))
    assert (again.outcome, again.spent) == (Book(), Spent(iterations=1))
    once = written(2, 1, of=machine(), within=limited(iterations=2))
    assert once.outcome == GaveUp(Poor((1,)), Exhausted("iterations", 2, 2))


def test_a_reset_leaves_the_other_budgets_alone() -> None:
    twice = metered(when_spent=GaveUp)(revise)
    machine = graph(
        edges(write, on(Text, read))
        | edges(read, on(Poor, twice) | on(Chapters, write, resets=[REVISIONS]) | on(Book, END))
        | edges(twice, on(Text, read) | on(GaveUp, END)),
        start=write,
    )
    result = written(2, 2, of=machine)
    assert (result.outcome, result.spent) == (Book(), Spent(iterations=4, budgets={"revisions": 2}))


def test_an_edge_shows_what_it_resets() -> None:
    assert "read --Chapters (revisions again)--> write" in str(book()).splitlines()
    assert "read --Chapters--> write" in str(book(resets=())).splitlines()


# ---- several budgets of one node

PATIENCE = Budget("patience", 3)


def pressed(*budgets: Budget) -> Graph[Chapters, Book | GaveUp]:
    """A book whose revisions cost one of each of the budgets, of which the first is written lowest."""
    # Its outcomes are those of `revise`, but only from the first budget on.
    costly: Any = mend
    for budget in budgets:
        costly = metered(when_spent=GaveUp, budget=budget)(costly)
    row: Any = edges
    return graph(
        edges(write, on(Text, read))
        | edges(read, on(Poor, costly) | on(Chapters, write) | on(Book, END))
        | row(costly, on(Text, read) | on(GaveUp, END)),
        start=write,
    )


def test_an_entry_costs_one_of_each_budget() -> None:
    result = written(2, of=pressed(REVISIONS, PATIENCE))
    assert result.spent == Spent(budgets={"revisions": 2, "patience": 2})


def test_an_entry_that_one_budget_does_not_allow_costs_nothing_of_the_others() -> None:
    result = written(9, of=pressed(PATIENCE, REVISIONS, ITERATIONS))
    assert result.outcome.limit == Exhausted("revisions", 2, 2)
    assert result.spent == Spent(iterations=2, budgets={"revisions": 2, "patience": 2})


def test_of_several_spent_budgets_iterations_are_named_first_and_then_the_lowest_decorator() -> None:
    machine = pressed(PATIENCE, REVISIONS, ITERATIONS)

    def named(iterations: int, patience: int, revisions: int) -> str:
        limits = Limits(iterations=iterations, budgets={"patience": patience, "revisions": revisions})
        limit: Exhausted = written(1, of=machine, within=nobody(limits)).outcome.limit
        return limit.limit

    assert named(0, 0, 0) == "iterations"
    assert named(1, 0, 0) == "patience"
    assert named(1, 1, 0) == "revisions"


def test_the_same_budget_twice_is_charged_once() -> None:
    assert written(2, of=pressed(REVISIONS, REVISIONS)).spent.budgets == {"revisions": 2}


def test_nodes_may_share_a_budget() -> None:
    costly = metered(when_spent=Unwritten, budget=REVISIONS)(write)
    machine = graph(
        edges(costly, on(Text, read) | on(Unwritten, END))
        | edges(read, on(Poor, revise) | on(Chapters, costly) | on(Book, END))
        | edges(revise, on(Text, read) | on(GaveUp, END)),
        start=costly,
    )
    assert written(1, of=machine).spent.budgets == {"revisions": 2}
    assert written(2, of=machine).outcome == GaveUp(Poor((1,)), Exhausted("revisions", 2, 2))


@final
@dataclass(frozen=True)
class Unwritten:
    at: Chapters
    limit: Exhausted


# ---- a run that is stored


def test_a_stored_run_keeps_what_it_has_spent_of_each_budget() -> None:
    machine = book()
    late = Snapshot("mend", Poor((1,)), spent=Spent(budgets={"revisions": 2}))
    again = Snapshot.from_json(late.to_json(), machine)
    assert again == late
    result = run_script(lambda: Script(machine, again, nobody()))
    assert result.outcome == GaveUp(Poor((1,)), Exhausted("revisions", 2, 2))
    # What was counted when the machine had no such budget is nothing.
    assert advance(machine, Snapshot("mend", Poor((1,))), Limits()) == Done(
        Book(), Snapshot("read", Text((0,)), spent=Spent(budgets={"revisions": 1}), entered=True)
    )


# ---- restarts


def crashed(times: int) -> Snapshot:
    """The interview after its first answer, taken up again after so many crashes."""
    state = advance(INTERVIEW, begin(INTERVIEW, Topic("tea")), Limits())
    assert isinstance(state, PendingEffect)
    snapshot = state.reply("hot")
    for _ in range(times):
        snapshot = Snapshot.from_json(snapshot.to_json(), INTERVIEW).restarted()
    return snapshot


@pytest.mark.parametrize(("limit", "times", "ends"), [(0, 0, True), (0, 1, False), (2, 2, True), (2, 3, False)])
def test_a_run_may_be_taken_up_again_as_often_as_the_limit_says(limit: int, times: int, ends: bool) -> None:
    snapshot = crashed(times)
    assert snapshot.spent.restarts == times
    world = RunContext(reporter().handlers, Limits(restarts=limit))
    result = run_script(lambda: Script(INTERVIEW, snapshot, world))
    assert result.spent.restarts == times
    if ends:
        assert result.outcome == Interview(("hot", "re: tea 1 1", "re: tea 2 2"))
    else:
        assert result.outcome == Stopped(Topic("tea"), Exhausted("restarts", limit, times))


def test_without_a_limit_restarts_are_only_counted() -> None:
    result = run_script(lambda: Script(INTERVIEW, crashed(9), reporter()))
    assert (type(result.outcome), result.spent.restarts) == (Interview, 9)


def test_a_run_that_was_restarted_too_often_enters_no_metered_node() -> None:
    at = Snapshot("tick", Tick(4)).restarted()
    result = run_script(lambda: Script(CLOCK, at, nobody(Limits(restarts=0))))
    assert result.outcome == Stopped(Tick(4), Exhausted("restarts", 0, 1))
    assert result.spent == Spent(restarts=1)


def test_the_seconds_are_looked_at_before_the_restarts_and_those_before_the_budgets() -> None:
    at = Snapshot("tick", Tick()).restarted()

    def named(**limits: Any) -> str:
        limit: Exhausted = run_script(lambda: Script(CLOCK, at, nobody(agent_limits(**limits)))).outcome.limit
        return limit.limit

    assert named(seconds=0, restarts=0, iterations=0) == "seconds"
    assert named(restarts=0, iterations=0) == "restarts"
    late = crashed(1)
    stopped = run_script(
        lambda: Script(INTERVIEW, late, RunContext(reporter().handlers, Limits(restarts=0, seconds=0)))
    ).outcome
    assert isinstance(stopped, Stopped)
    assert stopped.limit.limit == "seconds"


def test_the_replies_that_a_restarted_run_has_had_are_not_asked_for_again() -> None:
    result = run_script(lambda: Script(INTERVIEW, crashed(1), reporter()))
    assert result.asked == (Question("tea 1 1"), Question("tea 2 2"))


def test_restarting_changes_nothing_else() -> None:
    before = crashed(0)
    after = before.restarted()
    assert (after.node, after.value, after.replies, after.entered) == (
        before.node,
        before.value,
        before.replies,
        before.entered,
    )
    assert before.spent.restarts == 0


# ---- what is refused


@pytest.mark.parametrize("name", ["revisions", "a.b", "research.deep.revisions", "iterations", "_x1"])
def test_a_budget_has_a_name_that_a_variable_could_have_or_several_joined_with_dots(name: str) -> None:
    assert (str(Budget(name, 1)), Budget(name).limit) == (name, None)


@pytest.mark.parametrize("name", ["", "2nd", "a b", "a.", ".a", "a..b", "a.2", "a-b"])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(LimitsError) as caught:
        Budget(name)
    assert str(caught.value) == f"a budget cannot be named {name!r}; give it a name that a variable could have"


@pytest.mark.parametrize("name", ["seconds", "fan_out", "restarts"])
def test_a_limits_name_is_no_budgets(name: str) -> None:
    with pytest.raises(LimitsError) as caught:
        Budget(name, 3)
    assert str(caught.value) == f"{name} is a limit already; find another name for the budget"


def test_a_budgets_limit_is_a_limit() -> None:
    def text(limit: Any) -> str:
        with pytest.raises(LimitsError) as caught:
            Budget("revisions", limit)
        return str(caught.value)

    assert text(-1) == "the limit revisions is -1; give 0 or more, or None for no limit"
    assert text(1.5) == "the limit revisions is 1.5; give a whole number, or None for no limit"
    assert text(math.inf) == "the limit revisions is inf; give a whole number, or None for no limit"
    assert Budget("revisions", 0).limit == 0


def test_a_limit_for_a_budget_is_a_limit() -> None:
    def text(**budgets: Any) -> str:
        with pytest.raises(LimitsError) as caught:
            Limits(budgets=budgets)
        return str(caught.value)

    assert text(revisions=-1) == "the limit revisions is -1; give 0 or more, or None for no limit"
    assert text(revisions="2") == "the limit revisions is '2'; give a whole number, or None for no limit"
    assert text(seconds=2) == "seconds is a limit and not a budget; write Limits(seconds=...)"
    with pytest.raises(LimitsError, match=r"^tokens is a limit of its own; write agent_limits\(tokens=\.\.\.\)$"):
        agent_limits(budgets={"tokens": 2})
    assert text(iterations=2, revisions=-1, other=3) == (
        "the limit revisions is -1; give 0 or more, or None for no limit; "
        "iterations is a limit and not a budget; write Limits(iterations=...)"
    )
    assert Limits(budgets={"revisions": None, "other": 0}).budgets == {"revisions": None, "other": 0}


def test_limits_that_differ_in_budgets_are_different_and_can_be_remembered() -> None:
    assert Limits(budgets={"revisions": 1}) != Limits(budgets={"revisions": 2})
    assert hash(Limits(budgets={"revisions": 1})) == hash(Limits(budgets={"revisions": 1}))
    assert hash(Spent(budgets={"revisions": 1})) == hash(Spent(budgets={"revisions": 1}))


def faults(build: Any) -> list[str]:
    with pytest.raises(GraphError) as caught:
        build()
    return [f"{fault.code} {fault.node} {fault.outcome}: {fault.text}" for fault in caught.value.faults]


def test_one_name_is_one_budget() -> None:
    other = metered(when_spent=Unwritten, budget=Budget("revisions", 5))(write)

    def build() -> object:
        return graph(
            edges(other, on(Text, read) | on(Unwritten, END))
            | edges(read, on(Poor, revise) | on(Chapters, other) | on(Book, END))
            | edges(revise, on(Text, read) | on(GaveUp, END)),
            start=other,
        )

    assert faults(build) == [
        "GX011 mend None: mend is metered by revisions with the limit 2, but another node has the limit 5; "
        "use one Budget for both"
    ]


def test_what_is_reset_is_spent_somewhere() -> None:
    assert faults(lambda: book(resets=(REVISIONS, PATIENCE))) == [
        "GX011 read Chapters: read --Chapters (revisions, patience again)--> write resets patience, but no node "
        "is metered by it; put @metered(budget=...) on the node that it bounds, or remove the reset"
    ]


# ---- what is spent, in words


def test_a_spent_budget_can_be_read() -> None:
    assert str(Exhausted("revisions", 2, 2)) == "the limit of 2 revisions was reached (2 spent)"
    assert str(Exhausted("revisions", 1, 1)) == "the limit of 1 revision was reached (1 spent)"
    assert str(Exhausted("restarts", 0, 1)) == "the limit of 0 restarts was reached (1 spent)"
    assert str(Exhausted("fan_out", 1, 0, wanted=2)) == "the limit of 1 fan out does not allow 2 more (0 spent)"
    assert str(Exhausted("patience", 1, 1)) == "the limit of 1 patience was reached (1 spent)"


def test_counts_are_told_exactly_and_seconds_to_the_millisecond() -> None:
    assert str(Exhausted("seconds", 10.0, 10.5)) == "the limit of 10 seconds was reached (10.5 spent)"
    assert str(Exhausted("seconds", 1.0, 1.00049)) == "the limit of 1 second was reached (1 spent)"
    assert str(Exhausted("seconds", 0.25, 100.1257)) == "the limit of 0.25 seconds was reached (100.126 spent)"
    many = 10**17 + 1
    assert str(Exhausted("tokens", many, many)) == f"the limit of {many} tokens was reached ({many} spent)"


def test_what_was_wanted_does_not_tell_two_spent_limits_apart() -> None:
    assert Exhausted("tool_calls", 3, 2, wanted=2) == Exhausted("tool_calls", 3, 2, wanted=5)
    assert Exhausted("tool_calls", 3, 2) != Exhausted("tool_calls", 3, 3)


# ---- a budget and what is asked within it


@charged(when_spent=Stopped)
@node
def wonder(topic: Topic) -> Asks[Question, Topic | Interview]:
    answer = yield from ask(Question(topic.name))
    return Topic(topic.name, topic.questions - 1) if topic.questions else Interview((answer,))


def test_an_entry_is_paid_for_once_though_its_effects_are_answered_one_by_one() -> None:
    wondering = metered(when_spent=Stopped, budget=PATIENCE)(wonder)
    machine = graph(edges(wondering, on(Topic, wondering) | on(Interview, END) | on(Stopped, END)), start=wondering)
    result = run_script(lambda: Script(machine, Topic("tea", 2), reporter()))
    assert (result.outcome, result.spent.budgets) == (Interview(("re: tea",)), {"patience": 3})
    late = run_script(lambda: Script(machine, Topic("tea", 3), reporter()))
    assert late.outcome == Stopped(Topic("tea", 0), Exhausted("patience", 3, 3))
