"""Coverage of the edges of graphs by tests."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias, cast

from graphexec.draw import Marks, draw
from graphexec.executor.executor import AgentExecutor
from graphexec.kernel.events import Answered, Asked, Entered, Moved
from graphexec.kernel.execution import Execution
from graphexec.kernel.graph import Graph
from graphexec.kernel.node import Edge
from graphexec.testing.explorer import stub_nodes

# Graphs with the same table count as one: that of an executor, with its agent bound, and the original.
Key: TypeAlias = tuple[str, tuple[Edge, ...]]

_EVENTS = (Entered, Asked, Answered, Moved)
_FORMATS = {".mmd": "mermaid", ".dot": "dot"}


@dataclass
class _Taken:
    graph: Graph[Any, Any]
    name: str = ""
    # Edges taken by the user's tests, and by the plugin's checks.
    tests: set[tuple[str, type]] = field(default_factory=set[tuple[str, type]])
    checks: set[tuple[str, type]] = field(default_factory=set[tuple[str, type]])


class EdgeCoverage:
    """Records the edges that every run takes, between `begin` and `end`. `own` is true during the plugin's own runs."""

    def __init__(self) -> None:
        self.own = False
        self._taken: dict[Key, _Taken] = {}
        # Any: type checkers do not allow a method to be replaced.
        self._execution: Any = Execution
        self._run = Execution.run

    def begin(self) -> None:
        """Start recording. Every run is observed, which makes it slower."""
        original = self._run

        def run(
            execution: Execution,
            *,
            observed: bool = False,
            by_member: bool = False,
            notify: Callable[[Any], object] | None = None,
        ) -> Generator[Any, Any, Any]:
            if _has_stub_nodes(execution.graph):
                # Stub nodes take every edge, regardless of the real nodes.
                return original(execution, observed=observed, by_member=by_member, notify=notify)
            events = original(execution, observed=True, by_member=by_member)
            return self._recorder_for(execution.graph, events, observed=observed, notify=notify)

        # All runs pass through this method: drivers, `advance`, and the explorer.
        self._execution.run = run

    def end(self) -> None:
        """Stop recording."""
        self._execution.run = self._run

    def register(self, name: str, graph: Graph[Any, Any]) -> None:
        """Register a graph by name; its edges are reported even if it never runs."""
        taken = self._taken.setdefault((graph.start, graph.edges), _Taken(graph))
        taken.graph, taken.name = graph, name

    def report(self, destination: str) -> Iterator[str]:
        """Yield lines with the edges never taken, graph by graph; draw them if there is a destination."""
        named = sorted(
            ((taken.name or name_of(taken.graph), taken) for taken in self._taken.values()), key=itemgetter(0)
        )
        if not named:
            yield "no run of any graph was seen"
        for name, taken in named:
            never = _untaken(taken)
            yield f"{name}: {len(taken.graph.edges) - len(never)} of {len(taken.graph.edges)} edges taken"
            yield from (f"  never taken: {edge}" for edge in never)
            if taken.tests:
                # If the user's tests run the graph, report the edges that only the plugin's checks take.
                left = [edge for edge in taken.graph.edges if _place(edge) in taken.checks - taken.tests]
                yield from (f"  taken by no test of yours: {edge}" for edge in left)
        if destination:
            yield from _draw(Path(destination), [(name, taken) for name, taken in named if _untaken(taken)] or named)

    def _recorder_for(
        self,
        graph: Graph[Any, Any],
        path: Generator[Any, Any, Any],
        *,
        observed: bool,
        notify: Callable[[Any], object] | None,
    ) -> Generator[Any, Any, Any]:
        taken = self._taken.setdefault((graph.start, graph.edges), _Taken(graph))
        answer: Any = None
        try:
            while True:
                item = path.send(answer)
                answer = None
                if type(item) is Moved:
                    (taken.checks if self.own else taken.tests).add((item.node, type(item.outcome)))
                if not isinstance(item, _EVENTS) or (observed and notify is None):
                    answer = yield item
                elif notify is not None:
                    notify(item)
        except StopIteration as end:
            return end.value
        finally:
            path.close()


def _has_stub_nodes(graph: Graph[Any, Any]) -> bool:
    return getattr(graph[graph.start].function, "__module__", "") == stub_nodes.__name__


def _place(edge: Edge) -> tuple[str, type]:
    return edge.source, edge.outcome


def _untaken(taken: _Taken) -> list[Edge]:
    return [edge for edge in taken.graph.edges if _place(edge) not in taken.tests | taken.checks]


def _draw(destination: Path, named: Sequence[tuple[str, _Taken]]) -> Iterator[str]:
    for name, taken in named:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
        file = destination
        if destination.suffix not in _FORMATS:
            file = destination / f"{plain}.mmd"
        elif len(named) > 1:
            file = destination.with_stem(f"{destination.stem}-{plain}")
        file.parent.mkdir(parents=True, exist_ok=True)
        marks: Marks = dict.fromkeys(_untaken(taken), "grey")
        file.write_text(draw(taken.graph, _FORMATS[file.suffix], marks=marks), encoding="utf-8")
        yield f"  drawn in {file}"


def name_of(graph: Graph[Any, Any]) -> str:
    """Return the module-level name of the graph, or of an executor of it; otherwise list its nodes.

    A machine of graphexec is named without its module, even if other modules contain an executor of it.
    """
    key = graph.start, graph.edges
    # The order of modules is that of their import, which differs between sessions, so graphexec comes first, and
    # `__main__` last.
    modules = sorted(
        sys.modules.items(), key=lambda one: (one[0].partition(".")[0] != "graphexec", one[0] == "__main__")
    )
    for module_name, module in modules:
        for name, value in list(getattr(module, "__dict__", {}).items()):
            found = value.graph if isinstance(value, AgentExecutor) else value
            if isinstance(found, Graph):
                known: Graph[Any, Any] = cast("Any", found)
                if (known.start, known.edges) == key:
                    return name if module_name.partition(".")[0] == "graphexec" else f"{module_name}.{name}"
    return f"graph of {', '.join(graph.nodes)}"
