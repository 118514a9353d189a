"""What is different between two machines: their tables, and what is proved of their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar, final

from graphexec.kernel.graph import Graph, built
from graphexec.kernel.meters import Budget, Limits
from graphexec.kernel.node import Edge, Node
from graphexec.verify.proof.certificate import NOTHING, Bound, Bounds
from graphexec.verify.proof.prove import verify
from graphexec.verify.proof.verdict import Verdict

K = TypeVar("K")
T = TypeVar("T")

_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is different, in the table, in the limits, or in what is proved."""

    what: Literal["start", "node", "edge", "limit", "verdict", "finding", "bound"]
    how: Literal["added", "removed", "changed"]
    text: str

    def __str__(self) -> str:
        return f"{_SIGNS[self.how]} {self.what} {self.text}"


@final
@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """What was added, what was removed, and what was changed: each as (before, after)."""

    added: tuple[T, ...]
    removed: tuple[T, ...]
    changed: tuple[tuple[T, T], ...]


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """What changed from one machine to another, and the verdicts on both. The bodies of nodes are not compared.

    `nodes` and `edges` are what changed in the table; `changes` is all of it, a line each, that in what is proved
    included.
    """

    nodes: Delta[Node[Any, Any]]
    edges: Delta[Edge]
    changes: tuple[Change, ...]
    before: Verdict
    after: Verdict

    def __bool__(self) -> bool:
        """Whether there is any."""
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

    Nodes are told apart by their names, edges by their source and the name of their outcome. A function's body is not
    looked at, and neither is its line. A limit of a budget that only one of them has is that one's.

    Costs two proofs. Raises `LimitsError` for a limit of a budget that neither has, and `InputError` for what is
    not a graph.
    """
    for one in (before, after):
        built(one, "diff(executor.graph, other_executor.graph)")
    limits = Limits() if limits is None else limits
    limits_before = limits if limits_before is None else limits_before
    old = verify(before, _fit(limits_before, before, after))
    new = verify(after, _fit(limits, after, before))
    nodes = _delta(before.nodes, after.nodes, _aspects)
    edges = _delta(_by_outcome(before.edges), _by_outcome(after.edges), str)
    changes = [
        *_starts(before, after),
        *_node_changes(nodes),
        *_edge_changes(edges),
        *_limits(old, new),
        *_verdicts(old, new),
    ]
    return Difference(nodes, edges, tuple(changes), old, new)


def _delta(before: Mapping[K, T], after: Mapping[K, T], aspects: Callable[[T], object]) -> Delta[T]:
    """What differs in `aspects`, of things that are told apart by their keys."""
    return Delta(
        tuple(one for key, one in after.items() if key not in before),
        tuple(one for key, one in before.items() if key not in after),
        tuple((one, after[key]) for key, one in before.items() if key in after and aspects(one) != aspects(after[key])),
    )


def _by_outcome(edges: Sequence[Edge]) -> dict[tuple[str, str], Edge]:
    return {(edge.source, edge.outcome.__name__): edge for edge in edges}


def _starts(old: Graph[Any, Any], new: Graph[Any, Any]) -> Iterator[Change]:
    if old.start != new.start:
        yield Change("start", "changed", f"was {old.start}, now {new.start}")


def _node_changes(nodes: Delta[Node[Any, Any]]) -> Iterator[Change]:
    for node in nodes.removed:
        yield Change("node", "removed", node.name)
    for old, new in nodes.changed:
        was, now = _aspects(old), _aspects(new)
        for aspect in was:
            if was[aspect] != now[aspect]:
                text = f"{old.name} {aspect}: was {was[aspect] or 'nothing'}, now {now[aspect] or 'nothing'}"
                yield Change("node", "changed", text)
    for node in nodes.added:
        meters = _aspects(node)["metered by"]
        yield Change("node", "added", f"{node.name}, metered by {meters}" if meters else node.name)


def _edge_changes(edges: Delta[Edge]) -> Iterator[Change]:
    for edge in edges.removed:
        yield Change("edge", "removed", str(edge))
    for old, new in edges.changed:
        yield Change("edge", "changed", f"was {old}, now {new}")
    for edge in edges.added:
        yield Change("edge", "added", str(edge))


def _aspects(node: Node[Any, Any]) -> Mapping[str, str]:
    """What the table knows of a node, as text."""
    most = "any number" if node.most is None else str(node.most)
    effects = ", ".join(kind.__name__ for kind in node.effects)
    return {
        "takes": _names(node.takes),
        "returns": _names(node.returns),
        "when spent": "" if node.spent_outcome is None else node.spent_outcome.__name__,
        "metered by": ", ".join(_budget(budget) for budget in node.meters),
        "asks": f"{effects} ({node.least} to {most})" if effects else "",
        "kind": node.kind,
    }


def _budget(budget: Budget) -> str:
    return budget.name if budget.limit is None else f"{budget.name} (limit {budget.limit})"


def _names(kinds: Sequence[type]) -> str:
    return " | ".join(kind.__name__ for kind in kinds)


def _limits(before: Verdict, after: Verdict) -> Iterator[Change]:
    meters = dict.fromkeys((*before.limits.meters, *after.limits.meters))
    was, now = _by_name(before, meters), _by_name(after, meters)
    for name in was:
        if name in now and was[name] != now[name]:
            yield Change("limit", "changed", f"{name}: was {_none(was[name])}, now {_none(now[name])}")


def _by_name(verdict: Verdict, meters: Iterable[str]) -> dict[str, float | None]:
    """Every limit, those of these meters and of the machine's own budgets included."""
    limits = verdict.limits
    return {
        "iterations": limits.iterations,
        "seconds": limits.seconds,
        **{name: limits[name] for name in meters},
        "fan_out": limits.fan_out,
        "restarts": limits.restarts,
        **verdict.graph.budgets,
        **limits.budgets,
    }


def _fit(limits: Limits, graph: Graph[Any, Any], other: Graph[Any, Any]) -> Limits:
    """The limits without those for budgets that only the other machine has."""
    own = {name: limit for name, limit in limits.budgets.items() if name in graph.budgets or name not in other.budgets}
    return replace(limits, budgets=own)


def _none(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:g}"


def _verdicts(before: Verdict, after: Verdict) -> Iterator[Change]:
    if before.status != after.status:
        yield Change("verdict", "changed", f"was {before.status}, now {after.status}")
    was = {(finding.code, finding.node, finding.outcome): finding for finding in before.findings}
    now = {(finding.code, finding.node, finding.outcome): finding for finding in after.findings}
    yield from (Change("finding", "removed", str(finding)) for place, finding in was.items() if place not in now)
    yield from (Change("finding", "added", str(finding)) for place, finding in now.items() if place not in was)
    old, new = _bounds(before.bounds), _bounds(after.bounds)
    for name in {**old, **new}:
        was_bound, bound = old.get(name, _missing(before)), new.get(name, _missing(after))
        if was_bound != bound:
            yield Change("bound", "changed", f"{name.replace('_', ' ')}: was {was_bound}, now {bound}")


def _bounds(bounds: Bounds | None) -> dict[str, str]:
    """The bounds as text, by name."""
    return {} if bounds is None else {name: str(bound) for name, bound in bounds.rows()}


def _missing(verdict: Verdict) -> str:
    """The bound on what a machine does not charge; where nothing is proved there is none."""
    return str(Bound(None, None) if verdict.bounds is None else NOTHING)
