"""Subgraphs are inlined into one flat table; their budgets are their own or shared."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.errors import InputError, NodeError
from graphexec.kernel import ITERATIONS, PendingEffect
from graphexec.runtime import RunContext
from tests.drivers import Script, run_script
from tests.kernel.machines import CLOCK, Question, Stopped, Tick, limited, reporter, without_handlers
from tests.parameters import cases

# ---- the child: it attempts each task up to a number of tries


@final
@dataclass(frozen=True)
class Task:
    """The allowed tries of each remaining task."""

    tries: tuple[int, ...]


@final
@dataclass(frozen=True)
class Trying:
    tries: tuple[int, ...]


@final
@dataclass(frozen=True)
class Solved:
    left: tuple[int, ...]


@final
@dataclass(frozen=True)
class Failed:
    at: Task | Trying
    limit: gx.Exhausted


@final
@dataclass(frozen=True)
class Report:
    text: str


TRIES = gx.Budget("tries", 3)
SHARED = gx.Budget("shared", 100)

loosely: Any = gx.edges


@gx.node
def look(task: Task) -> Trying:
    return Trying(task.tries)


@gx.node
def attempt(trying: Trying) -> Trying | Solved:
    first, *others = trying.tries
    return Trying((first - 1, *others)) if first else Solved(tuple(others))


def solver(*budgets: gx.Budget, resets: Sequence[gx.Budget] = ()) -> gx.Graph[Task, Solved | Failed]:
    """Return a graph that attempts a task until it is solved; an attempt costs one of each budget."""
    costly: Any = attempt
    for budget in budgets:
        costly = gx.metered(when_spent=Failed, budget=budget)(costly)
    machine: gx.Graph[Task, Solved | Failed] = gx.graph(
        gx.edges(look, gx.on(Trying, costly, resets=resets))
        | loosely(costly, gx.on(Trying, costly) | gx.on(Solved, gx.END) | gx.on(Failed, gx.END)),
        start=look,
    )
    return machine


@gx.node
def deliver(solved: Solved) -> Task | Report:
    return Task(solved.left) if solved.left else Report("all solved")


@gx.node
def apologise(failed: Failed) -> Report:
    return Report(f"{type(failed.at).__name__} {failed.at.tries}: {failed.limit}")


def office(solve: gx.Node[Task, Any]) -> gx.Graph[Task, Report]:
    """Return a loop over tasks; the child solves each one."""
    machine: gx.Graph[Task, Report] = gx.graph(
        loosely(solve, gx.on(Solved, deliver) | gx.on(Failed, apologise))
        | gx.edges(deliver, gx.on(Task, solve) | gx.on(Report, gx.END))
        | gx.edges(apologise, gx.on(Report, gx.END)),
        start=solve,
    )
    return machine


def run_office(machine: gx.Graph[Task, Any], *tries: int, within: RunContext | None = None) -> str:
    outcome = run_script(lambda: Script(machine, Task(tries), within or without_handlers())).outcome
    assert isinstance(outcome, Report)
    return outcome.text


# ---- the table


def test_subgraph_nodes_are_inlined_with_a_prefix() -> None:
    machine = office(gx.embed(solver(TRIES), "solve", own=[TRIES]))
    assert list(machine.nodes) == ["solve.look", "solve.attempt", "deliver", "apologise"]
    assert machine.start == "solve.look"
    assert str(machine).splitlines() == [
        "solve.look --Trying--> solve.attempt",
        "solve.attempt --Trying--> solve.attempt",
        "solve.attempt --Solved--> deliver",
        "solve.attempt --Failed--> apologise",
        "deliver --Task (resets solve.tries)--> solve.look",
        "deliver --Report--> END",
        "apologise --Report--> END",
    ]


def test_only_own_budgets_get_the_prefix() -> None:
    machine = office(gx.embed(solver(TRIES, SHARED), "solve", own=[TRIES]))
    assert machine.budgets == {"solve.tries": 3, "shared": 100}
    assert machine["solve.attempt"].meters == (gx.Budget("solve.tries", 3), SHARED)


def test_inlined_nodes_belong_to_a_piece() -> None:
    """They belong to the piece of the node that they replace or, if it has none, to their own one, with the prefix."""
    inner = gx.replace(solver(TRIES), dataclasses.replace(look, group="peek"))
    embedded = gx.embed(inner, "solve", own=[TRIES])
    assert {one.name: one.group for one in office(embedded) if one.group} == {"solve.look": "solve.peek"}
    owned = dataclasses.replace(embedded, group="helper")
    assert {one.group for one in office(owned) if one.name.startswith("solve.")} == {"helper"}


def test_subgraph_may_follow_an_ordinary_node() -> None:
    @gx.node
    def accept(report: Report) -> Task:
        return Task((1, 2))

    solve: Any = gx.embed(solver(TRIES), "solve", own=[TRIES])
    machine: gx.Graph[Report, Any] = gx.graph(
        gx.edges(accept, gx.on(Task, solve)) | loosely(solve, gx.on(Solved, gx.END) | gx.on(Failed, gx.END)),
        start=accept,
    )
    assert machine.start == "accept"
    assert "accept --Task (resets solve.tries)--> solve.look" in str(machine).splitlines()
    result = run_script(lambda: Script(machine, Report(""), without_handlers()))
    assert (result.outcome, result.spent.budgets) == (Solved((2,)), {"solve.tries": 2})


def test_embedded_node_has_the_types_of_its_graph() -> None:
    solve = gx.embed(solver(TRIES), "solve", own=[TRIES])
    assert repr(solve) == "<node solve: Task -> Solved | Failed>"
    assert (solve.returns, solve.kind, solve.metered, solve.least, solve.most) == (
        (Solved, Failed),
        "pure",
        False,
        0,
        None,
    )
    stray: Any = solve.function
    with pytest.raises(AssertionError, match="solve is inlined, so it cannot be called with 3"):
        stray(3)


# ---- runs and their spending


def test_subgraph_runs_like_its_inlined_nodes() -> None:
    machine = office(gx.embed(solver(TRIES), "solve", own=[TRIES]))
    assert run_office(machine, 2, 0, 1) == "all solved"


def test_each_entry_resets_own_budgets() -> None:
    machine = office(gx.embed(solver(TRIES), "solve", own=[TRIES]))
    assert run_office(machine, 2, 2, 2, 2) == "all solved"
    assert run_office(machine, 2, 3) == "Trying (0,): the limit of 3 solve.tries was reached (3 spent)"


def test_other_budgets_are_shared_with_the_outer_graph() -> None:
    machine = office(gx.embed(solver(TRIES), "solve"))
    assert machine.budgets == {"tries": 3}
    assert run_office(machine, 2, 2) == "Trying (2,): the limit of 3 tries was reached (3 spent)"


def test_limits_use_the_full_names_of_own_budgets() -> None:
    machine = office(gx.embed(solver(TRIES), "solve", own=[TRIES]))
    assert run_office(machine, 4, 4, within=without_handlers(gx.Limits(budgets={"solve.tries": 5}))) == "all solved"


def test_subgraph_may_own_iterations() -> None:
    machine = office(gx.embed(solver(ITERATIONS), "solve", own=[gx.Budget("iterations", 3)]))
    assert machine.budgets == {"solve.iterations": 3}
    result = run_script(lambda: Script(machine, Task((2, 2, 2)), limited(iterations=1)))
    assert (result.outcome, result.spent) == (Report("all solved"), gx.Spent(budgets={"solve.iterations": 3}))
    shared = office(gx.embed(solver(ITERATIONS), "solve"))
    assert run_office(shared, 2, 2, within=limited(iterations=4)) == (
        "Trying (1,): the limit of 4 iterations was reached (4 spent)"
    )


def test_inner_edge_resets_own_budgets_by_full_name() -> None:
    inner = solver(TRIES, SHARED, resets=[TRIES, SHARED])
    machine = office(gx.embed(inner, "solve", own=[TRIES]))
    assert "solve.look --Trying (resets solve.tries, shared)--> solve.attempt" in str(machine).splitlines()
    result = run_script(lambda: Script(machine, Task((2, 2)), without_handlers()))
    assert result.spent.budgets == {"solve.tries": 3, "shared": 3}


def test_leaving_edge_combines_both_resets() -> None:
    @gx.metered(when_spent=Failed, budget=SHARED)
    @gx.metered(when_spent=Failed, budget=TRIES)
    @gx.node
    def once(task: Task) -> Solved:
        return Solved(task.tries)

    child: gx.Graph[Task, Any] = gx.graph(
        loosely(once, gx.on(Solved, gx.END, resets=[TRIES, SHARED]) | gx.on(Failed, gx.END, resets=[TRIES])), start=once
    )
    inner: Any = gx.embed(child, "inner", own=[TRIES])
    machine = gx.graph(
        loosely(inner, gx.on(Solved, deliver, resets=[SHARED]) | gx.on(Failed, apologise, resets=[SHARED]))
        | gx.edges(deliver, gx.on(Task, inner) | gx.on(Report, gx.END))
        | gx.edges(apologise, gx.on(Report, gx.END)),
        start=inner,
    )
    assert str(machine).splitlines()[:2] == [
        "inner.once --Solved (resets inner.tries, shared)--> deliver",
        "inner.once --Failed (resets inner.tries, shared)--> apologise",
    ]


# ---- several and nested subgraphs


def test_graph_embedded_twice_has_separate_budgets() -> None:
    first: Any = gx.embed(solver(TRIES), "first", own=[TRIES])
    second: Any = gx.embed(solver(TRIES), "second", own=[gx.Budget("tries", 1)])

    @gx.node
    def again(solved: Solved) -> Task:
        return Task(solved.left)

    machine: gx.Graph[Task, Any] = gx.graph(
        loosely(first, gx.on(Solved, again) | gx.on(Failed, apologise))
        | gx.edges(again, gx.on(Task, second))
        | loosely(second, gx.on(Solved, gx.END) | gx.on(Failed, apologise))
        | gx.edges(apologise, gx.on(Report, gx.END)),
        start=first,
    )
    assert machine.budgets == {"first.tries": 3, "second.tries": 1}
    result = run_script(lambda: Script(machine, Task((2, 0)), without_handlers()))
    assert (result.outcome, result.spent.budgets) == (Solved(()), {"first.tries": 3, "second.tries": 1})
    assert run_office(machine, 2, 1) == "Trying (0,): the limit of 1 second.trie was reached (1 spent)"


def test_subgraph_may_lead_to_another_or_itself() -> None:
    @gx.node
    def begin_again(solved: Solved) -> Task | Report:
        return Task(solved.left) if solved.left else Report("done")

    small: gx.Graph[Solved, Task | Report] = gx.graph(
        gx.edges(begin_again, gx.on(Task, gx.END) | gx.on(Report, gx.END)), start=begin_again
    )
    solve: Any = gx.embed(solver(TRIES), "solve", own=[TRIES])
    choose: Any = gx.embed(small, "choose")
    machine: gx.Graph[Task, Any] = gx.graph(
        loosely(solve, gx.on(Solved, choose) | gx.on(Failed, apologise))
        | loosely(choose, gx.on(Task, solve) | gx.on(Report, gx.END))
        | gx.edges(apologise, gx.on(Report, gx.END)),
        start=solve,
    )
    assert "choose.begin_again --Task (resets solve.tries)--> solve.look" in str(machine).splitlines()
    assert run_office(machine, 2, 2, 2) == "done"

    @gx.metered(when_spent=Failed, budget=TRIES)
    @gx.node
    def turn(task: Task) -> Task | Solved:
        return Task((task.tries[0] - 1,)) if task.tries[0] else Solved(())

    turning: Any = gx.embed(
        gx.graph(gx.edges(turn, gx.on(Task, gx.END) | gx.on(Solved, gx.END) | gx.on(Failed, gx.END)), start=turn),
        "turning",
    )
    loop: gx.Graph[Task, Any] = gx.graph(
        loosely(turning, gx.on(Task, turning) | gx.on(Solved, gx.END) | gx.on(Failed, gx.END)), start=turning
    )
    assert str(loop).splitlines()[0] == "turning.turn --Task--> turning.turn"
    assert run_script(lambda: Script(loop, Task((2,)), without_handlers())).outcome == Solved(())


def test_subgraphs_may_contain_subgraphs() -> None:
    inner = office(gx.embed(solver(TRIES), "solve", own=[TRIES]))
    work: Any = gx.embed(inner, "work", own=[gx.Budget("solve.tries", 2)])
    machine: gx.Graph[Task, Report] = gx.graph(loosely(work, gx.on(Report, gx.END)), start=work)
    assert list(machine.nodes) == ["work.solve.look", "work.solve.attempt", "work.deliver", "work.apologise"]
    assert machine.start == "work.solve.look"
    assert machine.budgets == {"work.solve.tries": 2}
    assert run_office(machine, 1, 1) == "all solved"
    assert run_office(machine, 1, 2) == "Trying (0,): the limit of 2 work.solve.tries was reached (2 spent)"


def test_inner_subgraph_keeps_its_own_budgets() -> None:
    def inner(tries: int) -> gx.Graph[Task, Report]:
        return office(gx.embed(solver(TRIES), "solve", own=[gx.Budget("tries", tries)]))

    @gx.node
    def another(report: Report) -> Task:
        return Task((2,))

    first: Any = gx.embed(inner(3), "first")
    second: Any = gx.embed(inner(1), "second")
    machine: gx.Graph[Task, Report] = gx.graph(
        loosely(first, gx.on(Report, another))
        | gx.edges(another, gx.on(Task, second))
        | loosely(second, gx.on(Report, gx.END)),
        start=first,
    )
    assert machine.budgets == {"first.solve.tries": 3, "second.solve.tries": 1}
    result = run_script(lambda: Script(machine, Task((2,)), without_handlers()))
    assert result.outcome == Report("Trying (1,): the limit of 1 second.solve.trie was reached (1 spent)")
    assert result.spent.budgets == {"first.solve.tries": 3, "second.solve.tries": 1}


def test_run_in_a_subgraph_can_be_resumed() -> None:
    @gx.charged(when_spent=Failed)
    @gx.node
    def consult(task: Task) -> gx.Asks[Question, Solved]:
        yield from gx.ask(Question("how?"))
        yield from gx.ask(Question("really?"))
        return Solved(task.tries[1:])

    asking: Any = gx.embed(
        gx.graph(gx.edges(consult, gx.on(Solved, gx.END) | gx.on(Failed, gx.END)), start=consult), "asking"
    )
    machine = office(asking)
    state = gx.advance(machine, gx.begin(machine, Task((1, 1))), gx.Limits())
    assert isinstance(state, PendingEffect)
    assert (state.snapshot.node, state.effect) == ("asking.consult", Question("how?"))
    again = gx.Snapshot.from_json(state.reply("so").to_json(), machine)
    result = run_script(lambda: Script(machine, again, reporter()))
    assert result.outcome == Report("all solved")


# ---- proofs


def test_nested_loops_are_proved_together() -> None:
    @gx.metered(when_spent=Failed)
    @gx.node
    def hand_out(task: Task) -> Task:
        return task

    solve: Any = gx.embed(solver(TRIES), "solve", own=[TRIES])

    def machine(entry: Any, row: Any) -> Any:
        return gx.graph(
            row
            | loosely(solve, gx.on(Solved, deliver) | gx.on(Failed, apologise))
            | gx.edges(deliver, gx.on(Task, entry) | gx.on(Report, gx.END))
            | gx.edges(apologise, gx.on(Report, gx.END)),
            start=entry,
        )

    bounded = machine(hand_out, loosely(hand_out, gx.on(Task, solve) | gx.on(Failed, apologise)))
    assert bounded.verify(gx.Limits(iterations=4)).proved
    # Nothing limits its entries, and each entry resets its budget.
    assert not office(solve).verify().proved


# ---- invalid subgraphs


@cases("name", ["", "a b", "a.b", "1st"])
def test_invalid_subgraph_name_is_refused(name: str) -> None:
    with pytest.raises(NodeError, match="a node cannot be named"):
        gx.embed(solver(TRIES), name)


def test_own_budget_must_meter_an_inner_node() -> None:
    def text(child: gx.Graph[Any, Any], *own: gx.Budget) -> str:
        with pytest.raises(NodeError) as caught:
            gx.embed(child, "solve", own=own)
        return str(caught.value)

    assert text(solver(TRIES), gx.Budget("trys", 3)) == (
        "solve cannot own trys, which meters none of its nodes; own one of tries"
    )
    assert text(solver(TRIES, SHARED), gx.Budget("trys", 3)).endswith(("own one of tries, shared", "shared, tries"))
    assert text(solver(ITERATIONS), ITERATIONS, TRIES) == (
        "solve cannot own tries, which meters none of its nodes; own one of iterations"
    )
    unmetered: gx.Graph[Failed, Report] = gx.graph(gx.edges(apologise, gx.on(Report, gx.END)), start=apologise)
    assert text(unmetered, TRIES) == "solve cannot own tries, which meters none of its nodes; own one of none"


def faults(build: Any) -> list[str]:
    with pytest.raises(gx.GraphError) as caught:
        build()
    return [f"{fault.code} {fault.node}: {fault.text}" for fault in caught.value.faults]


def test_row_of_a_subgraph_must_be_total() -> None:
    solve: Any = gx.embed(solver(TRIES), "solve", own=[TRIES])
    assert faults(lambda: gx.graph(loosely(solve, gx.on(Solved, gx.END)), start=solve)) == [
        "GX002 solve: solve may return Failed, which no edge takes; add on(Failed, ...)"
    ]


def test_conflicting_budgets_of_a_subgraph_are_reported() -> None:
    @gx.metered(when_spent=Failed, budget=gx.Budget("shared", 5))
    @gx.node
    def hand_out(task: Task) -> Task:
        return task

    solve: Any = gx.embed(solver(TRIES, SHARED), "solve", own=[TRIES])
    assert faults(
        lambda: gx.graph(
            loosely(hand_out, gx.on(Task, solve) | gx.on(Failed, gx.END))
            | loosely(solve, gx.on(Solved, gx.END) | gx.on(Failed, gx.END)),
            start=hand_out,
        )
    ) == [
        "GX011 solve: solve is metered by shared with the limit 100, but another node has the limit 5; "
        "use one Budget for both"
    ]


def test_outer_budget_stays_apart_from_own_budget() -> None:
    @gx.metered(when_spent=Failed, budget=gx.Budget("tries", 9))
    @gx.node
    def hand_out(task: Task) -> Task:
        return task

    solve: Any = gx.embed(solver(TRIES), "solve", own=[TRIES])
    machine: gx.Graph[Task, Any] = gx.graph(
        loosely(hand_out, gx.on(Task, solve) | gx.on(Failed, gx.END))
        | loosely(solve, gx.on(Solved, gx.END) | gx.on(Failed, gx.END)),
        start=hand_out,
    )
    assert machine.budgets == {"tries": 9, "solve.tries": 3}


def test_outer_edge_may_reset_an_inner_budget() -> None:
    solve: Any = gx.embed(solver(TRIES), "solve")
    machine: gx.Graph[Task, Any] = gx.graph(
        loosely(solve, gx.on(Solved, deliver, resets=[TRIES]) | gx.on(Failed, apologise))
        | gx.edges(deliver, gx.on(Task, solve) | gx.on(Report, gx.END))
        | gx.edges(apologise, gx.on(Report, gx.END)),
        start=solve,
    )
    assert "solve.attempt --Solved (resets tries)--> deliver" in str(machine).splitlines()
    assert run_office(machine, 2, 2, 2) == "all solved"


# ---- drafts with subgraphs


def test_subgraphs_of_a_draft_are_inlined() -> None:
    solve: Any = gx.embed(solver(TRIES), "solve", own=[TRIES])
    machine = gx.draft(loosely(solve, gx.on(Solved, gx.END)), start=solve)
    assert str(machine).splitlines() == [
        "solve.look --Trying--> solve.attempt",
        "solve.attempt --Trying--> solve.attempt",
        "solve.attempt --Solved--> END",
    ]
    assert machine.start == "solve.look"


def test_embedded_clock_runs_as_it_does_alone() -> None:
    clock: Any = gx.embed(CLOCK, "clock")
    machine: gx.Graph[Tick, Any] = gx.graph(loosely(clock, gx.on(Stopped, gx.END)), start=clock)
    alone = run_script(lambda: Script(CLOCK, Tick(), limited(iterations=3)))
    nested = run_script(lambda: Script(machine, Tick(), limited(iterations=3)))
    assert (nested.outcome, nested.spent) == (alone.outcome, alone.spent)


def test_embedding_a_value_without_a_graph_is_refused() -> None:
    given: Any
    for given in (None, "clock", 3):
        with pytest.raises(InputError, match=r"is not a graph; write embed\(graph, name\)"):
            gx.embed(given, "clock")
