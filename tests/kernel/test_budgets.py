"""Budgets of a machine: an entry into a node charges them, and an edge resets them."""

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
from tests.kernel.machines import (
    CLOCK,
    INTERVIEW,
    Interview,
    Question,
    Stopped,
    Tick,
    Topic,
    limited,
    reporter,
    without_handlers,
)
from tests.parameters import cases

# ---- a book: each chapter is written, read, and revised once for each of its flaws

REVISIONS = Budget("revisions", 2)


@final
@dataclass(frozen=True)
class Chapters:
    """The number of flaws in each remaining chapter."""

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
def repair(poor: Poor) -> Text:
    return Text((poor.flaws[0] - 1, *poor.flaws[1:]))


revise = metered(when_spent=GaveUp, budget=REVISIONS)(repair)


def book(*, resets: tuple[Budget, ...] = (REVISIONS,)) -> Graph[Chapters, Book | GaveUp]:
    """Return a machine that writes books; by default, each chapter resets the revisions."""
    return graph(
        edges(write, on(Text, read))
        | edges(read, on(Poor, revise) | on(Chapters, write, resets=resets) | on(Book, END))
        | edges(revise, on(Text, read) | on(GaveUp, END)),
        start=write,
    )


def write_book(
    *flaws: int, of: Graph[Chapters, Any] | None = None, within: RunContext | None = None
) -> DriverResult[Any]:
    machine = book() if of is None else of
    return run_script(lambda: Script(machine, Chapters(flaws), within or without_handlers()))


def revision_limit(revisions: int | None) -> RunContext:
    return without_handlers(Limits(budgets={"revisions": revisions}))


def test_budget_limits_the_entries_of_its_node() -> None:
    result = write_book(3)
    assert result.outcome == GaveUp(Poor((1,)), Exhausted("revisions", 2, 2))
    assert result.spent == Spent(budgets={"revisions": 2})


def test_unspent_budget_is_zero() -> None:
    result = write_book(0)
    assert (result.outcome, result.spent) == (Book(), Spent(budgets={"revisions": 0}))


def test_machine_without_budgets_reports_none() -> None:
    assert run_script(lambda: Script(CLOCK, Tick(), limited(iterations=2))).spent == Spent(iterations=2)


@cases(("allowed", "flaws", "ends"), [(0, 1, GaveUp), (0, 0, Book), (1, 2, GaveUp), (5, 5, Book)])
def test_limits_of_a_run_override_a_budget(allowed: int, flaws: int, ends: type) -> None:
    result = write_book(flaws, within=revision_limit(allowed))
    assert type(result.outcome) is ends
    assert result.spent.budgets == {"revisions": min(allowed, flaws)}
    if isinstance(result.outcome, GaveUp):
        assert result.outcome.limit == Exhausted("revisions", allowed, allowed)


def test_limits_of_a_run_may_remove_a_limit() -> None:
    result = write_book(30, within=revision_limit(None))
    assert (result.outcome, result.spent.budgets) == (Book(), {"revisions": 30})


def test_budget_without_a_limit_only_counts() -> None:
    counting = metered(when_spent=GaveUp, budget=Budget("revisions"))(repair)
    machine = graph(
        edges(write, on(Text, read))
        | edges(read, on(Poor, counting) | on(Chapters, write) | on(Book, END))
        | edges(counting, on(Text, read) | on(GaveUp, END)),
        start=write,
    )
    assert machine.budgets == {"revisions": None}
    assert write_book(7, 7, of=machine).spent.budgets == {"revisions": 14}
    assert type(write_book(2, of=machine, within=revision_limit(1)).outcome) is GaveUp


def test_iterations_are_not_among_the_budgets() -> None:
    assert book().budgets == {"revisions": 2}
    assert CLOCK.budgets == {}


# ---- resets


def test_edge_resets_a_budget() -> None:
    result = write_book(2, 2, 1)
    assert (result.outcome, result.spent.budgets) == (Book(), {"revisions": 1})
    assert write_book(2, 3).outcome == GaveUp(Poor((1,)), Exhausted("revisions", 2, 2))


def test_edge_without_resets_keeps_the_budget() -> None:
    result = write_book(2, 2, 1, of=book(resets=()))
    assert result.outcome == GaveUp(Poor((2, 1)), Exhausted("revisions", 2, 2))


