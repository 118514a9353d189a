"""Validate a table: report every fault in one line, with its remedy."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphexec.errors import Fault
from graphexec.kernel.meters import Budget, Meter
from graphexec.kernel.node import END, Edge, Node


def faults_of(nodes: Mapping[str, Node[Any, Any]], edges: Sequence[Edge], start: str) -> list[Fault]:
    """Return every fault of the table with these nodes and edges."""
    rows: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        rows[edge.source].append(edge)
    return [
        *_row_faults(nodes, rows),
        *_class_faults(nodes),
        *_budget_faults(nodes, edges),
        *_path_faults(nodes, rows, start),
    ]


def _row_faults(nodes: Mapping[str, Node[Any, Any]], rows: Mapping[str, list[Edge]]) -> Iterator[Fault]:
    for node in nodes.values():
        row = rows.get(node.name, [])
        if node.name == END.name:
            text = "the name END is reserved for the end of a run; rename the node's function"
            yield Fault("GX020", node.name, None, text)
        if not row:
            yield Fault("GX005", node.name, None, f"{node.name} has no row; add edges({node.name}, ...)")
            continue
        for outcome in _unrouted_outcomes(node, row):
            takers = [other.name for other in nodes.values() if outcome in other.takes]
            to = takers[0] if len(takers) == 1 else "..."
            name = outcome.__name__
            text = f"{node.name} may return {name}, which no edge takes; add on({name}, {to})"
            yield Fault("GX002", node.name, name, text)
        routed = [edge.outcome for edge in row]
        for position, edge in enumerate(row):
            name = edge.outcome.__name__
            if edge.outcome not in node.outcomes:
                yield Fault(
                    "GX003", node.name, name, f"{node.name} never returns {name}; remove on({name}, {edge.target})"
                )
            elif edge.outcome in routed[:position]:
                yield Fault(
                    "GX021", node.name, name, f"{node.name} routes {name} twice; remove on({name}, {edge.target})"
                )
            target = nodes.get(edge.target)
            if target is not None and not any(issubclass(edge.outcome, kind) for kind in target.takes):
                takes = " | ".join(kind.__name__ for kind in target.takes)
                text = f"{node.name} sends {name} to {target.name}, which takes {takes}"
                yield Fault("GX022", node.name, name, f"{text}; send it to a node that takes it")
        if node.kind != "pure" and node.when_spent is None:
            remedy = "decorate it with @charged(when_spent=...) and route that outcome"
            description = _describe_effects(node)
            text = f"{node.name} {description}, which a limit may stop, but has no outcome for that; {remedy}"
            yield Fault("GX008", node.name, None, text)


def _describe_effects(node: Node[Any, Any]) -> str:
    if node.kind == "opaque":
        return "is an async function" if inspect.iscoroutinefunction(node.function) else "is @opaque"
    return f"asks for {', '.join(effect.__name__ for effect in node.effects)}"


def _class_faults(nodes: Mapping[str, Node[Any, Any]]) -> Iterator[Fault]:
    named: dict[str, type] = {}
    reported: set[type] = set()
    for node in nodes.values():
        for outcome in (*node.takes, *node.outcomes):
            name = outcome.__name__
            if named.setdefault(name, outcome) is not outcome and outcome not in reported:
                reported.add(outcome)
                yield Fault("GX020", node.name, name, f"two outcomes are named {name}; rename one of the classes")
        for outcome in node.outcomes:
            name = outcome.__name__
            if outcome in reported:
                continue
            reported.add(outcome)
            for mistake in _class_mistakes(outcome):
                yield Fault("GX023", node.name, name, f"{node.name} returns {name}, which is {mistake}")


def _class_mistakes(kind: type) -> Iterator[str]:
    if kind.__module__ == "builtins":
        yield "a built-in class; return a frozen dataclass that holds the value"
        return
    if not _is_final(kind):
        yield f"not final; write @final above class {kind.__name__}"
    if not _is_frozen(kind):
        yield f"not frozen; write @dataclass(frozen=True) above class {kind.__name__}"


def _budget_faults(nodes: Mapping[str, Node[Any, Any]], edges: Sequence[Edge]) -> Iterator[Fault]:
    """Find budgets and meters that share a name, and resets of budgets that meter no node."""
    known: dict[str, Budget] = {}
    counted: dict[str, Meter] = {}
    for node in nodes.values():
        for budget in _shared_budgets(node):
            if known.setdefault(budget.name, budget) != budget:
                other = known[budget.name].limit
                text = f"{node.name} is metered by {budget.name} with the limit {budget.limit}, but another node has"
                yield Fault("GX011", node.name, None, f"{text} the limit {other}; use one Budget for both")
    for node in nodes.values():
        for meter in _effect_meters(node):
            if counted.setdefault(meter.name, meter) != meter:
                text = f"{node.name} asks for effects that charge a second, different meter named {meter.name}"
                yield Fault("GX011", node.name, None, f"{text}; use one Meter for both")
            elif meter.name in known:
                text = f"{node.name} asks for effects that charge the meter {meter.name}, but a budget has that name"
                yield Fault("GX011", node.name, None, f"{text}; rename one of them")
    for edge in edges:
        for budget in edge.resets:
            if budget.name not in known:
                remedy = "put @metered(budget=...) on the node that it bounds, or remove the reset"
                text = f"{edge} resets {budget.name}, but no node is metered by it; {remedy}"
                yield Fault("GX011", edge.source, edge.outcome.__name__, text)


def _shared_budgets(node: Node[Any, Any]) -> Iterator[Budget]:
    yield from node.meters
    if node.decreases is not None:
        yield node.measure
    if node.inner is not None:
        own = node.inner.renamed_budgets(node.name)
        for part in node.inner.nodes:
            yield from (own.get(budget.name, budget) for budget in part.meters)


def _effect_meters(node: Node[Any, Any]) -> Iterator[Meter]:
    parts = (node,) if node.inner is None else node.inner.nodes
    effects = [effect for part in parts for effect in part.effects]
    yield from dict.fromkeys(meter for effect in effects for meter in (*effect.charges, *effect.measures))


def _path_faults(nodes: Mapping[str, Node[Any, Any]], rows: Mapping[str, list[Edge]], start: str) -> Iterator[Fault]:
    """Find nodes that cannot be reached, or cannot reach END. A missing edge counts as one to every possible target."""
    pairs = [(edge.source, edge.target) for row in rows.values() for edge in row]
    for node in nodes.values():
        missing = _unrouted_outcomes(node, rows.get(node.name, []))
        if missing:
            takers = [other.name for other in nodes.values() if not missing.keys().isdisjoint(other.takes)]
            pairs += [(node.name, target) for target in (END.name, *takers)]
    forward = reachable(start, pairs)
    backward = reachable(END.name, [(target, source) for source, target in pairs])
    for name in nodes:
        if name not in forward:
            text = f"{name} cannot be reached from {start}; route an outcome to it, or remove its row"
            yield Fault("GX004", name, None, text)
        elif name not in backward:
            text = f"{name} cannot reach END; route an outcome of it, or of a node after it, to END"
            yield Fault("GX006", name, None, text)


def _unrouted_outcomes(node: Node[Any, Any], row: Sequence[Edge]) -> dict[type, None]:
    routed = {edge.outcome for edge in row}
    return {outcome: None for outcome in node.outcomes if outcome not in routed}


def reachable(begin: str, pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Return the nodes that these edges reach from `begin`, including `begin`."""
    following: dict[str, list[str]] = defaultdict(list)
    for source, target in pairs:
        following[source].append(target)
    seen = {begin}
    pending = [begin]
    while pending:
        for name in following[pending.pop()]:
            if name not in seen:
                seen.add(name)
                pending.append(name)
    return seen


def _is_final(kind: type) -> bool:
    return bool(getattr(kind, "__final__", False)) or (issubclass(kind, enum.Enum) and len(kind) > 0)


def _is_frozen(kind: type[Any]) -> bool:
    if dataclasses.is_dataclass(kind):
        # The stub of @dataclass lacks its parameters.
        return bool(getattr(kind, "__dataclass_params__").frozen)  # noqa: B009
    if config := getattr(kind, "model_config", None):
        return bool(config.get("frozen"))
    if issubclass(kind, (enum.Enum, tuple)):
        return True
    # A class without fields cannot change.
    return not any(getattr(base, "__annotations__", {}) or "__init__" in vars(base) for base in kind.__mro__[:-1])
