"""Subgraphs: a node that is a whole graph is inlined. Its nodes are named `research.plan`, so the graph stays flat."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphexec.errors import NodeError
from graphexec.kernel.meters import Budget, make_measure
from graphexec.kernel.node import END, Edge, Frame, Node, rename
from graphexec.kernel.node import node as as_node
from graphexec.kernel.signatures import accepts


def measured(nodes: Iterable[Node[Any, Any]]) -> list[Node[Any, Any]]:
    """Return the nodes with `decreases`."""
    return [one for one in nodes if one.decreases is not None]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph that takes the place of a node; each entry resets its `own` budgets."""

    nodes: tuple[Node[Any, Any], ...]
    edges: tuple[Edge, ...]
    start: str
    own: tuple[Budget, ...]
    # The budgets that an entry resets; `None`: all its own.
    refilled: tuple[Budget, ...] | None = None

    def renamed_budgets(self, name: str) -> dict[str, Budget]:
        """Return the own budgets of this graph and of graphs within it, renamed with the prefix `name`, by old name."""
        deeper = [budget for node in self.nodes for budget in node.meters if "." in budget.name]
        measures = {one.measure.name: make_measure(f"{name}.{one.name}") for one in measured(self.nodes)}
        return {
            budget.name: Budget(f"{name}.{budget.name}", budget.limit) for budget in (*deeper, *self.own)
        } | measures

    def refilled_budgets(self, name: str) -> list[Budget]:
        """Return the budgets that an entry into the node `name` resets: with the measures of its nodes."""
        renamed = self.renamed_budgets(name)
        own = self.own if self.refilled is None else self.refilled
        return [renamed[budget.name] for budget in (*own, *(one.measure for one in measured(self.nodes)))]


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
        frame = part.frame
        if frame is not None:
            frame = dataclasses.replace(frame, name=f"{node.name}.{frame.name}" if frame.name else node.name)
        yield dataclasses.replace(part, name=f"{node.name}.{part.name}", meters=meters, group=group, frame=frame)


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


# A function, or a node made of one.
Framing: TypeAlias = Node[Any, Any] | Callable[..., Any]


def add_frame(name: str, inner: Subgraph, enter: Framing, leave: Framing | None, each: Budget | None) -> Subgraph:
    """Return a subgraph with the nodes `enter` before it and `leave` behind it.

    `enter` saves its argument for `leave`. With `each`, a budget of `enter`, outcomes of `leave` may lead back to it.
    Raises `NodeError` for functions that do not fit the subgraph.
    """
    before = _framing_node(name, "enter", enter)
    taken = next(one.takes for one in inner.nodes if one.name == inner.start)
    entering = [kind for kind in before.returns if accepts(taken, kind)]
    if not entering:
        raise NodeError(
            f"{name} starts with {_list_names(taken)}, but its enter returns "
            f"{_list_names(before.returns)}; return {_list_names(taken)}"
        )
    if before.spent_outcome in entering:
        raise NodeError(
            f"{name} is entered with {_list_names(entering)}, and when_spent returns that, too; return another class"
        )
    resets = (*(budget for budget in inner.own if budget != each), *(one.measure for one in measured(inner.nodes)))
    edges = [
        Edge("enter", kind, inner.start, resets) if kind in entering else Edge("enter", kind, END.name)
        for kind in before.outcomes
    ]
    nodes = [*inner.nodes]
    if {"enter", "leave"} & {one.name for one in nodes}:
        raise NodeError(f"{name} has a node of its own that is named enter or leave; rename it")
    if leave is None:
        return Subgraph((before, *nodes), (*edges, *inner.edges), "enter", inner.own, ())
    after, before = _receiving_node(name, leave, before), dataclasses.replace(before, frame=Frame(""))
    endings = [edge.outcome for edge in inner.edges if edge.target == END.name]
    if not any(accepts(after.takes, kind) for kind in endings):
        raise NodeError(
            f"{name} ends with {_list_names(endings)}, but its leave takes "
            f"{_list_names(after.takes)}; take {_list_names(endings)}"
        )
    for edge in inner.edges:
        leads = edge.target == END.name and accepts(after.takes, edge.outcome)
        edges.append(dataclasses.replace(edge, target="leave") if leads else edge)
    back = [] if each is None else [kind for kind in after.outcomes if accepts(before.takes, kind)]
    if each is not None and not back:
        raise NodeError(
            f"{name} has each={each}, but its leave never returns {_list_names(before.takes)}, which enters it "
            "again; return that, or leave out each="
        )
    edges += [Edge("leave", kind, "enter" if kind in back else END.name) for kind in after.outcomes]
    refilled = tuple(budget for budget in inner.own if budget == each)
    return Subgraph((before, *nodes, after), tuple(edges), "enter", inner.own, refilled)


def _framing_node(name: str, role: str, given: Framing) -> Node[Any, Any]:
    made: Node[Any, Any]
    made = given if isinstance(given, Node) else as_node(given)  # pyright: ignore[reportUnknownVariableType]
    if made.kind != "pure" or made.inner is not None:
        raise NodeError(f"{name} has the {role} {made.name}, which asks for effects; give a pure function")
    return rename(made, role)


def _receiving_node(name: str, given: Framing, before: Node[Any, Any]) -> Node[Any, Any]:
    """Return the node `leave`, whose second parameter receives what `enter` took."""
    made = _framing_node(name, "leave", given)
    if not made.settings:
        wanted = _list_names(before.takes)
        raise NodeError(
            f"{name} has a leave that takes one value; write def leave(ending: ..., outer: {wanted}) -> ..."
        )
    parameter, kinds = next(iter(made.settings.items()))
    strangers = [kind for kind in before.takes if not accepts(kinds, kind)]
    if strangers:
        raise NodeError(
            f"{name} is entered with {_list_names(strangers)}, but the parameter {parameter} of its leave takes "
            f"{_list_names(kinds)}; widen the annotation of {parameter}"
        )
    rest = {setting: of for setting, of in made.settings.items() if setting != parameter}
    return dataclasses.replace(made, settings=rest, frame=Frame("", parameter))


def _list_names(kinds: Iterable[type]) -> str:
    return " | ".join(kind.__name__ for kind in dict.fromkeys(kinds))
