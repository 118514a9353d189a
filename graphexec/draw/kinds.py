"""What the pictures tell nodes and edges apart by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from graphexec.edge import END, Edge
from graphexec.effects import AskHuman, CallAgent, CallModel, CallTool, Effect
from graphexec.graph import Graph
from graphexec.limits import ITERATIONS
from graphexec.node import Node

# What a node does, for whoever looks at it: `effect` asks for an effect of the user's own.
Look: TypeAlias = Literal["model", "tools", "person", "effect", "opaque", "pure"]

_ASKED: Mapping[type[Effect[Any]], Look] = {
    AskHuman: "person",
    CallModel: "model",
    CallAgent: "model",
    CallTool: "tools",
}


def look(node: Node[Any, Any]) -> Look:
    """What the node asks for, the most telling first."""
    if node.kind != "asks":
        return "opaque" if node.kind == "opaque" else "pure"
    for effect, asked in _ASKED.items():
        if any(issubclass(one, effect) for one in node.effects):
            return asked
    return "effect"


def label(node: Node[Any, Any]) -> tuple[str, ...]:
    """The lines that stand in a node: its name, what each of its entries costs, and whether its calls are reserved."""
    reserved = ("its calls are reserved",) if node.grace is not None else ()
    costs = ("an iteration" if budget.name == ITERATIONS.name else f"one of {budget}" for budget in node.meters)
    return (node.name, *(f"each entry costs {cost}" for cost in costs), *reserved)


def named(edge: Edge) -> tuple[str, ...]:
    """The lines that stand at an edge: its outcome, and which budgets are full again."""
    again = f"{', '.join(map(str, edge.resets))} again"
    return (edge.outcome.__name__, again) if edge.resets else (edge.outcome.__name__,)


def exhausts(graph: Graph[Any, Any], edge: Edge) -> bool:
    """Whether only a spent limit takes the edge."""
    source = graph.nodes.get(edge.source)
    if source is None or edge.outcome in source.returns:
        return False
    return source.spent_outcome is edge.outcome


def absent(graph: Graph[Any, Any]) -> list[str]:
    """The nodes that edges of a draft name and that it does not have."""
    ends = [name for edge in graph.edges for name in (edge.source, edge.target)]
    return [name for name in dict.fromkeys(ends) if name not in graph and name != END.name]
