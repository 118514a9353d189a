"""Budgets of a machine: an entry into a node charges them, and an edge resets them."""

import math
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.effects import agent_limits
from graphexec.errors import LimitsError
from graphexec.kernel import ITERATIONS, PendingEffect
from graphexec.runtime import RunContext
from tests.drivers import DriverResult, Script, run_script
from tests.kernel import machines
from tests.parameters import cases

# ---- a book: each chapter is written, read, and revised once for each of its flaws

REVISIONS = gx.Budget("revisions", 2)


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
    limit: gx.Exhausted


@gx.node
def write(chapters: Chapters) -> Text:
    return Text(chapters.flaws)


@gx.node
def read(text: Text) -> Poor | Chapters | Book:
    first, *others = text.flaws
    if first:
        return Poor(text.flaws)
    return Chapters(tuple(others)) if others else Book()


@gx.node
def repair(poor: Poor) -> Text:
    return Text((poor.flaws[0] - 1, *poor.flaws[1:]))


revise = gx.metered(when_spent=GaveUp, budget=REVISIONS)(repair)


def book(*, resets: tuple[gx.Budget, ...] = (REVISIONS,)) -> gx.Graph[Chapters, Book | GaveUp]:
    """Return a machine that writes books; by default, each chapter resets the revisions."""
    return gx.graph(
        gx.edges(write, gx.on(Text, read))
        | gx.edges(read, gx.on(Poor, revise) | gx.on(Chapters, write, resets=resets) | gx.on(Book, gx.END))
        | gx.edges(revise, gx.on(Text, read) | gx.on(GaveUp, gx.END)),
        start=write,
    )


def write_book(
    *flaws: int, of: gx.Graph[Chapters, Any] | None = None, within: RunContext | None = None
) -> DriverResult[Any]:
    machine = book() if of is None else of
    return run_script(lambda: Script(machine, Chapters(flaws), within or machines.without_handlers()))


def revision_limit(revisions: int | None) -> RunContext:
    return machines.without_handlers(gx.Limits(budgets={"revisions": revisions}))


def test_budget_limits_the_entries_of_its_node() -> None:
    result = write_book(3)
    assert result.outcome == GaveUp(Poor((1,)), gx.Exhausted("revisions", 2, 2))
    assert result.spent == gx.Spent(budgets={"revisions": 2})


def test_unspent_budget_is_zero() -> None:
    result = write_book(0)
    assert (result.outcome, result.spent) == (Book(), gx.Spent(budgets={"revisions": 0}))


def test_machine_without_budgets_reports_none() -> None:
    assert run_script(
        lambda: Script(machines.CLOCK, machines.Tick(), machines.limited(iterations=2))
    ).spent == gx.Spent(iterations=2)


@cases(("allowed", "flaws", "ends"), [(0, 1, GaveUp), (0, 0, Book), (1, 2, GaveUp), (5, 5, Book)])
def test_limits_of_a_run_override_a_budget(allowed: int, flaws: int, ends: type) -> None:
    result = write_book(flaws, within=revision_limit(allowed))
    assert type(result.outcome) is ends
    assert result.spent.budgets == {"revisions": min(allowed, flaws)}
    if isinstance(result.outcome, GaveUp):
        assert result.outcome.limit == gx.Exhausted("revisions", allowed, allowed)


def test_limits_of_a_run_may_remove_a_limit() -> None:
    result = write_book(30, within=revision_limit(None))
    assert (result.outcome, result.spent.budgets) == (Book(), {"revisions": 30})


def test_budget_without_a_limit_only_counts() -> None:
    counting = gx.metered(when_spent=GaveUp, budget=gx.Budget("revisions"))(repair)
    machine = gx.graph(
        gx.edges(write, gx.on(Text, read))
        | gx.edges(read, gx.on(Poor, counting) | gx.on(Chapters, write) | gx.on(Book, gx.END))
        | gx.edges(counting, gx.on(Text, read) | gx.on(GaveUp, gx.END)),
        start=write,
    )
    assert machine.budgets == {"revisions": None}
    assert write_book(7, 7, of=machine).spent.budgets == {"revisions": 14}
    assert type(write_book(2, of=machine, within=revision_limit(1)).outcome) is GaveUp


