"""Verdicts: proofs, refutations, and witnesses that the engine can run."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphexec import Graph, Limits, draft, edges
from graphexec.effects import agent_limits
from graphexec.errors import CertificateError, LimitsError
from graphexec.executor import AGENT_EXECUTOR, STRICT_AGENT_EXECUTOR, LimitReached
from graphexec.verify import Certificate, check
from graphexec.verify.checker.check import check_ranks
from graphexec.verify.explorer.stub_nodes import explore_table
from tests.parameters import cases
from tests.verify import bad_machines as bad
from tests.verify.execution import execute

FIFTEEN = Limits(iterations=15)
UNLIMITED = Limits(iterations=None)

# A refuted machine and its limits, the code and the node, and the machine and limits with the remedy applied.
REFUTED: dict[str, tuple[Graph[Any, Any], Limits, str, str, Graph[Any, Any], Limits]] = {
    "a retry around parse without a meter": (
        bad.UNMETERED_RETRY, FIFTEEN, "GX010", "parse", bad.METERED_RETRY, FIFTEEN
    ),
    "a meter reset inside the loop it bounds": (
        bad.RESET_INSIDE, FIFTEEN, "GX015", "go_left", bad.RESET_OUTSIDE, FIFTEEN
    ),
    "two loops that reset each other's budget": (
        bad.EACH_OTHERS, FIFTEEN, "GX015", "go_right", bad.ONE_OF_TWO, FIFTEEN
    ),
    "generate charged to the spent budget": (
        bad.GENERATE_FROM_THE_SPENT, FIFTEEN, "GX009", "generate", bad.GENERATE_ON_ITS_OWN, FIFTEEN
    ),
    "an unhandled outcome": (bad.UNHANDLED, FIFTEEN, "GX002", "turn", bad.HANDLED, FIFTEEN),
    "an unreachable node": (bad.UNREACHABLE, FIFTEEN, "GX004", "unused", bad.REACHABLE, FIFTEEN),
    "no limit of iterations": (AGENT_EXECUTOR, UNLIMITED, "GX016", "plan", AGENT_EXECUTOR, FIFTEEN),
    "a nested agent that refills its parent": (
        bad.REFILLS_ITS_PARENT, FIFTEEN, "GX015", "plan", bad.SHARES_WITH_ITS_PARENT, FIFTEEN
    ),
    "a nested agent entered again without end": (
        bad.ENDLESS_CHILD, FIFTEEN, "GX014", "research.plan", bad.CHILD_COUNTED, FIFTEEN
    ),
    "a free human extension": (bad.FREE_EXTENSION, FIFTEEN, "GX015", "plan", bad.PAID_EXTENSION, FIFTEEN),
}  # fmt: skip


@cases("case", REFUTED)
def test_nonterminating_machine_is_refuted_until_fixed(case: str) -> None:
    machine, limits, code, node, fixed, fixed_limits = REFUTED[case]
    verdict = machine.verify(limits)
    errors = [finding for finding in verdict.findings if finding.severity == "error"]
    assert verdict.status == "refuted"
    assert [(finding.code, finding.node) for finding in errors] == [(code, node)]
    assert verdict.certificate is None
    (finding,) = errors
    assert str(finding) in verdict.why
    if code == "GX004":
        assert finding.witness is None
        assert all(node not in {one.source, one.target} for one in explore_table(machine, limits).taken)
    else:
        assert finding.witness is not None
        steps = 2_000 if finding.witness.loop else len(finding.witness.stem)
        assert execute(machine, finding.witness, steps) == steps
    proved = fixed.verify(fixed_limits)
    assert proved.proved, proved
    assert proved.certificate is not None
    check(proved.certificate, fixed)


def test_machine_that_only_limits_end_gets_warning() -> None:
    verdict = bad.ONLY_STOPPING.verify(FIFTEEN)
    assert verdict.certificate is not None
    check(verdict.certificate, bad.ONLY_STOPPING)
    (finding,) = verdict.findings
    assert (finding.code, finding.severity, finding.node) == ("GX007", "warning", "tick")
    assert finding.witness is not None
    assert execute(bad.ONLY_STOPPING, finding.witness, len(finding.witness.stem)) == len(finding.witness.stem)
    assert explore_table(bad.ONLY_STOPPING, FIFTEEN).endless is None
    assert bad.STOPPING_OR_NOT.verify(FIFTEEN).findings == ()


@cases("iterations", [0, 1, 3, 15])
@cases("machine", [AGENT_EXECUTOR, STRICT_AGENT_EXECUTOR])
def test_bound_of_standard_machine_is_attained(machine: Graph[Any, Any], iterations: int) -> None:
    limits = Limits(iterations=iterations, fan_out=4)
    bounds = machine.verify(limits).bounds
    assert bounds is not None
    assert str(bounds.transitions) == f"4*iterations + 2 = {4 * iterations + 2} (exact)"
    assert (bounds.model_calls.form, bounds.model_calls.number) == ("iterations", iterations)
    assert (bounds.tool_calls.form, bounds.tool_calls.number) == ("4*iterations", 4 * iterations) or (
        bounds.tool_calls.form == "fan_out*iterations"
    )
    explored = explore_table(machine, limits)
    assert explored.longest == bounds.transitions.number
    assert explored.model_calls == bounds.model_calls.number


def test_call_limit_bounds_loop_like_iterations() -> None:
    verdict = AGENT_EXECUTOR.verify(agent_limits(iterations=None, model_calls=4))
    assert verdict.bounds is not None
    assert str(verdict.bounds.transitions) == "4*model_calls + 2 = 18 (exact)"
    assert AGENT_EXECUTOR.verify(agent_limits(iterations=None, tokens=4)).proved
    # parse --Ready--> plan calls no tool.
    assert not AGENT_EXECUTOR.verify(agent_limits(iterations=None, tool_calls=4)).proved
    assert not STRICT_AGENT_EXECUTOR.verify(agent_limits(iterations=None, tool_calls=4)).proved


@cases("limits", [FIFTEEN, UNLIMITED, Limits(iterations=None, seconds=60)])
def test_verdict_has_graph_and_limits(limits: Limits) -> None:
    verdict = AGENT_EXECUTOR.verify(limits)
    assert verdict.graph is AGENT_EXECUTOR
    assert verdict.limits is limits
    assert verdict.proved == (limits is FIFTEEN)
    assert verdict.proved == bool(verdict.assumptions)
    assert isinstance(verdict.assumptions, tuple)


def test_loop_that_only_time_ends_is_unproved() -> None:
    verdict = AGENT_EXECUTOR.verify(Limits(iterations=None, seconds=60))
    assert verdict.status == "unproved"
    assert "GX012 at plan: only the 60 seconds end this loop" in verdict.why


def test_remedy_for_missing_limit_sets_it() -> None:
    assert AGENT_EXECUTOR.verify(UNLIMITED).why == (
        "GX016 at plan: this loop can run forever: plan --Replied--> parse, parse --Ready--> plan; it spends "
        "only iterations, without a limit. Set max_iterations, or Limits(iterations=...)."
    )


def test_extensions_multiply_the_bound() -> None:
    verdict = bad.PAID_EXTENSION.verify(Limits(iterations=3, budgets={"extensions": 1}))
    assert verdict.bounds is not None
    form = "4*extensions*iterations + 2*extensions + 4*iterations + 3"
    assert str(verdict.bounds.transitions) == f"{form} = 29 (exact)"


def test_limit_on_missing_budget_is_refused() -> None:
    with pytest.raises(LimitsError, match="no budget extension; did you mean extensions"):
        bad.PAID_EXTENSION.verify(Limits(budgets={"extension": 1}))


def test_certificate_survives_json_and_fits_one_machine() -> None:
    certificate = AGENT_EXECUTOR.verify().certificate
    assert certificate is not None
    assert Certificate.from_json(certificate.to_json()) == certificate
    check(certificate, AGENT_EXECUTOR)
    with pytest.raises(CertificateError, match="is for another machine"):
        check(certificate, STRICT_AGENT_EXECUTOR)


@cases("node", ["plan", "parse", "dispatch_tools", "check_return_direct", "stopped_response"])
def test_a_certificate_with_another_rank_is_refused(node: str) -> None:
    certificate = AGENT_EXECUTOR.verify().certificate
    assert certificate is not None
    assert certificate.ranks is not None
    (component, budgets), *rest = certificate.ranks[node]
    for changed in (((component, ()), *rest), ((component, budgets),), ((0, budgets), *rest), ()):
        forged = dataclasses.replace(certificate, ranks={**certificate.ranks, node: changed})
        if forged != certificate and node != "stopped_response":
            with pytest.raises(CertificateError, match="proves nothing"):
                check(forged, AGENT_EXECUTOR)


def test_certificate_without_counted_limit_is_refused() -> None:
    certificate = AGENT_EXECUTOR.verify().certificate
    assert certificate is not None
    for limit in (None, -1, 1.5):
        forged = dataclasses.replace(certificate, limits={**certificate.limits, "iterations": limit})
        with pytest.raises(CertificateError, match="does not lower the rank"):
            check(forged, AGENT_EXECUTOR)


@cases(
    ("text", "says"),
    [
        ("", "this is not a certificate"),
        ("[]", "this is not a certificate"),
        ("{}", "this is not a certificate"),
        ('{"graphexec_certificate": 1}', "has version 1, and this graphexec reads version 3; prove the machine again"),
        ('{"graphexec_certificate": 3, "flow": {}}', "is broken"),
    ],
)
def test_invalid_certificate_is_refused(text: str, says: str) -> None:
    with pytest.raises(CertificateError, match=says):
        Certificate.from_json(text)


def test_a_certificate_that_was_changed_is_refused() -> None:
    certificate = AGENT_EXECUTOR.verify().certificate
    assert certificate is not None
    forged = certificate.to_json().replace('"outcome": "Acted"', '"outcome": "Asked"')
    with pytest.raises(CertificateError, match="does not match its digest"):
        Certificate.from_json(forged)


def test_certificate_without_gate_is_refused() -> None:
    certificate = AGENT_EXECUTOR.verify().certificate
    assert certificate is not None
    kept = tuple(one for one in certificate.flow.transitions if one.kind != "gate")
    forged = dataclasses.replace(certificate, flow=dataclasses.replace(certificate.flow, transitions=kept))
    with pytest.raises(CertificateError, match="plan has no gate for iterations"):
        check_ranks(forged)


def test_outcome_may_be_returned_and_limit_outcome() -> None:
    ways = [one.kind for one in bad.PAID_EXTENSION_FLOW.transitions if one.source == "ask_for_more"]
    assert ways == ["move", "move", "gate", "within"]
    assert LimitReached.__name__ in {one.outcome for one in bad.PAID_EXTENSION_FLOW.transitions}


def test_a_certificate_whose_bounds_were_changed_is_refused() -> None:
    certificate = AGENT_EXECUTOR.verify().certificate
    assert certificate is not None
    forged = certificate.to_json().replace('"number": 62', '"number": 5')
    with pytest.raises(CertificateError, match="was changed since it was made"):
        Certificate.from_json(forged)


def test_invalid_table_has_no_certificate() -> None:
    certificate = AGENT_EXECUTOR.verify().certificate
    assert certificate is not None
    with pytest.raises(CertificateError) as caught:
        check(certificate, draft(edges(bad.look, bad.UNFINISHED) | edges(bad.turn, bad.UNFINISHED), start=bad.look))
    assert str(caught.value) == (
        "an invalid table has no proof: look may return B, which no edge takes; add on(B, turn); "
        "turn may return A, which no edge takes; add on(A, look)"
    )
