"""The highlights of a picture: loops that may not terminate, the paths to them, faults, and untaken edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from graphexec.kernel.graph import Graph
from graphexec.kernel.node import Edge
from graphexec.verify.proof.findings import Finding

# red: a loop that may not terminate, or the place of a fault.  orange: the path to it.  grey: never taken.
Mark: TypeAlias = Literal["red", "orange", "grey"]
Marks: TypeAlias = Mapping[Edge, Mark]

# From Matplotlib's palette: distinct on white and on black. The widths distinguish them without colour.
COLOURS: Mapping[Mark, str] = {"red": "#d62728", "orange": "#ff7f0e", "grey": "#b0b0b0"}
WIDTHS: Mapping[Mark, int] = {"red": 3, "orange": 2, "grey": 1}


def marks_of(graph: Graph[Any, Any], findings: Iterable[Finding]) -> dict[Edge, Mark]:
    """Mark the edges of the findings: red for loops and faults, orange for the paths to them.

    An edge of a loop stays red even if the path to another loop uses it. An outcome without an edge is not marked.
    """
    red: set[tuple[str, str]] = set()
    orange: set[tuple[str, str]] = set()
    for finding in findings:
        if finding.witness is not None:
            red |= {(step.source, step.outcome) for step in finding.witness.loop}
            orange |= {(step.source, step.outcome) for step in finding.witness.stem}
        if finding.node is not None and finding.outcome is not None:
            red.add((finding.node, finding.outcome))
    marks: dict[Edge, Mark] = {}
    for edge in graph.edges:
        place = (edge.source, edge.outcome.__name__)
        if place in red or place in orange:
            marks[edge] = "red" if place in red else "orange"
    return marks


def marked_nodes(findings: Iterable[Finding]) -> dict[str, Mark]:
    """Mark the nodes of errors, and those of loops that may not terminate, in red."""
    errors = [one for one in findings if one.severity == "error"]
    loops = [step.source for one in errors if one.witness is not None for step in one.witness.loop]
    return dict.fromkeys([*(one.node for one in errors if one.node is not None), *loops], "red")
