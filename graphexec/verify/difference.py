"""Compare two machines: their tables, their limits, and the proofs about their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar, final

from graphexec.errors import format_integer
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.meters import Limits, is_number
from graphexec.kernel.node import Edge, Node
from graphexec.verify.proof.certificate import NOTHING, Bound
from graphexec.verify.proof.findings import Verdict
from graphexec.verify.proof.prove import verify

K = TypeVar("K")
T = TypeVar("T")

_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference in the table, the limits, or the proof."""

    what: Literal["start", "node", "edge", "limit", "verdict", "finding", "bound"]
    how: Literal["added", "removed", "changed"]
    text: str

    def __str__(self) -> str:
        return f"{_SIGNS[self.how]} {self.what} {self.text}"


@final
@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """Items that were added, removed, or changed; changed items are pairs (before, after)."""

    added: tuple[T, ...]
    removed: tuple[T, ...]
    changed: tuple[tuple[T, T], ...]


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """The changes from one machine to another, and the verdicts on both.

    `nodes` and `edges` have the changes of the table; `changes` has all changes, including those of limits and proof.
    """

    nodes: Delta[Node[Any, Any]]
    edges: Delta[Edge]
    changes: tuple[Change, ...]
    before: Verdict
    after: Verdict

    def __bool__(self) -> bool:
        """True if there is any change."""
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) if self.changes else "no difference in nodes, edges, limits and bounds"


def diff(
    before: Graph[Any, Any],
    after: Graph[Any, Any],
    limits: Limits | None = None,
    *,
    limits_before: Limits | None = None,
) -> Difference:
    """Compare two machines under `limits` (`Limits()` unless given), or the first under `limits_before`.

    Nodes are identified by their names, edges by their source and the name of their outcome; the bodies and lines of
    functions are not compared. A limit on a budget that only one machine has applies to that machine.

    Takes two proofs. Raises `LimitsError` for a limit on a budget that neither machine has, and `InputError` if an
    argument is not a graph.
    """
    for one in (before, after):
        require_graph(one, "diff(executor.graph, other_executor.graph)")
    limits = Limits() if limits is None else limits
    old = verify(before, _fit(limits if limits_before is None else limits_before, before, after))
    new = verify(after, _fit(limits, after, before))
    nodes = _delta(before.nodes, after.nodes, _aspects)
    edges = _delta(_by_outcome(before.edges), _by_outcome(after.edges), str)
    return Difference(nodes, edges, (*_table_changes(before, after, nodes, edges), *_proof_changes(old, new)), old, new)


def _delta(before: Mapping[K, T], after: Mapping[K, T], aspects: Callable[[T], object]) -> Delta[T]:
    return Delta(
        tuple(one for key, one in after.items() if key not in before),
        tuple(one for key, one in before.items() if key not in after),
        tuple((one, after[key]) for key, one in before.items() if key in after and aspects(one) != aspects(after[key])),
    )


def _by_outcome(edges: Sequence[Edge]) -> dict[tuple[str, str], Edge]:
    return {(edge.source, edge.outcome.__name__): edge for edge in edges}


def _table_changes(
    before: Graph[Any, Any], after: Graph[Any, Any], nodes: Delta[Node[Any, Any]], edges: Delta[Edge]
) -> Iterator[Change]:
    if before.start != after.start:
        yield Change("start", "changed", f"was {before.start}, now {after.start}")
    yield from (Change("node", "removed", node.name) for node in nodes.removed)
    for was, now in nodes.changed:
        yield from (Change("node", "changed", f"{was.name} {text}") for text in compare_nodes(was, now))
    for node in nodes.added:
        meters = _aspects(node)["metered by"]
        yield Change("node", "added", f"{node.name}, metered by {meters}" if meters else node.name)
    yield from (Change("edge", "removed", str(edge)) for edge in edges.removed)
    yield from (Change("edge", "changed", f"was {was}, now {now}") for was, now in edges.changed)
    yield from (Change("edge", "added", str(edge)) for edge in edges.added)


def _proof_changes(before: Verdict, after: Verdict) -> Iterator[Change]:
    meters = dict.fromkeys((*before.limits.meters, *after.limits.meters))
    yield from _value_changes("limit", _limits(before, meters), _limits(after, meters))
    if before.status != after.status:
        yield Change("verdict", "changed", f"was {before.status}, now {after.status}")
    was = {(finding.code, finding.node, finding.outcome): finding for finding in before.findings}
    now = {(finding.code, finding.node, finding.outcome): finding for finding in after.findings}
    yield from (Change("finding", "removed", str(finding)) for place, finding in was.items() if place not in now)
    yield from (Change("finding", "added", str(finding)) for place, finding in now.items() if place not in was)
    names = dict.fromkeys(name for one in (before, after) if one.bounds for name, _ in one.bounds.rows())
    yield from _value_changes("bound", _bounds(before, names), _bounds(after, names))


def _value_changes(
    what: Literal["node", "limit", "bound"], was: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[Change]:
    for name, old in was.items():
        if (new := now.get(name, old)) != old:
            yield Change(what, "changed", f"{name}: was {old or 'nothing'}, now {new or 'nothing'}")


def _aspects(node: Node[Any, Any]) -> Mapping[str, str]:
    most = "any number" if node.most is None else str(node.most)
    effects = ", ".join(kind.__name__ for kind in node.effects)
    budgets = (one.name if one.limit is None else f"{one.name} (limit {one.limit})" for one in node.meters)
    return {
        "takes": " | ".join(kind.__name__ for kind in node.takes),
        "returns": " | ".join(kind.__name__ for kind in node.returns),
        "when spent": "" if node.spent_outcome is None else node.spent_outcome.__name__,
        "metered by": ", ".join(budgets),
        "asks": f"{effects} ({node.least} to {most})" if effects else "",
        "kind": node.kind,
        "measure": "" if node.decreases is None else "decreases",
    }


def compare_nodes(was: Node[Any, Any], now: Node[Any, Any]) -> list[str]:
    """Return what differs: `returns: was Acted, now Acted | Ready`."""
    return [change.text for change in _value_changes("node", _aspects(was), _aspects(now))]


def _limits(verdict: Verdict, meters: Iterable[str]) -> dict[str, str]:
    limits = verdict.limits
    known: dict[str, float | None] = {
        "iterations": limits.iterations,
        "seconds": limits.seconds,
        **{name: limits[name] for name in meters},
        "fan_out": limits.fan_out,
        "restarts": limits.restarts,
        "depth": limits.depth,
        "nested_runs": limits.nested_runs,
        **verdict.graph.budgets,
        **limits.budgets,
    }
    return {name: "none" if limit is None else _format_limit(limit) for name, limit in known.items()}


def _format_limit(limit: float) -> str:
    return f"{limit:g}" if is_number(limit) else format_integer(int(limit))


def _fit(limits: Limits, graph: Graph[Any, Any], other: Graph[Any, Any]) -> Limits:
    own = {name: limit for name, limit in limits.budgets.items() if name in graph.budgets or name not in other.budgets}
    return replace(limits, budgets=own)


def _bounds(verdict: Verdict, names: Iterable[str]) -> dict[str, str]:
    known = {} if verdict.bounds is None else dict(verdict.bounds.rows())
    missing = Bound(None, None) if verdict.bounds is None else NOTHING
    return {name.replace("_", " "): str(known.get(name, missing)) for name in names}
