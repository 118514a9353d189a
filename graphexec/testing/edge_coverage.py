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
from graphexec.verify.explorer import stub_nodes as puppets

# Two graphs with one table are one: an executor's own, with its agent bound, and the one that it was made of.
Key: TypeAlias = tuple[str, tuple[Edge, ...]]

_EVENTS = (Entered, Asked, Answered, Moved)
_FORMATS = {".mmd": "mermaid", ".dot": "dot"}


@dataclass
class _Taken:
    graph: Graph[Any, Any]
    name: str = ""
    # By the user's tests, and by the plugin's own checks.
    tests: set[tuple[str, type]] = field(default_factory=set[tuple[str, type]])
    checks: set[tuple[str, type]] = field(default_factory=set[tuple[str, type]])


class EdgeCoverage:
    """Records the edges that every run takes, from `begin` to `end`. `own` says whose runs they are now."""

    def __init__(self) -> None:
        self.own = False
        self._taken: dict[Key, _Taken] = {}
        # Checkers know that methods stay what they are.
        self._execution: Any = Execution
        self._run = Execution.run

    def begin(self) -> None:
        """Record from now on: every run is observed, which makes it slower."""
        original = self._run

        def run(
            execution: Execution,
            *,
            observed: bool = False,
            by_member: bool = False,
            notify: Callable[[Any], object] | None = None,
        ) -> Generator[Any, Any, Any]:
            if _of_puppets(execution.graph):
                # They take every edge, whatever the nodes would do.
                return original(execution, observed=observed, by_member=by_member, notify=notify)
            events = original(execution, observed=True, by_member=by_member)
            return self._recorder_for(execution.graph, events, observed=observed, notify=notify)

        # The one place where all runs pass: drivers, `advance`, and the explorer.
        self._execution.run = run

    def end(self) -> None:
        """Record no more."""
        self._execution.run = self._run

    def know(self, name: str, graph: Graph[Any, Any]) -> None:
        """Take a name for a graph, whose edges count from now on whether it runs or not."""
        taken = self._taken.setdefault((graph.start, graph.edges), _Taken(graph))
        taken.graph, taken.name = graph, name

    def report(self, destination: str) -> Iterator[str]:
        """Yield the edges never taken, graph by graph, in lines; draw them if there is a destination."""
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
                # Where the user's own tests run the graph, what they leave to the plugin's checks is worth knowing.
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


def _of_puppets(graph: Graph[Any, Any]) -> bool:
    return getattr(graph[graph.start].function, "__module__", "") == puppets.__name__


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
    """The name at the top of a module under which the graph, or an executor of it, is found; else its nodes.

    A machine of graphexec's own has the name that it has there, whoever else has an executor of it.
    """
    key = graph.start, graph.edges
    # Whatever stands in modules: what a graph is one of, no checker can know. Modules come in the order of their
    # import, which is another one in each session; and `__main__` is whatever ran last.
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
