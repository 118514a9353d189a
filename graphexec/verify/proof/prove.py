"""Verification: the table's faults, then a ranking, then its bounds; or the run that never ends."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

from graphexec.errors import LimitsError, did_you_mean, format_number
from graphexec.kernel.effects import Effect, NestedRuns
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.node import END, Node
from graphexec.kernel.program import check_meters
from graphexec.kernel.validation import faults_of
from graphexec.verify.paths import find_path, label_edges
from graphexec.verify.proof.bounds import bounds_by_states, bounds_of
from graphexec.verify.proof.certificate import Certificate
from graphexec.verify.proof.components import reachable
from graphexec.verify.proof.findings import Finding, Verdict, Witness, fan_out_remedy, finding_of
from graphexec.verify.proof.flow import Flow, caps_of, flow_of, limits_of, nested_in, possible, possible_transitions
from graphexec.verify.proof.guards import unguarded_exits
from graphexec.verify.proof.loops import loops_found
from graphexec.verify.proof.ranking import rank_nodes


def verify(graph: Graph[Any, Any], limits: Limits | None = None) -> Verdict:
    """Prove that every run of `graph` ends within `limits` (`Limits()` unless given), or show one that does not.

    It takes time in proportion to nodes and edges, and to the budgets that are spent in loops. Raises `LimitsError` for
    a limit of a budget that the machine does not have, and `InputError` for what is not a graph.
    """
    require_graph(graph, "verify(executor.graph)")
    limits = Limits() if limits is None else limits
    for name in limits.budgets:
        if name not in graph.budgets:
            others = ("iterations", "seconds", "fan_out", "restarts", "depth", "nested_runs", *graph.meters)
            otherwise = f"it has {', '.join(graph.budgets) or 'none of its own'}"
            hint = did_you_mean(name, [*graph.budgets, *others], otherwise)
            raise LimitsError(f"the machine has no budget {name}; {hint}")
    check_meters(graph, limits)
    flow = flow_of(graph)
    faults = [
        finding_of(fault, _way_to(flow, fault.node, limits))
        for fault in (*graph.faults, *faults_of(graph.nodes, graph.edges, graph.start))
    ]
    if not faults:
        faults += _only_stopping(flow, limits)
    nested = nested_in(graph)
    certificate, loops = solve(flow, limits, nested)
    guards = () if faults else unguarded_exits(graph)
    findings = (*faults, *loops, *_fanning_out(graph, limits, flow.measured), *_endless(graph, nested), *guards)
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        assert certificate is not None, "there is one where there are no errors"
        assumptions = tuple(_assumptions(flow, certificate, limits))
        return Verdict("proved", graph, limits, findings, certificate, assumptions)
    unknown = all(finding.code in _UNKNOWN for finding in errors)
    return Verdict("unproved" if unknown else "refuted", graph, limits, findings, None, ())


# What is found where no proof was, and no run that never ends either.
_UNKNOWN = ("GX012", "GX013", "GX017", "GX018")


@lru_cache(maxsize=256)
def solve(
    flow: Flow, limits: Limits, nested: NestedRuns | None = None
) -> tuple[Certificate | None, tuple[Finding, ...]]:
    """The certificate, or the loops that stand against it. The same machine is proved once."""
    caps, every = caps_of(flow, limits), limits_of(flow, limits)
    # A draft may lead to nodes that it does not have.
    nodes = dict.fromkeys([*flow.nodes, *(one.target for one in flow.transitions if one.target != END.name)])
    finite = [name for name, limit in caps.items() if limit is not None]
    transitions = [one for one in flow.visits if possible(one, every)]
    # Where it is within another run, any of its own limits may be one that is spent around it.
    ranks = rank_nodes(nodes, flow.visits, finite)
    holds_within = not isinstance(ranks, list)
    if isinstance(ranks, list):
        ranks = rank_nodes(nodes, transitions, finite)
    always = not isinstance(ranks, list)
    if isinstance(ranks, list):
        # These limits may be too low for the loops.
        transitions = possible_transitions(flow, limits)
        ranks = rank_nodes(nodes, transitions, finite)
    if isinstance(ranks, list) and (bounds := bounds_by_states(flow, limits, nested)) is not None:
        return Certificate(flow, every, None, bounds, nested), ()
    if isinstance(ranks, list):
        return None, tuple(finding for core in ranks for finding in loops_found(flow, core, limits))
    bounds = bounds_of(flow, transitions, limits, nested, always=always)
    return Certificate(flow, every, ranks, bounds, nested, holds_within), ()


def _way_to(flow: Flow, node: str | None, limits: Limits) -> Witness | None:
    moves = ((one.source, one.target, one) for one in flow.transitions if one.kind == "move")
    stem = None if node is None else find_path(label_edges(moves), flow.start, node)
    return None if stem is None else Witness(tuple(stem), (), limits)


def _only_stopping(flow: Flow, limits: Limits) -> Iterator[Finding]:
    """Yield a warning for the nodes from which runs can only be stopped: they end, and never with an answer."""
    back: dict[str, list[str]] = {}
    for one in flow.transitions:
        if one.kind == "move":
            back.setdefault(one.target, []).append(one.source)
    finishing = reachable([END.name], back)
    stuck = [name for name in flow.nodes if name not in finishing]
    if stuck:
        first = stuck[0]
        fact = f"from {', '.join(stuck)} the end is reached only when a limit is spent"
        remedy = f"route an outcome of {first}, or of a node behind it, to END"
        yield Finding("GX007", "warning", first, None, fact, remedy, _way_to(flow, first, limits))


def _fanning_out(graph: Graph[Any, Any], limits: Limits, measured: Collection[str]) -> Iterator[Finding]:
    for node in graph:
        if unbounded := _unbounded(node, limits, measured):
            asks = ", ".join(effect.__name__ for effect in unbounded)
            fact = f"nothing bounds how often one visit asks for {asks}"
            charged = [_counted_meters(effect, measured) for effect in unbounded]
            # A limit on meters is one where all effects are charged.
            meters = (names[0] for names in charged) if all(charged) else ()
            remedy = f"{fan_out_remedy(meters)}, or say asks= in its @charged or @metered: how many, or (least, most)"
            yield Finding("GX013", "error", node.name, None, fact, remedy)


def _unbounded(node: Node[Any, Any], limits: Limits, measured: Collection[str]) -> list[type[Effect[Any]]]:
    """Return the effects that no limit stops a visit to ask for."""
    if node.most is not None or limits.fan_out is not None:
        return []
    return [
        effect for effect in node.effects if all(limits[name] is None for name in _counted_meters(effect, measured))
    ]


def _counted_meters(effect: type[Effect[Any]], measured: Collection[str]) -> list[str]:
    return sorted(meter.name for meter in effect.charges if meter.name not in measured)


def _endless(graph: Graph[Any, Any], nested: NestedRuns | None) -> Iterator[Finding]:
    if nested is None:
        return
    callers = [node.name for node in graph for effect in node.effects if nested.meter in map(str, effect.charges)]
    for tool in nested.unproved:
        fact = f"the tool {tool} runs an executor that is not proved to end"
        remedy = f"make {tool} of an executor that is proved, without allow_nonterminating"
        yield Finding("GX018", "error", next(iter(callers), None), None, fact, remedy)


def _assumptions(flow: Flow, certificate: Certificate, limits: Limits) -> Iterator[str]:
    if limits.seconds is None:
        yield "each node's function, policy and observer returns, and each effect is answered"
    else:
        yield (
            "each node's function, policy and observer returns at once, and the event loop is not blocked; an "
            "unanswered effect is cut"
        )
        yield "what goes on in the thread or task of a cut effect is not counted"
    if flow.charged:
        yield "an effect counts as one, whatever its handler does: a client's own retries are not counted"
    if limits.restarts is None:
        yield "no run is resumed after a crash, where an unanswered effect is charged again (set Limits(restarts=...))"
    elif limits.restarts:
        yield "a run that is resumed after a crash is resumed from snapshot.restarted()"
    if any(one.kinds for one in flow.transitions):
        yield from _assumptions_of_nesting(certificate, limits)


def _assumptions_of_nesting(certificate: Certificate, limits: Limits) -> Iterator[str]:
    most = "any number" if limits.nested_runs is None else f"at most {format_number(limits.nested_runs)}"
    levels = "at any depth" if limits.depth is None else f"{format_number(limits.depth)} levels deep"
    if limits.depth != 0 and limits.nested_runs != 0:
        yield (
            f"runs that its calls start ({most}, {levels}) end, and find the call around them: in a thread of your "
            f"own, pass host=call"
        )
    without = [name for name in certificate.bounds.meters if limits[name] is None]
    if without:
        yield (
            f"the bounds on {' and '.join(name.replace('_', ' ') for name in without)} leave out what runs within its "
            f"calls charge, but for tools made by as_tool, and what a memory asks of a model: set limits to have it in"
        )
    if not certificate.holds_within:
        yield "it is not run within a run that limits something it does not limit itself"
    elif not all(possible(one, certificate.limits) for one in certificate.flow.transitions):
        yield "within a run that limits something it does not limit itself, it ends, but may take more transitions"