def test_iterations_are_not_among_the_budgets() -> None:
    assert book().budgets == {"revisions": 2}
    assert machines.CLOCK.budgets == {}


# ---- resets


def test_edge_resets_a_budget() -> None:
    result = write_book(2, 2, 1)
    assert (result.outcome, result.spent.budgets) == (Book(), {"revisions": 1})
    assert write_book(2, 3).outcome == GaveUp(Poor((1,)), gx.Exhausted("revisions", 2, 2))


def test_edge_without_resets_keeps_the_budget() -> None:
    result = write_book(2, 2, 1, of=book(resets=()))
    assert result.outcome == GaveUp(Poor((2, 1)), gx.Exhausted("revisions", 2, 2))


def test_iterations_can_be_reset() -> None:
    iterated = gx.metered(when_spent=GaveUp)(repair)

    def machine(*resets: gx.Budget) -> gx.Graph[Chapters, Book | GaveUp]:
        return gx.graph(
            gx.edges(write, gx.on(Text, read))
            | gx.edges(read, gx.on(Poor, iterated) | gx.on(Chapters, write, resets=resets) | gx.on(Book, gx.END))
            | gx.edges(iterated, gx.on(Text, read) | gx.on(GaveUp, gx.END)),
            start=write,
        )

    again = write_book(2, 1, of=machine(ITERATIONS), within=machines.limited(iterations=2))
    assert (again.outcome, again.spent) == (Book(), gx.Spent(iterations=1))
    once = write_book(2, 1, of=machine(), within=machines.limited(iterations=2))
    assert once.outcome == GaveUp(Poor((1,)), gx.Exhausted("iterations", 2, 2))


def test_reset_leaves_other_budgets_unchanged() -> None:
    twice = gx.metered(when_spent=GaveUp)(revise)
    machine = gx.graph(
        gx.edges(write, gx.on(Text, read))
        | gx.edges(read, gx.on(Poor, twice) | gx.on(Chapters, write, resets=[REVISIONS]) | gx.on(Book, gx.END))
        | gx.edges(twice, gx.on(Text, read) | gx.on(GaveUp, gx.END)),
        start=write,
    )
    result = write_book(2, 2, of=machine)
    assert (result.outcome, result.spent) == (Book(), gx.Spent(iterations=4, budgets={"revisions": 2}))


def test_edge_shows_its_resets() -> None:
    assert "read --Chapters (resets revisions)--> write" in str(book()).splitlines()
    assert "read --Chapters--> write" in str(book(resets=())).splitlines()


# ---- several budgets of one node

PATIENCE = gx.Budget("patience", 3)


def book_with_budgets(*budgets: gx.Budget) -> gx.Graph[Chapters, Book | GaveUp]:
    """Return a book whose revisions cost one of each budget; the first budget has the lowest decorator."""
    # Any: the outcomes change with the first decorator.
    costly: Any = repair
    for budget in budgets:
        costly = gx.metered(when_spent=GaveUp, budget=budget)(costly)
    row: Any = gx.edges
    return gx.graph(
        gx.edges(write, gx.on(Text, read))
        | gx.edges(read, gx.on(Poor, costly) | gx.on(Chapters, write) | gx.on(Book, gx.END))
        | row(costly, gx.on(Text, read) | gx.on(GaveUp, gx.END)),
        start=write,
    )


def test_entry_costs_one_of_each_budget() -> None:
    result = write_book(2, of=book_with_budgets(REVISIONS, PATIENCE))
    assert result.spent == gx.Spent(budgets={"revisions": 2, "patience": 2})


