"""Verdicts: proofs, refutations, and witnesses that the engine can run."""

from typing import Any, TypeAlias

import pytest

from graphexec import Graph, Limits, Machine, errors, verify
from graphexec.executor import AGENT_EXECUTOR, Stopped, agent_graph
from graphexec.testing.explorer.stub_nodes import explore_table
from tests.parameters import cases
from tests.verify import bad_machines as bad
from tests.verify.execution import execute
from tests.verify.proofs import bounds_of, certificate_of, witness_of

FIFTEEN = Limits(iterations=15)
UNLIMITED = Limits(iterations=None)

# A refuted machine and its limits, the code and the node, and the machine and limits with the remedy applied.
Refuted: TypeAlias = tuple[Machine[Any, Any], Limits, str, str, Machine[Any, Any], Limits]
REFUTED: dict[str, Refuted] = {
    "no limit of iterations": (AGENT_EXECUTOR, UNLIMITED, "GX016", "plan", AGENT_EXECUTOR, FIFTEEN),
    **{
        name: (machine, FIFTEEN, code, node, fixed, FIFTEEN)
        for name, machine, code, node, fixed in (
            ("a retry around parse without a meter", bad.UNMETERED_RETRY, "GX010", "parse", bad.METERED_RETRY),
            ("a meter reset inside the loop it bounds", bad.RESET_INSIDE, "GX015", "go_left", bad.RESET_OUTSIDE),
            ("two loops that reset each other's budget", bad.EACH_OTHERS, "GX015", "go_right", bad.ONE_OF_TWO),
            ("generate by the spent budget", bad.GENERATE_FROM_THE_SPENT, "GX009", "generate", bad.GENERATE_ON_ITS_OWN),
            ("a child that refills its parent", bad.REFILLS_ITS_PARENT, "GX015", "plan", bad.SHARES_WITH_ITS_PARENT),
            ("a child entered without end", bad.ENDLESS_CHILD, "GX014", "research.plan", bad.CHILD_COUNTED),
            ("a free human extension", bad.FREE_EXTENSION, "GX015", "plan", bad.PAID_EXTENSION),
        )
    },
}


@pytest.mark.medium
@cases("case", *REFUTED)
def test_nonterminating_machine_is_refuted_until_fixed(case: str) -> None:
    machine, limits, code, node, fixed, fixed_limits = REFUTED[case]
    verdict = machine.verify(limits)
    (finding,) = (finding for finding in verdict.findings if finding.severity == "error")
    assert (verdict.status, verdict.certificate) == ("refuted", None)
    assert (finding.code, finding.node) == (code, node)
    assert str(finding) in verdict.why
    witness = witness_of(finding)
    steps = 2_000 if witness.loop else len(witness.stem)
    assert execute(machine, witness, steps) == steps
    assert certificate_of(fixed, fixed_limits)


def test_machine_that_only_limits_end_gets_warning() -> None:
    assert certificate_of(bad.ONLY_STOPPING, FIFTEEN)
    (finding,) = bad.ONLY_STOPPING.verify(FIFTEEN).findings
    assert (finding.code, finding.severity, finding.node) == ("GX007", "warning", "tick")
    witness = witness_of(finding)
    assert execute(bad.ONLY_STOPPING, witness, len(witness.stem)) == len(witness.stem)
    assert explore_table(bad.ONLY_STOPPING, FIFTEEN).endless is None
    assert bad.STOPPING_OR_NOT.verify(FIFTEEN).findings == ()


@pytest.mark.medium
@cases("iterations", 0, 1, 3, 15)
@cases("machine", AGENT_EXECUTOR, agent_graph(strict=True))
def test_bound_of_standard_machine_is_attained(machine: Graph[Any, Any], iterations: int) -> None:
    limits = Limits(iterations=iterations, fan_out=4)
    bounds, explored = bounds_of(machine, limits), explore_table(machine, limits)
    assert str(bounds.transitions) == f"4*iterations + 2 = {4 * iterations + 2} (exact)"
    assert (bounds.model_calls.form, bounds.model_calls.number) == ("iterations", iterations)
    assert (bounds.tool_calls.form, bounds.tool_calls.number) == ("fan_out*iterations", 4 * iterations)
    assert (explored.longest, explored.model_calls) == (bounds.transitions.number, bounds.model_calls.number)


def test_certificate_needs_a_valid_table() -> None:
    with pytest.raises(errors.CertificateError, match="an invalid table has no proof: unused cannot be reached"):
        verify.check(certificate_of(AGENT_EXECUTOR), bad.UNREACHABLE)


def test_outcome_may_be_returned_and_limit_outcome() -> None:
    ways = [one.kind for one in bad.PAID_EXTENSION_FLOW.transitions if one.source == "ask_for_more"]
    assert ways == ["move", "move", "gate", "within"]
    assert Stopped.__name__ in {one.outcome for one in bad.PAID_EXTENSION_FLOW.transitions}
