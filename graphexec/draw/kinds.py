"""What the pictures tell nodes and edges apart by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from graphexec.edge import Edge
from graphexec.effects import AskHuman, CallAgent, CallModel, CallTool, Effect
from graphexec.graph import Graph
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
    """The lines that stand in a node: its name, and that its entries are counted."""
    return (node.name, "each entry costs an iteration") if node.metered else (node.name,)


def exhausts(graph: Graph[Any, Any], edge: Edge) -> bool:
    """Whether the edge is the one that a spent limit takes."""
    return graph[edge.source].spent_outcome is edge.outcome
