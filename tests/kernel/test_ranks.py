"""The engine checks the ranks of a proof: a step that does not lower the rank ends the run."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits, reported_tokens, silent_calls
from graphexec.errors import CertificateError
from graphexec.kernel import Ranks
from graphexec.kernel.program import Rank
from graphexec.messages import CompletionRequest, ModelReply, Usage
from graphexec.runtime import RunContext, make_run_context, run, stream
from tests.drivers import LIVE, Script, run_script
from tests.kernel.machines import CLOCK, DIAMOND, Number, Odd, Stopped, Tick, Total, without_handlers
from tests.parameters import cases


def with_ranks(ranks: Ranks, **limits: Any) -> RunContext:
    return RunContext({}, agent_limits(**limits), ranks=ranks)


def rank_error(machine: gx.Graph[Any, Any], value: object, within: RunContext) -> str:
    """Return the error that ends the run, observed or not."""
    with pytest.raises(CertificateError) as caught:
        run_script(lambda: Script(machine, value, within), drivers=LIVE)
    return str(caught.value)


WAY: Ranks = {"split": ((3, ()),), "halve": ((2, ()),), "triple": ((2, ()),), "join": ((1, ()),)}
TICKING: Ranks = {"tick": ((1, ("iterations",)), (1, ())), "tock": ((1, ("iterations",)), (2, ()))}


def deeper(ranks: Ranks) -> Ranks:
    """Return the same ranks with two more levels, which the engine cannot reduce to single numbers."""
    return {name: (*rank, (0, ()), (0, ())) for name, rank in ranks.items()}


@cases("transform", [dict, deeper])
def test_falling_rank_changes_nothing(transform: Callable[[Ranks], Ranks]) -> None:
    result = run_script(lambda: Script(DIAMOND, Number(4), with_ranks(transform(WAY))), drivers=LIVE)
    assert result.outcome == Total("halved to 2")
    ticked = run_script(lambda: Script(CLOCK, Tick(), with_ranks(transform(TICKING), iterations=3)), drivers=LIVE)
    assert ticked.outcome == Stopped(Tick(3), gx.Exhausted("iterations", 3, 3))


def test_manual_stepping_checks_ranks() -> None:
    with pytest.raises(CertificateError, match="the rank does not fall from halve"):
        gx.advance(DIAMOND, gx.begin(DIAMOND, Number(4)), gx.Limits(), ranks={**WAY, "join": ((4, ()),)})


@cases("level", [2, 3, 4])
def test_step_without_a_lower_rank_ends_the_run(level: int) -> None:
    ranks = {**WAY, "join": ((level, ()),)}
    assert rank_error(DIAMOND, Number(4), with_ranks(deeper(ranks))) == (
        f"the rank does not fall from halve (2, 0, 0) to join ({level}, 0, 0); the certificate belongs to another "
        "machine or to other limits, or an outer run has a limit that the proof did not include; prove this machine "
        "again, with these limits and the outer ones"
    )
    # Without them, the engine reduces each rank to one number.
    text = rank_error(DIAMOND, Number(4), with_ranks(ranks))
    assert re.match(r"the rank does not fall from halve \d+ to join \d+; the certificate belongs to", text)


def test_ranks_that_are_changed_after_a_run_are_checked() -> None:
    ranks = dict(WAY)
    within = with_ranks(ranks)
    assert run(DIAMOND, Number(4), within).outcome == Total("halved to 2")
    ranks["join"] = ((4, ()),)
    assert "the rank does not fall from halve" in rank_error(DIAMOND, Number(4), within)


def test_no_step_follows_a_rank_error() -> None:
    within = with_ranks({**WAY, "halve": ((3, ()),)})
    events = stream(DIAMOND, Number(4), within)
    assert [type(next(events)).__name__ for _ in range(2)] == ["Entered", "Moved"]
    with pytest.raises(CertificateError):
        next(events)
    # A run that does not reach the node is not checked there.
    assert run(DIAMOND, Number(3), within).outcome == Total("tripled to 10")


def test_ranks_are_compared_from_left_to_right() -> None:
    # Each tick spends an iteration, which counts more than the position in the loop.
    swapped: Ranks = {"tick": ((1, ("iterations",)), (2, ())), "tock": ((1, ("iterations",)), (1, ()))}
    assert rank_error(CLOCK, Tick(), with_ranks(deeper(swapped), iterations=3)) == (
        "the rank does not fall from tock (1, 2, 1, 0, 0) to tick (1, 2, 2, 0, 0); the certificate belongs to "
        "another machine or to other limits, or an outer run has a limit that the proof did not include; prove this "
        "machine again, with these limits and the outer ones"
    )
    assert re.search(r"from tock \d+ to tick \d+;", rank_error(CLOCK, Tick(), with_ranks(swapped, iterations=3)))


@final
@dataclass(frozen=True)
class Here:
    pass


@final
@dataclass(frozen=True)
class There:
    pass


@final
@dataclass(frozen=True)
class Past:
    at: Here
    limit: gx.Exhausted


@gx.node
def go(here: Here) -> There:
    return There()


@gx.node
def arrive(there: There) -> Total:
    return Total("")


WALK: gx.Graph[Here, Total] = gx.graph(
    gx.edges(go, gx.on(There, arrive)) | gx.edges(arrive, gx.on(Total, gx.END)), start=go
)
paid_go = gx.metered(when_spent=Past)(go)
PAID_WALK: gx.Graph[Here, Total | Past] = gx.graph(
    gx.edges(paid_go, gx.on(There, arrive) | gx.on(Past, gx.END)) | gx.edges(arrive, gx.on(Total, gx.END)),
    start=paid_go,
)


def _ranks() -> Iterator[Rank]:
    """Draw ranks like those of proofs: components 0 and 2 count the remaining iterations, 1 and 3 count nothing."""
    for component in range(4):
        if component % 2:
            yield ((component, ()),)
        else:
            yield from (((component, ("iterations",)), (part, ())) for part in range(3))


@cases("limit", [0, 1, 2])
@cases("transform", [dict, deeper])
def test_step_is_taken_only_if_the_rank_falls(transform: Callable[[Ranks], Ranks], limit: int) -> None:
    def value(rank: Rank, iterations: int) -> list[int]:
        return [number for part, budgets in rank for number in (part, *[limit - iterations for _ in budgets])]

    for before, after in itertools.product(_ranks(), repeat=2):
        within = with_ranks(transform({"go": before, "arrive": after}), iterations=limit)
        for spent, machine in itertools.product(range(limit + 1), (WALK, PAID_WALK)):
            at = gx.Snapshot("go", Here(), spent=gx.Spent(iterations=spent))
            costs = int(machine is PAID_WALK)
            if spent + costs > limit:
                continue
            if value(after, spent + costs) < value(before, spent):
                assert run(machine, at, within).outcome == Total("")
            else:
                with pytest.raises(CertificateError, match="the rank does not fall from go"):
                    run(machine, at, within)


def test_level_may_count_several_budgets() -> None:
    both: Ranks = {
        "tick": ((1, ("iterations", "tool_calls")), (1, ())),
        "tock": ((1, ("iterations", "tool_calls")), (2, ())),
    }
    result = run_script(lambda: Script(CLOCK, Tick(), with_ranks(both, iterations=2, tool_calls=5)), drivers=LIVE)
    assert result.spent == gx.Spent(iterations=2)


@cases("name", ["iterations", "model_calls", "tool_calls", "tokens", "elsewhere"])
def test_rank_needs_limits_on_its_budgets(name: str) -> None:
    ranks: Ranks = {"split": ((3, (name,)),)}
    assert rank_error(DIAMOND, Number(4), with_ranks(ranks, iterations=None)) == (
        f"the rank counts {name}, which has no limit; prove the machine with these limits"
    )


def test_rank_needs_a_limit_on_iterations() -> None:
    assert rank_error(CLOCK, Tick(), with_ranks(TICKING, iterations=None)) == (
        "the rank counts iterations, which has no limit; prove the machine with these limits"
    )


@cases("transform", [dict, deeper])
@cases("limit", [0, 3])
def test_resume_with_lower_limits_stops(transform: Callable[[Ranks], Ranks], limit: int) -> None:
    at = gx.Snapshot("tick", Tick(), spent=gx.Spent(iterations=13), entered=True)
    result = run_script(lambda: Script(CLOCK, at, with_ranks(transform(TICKING), iterations=limit)), drivers=LIVE)
    assert result.outcome == Stopped(Tick(1), gx.Exhausted("iterations", limit, 13))


@cases("transform", [dict, deeper])
def test_overspent_budget_counts_as_zero_remaining(transform: Callable[[Ranks], Ranks]) -> None:
    ranks: Ranks = {**WAY, "halve": ((2, ("iterations",)), (0, ()))}
    at = gx.Snapshot("split", Number(4), spent=gx.Spent(iterations=13))
    result = run_script(lambda: Script(DIAMOND, at, with_ranks(transform(ranks), iterations=3)), drivers=LIVE)
    assert result.outcome == Total("halved to 2")


@cases("transform", [dict, deeper])
def test_rank_allows_spending_the_whole_budget(transform: Callable[[Ranks], Ranks]) -> None:
    at = gx.Snapshot("tick", Tick(), spent=gx.Spent(iterations=3))
    result = run_script(lambda: Script(CLOCK, at, with_ranks(transform(TICKING), iterations=3)), drivers=LIVE)
    assert result.outcome == Stopped(Tick(), gx.Exhausted("iterations", 3, 3))


# ---- remaining amounts


@final
@dataclass(frozen=True)
class Turn:
    number: int


@final
@dataclass(frozen=True)
class Over:
    at: Turn
    limit: gx.Exhausted


PATIENCE = gx.Budget("patience", 4)


@gx.charged(when_spent=Over)
@gx.node
def think(turn: Turn) -> gx.Asks[CallModel | CallTool, Turn]:
    yield from gx.ask(CallModel(CompletionRequest("?")))
    yield from gx.ask(CallTool("look", ""))
    return Turn(turn.number + 1)


patient = gx.metered(when_spent=Over, budget=PATIENCE)(think)
THINKING: gx.Graph[Turn, Over] = gx.graph(gx.edges(patient, gx.on(Turn, patient) | gx.on(Over, gx.END)), start=patient)


def thinking(counted: str, usage: Usage, **limits: Any) -> RunContext:
    result = make_run_context(
        {CallModel: lambda call: ModelReply("so", usage=usage), CallTool: lambda call: ToolResult("")},
        limits=agent_limits(**limits),
    )
    return RunContext(result.handlers, result.limits, ranks={"think": ((1, (counted,)),)})


@cases(
    ("counted", "limits", "turns"),
    [
        ("model_calls", {"model_calls": 3}, 3),
        ("tool_calls", {"tool_calls": 3}, 3),
        ("tokens", {"tokens": 6}, 3),
        ("patience", {}, 4),
        ("patience", {"budgets": {"patience": 2}}, 2),
    ],
)
def test_rank_falls_with_any_budget_spent_per_turn(counted: str, limits: Any, turns: int) -> None:
    result = run_script(lambda: Script(THINKING, Turn(0), thinking(counted, Usage(1, 1), **limits)), drivers=LIVE)
    assert (result.outcome.at, result.outcome.limit.limit) == (Turn(turns), counted)


def test_tokens_beyond_the_limit_do_not_affect_ranks() -> None:
    result = run_script(lambda: Script(THINKING, Turn(0), thinking("tokens", Usage(3, 2), tokens=9)), drivers=LIVE)
    assert (result.outcome, reported_tokens(result.spent)) == (Over(Turn(2), gx.Exhausted("tokens", 9, 10)), 10)


def test_resume_with_fewer_tokens_has_the_lowest_rank() -> None:
    at = gx.Snapshot("think", Turn(0), spent=gx.Spent(meters={"prompt_tokens": 5, "tokens": 5}))
    result = run_script(lambda: Script(THINKING, at, thinking("tokens", Usage(), tokens=0)), drivers=LIVE)
    assert result.outcome == Over(Turn(0), gx.Exhausted("tokens", 0, 5))


def test_call_without_reported_tokens_counts_one() -> None:
    result = run_script(lambda: Script(THINKING, Turn(0), thinking("tokens", Usage(), tokens=3)), drivers=LIVE)
    assert (result.outcome, reported_tokens(result.spent)) == (Over(Turn(3), gx.Exhausted("tokens", 3, 3)), 0)


def test_call_without_reported_tokens_lowers_the_rank() -> None:
    def within() -> RunContext:
        usages = iter([Usage(3, 3), *[Usage()] * 9])
        result = make_run_context(
            {CallModel: lambda call: ModelReply("so", usage=next(usages)), CallTool: lambda call: ToolResult("")},
            limits=agent_limits(tokens=8),
        )
        return RunContext(result.handlers, result.limits, ranks={"think": ((1, ("tokens",)),)})

    result = run_script(lambda: Script(THINKING, Turn(0), within()), drivers=LIVE)
    assert result.outcome == Over(Turn(3), gx.Exhausted("tokens", 8, 8))
    assert (reported_tokens(result.spent), silent_calls(result.spent), result.spent["tokens"]) == (6, 2, 8)


def test_rank_of_an_unspent_budget_does_not_fall() -> None:
    assert rank_error(THINKING, Turn(0), thinking("iterations", Usage())) == (
        "the rank does not fall from think (1, 15) to think (1, 15); the certificate belongs to another machine or "
        "to other limits, or an outer run has a limit that the proof did not include; prove this machine again, "
        "with these limits and the outer ones"
    )


# ---- resumed runs


def test_resume_before_an_entry_checks_the_rank() -> None:
    ranks = {**WAY, "join": ((2, ()),)}
    at = gx.Snapshot("triple", Odd(3))
    assert "from triple (2, 0, 0) to join (2, 0, 0)" in rank_error(DIAMOND, at, with_ranks(deeper(ranks)))
    assert "the rank does not fall from triple " in rank_error(DIAMOND, at, with_ranks(ranks))


def test_resume_inside_a_node_checks_later_ranks() -> None:
    # The amounts that remained at the entry are unknown.
    ranks = {**WAY, "join": ((2, ()),)}
    inside = gx.Snapshot("triple", Odd(3), entered=True)
    later = gx.Snapshot("split", Number(3), entered=True)
    for variant in (ranks, deeper(ranks)):
        result = run_script(lambda variant=variant: Script(DIAMOND, inside, with_ranks(variant)), drivers=LIVE)  # type: ignore[misc]
        assert result.outcome == Total("tripled to 10")
        assert "the rank does not fall from triple " in rank_error(DIAMOND, later, with_ranks(variant))


def test_ranks_of_a_proof_fall_in_every_run() -> None:
    @gx.metered(when_spent=Over, budget=PATIENCE)
    @gx.node
    def turn(now: Turn) -> Turn | Total:
        return Turn(now.number + 1) if now.number < 9 else Total("")

    machine = gx.graph(gx.edges(turn, gx.on(Turn, turn) | gx.on(Total, gx.END) | gx.on(Over, gx.END)), start=turn)
    certificate = machine.verify(without_handlers().limits).certificate
    assert certificate is not None
    result = run_script(lambda: Script(machine, Turn(0), with_ranks(certificate.ranks or {})), drivers=LIVE)
    assert result.outcome == Over(Turn(4), gx.Exhausted("patience", 4, 4))