def test_iterations_can_be_reset() -> None:
    iterated = metered(when_spent=GaveUp)(repair)

    def machine(*resets: Budget) -> Graph[Chapters, Book | GaveUp]:
        return graph(
            edges(write, on(Text, read))
            | edges(read, on(Poor, iterated) | on(Chapters, write, resets=resets) | on(Book, END))
            | edges(iterated, on(Text, read) | on(GaveUp, END)),
            start=write,
        )

    again = write_book(2, 1, of=machine(ITERATIONS), within=limited(iterations=2))
    assert (again.outcome, again.spent) == (Book(), Spent(iterations=1))
    once = write_book(2, 1, of=machine(), within=limited(iterations=2))
    assert once.outcome == GaveUp(Poor((1,)), Exhausted("iterations", 2, 2))


def test_reset_leaves_other_budgets_unchanged() -> None:
    twice = metered(when_spent=GaveUp)(revise)
    machine = graph(
        edges(write, on(Text, read))
        | edges(read, on(Poor, twice) | on(Chapters, write, resets=[REVISIONS]) | on(Book, END))
        | edges(twice, on(Text, read) | on(GaveUp, END)),
        start=write,
    )
    result = write_book(2, 2, of=machine)
    assert (result.outcome, result.spent) == (Book(), Spent(iterations=4, budgets={"revisions": 2}))


def test_edge_shows_its_resets() -> None:
    assert "read --Chapters (resets revisions)--> write" in str(book()).splitlines()
    assert "read --Chapters--> write" in str(book(resets=())).splitlines()


# ---- several budgets of one node

PATIENCE = Budget("patience", 3)


def book_with_budgets(*budgets: Budget) -> Graph[Chapters, Book | GaveUp]:
    """Return a book whose revisions cost one of each budget; the first budget has the lowest decorator."""
    # Any: the outcomes change with the first decorator.
    costly: Any = repair
    for budget in budgets:
        costly = metered(when_spent=GaveUp, budget=budget)(costly)
    row: Any = edges
    return graph(
        edges(write, on(Text, read))
        | edges(read, on(Poor, costly) | on(Chapters, write) | on(Book, END))
        | row(costly, on(Text, read) | on(GaveUp, END)),
        start=write,
    )


def test_entry_costs_one_of_each_budget() -> None:
    result = write_book(2, of=book_with_budgets(REVISIONS, PATIENCE))
    assert result.spent == Spent(budgets={"revisions": 2, "patience": 2})


def test_refused_entry_charges_no_budget() -> None:
    result = write_book(9, of=book_with_budgets(PATIENCE, REVISIONS, ITERATIONS))
    assert result.outcome.limit == Exhausted("revisions", 2, 2)
    assert result.spent == Spent(iterations=2, budgets={"revisions": 2, "patience": 2})


def test_iterations_are_reported_before_other_budgets() -> None:
    machine = book_with_budgets(PATIENCE, REVISIONS, ITERATIONS)

    def reported_limit(iterations: int, patience: int, revisions: int) -> str:
        limits = Limits(iterations=iterations, budgets={"patience": patience, "revisions": revisions})
        limit: Exhausted = write_book(1, of=machine, within=without_handlers(limits)).outcome.limit
        return limit.limit

    assert reported_limit(0, 0, 0) == "iterations"
    assert reported_limit(1, 0, 0) == "patience"
    assert reported_limit(1, 1, 0) == "revisions"


def test_repeated_budget_is_charged_once() -> None:
    assert write_book(2, of=book_with_budgets(REVISIONS, REVISIONS)).spent.budgets == {"revisions": 2}


def test_nodes_may_share_a_budget() -> None:
    costly = metered(when_spent=Unwritten, budget=REVISIONS)(write)
    machine = graph(
        edges(costly, on(Text, read) | on(Unwritten, END))
        | edges(read, on(Poor, revise) | on(Chapters, costly) | on(Book, END))
        | edges(revise, on(Text, read) | on(GaveUp, END)),
        start=costly,
    )
    assert write_book(1, of=machine).spent.budgets == {"revisions": 2}
    assert write_book(2, of=machine).outcome == GaveUp(Poor((1,)), Exhausted("revisions", 2, 2))


@final
@dataclass(frozen=True)
class Unwritten:
    at: Chapters
    limit: Exhausted


# ---- stored runs


def test_stored_run_keeps_its_budgets() -> None:
    machine = book()
    late = Snapshot("repair", Poor((1,)), spent=Spent(budgets={"revisions": 2}))
    again = Snapshot.from_json(late.to_json(), machine)
    assert again == late
    result = run_script(lambda: Script(machine, again, without_handlers()))
    assert result.outcome == GaveUp(Poor((1,)), Exhausted("revisions", 2, 2))
    # A snapshot from before the machine had the budget counts 0.
    assert advance(machine, Snapshot("repair", Poor((1,))), Limits()) == Done(
        Book(), Snapshot("read", Text((0,)), spent=Spent(budgets={"revisions": 1}), entered=True)
    )


