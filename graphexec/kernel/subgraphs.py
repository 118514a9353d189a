"""Subgraphs: a node that is a whole graph is inlined. Its nodes are named `research.plan`, so the graph stays flat."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphexec.kernel.node import END, Edge, Node, Subgraph


def inline_subgraphs(
    nodes: Mapping[str, Node[Any, Any]], edges: Sequence[Edge], start: str
) -> tuple[dict[str, Node[Any, Any]], list[Edge], str]:
    """Return the nodes, edges and start of the table, with every subgraph in the place of its node."""
    inner = {node.name: node.inner for node in nodes.values() if node.inner is not None}
    entries = {name: f"{name}.{subgraph.start}" for name, subgraph in inner.items()}
    flat_nodes: dict[str, Node[Any, Any]] = {}
    for node in nodes.values():
        for part in (node,) if node.inner is None else _prefix_nodes(node, node.inner):
            flat_nodes[part.name] = part
    flat_edges: list[Edge] = []
    for name, node in nodes.items():
        row = [_redirect_edge(edge, inner, entries) for edge in edges if edge.source == name]
        flat_edges += row if node.inner is None else _inline_edges(name, node.inner, row)
    return flat_nodes, flat_edges, entries.get(start, start)


def _prefix_nodes(node: Node[Any, Any], inner: Subgraph) -> Iterable[Node[Any, Any]]:
    """Yield the nodes of a subgraph, with the prefix of its node's name, and metered by its own budgets.

    They belong to the piece of their node or, if it has none, to their own one, with the prefix.
    """
    own = inner.renamed_budgets(node.name)
    for part in inner.nodes:
        meters = tuple(own.get(budget.name, budget) for budget in part.meters)
        group = node.group or (part.group and f"{node.name}.{part.group}")
        yield dataclasses.replace(part, name=f"{node.name}.{part.name}", meters=meters, group=group)


def _redirect_edge(edge: Edge, inner: Mapping[str, Subgraph], entries: Mapping[str, str]) -> Edge:
    """Return the edge; one that leads to a subgraph leads to its first node, and resets its own budgets."""
    if edge.target not in entries:
        return edge
    own = inner[edge.target].refilled_budgets(edge.target)
    return dataclasses.replace(edge, target=entries[edge.target], resets=(*edge.resets, *own))


def _inline_edges(name: str, inner: Subgraph, row: Iterable[Edge]) -> Iterable[Edge]:
    """Yield the edges of a subgraph; its edges to END continue with those of its node's row."""
    leaving = {edge.outcome: edge for edge in row}
    own = inner.renamed_budgets(name)
    for edge in inner.edges:
        resets = tuple(own.get(budget.name, budget) for budget in edge.resets)
        source = f"{name}.{edge.source}"
        if edge.target != END.name:
            yield Edge(source, edge.outcome, f"{name}.{edge.target}", resets)
        elif edge.outcome in leaving:
            after = leaving[edge.outcome]
            combined = tuple(dict.fromkeys((*resets, *after.resets)))
            yield Edge(source, edge.outcome, after.target, combined)
