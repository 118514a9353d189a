"""Pictures in a browser: Mermaid reads the edges of a table, and the parts of an SVG are where the layout has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import END, Machine, executor
from graphexec.draw.formats.mermaid import mermaid
from graphexec.draw.formats.svg import svg
from graphexec.draw.model.picture import Arrow, Box, Picture, picture_of
from graphexec.kernel import Graph
from tests.checks.strategies import graphs
from tests.draw.browser import Browser, Page
from tests.draw.machines import BAD, HOSTILE, MACHINES
from tests.parameters import examples, some

pytestmark = pytest.mark.browser

MERMAID = Path(__file__).parent / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"
_BOXES = """
selector => [...document.querySelectorAll(selector)].map(one => {
    const box = one.getBoundingClientRect();
    return [one.textContent, box.left, box.top, box.right, box.bottom];
})
"""


@dataclass(frozen=True)
class Drawn:
    """The text of an element, and its sides in pixels."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: Drawn) -> bool:
        """Return whether the other element is inside."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom

    def meets(self, other: Drawn) -> bool:
        """Return whether the elements overlap."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def elements(page: Page, selector: str) -> list[Drawn]:
    """Return the elements of the page in order, except empty ones."""
    found: list[tuple[str, float, float, float, float]] = page.evaluate(_BOXES, selector)
    return [Drawn(*one) for one in found if one[1] < one[3]]


def overlapping_texts(ones: Sequence[Drawn], others: Sequence[Drawn] = ()) -> list[tuple[str, str]]:
    """Return the texts of the elements that overlap each other or one of the others."""
    pairs = [*combinations(ones, 2), *((one, other) for one in ones for other in others)]
    return [(one.text, other.text) for one, other in pairs if one.meets(other)]


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """An empty page in Chromium."""
    # Larger than any picture, so that nothing is scaled.
    empty = browser.new_page(viewport={"width": 2000, "height": 1500})
    yield empty
    empty.close()


@pytest.fixture(scope="module")
def mermaid_page(page: Page) -> Page:
    """A page with Mermaid loaded."""
    if not MERMAID.exists():
        pytest.skip("Mermaid is missing: npm ci in tests/browser")
    page.add_script_tag(path=str(MERMAID))
    return page


# ---- diagrams as Mermaid's own JavaScript parses them


# The nodes and edges of a diagram before Mermaid's layout. Texts are as a reader sees them: split at `<br>`, with
# entities (`ﬂ°34¶ß` while Mermaid parses) decoded and zero-width characters removed.
_MACHINE = r"""
async text => {
    await mermaid.parse(text);
    const {db} = await mermaid.mermaidAPI.getDiagramFromText(text);
    const shown = html => new DOMParser().parseFromString(
        html.replace(/ﬂ°°/g, "&#").replace(/ﬂ°/g, "&").replace(/¶ß/g, ";"), "text/html"
    ).body.textContent.replace(/\u200b/g, "");
    const lines = texts => texts.flatMap(text => (text ?? "").split(/<br *\/?>/)).map(shown);
    const {nodes, edges} = db.getData();
    return {
        nodes: nodes.map(node => ({
            id: node.id, parent: node.parentId ?? "", group: node.isGroup, shape: node.shape,
            lines: lines([node.label, ...(node.description ?? [])]),
        })),
        edges: edges.map(edge => ({
            source: edge.start, target: edge.end, dotted: edge.pattern === "dotted", lines: lines([edge.label]),
        })),
    };
}
"""
# The shapes of the start and of the end.
_START, _END = "circle", "doublecircle"


@dataclass(frozen=True)
class Read:
    """A diagram: the lines of its nodes by their full names, its start nodes, and its edges.

    An edge is its source, the lines of its label, and its target; `dotted` are the dotted edges.
    """

    nodes: dict[str, tuple[str, ...]]
    starts: list[str]
    edges: list[tuple[str, tuple[str, ...], str]]
    dotted: list[tuple[str, tuple[str, ...], str]]

    @property
    def table(self) -> list[tuple[str, str, str]]:
        """The edges with the first line of their labels: source, outcome, target."""
        return [(source, lines[0], target) for source, lines, target in self.edges]


def read(page: Page, text: str) -> Read:
    """Read a flowchart. Raises Mermaid's syntax error."""
    # Any: JSON, from the script above.
    found: Any = page.evaluate(_MACHINE, text)
    nodes = {node["id"]: node for node in found["nodes"]}

    def name(key: str) -> str:
        """Return the titles of the graphs that contain a node, and its own."""
        node = nodes[key]
        if node["shape"] == _END:
            return "END"
        title: str = node["lines"][0]
        return f"{name(node['parent'])}.{title}" if node["parent"] else title

    starts = [key for key, node in nodes.items() if node["shape"] == _START]
    edges = [(edge["source"], edge) for edge in found["edges"]]
    inner = [(name(key), tuple(edge["lines"]), name(edge["target"]), edge) for key, edge in edges if key not in starts]
    return Read(
        {
            name(key): tuple(node["lines"])
            for key, node in nodes.items()
            if not node["group"] and node["shape"] not in (_START, _END)
        },
        [name(edge["target"]) for key, edge in edges if key in starts],
        [(source, lines, target) for source, lines, target, _ in inner],
        [(source, lines, target) for source, lines, target, edge in inner if edge["dotted"]],
    )


def show(page: Page, text: str) -> None:
    """Draw a diagram as the page's only content. Raises Mermaid's error."""
    page.evaluate("async text => { document.body.innerHTML = (await mermaid.render('drawn', text)).svg }", text)


def visible_lines(*texts: str) -> list[str]:
    """Return the lines with white space as single spaces and without unprintable characters."""
    printed = (
        "".join(one if one.isprintable() else " " for one in line.replace("\N{REPLACEMENT CHARACTER}", " "))
        for text in texts
        for line in text.splitlines()
    )
    return [line for line in (" ".join(line.split()) for line in printed) if line]


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


@pytest.mark.parametrize("machine", some(MACHINES, 20))
def test_labels_overlap_neither_labels_nor_nodes(page: Page, machine: Machine[Any, Any]) -> None:
    picture = picture_of(machine.verify())
    page.set_content(svg(picture))
    labels = elements(page, "g.edge-label")
    assert len(labels) == len(picture.arrows)
    assert overlapping_texts(labels, elements(page, "g.node, [data-node=END], .dot")) == []


@pytest.mark.parametrize("machine", some(MACHINES, 20))
def test_text_is_inside_its_shape(page: Page, machine: Machine[Any, Any]) -> None:
    picture = picture_of(machine.verify())
    page.set_content(svg(picture))
    (whole,) = elements(page, "svg")
    assert [one.text for one in elements(page, "text") if not whole.holds(one)] == []
    for box in picture.boxes:
        (shape, *_) = elements(page, f'[data-node="{box.name}"] .outline')
        texts = elements(page, f'[data-node="{box.name}"] text')
        assert len(texts) == 1 + len(box.lines)
        assert [one.text for one in texts if not shape.holds(one)] == []
    # The texts of the legend and the caption.
    assert overlapping_texts(elements(page, "text.start")) == []


def test_text_width_does_not_depend_on_the_font(page: Page) -> None:
    drawing = svg(picture_of(executor.AGENT_EXECUTOR.verify()))
    page.set_content(drawing)
    widths = [one.right - one.left for one in elements(page, "text")]
    page.set_content(drawing.replace('font-family="', 'font-family="monospace, '))
    assert [one.right - one.left for one in elements(page, "text")] == pytest.approx(widths, abs=2)
