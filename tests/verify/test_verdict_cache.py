"""A verdict is found once for a graph and its limits, and a proof once for a table."""

import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import graphexec as gx
from graphexec.errors import LimitsError
from graphexec.verify import verify
from graphexec.verify.proof import prove
from graphexec.verify.proof.flow import Flow, flow_of
from tests import garbage
from tests.counting import count_calls
from tests.kernel.machines import machine_of, tick, tock
from tests.verify import orders
from tests.verify.acting import acting
from tests.verify.proofs import bounds_of


def make_clock() -> gx.Machine[Any, Any]:
    return machine_of(tick, tock)


def test_second_executor_is_not_proved_again() -> None:
    proofs: list[int] = []
    # Limits of no other test.
    for iterations in (7_919, 7_919, 7_927):
        before = prove.prove_flow.cache_info().misses
        acting([1], max_iterations=iterations)
        proofs.append(prove.prove_flow.cache_info().misses - before)
    assert proofs == [1, 0, 1]


def test_verdict_is_that_of_its_graph_and_limits() -> None:
    clock, other = make_clock(), make_clock()
    for machine in (clock, other):
        for iterations in (5, 6, None):
            verdict = machine.verify(gx.Limits(iterations=iterations))
            assert verdict.graph is machine
            assert verdict.limits == gx.Limits(iterations=iterations)
            assert verdict.status == ("refuted" if iterations is None else "proved")
            assert bool(verdict.assumptions) == verdict.proved
    # Invalid limits raise each time.
    shop = orders.paying(orders.pay)
    for _ in range(2):
        with pytest.raises(LimitsError, match="payments counts whole numbers"):
            verify(shop, gx.Limits({gx.Meter("payments", whole=False): 2.5}))


def test_cached_verdict_does_not_keep_its_graph() -> None:
    clock = make_clock()
    assert clock.verify(gx.Limits(iterations=5)).proved
    kept = weakref.ref(clock)
    del clock
    garbage.collect()
    assert kept() is None


def test_graph_is_verified_once_for_its_last_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[gx.Graph[Any, Any]] = []

    def read_table(machine: gx.Graph[Any, Any]) -> Flow:
        read.append(machine)
        return flow_of(machine)

    monkeypatch.setattr(prove, "flow_of", read_table)
    clock = make_clock()
    several = [gx.Limits(iterations=iterations) for iterations in range(1, 30)]
    first = [clock.verify(limits) for limits in several][-1]
    assert read == [clock] * len(several)
    equal = gx.Limits(iterations=29)
    assert clock.verify(equal) == first
    assert clock.verify(equal).certificate is first.certificate
    assert count_calls(lambda: clock.verify(equal)) < 80
    assert len(read) == len(several)
    clock.verify(several[0])
    assert len(read) == len(several) + 1


@pytest.mark.medium
def test_threads_get_their_own_verdicts() -> None:
    clock = make_clock()

    def longest(iterations: int) -> float | None:
        return bounds_of(clock, gx.Limits(iterations=iterations)).transitions.number

    several = [iterations for iterations in range(1, 13) for _ in range(20)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(longest, several)) == [2 * iterations + 1 for iterations in several]
