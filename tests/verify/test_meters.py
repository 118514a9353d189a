"""Machines whose effects charge other meters than model and tool calls: how they are proved, and reported."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import errors
from graphexec.kernel import Meter, node
from graphexec.testing.explorer.explore import explore
from graphexec.testing.explorer.oracle import replies_of
from graphexec.testing.explorer.stub_nodes import explore_table
from graphexec.verify import Bound, Bounds, verify
from graphexec.verify.proof.flow import Flow, Transition, flow_of
from graphexec.verify.reports.document import bounds_data, limits_data
from graphexec.verify.reports.text import bound_lines
from tests.checks.random_graphs import METERS, DrawnGraph, errand_class
from tests.checks.strategies import drawn_graphs
from tests.kernel.machines import error_message, machine_of, stub, value
from tests.parameters import cases
from tests.verify import orders
from tests.verify.orders import FIVE, ORDERS, PARCELS, PAYMENTS, WEIGHT, Cancelled, Delivered, Order
from tests.verify.proofs import bounds_of, certificate_of, meters_of, prove, require

# ---- proofs


def test_a_limited_meter_proves_that_runs_end() -> None:
    assert certificate_of(ORDERS, FIVE)
    assert str(ORDERS.verify(FIVE)).partition("\n  assuming: ")[0] == (
        "PROVED\n  transitions: payments + 1 = 6 (exact)\n  parcels: 2 (at most)\n"
        "  payments: payments = 5 (at most)\n  seconds: no bound"
    )
    found = explore_table(ORDERS, FIVE)
    assert (found.longest, found.charges) == (6, {"parcels": 2, "payments": 5})
    assert "at most 6 transitions, 2 parcels, 5 payments" in str(found)
    assert verify(ORDERS, gx.Limits()).why == (
        "GX016 at pay: the table alone does not end this loop: pay --Refused--> pay; it spends only payments, "
        "without a limit. Set a limit on payments: Limits({PAYMENTS: 5})."
    )
    # A charge above the amount that is left is refused.
    limits = gx.Limits({PAYMENTS: 2, PARCELS: 1})
    assert certificate_of(ORDERS, limits)
    found = explore_table(ORDERS, limits)
    assert (found.charges, set(found.endings)) == ({"parcels": 0, "payments": 2}, {"Cancelled"})


def test_limit_on_one_meter_bounds_others() -> None:
    flow = flow_of(ORDERS)
    assert flow.charged == ("parcels", "payments")
    # For each parcel there is a payment, and not the other way round.
    assert flow.factors("parcels") == {"parcels": 1, "payments": 2}
    assert flow.factors("payments") == {"payments": 1}
    # A measured meter is compared, and not bounded.
    ways = {(one.source, one.kind): one for one in flow.transitions}
    assert ways["ship", "within"].causes == ("parcels", "payments", "weight", "seconds", "restarts")
    assert ways["ship", "within"].effect_charges == ((("parcels", 2), ("payments", 1), ("weight", 0)),)
    assert list(meters_of(ORDERS, gx.Limits({PAYMENTS: 2, WEIGHT: 1.5}))) == ["parcels", "payments"]


def test_fan_out_or_meter_limits_effects() -> None:
    loose: Any = gx.node(when_spent=Cancelled)(dataclasses.replace(orders.pay, most=None, least=0))
    machine = orders.paying(loose)
    (finding,) = verify(machine, gx.Limits(fan_out=None)).findings
    assert finding.code == "GX013"
    assert finding.remedy == (
        "set Limits(fan_out=5) or Limits({PAYMENTS: 5}), or declare asks= in its @node: a number, or (minimum, maximum)"
    )
    assert verify(machine, dataclasses.replace(FIVE, fan_out=None)).findings == ()
    assert meters_of(machine)["payments"] == "fan_out = 1,000 (exact)"
    assert meters_of(machine, gx.Limits(fan_out=3))["payments"] == "fan_out = 3 (exact)"


@value
class Scan(gx.Effect[int]):
    """The reply reports the number of pages."""

    measures: ClassVar[tuple[Meter, ...]] = (Meter("pages"),)

    def measure(self, reply: int) -> tuple[int]:
        return (reply,)


@cases("pages", 0, 1, None)
def test_measured_meter_stops_visit_when_used_up(pages: int | None) -> None:
    scanning: Any = dataclasses.replace(orders.pay, effects=(Scan,))
    machine, limits = orders.paying(scanning, scanning), gx.Limits({Meter("pages"): pages}, restarts=0)
    # There may be no pages.
    assert verify(machine, limits).status == ("unproved" if pages == 0 else "refuted")
    assert (explore_table(machine, limits).endless is None) == (pages == 0)
    bounds = bounds_of(orders.paying(scanning), limits)
    assert (bounds.meters, bounds.transitions.exact) == ({}, True)


def test_unreachable_charge_is_zero() -> None:
    flow = flow_of(orders.paying(orders.pay))
    flow = dataclasses.replace(flow, transitions=tuple(one for one in flow.transitions if one.outcome == "Cancelled"))
    assert flow.bounded == ("payments",)
    assert str(prove(flow).bounds.meters["payments"]) == "0 (exact)"


@cases("seconds", None, 5)
def test_reserved_visit_may_ask_for_nothing(seconds: int | None) -> None:
    unreserved: Any = dataclasses.replace(orders.pay, when_spent=None, spent_outcome=None)
    machine = orders.paying(node(when_spent=Cancelled, asks=0, grace=10.0)(unreserved))
    assert str(bounds_of(machine, gx.Limits(seconds=seconds)).transitions) == "1 (exact)"


# ---- what is counted twice


class Refund(gx.Effect[bool]):
    measures: ClassVar[tuple[Meter, ...]] = (Meter("payments", whole=False),)

    def measure(self, reply: bool) -> tuple[float]:
        return (1.5,)


METERED: Any = gx.node(when_spent=Cancelled, meters=[gx.Meter("payments", 3)])(orders.pay)
TWICE: Any = gx.node(when_spent=Cancelled, meters=[PAYMENTS])(orders.pay)
REFUND: Any = dataclasses.replace(orders.pay, name="refund", effects=(Refund,))


@cases(
    ("build", "fault"),
    (
        lambda: orders.paying(METERED),
        "pay counts Meter('payments'), but there is also Meter('payments', 3); use one Meter for both",
    ),
    (
        lambda: orders.paying(TWICE),
        "pay asks for effects that charge payments, which entries into nodes cost, too; use one Meter for each",
    ),
    (
        lambda: gx.graph(orders.rows_of(orders.pay, REFUND) | orders.rows_of(REFUND), start=orders.pay),
        "refund counts Meter('payments', whole=False), but there is also Meter('payments'); use one Meter for both",
    ),
)
def test_names_counted_twice_are_refused(build: Callable[[], object], fault: str) -> None:
    with pytest.raises(errors.GraphError) as caught:
        build()
    assert str(caught.value.faults[0]).startswith(fault)


go_round = stub("go_round", Order, Order | Delivered)
ROUNDS: gx.Graph[Any, Any] = machine_of(gx.node(when_spent=Cancelled, meters=[gx.Meter("rounds", 3)])(go_round))
PAGES = Meter("pages", 2)


class Print(gx.Effect[bool]):
    charges: ClassVar[Mapping[Meter, int]] = {PAGES: 1}


def test_meter_of_effects_has_a_limit_of_its_own() -> None:
    print_all = stub("print_all", Order, Order | Delivered, asks=Print)
    machine: gx.Graph[Any, Any] = machine_of(gx.node(when_spent=Cancelled, asks=1)(print_all))
    assert bounds_of(machine).meters["pages"].number == 2
    assert not verify(machine, gx.Limits({PAGES: None})).proved


def test_limits_override_the_limit_of_a_meter() -> None:
    for limits, number in ((gx.Limits(), 4), (gx.Limits({Meter("rounds"): 2}), 3)):
        assert bounds_of(ROUNDS, limits).transitions.number == number
    halves = gx.Limits({Meter("rounds", whole=False): 2.5})
    text = "the limit rounds is 2.5, and rounds counts whole numbers; give one of these"
    assert error_message(errors.LimitsError, verify, ROUNDS, halves) == text


# ---- reports


def test_bounds_and_limits_are_reported_by_meter() -> None:
    bounds = bounds_of(ORDERS, FIVE)
    data = bounds_data(bounds)
    assert data["meters"]["payments"] == {"form": "payments", "number": 5, "exact": False, "assuming": None}
    assert data["model_calls"] == {"form": "0", "number": 0, "exact": True, "assuming": None}
    assert limits_data(FIVE)["payments"] == 5
    assert bound_lines(bounds) == [
        "  transitions  payments + 1 = 6 (exact)",
        "  parcels      2 (at most)",
        "  payments     payments = 5 (at most)",
        "  seconds      no bound; set max_execution_time, or Limits(seconds=30)",
    ]
    unknown = Bounds(bounds.transitions, {"payments": Bound(None, None)}, bounds.seconds)
    assert bound_lines(unknown)[1] == "  payments     no bound; set Limits({PAYMENTS: 5}) or Limits(fan_out=5)"


# ---- certificates


def test_charges_of_effects_are_in_certificate_and_digest() -> None:
    certificate = certificate_of(ORDERS, FIVE)
    data = json.loads(certificate.to_json())
    assert data["graphexec_certificate"] == 3
    assert data["flow"]["transitions"][0]["effect_charges"] == [[["payments", 1]]]
    assert (certificate.limits["payments"], certificate.limits["parcels"]) == (5, None)
    one = Transition("a", "A", "END", asks=1, most=1, effect_charges=((("gold", 2),),))
    flow = Flow("a", ("a",), (one,))
    measured = dataclasses.replace(flow, measured=("gold",))
    assert (flow.charged, flow.bounded) == (("gold",), ("gold",))
    assert (measured.charged, measured.bounded) == (("gold",), ())
    assert measured.digest != flow.digest


# ---- the nodes as they are


@st.composite
def meter_limits(draw: st.DrawFn) -> gx.Limits:
    """Limits on the meters of random machines, and few iterations."""
    few = st.sampled_from([None, 0, 1, 2, 4, 7])
    return gx.Limits({meter: draw(few) for meter in METERS}, iterations=draw(st.sampled_from([0, 1, 2, None])))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(drawn=drawn_graphs(most=3), limits=meter_limits(), choices=st.lists(st.integers(0, 5), max_size=3))
def test_proofs_of_random_machines_hold_for_every_run(drawn: DrawnGraph, limits: gx.Limits, choices: list[int]) -> None:
    """The nodes run as they are, on the real engine, with any reports of their effects."""
    verdict = verify(drawn.graph, limits)
    event(verdict.status)
    nodes = [one for outer in drawn.nodes for one in (outer, *outer.inner)]
    errands = {kind for one in nodes for kind in map(errand_class, one.errands)}
    replies: dict[type[gx.Effect[Any]], Sequence[object]] = dict.fromkeys(errands, (0, 3))
    if verdict.certificate is None or any(one.asks == "models" for one in nodes):
        return
    bounds = verdict.certificate.bounds
    found = explore(drawn.graph, limits, drawn.value(choices), replies_of(drawn.graph, replies))
    assert found.endless is None
    charges = require(found.charges)
    assert require(found.longest) <= (bounds.transitions.number or 0)
    assert charges.keys() == bounds.meters.keys()
    for name, bound in bounds.meters.items():
        assert bound.number is None or charges[name] <= bound.number, name
