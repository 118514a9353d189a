"""The shortest run that breaks an assertion or in which a node raises: as text and as a path."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any, final

from graphexec.errors import (
    CertificateError,
    NodeError,
    UndeclaredCountError,
    UndeclaredEffectError,
    UndeclaredOutcomeError,
)
from graphexec.kernel.counters import MeasureError
from graphexec.kernel.events import Event, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.node import Edge
from graphexec.testing.explorer.stepping import Choice
from graphexec.testing.explorer.temporal import Assertion

# The width of an event in a message.
_WIDTH = 110

# Exceptions for nodes that break their declarations, or for bugs of the engine. They are never allowed.
CONTRACT_ERRORS = (
    UndeclaredOutcomeError,
    UndeclaredEffectError,
    UndeclaredCountError,
    MeasureError,
    NodeError,
    CertificateError,
)


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run of `graph` from `start` within `limits`; `choices` are what happened to its requests, in order."""

    graph: Graph[Any, Any]
    limits: Limits
    start: Any
    choices: tuple[Choice, ...]
    events: tuple[Event[Any], ...]

    @property
    def path(self) -> tuple[Edge, ...]:
        """The edges taken, in order. `draw(graph, "mermaid", marks=dict.fromkeys(path, "orange"))` shows them."""
        edges = {(edge.source, edge.outcome): edge for edge in self.graph.edges}
        return tuple(edges[event.node, type(event.outcome)] for event in self.events if type(event) is Moved)

    def describe(self) -> str:
        """Return the edges and choices of the run as text."""
        path = ", ".join(map(str, self.path)) or f"at {self.graph.start}"
        return f"{path}; the world {', '.join(map(str, self.choices)) or 'nothing'}"


@final
@dataclass(frozen=True, slots=True)
class Failure(FoundRun):
    """A shortest run that breaks `assertion`; its last event is the one that breaks it."""

    assertion: Assertion

    def __str__(self) -> str:
        last = textwrap.shorten(str(self.events[-1]), _WIDTH, placeholder="...")
        return f"{self.assertion} does not hold: {self.describe()}; the last event is {last}"


@final
@dataclass(frozen=True, slots=True)
class Raised(FoundRun):
    """A shortest run in which `node` raises `error`; none of its choices is an exception."""

    node: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.node} raises {self.error!r}: {self.describe()}"


def remedy(error: BaseException) -> str:
    """Return the remedy for an exception that a node raises. A broken declaration cannot be allowed."""
    if isinstance(error, CONTRACT_ERRORS):
        return "fix the node"
    return f"let no node raise it, or pass raises=({type(error).__name__},)"
