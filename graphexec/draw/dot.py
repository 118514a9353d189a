"""DOT, the language of Graphviz."""

from __future__ import annotations

from typing import Any

from graphexec.draw.kinds import Look, exhausts, label, look
from graphexec.edge import END
from graphexec.graph import Graph

_SHAPES: dict[Look, str] = {
    "model": "box, style=rounded",
    "tools": "box, peripheries=2",
    "person": "parallelogram",
    "effect": "ellipse",
    "opaque": "hexagon",
    "pure": "box",
}


def dot(graph: Graph[Any, Any]) -> str:
    """Draw the graph as DOT; a spent limit's edges are dashed."""
    lines = [
        "digraph {",
        '    node [fontname="sans-serif"]',
        '    edge [fontname="sans-serif", fontsize=10]',
        '    "(start)" [label="start", shape=circle]',
        f'    "{END.name}" [shape=doublecircle]',
    ]
    for node in graph:
        text = r"\n".join(label(node))
        lines.append(f'    "{node.name}" [label="{text}", shape={_SHAPES[look(node)]}]')
    lines.append(f'    "(start)" -> "{graph.start}"')
    for edge in graph.edges:
        style = ", style=dashed" if exhausts(graph, edge) else ""
        lines.append(f'    "{edge.source}" -> "{edge.target}" [label="{edge.outcome.__name__}"{style}]')
    return "\n".join([*lines, "}"]) + "\n"
