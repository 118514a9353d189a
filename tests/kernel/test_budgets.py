"""Budgets of a machine: an entry into a node charges them, and an edge resets them."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import graphexec as gx
from graphexec.effects import agent_limits
from graphexec.kernel import ITERATIONS
from graphexec.runtime.handlers import RunContext
from tests.drivers import DriverResult
from tests.kernel import machines as m
from tests.parameters import cases

REVISIONS = gx.Meter("revisions", 2)


@m.value
class Chapters:
    """The number of flaws in each remaining chapter."""

    flaws: tuple[int, ...]


@m.value
class Text:
    flaws: tuple[int, ...]


@m.value
class Poor:
    flaws: tuple[int, ...]


@m.value
class Book: ...


write = m.pure("write", Chapters, Text, lambda chapters: Text(chapters.flaws))


@gx.node
def read(text: Text) -> Poor | Chapters | Book:
    first, *others = text.flaws
    if first:
        return Poor(text.flaws)
    return Chapters(tuple(others)) if others else Book()


repair = m.pure("repair", Poor, Text, lambda poor: Text((poor.flaws[0] - 1, *poor.flaws[1:])))


revise = gx.node(when_spent=m.Halted, meters=[REVISIONS])(repair)


def book(costly: Any = revise, *, resets: Sequence[gx.Meter] = ()) -> gx.Graph[Chapters, Book | m.Halted]:
    """Return a machine that writes books; `costly` repairs a text."""
    return m.machine_of(write, read, costly, resets={Chapters: resets})


PATIENCE = gx.Meter("patience", 3)


def book_with_budgets(*budgets: gx.Meter, resets: Sequence[gx.Meter] = ()) -> gx.Graph[Chapters, Book | m.Halted]:
    """Return a book whose revisions cost one of each meter."""
    costly: Any = gx.node(when_spent=m.Halted, meters=budgets)(repair)
    return book(costly, resets=resets)


def book_with_costly_chapters(budget: gx.Meter) -> gx.Graph[Chapters, Book | m.Halted]:
    costly = gx.node(when_spent=m.Halted, meters=[budget])(write)
    return m.machine_of(costly, read, revise)


# Each chapter resets the revisions.
BOOK = book(resets=[REVISIONS])
COUNTING = book_with_budgets(gx.Meter("revisions"))
ITERATED, ITERATED_ANEW = book_with_budgets(ITERATIONS), book_with_budgets(ITERATIONS, resets=[ITERATIONS])
THREE = book_with_budgets(PATIENCE, REVISIONS, ITERATIONS)
ZERO = {"patience": 0, "revisions": 0}


def gave_up(*flaws: int, name: str = "revisions", limit: int = 2) -> m.Halted:
    return m.Halted(Poor(flaws), gx.Exhausted(name, limit, limit))


def limits_of(iterations: int = 15, **budgets: int | None) -> gx.Limits:
    return gx.Limits({gx.Meter(name): limit for name, limit in budgets.items()}, iterations=iterations)


def spent_of(iterations: int = 0, **budgets: int) -> gx.Spent:
    return gx.Spent(iterations=iterations, meters=budgets)


@cases(
    ("machine", "flaws", "limits", "outcome", "spent"),
    # A budget limits the entries of its node.
    (BOOK, (3,), {}, gave_up(1), {"revisions": 2}),
    (BOOK, (0,), {}, Book(), {"revisions": 0}),
    # The limits of a run override or remove its limit.
    (BOOK, (1,), {"revisions": 0}, gave_up(1, limit=0), {"revisions": 0}),
    (BOOK, (0,), {"revisions": 0}, Book(), {"revisions": 0}),
    (BOOK, (2,), {"revisions": 1}, gave_up(1, limit=1), {"revisions": 1}),
    (BOOK, (5,), {"revisions": 5}, Book(), {"revisions": 5}),
    (BOOK, (30,), {"revisions": None}, Book(), {"revisions": 30}),
    # Without a limit, it only counts.
    (COUNTING, (7, 7), {}, Book(), {"revisions": 14}),
    (COUNTING, (2,), {"revisions": 1}, gave_up(1, limit=1), {"revisions": 1}),
    # An edge resets or keeps it, and also the iterations; other budgets are unchanged.
    (BOOK, (2, 2, 1), {}, Book(), {"revisions": 1}),
    (BOOK, (2, 3), {}, gave_up(1), {"revisions": 2}),
    (book(), (2, 2, 1), {}, gave_up(2, 1), {"revisions": 2}),
    (ITERATED_ANEW, (2, 1), {"iterations": 2}, Book(), {"iterations": 1}),
    (ITERATED, (2, 1), {"iterations": 2}, gave_up(1, name="iterations"), {"iterations": 2}),
    (
        book(gx.node(when_spent=m.Halted, meters=[gx.ITERATIONS])(revise), resets=[REVISIONS]),
        (2, 2),
        {},
        Book(),
        {"iterations": 4, "revisions": 2},
    ),
    # An entry costs one of each budget, and nothing if it is refused.
    (book_with_budgets(REVISIONS, PATIENCE), (2,), {}, Book(), {"revisions": 2, "patience": 2}),
    (book_with_budgets(REVISIONS, REVISIONS), (2,), {}, Book(), {"revisions": 2}),
    (THREE, (9,), {}, gave_up(7), {"iterations": 2, "revisions": 2, "patience": 2}),
    # The iterations are reported before other budgets, and these in their order.
    (THREE, (1,), {"iterations": 0, "patience": 0, "revisions": 0}, gave_up(1, name="iterations", limit=0), ZERO),
    (THREE, (1,), {"patience": 0, "revisions": 0}, gave_up(1, name="patience", limit=0), ZERO),
    (THREE, (1,), {"patience": 1, "revisions": 0}, gave_up(1, name="revisions", limit=0), ZERO),
    # Nodes may share a budget.
    (book_with_costly_chapters(REVISIONS), (1,), {}, Book(), {"revisions": 2}),
    (book_with_costly_chapters(REVISIONS), (2,), {}, gave_up(1), {"revisions": 2}),
)
def test_budget_bounds_a_run(machine: Any, flaws: Any, limits: Any, outcome: object, spent: Any) -> None:
    result = m.run_machine(machine, Chapters(flaws), m.without_handlers(limits_of(**limits)))
    assert (result.outcome, result.spent) == (outcome, spent_of(**spent))


@cases(("machine", "budgets"), (BOOK, {"revisions": 2}), (COUNTING, {"revisions": None}), (m.CLOCK, {}))
def test_iterations_are_not_among_the_budgets(machine: gx.Graph[Any, Any], budgets: dict[str, int]) -> None:
    assert machine.own == budgets


def test_stored_run_keeps_its_budgets() -> None:
    late = gx.Snapshot("repair", Poor((1,)), spent=gx.Spent(meters={"revisions": 2}))
    again = m.reload(late, BOOK)
    assert again == late
    assert m.run_machine(BOOK, again).outcome == m.Halted(Poor((1,)), gx.Exhausted("revisions", 2, 2))
    # A snapshot from before the machine had the budget counts 0.
    assert m.finish(BOOK, gx.Snapshot("repair", Poor((1,)))) == gx.Done(
        Book(), gx.Snapshot("read", Text((0,)), spent=gx.Spent(meters={"revisions": 1}), entered=True)
    )


def restarted_interview(times: int) -> gx.Snapshot:
    """Return the interview after its first answer, restarted `times` times."""
    snapshot = m.pending(m.INTERVIEW, m.Topic("tea")).reply("hot")
    for _ in range(times):
        snapshot = m.reload(snapshot, m.INTERVIEW).restarted()
    return snapshot


def resume_interview(times: int, **limits: Any) -> DriverResult[Any]:
    context = RunContext(m.reporter().handlers, gx.Limits(**limits))
    return m.run_machine(m.INTERVIEW, restarted_interview(times), context)


@cases(("limit", "times", "ends"), (0, 0, True), (0, 1, False), (2, 2, True), (2, 3, False), (None, 9, True))
def test_restarts_are_limited(limit: int | None, times: int, ends: bool) -> None:
    assert restarted_interview(times).spent.restarts == times
    result = resume_interview(times, restarts=limit)
    assert result.spent.restarts == times
    if ends:
        assert result.outcome == m.Interview(("hot", "re: tea 1 1", "re: tea 2 2"))
        # A restarted run keeps its replies.
        assert result.asked == (m.Question("tea 1 1"), m.Question("tea 2 2"))
    else:
        assert result.outcome == m.Stopped(m.Topic("tea"), gx.Exhausted("restarts", limit or 0, times))


@cases(
    ("limits", "reported"),
    ({"restarts": 0}, gx.Exhausted("restarts", 0, 1)),
    ({"restarts": 0, "iterations": 0}, gx.Exhausted("restarts", 0, 1)),
    ({"seconds": 0, "restarts": 0, "iterations": 0}, gx.Exhausted("seconds", 0, 0)),
)
def test_too_many_restarts_refuse_a_metered_entry(limits: Any, reported: gx.Exhausted) -> None:
    """The seconds are checked before restarts, and restarts before the budgets."""
    restarted = gx.Snapshot("tick", m.Tick(4)).restarted()
    result = m.run_machine(m.CLOCK, restarted, m.without_handlers(agent_limits(**limits)))
    assert result.outcome == m.Stopped(m.Tick(4), reported)
    assert result.spent == gx.Spent(restarts=1)


def test_restart_changes_nothing_else_and_may_be_limited() -> None:
    before = restarted_interview(0)
    after = before.restarted()
    assert dataclasses.replace(after, spent=before.spent, open=before.open) == before
    assert (before.spent.restarts, after.spent.restarts) == (0, 1)
    assert resume_interview(1, restarts=0, seconds=0).outcome.limit.limit == "seconds"


@cases("name", "revisions", "a.b", "research.deep.revisions", "iterations", "_x1")
def test_budget_name_is_a_dotted_identifier(name: str) -> None:
    assert (str(gx.Meter(name, 1)), gx.Meter(name).limit) == (name, None)


@cases(
    ("build", "fault"),
    (
        lambda: book_with_costly_chapters(gx.Meter("revisions", 5)),
        "GX011 repair None: repair counts Meter('revisions', 2), but there is also "
        "Meter('revisions', 5); use one Meter for both",
    ),
    (
        lambda: book(resets=(REVISIONS, PATIENCE)),
        "GX011 read Chapters: read --Chapters (resets revisions, patience)--> write resets patience, but no node "
        "is metered by it; add meters=[...] to the @node of the node that it bounds, or remove the reset",
    ),
)
def test_faulty_budgets_are_refused(build: Callable[[], object], fault: str) -> None:
    assert m.faults_of(build) == [fault]


MANY = 10**17 + 1


@cases(
    ("limit", "text"),
    (gx.Exhausted("revisions", 2, 2), "the limit of 2 revisions was reached (2 spent)"),
    (gx.Exhausted("revisions", 1, 1), "the limit of 1 revision was reached (1 spent)"),
    (gx.Exhausted("restarts", 0, 1), "the limit of 0 restarts was reached (1 spent)"),
    (gx.Exhausted("fan_out", 1, 0, wanted=2), "the limit of 1 fan out does not allow 2 more (0 spent)"),
    (gx.Exhausted("patience", 1, 1), "the limit of 1 patience was reached (1 spent)"),
    (gx.Exhausted("model_calls", 3, 3), "the limit of 3 model calls was reached (3 spent)"),
    (gx.Exhausted("tool_calls", 3, 0, wanted=5), "the limit of 3 tool calls does not allow 5 more (0 spent)"),
    # Counts are shown exactly, and seconds are rounded.
    (gx.Exhausted("seconds", 0.5, 0.75), "the limit of 0.5 seconds was reached (0.75 spent)"),
    (gx.Exhausted("seconds", 10.0, 10.5), "the limit of 10 seconds was reached (10.5 spent)"),
    (gx.Exhausted("seconds", 1.0, 1.00049), "the limit of 1 second was reached (1 spent)"),
    (gx.Exhausted("seconds", 0.25, 100.1257), "the limit of 0.25 seconds was reached (100.126 spent)"),
    (gx.Exhausted("tokens", MANY, MANY), f"the limit of {MANY} tokens was reached ({MANY} spent)"),
    (gx.Exhausted("miles", 10.0, 12.0), "the limit of 10 on the miles was reached (12 spent)"),
    (gx.Exhausted("cost", 0.01, 0.0123456789), "the limit of 0.01 on the cost was reached (0.0123457 spent)"),
)
def test_exhausted_limit_has_a_readable_text(limit: gx.Exhausted, text: str) -> None:
    assert str(limit) == text
