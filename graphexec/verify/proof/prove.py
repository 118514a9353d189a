"""Prove that every run of a graph ends, or show why that is not proved.

The proof has three steps: check the transition table, give each node a rank so that every transition leads to a lower
one, and derive bounds from the ranks. If there are no such ranks, it searches the states. If that fails, too, it
reports the loops that may be endless.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias

from graphexec.errors import LimitsError, format_number
from graphexec.kernel.effects import NestedRuns
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.meters import FrozenMapping, Limits
from graphexec.kernel.node import END
from graphexec.kernel.program import cached_for_limits
from graphexec.kernel.tables import reachable
from graphexec.verify.paths import find_path, label_edges
from graphexec.verify.proof.bounds import bounds_by_states, bounds_of, ends_by_states
from graphexec.verify.proof.certificate import Bounds, Certificate
from graphexec.verify.proof.findings import Finding, Status, Verdict, Witness, fan_out_remedy, options_of
from graphexec.verify.proof.flow import (
    Flow,
    Known,
    Transition,
    bounded_meters,
    caps_of,
    flow_of,
    is_enabled,
    limits_of,
    may_stop_anywhere,
    nested_runs_of,
    possible_transitions,
)
from graphexec.verify.proof.guards import unguarded_exits
from graphexec.verify.proof.loops import find_loops
from graphexec.verify.proof.ranking import Core, rank_nodes

# A verdict without its graph and limits.
_Result: TypeAlias = tuple[Status, tuple[Finding, ...], Certificate | None, tuple[str, ...]]


def verify(graph: Graph[Any, Any], limits: Limits | None = None) -> Verdict:
    """Prove that every run of `graph` ends within `limits` (default: `Limits()`), or report what prevents the proof.

    Finding ranks takes one pass over the nodes and edges for each budget that is spent in a loop. If no ranks exist, a
    fixed number of states is searched at most. So the time does not grow with the limits. The result is cached for the
    graph and the limits, and the proof for every graph with the same table.

    Raises `LimitsError` for a fraction as the limit of a whole meter, and `InputError` if `graph` is not a graph.
    """
    require_graph(graph, "verify(executor.graph)")
    limits = Limits() if limits is None else limits
    status, findings, certificate, assumptions = _verify(graph, limits)
    return Verdict(status, graph, limits, findings, certificate, assumptions)


@cached_for_limits
def _verify(graph: Graph[Any, Any], limits: Limits) -> _Result:
    own = {name: meter.limit for name, meter in graph.effect_meters.items() if meter.limit is not None}
    limits = dataclasses.replace(limits, meters=FrozenMapping(own | dict(limits.meters))) if own else limits
    for name, meter in graph.meters.items():
        if meter.whole and isinstance(limit := limits[meter], float):
            raise LimitsError(f"the limit {name} is {limit}, and {name} counts whole numbers; give one of these")
    flow = flow_of(graph)
    faults = tuple(_find_stop_only_nodes(flow, limits))
    nested = nested_runs_of(graph)
    certificate, cores = prove_flow(flow, limits, nested)
    loops = [finding for core in cores for finding in find_loops(flow, core, limits, graph)]
    # A guard is a node that takes an outcome on its way to END and may return it unchanged. Exits that bypass one are
    # looked for only in a valid table.
    unguarded = () if faults else unguarded_exits(graph)
    findings = (
        *faults,
        *loops,
        *_find_unbounded_asks(graph, limits, flow.measured),
        *_find_unproved_tools(graph, nested),
        *unguarded,
    )
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        assert certificate is not None, "there are no errors, and no certificate"
        return "proved", findings, certificate, tuple(_list_assumptions(certificate, limits))
    undecided = all(finding.code in _UNDECIDED for finding in errors)
    return "unproved" if undecided else "refuted", findings, None, ()


# Findings that prevent a proof but do not show a run that never ends.
_UNDECIDED = ("GX012", "GX013", "GX017", "GX018")


@lru_cache(maxsize=256)
def prove_flow(
    flow: Flow, limits: Limits, nested: tuple[NestedRuns, ...] = ()
) -> tuple[Certificate | None, tuple[Core, ...]]:
    """Return a certificate, or the cores of the loops that prevent one.

    Tries to find falling ranks for three sets of transitions, one after the other: all of the table; those without the
    transitions for limits that are not set; those that a run within these limits can reach. If all three fail, ranks
    may also count the measures of nodes. If that fails, too, searches the states, unless there are too many. (Each
    transition is split into variants, one for each choice of effects.) The result is cached.
    """
    # Ranks count down the limits on iterations, charges and own budgets, and not others, such as seconds.
    known = limits_of(flow, limits)
    finite = [name for name, limit in caps_of(flow, known).items() if limit is not None]
    cores: list[Core] = []
    # Limits give bounds that are numbers, so measures are counted only where limits do not suffice.
    for measures in ((), flow.measures)[: 2 if flow.measures else 1]:
        for ranked, taken, always, anywhere in _choose_transitions(flow, known):
            found = rank_nodes(flow.nodes, ranked, (*finite, *measures))
            if not isinstance(found, list):
                # They take longer than the proof, and many runs need none.
                bounds = Bounds.lazy(
                    partial(bounds_of, flow, taken, known, nested, always=always, measures=measures, anywhere=anywhere)
                )
                return Certificate(flow, known, found, bounds, nested, anywhere), ()
            cores = found
    if ends_by_states(flow, known):
        bounds = Bounds.lazy(partial(bounds_by_states, flow, known, nested))
        return Certificate(flow, known, None, bounds, nested, may_stop_anywhere(known)), ()
    return None, tuple(cores)


def _choose_transitions(
    flow: Flow, known: Known
) -> Iterator[tuple[Sequence[Transition], Sequence[Transition], bool, bool]]:
    """Yield the transitions that ranks are tried for, and those that runs may take; the first choice proves most.

    The ranks hold always, however high the limits are, and anywhere: in a run that is nested in others, too.
    """
    # Any limit that is set, counted or not, enables the transitions for reaching it.
    enabled = [one for one in flow.variants if is_enabled(one, known)]
    # With the transitions for limits that only an outer run has.
    yield flow.variants, enabled, True, True
    yield enabled, enabled, True, False
    # Low limits may make a loop impossible.
    possible = possible_transitions(flow, known)
    yield possible, possible, False, False


def _path_to(flow: Flow, node: str | None, limits: Limits) -> Witness | None:
    moves = ((move.source, move.target, move) for move in flow.transitions if move.kind == "move")
    stem = None if node is None else find_path(label_edges(moves), flow.start, node)
    return None if stem is None else Witness(tuple(stem), (), limits)


def _find_stop_only_nodes(flow: Flow, limits: Limits) -> Iterator[Finding]:
    """Yield a warning for the nodes from which a run ends only when a limit stops it."""
    moves = [one for one in flow.transitions if one.kind == "move"]
    finishing = reachable(END.name, [(one.target, one.source) for one in moves])
    stuck = [name for name in flow.nodes if name not in finishing]
    if stuck:
        first = stuck[0]
        fact = f"runs from {', '.join(stuck)} reach END only when a limit stops them"
        remedy = f"route an outcome of {first}, or of a node after it, to END"
        yield Finding("GX007", "warning", first, None, fact, remedy, _path_to(flow, first, limits))


def _find_unbounded_asks(graph: Graph[Any, Any], limits: Limits, measured: Collection[str]) -> Iterator[Finding]:
    """Yield an error for each node that may ask for any number of effects in one visit."""
    if limits.fan_out is not None:
        return
    options = options_of(graph.meters.values())
    for node in graph:
        # The meters whose charges do not depend on replies, by the effect that charges them.
        charges = {effect: sorted({meter.name for meter in effect.charges} - {*measured}) for effect in node.effects}
        unbounded = {
            effect.__name__: names for effect, names in charges.items() if all(limits[name] is None for name in names)
        }
        if node.most is None and unbounded:
            fact = f"nothing limits how often one visit asks for {', '.join(unbounded)}"
            # Limits on meters are a remedy only if every effect charges one.
            meters = (names[0] for names in unbounded.values()) if all(unbounded.values()) else ()
            remedy = (
                f"{fan_out_remedy(meters, options)}, or declare asks= in its @node: a number, or (minimum, maximum)"
            )
            yield Finding("GX013", "error", node.name, None, fact, remedy)


def _find_unproved_tools(graph: Graph[Any, Any], nested: Sequence[NestedRuns]) -> Iterator[Finding]:
    """Yield an error for each tool that runs an executor whose termination is not proved."""
    for one in nested:
        callers = [node.name for node in graph for effect in node.effects if one.meter in map(str, effect.charges)]
        for tool in one.unproved:
            fact = f"the tool {tool} runs an executor that is not proved to end"
            remedy = f"make {tool} from a proved executor, without allow_nonterminating"
            yield Finding("GX018", "error", next(iter(callers), None), None, fact, remedy)


def _list_assumptions(certificate: Certificate, limits: Limits) -> Iterator[str]:
    """Yield the conditions under which the proof holds."""
    flow = certificate.flow
    if limits.seconds is None:
        yield "every node function, policy and observer returns, and each effect is answered"
    else:
        yield (
            "every node function, policy and observer returns at once, and the event loop is not blocked; an "
            "unanswered effect is cut off at the deadline"
        )
        yield "work that continues in the thread or task of a cut-off effect is not counted"
    ranked = {name for rank in (certificate.ranks or {}).values() for _, budgets in rank for name in budgets}
    if counted := [name for name in flow.measures if name in ranked]:
        yield f"a run in which {' or '.join(counted)} does not decrease ends with a MeasureError at that visit"
    if flow.charged:
        yield "an effect counts as one, even if its handler does more: a client's own retries are not counted"
    if limits.restarts is None:
        yield (
            "no run is resumed after a crash (a resume charges an unanswered effect again; to include resumes, set "
            "Limits(restarts=...))"
        )
    elif limits.restarts:
        yield "a run that is resumed after a crash is resumed by its store, or from snapshot.restarted()"
    if certificate.ranks is None:
        yield "the run begins within these limits: a snapshot that has spent more is refused"
    # Without these, limits change nothing; with measures, there may be no number.
    if any(transition.causes for transition in flow.transitions) and not counted:
        anywhere = certificate.ranks is not None and certificate.holds_when_nested
        name = "bounds.transitions_when_resumed" if anywhere else "bounds.transitions"
        yield (
            "the bounds are for a run that is resumed with the limits it had; with other limits, it takes at most "
            f"{name} from there on (else a CertificateError ends it)"
        )
    # Any effect may start a nested run in its handler.
    if any(transition.effect_charges for transition in flow.transitions):
        yield from _list_nesting_assumptions(certificate, limits)


def _list_nesting_assumptions(certificate: Certificate, limits: Limits) -> Iterator[str]:
    most = "any number" if limits.nested_runs is None else f"at most {format_number(limits.nested_runs)}"
    levels = "at any depth" if limits.depth is None else f"to a depth of {format_number(limits.depth)}"
    if limits.depth != 0 and limits.nested_runs != 0:
        yield (
            f"each nested run ends, and is linked to the call that started it (in a thread of your own: "
            f"run(..., host=call); a forked process counts its own); a run starts {most}, {levels}"
        )
    unlimited = [name for name in bounded_meters(certificate.flow, certificate.nested) if limits[name] is None]
    if unlimited:
        names = " and ".join(name.replace("_", " ") for name in unlimited)
        yield (
            f"the bounds on {names} include the nested runs of as_tool and map_agents, but not other nested runs and "
            f"not the model calls of a memory; limits on {names} would include them"
        )
    if not certificate.holds_when_nested:
        has = "could refuse it anything" if certificate.ranks is None else "this machine does not have"
        yield f"the run is not nested in a run with a limit that {has} (else it is refused)"
    elif not all(is_enabled(transition, certificate.limits) for transition in certificate.flow.transitions):
        yield (
            "the bounds are for a run that is not nested: inside a run with a limit that this machine does not have, "
            "it takes at most bounds.transitions_when_nested"
        )