# ---- restarts


def restarted_interview(times: int) -> Snapshot:
    """Return the interview after its first answer, restarted `times` times."""
    state = advance(INTERVIEW, begin(INTERVIEW, Topic("tea")), Limits())
    assert isinstance(state, PendingEffect)
    snapshot = state.reply("hot")
    for _ in range(times):
        snapshot = Snapshot.from_json(snapshot.to_json(), INTERVIEW).restarted()
    return snapshot


@cases(("limit", "times", "ends"), [(0, 0, True), (0, 1, False), (2, 2, True), (2, 3, False)])
def test_restarts_are_limited(limit: int, times: int, ends: bool) -> None:
    snapshot = restarted_interview(times)
    assert snapshot.spent.restarts == times
    world = RunContext(reporter().handlers, Limits(restarts=limit))
    result = run_script(lambda: Script(INTERVIEW, snapshot, world))
    assert result.spent.restarts == times
    if ends:
        assert result.outcome == Interview(("hot", "re: tea 1 1", "re: tea 2 2"))
    else:
        assert result.outcome == Stopped(Topic("tea"), Exhausted("restarts", limit, times))


def test_restarts_without_a_limit_are_only_counted() -> None:
    result = run_script(lambda: Script(INTERVIEW, restarted_interview(9), reporter()))
    assert (type(result.outcome), result.spent.restarts) == (Interview, 9)


def test_too_many_restarts_refuse_a_metered_entry() -> None:
    at = Snapshot("tick", Tick(4)).restarted()
    result = run_script(lambda: Script(CLOCK, at, without_handlers(Limits(restarts=0))))
    assert result.outcome == Stopped(Tick(4), Exhausted("restarts", 0, 1))
    assert result.spent == Spent(restarts=1)


def test_seconds_are_checked_before_restarts_and_budgets() -> None:
    at = Snapshot("tick", Tick()).restarted()

    def reported_limit(**limits: Any) -> str:
        limit: Exhausted = run_script(lambda: Script(CLOCK, at, without_handlers(agent_limits(**limits)))).outcome.limit
        return limit.limit

    assert reported_limit(seconds=0, restarts=0, iterations=0) == "seconds"
    assert reported_limit(restarts=0, iterations=0) == "restarts"
    late = restarted_interview(1)
    stopped = run_script(
        lambda: Script(INTERVIEW, late, RunContext(reporter().handlers, Limits(restarts=0, seconds=0)))
    ).outcome
    assert isinstance(stopped, Stopped)
    assert stopped.limit.limit == "seconds"


def test_restarted_run_keeps_its_replies() -> None:
    result = run_script(lambda: Script(INTERVIEW, restarted_interview(1), reporter()))
    assert result.asked == (Question("tea 1 1"), Question("tea 2 2"))


def test_restart_changes_nothing_else() -> None:
    before = restarted_interview(0)
    after = before.restarted()
    assert (after.node, after.value, after.replies, after.entered) == (
        before.node,
        before.value,
        before.replies,
        before.entered,
    )
    assert before.spent.restarts == 0


# ---- invalid budgets


@cases("name", ["revisions", "a.b", "research.deep.revisions", "iterations", "_x1"])
def test_budget_name_is_a_dotted_identifier(name: str) -> None:
    assert (str(Budget(name, 1)), Budget(name).limit) == (name, None)


@cases("name", ["", "2nd", "a b", "a.", ".a", "a..b", "a.2", "a-b"])
def test_invalid_budget_name_is_refused(name: str) -> None:
    with pytest.raises(LimitsError) as caught:
        Budget(name)
    assert str(caught.value) == f"a budget cannot be named {name!r}; give it a name that a variable could have"


@cases("name", ["seconds", "fan_out", "restarts"])
def test_budget_name_of_a_limit_is_refused(name: str) -> None:
    with pytest.raises(LimitsError) as caught:
        Budget(name, 3)
    assert str(caught.value) == f"{name} is a limit already; find another name for the budget"


