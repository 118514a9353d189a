"""Mermaid flowcharts."""

from __future__ import annotations

from typing import Any

from graphexec.draw.kinds import Look, absent, exhausts, label, look, named
from graphexec.draw.marks import COLOURS, UNMARKED, WIDTHS, Mark, Marks
from graphexec.edge import END
from graphexec.graph import Graph

# The shape of each kind of node, as Mermaid brackets it: shapes tell the kinds apart without colour.
_SHAPES: dict[Look, tuple[str, str]] = {
    "model": ('(["', '"])'),
    "tools": ('[["', '"]]'),
    "person": ('[/"', '"/]'),
    "effect": ('("', '")'),
    "opaque": ('{{"', '"}}'),
    "pure": ('["', '"]'),
}


def mermaid(graph: Graph[Any, Any], marks: Marks = UNMARKED) -> str:
    """Draw the graph as a Mermaid flowchart; a spent limit's edges are dotted, and `marks` colours others."""
    strangers = absent(graph)
    names = {name: f"n{number}" for number, name in enumerate((*graph.nodes, *strangers))} | {END.name: "finish"}
    lines = ["flowchart TD", f"    begin((start)) --> {names[graph.start]}"]
    for node in graph:
        opening, closing = _SHAPES[look(node)]
        lines.append(f"    {names[node.name]}{opening}{'<br/>'.join(label(node))}{closing}")
    lines += [f'    {names[name]}["{name}"]' for name in strangers]
    lines.append(f"    {names[END.name]}(((END)))")
    # Links are numbered as they stand; the first is the one to the start.
    marked: dict[Mark, list[str]] = {}
    for number, edge in enumerate(graph.edges, 1):
        arrow = "-. {} .->" if exhausts(graph, edge) else "-- {} -->"
        text = "<br/>".join(named(edge))
        outcome = arrow.format(f'"{text}"' if edge.resets else text)
        lines.append(f"    {names[edge.source]} {outcome} {names[edge.target]}")
        if mark := marks.get(edge):
            marked.setdefault(mark, []).append(str(number))
    for mark, links in marked.items():
        colour = COLOURS[mark]
        lines.append(f"    linkStyle {','.join(links)} stroke:{colour},stroke-width:{WIDTHS[mark]}px,color:{colour}")
    return "\n".join(lines) + "\n"