def test_refused_entry_charges_no_budget() -> None:
    result = write_book(9, of=book_with_budgets(PATIENCE, REVISIONS, ITERATIONS))
    assert result.outcome.limit == gx.Exhausted("revisions", 2, 2)
    assert result.spent == gx.Spent(iterations=2, budgets={"revisions": 2, "patience": 2})


def test_iterations_are_reported_before_other_budgets() -> None:
    machine = book_with_budgets(PATIENCE, REVISIONS, ITERATIONS)

    def reported_limit(iterations: int, patience: int, revisions: int) -> str:
        limits = gx.Limits(iterations=iterations, budgets={"patience": patience, "revisions": revisions})
        limit: gx.Exhausted = write_book(1, of=machine, within=machines.without_handlers(limits)).outcome.limit
        return limit.limit

    assert reported_limit(0, 0, 0) == "iterations"
    assert reported_limit(1, 0, 0) == "patience"
    assert reported_limit(1, 1, 0) == "revisions"


def test_repeated_budget_is_charged_once() -> None:
    assert write_book(2, of=book_with_budgets(REVISIONS, REVISIONS)).spent.budgets == {"revisions": 2}


def test_nodes_may_share_a_budget() -> None:
    costly = gx.metered(when_spent=Unwritten, budget=REVISIONS)(write)
    machine = gx.graph(
        gx.edges(costly, gx.on(Text, read) | gx.on(Unwritten, gx.END))
        | gx.edges(read, gx.on(Poor, revise) | gx.on(Chapters, costly) | gx.on(Book, gx.END))
        | gx.edges(revise, gx.on(Text, read) | gx.on(GaveUp, gx.END)),
        start=costly,
    )
    assert write_book(1, of=machine).spent.budgets == {"revisions": 2}
    assert write_book(2, of=machine).outcome == GaveUp(Poor((1,)), gx.Exhausted("revisions", 2, 2))


@final
@dataclass(frozen=True)
class Unwritten:
    at: Chapters
    limit: gx.Exhausted


# ---- stored runs


def test_stored_run_keeps_its_budgets() -> None:
    machine = book()
    late = gx.Snapshot("repair", Poor((1,)), spent=gx.Spent(budgets={"revisions": 2}))
    again = gx.Snapshot.from_json(late.to_json(), machine)
    assert again == late
    result = run_script(lambda: Script(machine, again, machines.without_handlers()))
    assert result.outcome == GaveUp(Poor((1,)), gx.Exhausted("revisions", 2, 2))
    # A snapshot from before the machine had the budget counts 0.
    assert gx.advance(machine, gx.Snapshot("repair", Poor((1,))), gx.Limits()) == gx.Done(
        Book(), gx.Snapshot("read", Text((0,)), spent=gx.Spent(budgets={"revisions": 1}), entered=True)
    )


# ---- restarts


def restarted_interview(times: int) -> gx.Snapshot:
    """Return the interview after its first answer, restarted `times` times."""
    state = gx.advance(machines.INTERVIEW, gx.begin(machines.INTERVIEW, machines.Topic("tea")), gx.Limits())
    assert isinstance(state, PendingEffect)
    snapshot = state.reply("hot")
    for _ in range(times):
        snapshot = gx.Snapshot.from_json(snapshot.to_json(), machines.INTERVIEW).restarted()
    return snapshot


@cases(("limit", "times", "ends"), [(0, 0, True), (0, 1, False), (2, 2, True), (2, 3, False)])
def test_restarts_are_limited(limit: int, times: int, ends: bool) -> None:
    snapshot = restarted_interview(times)
    assert snapshot.spent.restarts == times
    world = RunContext(machines.reporter().handlers, gx.Limits(restarts=limit))
    result = run_script(lambda: Script(machines.INTERVIEW, snapshot, world))
    assert result.spent.restarts == times
    if ends:
        assert result.outcome == machines.Interview(("hot", "re: tea 1 1", "re: tea 2 2"))
    else:
        assert result.outcome == machines.Stopped(machines.Topic("tea"), gx.Exhausted("restarts", limit, times))


