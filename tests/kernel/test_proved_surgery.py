"""Surgery changes the table alone; the proof is asked for where the machine runs, and the error shows the loop."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

import graphexec as gx
from tests.kernel import machines as m
from tests.parameters import cases

PATIENCE = gx.Meter("patience")


@gx.node
def advance(step: m.Left) -> m.Left | m.Number:
    return m.Left(step.steps + 1) if step.steps < 3 else m.Number(step.steps)


conclude = m.pure("conclude", m.Number, m.Number, lambda result: result)


def machine(budget: gx.Meter) -> gx.Machine[m.Left, m.Number | m.Stopped]:
    bounded = gx.node(when_spent=m.Stopped, meters=[budget])(advance)
    return gx.graph(
        gx.edges(bounded, gx.on(m.Left, bounded) | gx.on(m.Number, conclude) | gx.on(m.Stopped, gx.END))
        | gx.edges(conclude, gx.on(m.Number, gx.END)),
        start=bounded,
    )


UNPROVED: gx.Machine[m.Left, m.Number] = gx.graph(
    gx.edges(advance, gx.on(m.Left, advance) | gx.on(m.Number, conclude)) | gx.edges(conclude, gx.on(m.Number, gx.END)),
    start=advance,
)


check = m.pure("check", m.Number, m.Odd | m.Number, lambda result: m.Odd(result.value) if result.value < 0 else result)
ponder = m.pure("ponder", m.Odd, m.Number, lambda doubted: m.Number(doubted.value + 1))


def add_free_loop(of: gx.Machine[Any, Any]) -> gx.Machine[Any, Any]:
    """Return the machine with a node on its last edge that may lead to itself and spends nothing."""
    table = gx.edges(check, gx.on(m.Odd, ponder) | gx.on(m.Number, gx.END)) | gx.edges(ponder, gx.on(m.Number, check))
    return gx.splice(of, table, after=conclude, on=m.Number)


@cases("of", machine(gx.Meter("patience", 5)), machine(PATIENCE))
def test_run_of_a_spliced_free_loop_is_refused(of: gx.Machine[Any, Any]) -> None:
    changed, limits = add_free_loop(of), gx.Limits({PATIENCE: 5})
    with pytest.raises(gx.UnprovedError) as caught:
        changed.run(m.Left(0), limits=limits)
    (finding,) = caught.value.verdict.findings
    assert finding.code == "GX010"
    assert finding.witness is not None
    assert {step.source for step in finding.witness.loop} == {"check", "ponder"}
    assert finding.remedy
    assert changed.run(m.Left(0), limits=limits, allow_nonterminating=True).outcome == m.Number(3)


def test_loop_needs_a_limit_of_the_run() -> None:
    @gx.node(when_spent=m.Stopped, meters=[PATIENCE])
    def advance(step: m.Left) -> m.Left | m.Number:
        return m.Number(step.steps)

    assert not UNPROVED.verify().proved
    assert not machine(PATIENCE).verify().proved
    changed = gx.replace(machine(PATIENCE), advance)
    assert m.run_machine(changed, m.Left(2)).outcome == m.Number(2)
    assert changed.verify(gx.Limits({PATIENCE: 3})).proved
    reviewed = add_review(Call)
    assert not reviewed.verify().proved
    assert reviewed.verify(gx.Limits({CALLS: 10})).proved
    # No limit ends the other one.
    why = add_review(Fetch).verify(gx.Limits({CALLS: 10})).why
    assert re.search(r"the table alone does not end this loop: .*; it spends no budget\..* Meter conclude: ", why)


def test_replacement_must_keep_the_meters() -> None:
    other = gx.node(when_spent=m.Stopped, meters=[gx.ITERATIONS])(advance)
    (fault,) = m.faults_of(gx.replace, machine(PATIENCE), other)
    assert fault == (
        "GX025 advance None: advance is metered by patience in the graph and not in its replacement; add meters=[...] "
        "to its @node"
    )
    costly = gx.node(when_spent=m.Stopped, meters=[PATIENCE, gx.ITERATIONS])(advance)
    result = m.run_machine(gx.replace(machine(PATIENCE), costly), m.Left(0), m.limited(iterations=2))
    assert result.outcome == m.Stopped(m.Left(2), gx.Exhausted("iterations", 2, 2))


@m.value
class Fetch(gx.Effect[str]):
    pass


CALLS = gx.Meter("calls")


@m.value
class Call(gx.Effect[str]):
    charges: ClassVar[Mapping[gx.Meter, int]] = {CALLS: 1}


def add_review(effect: type[gx.Effect[str]]) -> gx.Machine[Any, Any]:
    """Return the machine with a node that checks the result with one effect, and may lead back."""

    def review(result: m.Number) -> Any:
        return result if (yield from gx.ask(effect())) == "yes" else m.Left(result.value)

    review.__annotations__["return"] = gx.Asks[effect, m.Number | m.Left]  # type: ignore[valid-type]
    asking: Any = gx.node(when_spent=m.Halted, asks=1)(review)
    of = gx.graph(gx.edges(plain, gx.on(m.Number, conclude)) | gx.edges(conclude, gx.on(m.Number, gx.END)), start=plain)
    rows = gx.edges(asking, gx.on(m.Number, gx.END) | gx.on(m.Left, plain) | gx.on(m.Halted, gx.END))
    return gx.splice(of, rows, after=conclude, on=m.Number)


plain = m.pure("plain", m.Left, m.Number, lambda step: m.Number(step.steps))


@gx.node(when_spent=m.Stopped, asks=1)
def inquire(step: m.Left) -> gx.Asks[Call, m.Number]:
    return m.Number(len((yield from gx.ask(Call()))))


@gx.node
def retry(halted: m.Stopped) -> m.Left:
    assert isinstance(halted.at, m.Left)
    return halted.at


@gx.node
def rest(halted: m.Stopped) -> m.Left | m.Stopped:
    return halted.at if isinstance(halted.at, m.Left) and halted.at.steps else halted


def test_loop_made_by_limits_is_checked() -> None:
    changed = gx.splice(m.machine_of(inquire), gx.edges(retry, gx.on(m.Left, inquire)), after=inquire, on=m.Stopped)
    assert changed.verify().proved
    assert not changed.verify(gx.Limits({CALLS: 3})).proved
    bounded = gx.node(when_spent=m.Stopped, meters=[PATIENCE])(advance)
    rows = gx.edges(rest, gx.on(m.Left, bounded) | gx.on(m.Stopped, gx.END))
    extended = gx.splice(machine(gx.Meter("patience", 5)), rows, after=bounded, on=m.Stopped)
    assert "it is taken when a limit is reached, and spends nothing" in extended.verify().why
