"""Mermaid's own parser reads the edges of the table in our diagrams."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import END, Machine, executor
from graphexec.draw.formats.mermaid import mermaid
from graphexec.draw.model.picture import Arrow, Box, Picture, picture_of
from graphexec.kernel import Graph
from tests.browser.boxes import elements, overlapping_texts
from tests.browser.mermaid import read, show, visible_lines
from tests.checks.strategies import graphs
from tests.draw.browser import Page
from tests.draw.machines import BAD, HOSTILE, MACHINES
from tests.parameters import examples, some

pytestmark = pytest.mark.browser

TITLE = ".flowchartTitleText"
# Look-alikes in titles of characters that Mermaid does not show.
ALIKE = str.maketrans(
    {
        "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
        ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
        "\N{LATIN SMALL LIGATURE FL}": "fl",
        "\N{PILCROW SIGN}": "\N{REVERSED PILCROW SIGN}",
    }
)
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=4), max_size=3).map("".join)


def full_names(picture: Picture) -> dict[str, str]:
    """Return the name of each node with the titles of the boxes that contain it: graphs and pieces."""
    return {END.name: END.name} | {box.name: ".".join((*box.path, box.title)) for box in picture.boxes}


def table(machine: Graph[Any, Any], names: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the edges of the table between nodes of these names, and the exceptions that a node may end the run by."""
    edges = [(names[edge.source], edge.outcome.__name__, names[edge.target]) for edge in machine.edges]
    raised = [(names[node.name], f"raises {error.__name__}", END.name) for node in machine for error in node.raises]
    return sorted(edges + raised)


def titled(*caption: str) -> list[str]:
    """Return a caption as one line, with look-alike characters."""
    line = " ".join(visible_lines(*caption)).translate(ALIKE)
    return [line] if line else []


def holds(page: Page, machine: Graph[Any, Any]) -> None:
    picture = picture_of(machine)
    names = full_names(picture)
    flowchart = read(page, mermaid(picture))
    assert sorted(flowchart.table) == table(machine, names)
    assert flowchart.starts == [names[machine.start]]
    assert {*flowchart.nodes} == {names[box.name] for box in picture.boxes}
    exhausting = [(names[arrow.source], arrow.lines, names[arrow.target]) for arrow in picture.arrows if arrow.exhausts]
    assert flowchart.dotted == exhausting


@pytest.mark.parametrize("machine", some(MACHINES | BAD, 20))
def test_mermaid_reads_the_edges_of_the_table(mermaid_page: Page, machine: Graph[Any, Any]) -> None:
    holds(mermaid_page, machine)


@settings(max_examples=examples(200, 20))
@given(machine=graphs())
def test_mermaid_reads_edges_of_random_machines(mermaid_page: Page, machine: Graph[Any, Any]) -> None:
    holds(mermaid_page, machine)


@pytest.mark.parametrize("machine", some(MACHINES, 20))
def test_mermaid_draws_every_label_and_node(mermaid_page: Page, machine: Machine[Any, Any]) -> None:
    picture = picture_of(machine.verify())
    show(mermaid_page, mermaid(picture))
    # Mermaid draws a self-loop as three lines, one of them with the label.
    labels = [label for label in elements(mermaid_page, "g.edgeLabel") if label.text.strip()]
    assert len(labels) == len(picture.arrows)
    ends = 1 + any(arrow.target == END.name for arrow in picture.arrows)
    assert len(elements(mermaid_page, "g.node")) == len(picture.boxes) + ends
    assert visible_lines(*(one.text for one in elements(mermaid_page, TITLE))) == titled(*picture.caption)


@pytest.mark.parametrize(
    "machine", [executor.AGENT_EXECUTOR, executor.agent_graph(strict=True)], ids=["plain", "strict"]
)
def test_labels_of_the_standard_machine_are_free(mermaid_page: Page, machine: Machine[Any, Any]) -> None:
    show(mermaid_page, mermaid(picture_of(machine.verify())))
    labels = elements(mermaid_page, "g.edgeLabel")
    assert overlapping_texts(labels, elements(mermaid_page, "g.node")) == []
    (picture,) = elements(mermaid_page, "svg")
    assert [one.text for one in labels if not picture.holds(one)] == []


@settings(max_examples=examples(20, 5))
@given(caption=TEXTS, note=TEXTS)
def test_any_text_is_drawn_and_not_executed(mermaid_page: Page, caption: str, note: str) -> None:
    hostile = f"{note}<img src=x onerror='ran = true'><script>ran = true</script>"
    arrow = Arrow("a", "Over", END.name, notes=(hostile,))
    picture = Picture("a", (Box("a", "pure", notes=(hostile,)),), (arrow,), (caption,))
    show(mermaid_page, mermaid(picture))
    assert elements(mermaid_page, "img, script") == []
    assert mermaid_page.evaluate("typeof ran") == "undefined"
    letters = [
        "".join(visible_lines(one.text)).replace(" ", "") for one in elements(mermaid_page, "g.node, g.edgeLabel")
    ]
    for word in ("a", "Over"):
        assert "".join(visible_lines(word, hostile)).replace(" ", "") in letters
    titles = [one.text for one in elements(mermaid_page, TITLE)]
    assert visible_lines(*titles) == titled(caption)


@settings(max_examples=examples(200, 20))
@given(title=TEXTS, note=TEXTS, outcome=TEXTS)
def test_any_text_is_read_unchanged(mermaid_page: Page, title: str, note: str, outcome: str) -> None:
    # A dot would separate the name of an embedded graph.
    name = f"a{title.replace('.', '')}"
    arrow = Arrow(name, outcome, "b", notes=(note,), exhausts=True)
    picture = Picture(name, (Box(name, "model", notes=(note,)), Box("b", "pure")), (arrow,))
    flowchart = read(mermaid_page, mermaid(picture))
    shown = [lines for lines in flowchart.nodes.values() if lines != ("b",)]
    assert [visible_lines(*lines) for lines in shown] == [visible_lines(name, note)]
    assert [visible_lines(*lines) for _, lines, _ in flowchart.edges] == [visible_lines(outcome, note)]
