"""The numbers of certificates: proved by potentials, in polynomial time, and refused where they were changed."""

import dataclasses
import itertools
import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphexec import END, Limits, Machine, effects, errors, verify
from graphexec.executor import AGENT_EXECUTOR, agent_graph
from graphexec.kernel.meters import Meter
from graphexec.verify.checker.check import check_ranks
from graphexec.verify.proof.certificate import Bound, Certificate, Potential
from graphexec.verify.proof.flow import Flow, Transition, flow_of
from tests.checks.random_graphs import DrawnEdge, DrawnGraph, DrawnNode
from tests.checks.strategies import drawn_graphs
from tests.parameters import cases, examples
from tests.verify.flows import end, flow_with, way, within
from tests.verify.proofs import certificate_of, prove, refuse, require, with_bound
from tests.verify.test_random_machines import FREELY, machine, red, some_limits

FEW = effects.agent_limits(iterations=3, tool_calls=2, seconds=9, restarts=1, fan_out=2)


AGENT = certificate_of(AGENT_EXECUTOR, FEW)


@cases("number", 3, 10**6, 10**5000, float("nan"), float("inf"), 14.0, -1, True, None, "14")
@cases("name", "transitions", "model_calls", "tool_calls")
def test_forged_number_is_refused(name: str, number: Any) -> None:
    if number is None and name != "transitions":
        # No claim, so no fault.
        verify.check(with_bound(AGENT, name, number=None, form=None, value=None), AGENT_EXECUTOR)
    else:
        forged = with_bound(AGENT, name, number=number)
        refuse(forged, f"the bound on {name.replace('_', ' ')} is not proved", AGENT_EXECUTOR)


@cases("number", 3, float("nan"), -1, True, "9.05")
def test_forged_seconds_are_refused(number: Any) -> None:
    refuse(with_bound(AGENT, "seconds", number=number), r"a run can take 9\.05 seconds", AGENT_EXECUTOR)


@cases("form", "3*iterations", "4*iterations + 1", "14*budget", "fan_out", "1 - 2*iterations")
def test_a_form_without_its_value_is_refused(form: str) -> None:
    refuse(with_bound(AGENT, "transitions", form=form), "closed form", AGENT_EXECUTOR)


@pytest.mark.medium
@settings(FREELY, max_examples=examples(40))
@given(drawn=drawn_graphs(), limits=some_limits(), data=st.data())
def test_lowered_potential_is_refused(drawn: DrawnGraph, limits: Limits, data: st.DataObject) -> None:
    """Of random machines: at a node that is reached, by a node that is left out, or in a state."""
    graph = drawn.graph
    assume(graph.verify(limits).certificate is not None)
    certificate = certificate_of(graph, limits)
    potential = require(certificate.bounds.transitions.potential)
    start = certificate.flow.start
    if potential.states:
        highest = max(value for node, _, value in potential.states if node == start)
        lower = tuple(
            (node, left, value - (node == start and value == highest)) for node, left, value in potential.states
        )
        altered = dataclasses.replace(potential, states=lower)
    else:
        base, slopes = potential.lines[start]
        change = data.draw(st.sampled_from(["base", "gone"]))
        lines = dict(potential.lines) | {start: (base - 1, slopes)}
        if change == "gone":
            del lines[start]
        altered = Potential(lines, potential.limits)
    with pytest.raises(errors.CertificateError):
        verify.check(with_bound(certificate, "transitions", potential=altered), graph)


def test_every_part_of_a_potential_counts() -> None:
    """The number follows the potential down; then it is the potential that proves nothing."""
    certificate = certificate_of(AGENT_EXECUTOR, Limits(iterations=3))
    potential = require(certificate.bounds.transitions.potential)
    for node, (base, slopes) in potential.lines.items():
        for lower in ((base - 1, slopes), (base, tuple((name, slope - 1) for name, slope in slopes))):
            altered = Potential({**potential.lines, node: lower})
            if altered == potential:
                continue
            start_base, start_slopes = altered.lines["plan"]
            changes = {"number": start_base + sum(slope * 3 for _, slope in start_slopes), "form": None, "value": None}
            forged = with_bound(certificate, "transitions", potential=altered, **changes)
            refuse(forged, "is not proved", AGENT_EXECUTOR)


@cases("limit", ("model_calls", 0), ("tool_calls", 1), ("iterations", 1))
def test_reserved_calls_are_beside_the_limit(limit: tuple[str, int]) -> None:
    certificate = certificate_of(agent_graph(generate=True), effects.agent_limits(model_calls=2))
    bound = certificate.bounds.model_calls
    assert bound.potential is not None
    assert (bound.number, bound.potential.limits) == (3, (("model_calls", 1),))
    forged = with_bound(certificate, "model_calls", potential=dataclasses.replace(bound.potential, limits=(limit,)))
    refuse(forged, "the bound on model calls is not proved", agent_graph(generate=True))


COINS = ((("coins", 1),),)


