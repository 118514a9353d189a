"""Subgraphs are inlined into one flat table; their budgets are their own or shared."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import graphexec as gx
from graphexec import errors, kernel
from tests.kernel import machines as m
from tests.parameters import cases


@m.value
class Task:
    """The allowed tries of each remaining task."""

    tries: tuple[int, ...]


@m.value
class Trying:
    tries: tuple[int, ...]


@m.value
class Solved:
    left: tuple[int, ...]


@m.value
class Failed:
    at: Task | Trying
    limit: gx.Exhausted


TRIES = gx.Meter("tries", 3)
SHARED = gx.Meter("shared", 100)

loosely: Any = gx.edges


look = m.pure("look", Task, Trying, lambda task: Trying(task.tries))


@gx.node
def attempt(trying: Trying) -> Trying | Solved:
    first, *others = trying.tries
    return Trying((first - 1, *others)) if first else Solved(tuple(others))


def solver(*budgets: gx.Meter, resets: Sequence[gx.Meter] = ()) -> gx.Graph[Task, Solved | Failed]:
    """Return a graph that attempts a task until it is solved; an attempt costs one of each budget."""
    costly: Any = gx.node(when_spent=Failed, meters=budgets)(attempt)
    machine: gx.Machine[Task, Solved | Failed] = gx.graph(
        gx.edges(look, gx.on(Trying, costly, resets=resets))
        | loosely(costly, gx.on(Trying, costly) | gx.on(Solved, gx.END) | gx.on(Failed, gx.END)),
        start=look,
    )
    return machine


@gx.node
def deliver(solved: Solved) -> Task | m.Total:
    return Task(solved.left) if solved.left else m.Total("all solved")


@gx.node
def apologise(failed: Failed) -> m.Total:
    return m.Total(f"{type(failed.at).__name__} {failed.at.tries}: {failed.limit}")


def office(solve: Any, *, resets: Sequence[gx.Meter] = ()) -> gx.Machine[Task, m.Total]:
    """Return a loop over tasks; the child solves each one."""
    return m.machine_of(solve, deliver, apologise, resets={Solved: resets, Failed: resets})


hand_out = m.pure("hand_out", Task, Task, lambda task: task)


def hand_out_to(solve: Any, budget: gx.Meter) -> gx.Graph[Task, Any]:
    """Return a graph with a metered node before the child."""
    costly = gx.node(when_spent=Failed, meters=[budget])(hand_out)
    return gx.graph(
        loosely(costly, gx.on(Task, solve) | gx.on(Failed, gx.END))
        | loosely(solve, gx.on(Solved, gx.END) | gx.on(Failed, gx.END)),
        start=costly,
    )


again = m.pure("again", Solved, Task, lambda solved: Task(solved.left))


def solve_twice() -> gx.Graph[Task, Any]:
    first: Any = gx.embed(solver(TRIES), "first", own=[TRIES])
    second: Any = gx.embed(solver(TRIES), "second", own=[gx.Meter("tries", 1)])
    return gx.graph(
        loosely(first, gx.on(Solved, again) | gx.on(Failed, apologise))
        | gx.edges(again, gx.on(Task, second))
        | loosely(second, gx.on(Solved, gx.END) | gx.on(Failed, apologise))
        | gx.edges(apologise, gx.on(m.Total, gx.END)),
        start=first,
    )


@gx.node
def begin_again(solved: Solved) -> Task | m.Total:
    return Task(solved.left) if solved.left else m.Total("done")


def choose_next() -> gx.Graph[Task, Any]:
    """Return two graphs that lead to each other."""
    choose: Any = gx.embed(m.machine_of(begin_again), "choose")
    return m.machine_of(SOLVE, choose, apologise)


another = m.pure("another", m.Total, Task, lambda report: Task((2,)))


def two_offices() -> gx.Graph[Task, m.Total]:
    """Return two graphs with a subgraph, which has a budget of its own in each."""

    def inner(name: str, tries: int) -> Any:
        return gx.embed(office(gx.embed(solver(TRIES), "solve", own=[gx.Meter("tries", tries)])), name)

    first, second = inner("first", 3), inner("second", 1)
    return gx.graph(
        loosely(first, gx.on(m.Total, another))
        | gx.edges(another, gx.on(Task, second))
        | loosely(second, gx.on(m.Total, gx.END)),
        start=first,
    )


@gx.node(when_spent=Failed, meters=[TRIES, SHARED])
def once(task: Task) -> Solved:
    return Solved(task.tries)


def leave_with_resets() -> gx.Graph[Task, m.Total]:
    child = m.machine_of(once, resets={Solved: [TRIES, SHARED], Failed: [TRIES]})
    return office(gx.embed(child, "inner", own=[TRIES]), resets=[SHARED])


@gx.node(when_spent=Failed, meters=[TRIES])
def turn(task: Task) -> Task | Solved:
    return Task((task.tries[0] - 1,)) if task.tries[0] else Solved(())


SOLVE: Any = gx.embed(solver(TRIES), "solve", own=[TRIES])
OFFICE, SHARING = office(SOLVE), office(gx.embed(solver(TRIES), "solve"))
OWN_ITERATIONS = office(gx.embed(solver(kernel.ITERATIONS), "solve", own=[gx.Meter("iterations", 3)]))
RESETTING = office(gx.embed(solver(TRIES, SHARED, resets=[TRIES, SHARED]), "solve", own=[TRIES]))
REFILLING = office(gx.embed(solver(TRIES), "solve"), resets=[TRIES])
TWICE, CHOOSING, TWO_OFFICES = solve_twice(), choose_next(), two_offices()
NESTED = m.machine_of(gx.embed(OFFICE, "work", own=[gx.Meter("solve.tries", 2)]))


@cases(
    ("machine", "lines"),
    (
        OFFICE,
        [
            "solve.look --Trying--> solve.attempt",
            "solve.attempt --Trying--> solve.attempt",
            "solve.attempt --Solved--> deliver",
            "solve.attempt --Failed--> apologise",
            "deliver --Task (resets solve.tries)--> solve.look",
            "deliver --Total--> END",
            "apologise --Total--> END",
        ],
    ),
    (RESETTING, ["solve.look --Trying (resets solve.tries, shared)--> solve.attempt"]),
    (REFILLING, ["solve.attempt --Solved (resets tries)--> deliver"]),
    (CHOOSING, ["choose.begin_again --Task (resets solve.tries)--> solve.look"]),
    (hand_out_to(SOLVE, kernel.ITERATIONS), ["hand_out --Task (resets solve.tries)--> solve.look"]),
    # A leaving edge combines both resets.
    (
        leave_with_resets(),
        [
            "inner.once --Solved (resets inner.tries, shared)--> deliver",
            "inner.once --Failed (resets inner.tries, shared)--> apologise",
        ],
    ),
)
def test_edges_of_a_subgraph_are_inlined_with_its_resets(machine: gx.Graph[Any, Any], lines: list[str]) -> None:
    assert [one for one in str(machine).splitlines() if one in lines] == lines


@cases(
    ("machine", "nodes"),
    (OFFICE, ["solve.look", "solve.attempt", "deliver", "apologise"]),
    (NESTED, ["work.solve.look", "work.solve.attempt", "work.deliver", "work.apologise"]),
    (hand_out_to(SOLVE, kernel.ITERATIONS), ["hand_out", "solve.look", "solve.attempt"]),
)
def test_subgraph_nodes_are_inlined_with_a_prefix(machine: gx.Graph[Any, Any], nodes: list[str]) -> None:
    assert (list(machine.nodes), machine.start) == (nodes, nodes[0])


@cases(
    ("machine", "budgets"),
    (office(gx.embed(solver(TRIES, SHARED), "solve", own=[TRIES])), {"solve.tries": 3, "shared": 100}),
    (SHARING, {"tries": 3}),
    (OWN_ITERATIONS, {"solve.iterations": 3}),
    (TWICE, {"first.tries": 3, "second.tries": 1}),
    (NESTED, {"work.solve.tries": 2}),
    (TWO_OFFICES, {"first.solve.tries": 3, "second.solve.tries": 1}),
    (hand_out_to(SOLVE, gx.Meter("tries", 9)), {"tries": 9, "solve.tries": 3}),
)
def test_only_own_budgets_get_the_prefix(machine: gx.Graph[Any, Any], budgets: dict[str, int]) -> None:
    assert {name: one.limit for name, one in machine.meters.items()} == budgets
    assert {one.name: one.limit for node in machine for one in node.meters if one != kernel.ITERATIONS} == budgets


def test_embedded_node_has_types_and_a_piece() -> None:
    """They belong to the piece of the node that they replace or, if it has none, to their own one, with the prefix."""
    inner = gx.replace(solver(TRIES), dataclasses.replace(look, group="peek"))
    embedded = gx.embed(inner, "solve", own=[TRIES])
    assert {one.name: one.group for one in office(embedded) if one.group} == {"solve.look": "solve.peek"}
    owned = dataclasses.replace(embedded, group="helper")
    assert {one.group for one in office(owned) if one.name.startswith("solve.")} == {"helper"}
    assert repr(SOLVE) == "<node solve: Task -> Solved | Failed>"
    assert (SOLVE.returns, SOLVE.kind, SOLVE.meters) == ((Solved, Failed), "pure", ())
    assert (SOLVE.least, SOLVE.most) == (0, None)


@cases(
    ("machine", "tries", "limits", "outcome", "spent"),
    (OFFICE, (2, 0, 1), {}, "all solved", {"solve.tries": 2}),
    # Each entry resets own budgets, and the limits of the run use their full names; other budgets are shared.
    (OFFICE, (2, 2, 2, 2), {}, "all solved", {"solve.tries": 3}),
    (OFFICE, (2, 3), {}, "Trying (0,): the limit of 3 solve.tries was reached (3 spent)", {"solve.tries": 3}),
    (OFFICE, (4, 4), {"solve.tries": 5}, "all solved", {"solve.tries": 5}),
    (SHARING, (2, 2), {}, "Trying (2,): the limit of 3 tries was reached (3 spent)", {"tries": 3}),
    (REFILLING, (2, 2, 2), {}, "all solved", {"tries": 0}),
    (RESETTING, (2, 2), {}, "all solved", {"solve.tries": 3, "shared": 3}),
    (OWN_ITERATIONS, (2, 2, 2), {"iterations": 1}, "all solved", {"solve.iterations": 3}),
    (
        office(gx.embed(solver(kernel.ITERATIONS), "solve")),
        (2, 2),
        {"iterations": 4},
        "Trying (1,): the limit of 4 iterations was reached (4 spent)",
        {"iterations": 4},
    ),
    # Several and nested subgraphs.
    (hand_out_to(SOLVE, kernel.ITERATIONS), (1, 2), {}, Solved((2,)), {"iterations": 1, "solve.tries": 2}),
    (TWICE, (2, 0), {}, Solved(()), {"first.tries": 3, "second.tries": 1}),
    (TWICE, (2, 1), {}, "Trying (0,): the limit of 1 second.trie was reached (1 spent)", TWICE.own),
    (CHOOSING, (2, 2, 2), {}, "done", {"solve.tries": 3}),
    (NESTED, (1, 1), {}, "all solved", {"work.solve.tries": 2}),
    (NESTED, (1, 2), {}, "Trying (0,): the limit of 2 work.solve.tries was reached (2 spent)", NESTED.own),
    (
        TWO_OFFICES,
        (2,),
        {},
        "Trying (1,): the limit of 1 second.solve.trie was reached (1 spent)",
        {"first.solve.tries": 3, "second.solve.tries": 1},
    ),
)
def test_run_spends_budgets_of_its_subgraphs(machine: Any, tries: Any, limits: Any, outcome: Any, spent: Any) -> None:
    meters = {gx.Meter(name): limit for name, limit in limits.items() if name != "iterations"}
    context = m.without_handlers(gx.Limits(meters, iterations=limits.get("iterations", 15)))
    result = m.run_machine(machine, Task(tries), context)
    assert result.outcome == (m.Total(outcome) if isinstance(outcome, str) else outcome)
    own = {name: count for name, count in spent.items() if name != "iterations"}
    assert result.spent == gx.Spent(iterations=spent.get("iterations", 0), meters=own)


def test_loops_can_be_embedded() -> None:
    turning: Any = gx.graph(
        gx.edges(turn, gx.on(Task, gx.END) | gx.on(Solved, gx.END) | gx.on(Failed, gx.END)), start=turn
    )
    loop = m.machine_of(gx.embed(turning, "turning"))
    assert str(loop).splitlines()[0] == "turning.turn --Task--> turning.turn"
    assert m.run_machine(loop, Task((2,))).outcome == Solved(())
    alone, nested = (
        m.run_machine(machine, m.Tick(), m.limited(iterations=3))
        for machine in (m.CLOCK, m.machine_of(gx.embed(m.CLOCK, "clock")))
    )
    assert (nested.outcome, nested.spent) == (alone.outcome, alone.spent)


NOT_OWN = "solve cannot own {}, which meters none of its nodes; own one"


@cases(
    ("child", "name", "own", "facts"),
    *((solver(TRIES), name, [], ["a node cannot be named"]) for name in ("", "a b", "a.b", "1st")),
    (solver(TRIES), "solve", [gx.Meter("trys", 3)], [NOT_OWN.format("trys"), "of tries"]),
    (solver(TRIES, SHARED), "solve", [gx.Meter("trys", 3)], [NOT_OWN.format("trys"), "tries", "shared"]),
    (solver(kernel.ITERATIONS), "solve", [kernel.ITERATIONS, TRIES], [NOT_OWN.format("tries"), "of iterations"]),
    (m.machine_of(apologise), "solve", [TRIES], [NOT_OWN.format("tries"), "of none"]),
)
def test_invalid_name_or_budget_is_refused(child: Any, name: str, own: list[gx.Meter], facts: list[str]) -> None:
    m.check_refusal(errors.NodeError, facts, lambda: gx.embed(child, name, own=own))


@cases(
    ("build", "fault"),
    (
        lambda: gx.graph(loosely(SOLVE, gx.on(Solved, gx.END)), start=SOLVE),
        "GX002 solve Failed: solve may return Failed, which no edge takes; add on(Failed, ...)",
    ),
    (
        lambda: hand_out_to(gx.embed(solver(TRIES, SHARED), "solve", own=[TRIES]), gx.Meter("shared", 5)),
        "GX011 solve.attempt None: solve.attempt counts Meter('shared', 100), but there is also "
        "Meter('shared', 5); use one Meter for both",
    ),
)
def test_faults_of_a_subgraph_are_reported(build: Callable[[], object], fault: str) -> None:
    assert m.faults_of(build) == [fault]


def test_name_of_a_subgraph_is_taken_once() -> None:
    machine = hand_out_to(SOLVE, kernel.ITERATIONS)
    again = loosely(SOLVE, gx.on(Solved, gx.END) | gx.on(Failed, gx.END))
    faults = m.faults_of(gx.splice, machine, again, after=machine["hand_out"], on=Task)
    assert "GX020 solve.look None: two nodes are named solve.look; embed one under another name" in faults


@cases("given", None, "clock", 3)
def test_embedding_a_value_without_a_graph_is_refused(given: Any) -> None:
    assert "is not a graph; write embed(graph, name)" in m.error_message(errors.InputError, gx.embed, given, "clock")
