"""The independent checker: accepts a certificate or says what is wrong, without knowing how it was found.

It imports nothing from the prover. Trust in a proof rests on this package and on `proof/flow.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from graphexec.errors import CertificateError, format_value
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import is_count, is_measure
from graphexec.kernel.node import END
from graphexec.kernel.program import Ranks
from graphexec.kernel.tables import faults_of
from graphexec.verify.checker.numbers import is_possible, unproved_end, unproved_numbers
from graphexec.verify.proof.certificate import Certificate
from graphexec.verify.proof.flow import Transition, flow_of, may_stop_anywhere, nested_runs_of


def check(certificate: Certificate, graph: Graph[Any, Any]) -> None:
    """Raise `CertificateError` unless the certificate belongs to this graph and proves that every run of it ends."""
    faults = faults_of(graph.nodes, graph.edges, graph.start)
    if faults:
        raise CertificateError(f"an invalid table has no proof: {'; '.join(map(str, faults))}")
    flow = flow_of(graph)
    if flow != certificate.flow:
        digests = f"{certificate.digest[:12]}, not {flow.digest[:12]}"
        raise CertificateError(f"the certificate is for another machine ({digests}); prove this one again")
    if nested_runs_of(graph) != certificate.nested:
        raise CertificateError(
            "the machine's tools that run executors are not those of the certificate; prove the machine again"
        )
    check_certificate(certificate)


def check_certificate(certificate: Certificate) -> None:
    """Raise `CertificateError` unless every run of the certificate's own flow ends within the numbers of its bounds."""
    check_ranks(certificate)
    faults = list(_invalid_limits(certificate))
    if faults:
        raise CertificateError("the certificate has invalid limits: " + "; ".join(faults))
    faults = list(unproved_numbers(certificate))
    if faults:
        raise CertificateError("the certificate does not prove its numbers: " + "; ".join(faults))


def check_ranks(certificate: Certificate) -> None:
    """Raise `CertificateError` unless every transition of the certificate's own flow lowers the rank.

    Then every run ends. Without ranks, every transition must lower the potential of transitions.
    """
    faults = [*_open_ends(certificate), *_not_falling(certificate)]
    if faults:
        raise CertificateError("the certificate proves nothing: " + "; ".join(faults))


def _invalid_limits(certificate: Certificate) -> Iterator[str]:
    flow = certificate.flow
    own = {"iterations", "fan_out", "restarts", "depth", "nested_runs"}
    whole = {*own, *flow.charged, *(name for name, _ in flow.budgets)}
    for name, limit in certificate.limits.items():
        if limit is not None and not is_count(limit, whole=name in whole):
            yield f"{format_value(name)} is {format_value(limit)}"


def _open_ends(certificate: Certificate) -> Iterator[str]:
    flow = certificate.flow
    rows: dict[str, list[Transition]] = defaultdict(list)
    for one in flow.transitions:
        rows[one.source].append(one)
    for node in dict.fromkeys([flow.start, *flow.nodes, *(one.target for one in flow.transitions)]):
        if node == END.name:
            continue
        row = rows[node]
        if not row or (certificate.ranks is not None and node not in certificate.ranks):
            yield f"{node} has no rank, or no transition"
        # Effects charge their meters during a visit, not at its entry.
        charges = [(one, {meter for kind in one.effect_charges for meter, _ in kind}) for one in row]
        spent = {name for one, asked in charges if one.kind != "gate" for name, _ in one.spends if name not in asked}
        # A visit with nothing left of a measure ends the run with an error.
        entry = {name for name in spent if not is_measure(name)}
        if entry and not any(one.kind == "gate" and entry <= {*one.causes} for one in row):
            yield f"{node} has no gate for {', '.join(sorted(entry))}"


def _not_falling(certificate: Certificate) -> Iterator[str]:
    if certificate.ranks is None:
        if fault := unproved_end(certificate):
            yield fault
        if certificate.holds_when_nested and not may_stop_anywhere(certificate.limits):
            yield "it claims to hold within other runs, but has neither ranks nor a limit that may stop a run anywhere"
        return
    following: dict[str, list[Transition]] = defaultdict(list)
    for one in certificate.flow.variants:
        if certificate.holds_when_nested or is_possible(certificate, one):
            following[one.source].append(one)
    # Only nodes that a run can reach are checked.
    reached = dict.fromkeys([certificate.flow.start])
    waiting = list(reached)
    while waiting:
        for one in following[waiting.pop()]:
            if one.target == END.name:
                continue
            if not _falls(certificate, certificate.ranks, one):
                yield f"{one} does not lower the rank"
            if one.target not in reached:
                reached[one.target] = None
                waiting.append(one.target)


def _falls(certificate: Certificate, ranks: Ranks, one: Transition) -> bool:
    """Return whether the rank falls at the first level that changes, for all values of the counters."""
    spent = {name for name, amount in one.spends if amount >= 1}
    for (part, budgets), (next_part, next_budgets) in zip(
        ranks.get(one.source, ()), ranks.get(one.target, ()), strict=False
    ):
        if part != next_part:
            return 0 <= next_part < part
        # A measure is a natural number from its first visit on, and above every one before.
        limited = all(is_measure(name) or is_count(certificate.limits.get(name), whole=True) for name in budgets)
        if budgets != next_budgets or not limited or not {*budgets}.isdisjoint(one.resets):
            return False
        if not spent.isdisjoint(budgets):
            return True
    return False
