"""Two model checkers that know nothing of the prover come to its verdict and to its bound."""

import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from graphexec import effects, executor
from graphexec.errors import InputError, LimitsError
from graphexec.kernel import Graph, Limits
from graphexec.verify import verify
from graphexec.verify.export.guarded import make_identifiers
from graphexec.verify.export.promela import promela
from graphexec.verify.export.tla import tla, tla_config
from graphexec.verify.proof.bounds import bounds_of
from graphexec.verify.proof.flow import Flow, caps_of, flow_of, is_enabled, limits_of
from graphexec.verify.proof.loops import find_loops
from graphexec.verify.proof.ranking import rank_nodes
from tests.parameters import examples
from tests.verify.checkers import spin, tlc
from tests.verify.flows import AWKWARD, BAD, MISSING_CALLS, SPINNING, flows, limits, longest_run

DIAGRAMS = Path(__file__).parents[2] / "diagrams" / "generate.py"
EXECUTOR = flow_of(executor.AGENT_EXECUTOR)


def steps_proved(machine: Graph[Any, Any], limits: Limits) -> int | None:
    """The most transitions of a run of the machine, if it is proved to end."""
    bounds = verify(machine, limits).bounds
    number = None if bounds is None else bounds.transitions.number
    return None if number is None else int(number)


class Spin:
    """SPIN, which searches for a run without an end, or for one of more steps than a bound."""

    def ends(self, flow: Flow, limits: Limits) -> bool:
        """Return whether every run ends."""
        return spin(promela(flow, limits))

    def takes(self, flow: Flow, limits: Limits, steps: int) -> bool:
        """Return whether the longest run takes as many steps."""
        within, fewer = (spin(promela(flow, limits, bound=bound)) for bound in (steps, steps - 1))
        return within and not fewer


class TLC:
    """TLC, which does the same, and says how deep its search was."""

    def ends(self, flow: Flow, limits: Limits) -> bool:
        """Return whether every run ends."""
        return tlc(tla(flow, limits), tla_config()).holds

    def takes(self, flow: Flow, limits: Limits, steps: int) -> bool:
        """Return whether the longest run takes as many steps."""
        found = tlc(tla(flow, limits, bound=steps), tla_config(bound=steps))
        # A state counts the steps to it, so that it is as deep as it has steps.
        return found.holds and found.depth == steps + 1


Checker: TypeAlias = Spin | TLC

slow, full = pytest.mark.slow, pytest.mark.full
by_each_checker = pytest.mark.parametrize(
    "checker", [pytest.param(Spin(), marks=slow), pytest.param(TLC(), marks=[slow, full])], ids=["spin", "tlc"]
)
# A second for each run of Java; what fails is small as it is, and not made smaller.
by_many_runs = settings(max_examples=examples(25), phases=(Phase.explicit, Phase.reuse, Phase.generate))
# The limits of the examples' machines, and how many of them the quick gate has.
GIVEN = [Limits(), Limits(iterations=None), effects.agent_limits(iterations=None, model_calls=2, seconds=9.0)]
DOZEN = 12


@by_each_checker
def test_executor_runs_end_unless_unlimited(checker: Checker) -> None:
    assert checker.ends(EXECUTOR, Limits())
    assert not checker.ends(EXECUTOR, Limits(iterations=None))


@by_each_checker
@pytest.mark.parametrize("iterations", [0, 1, 3, 15])
def test_executor_bound_is_tight(checker: Checker, iterations: int) -> None:
    given = Limits(iterations=iterations)
    bound = 4 * iterations + 2
    assert steps_proved(executor.AGENT_EXECUTOR, given) == bound
    assert checker.takes(EXECUTOR, given, bound)


@by_each_checker
@pytest.mark.parametrize("given", GIVEN, ids=repr)
@pytest.mark.parametrize("part", [slice(DOZEN), pytest.param(slice(DOZEN, None), marks=full)], ids=["dozen", "others"])
def test_external_checkers_agree_with_prover(checker: Checker, given: Limits, part: slice) -> None:
    machines: Iterable[tuple[str, Graph[Any, Any]]] = runpy.run_path(str(DIAGRAMS))["machines"]()
    # Several examples have the same table.
    different = {flow_of(machine): machine for _, machine in machines}
    for flow, machine in list(different.items())[part]:
        bound = steps_proved(machine, given)
        assert checker.ends(flow, given) == (bound is not None)
        if bound is not None:
            assert checker.takes(flow, given, bound)


@by_each_checker
@pytest.mark.parametrize("flow", BAD.values(), ids=BAD.keys())
def test_bad_flow_has_endless_run(checker: Checker, flow: Flow) -> None:
    assert not checker.ends(flow, Limits(iterations=3))


@slow
@full
def test_loop_that_changes_nothing_is_found() -> None:
    assert not TLC().ends(SPINNING, Limits())


@by_each_checker
def test_steps_behind_calls_and_awkward_names_are_counted(checker: Checker) -> None:
    # A later visit may lack calls.
    assert checker.takes(MISSING_CALLS, effects.agent_limits(model_calls=2), 4)
    assert checker.ends(AWKWARD, Limits())
    assert checker.takes(AWKWARD, Limits(), len(AWKWARD.nodes))


@by_each_checker
@by_many_runs
@given(flow=flows(), given_limits=limits())
def test_external_checkers_agree_with_exhaustive_walk(checker: Checker, flow: Flow, given_limits: Limits) -> None:
    bound = longest_run(flow, given_limits)
    assert checker.ends(flow, given_limits) == (bound is not None)
    if bound is not None:
        assert checker.takes(flow, given_limits, bound)


@given(flow=flows(), given_limits=limits())
def test_prover_agrees_with_exhaustive_walk(flow: Flow, given_limits: Limits) -> None:
    known = limits_of(flow, given_limits)
    transitions = [each for each in flow.transitions if is_enabled(each, known)]
    ranks = rank_nodes(flow.nodes, transitions, [name for name, cap in caps_of(flow, known).items() if cap is not None])
    if not isinstance(ranks, list):
        bound = bounds_of(flow, transitions, known).transitions
        assert bound.number == longest_run(flow, given_limits)
        return
    for core in ranks:
        for finding in find_loops(flow, core, given_limits):
            # One without a run that shows it says that nothing is known.
            if finding.witness is not None:
                assert longest_run(flow, finding.witness.limits) is None


def test_prover_bound_includes_optional_calls() -> None:
    given = limits_of(MISSING_CALLS, effects.agent_limits(model_calls=2))
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


def test_promela_of_special_nodes() -> None:
    # A transition beyond its limit is left out, and a stuck node blocks.
    assert "goto at_parse }" not in promela(EXECUTOR, Limits(iterations=0))
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
