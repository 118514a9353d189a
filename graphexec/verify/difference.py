"""What is different between two machines: their tables, and what is proved of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from graphexec.edge import Edge
from graphexec.graph import Graph
from graphexec.limits import LIMIT_NAMES, Budget, Limits
from graphexec.node import Node
from graphexec.verify.certificate import Bounds
from graphexec.verify.prove import verify
from graphexec.verify.verdict import Verdict

_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is different, in the table, in the limits, or in what is proved."""

    what: Literal["start", "node", "edge", "limit", "verdict", "finding", "bound"]
    how: Literal["added", "removed", "changed"]
    text: str

    def __str__(self) -> str:
        return f"{_SIGNS[self.how]} {self.what} {self.text}"


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed from one machine to another, and the verdicts on both. The bodies of nodes are not compared."""

    changes: tuple[Change, ...]
    before: Verdict
    after: Verdict

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) if self.changes else "no difference in nodes, edges, limits and bounds"


def difference(
    old: Graph[Any, Any], new: Graph[Any, Any], limits: Limits, *, old_limits: Limits | None = None
) -> Difference:
    """Compare two machines under `limits`, or the old one under `old_limits`. Costs two proofs.

    Nodes and edges are told apart by their names. A function's body is not looked at, and neither is its line. A limit
    of a budget that only one of them has is that one's. Raises `LimitsError` for a limit of one that neither has.
    """
    before = verify(old, _fit(limits if old_limits is None else old_limits, old, new))
    after = verify(new, _fit(limits, new, old))
    changes = [
        *_starts(old, new),
        *_nodes(old, new),
        *_edges(old.edges, new.edges),
        *_limits(before, after),
        *_verdicts(before, after),
    ]
    return Difference(tuple(changes), before, after)


def _starts(old: Graph[Any, Any], new: Graph[Any, Any]) -> Iterator[Change]:
    if old.start != new.start:
        yield Change("start", "changed", f"was {old.start}, now {new.start}")


def _nodes(old: Graph[Any, Any], new: Graph[Any, Any]) -> Iterator[Change]:
    for name, node in old.nodes.items():
        if name not in new:
            yield Change("node", "removed", name)
            continue
        was, now = _told(node), _told(new[name])
        for aspect in was:
            if was[aspect] != now[aspect]:
                text = f"{name} {aspect}: was {was[aspect] or 'nothing'}, now {now[aspect] or 'nothing'}"
                yield Change("node", "changed", text)
    for name, node in new.nodes.items():
        if name not in old:
            meters = _told(node)["metered by"]
            yield Change("node", "added", f"{name}, metered by {meters}" if meters else name)


def _told(node: Node[Any, Any]) -> Mapping[str, str]:
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


def _edges(old: Sequence[Edge], new: Sequence[Edge]) -> Iterator[Change]:
    was = {(edge.source, edge.outcome.__name__): edge for edge in old}
    now = {(edge.source, edge.outcome.__name__): edge for edge in new}
    for place, edge in was.items():
        if place not in now:
            yield Change("edge", "removed", str(edge))
        elif str(edge) != str(now[place]):
            yield Change("edge", "changed", f"was {edge}, now {now[place]}")
    for place, edge in now.items():
        if place not in was:
            yield Change("edge", "added", str(edge))


def _limits(before: Verdict, after: Verdict) -> Iterator[Change]:
    was, now = _by_name(before), _by_name(after)
    for name in was:
        if name in now and was[name] != now[name]:
            yield Change("limit", "changed", f"{name}: was {_none(was[name])}, now {_none(now[name])}")


def _by_name(verdict: Verdict) -> dict[str, float | None]:
    """Every limit, those of the machine's own budgets included."""
    told: dict[str, float | None] = {name: getattr(verdict.limits, name) for name in LIMIT_NAMES}
    return {**told, **verdict.graph.budgets, **verdict.limits.budgets}


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
    for name in old:
        if old[name] != new[name]:
            yield Change("bound", "changed", f"{name}: was {old[name]}, now {new[name]}")


def _bounds(bounds: Bounds | None) -> dict[str, str]:
    """The bounds as text, by name; where nothing is proved there is none."""
    return {
        field.name.replace("_", " "): "no bound" if bounds is None else str(getattr(bounds, field.name))
        for field in fields(Bounds)
    }