def nested(count: int, limit: int) -> Flow:
    """So many loops within one another; each goes round `limit` times each time that it is entered."""
    nodes = [f"n{number}" for number in range(count)]
    ways: list[Transition] = []
    for number, (node, inner) in enumerate(itertools.zip_longest(nodes, nodes[1:])):
        outer = nodes[number - 1] if number else END.name
        spends = ((f"b{number}", 1),)
        resets = (f"b{number + 1}",) if inner else ()
        ways += [
            Transition(node, "In", inner or node, spends=spends, resets=resets),
            Transition(node, "Out", outer, spends=spends),
            Transition(node, "Spent", outer, "gate", causes=(f"b{number}",)),
        ]
    return Flow("n0", tuple(nodes), tuple(ways), tuple((f"b{number}", limit) for number in range(count)))


def rounds(count: int, limit: int) -> int:
    """The longest run of `nested`."""
    return 0 if not count else 1 + limit * (1 + rounds(count - 1, limit))


@cases("count", 1, 2, 3, 7, 60)
def test_nested_resets_are_bounded(count: int) -> None:
    bound = prove(nested(count, 3), Limits(iterations=None)).bounds.transitions
    assert (bound.number, bound.exact) == (rounds(count, 3), count < 7)


@cases("fan_out", None, 3)
def test_nodes_that_no_run_reaches_count_nothing(fan_out: int | None) -> None:
    """Their calls are neither unbounded nor made again after crashes."""
    ways = [end(node, most=None, effect_charges=COINS) for node in ("b", "c")]
    bounds = prove(flow_with(end("a"), *ways), Limits(fan_out=fan_out, restarts=2)).bounds
    assert bounds.transitions.number == 1
    assert bounds.meters["coins"].number in (None, 0)


@cases("fan_out", 1, 2)
def test_visit_beyond_fan_out_counts_nothing(fan_out: int) -> None:
    """Two effects are asked for before the second transition."""
    asking: Any = {"most": None, "effect_charges": COINS}
    flow = flow_with(way("a", "b", asks=2, **asking), within("a", "fan_out", **asking), end("b"))
    assert prove(flow, Limits(fan_out=fan_out)).bounds.transitions.number == fan_out


def test_certificate_keeps_how_it_proves() -> None:
    again = Certificate.from_json(AGENT.to_json())
    for one, other in zip(AGENT.bounds.rows(), again.bounds.rows(), strict=True):
        assert (one, one[1].potential) == (other, other[1].potential)
    data = json.loads(certificate_of(AGENT_EXECUTOR, Limits(iterations=3)).to_json())
    assert data["bounds"]["transitions"]["potential"]["lines"]["plan"] == [2, [["iterations", 4]]]
    assert Bound("1", 1).potential is None
    bound = certificate_of(AGENT_EXECUTOR, Limits(iterations=10_000)).bounds.transitions
    assert str(bound) == "4*iterations + 2 = 40,002 (exact)"


# ---- proofs that hold for low limits alone


def low() -> tuple[DrawnGraph, Limits]:
    """Its second node is entered once for each iteration, and so is never without alpha, of which it has two."""
    back = DrawnNode((DrawnEdge("Blue", None), DrawnEdge("Red", 0)), meters=("alpha",), spent=1)
    return machine(DrawnNode((DrawnEdge("Blue", 1),), meters=("iterations",)), back), Limits(iterations=1)


def test_proof_by_states_needs_every_state() -> None:
    drawn, limits = low()
    certificate = certificate_of(drawn.graph, limits)
    assert (certificate.ranks, str(certificate.bounds.transitions)) == (None, "3 (exact)")
    assert drawn.graph.verify(Limits(iterations=3)).status == "refuted"
    potential = require(certificate.bounds.transitions.potential)
    forged = [Potential(dict.fromkeys(certificate.flow.nodes, (3, ())))]
    for place in range(len(potential.states)):
        states = potential.states[:place] + potential.states[place + 1 :]
        forged.append(dataclasses.replace(potential, states=states))
    for one in forged:
        with pytest.raises(errors.CertificateError, match="there are no ranks, and"):
            check_ranks(with_bound(certificate, "transitions", potential=one))


def alpha(**options: Any) -> Machine[Any, Any]:
    """Return a machine of one node, which is metered by alpha."""
    return machine(red(meters=("alpha",), **options)).graph


def test_uncounted_cause_may_open_gate() -> None:
    """A potential that counted no budget hid the loop of a spent one."""
    endless = alpha(spent=0)
    hidden = Potential({}, (), (), (("n0", (), 1),))
    proof = certificate_of(alpha(), Limits({Meter("alpha"): 1}))
    forged = dataclasses.replace(proof, flow=flow_of(endless), ranks=None)
    assert endless.verify(Limits({Meter("alpha"): 0})).status == "refuted"
    with pytest.raises(errors.CertificateError, match="n0 --Spent--> n0 counts more than the potential falls"):
        check_ranks(with_bound(forged, "transitions", potential=hidden, number=1, value=None, form=None))


def test_long_limits_are_written() -> None:
    """Python writes no integer of more than 4,300 digits."""
    many = 10**5000
    certificate = certificate_of(AGENT_EXECUTOR, effects.agent_limits(iterations=many, model_calls=many, fan_out=many))
    assert "'iterations': 1.0e+5000" in repr(certificate)
    assert "number=" in repr(certificate.bounds.transitions)
    assert repr(Meter("alpha", many)) == "Meter('alpha', 1.0e+5000)"
    assert alpha().verify(Limits({Meter("alpha"): many})).proved
