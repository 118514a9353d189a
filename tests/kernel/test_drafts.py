"""A draft may be wrong: it can be looked at and verified, and it runs as far as it goes."""

from typing import Any

import pytest

from graphexec import END, Graph, GraphError, Snapshot, draft, edges, graph, node, on
from graphexec.errors import NodeError, UnhandledOutcomeError
from graphexec.kernel import Edge
from tests.drivers import LIVE, Script, run_script
from tests.kernel.machines import Even, Number, Odd, Sum, Total, halve, join, nobody, split, triple

row: Any = edges
lax: Any = draft


def unfinished() -> Any:
    """The diamond, in which nobody has thought of odd numbers yet, and a node is named that has no row."""
    return draft(row(split, on(Even, halve)) | row(halve, on(Sum, join)), start=split)


def test_a_table_that_is_no_graph_yet_is_a_draft() -> None:
    machine = unfinished()
    assert (str(machine), machine.start) == ("split --Even--> halve\nhalve --Sum--> join", "split")
    with pytest.raises(GraphError):
        graph(row(split, on(Even, halve)) | row(halve, on(Sum, join)), start=split)


def test_a_right_table_makes_the_same_machine_either_way() -> None:
    table = (
        edges(split, on(Even, halve) | on(Odd, triple))
        | edges(halve, on(Sum, join))
        | edges(triple, on(Sum, join))
        | edges(join, on(Total, END))
    )
    drafted, checked = draft(table, start=split), graph(table, start=split)
    assert (str(drafted), list(drafted.nodes)) == (str(checked), list(checked.nodes))
    assert run_script(lambda: Script(drafted, Number(3), nobody())).outcome == Total("tripled to 10")


def test_a_draft_runs_as_far_as_its_edges_go() -> None:
    with pytest.raises(UnhandledOutcomeError) as caught:
        run_script(lambda: Script(unfinished(), Number(3), nobody()))
    error = caught.value
    assert (error.node, error.outcome) == ("split", Odd(3))
    assert str(error) == "split returned an Odd, which no edge takes; add on(Odd, ...) to its row"
    assert error.__cause__ is None
    with pytest.raises(UnhandledOutcomeError, match="join returned a Total, which no edge takes"):
        run_script(lambda: Script(unfinished(), Number(4), nobody()))


def test_a_node_that_is_only_named_has_no_edges_and_a_row_that_nothing_leads_to_is_there() -> None:
    @node
    def settle(total: Total) -> Sum:
        return Sum(1, total.text)

    machine = lax(row(split, on(Even, halve) | on(Odd, triple)) | row(settle, on(Sum, join)), start=split)
    assert list(machine.nodes) == ["split", "settle", "halve", "triple", "join"]
    with pytest.raises(UnhandledOutcomeError, match="join returned a Total"):
        run_script(lambda: Script(machine, Snapshot("settle", Total("so")), nobody()), drivers=LIVE)


def test_an_edge_of_or_to_a_node_that_the_machine_does_not_have_is_listed_and_leads_nowhere() -> None:
    # As what is read from elsewhere may have them.
    machine: Graph[Number, Any] = Graph(
        [split, halve],
        [Edge("split", Even, "halve"), Edge("split", Odd, "triple"), Edge("triple", Sum, "join")],
        "split",
    )
    assert len(machine.edges) == 3
    with pytest.raises(UnhandledOutcomeError, match="halve returned a Sum"):
        run_script(lambda: Script(machine, Number(4), nobody()))
    with pytest.raises(UnhandledOutcomeError, match="split returned an Odd"):
        run_script(lambda: Script(machine, Number(3), nobody()))


def test_what_is_wrong_with_a_draft_is_found_when_it_is_verified() -> None:
    verdict = unfinished().verify()
    assert not verdict.proved
    assert {(finding.code, finding.node) for finding in verdict.findings} >= {("GX002", "split"), ("GX005", "join")}


def test_what_is_no_table_is_not_drafted() -> None:
    with pytest.raises(NodeError, match=r"the table is \[\]; write edges"):
        lax([], start=split)
    with pytest.raises(NodeError, match="is not a node; decorate the function with @node"):
        lax(row(split, on(Even, END)), start=print)
