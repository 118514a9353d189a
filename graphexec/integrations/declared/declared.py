"""The graph that a program of another library declares: who may follow whom, and what bounds its loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from graphexec.verify.reports.subject import SourceLocation

# The names that edges use for the begin and the end of a run.
START = "__start__"
END = "__end__"

Library: TypeAlias = Literal["LangGraph", "pydantic-graph"]


@dataclass(frozen=True, slots=True)
class Guard:
    """What bounds the entries into a node: a `text` in the library's terms, and the `most` entries of a run."""

    text: str
    most: int


@dataclass(frozen=True, slots=True)
class DeclaredGraph:
    """A graph of another library, as its program declares it.

    - `edges` maps each node, and `START`, to the nodes that may follow it, or `END`.
    - `limit` is the number of steps after which the library stops a run, and `None` if it never does; `limit_is_own` is
      true if the program has set it.
    - `guards` maps nodes to what bounds their entries. `counters` maps nodes to names of counted state on which the way
      out of them depends, which proves nothing.
    - `open` says where an edge to every node is assumed, since nothing is declared; `silent` are the nodes that no edge
      leaves, so that the run ends after them. `notes` are further facts for a reader.
    - `deferred` nodes wait until no other node runs.
    - `subgraphs` maps nodes to the graphs in them; `unseen` names agents that tools start, which are not in the graph.
    - `advice` are remedies for its loops, in the library's terms, that only its reader can know.
    - `places` maps nodes, and the empty name for the graph, to their source locations.
    """

    name: str
    edges: Mapping[str, frozenset[str]]
    limit: int | None = None
    limit_is_own: bool = False
    guards: Mapping[str, Guard] = field(default_factory=dict[str, Guard])
    counters: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    open: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    deferred: tuple[str, ...] = ()
    subgraphs: Mapping[str, DeclaredGraph] = field(default_factory=dict[str, "DeclaredGraph"])
    unseen: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    library: Library = "LangGraph"
    places: Mapping[str, SourceLocation] = field(default_factory=dict[str, SourceLocation])
