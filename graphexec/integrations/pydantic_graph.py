"""Read the graphs of pydantic-graph: the edges of its builder, and those that return annotations declare.

Nothing in pydantic-graph stops a run. At run time it follows a node to another that its annotation does not name; what
is read here holds for runs that keep to their annotations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from pydantic_graph import Decision, Fork, Graph
from pydantic_graph.paths import DestinationMarker
from pydantic_graph.step import Step

from graphexec.errors import InputError, an
from graphexec.integrations.declared.declared import END, DeclaredGraph
from graphexec.integrations.declared.judging import Judgement, judge
from graphexec.verify.reports.subject import SourceLocation, place_of

# Graphs of any states, dependencies and values. mypy does not see the parameters of the class.
AnyGraph: TypeAlias = Graph[Any, Any, Any, Any]  # type: ignore[type-arg]


def check(graph: AnyGraph, name: str | None = None, *, max_rounds: int | None = None) -> Judgement:
    """Say which loops of a graph nothing bounds. Raises `InputError` for what is not a built graph."""
    return judge(load(graph, name), max_rounds=max_rounds)


def load(graph: AnyGraph, name: str | None = None) -> DeclaredGraph:
    """Return a graph as it is declared: its steps, nodes and joins. Decisions and forks are edges here.

    Raises `InputError` for what is not a built graph.
    """
    # Users without a type checker pass a builder.
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{an(type(graph).__name__)} is not a built graph of pydantic-graph; pass builder.build()")
    shown = [key for key, node in graph.nodes.items() if not _is_passed(node) and key != END]
    edges = {str(key): frozenset(_following(graph, key)) for key in shown}
    steps = {key: node for key, node in graph.nodes.items() if isinstance(node, Step)}
    places = {str(key): place for key, node in steps.items() if (place := _place_of(node)) is not None}
    return DeclaredGraph(name or graph.name or "graph", edges, library="pydantic-graph", places=places)


def _is_passed(node: object) -> bool:
    return isinstance(node, (Decision, Fork))


def _following(graph: AnyGraph, key: Any) -> Iterator[str]:
    """Yield the nodes that may follow, through decisions and forks. Of an empty list, a fork goes to its join."""
    open_keys = [key]
    for one in open_keys:
        node = graph.nodes[one]
        branches = [branch.path for branch in node.branches] if isinstance(node, Decision) else []
        items = [item for path in (*graph.edges_by_source.get(one, ()), *branches) for item in path.items]
        targets = [item.destination_id for item in items if isinstance(item, DestinationMarker)]
        if isinstance(node, Fork) and node.downstream_join_id is not None:
            targets.append(node.downstream_join_id)
        yield from (str(target) for target in targets if not _is_passed(graph.nodes[target]))
        open_keys += [target for target in targets if _is_passed(graph.nodes[target]) and target not in open_keys]


def _place_of(step: Any) -> SourceLocation | None:
    return place_of(step.node_type.run if hasattr(step, "node_type") else step.call)
