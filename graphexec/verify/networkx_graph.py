"""Convert machines to networkx graphs, and find shortest paths and unavoidable nodes in their tables.

networkx is imported only by these functions and by the search for counterexamples; proofs do not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from graphexec.errors import InputError
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.node import END, Edge, End, Node
from graphexec.verify.paths import find_path, label_edges

if TYPE_CHECKING:
    import networkx as nx

# A node of a graph, or its name; `END` or "END" is the end of runs.
NodeName: TypeAlias = Node[Any, Any] | End | str


def to_networkx(graph: Graph[Any, Any]) -> nx.MultiDiGraph[str]:
    """Return the table as a new `networkx.MultiDiGraph`, for its algorithms and its exports (GraphML, JSON and others).

    Attributes are strings, integers, floats and bools, which every format supports; several names are one string,
    separated by spaces. An attribute that does not apply is an empty string, or missing if it is a number.

    - The graph has `start`, `end`, and `meters`, those that its nodes cost with their limits: `"extensions=2 rounds"`.
    - Nodes have the names of the graph's nodes, and `"END"`. `kind` is `"pure"`, `"asks"`, `"opaque"` or `"end"`;
      `takes` and `outcomes` are classes; `meters` are the meters of which each entry spends one; `effects` are the
      classes of effects that it may ask for, and `charges` their meters; `least` and `most` bound the number of effects
      in one visit (no `most`: any number); `spent_outcome` is its outcome when a limit is reached; `grace` is the
      seconds that a reserved node has beyond the run's deadline; `decreases` is true if the node has a measure.
    - Edges have the outcome's name as their key, `network.edges["parse", "plan", "Ready"]`, and as `outcome`; `resets`
      are the meters that the edge resets; `spent` is true if a reached limit takes it, and `returned` if the function
      may return its outcome.

    Takes linear time. Raises `InputError` if `graph` is not a graph.
    """
    require_graph(graph, "to_networkx(executor.graph)")
    import networkx as nx

    meters = (name if limit is None else f"{name}={limit}" for name, limit in graph.own.items())
    network: nx.MultiDiGraph[str] = nx.MultiDiGraph(start=graph.start, end=END.name, meters=" ".join(meters))
    for node in graph:
        network.add_node(node.name, **_attributes(node))
    ending = dict.fromkeys(edge.outcome for edge in graph.edges if edge.target == END.name)
    nothing = dict.fromkeys(("outcomes", "effects", "charges", "meters", "spent_outcome"), "")
    network.add_node(END.name, kind="end", takes=_names(ending), **nothing)
    for edge in graph.edges:
        source = graph[edge.source]
        name = edge.outcome.__name__
        network.add_edge(
            edge.source,
            edge.target,
            key=name,
            outcome=name,
            resets=" ".join(meter.name for meter in edge.resets),
            spent=edge.outcome is source.spent_outcome,
            returned=edge.outcome in source.returns,
        )
    return network


def _attributes(node: Node[Any, Any]) -> dict[str, str | float]:
    numbers = {"least": node.least, "most": node.most, "grace": node.grace}
    return {
        "kind": node.kind,
        "takes": _names(node.takes),
        "outcomes": _names(node.outcomes),
        "effects": _names(node.effects),
        "charges": " ".join(dict.fromkeys(meter.name for effect in node.effects for meter in effect.charges)),
        "meters": " ".join(meter.name for meter in node.meters),
        "spent_outcome": "" if node.spent_outcome is None else node.spent_outcome.__name__,
        **{name: number for name, number in numbers.items() if number is not None},
        **({"decreases": True} if node.decreases is not None else {}),
    }


def _names(classes: Iterable[type]) -> str:
    return " ".join(one.__name__ for one in classes)


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
    end = _name_of(graph, other)
    return _is_unavoidable(graph, _name_of(graph, node), outcome, (graph.start, end), again=end if each else None)


def postdominates(
    graph: Graph[Any, Any], node: NodeName, other: NodeName, *, outcome: type | None = None, each: bool = False
) -> bool:
    """Return whether every path from `other` to the end passes `node`; with `outcome`, leaves it with this outcome.

    With `each`, every path does so before it returns to `other`. Everything else is as in `dominates`.
    """
    require_graph(graph, "postdominates(executor.graph, node, other)")
    begin = _name_of(graph, other)
    return _is_unavoidable(graph, _name_of(graph, node), outcome, (begin, END.name), again=begin if each else None)


def _is_unavoidable(
    graph: Graph[Any, Any], node: str, outcome: type | None, ends: tuple[str, str], *, again: str | None
) -> bool:
    """Return whether every path between `ends`, and every cycle through `again`, leaves `node` (with this outcome)."""
    start, end = ends
    if outcome is not None:
        _check_outcome(node, outcome, [edge for edge in graph.edges if edge.source == node])
    if _path(graph.edges, start, end) is None:
        raise InputError(f"{end} cannot be reached from {start}, so no path lies between; route an outcome to it")
    # A path does not leave the node where it ends.
    if outcome is None and node == end:
        return True
    others = [edge for edge in graph.edges if edge.source != node or outcome not in (None, edge.outcome)]
    if again is None:
        return _path(others, start, end) is None
    returning = (_path(others, edge.target, again) for edge in others if edge.source == again)
    return _path(others, start, end) is None and all(path is None for path in returning)


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
