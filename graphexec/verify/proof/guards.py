"""Find guards that some exits bypass. A guard is a node that passes an outcome on to the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TypeAlias

from graphexec.kernel.graph import Graph
from graphexec.kernel.node import END, Edge, Node
from graphexec.kernel.signatures import unwrap_function
from graphexec.verify.proof.findings import Finding

# Edges by their target and the class of their outcome.
Entries: TypeAlias = Mapping[tuple[str, type], list[Edge]]

# The most exits that a finding names, and the most edges to one node that are considered for it.
_NAMED, _CONSIDERED = 4, 100


def unguarded_exits(graph: Graph[Any, Any]) -> Iterator[Finding]:
    """Yield a warning for each guard that stands on some exits and not on others. The graph must have no faults.

    A guard takes an outcome on its way to END, and may return it unchanged. Another edge with this outcome and the same
    target bypasses the guard, unless every run passes the guard before its source, or its source before the guard (an
    earlier exit). An edge with the model's last words in a stopped run, from a reserved call, also bypasses it.

    Outcomes that only a reached limit produces are not guarded. Nodes that share a function are one guard.
    """
    into: dict[tuple[str, type], list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        if edge.outcome in graph[edge.source].returns:
            into[edge.target, edge.outcome].append(edge)
    guards = _guards(into)
    if not guards:
        return
    last_words: dict[str, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        if _is_last_word(graph[edge.source], into):
            last_words[edge.target].append(edge)
    # Imported here because few machines have guards, and loading it takes longer than a proof.
    import networkx as nx

    network: nx.DiGraph[str] = nx.DiGraph((edge.source, edge.target) for edge in graph.edges)
    # From each node, a path leads to all nodes that every run passes before it.
    above = dict[str, str | None](nx.immediate_dominators(network, graph.start))
    before: nx.DiGraph[str] = nx.DiGraph((node, other) for node, other in above.items() if other is not None)
    functions = {node.name: unwrap_function(node.function) for node in graph}
    for (name, target), outcomes in guards.items():
        others = chain(*(into[target, outcome] for outcome in outcomes), last_words[target])
        past = (
            edge
            for edge in dict.fromkeys(islice(others, _CONSIDERED))
            if not nx.has_path(before, edge.source, name)
            and not nx.has_path(before, name, edge.source)
            and functions[edge.source] is not functions[name]
        )
        if missed := list(islice(past, _NAMED)):
            yield _make_finding(graph[name], target, [into[name, outcome] for outcome in outcomes], missed)


def _guards(into: Entries) -> dict[tuple[str, str], list[type]]:
    """Return the nodes that pass outcomes on to the end, each with its next node, and these outcomes."""
    found: dict[tuple[str, str], list[type]] = {}
    for outcome in [outcome for target, outcome in into if target == END.name]:
        waiting = [END.name]
        while waiting:
            target = waiting.pop()
            for edge in into[target, outcome]:
                # A node has one edge for each outcome, so each node is visited once.
                name = edge.source
                if any(entry.source != name for entry in into.get((name, outcome), ())):
                    found.setdefault((name, target), []).append(outcome)
                    waiting.append(name)
    return found


def _is_last_word(source: Node[Any, Any], into: Entries) -> bool:
    """Return whether a node returns a model's last words, and never an outcome that it received."""
    if source.grace is None or not any(meter.generated for effect in source.effects for meter in effect.charges):
        return False
    return all((source.name, outcome) not in into for outcome in source.returns)


def _make_finding(
    guard: Node[Any, Any], target: str, taken: Sequence[Sequence[Edge]], missed: Sequence[Edge]
) -> Finding:
    """Return the warning for a guard in front of `target`: it stands on the edges `taken`, not on those `missed`."""
    exits = [*(entry for entries in taken for entry in entries[:_NAMED]), *missed]
    sources, outcomes = (list(dict.fromkeys(values)) for values in zip(*map(_name_exit, exits), strict=True))
    passed = [_name_exit(entries[0])[1] for entries in taken]
    new_outcomes = [outcome for outcome in outcomes if outcome not in passed]
    verb = "bypasses" if len(missed) == 1 else "bypass"
    fact = f"{' | '.join(passed)} passes through {guard.name} to {target}, but {', '.join(map(str, missed))} {verb} it"
    remedy = f"splice it once with after={_format_names(sources)}, on={_format_names(outcomes)}"
    if new_outcomes:
        remedy = f"let it also take {' | '.join(new_outcomes)}, and {remedy}"
    return Finding("GX027", "warning", guard.name, passed[0], fact, remedy)


def _name_exit(edge: Edge) -> tuple[str, str]:
    return edge.source, edge.outcome.__name__


def _format_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"