def test_restarts_without_a_limit_are_only_counted() -> None:
    result = run_script(lambda: Script(machines.INTERVIEW, restarted_interview(9), machines.reporter()))
    assert (type(result.outcome), result.spent.restarts) == (machines.Interview, 9)


def test_too_many_restarts_refuse_a_metered_entry() -> None:
    at = gx.Snapshot("tick", machines.Tick(4)).restarted()
    result = run_script(lambda: Script(machines.CLOCK, at, machines.without_handlers(gx.Limits(restarts=0))))
    assert result.outcome == machines.Stopped(machines.Tick(4), gx.Exhausted("restarts", 0, 1))
    assert result.spent == gx.Spent(restarts=1)


def test_seconds_are_checked_before_restarts_and_budgets() -> None:
    at = gx.Snapshot("tick", machines.Tick()).restarted()

    def reported_limit(**limits: Any) -> str:
        limit: gx.Exhausted = run_script(
            lambda: Script(machines.CLOCK, at, machines.without_handlers(agent_limits(**limits)))
        ).outcome.limit
        return limit.limit

    assert reported_limit(seconds=0, restarts=0, iterations=0) == "seconds"
    assert reported_limit(restarts=0, iterations=0) == "restarts"
    late = restarted_interview(1)
    stopped = run_script(
        lambda: Script(
            machines.INTERVIEW, late, RunContext(machines.reporter().handlers, gx.Limits(restarts=0, seconds=0))
        )
    ).outcome
    assert isinstance(stopped, machines.Stopped)
    assert stopped.limit.limit == "seconds"


def test_restarted_run_keeps_its_replies() -> None:
    result = run_script(lambda: Script(machines.INTERVIEW, restarted_interview(1), machines.reporter()))
    assert result.asked == (machines.Question("tea 1 1"), machines.Question("tea 2 2"))


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
    assert (str(gx.Budget(name, 1)), gx.Budget(name).limit) == (name, None)


@cases("name", ["", "2nd", "a b", "a.", ".a", "a..b", "a.2", "a-b"])
def test_invalid_budget_name_is_refused(name: str) -> None:
    with pytest.raises(LimitsError) as caught:
        gx.Budget(name)
    assert str(caught.value) == f"a budget cannot be named {name!r}; give it a name that a variable could have"


@cases("name", ["seconds", "fan_out", "restarts"])
def test_budget_name_of_a_limit_is_refused(name: str) -> None:
    with pytest.raises(LimitsError) as caught:
        gx.Budget(name, 3)
    assert str(caught.value) == f"{name} is a limit already; find another name for the budget"


def test_invalid_limit_of_a_budget_is_refused() -> None:
    def text(limit: Any) -> str:
        with pytest.raises(LimitsError) as caught:
            gx.Budget("revisions", limit)
        return str(caught.value)

    assert text(-1) == "the limit revisions is -1; give 0 or more, or None for no limit"
    assert text(1.5) == "the limit revisions is 1.5; give a whole number, or None for no limit"
    assert text(math.inf) == "the limit revisions is inf; give a whole number, or None for no limit"
    assert gx.Budget("revisions", 0).limit == 0


def test_invalid_limit_for_a_budget_is_refused() -> None:
    def text(**budgets: Any) -> str:
        with pytest.raises(LimitsError) as caught:
            gx.Limits(budgets=budgets)
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
    assert gx.Limits(budgets={"revisions": None, "other": 0}).budgets == {"revisions": None, "other": 0}


