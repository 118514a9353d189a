"""Graphs within graphs: a node that is a whole graph is inlined, its nodes named `research.plan`.

So engine, proof and picture stay flat: there is no stack of runs, and nothing that ends is hidden in a node.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphexec.edge import END, Edge
from graphexec.limits import Budget
from graphexec.node import Node


@dataclass(frozen=True, slots=True)
class Nested:
    """The graph that stands in a node's place, and the budgets that are its own: full again at each entry."""

    # A Graph, which is defined above this.
    graph: Any
    own: tuple[Budget, ...]

    def renamed(self, name: str) -> dict[str, Budget]:
        """The budgets that are the graph's own, or of graphs within it, as the node `name` has them.

        By what the graph calls them.
        """
        deeper = [budget for node in self.graph for budget in node.meters if "." in budget.name]
        return {budget.name: Budget(f"{name}.{budget.name}", budget.limit) for budget in (*deeper, *self.own)}

    def refilled(self, name: str) -> list[Budget]:
        """The budgets that an entry into the node `name` makes full again."""
        renamed = self.renamed(name)
        return [renamed[budget.name] for budget in self.own]


def inlined(
    nodes: Mapping[str, Node[Any, Any]], edges: Sequence[Edge], start: str
) -> tuple[dict[str, Node[Any, Any]], list[Edge], str]:
    """Return the nodes, edges and start of the table with every nested graph in its node's place."""
    entries = {node.name: f"{node.name}.{node.inner.graph.start}" for node in nodes.values() if node.inner is not None}
    flat: dict[str, Node[Any, Any]] = {}
    for node in nodes.values():
        for part in (node,) if node.inner is None else _parts(node):
            flat[part.name] = part
    found: list[Edge] = []
    for name, node in nodes.items():
        row = [_entering(edge, nodes, entries) for edge in edges if edge.source == name]
        found += row if node.inner is None else _within(node, row)
    return flat, found, entries.get(start, start)


def _parts(node: Node[Any, Any]) -> Iterable[Node[Any, Any]]:
    """The nodes of a nested graph, under its node's name and metered by its own budgets."""
    own = node.inner.renamed(node.name)
    for part in node.inner.graph:
        meters = tuple(own.get(budget.name, budget) for budget in part.meters)
        yield dataclasses.replace(part, name=f"{node.name}.{part.name}", meters=meters)


def _entering(edge: Edge, nodes: Mapping[str, Node[Any, Any]], entries: Mapping[str, str]) -> Edge:
    """An edge that may lead to a nested graph: then to its first node, whose own budgets it resets."""
    if edge.target not in entries:
        return edge
    own = nodes[edge.target].inner.refilled(edge.target)
    return dataclasses.replace(edge, target=entries[edge.target], resets=(*edge.resets, *own))


def _within(node: Node[Any, Any], row: Iterable[Edge]) -> Iterable[Edge]:
    """The edges of a nested graph; where it ends, those of its node's row go on."""
    leaving = {edge.outcome: edge for edge in row}
    own = node.inner.renamed(node.name)
    for edge in node.inner.graph.edges:
        resets = tuple(own.get(budget.name, budget) for budget in edge.resets)
        source = f"{node.name}.{edge.source}"
        if edge.target != END.name:
            yield Edge(source, edge.outcome, f"{node.name}.{edge.target}", resets)
        elif edge.outcome in leaving:
            after = leaving[edge.outcome]
            again = tuple(dict.fromkeys((*resets, *after.resets)))
            yield Edge(source, edge.outcome, after.target, again)
