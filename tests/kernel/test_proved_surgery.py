"""Surgery keeps a proof of termination: a change that loses it is refused, and the error shows the loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pytest

from graphexec import (
    END,
    Asks,
    Budget,
    Effect,
    Exhausted,
    Graph,
    GraphError,
    Limits,
    Meter,
    ask,
    charged,
    edges,
    graph,
    metered,
    node,
    on,
    replace,
    splice,
)
from tests.drivers import Script, run_script
from tests.kernel.machines import limited, without_handlers


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
    limit: Exhausted


PATIENCE = Budget("patience")


@node
def advance(step: Step) -> Step | Result:
    return Step(step.number + 1) if step.number < 3 else Result(step.number)


@node
def conclude(result: Result) -> Result:
    return result


def machine(budget: Budget) -> Graph[Step, Result | Halted]:
    bounded = metered(when_spent=Halted, budget=budget)(advance)
    return graph(
        edges(bounded, on(Step, bounded) | on(Result, conclude) | on(Halted, END)) | edges(conclude, on(Result, END)),
        start=bounded,
    )


UNPROVED: Graph[Step, Result] = graph(
    edges(advance, on(Step, advance) | on(Result, conclude)) | edges(conclude, on(Result, END)), start=advance
)


def add_free_loop(of: Graph[Any, Any], **options: bool) -> Graph[Any, Any]:
    """Return the machine with a node on its last edge that may lead to itself and spends nothing."""

    @node
    def check(result: Result) -> Doubt | Result:
        return Doubt(result.number) if result.number < 0 else result

    @node
    def ponder(doubted: Doubt) -> Result:
        return Result(doubted.number + 1)

    table = edges(check, on(Doubt, ponder) | on(Result, END)) | edges(ponder, on(Result, check))
    return splice(of, table, after=conclude, on=Result, **options)


def test_splice_of_a_free_loop_is_refused() -> None:
    with pytest.raises(GraphError) as caught:
        add_free_loop(machine(Budget("patience", 5)))
    (fault,) = caught.value.faults
    assert fault.code == "GX010"
    assert "check" in fault.text
    assert "ponder" in fault.text
    assert "; " in fault.text


def test_free_loop_is_spliced_on_request() -> None:
    changed = add_free_loop(machine(Budget("patience", 5)), allow_nonterminating=True)
    assert "ponder" in changed
    assert not changed.verify().proved
    assert run_script(lambda: Script(changed, Step(0), without_handlers())).outcome == Result(3)


def test_unproved_machine_may_stay_unproved() -> None:
    assert not UNPROVED.verify().proved
    assert "ponder" in add_free_loop(UNPROVED)


def test_budget_without_a_limit_counts_as_limited() -> None:
    assert not machine(PATIENCE).verify().proved
    with pytest.raises(GraphError):
        add_free_loop(machine(PATIENCE))

    @metered(when_spent=Halted, budget=PATIENCE)
    @node
    def advance(step: Step) -> Step | Result:
        return Result(step.number)

    changed = replace(machine(PATIENCE), advance)
    assert run_script(lambda: Script(changed, Step(2), without_handlers())).outcome == Result(2)
    assert changed.verify(Limits(budgets={"patience": 3})).proved


def test_replacement_must_keep_the_meters() -> None:
    with pytest.raises(GraphError) as caught:
        replace(machine(PATIENCE), metered(when_spent=Halted)(advance), allow_nonterminating=True)
    assert [(fault.code, fault.node) for fault in caught.value.faults] == [("GX025", "advance")]
    assert caught.value.faults[0].text == (
        "advance is metered by patience in the graph and not in its replacement; decorate it with @metered(...)"
    )


def test_replacement_may_have_more_meters() -> None:
    costly = metered(when_spent=Halted)(metered(when_spent=Halted, budget=PATIENCE)(advance))
    changed = replace(machine(PATIENCE), costly)
    result = run_script(lambda: Script(changed, Step(0), limited(iterations=2)))
    assert result.outcome == Halted(Step(2), Exhausted("iterations", 2, 2))


# ---- proofs under some limits


@final
@dataclass(frozen=True)
class Fetch(Effect[str]):
    pass


CALLS = Meter("calls")


@final
@dataclass(frozen=True)
class Call(Effect[str]):
    charges: ClassVar[Mapping[Meter, int]] = {CALLS: 1}


@final
@dataclass(frozen=True)
class Late:
    at: Result
    limit: Exhausted


def add_review(effect: type[Effect[str]], **options: bool) -> Graph[Any, Any]:
    """Return the machine with a node that checks the result with one effect, and may lead back."""

    def review(result: Result) -> Any:
        return result if (yield from ask(effect())) == "yes" else Step(result.number)

    review.__annotations__["return"] = Asks[effect, Result | Step]  # type: ignore[valid-type]
    asking: Any = charged(when_spent=Late, asks=1)(node(review))
    of = graph(
        edges(plain, on(Result, conclude)) | edges(conclude, on(Result, END)),
        start=plain,
    )
    rows = edges(asking, on(Result, END) | on(Step, plain) | on(Late, END))
    return splice(of, rows, after=conclude, on=Result, **options)


@node
def plain(step: Step) -> Result:
    return Result(step.number)


def test_loop_that_some_limit_ends_may_be_spliced() -> None:
    machine = add_review(Call)
    assert not machine.verify().proved
    assert machine.verify(Limits({CALLS: 10})).proved


def test_loop_that_no_limit_ends_is_refused() -> None:
    with pytest.raises(GraphError, match=r"this loop can run forever: .*; it spends no budget; meter conclude: "):
        add_review(Fetch)


def test_loop_made_by_one_limit_is_spliced() -> None:
    @charged(when_spent=Halted, asks=1)
    @node
    def inquire(step: Step) -> Asks[Call, Result]:
        return Result(len((yield from ask(Call()))))

    @node
    def retry(halted: Halted) -> Step:
        return halted.at

    of = graph(edges(inquire, on(Result, END) | on(Halted, END)), start=inquire)
    machine = splice(of, edges(retry, on(Step, inquire)), after=inquire, on=Halted)
    assert machine.verify().proved
    assert not machine.verify(Limits({CALLS: 3})).proved


def test_loop_made_by_every_limit_is_refused() -> None:
    @node
    def rest(halted: Halted) -> Step | Halted:
        return halted.at if halted.at.number else halted

    with pytest.raises(GraphError, match="it is taken when a limit is reached, and spends nothing"):
        splice(
            machine(Budget("patience", 5)),
            edges(rest, on(Step, BOUNDED) | on(Halted, END)),
            after=BOUNDED,
            on=Halted,
        )


BOUNDED = metered(when_spent=Halted, budget=PATIENCE)(advance)
