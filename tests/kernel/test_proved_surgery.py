"""Surgery keeps a proof of termination: a change that loses it is refused, and the error shows the loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pytest

import graphexec as gx
from tests.kernel.machines import faults_of, limited, machine_of, run_machine
from tests.parameters import cases


@final
@dataclass(frozen=True)
class Step:
    number: int


@final
@dataclass(frozen=True)
class Doubt:
    number: int


@final
@dataclass(frozen=True)
class Result:
    number: int


@final
@dataclass(frozen=True)
class Halted:
    at: Step
    limit: gx.Exhausted


PATIENCE = gx.Budget("patience")


@gx.node
def advance(step: Step) -> Step | Result:
    return Step(step.number + 1) if step.number < 3 else Result(step.number)


@gx.node
def conclude(result: Result) -> Result:
    return result


def machine(budget: gx.Budget) -> gx.Graph[Step, Result | Halted]:
    bounded = gx.metered(when_spent=Halted, budget=budget)(advance)
    return gx.graph(
        gx.edges(bounded, gx.on(Step, bounded) | gx.on(Result, conclude) | gx.on(Halted, gx.END))
        | gx.edges(conclude, gx.on(Result, gx.END)),
        start=bounded,
    )


UNPROVED: gx.Graph[Step, Result] = gx.graph(
    gx.edges(advance, gx.on(Step, advance) | gx.on(Result, conclude)) | gx.edges(conclude, gx.on(Result, gx.END)),
    start=advance,
)


@gx.node
def check(result: Result) -> Doubt | Result:
    return Doubt(result.number) if result.number < 0 else result


@gx.node
def ponder(doubted: Doubt) -> Result:
    return Result(doubted.number + 1)


def add_free_loop(of: gx.Graph[Any, Any], **options: bool) -> gx.Graph[Any, Any]:
    """Return the machine with a node on its last edge that may lead to itself and spends nothing."""
    table = gx.edges(check, gx.on(Doubt, ponder) | gx.on(Result, gx.END)) | gx.edges(ponder, gx.on(Result, check))
    return gx.splice(of, table, after=conclude, on=Result, **options)


# A budget without a limit counts as limited.
@cases("budget", [gx.Budget("patience", 5), PATIENCE])
def test_splice_of_a_free_loop_is_refused(budget: gx.Budget) -> None:
    (fault,) = faults_of(add_free_loop, machine(budget))
    assert fault.startswith("GX010")
    assert "check" in fault
    assert "ponder" in fault
    assert "; " in fault


@cases(
    ("of", "options"),
    [
        (machine(gx.Budget("patience", 5)), {"allow_nonterminating": True}),
        # A machine that is not proved may stay so.
        (UNPROVED, {}),
    ],
)
def test_free_loop_is_spliced_on_request(of: gx.Graph[Any, Any], options: dict[str, bool]) -> None:
    changed = add_free_loop(of, **options)
    assert "ponder" in changed
    assert not changed.verify().proved
    assert run_machine(changed, Step(0)).outcome == Result(3)


def test_loop_needs_a_limit_of_the_run() -> None:
    @gx.metered(when_spent=Halted, budget=PATIENCE)
    @gx.node
    def advance(step: Step) -> Step | Result:
        return Result(step.number)

    assert not UNPROVED.verify().proved
    assert not machine(PATIENCE).verify().proved
    changed = gx.replace(machine(PATIENCE), advance)
    assert run_machine(changed, Step(2)).outcome == Result(2)
    assert changed.verify(gx.Limits(budgets={"patience": 3})).proved
    reviewed = add_review(Call)
    assert not reviewed.verify().proved
    assert reviewed.verify(gx.Limits({CALLS: 10})).proved
    # No limit ends the other one.
    with pytest.raises(gx.GraphError, match=r"this loop can run forever: .*; it spends no budget; meter conclude: "):
        add_review(Fetch)


def test_replacement_must_keep_the_meters() -> None:
    other = gx.metered(when_spent=Halted)(advance)
    (fault,) = faults_of(gx.replace, machine(PATIENCE), other, allow_nonterminating=True)
    assert fault == (
        "GX025 advance None: advance is metered by patience in the graph and not in its replacement; decorate it with "
        "@metered(...)"
    )
    costly = gx.metered(when_spent=Halted)(gx.metered(when_spent=Halted, budget=PATIENCE)(advance))
    result = run_machine(gx.replace(machine(PATIENCE), costly), Step(0), limited(iterations=2))
    assert result.outcome == Halted(Step(2), gx.Exhausted("iterations", 2, 2))


@final
@dataclass(frozen=True)
class Fetch(gx.Effect[str]):
    pass


CALLS = gx.Meter("calls")


@final
@dataclass(frozen=True)
class Call(gx.Effect[str]):
    charges: ClassVar[Mapping[gx.Meter, int]] = {CALLS: 1}


@final
@dataclass(frozen=True)
class Late:
    at: Result
    limit: gx.Exhausted


def add_review(effect: type[gx.Effect[str]], **options: bool) -> gx.Graph[Any, Any]:
    """Return the machine with a node that checks the result with one effect, and may lead back."""

    def review(result: Result) -> Any:
        return result if (yield from gx.ask(effect())) == "yes" else Step(result.number)

    review.__annotations__["return"] = gx.Asks[effect, Result | Step]  # type: ignore[valid-type]
    asking: Any = gx.charged(when_spent=Late, asks=1)(gx.node(review))
    of = gx.graph(gx.edges(plain, gx.on(Result, conclude)) | gx.edges(conclude, gx.on(Result, gx.END)), start=plain)
    rows = gx.edges(asking, gx.on(Result, gx.END) | gx.on(Step, plain) | gx.on(Late, gx.END))
    return gx.splice(of, rows, after=conclude, on=Result, **options)


@gx.node
def plain(step: Step) -> Result:
    return Result(step.number)


@gx.charged(when_spent=Halted, asks=1)
@gx.node
def inquire(step: Step) -> gx.Asks[Call, Result]:
    return Result(len((yield from gx.ask(Call()))))


@gx.node
def retry(halted: Halted) -> Step:
    return halted.at


@gx.node
def rest(halted: Halted) -> Step | Halted:
    return halted.at if halted.at.number else halted


def test_loop_made_by_limits_is_checked() -> None:
    changed = gx.splice(machine_of(inquire), gx.edges(retry, gx.on(Step, inquire)), after=inquire, on=Halted)
    assert changed.verify().proved
    assert not changed.verify(gx.Limits({CALLS: 3})).proved
    bounded = gx.metered(when_spent=Halted, budget=PATIENCE)(advance)
    rows = gx.edges(rest, gx.on(Step, bounded) | gx.on(Halted, gx.END))
    with pytest.raises(gx.GraphError, match="it is taken when a limit is reached, and spends nothing"):
        gx.splice(machine(gx.Budget("patience", 5)), rows, after=bounded, on=Halted)
