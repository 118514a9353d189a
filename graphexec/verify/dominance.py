"""Find shortest paths and unavoidable nodes in the tables of machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from graphexec.errors import InputError
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.node import END, Edge, End, Node
from graphexec.verify.paths import find_path, label_edges

# A node of a graph, or its name; `END` or "END" is the end of runs.
NodeName: TypeAlias = Node[Any, Any] | End | str


def shortest_path(
    graph: Graph[Any, Any], to: NodeName | type, *, start: NodeName | None = None, avoiding: NodeName | None = None
) -> tuple[Edge, ...] | None:
    """Return the edges of a shortest path through the table, or `None` if there is none.

    `to` is a node, its name, `END`, or an outcome class, which the last edge then takes. The path begins at `start`
    (default: the graph's start) and does not pass `avoiding`. Among equal paths it is the first in the table's order.
    Limits may keep every run from taking it. `draw(graph, "mermaid", marks=dict.fromkeys(path, "orange"))` shows it.

    Takes linear time. Raises `InputError` for an unknown node or outcome.
    """
    require_graph(graph, "shortest_path(executor.graph, to)")
    begin = graph.start if start is None else _name_of(graph, start)
    avoided = None if avoiding is None else _name_of(graph, avoiding)
    target = to if isinstance(to, type) else _name_of(graph, to)
    if isinstance(target, type):
        _check_outcome("the graph", target, graph.edges)
    if avoided is not None and avoided in (begin, target):
        return None
    return _path([edge for edge in graph.edges if avoided not in (edge.source, edge.target)], begin, target)


def dominates(
    graph: Graph[Any, Any], node: NodeName, other: NodeName, *, outcome: type | None = None, each: bool = False
) -> bool:
    """Return whether every path from the start to `other` passes `node`; with `outcome`, leaves it with this outcome.

    With `each`, every path does so again before each visit to `other`: `assert dominates(graph, approve,
    dispatch_tools, outcome=Approved, each=True)` holds if every call of tools has an approval of its own, for all
    bodies of nodes and all replies of models. If it fails, `shortest_path(graph, dispatch_tools, avoiding=approve)`
    may show how. A node dominates itself.

    This is a property of the table; `graphexec.testing.dominates` is an assertion about the events of runs, such as the
    calls of one tool. Takes linear time, with `each` for each outcome of `other`. Raises `InputError` for an unknown
    node or outcome, and if `other` cannot be reached.
    """
    require_graph(graph, "dominates(executor.graph, node, other)")
    name, end = _name_of(graph, node), _name_of(graph, other)
    if outcome is not None:
        _check_outcome(name, outcome, [edge for edge in graph.edges if edge.source == name])
    if _path(graph.edges, graph.start, end) is None:
        raise InputError(f"{end} cannot be reached from {graph.start}; route an outcome to it")
    # A path does not leave the node where it ends.
    if outcome is None and name == end:
        return True
    others = [edge for edge in graph.edges if edge.source != name or outcome not in (None, edge.outcome)]
    returning = [edge.target for edge in others if each and edge.source == end]
    return all(_path(others, start, end) is None for start in (graph.start, *returning))


def _path(edges: Sequence[Edge], start: str, to: str | type) -> tuple[Edge, ...] | None:
    labelled: list[tuple[str | type, str | type, Edge]] = [(edge.source, edge.target, edge) for edge in edges]
    # The outcome is an extra node, and the target of each of its edges.
    labelled += [(edge.source, to, edge) for edge in edges if edge.outcome is to]
    found = find_path(label_edges(labelled), start, to)
    return None if found is None else tuple(found)


def _name_of(graph: Graph[Any, Any], place: NodeName) -> str:
    name = place if isinstance(place, str) else place.name
    if name != END.name:
        try:
            graph[name]
        except KeyError as error:
            # The message suggests a similar name.
            raise InputError(str(error.args[0])) from None
    return name


def _check_outcome(subject: str, outcome: type, edges: Iterable[Edge]) -> None:
    known = {edge.outcome: edge.outcome.__name__ for edge in edges}
    if outcome not in known:
        remedy = f"give one of {', '.join(known.values())}" if known else "give a node that has outcomes"
        raise InputError(f"{subject} does not have the outcome {outcome.__name__}; {remedy}")
