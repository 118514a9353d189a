"""What pictures show besides the table: budgets, and edges that are pointed out."""

from __future__ import annotations

from graphexec import AGENT_EXECUTOR, Graph
from graphexec.draw import Marks, draw, marks_of
from graphexec.verify import Finding, verify
from tests.verify.writing import PERFECTIONIST, WRITER


def marked() -> Marks:
    return marks_of(PERFECTIONIST, verify(PERFECTIONIST).findings)


def test_the_loop_is_red_and_the_way_to_it_orange() -> None:
    told = {f"{edge.source} {edge.outcome.__name__}": mark for edge, mark in marked().items()}
    assert told == {"write Text": "orange", "criticize Poor": "red", "polish Text": "red"}


def test_an_edge_that_is_at_fault_is_red_and_a_finding_without_one_marks_nothing() -> None:
    findings = [
        Finding("GX022", "error", "edit", "Book", "it does not fit", "mend it"),
        Finding("GX004", "error", "polish", None, "it cannot be reached", "mend it"),
        Finding("GX002", "error", "edit", "Letter", "no edge takes it", "mend it"),
    ]
    assert {str(edge): mark for edge, mark in marks_of(WRITER, findings).items()} == {"edit --Book--> END": "red"}


def test_mermaid_colours_the_links_by_their_numbers() -> None:
    lines = draw(PERFECTIONIST, "mermaid", marks=marked()).splitlines()
    links = [line.strip() for line in lines if " --" in line or " -." in line]
    styles = {line.split()[1]: line.split()[2].partition(",")[0] for line in lines if "linkStyle" in line}
    assert links[1] == "n0 -- Text --> n1"
    assert [links[number] for number in (4, 5)] == ["n1 -- Poor --> n2", "n2 -- Text --> n1"]
    assert styles == {"1": "stroke:#ff7f0e", "4,5": "stroke:#d62728"}


def test_dot_colours_the_edges() -> None:
    lines = [line.strip() for line in draw(PERFECTIONIST, "dot", marks=marked()).splitlines()]
    assert '"write" -> "criticize" [label="Text", color="#ff7f0e", fontcolor="#ff7f0e", penwidth=2]' in lines
    assert '"polish" -> "criticize" [label="Text", color="#d62728", fontcolor="#d62728", penwidth=3]' in lines
    assert '"criticize" -> "edit" [label="Good"]' in lines


def test_any_edge_can_be_grey() -> None:
    marks: Marks = {AGENT_EXECUTOR.edges[1]: "grey"}
    assert "linkStyle 2 stroke:#b0b0b0,stroke-width:1px,color:#b0b0b0" in draw(AGENT_EXECUTOR, "mermaid", marks=marks)
    dashed = 'style=dashed, color="#b0b0b0"'
    assert draw(AGENT_EXECUTOR, "dot", marks=marks).count(dashed) == 1


def test_without_marks_and_budgets_nothing_is_added() -> None:
    assert draw(AGENT_EXECUTOR, "mermaid", marks={}) == format(AGENT_EXECUTOR, "mermaid")
    assert "linkStyle" not in format(AGENT_EXECUTOR, "mermaid")
    assert "color" not in format(AGENT_EXECUTOR, "dot")


def test_a_budget_of_its_own_and_what_refills_it_are_told() -> None:
    mermaid, dot = format(WRITER, "mermaid"), format(WRITER, "dot")
    assert '["revise<br/>each entry costs one of revisions"]' in mermaid
    assert '["write<br/>each entry costs an iteration"]' in mermaid
    assert '-- "Chapter<br/>revisions again" -->' in mermaid
    assert r'label="revise\neach entry costs one of revisions"' in dot
    assert r'"edit" -> "write" [label="Chapter\nrevisions again"]' in dot


def test_a_draft_is_drawn_with_the_nodes_that_it_lacks() -> None:
    nodes = [node for node in WRITER if node.name != "revise"]
    lacking: Graph[object, object] = Graph(nodes, WRITER.edges, WRITER.start)
    assert '"revise" [shape=box, style=dotted]' in format(lacking, "dot")
    assert '    n3["revise"]' in format(lacking, "mermaid")
    assert [line for line in format(lacking, "mermaid").splitlines() if "Poor" in line] == ["    n2 -- Poor --> n3"]
