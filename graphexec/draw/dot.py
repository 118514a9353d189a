"""DOT, the language of Graphviz."""

from __future__ import annotations

from typing import Any

from graphexec.draw.kinds import Look, absent, exhausts, label, look, named
from graphexec.draw.marks import COLOURS, UNMARKED, WIDTHS, Marks
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


def dot(graph: Graph[Any, Any], marks: Marks = UNMARKED) -> str:
    """Draw the graph as DOT; a spent limit's edges are dashed, and `marks` colours others."""
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
    lines += [f'    "{name}" [shape=box, style=dotted]' for name in absent(graph)]
    lines.append(f'    "(start)" -> "{graph.start}"')
    for edge in graph.edges:
        style = ", style=dashed" if exhausts(graph, edge) else ""
        if mark := marks.get(edge):
            colour = COLOURS[mark]
            style += f', color="{colour}", fontcolor="{colour}", penwidth={WIDTHS[mark]}'
        text = r"\n".join(named(edge))
        lines.append(f'    "{edge.source}" -> "{edge.target}" [label="{text}"{style}]')
    return "\n".join([*lines, "}"]) + "\n"
