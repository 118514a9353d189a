"""Drafts may have faults: they can be drawn and verified, and run until an edge is missing."""

from importlib import import_module
from typing import Any

import pytest

from graphexec import END, Graph, GraphError, Snapshot, draft, edges, graph, node, on, replace
from graphexec.errors import Fault, NodeError, UnhandledOutcomeError
from graphexec.kernel import Edge
from graphexec.kernel.tables import faults_of
from tests.drivers import LIVE
from tests.kernel import machines as m

row: Any = edges
lax: Any = draft


def incomplete_diamond() -> Any:
    """Return the diamond without an edge for odd numbers, and with a node that has no row."""
    return draft(row(m.split, on(m.Even, m.halve)) | row(m.halve, on(m.Sum, m.join)), start=m.split)


def test_draft_runs_until_an_edge_is_missing() -> None:
    machine = incomplete_diamond()
    assert (str(machine), machine.start) == ("split --Even--> halve\nhalve --Sum--> join", "split")
    with pytest.raises(GraphError):
        graph(row(m.split, on(m.Even, m.halve)) | row(m.halve, on(m.Sum, m.join)), start=m.split)
    with pytest.raises(UnhandledOutcomeError) as caught:
        m.run_machine(incomplete_diamond(), m.Number(3))
    error = caught.value
    assert (error.node, error.outcome) == ("split", m.Odd(3))
    assert str(error) == "split returned an Odd, which no edge takes; add on(Odd, ...) to its row"
    assert error.__cause__ is None
    with pytest.raises(UnhandledOutcomeError, match="join returned a Total, which no edge takes"):
        m.run_machine(incomplete_diamond(), m.Number(4))


def test_draft_of_a_total_table_equals_its_graph() -> None:
    table = (
        edges(m.split, on(m.Even, m.halve) | on(m.Odd, m.triple))
        | edges(m.halve, on(m.Sum, m.join))
        | edges(m.triple, on(m.Sum, m.join))
        | edges(m.join, on(m.Total, END))
    )
    drafted, checked = draft(table, start=m.split), graph(table, start=m.split)
    assert (str(drafted), list(drafted.nodes)) == (str(checked), list(checked.nodes))
    assert m.run_machine(drafted, m.Number(3)).outcome == m.Total("tripled to 10")


def test_draft_may_have_nodes_without_edges() -> None:
    @node
    def settle(total: m.Total) -> m.Sum:
        return m.Sum(1, total.text)

    draft = lax(row(m.split, on(m.Even, m.halve) | on(m.Odd, m.triple)) | row(settle, on(m.Sum, m.join)), start=m.split)
    assert list(draft.nodes) == ["split", "settle", "halve", "triple", "join"]
    with pytest.raises(UnhandledOutcomeError, match="join returned a Total"):
        m.run_machine(draft, Snapshot("settle", m.Total("so")), drivers=LIVE)
    # A graph that was built without `graph` may have such edges.
    lines = [Edge("split", m.Even, "halve"), Edge("split", m.Odd, "triple"), Edge("triple", m.Sum, "join")]
    unchecked: Graph[m.Number, Any] = Graph([m.split, m.halve], lines, "split")
    assert len(unchecked.edges) == 3
    with pytest.raises(UnhandledOutcomeError, match="halve returned a Sum"):
        m.run_machine(unchecked, m.Number(4))
    with pytest.raises(UnhandledOutcomeError, match="split returned an Odd"):
        m.run_machine(unchecked, m.Number(3))


def test_faults_of_a_draft_are_reported() -> None:
    verdict = incomplete_diamond().verify()
    assert not verdict.proved
    assert {(finding.code, finding.node) for finding in verdict.findings} >= {("GX002", "split"), ("GX005", "join")}
    with pytest.raises(GraphError, match="split may return Odd, which no edge takes"):
        replace(incomplete_diamond(), m.split)
    with pytest.raises(NodeError, match=r"the table is \[\]; write edges"):
        lax([], start=m.split)
    with pytest.raises(NodeError, match="is not a node; decorate the function with @node"):
        lax(row(m.split, on(m.Even, END)), start=print)


def test_machine_with_settings_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings change nothing that a fault could be in."""
    drafted = draft(edges(m.halve, on(m.Sum, m.join)) | edges(m.join, on(m.Total, END)), start=m.halve)
    machine = graph(edges(m.halve, on(m.Sum, m.join)) | edges(m.join, on(m.Total, END)), start=m.halve)
    checks: list[str] = []

    def find_faults(*arguments: Any) -> list[Fault]:
        checks.append("table")
        return faults_of(*arguments)

    # The package has a function of this module's name.
    monkeypatch.setattr(import_module("graphexec.kernel.graph"), "faults_of", find_faults)
    assert machine.with_settings(1).verify().proved
    assert checks == []
    assert drafted.with_settings(1).verify().proved
    assert checks == ["table"]
