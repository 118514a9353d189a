"""Two model checkers that know nothing of the prover come to its verdict and to its bound."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from graphexec.effects import agent_limits
from graphexec.errors import InputError, LimitsError
from graphexec.executor import AGENT_EXECUTOR
from graphexec.kernel import Graph, Limits
from graphexec.verify import verify
from graphexec.verify.export.guarded import make_identifiers
from graphexec.verify.export.promela import promela
from graphexec.verify.export.tla import tla, tla_config
from graphexec.verify.proof.bounds import bounds_of
from graphexec.verify.proof.flow import Flow, caps_of, flow_of, is_enabled, limits_of
from graphexec.verify.proof.loops import find_loops
from graphexec.verify.proof.ranking import rank_nodes
from tests.verify.checkers import spin, tlc
from tests.verify.flows import AWKWARD, BAD, MISSING_CALLS, SPINNING, flows, limits, longest_run

Says = Callable[..., bool]

DIAGRAMS = Path(__file__).parents[2] / "diagrams" / "generate.py"
EXECUTOR = flow_of(AGENT_EXECUTOR)


def steps_proved(machine: Graph[Any, Any], limits: Limits) -> int | None:
    """The most transitions of a run of the machine, if it is proved to end."""
    bounds = verify(machine, limits).bounds
    number = None if bounds is None else bounds.transitions.number
    return None if number is None else int(number)


def spin_says(flow: Flow, limits: Limits, *, bound: int | None = None) -> bool:
    """Return whether every run ends, after at most `bound` steps."""
    return spin(promela(flow, limits, bound=bound)).holds


def tlc_says(flow: Flow, limits: Limits, *, bound: int | None = None) -> bool:
    """Return whether every run ends, after at most `bound` steps."""
    return tlc(tla(flow, limits, bound=bound), tla_config(bound=bound)).holds


by_each_checker = pytest.mark.parametrize(
    "says", [pytest.param(spin_says, marks=pytest.mark.slow), pytest.param(tlc_says, marks=pytest.mark.slow)]
)
# A second for each run of Java or gcc; what fails is small as it is, and not made smaller.
by_many_runs = settings(max_examples=25, phases=(Phase.explicit, Phase.reuse, Phase.generate))


@by_each_checker
def test_executor_runs_end_unless_unlimited(says: Says) -> None:
    assert says(EXECUTOR, Limits())
    assert not says(EXECUTOR, Limits(iterations=None))


@by_each_checker
@pytest.mark.parametrize("iterations", [0, 1, 3, 15])
def test_executor_bound_is_tight(says: Says, iterations: int) -> None:
    given = Limits(iterations=iterations)
    bound = 4 * iterations + 2
    assert steps_proved(AGENT_EXECUTOR, given) == bound
    assert says(EXECUTOR, given, bound=bound)
    assert not says(EXECUTOR, given, bound=bound - 1)


@by_each_checker
@pytest.mark.parametrize(
    "given", [Limits(), Limits(iterations=None), agent_limits(iterations=None, model_calls=2, seconds=9.0)], ids=repr
)
def test_external_checkers_agree_with_prover(says: Says, given: Limits) -> None:
    machines: Iterable[tuple[str, Graph[Any, Any]]] = runpy.run_path(str(DIAGRAMS))["machines"]()
    # Several examples have the same table.
    for flow, machine in {flow_of(machine): machine for _, machine in machines}.items():
        bound = steps_proved(machine, given)
        assert says(flow, given) == (bound is not None)
        if bound is not None:
            assert says(flow, given, bound=bound)
            assert not says(flow, given, bound=bound - 1)


@by_each_checker
@pytest.mark.parametrize("flow", BAD.values(), ids=BAD.keys())
def test_bad_flow_has_endless_run(says: Says, flow: Flow) -> None:
    assert not says(flow, Limits(iterations=3))


@pytest.mark.slow
def test_loop_that_changes_nothing_is_found() -> None:
    assert not tlc_says(SPINNING, Limits())


@by_each_checker
def test_later_visit_may_lack_calls(says: Says) -> None:
    assert says(MISSING_CALLS, agent_limits(model_calls=2), bound=4)
    assert not says(MISSING_CALLS, agent_limits(model_calls=2), bound=3)


@by_each_checker
def test_invalid_identifiers_stay_distinct(says: Says) -> None:
    assert says(AWKWARD, Limits())
    assert not says(AWKWARD, Limits(), bound=len(AWKWARD.nodes) - 1)


@by_each_checker
@by_many_runs
@given(flow=flows(), given_limits=limits())
def test_external_checkers_agree_with_exhaustive_walk(says: Says, flow: Flow, given_limits: Limits) -> None:
    bound = longest_run(flow, given_limits)
    assert says(flow, given_limits) == (bound is not None)
    if bound is not None:
        assert says(flow, given_limits, bound=bound)
        assert not says(flow, given_limits, bound=bound - 1)


@given(flow=flows(), given_limits=limits())
def test_prover_agrees_with_exhaustive_walk(flow: Flow, given_limits: Limits) -> None:
    caps = caps_of(flow, given_limits)
    transitions = [each for each in flow.transitions if is_enabled(each, limits_of(flow, given_limits))]
    ranks = rank_nodes(flow.nodes, transitions, [name for name, cap in caps.items() if cap is not None])
    if not isinstance(ranks, list):
        bound = bounds_of(flow, transitions, given_limits).transitions
        assert bound.number == longest_run(flow, given_limits)
        return
    for core in ranks:
        for finding in find_loops(flow, core, given_limits):
            # One without a run that shows it says that nothing is known.
            if finding.witness is not None:
                assert longest_run(flow, finding.witness.limits) is None


def test_prover_bound_includes_optional_calls() -> None:
    given = agent_limits(model_calls=2)
    assert bounds_of(MISSING_CALLS, MISSING_CALLS.transitions, given).transitions.number == 4


@given(st.lists(st.text(st.characters(categories=["L", "N", "P"]), max_size=3) | st.text("a_2.", max_size=4)))
def test_no_two_names_become_one_identifier(names: list[str]) -> None:
    made = make_identifiers("at_", names)
    assert len({*made}) == len(names)
    assert all(name.isascii() and name.isidentifier() and name.startswith("at_") for name in made)


def test_promela_counts_one_step_beyond_the_bound() -> None:
    text = promela(EXECUTOR, Limits(iterations=1), bound=6)
    assert "steps = (steps > 6 -> steps : steps + 1); assert(steps <= 6)" in text
    # A step is taken while the limit is not used up, and the limit's own when it is.
    assert ":: atomic { left_iterations >= 1 -> left_iterations = left_iterations - 1; step(); goto at_parse }" in text
    assert ":: atomic { (left_iterations == 0) -> step(); goto at_stopped_response }" in text
    assert "steps" not in promela(EXECUTOR, Limits(iterations=1)).partition("*/")[2]


def test_transition_beyond_its_limit_is_left_out() -> None:
    assert "goto at_parse }" not in promela(EXECUTOR, Limits(iterations=0))


def test_promela_of_a_stuck_node_blocks() -> None:
    assert "false;  /* no transition */" in promela(BAD["no way on"], Limits())


def test_tla_counts_one_step_beyond_the_bound() -> None:
    text = tla(EXECUTOR, Limits(iterations=1), bound=6)
    assert "steps' = IF steps > 6 THEN steps ELSE steps + 1" in text
    assert text.endswith("WithinBound == steps <= 6\n====\n")
    assert tla_config(bound=6) == "SPECIFICATION Spec\nINVARIANT WithinBound\n"
    assert "steps" not in tla(EXECUTOR, Limits(iterations=1)).partition("EXTENDS")[2]


def test_too_large_counts_are_refused() -> None:
    with pytest.raises(LimitsError, match="the limit iterations is 4294967296, which is too large for model checkers"):
        promela(EXECUTOR, Limits(iterations=2**32))
    with pytest.raises(LimitsError, match="the bound is -1"):
        tla(EXECUTOR, Limits(), bound=-1)
    with pytest.raises(InputError, match="would end the comment"):
        promela(EXECUTOR, Limits(), file="a*/b.pml")
    with pytest.raises(InputError, match="'a b' is not a name of a TLA"):
        tla(EXECUTOR, Limits(), name="a b")
