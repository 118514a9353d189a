"""A graph in a node's place is inlined: one flat table, whose budgets are the child's own or are shared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import pytest

from graphexec import (
    END,
    Asks,
    Budget,
    Exhausted,
    Graph,
    GraphError,
    Limits,
    Node,
    Snapshot,
    Spent,
    advance,
    ask,
    begin,
    charged,
    draft,
    edges,
    embed,
    graph,
    metered,
    node,
    on,
)
from graphexec.errors import InputError, NodeError
from graphexec.kernel import ITERATIONS, PendingEffect
from graphexec.runtime import RunContext
from tests.drivers import Script, run_script
from tests.kernel.machines import CLOCK, Question, Stopped, Tick, limited, nobody, reporter

# ---- the child: it tries as often as it is worth, and counts its tries


@final
@dataclass(frozen=True)
class Task:
    """What each task is worth in tries; the first is at hand."""

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
    limit: Exhausted


@final
@dataclass(frozen=True)
class Report:
    text: str


TRIES = Budget("tries", 3)
SHARED = Budget("shared", 100)

loosely: Any = edges


@node
def look(task: Task) -> Trying:
    return Trying(task.tries)


@node
def attempt(trying: Trying) -> Trying | Solved:
    first, *others = trying.tries
    return Trying((first - 1, *others)) if first else Solved(tuple(others))


def solver(*budgets: Budget, resets: Sequence[Budget] = ()) -> Graph[Task, Solved | Failed]:
    """Look, and attempt until it is solved; an attempt costs one of each of the budgets."""
    costly: Any = attempt
    for budget in budgets:
        costly = metered(when_spent=Failed, budget=budget)(costly)
    machine: Graph[Task, Solved | Failed] = graph(
        edges(look, on(Trying, costly, resets=resets))
        | loosely(costly, on(Trying, costly) | on(Solved, END) | on(Failed, END)),
        start=look,
    )
    return machine


@node
def deliver(solved: Solved) -> Task | Report:
    return Task(solved.left) if solved.left else Report("all solved")


@node
def apologise(failed: Failed) -> Report:
    return Report(f"{type(failed.at).__name__} {failed.at.tries}: {failed.limit}")


def office(solve: Node[Task, Any]) -> Graph[Task, Report]:
    """A loop of tasks, each of which the child solves."""
    machine: Graph[Task, Report] = graph(
        loosely(solve, on(Solved, deliver) | on(Failed, apologise))
        | edges(deliver, on(Task, solve) | on(Report, END))
        | edges(apologise, on(Report, END)),
        start=solve,
    )
    return machine


def reported(machine: Graph[Task, Any], *tries: int, within: RunContext | None = None) -> str:
    outcome = run_script(lambda: Script(machine, Task(tries), within or nobody())).outcome
    assert isinstance(outcome, Report)
    return outcome.text


# ---- the table


def test_the_nodes_of_a_nested_graph_stand_under_its_name_in_one_flat_table() -> None:
    machine = office(embed(solver(TRIES), "solve", own=[TRIES]))
    assert list(machine.nodes) == ["solve.look", "solve.attempt", "deliver", "apologise"]
    assert machine.start == "solve.look"
    assert str(machine).splitlines() == [
        "solve.look --Trying--> solve.attempt",
        "solve.attempt --Trying--> solve.attempt",
        "solve.attempt --Solved--> deliver",
        "solve.attempt --Failed--> apologise",
        "deliver --Task (solve.tries again)--> solve.look",
        "deliver --Report--> END",
        "apologise --Report--> END",
    ]


def test_its_own_budgets_are_named_after_it_and_the_others_are_what_they_are() -> None:
    machine = office(embed(solver(TRIES, SHARED), "solve", own=[TRIES]))
    assert machine.budgets == {"solve.tries": 3, "shared": 100}
    assert machine["solve.attempt"].meters == (Budget("solve.tries", 3), SHARED)


def test_a_graph_may_start_with_an_ordinary_node_and_come_to_a_nested_one() -> None:
    @node
    def accept(report: Report) -> Task:
        return Task((1, 2))

    solve: Any = embed(solver(TRIES), "solve", own=[TRIES])
    machine: Graph[Report, Any] = graph(
        edges(accept, on(Task, solve)) | loosely(solve, on(Solved, END) | on(Failed, END)), start=accept
    )
    assert machine.start == "accept"
    assert "accept --Task (solve.tries again)--> solve.look" in str(machine).splitlines()
    result = run_script(lambda: Script(machine, Report(""), nobody()))
    assert (result.outcome, result.spent.budgets) == (Solved((2,)), {"solve.tries": 2})


def test_the_node_that_is_embedded_takes_and_returns_what_the_graph_does() -> None:
    solve = embed(solver(TRIES), "solve", own=[TRIES])
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


# ---- what runs, and what it spends


def test_a_nested_graph_runs_as_if_its_nodes_had_been_written_there() -> None:
    machine = office(embed(solver(TRIES), "solve", own=[TRIES]))
    assert reported(machine, 2, 0, 1) == "all solved"


def test_its_own_budgets_are_full_again_at_each_entry() -> None:
    machine = office(embed(solver(TRIES), "solve", own=[TRIES]))
    assert reported(machine, 2, 2, 2, 2) == "all solved"
    assert reported(machine, 2, 3) == "Trying (0,): the limit of 3 solve.tries was reached (3 spent)"


def test_what_is_not_its_own_it_shares_with_the_graph_around_it() -> None:
    machine = office(embed(solver(TRIES), "solve"))
    assert machine.budgets == {"tries": 3}
    assert reported(machine, 2, 2) == "Trying (2,): the limit of 3 tries was reached (3 spent)"


def test_the_limits_of_a_run_know_its_budgets_by_their_whole_names() -> None:
    machine = office(embed(solver(TRIES), "solve", own=[TRIES]))
    assert reported(machine, 4, 4, within=nobody(Limits(budgets={"solve.tries": 5}))) == "all solved"


def test_it_may_have_iterations_of_its_own() -> None:
    machine = office(embed(solver(ITERATIONS), "solve", own=[Budget("iterations", 3)]))
    assert machine.budgets == {"solve.iterations": 3}
    result = run_script(lambda: Script(machine, Task((2, 2, 2)), limited(iterations=1)))
    assert (result.outcome, result.spent) == (Report("all solved"), Spent(budgets={"solve.iterations": 3}))
    shared = office(embed(solver(ITERATIONS), "solve"))
    assert reported(shared, 2, 2, within=limited(iterations=4)) == (
        "Trying (1,): the limit of 4 iterations was reached (4 spent)"
    )


def test_an_edge_within_it_resets_its_own_budgets_under_their_whole_names() -> None:
    inner = solver(TRIES, SHARED, resets=[TRIES, SHARED])
    machine = office(embed(inner, "solve", own=[TRIES]))
    assert "solve.look --Trying (solve.tries, shared again)--> solve.attempt" in str(machine).splitlines()
    result = run_script(lambda: Script(machine, Task((2, 2)), nobody()))
    assert result.spent.budgets == {"solve.tries": 3, "shared": 3}


def test_an_edge_that_leaves_it_resets_what_it_says_itself_and_what_its_row_says() -> None:
    @metered(when_spent=Failed, budget=SHARED)
    @metered(when_spent=Failed, budget=TRIES)
    @node
    def once(task: Task) -> Solved:
        return Solved(task.tries)

    child: Graph[Task, Any] = graph(
        loosely(once, on(Solved, END, resets=[TRIES, SHARED]) | on(Failed, END, resets=[TRIES])), start=once
    )
    inner: Any = embed(child, "inner", own=[TRIES])
    machine = graph(
        loosely(inner, on(Solved, deliver, resets=[SHARED]) | on(Failed, apologise, resets=[SHARED]))
        | edges(deliver, on(Task, inner) | on(Report, END))
        | edges(apologise, on(Report, END)),
        start=inner,
    )
    assert str(machine).splitlines()[:2] == [
        "inner.once --Solved (inner.tries, shared again)--> deliver",
        "inner.once --Failed (inner.tries, shared again)--> apologise",
    ]


# ---- several, and deep ones


def test_a_graph_may_be_embedded_twice_each_time_with_budgets_of_its_own() -> None:
    first: Any = embed(solver(TRIES), "first", own=[TRIES])
    second: Any = embed(solver(TRIES), "second", own=[Budget("tries", 1)])

    @node
    def again(solved: Solved) -> Task:
        return Task(solved.left)

    machine: Graph[Task, Any] = graph(
        loosely(first, on(Solved, again) | on(Failed, apologise))
        | edges(again, on(Task, second))
        | loosely(second, on(Solved, END) | on(Failed, apologise))
        | edges(apologise, on(Report, END)),
        start=first,
    )
    assert machine.budgets == {"first.tries": 3, "second.tries": 1}
    result = run_script(lambda: Script(machine, Task((2, 0)), nobody()))
    assert (result.outcome, result.spent.budgets) == (Solved(()), {"first.tries": 3, "second.tries": 1})
    assert reported(machine, 2, 1) == "Trying (0,): the limit of 1 second.trie was reached (1 spent)"


def test_one_nested_graph_may_lead_straight_into_another_or_into_itself() -> None:
    @node
    def begin_again(solved: Solved) -> Task | Report:
        return Task(solved.left) if solved.left else Report("done")

    small: Graph[Solved, Task | Report] = graph(edges(begin_again, on(Task, END) | on(Report, END)), start=begin_again)
    solve: Any = embed(solver(TRIES), "solve", own=[TRIES])
    choose: Any = embed(small, "choose")
    machine: Graph[Task, Any] = graph(
        loosely(solve, on(Solved, choose) | on(Failed, apologise))
        | loosely(choose, on(Task, solve) | on(Report, END))
        | edges(apologise, on(Report, END)),
        start=solve,
    )
    assert "choose.begin_again --Task (solve.tries again)--> solve.look" in str(machine).splitlines()
    assert reported(machine, 2, 2, 2) == "done"

    @metered(when_spent=Failed, budget=TRIES)
    @node
    def turn(task: Task) -> Task | Solved:
        return Task((task.tries[0] - 1,)) if task.tries[0] else Solved(())

    turning: Any = embed(graph(edges(turn, on(Task, END) | on(Solved, END) | on(Failed, END)), start=turn), "turning")
    loop: Graph[Task, Any] = graph(
        loosely(turning, on(Task, turning) | on(Solved, END) | on(Failed, END)), start=turning
    )
    assert str(loop).splitlines()[0] == "turning.turn --Task--> turning.turn"
    assert run_script(lambda: Script(loop, Task((2,)), nobody())).outcome == Solved(())


def test_graphs_may_be_nested_in_nested_graphs() -> None:
    inner = office(embed(solver(TRIES), "solve", own=[TRIES]))
    work: Any = embed(inner, "work", own=[Budget("solve.tries", 2)])
    machine: Graph[Task, Report] = graph(loosely(work, on(Report, END)), start=work)
    assert list(machine.nodes) == ["work.solve.look", "work.solve.attempt", "work.deliver", "work.apologise"]
    assert machine.start == "work.solve.look"
    assert machine.budgets == {"work.solve.tries": 2}
    assert reported(machine, 1, 1) == "all solved"
    assert reported(machine, 1, 2) == "Trying (0,): the limit of 2 work.solve.tries was reached (2 spent)"


def test_budgets_of_a_graph_within_it_are_its_own_wherever_it_stands() -> None:
    def inner(tries: int) -> Graph[Task, Report]:
        return office(embed(solver(TRIES), "solve", own=[Budget("tries", tries)]))

    @node
    def another(report: Report) -> Task:
        return Task((2,))

    first: Any = embed(inner(3), "first")
    second: Any = embed(inner(1), "second")
    machine: Graph[Task, Report] = graph(
        loosely(first, on(Report, another)) | edges(another, on(Task, second)) | loosely(second, on(Report, END)),
        start=first,
    )
    assert machine.budgets == {"first.solve.tries": 3, "second.solve.tries": 1}
    result = run_script(lambda: Script(machine, Task((2,)), nobody()))
    assert result.outcome == Report("Trying (1,): the limit of 1 second.solve.trie was reached (1 spent)")
    assert result.spent.budgets == {"first.solve.tries": 3, "second.solve.tries": 1}


def test_a_run_in_a_nested_graph_can_be_stored_and_taken_up_again() -> None:
    @charged(when_spent=Failed)
    @node
    def consult(task: Task) -> Asks[Question, Solved]:
        yield from ask(Question("how?"))
        yield from ask(Question("really?"))
        return Solved(task.tries[1:])

    asking: Any = embed(graph(edges(consult, on(Solved, END) | on(Failed, END)), start=consult), "asking")
    machine = office(asking)
    state = advance(machine, begin(machine, Task((1, 1))), Limits())
    assert isinstance(state, PendingEffect)
    assert (state.snapshot.node, state.effect) == ("asking.consult", Question("how?"))
    again = Snapshot.from_json(state.reply("so").to_json(), machine)
    result = run_script(lambda: Script(machine, again, reporter()))
    assert result.outcome == Report("all solved")


# ---- proofs of it


def test_a_nested_loop_is_proved_with_the_loop_around_it() -> None:
    @metered(when_spent=Failed)
    @node
    def hand_out(task: Task) -> Task:
        return task

    solve: Any = embed(solver(TRIES), "solve", own=[TRIES])

    def machine(entry: Any, row: Any) -> Any:
        return graph(
            row
            | loosely(solve, on(Solved, deliver) | on(Failed, apologise))
            | edges(deliver, on(Task, entry) | on(Report, END))
            | edges(apologise, on(Report, END)),
            start=entry,
        )

    bounded = machine(hand_out, loosely(hand_out, on(Task, solve) | on(Failed, apologise)))
    assert bounded.verify(Limits(iterations=4)).proved
    # Nothing bounds how often it is entered, and each entry fills its budget again.
    assert not office(solve).verify().proved


# ---- what is refused


@pytest.mark.parametrize("name", ["", "a b", "a.b", "1st"])
def test_a_nested_graph_has_a_name_as_other_nodes_do(name: str) -> None:
    with pytest.raises(NodeError, match="a node cannot be named"):
        embed(solver(TRIES), name)


def test_it_owns_only_what_meters_one_of_its_nodes() -> None:
    def text(child: Graph[Any, Any], *own: Budget) -> str:
        with pytest.raises(NodeError) as caught:
            embed(child, "solve", own=own)
        return str(caught.value)

    assert text(solver(TRIES), Budget("trys", 3)) == (
        "solve cannot own trys, which meters none of its nodes; own one of tries"
    )
    assert text(solver(TRIES, SHARED), Budget("trys", 3)).endswith(("own one of tries, shared", "shared, tries"))
    assert text(solver(ITERATIONS), ITERATIONS, TRIES) == (
        "solve cannot own tries, which meters none of its nodes; own one of iterations"
    )
    unmetered: Graph[Failed, Report] = graph(edges(apologise, on(Report, END)), start=apologise)
    assert text(unmetered, TRIES) == "solve cannot own tries, which meters none of its nodes; own one of none"


def faults(build: Any) -> list[str]:
    with pytest.raises(GraphError) as caught:
        build()
    return [f"{fault.code} {fault.node}: {fault.text}" for fault in caught.value.faults]


def test_its_row_is_total_like_any_other() -> None:
    solve: Any = embed(solver(TRIES), "solve", own=[TRIES])
    assert faults(lambda: graph(loosely(solve, on(Solved, END)), start=solve)) == [
        "GX002 solve: solve may return Failed, which no edge takes; add on(Failed, ...)"
    ]


def test_what_is_wrong_with_its_budgets_is_found_with_those_of_the_others() -> None:
    @metered(when_spent=Failed, budget=Budget("shared", 5))
    @node
    def hand_out(task: Task) -> Task:
        return task

    solve: Any = embed(solver(TRIES, SHARED), "solve", own=[TRIES])
    assert faults(
        lambda: graph(
            loosely(hand_out, on(Task, solve) | on(Failed, END)) | loosely(solve, on(Solved, END) | on(Failed, END)),
            start=hand_out,
        )
    ) == [
        "GX011 solve: solve is metered by shared with the limit 100, but another node has the limit 5; "
        "use one Budget for both"
    ]


def test_a_budget_that_the_graph_around_it_spends_is_not_mixed_up_with_its_own() -> None:
    @metered(when_spent=Failed, budget=Budget("tries", 9))
    @node
    def hand_out(task: Task) -> Task:
        return task

    solve: Any = embed(solver(TRIES), "solve", own=[TRIES])
    machine: Graph[Task, Any] = graph(
        loosely(hand_out, on(Task, solve) | on(Failed, END)) | loosely(solve, on(Solved, END) | on(Failed, END)),
        start=hand_out,
    )
    assert machine.budgets == {"tries": 9, "solve.tries": 3}


def test_an_edge_may_reset_what_only_a_nested_graph_spends() -> None:
    solve: Any = embed(solver(TRIES), "solve")
    machine: Graph[Task, Any] = graph(
        loosely(solve, on(Solved, deliver, resets=[TRIES]) | on(Failed, apologise))
        | edges(deliver, on(Task, solve) | on(Report, END))
        | edges(apologise, on(Report, END)),
        start=solve,
    )
    assert "solve.attempt --Solved (tries again)--> deliver" in str(machine).splitlines()
    assert reported(machine, 2, 2, 2) == "all solved"


# ---- drafts with nested graphs


def test_a_draft_is_inlined_as_well_and_what_has_no_edge_has_none() -> None:
    solve: Any = embed(solver(TRIES), "solve", own=[TRIES])
    machine = draft(loosely(solve, on(Solved, END)), start=solve)
    assert str(machine).splitlines() == [
        "solve.look --Trying--> solve.attempt",
        "solve.attempt --Trying--> solve.attempt",
        "solve.attempt --Solved--> END",
    ]
    assert machine.start == "solve.look"


def test_a_clock_in_a_node_ticks_as_it_does_alone() -> None:
    clock: Any = embed(CLOCK, "clock")
    machine: Graph[Tick, Any] = graph(loosely(clock, on(Stopped, END)), start=clock)
    alone = run_script(lambda: Script(CLOCK, Tick(), limited(iterations=3)))
    nested = run_script(lambda: Script(machine, Tick(), limited(iterations=3)))
    assert (nested.outcome, nested.spent) == (alone.outcome, alone.spent)


def test_embedding_what_has_no_graph_is_refused() -> None:
    given: Any
    for given in (None, "clock", 3):
        with pytest.raises(InputError, match=r"is not a graph; write embed\(graph, name\)"):
            embed(given, "clock")
