"""Drafts may have faults: they can be drawn and verified, and run until an edge is missing."""

from importlib import import_module
from typing import Any

import pytest

from graphexec import END, Graph, GraphError, Snapshot, draft, edges, graph, node, on
from graphexec.errors import Fault, NodeError, UnhandledOutcomeError
from graphexec.kernel import Edge, bind
from graphexec.kernel.surgery import unbind
from graphexec.kernel.validation import faults_of
from tests.drivers import LIVE
from tests.kernel.machines import (
    Even,
    Number,
    Odd,
    Sum,
    Total,
    halve,
    join,
    run_machine,
    split,
    triple,
)

row: Any = edges
lax: Any = draft


def incomplete_diamond() -> Any:
    """Return the diamond without an edge for odd numbers, and with a node that has no row."""
    return draft(row(split, on(Even, halve)) | row(halve, on(Sum, join)), start=split)


def test_draft_runs_until_an_edge_is_missing() -> None:
    machine = incomplete_diamond()
    assert (str(machine), machine.start) == ("split --Even--> halve\nhalve --Sum--> join", "split")
    with pytest.raises(GraphError):
        graph(row(split, on(Even, halve)) | row(halve, on(Sum, join)), start=split)
    with pytest.raises(UnhandledOutcomeError) as caught:
        run_machine(incomplete_diamond(), Number(3))
    error = caught.value
    assert (error.node, error.outcome) == ("split", Odd(3))
    assert str(error) == "split returned an Odd, which no edge takes; add on(Odd, ...) to its row"
    assert error.__cause__ is None
    with pytest.raises(UnhandledOutcomeError, match="join returned a Total, which no edge takes"):
        run_machine(incomplete_diamond(), Number(4))


def test_draft_of_a_total_table_equals_its_graph() -> None:
    table = (
        edges(split, on(Even, halve) | on(Odd, triple))
        | edges(halve, on(Sum, join))
        | edges(triple, on(Sum, join))
        | edges(join, on(Total, END))
    )
    drafted, checked = draft(table, start=split), graph(table, start=split)
    assert (str(drafted), list(drafted.nodes)) == (str(checked), list(checked.nodes))
    assert run_machine(drafted, Number(3)).outcome == Total("tripled to 10")


def test_draft_may_have_nodes_without_edges() -> None:
    @node
    def settle(total: Total) -> Sum:
        return Sum(1, total.text)

    machine = lax(row(split, on(Even, halve) | on(Odd, triple)) | row(settle, on(Sum, join)), start=split)
    assert list(machine.nodes) == ["split", "settle", "halve", "triple", "join"]
    with pytest.raises(UnhandledOutcomeError, match="join returned a Total"):
        run_machine(machine, Snapshot("settle", Total("so")), drivers=LIVE)
    # A graph that was built without `graph` may have such edges.
    lines = [Edge("split", Even, "halve"), Edge("split", Odd, "triple"), Edge("triple", Sum, "join")]
    unchecked: Graph[Number, Any] = Graph([split, halve], lines, "split")
    assert len(unchecked.edges) == 3
    with pytest.raises(UnhandledOutcomeError, match="halve returned a Sum"):
        run_machine(unchecked, Number(4))
    with pytest.raises(UnhandledOutcomeError, match="split returned an Odd"):
        run_machine(unchecked, Number(3))


def test_faults_of_a_draft_are_reported() -> None:
    verdict = incomplete_diamond().verify()
    assert not verdict.proved
    assert {(finding.code, finding.node) for finding in verdict.findings} >= {("GX002", "split"), ("GX005", "join")}
    with pytest.raises(GraphError, match="split may return Odd, which no edge takes"):
        bind(incomplete_diamond())
    with pytest.raises(NodeError, match=r"the table is \[\]; write edges"):
        lax([], start=split)
    with pytest.raises(NodeError, match="is not a node; decorate the function with @node"):
        lax(row(split, on(Even, END)), start=print)


def test_bound_machine_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To bind a machine changes nothing that a fault could be in."""
    drafted = draft(edges(halve, on(Sum, join)) | edges(join, on(Total, END)), start=halve)
    machine = bind(drafted)
    checks: list[str] = []

    def find_faults(*arguments: Any) -> list[Fault]:
        checks.append("table")
        return faults_of(*arguments)

    # The package has a function of this module's name.
    monkeypatch.setattr(import_module("graphexec.kernel.graph"), "faults_of", find_faults)
    assert unbind(bind(machine)).verify().proved
    assert checks == []
    assert bind(drafted).verify().proved
    assert checks == ["table"]