def test_invalid_limit_of_a_budget_is_refused() -> None:
    def text(limit: Any) -> str:
        with pytest.raises(LimitsError) as caught:
            Budget("revisions", limit)
        return str(caught.value)

    assert text(-1) == "the limit revisions is -1; give 0 or more, or None for no limit"
    assert text(1.5) == "the limit revisions is 1.5; give a whole number, or None for no limit"
    assert text(math.inf) == "the limit revisions is inf; give a whole number, or None for no limit"
    assert Budget("revisions", 0).limit == 0


def test_invalid_limit_for_a_budget_is_refused() -> None:
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


def test_limits_with_different_budgets_are_unequal() -> None:
    assert Limits(budgets={"revisions": 1}) != Limits(budgets={"revisions": 2})
    assert hash(Limits(budgets={"revisions": 1})) == hash(Limits(budgets={"revisions": 1}))
    assert hash(Spent(budgets={"revisions": 1})) == hash(Spent(budgets={"revisions": 1}))


def faults(build: Any) -> list[str]:
    with pytest.raises(GraphError) as caught:
        build()
    return [f"{fault.code} {fault.node} {fault.outcome}: {fault.text}" for fault in caught.value.faults]


def test_two_budgets_with_one_name_are_refused() -> None:
    other = metered(when_spent=Unwritten, budget=Budget("revisions", 5))(write)

    def build() -> object:
        return graph(
            edges(other, on(Text, read) | on(Unwritten, END))
            | edges(read, on(Poor, revise) | on(Chapters, other) | on(Book, END))
            | edges(revise, on(Text, read) | on(GaveUp, END)),
            start=other,
        )

    assert faults(build) == [
        "GX011 repair None: repair is metered by revisions with the limit 2, but another node has the limit 5; "
        "use one Budget for both"
    ]


def test_reset_of_an_unused_budget_is_refused() -> None:
    assert faults(lambda: book(resets=(REVISIONS, PATIENCE))) == [
        "GX011 read Chapters: read --Chapters (resets revisions, patience)--> write resets patience, but no node "
        "is metered by it; put @metered(budget=...) on the node that it bounds, or remove the reset"
    ]


# ---- spending in words


def test_exhausted_budget_has_a_readable_text() -> None:
    assert str(Exhausted("revisions", 2, 2)) == "the limit of 2 revisions was reached (2 spent)"
    assert str(Exhausted("revisions", 1, 1)) == "the limit of 1 revision was reached (1 spent)"
    assert str(Exhausted("restarts", 0, 1)) == "the limit of 0 restarts was reached (1 spent)"
    assert str(Exhausted("fan_out", 1, 0, wanted=2)) == "the limit of 1 fan out does not allow 2 more (0 spent)"
    assert str(Exhausted("patience", 1, 1)) == "the limit of 1 patience was reached (1 spent)"


def test_counts_are_shown_exactly_and_seconds_rounded() -> None:
    assert str(Exhausted("seconds", 10.0, 10.5)) == "the limit of 10 seconds was reached (10.5 spent)"
    assert str(Exhausted("seconds", 1.0, 1.00049)) == "the limit of 1 second was reached (1 spent)"
    assert str(Exhausted("seconds", 0.25, 100.1257)) == "the limit of 0.25 seconds was reached (100.126 spent)"
    many = 10**17 + 1
    assert str(Exhausted("tokens", many, many)) == f"the limit of {many} tokens was reached ({many} spent)"


def test_exhausted_limits_compare_without_the_wanted_amount() -> None:
    assert Exhausted("tool_calls", 3, 2, wanted=2) == Exhausted("tool_calls", 3, 2, wanted=5)
    assert Exhausted("tool_calls", 3, 2) != Exhausted("tool_calls", 3, 3)


# ---- a budget and the effects of its node


@charged(when_spent=Stopped)
@node
def wonder(topic: Topic) -> Asks[Question, Topic | Interview]:
    answer = yield from ask(Question(topic.name))
    return Topic(topic.name, topic.questions - 1) if topic.questions else Interview((answer,))


def test_entry_is_charged_once_in_manual_stepping() -> None:
    wondering = metered(when_spent=Stopped, budget=PATIENCE)(wonder)
    machine = graph(edges(wondering, on(Topic, wondering) | on(Interview, END) | on(Stopped, END)), start=wondering)
    result = run_script(lambda: Script(machine, Topic("tea", 2), reporter()))
    assert (result.outcome, result.spent.budgets) == (Interview(("re: tea",)), {"patience": 3})
    late = run_script(lambda: Script(machine, Topic("tea", 3), reporter()))
    assert late.outcome == Stopped(Topic("tea", 0), Exhausted("patience", 3, 3))
