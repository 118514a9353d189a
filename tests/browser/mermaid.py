"""Diagrams as Mermaid's own JavaScript parses them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.draw.browser import Page

_SCRIPT = Path(__file__).parent / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"

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


def load(page: Page) -> None:
    """Load Mermaid into a page."""
    if not _SCRIPT.exists():
        pytest.skip("Mermaid is missing: npm ci in tests/browser")
    page.add_script_tag(path=str(_SCRIPT))


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
