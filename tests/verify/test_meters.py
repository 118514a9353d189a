"""Machines whose effects charge other meters than model and tool calls: how they are proved, and reported."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, final

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec.draw import Recorder
from graphexec.effects import agent_limits
from graphexec.errors import GraphError, LimitsError
from graphexec.kernel import Meter, Node, advance, begin, reserved
from graphexec.runtime import make_run_context, stream
from graphexec.testing.random_graphs import METERS, DrawnGraph, errand_class
from graphexec.testing.strategies import drawn_graphs
from graphexec.verify import Bound, Bounds, Certificate, Verdict, check, verify
from graphexec.verify.audit.audit import audit
from graphexec.verify.difference import diff
from graphexec.verify.explorer.explore import explore
from graphexec.verify.explorer.failure import as_test
from graphexec.verify.explorer.oracle import replies_of
from graphexec.verify.explorer.stepping import Choice
from graphexec.verify.explorer.stub_nodes import explore_table
from graphexec.verify.explorer.temporal import asked, never
from graphexec.verify.proof.flow import Flow, Transition, flow_of
from graphexec.verify.proof.prove import prove_flow
from graphexec.verify.reports.document import bounds_data, limits_data
from graphexec.verify.reports.text import bound_lines
from tests.parameters import cases
from tests.traces import read_trace
from tests.verify.machines import GOLD, SILVER, Buy, Weigh
from tests.verify.orders import (
    FIVE,
    ORDERS,
    PARCELS,
    PAYMENTS,
    WEIGHT,
    Cancelled,
    Delivered,
    Order,
    Paid,
    Pay,
    Refused,
    Ship,
    pay,
)


def certified(machine: gx.Graph[Any, Any], limits: gx.Limits) -> Verdict:
    """The verdict on a machine that is proved to end, with its certificate checked."""
    verdict = verify(machine, limits)
    assert verdict.certificate is not None, verdict
    check(Certificate.from_json(verdict.certificate.to_json()), machine)
    return verdict


# ---- proofs


def test_a_limited_meter_proves_that_runs_end() -> None:
    verdict = certified(ORDERS, FIVE)
    assert str(verdict).partition("\n  assuming: ")[0] == (
        "PROVED\n  transitions: payments + 1 = 6 (exact)\n  parcels: 2 (at most)\n"
        "  payments: payments = 5 (at most)\n  seconds: no bound"
    )
    found = explore_table(ORDERS, FIVE)
    assert (found.longest, found.charges) == (6, {"parcels": 2, "payments": 5})
    assert "at most 6 transitions, 2 parcels and 5 payments" in str(found)


def test_remedy_names_meter_to_limit() -> None:
    assert verify(ORDERS, gx.Limits()).why == (
        "GX016 at pay: this loop can run forever: pay --Refused--> pay; it spends only payments, without a limit. Set "
        "a limit on payments: Limits({PAYMENTS: 5})."
    )


def test_limit_on_jointly_charged_meter_bounds_meter() -> None:
    flow = flow_of(ORDERS)
    assert flow.charged == ("parcels", "payments")
    # For each parcel there is a payment, and not the other way round.
    assert flow.factors("parcels") == {"parcels": 1, "payments": 2}
    assert flow.factors("payments") == {"payments": 1}


def test_charge_above_remaining_amount_is_refused() -> None:
    assert certified(ORDERS, gx.Limits({PAYMENTS: 2, PARCELS: 1})).bounds is not None
    found = explore_table(ORDERS, gx.Limits({PAYMENTS: 2, PARCELS: 1}))
    assert found.charges == {"parcels": 0, "payments": 2}
    assert set(found.endings) == {"Cancelled"}


def test_a_measured_meter_is_compared_and_not_bounded() -> None:
    ways = {(one.source, one.kind): one for one in flow_of(ORDERS).transitions}
    assert ways["ship", "within"].causes == ("parcels", "payments", "weight", "seconds", "restarts")
    assert ways["ship", "within"].effect_charges == ((("parcels", 2), ("payments", 1), ("weight", 0)),)
    bounds = certified(ORDERS, gx.Limits({PAYMENTS: 2, WEIGHT: 1.5})).bounds
    assert bounds is not None
    assert list(bounds.meters) == ["parcels", "payments"]


def test_fan_out_or_meter_limits_effects() -> None:
    loose: Any = gx.charged(when_spent=Cancelled)(dataclasses.replace(pay, most=None, least=0))
    row: Any = gx.edges(loose, gx.on(Paid, gx.END) | gx.on(Refused, gx.END) | gx.on(Cancelled, gx.END))
    machine: gx.Graph[Any, Any] = gx.graph(row, start=loose)
    verdict = verify(machine, gx.Limits(fan_out=None))
    assert [finding.code for finding in verdict.findings] == ["GX013"]
    assert verdict.findings[0].remedy == (
        "set Limits(fan_out=5) or Limits({PAYMENTS: 5}), or declare asks= in its @charged or @metered: a number, or "
        "(minimum, maximum)"
    )
    assert verify(machine, dataclasses.replace(FIVE, fan_out=None)).findings == ()
    assert str(certified(machine, gx.Limits()).bounds.meters["payments"]) == "fan_out = 1,000 (exact)"  # type: ignore[union-attr]
    assert str(certified(machine, gx.Limits(fan_out=3)).bounds.meters["payments"]) == "fan_out = 3 (exact)"  # type: ignore[union-attr]


@final
@dataclass(frozen=True)
class Scan(gx.Effect[int]):
    """The reply reports the number of pages."""

    measures: ClassVar[tuple[Meter, ...]] = (Meter("pages"),)

    def measure(self, reply: int) -> tuple[int]:
        return (reply,)


@cases("pages", [0, 1, None])
def test_measured_meter_stops_visit_when_used_up(pages: int | None) -> None:
    scanning: Any = dataclasses.replace(pay, effects=(Scan,))
    row: Any = gx.edges(scanning, gx.on(Paid, gx.END) | gx.on(Refused, scanning) | gx.on(Cancelled, gx.END))
    machine: gx.Graph[Any, Any] = gx.graph(row, start=scanning)
    limits = gx.Limits({Meter("pages"): pages}, restarts=0)
    verdict = verify(machine, limits)
    found = explore_table(machine, limits)
    # There may be no pages.
    assert verdict.status == ("unproved" if pages == 0 else "refuted")
    assert (found.endless is None) == (pages == 0)
    once: Any = gx.edges(scanning, gx.on(Paid, gx.END) | gx.on(Refused, gx.END) | gx.on(Cancelled, gx.END))
    bounds = certified(gx.graph(once, start=scanning), limits).bounds
    assert bounds is not None
    assert bounds.meters == {}
    assert bounds.transitions.exact


def test_unreachable_charge_is_zero() -> None:
    lost: Any = gx.edges
    flow = flow_of(gx.draft(lost(pay, gx.on(Cancelled, gx.END)), start=pay))
    assert flow.bounded == ("payments",)
    certificate, _ = prove_flow(flow, gx.Limits())
    assert certificate is not None
    assert str(certificate.bounds.meters["payments"]) == "0 (exact)"


@cases("seconds", [None, 5])
def test_reserved_visit_may_ask_for_nothing(seconds: int | None) -> None:
    silent: Any = reserved(when_spent=Cancelled, asks=0)(dataclasses.replace(pay, when_spent=None, spent_outcome=None))
    row: Any = gx.edges(silent, gx.on(Paid, gx.END) | gx.on(Refused, gx.END) | gx.on(Cancelled, gx.END))
    bounds = certified(gx.graph(row, start=silent), gx.Limits(seconds=seconds)).bounds
    assert bounds is not None
    assert str(bounds.transitions) == "1 (exact)"


# ---- what is counted twice


def test_budget_and_meter_of_same_name_are_refused() -> None:
    both: Any = gx.metered(when_spent=Cancelled, budget=gx.Budget("payments", 3))(pay)
    row: Any = gx.edges(both, gx.on(Paid, gx.END) | gx.on(Refused, gx.END) | gx.on(Cancelled, gx.END))
    with pytest.raises(GraphError) as caught:
        gx.graph(row, start=both)
    assert str(caught.value.faults[0]) == (
        "pay asks for effects that charge the meter payments, but a budget has that name; rename one of them"
    )
    assert verify(gx.draft(row, start=both)).findings[0].code == "GX011"


def test_two_meters_of_same_name_are_refused() -> None:
    class Refund(gx.Effect[bool]):
        measures: ClassVar[tuple[Meter, ...]] = (Meter("payments", whole=False),)

        def measure(self, reply: bool) -> tuple[float]:
            return (1.5,)

    other = dataclasses.replace(pay, name="refund", effects=(Refund,))
    row: Any = gx.edges(pay, gx.on(Paid, gx.END) | gx.on(Refused, other) | gx.on(Cancelled, gx.END))
    row = row | gx.edges(other, gx.on(Paid, gx.END) | gx.on(Refused, gx.END) | gx.on(Cancelled, gx.END))
    with pytest.raises(GraphError, match="refund asks for effects that charge a second, different meter named "):
        gx.graph(row, start=pay)


def test_meter_limit_on_own_budget_is_refused() -> None:
    @gx.metered(when_spent=Cancelled, budget=gx.Budget("rounds", 3))
    @gx.node
    def go_round(order: Order) -> Order | Delivered:
        return order

    machine: gx.Graph[Any, Any] = gx.graph(
        gx.edges(go_round, gx.on(Order, go_round) | gx.on(Delivered, gx.END) | gx.on(Cancelled, gx.END)), start=go_round
    )
    limits = gx.Limits({Meter("rounds"): 2})
    for refuse in (lambda: verify(machine, limits), lambda: advance(machine, begin(machine, Order()), limits)):
        with pytest.raises(LimitsError) as caught:
            refuse()
        text = "rounds is a budget of the machine and not a meter; write Limits(budgets={'rounds': 2})"
        assert str(caught.value) == text


# ---- reports


def test_bounds_and_limits_are_reported_by_meter() -> None:
    verdict = certified(ORDERS, FIVE)
    assert verdict.bounds is not None
    data = bounds_data(verdict.bounds)
    assert data["meters"]["payments"] == {"form": "payments", "number": 5, "exact": False, "assuming": None}
    assert data["model_calls"] == {"form": "0", "number": 0, "exact": True, "assuming": None}
    assert limits_data(FIVE)["payments"] == 5
    assert bound_lines(verdict.bounds) == [
        "  transitions  payments + 1 = 6 (exact)",
        "  parcels      2 (at most)",
        "  payments     payments = 5 (at most)",
        "  seconds      no bound; set max_execution_time, or Limits(seconds=30)",
    ]
    unknown = Bounds(verdict.bounds.transitions, {"payments": Bound(None, None)}, verdict.bounds.seconds)
    assert bound_lines(unknown)[1] == "  payments     no bound; set Limits({PAYMENTS: 5}) or Limits(fan_out=5)"


def test_difference_names_limits_and_bounds_of_meters() -> None:
    changes = diff(ORDERS, ORDERS, gx.Limits({PAYMENTS: 6}), limits_before=FIVE)
    assert str(changes) == (
        "~ limit payments: was 5, now 6\n"
        "~ bound transitions: was payments + 1 = 6 (exact), now payments + 1 = 7 (exact)\n"
        "~ bound payments: was payments = 5 (at most), now payments = 6 (at most)"
    )
    other: Any = dataclasses.replace(pay, effects=(Ship,))
    row: Any = gx.edges(other, gx.on(Paid, gx.END) | gx.on(Refused, gx.END) | gx.on(Cancelled, gx.END))
    fewer: Any = gx.edges(pay, gx.on(Paid, gx.END) | gx.on(Refused, gx.END) | gx.on(Cancelled, gx.END))
    changes = diff(gx.graph(fewer, start=pay), gx.graph(row, start=other), gx.Limits())
    assert "~ bound parcels: was 0 (exact), now 2 (exact)" in str(changes).splitlines()
    changes = diff(ORDERS, ORDERS, FIVE, limits_before=gx.Limits())
    assert "~ limit payments: was none, now 5" in str(changes).splitlines()
    assert "~ bound payments: was no bound, now payments = 5 (at most)" in str(changes).splitlines()


@cases(
    ("limits", "written"),
    [
        (FIVE, "Limits({Meter('payments'): 5})"),
        (
            gx.Limits({PAYMENTS: 5, WEIGHT: 2}, iterations=3),
            "Limits({Meter('payments'): 5, Meter('weight', whole=False): 2.0}, iterations=3)",
        ),
    ],
)
def test_a_pasted_test_has_limits_on_meters(limits: gx.Limits, written: str) -> None:
    oracle = replies_of(ORDERS, {Pay: [True, False], Ship: [0.5]})
    found = explore(ORDERS, limits, Order(), oracle, properties=[never(asked(Ship))])
    text = as_test(found.failures[0], machine="from tests.verify.orders import ORDERS as machine")
    assert written in text
    assert "import Limits, Meter\n" in text
    assert found.failures[0].choices == (Choice("replies", "bool 1", True),)


@cases(
    ("limits", "written"),
    [
        (gx.Limits({PAYMENTS: 5}, seconds=9), "Limits({Meter('payments'): 5}, seconds=9)"),
        (agent_limits(model_calls=3, cost=1), "agent_limits(model_calls=3, cost=1.0)"),
        (gx.Limits(iterations=None), "Limits(iterations=None)"),
    ],
)
def test_failure_test_writes_all_kinds_of_limits(limits: gx.Limits, written: str) -> None:
    oracle = replies_of(ORDERS, {Pay: [True], Ship: [0.5]})
    (failure,) = explore(ORDERS, limits, Order(), oracle, properties=[never(asked(Ship))]).failures
    assert f" {written}, " in as_test(failure, machine="machine = ...")


# ---- certificates


def test_the_charges_of_effects_are_in_the_certificate() -> None:
    certificate = certified(ORDERS, FIVE).certificate
    assert certificate is not None
    data = json.loads(certificate.to_json())
    assert data["graphexec_certificate"] == 3
    assert data["flow"]["transitions"][0]["effect_charges"] == [[["payments", 1]]]
    assert certificate.limits["payments"] == 5
    assert certificate.limits["parcels"] is None


def test_flows_with_different_meters_have_different_digests() -> None:
    one = Transition("a", "A", "END", asks=1, most=1, effect_charges=((("gold", 2),),))
    flow = Flow("a", ("a",), (one,))
    assert (flow.charged, flow.bounded) == (("gold",), ("gold",))
    measured = dataclasses.replace(flow, measured=("gold",))
    assert (measured.charged, measured.bounded) == (("gold",), ())
    assert measured.digest != flow.digest


# ---- traces


def trace_of(accepted: Sequence[bool], limits: gx.Limits) -> tuple[list[dict[str, Any]], Certificate]:
    """The records of a run in which payments are accepted or not, and the proof that it is to conform to."""
    recorder = Recorder(ORDERS, limits=limits)
    replies = iter(accepted)

    def accept(effect: Pay) -> bool:
        return next(replies)

    def send(effect: Ship) -> float:
        return 0.5

    for happened in stream(
        ORDERS, Order(), make_run_context({Pay: accept, Ship: send}, limits=limits, clock=lambda: 0.0)
    ):
        recorder(happened)
    certificate = certified(ORDERS, limits).certificate
    assert certificate is not None
    return read_trace(recorder.recording.to_json_lines()), certificate


@cases("accepted", [[True], [False, False, True], [False] * 5])
@cases("limits", [FIVE, gx.Limits({PAYMENTS: 5, PARCELS: 1}), gx.Limits({PAYMENTS: 5, WEIGHT: 9})])
def test_run_with_custom_meters_conforms(accepted: list[bool], limits: gx.Limits) -> None:
    records, proof = trace_of(accepted, limits)
    assert str(audit(records, proof)).startswith("CONFORMS")


@cases(
    ("meter", "more", "fact"),
    [
        ("payments", 1, "ship --Delivered--> END makes at most 1 payments, but 2 are counted"),
        ("payments", 1, "ship asked for 0 payments, but 2 are counted"),
        ("parcels", 5, "ship asked for 0 parcels, but 7 are counted"),
        ("parcels", 5, "the run takes 7 parcels, but at most 2 is proved"),
        ("parcels", 0.5, "parcels is 2.5; counts are whole numbers of at least 0"),
        ("parcels", -2, "ship --Delivered--> END spends 2 of parcels, but 0 is spent before it and 0 after it"),
        ("weight", -0.25, "weight goes back from 0.5 to 0.25"),
    ],
)
def test_wrong_charge_is_a_violation(meter: str, more: float, fact: str) -> None:
    records, proof = trace_of([False, True], FIVE)
    records[-1]["spent"][meter] += more
    assert fact in [violation.fact for violation in audit(records, proof).violations]


def test_run_beyond_meter_limit_is_a_violation() -> None:
    records, _ = trace_of([False, False, True], FIVE)
    proof = certified(ORDERS, gx.Limits({PAYMENTS: 2})).certificate
    assert proof is not None
    assert "the limit payments is 5 for the run and 2" in str(audit(records, proof))
    records[0]["limits"]["payments"] = 2
    facts = [violation.fact for violation in audit(records, proof).violations]
    assert "3 of payments is spent, but the limit is 2" in facts


# ---- stub nodes


def asking(least: int, most: int, *effects: type[gx.Effect[Any]]) -> gx.Graph[Any, Any]:
    """A machine of one node, which may ask for so many of these."""
    several: Node[Any, Any] = dataclasses.replace(pay, effects=effects, least=least, most=most)
    row: Any = gx.edges(several, gx.on(Paid, gx.END) | gx.on(Refused, gx.END) | gx.on(Cancelled, gx.END))
    return gx.graph(row, start=several)


@cases("effects", [(Buy,), (Weigh,), (Buy, Weigh)])
@cases(("least", "most"), [(0, 1), (1, 2), (0, 3), (2, 3)])
def test_stub_nodes_cover_all_charges(least: int, most: int, effects: tuple[type[gx.Effect[Any]], ...]) -> None:
    machine = asking(least, most, *effects)
    for gold, silver in product((None, 0, 2, 3, 6, 7), (None, 0, 1, 2, 3, 5)):
        limits = gx.Limits({GOLD: gold, SILVER: silver})
        ended: set[str] = set()
        taken: Counter[str] = Counter()
        for batches in _batches(effects, most):
            ending, spent = _visited(batches, least, limits)
            if ending:
                ended.add(ending)
                taken |= spent
        found = explore_table(machine, limits)
        assert found.charges is not None
        assert found.charges == {name: taken[name] for name in found.charges}, limits
        assert {"Paid" if name == "Refused" else name for name in found.endings} == ended, limits


def _batches(effects: Sequence[type[gx.Effect[Any]]], most: int) -> Iterator[list[list[type[gx.Effect[Any]]]]]:
    """Every way to ask for at most so many, one by one and at once."""
    for count in range(most + 1):
        for asks in product(effects, repeat=count):
            yield [[effect] for effect in asks]
            yield [list(asks)]


def _visited(
    batches: Sequence[Sequence[type[gx.Effect[Any]]]], least: int, limits: gx.Limits
) -> tuple[str | None, Counter[str]]:
    """Return the expected end of a visit with these effects, and its charges."""
    spent: Counter[str] = Counter()
    for batch in batches:
        wanted = Counter(spent)
        for effect in batch:
            wanted.update({meter.name: amount for meter, amount in effect.charges.items()})
        compared = {meter.name for effect in batch for meter in effect.measures}
        for name, limit in limits.meters.items():
            if wanted[name] > max(limit, spent[name]) or (name in compared and spent[name] >= limit):
                return "Cancelled", spent
        spent = wanted
    return ("Paid" if sum(map(len, batches)) >= least else None), spent


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
    assert found.longest is not None
    assert found.charges is not None
    assert found.longest <= (bounds.transitions.number or 0)
    assert found.charges.keys() == bounds.meters.keys()
    for name, bound in bounds.meters.items():
        assert bound.number is None or found.charges[name] <= bound.number, name