def test_limits_with_different_budgets_are_unequal() -> None:
    assert gx.Limits(budgets={"revisions": 1}) != gx.Limits(budgets={"revisions": 2})
    assert hash(gx.Limits(budgets={"revisions": 1})) == hash(gx.Limits(budgets={"revisions": 1}))
    assert hash(gx.Spent(budgets={"revisions": 1})) == hash(gx.Spent(budgets={"revisions": 1}))


def faults(build: Any) -> list[str]:
    with pytest.raises(gx.GraphError) as caught:
        build()
    return [f"{fault.code} {fault.node} {fault.outcome}: {fault.text}" for fault in caught.value.faults]


def test_two_budgets_with_one_name_are_refused() -> None:
    other = gx.metered(when_spent=Unwritten, budget=gx.Budget("revisions", 5))(write)

    def build() -> object:
        return gx.graph(
            gx.edges(other, gx.on(Text, read) | gx.on(Unwritten, gx.END))
            | gx.edges(read, gx.on(Poor, revise) | gx.on(Chapters, other) | gx.on(Book, gx.END))
            | gx.edges(revise, gx.on(Text, read) | gx.on(GaveUp, gx.END)),
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
    assert str(gx.Exhausted("revisions", 2, 2)) == "the limit of 2 revisions was reached (2 spent)"
    assert str(gx.Exhausted("revisions", 1, 1)) == "the limit of 1 revision was reached (1 spent)"
    assert str(gx.Exhausted("restarts", 0, 1)) == "the limit of 0 restarts was reached (1 spent)"
    assert str(gx.Exhausted("fan_out", 1, 0, wanted=2)) == "the limit of 1 fan out does not allow 2 more (0 spent)"
    assert str(gx.Exhausted("patience", 1, 1)) == "the limit of 1 patience was reached (1 spent)"


def test_counts_are_shown_exactly_and_seconds_rounded() -> None:
    assert str(gx.Exhausted("seconds", 10.0, 10.5)) == "the limit of 10 seconds was reached (10.5 spent)"
    assert str(gx.Exhausted("seconds", 1.0, 1.00049)) == "the limit of 1 second was reached (1 spent)"
    assert str(gx.Exhausted("seconds", 0.25, 100.1257)) == "the limit of 0.25 seconds was reached (100.126 spent)"
    many = 10**17 + 1
    assert str(gx.Exhausted("tokens", many, many)) == f"the limit of {many} tokens was reached ({many} spent)"


def test_exhausted_limits_compare_without_the_wanted_amount() -> None:
    assert gx.Exhausted("tool_calls", 3, 2, wanted=2) == gx.Exhausted("tool_calls", 3, 2, wanted=5)
    assert gx.Exhausted("tool_calls", 3, 2) != gx.Exhausted("tool_calls", 3, 3)


# ---- a budget and the effects of its node


@gx.charged(when_spent=machines.Stopped)
@gx.node
def wonder(topic: machines.Topic) -> gx.Asks[machines.Question, machines.Topic | machines.Interview]:
    answer = yield from gx.ask(machines.Question(topic.name))
    return machines.Topic(topic.name, topic.questions - 1) if topic.questions else machines.Interview((answer,))


def test_entry_is_charged_once_in_manual_stepping() -> None:
    wondering = gx.metered(when_spent=machines.Stopped, budget=PATIENCE)(wonder)
    machine = gx.graph(
        gx.edges(
            wondering,
            gx.on(machines.Topic, wondering) | gx.on(machines.Interview, gx.END) | gx.on(machines.Stopped, gx.END),
        ),
        start=wondering,
    )
    result = run_script(lambda: Script(machine, machines.Topic("tea", 2), machines.reporter()))
    assert (result.outcome, result.spent.budgets) == (machines.Interview(("re: tea",)), {"patience": 3})
    late = run_script(lambda: Script(machine, machines.Topic("tea", 3), machines.reporter()))
    assert late.outcome == machines.Stopped(machines.Topic("tea", 0), gx.Exhausted("patience", 3, 3))
