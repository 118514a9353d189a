"""Potentials with one slope for each budget: sums instead of products, and quick for many budgets."""

from __future__ import annotations

from graphexec import Limits
from graphexec.verify.checker.check import check_certificate
from graphexec.verify.proof.flow import Flow, Transition
from graphexec.verify.proof.prove import prove_flow


def gate(source: str, budget: str) -> Transition:
    """The end of a run at a node whose budget is used up."""
    return Transition(source, "Spent", "END", kind="gate", causes=(budget,))


def side_loops(count: int) -> Flow:
    """A loop that spends iterations, with so many loops beside it that lead back into it."""
    transitions = [
        Transition("n", "Next", "n", spends=(("iterations", 1),)),
        Transition("n", "Done", "END"),
        gate("n", "iterations"),
        *(
            transition
            for number in range(count)
            for transition in (
                Transition("n", f"Doubt{number}", f"side{number}"),
                Transition(f"side{number}", "Back", "n", spends=((f"rounds{number}", 1),)),
                gate(f"side{number}", f"rounds{number}"),
            )
        ),
    ]
    budgets = tuple((f"rounds{number}", 2) for number in range(count))
    return Flow("n", ("n", *(f"side{number}" for number in range(count))), tuple(transitions), budgets)


def test_bound_of_loops_that_reset_nothing_is_a_sum() -> None:
    certificate, _ = prove_flow(side_loops(3), Limits(iterations=4))
    assert certificate is not None
    check_certificate(certificate)
    bound = certificate.bounds.transitions
    assert bound.form == "iterations + 2*rounds0 + 2*rounds1 + 2*rounds2 + 2"
    assert (bound.number, bound.exact) == (18, True)


def test_many_budgets_have_a_bound() -> None:
    certificate, _ = prove_flow(side_loops(12), Limits(iterations=4))
    assert certificate is not None
    check_certificate(certificate)
    assert certificate.bounds.transitions.number == 4 + 12 * 2 * 2 + 2
    assert certificate.bounds.transitions.form is not None


def test_inner_budget_that_is_reset_costs_its_limit() -> None:
    transitions = (
        Transition("outer", "In", "inner", spends=(("rounds", 1),), resets=("tries",)),
        Transition("inner", "Again", "inner", spends=(("tries", 1),)),
        Transition("inner", "Out", "outer"),
        Transition("outer", "Done", "END"),
        gate("outer", "rounds"),
        gate("inner", "tries"),
    )
    flow = Flow("outer", ("outer", "inner"), transitions, (("rounds", 3), ("tries", 5)))
    certificate, _ = prove_flow(flow, Limits())
    assert certificate is not None
    check_certificate(certificate)
    assert certificate.bounds.transitions.number == 3 * (2 + 5) + 1
