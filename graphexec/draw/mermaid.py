"""Mermaid flowcharts."""

from __future__ import annotations

from typing import Any

from graphexec.draw.kinds import Look, exhausts, label, look
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


def mermaid(graph: Graph[Any, Any]) -> str:
    """Draw the graph as a Mermaid flowchart; a spent limit's edges are dotted."""
    names = {name: f"n{number}" for number, name in enumerate(graph.nodes)} | {END.name: "finish"}
    lines = ["flowchart TD", f"    begin((start)) --> {names[graph.start]}"]
    for node in graph:
        opening, closing = _SHAPES[look(node)]
        lines.append(f"    {names[node.name]}{opening}{'<br/>'.join(label(node))}{closing}")
    lines.append(f"    {names[END.name]}(((END)))")
    for edge in graph.edges:
        arrow = "-. {} .->" if exhausts(graph, edge) else "-- {} -->"
        outcome = arrow.format(edge.outcome.__name__)
        lines.append(f"    {names[edge.source]} {outcome} {names[edge.target]}")
    return "\n".join(lines) + "\n"
