"""The cost of proofs and checks, in calls of functions, which repeat exactly: it grows as the machine does."""

from collections.abc import Callable

import pytest

from graphexec.kernel import Limits
from graphexec.verify import Certificate
from graphexec.verify.checker.check import check_certificate
from graphexec.verify.proof import potential
from graphexec.verify.proof.flow import Flow, Transition
from graphexec.verify.proof.prove import prove_flow
from tests.counting import count_calls
from tests.parameters import cases
from tests.verify.proofs import prove, require
from tests.verify.test_numbers import nested

SPENT = (("iterations", 1),)


def flow_of(transitions: list[Transition], budgets: tuple[tuple[str, int | None], ...] = ()) -> Flow:
    return Flow("n0", tuple(dict.fromkeys(one.source for one in transitions)), tuple(transitions), budgets)


def chain(count: int) -> Flow:
    return flow_of([Transition(f"n{at}", "Next", f"n{at + 1}" if at + 1 < count else "END") for at in range(count)])


def ring(size: int) -> Flow:
    steps = [Transition(f"n{at}", "Next", f"n{(at + 1) % size}", spends=SPENT if at == 0 else ()) for at in range(size)]
    ends = [
        Transition("n0", "Done", "END", spends=SPENT),
        Transition("n0", "Stopped", "END", "gate", causes=("iterations",)),
    ]
    return flow_of([*steps, *ends])


def loops_in_a_row(count: int) -> Flow:
    """Loops of five nodes, one behind another, of which each spends one of two budgets."""
    found: list[Transition] = []
    for at in range(count):
        name = "iterations" if at % 2 else "rounds"
        spends = ((name, 1),) if at % 5 == 0 else ()
        found.append(Transition(f"n{at}", "Next", f"n{at + 1}" if at + 1 < count else "END", spends=spends))
        if at % 5 == 4:
            found.append(Transition(f"n{at}", "Back", f"n{at - 4}"))
        if spends:
            found.append(Transition(f"n{at}", "Stopped", "END", "gate", causes=(name,)))
    return flow_of(found, (("rounds", 3),))


def prove_with_bounds(flow: Flow, limits: Limits) -> Certificate:
    """Prove a flow, and find its bounds, which are found when they are read."""
    certificate = require(prove_flow(flow, limits)[0])
    assert certificate.bounds.rows()
    return certificate


def cost(flow: Flow, limits: Limits) -> tuple[int, int]:
    """Return the calls of a proof with its bounds, and of its check."""
    prove_flow.cache_clear()
    proof = count_calls(lambda: prove_with_bounds(flow, limits))
    certificate = prove_with_bounds(flow, limits)
    return proof, count_calls(lambda: check_certificate(certificate))


def check_growth(make: Callable[[int], Flow], count: int) -> None:
    limits = Limits(iterations=15)
    (proof, check), (twice, check_twice) = cost(make(count), limits), cost(make(2 * count), limits)
    assert twice < 2.5 * proof
    assert check_twice < 2.5 * check


@pytest.mark.medium
@pytest.mark.parametrize(
    ("make", "count"), [(chain, 300), pytest.param(ring, 1_500, marks=pytest.mark.slow), (loops_in_a_row, 200)]
)
def test_cost_is_linear_in_the_machine(make: Callable[[int], Flow], count: int) -> None:
    check_growth(make, count)


@pytest.mark.slow
@cases("make", chain, ring, loops_in_a_row)
def test_cost_of_large_machines_is_linear(make: Callable[[int], Flow]) -> None:
    check_growth(make, 2_500)


@pytest.mark.medium
def test_cost_of_nested_resets_is_less_than_cubic() -> None:
    limits = Limits(iterations=None)
    (proof, check), (twice, check_twice) = cost(nested(30, 3), limits), cost(nested(60, 3), limits)
    assert twice < 6 * proof
    assert check_twice < 6 * check


def test_cost_does_not_grow_with_the_limits() -> None:
    # The first proofs fill caches, unless other tests have.
    _, _, small, large = (cost(ring(4), Limits(iterations=iterations)) for iterations in (500, 10_000, 500, 10_000))
    assert large == small


def test_closed_form_with_too_many_terms_is_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(potential, "_TERMS", 0)
    prove_flow.cache_clear()
    # One budget: potentials with a slope for each of several budgets have few terms.
    bound = prove(nested(2, 1), Limits(iterations=None)).bounds.transitions
    prove_flow.cache_clear()
    assert (bound.form, bound.number) == (None, require(bound.number))
