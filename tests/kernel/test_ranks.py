"""A run with a proof's ranks is held to them: every step lowers the rank, or the run is ended."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import pytest

from graphexec import (
    END,
    Asks,
    Budget,
    Exhausted,
    Graph,
    Limits,
    Snapshot,
    Spent,
    advance,
    ask,
    begin,
    charged,
    edges,
    graph,
    metered,
    node,
    on,
)
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits, reported_tokens, silent_calls
from graphexec.errors import CertificateError
from graphexec.kernel import Ranks
from graphexec.kernel.counters import Rank
from graphexec.messages import CompletionRequest, ModelReply, Usage
from graphexec.runtime import RunContext, make_run_context, run, stream
from tests.drivers import LIVE, Script, run_script
from tests.kernel.machines import CLOCK, DIAMOND, Number, Odd, Stopped, Tick, Total, nobody


def ranked(ranks: Ranks, **limits: Any) -> RunContext:
    return RunContext({}, agent_limits(**limits), ranks=ranks)


def refused(machine: Graph[Any, Any], value: object, within: RunContext) -> str:
    """What the run of a machine is ended with, watched or not."""
    with pytest.raises(CertificateError) as caught:
        run_script(lambda: Script(machine, value, within), drivers=LIVE)
    return str(caught.value)


WAY: Ranks = {"split": ((3, ()),), "halve": ((2, ()),), "triple": ((2, ()),), "join": ((1, ()),)}
TICKING: Ranks = {"tick": ((1, ("iterations",)), (1, ())), "tock": ((1, ("iterations",)), (2, ()))}


def deeper(ranks: Ranks) -> Ranks:
    """The same ranks with a level more: the engine reckons with those that an agent has in a shorter way."""
    return {name: (*rank, (0, ()), (0, ())) for name, rank in ranks.items()}


@pytest.mark.parametrize("made", [dict, deeper])
def test_a_run_whose_rank_falls_is_not_disturbed(made: Callable[[Ranks], Ranks]) -> None:
    result = run_script(lambda: Script(DIAMOND, Number(4), ranked(made(WAY))), drivers=LIVE)
    assert result.outcome == Total("halved to 2")
    ticked = run_script(lambda: Script(CLOCK, Tick(), ranked(made(TICKING), iterations=3)), drivers=LIVE)
    assert ticked.outcome == Stopped(Tick(3), Exhausted("iterations", 3, 3))


def test_a_run_that_is_advanced_by_hand_is_held_to_them_too() -> None:
    with pytest.raises(CertificateError, match="the rank does not fall from halve"):
        advance(DIAMOND, begin(DIAMOND, Number(4)), Limits(), ranks={**WAY, "join": ((4, ()),)})


@pytest.mark.parametrize("level", [2, 3, 4])
def test_a_step_that_does_not_lower_the_rank_ends_the_run(level: int) -> None:
    ranks = {**WAY, "join": ((level, ()),)}
    assert refused(DIAMOND, Number(4), ranked(deeper(ranks))) == (
        f"the rank does not fall from halve (2, 0, 0) to join ({level}, 0, 0); the certificate belongs to another "
        "machine or to other limits, or an outer run has a limit that the proof did not include; prove the machine "
        "again, with that limit"
    )
    # Reckoned with in the shorter way, each is one number.
    text = refused(DIAMOND, Number(4), ranked(ranks))
    assert re.match(r"the rank does not fall from halve \(\d+,\) to join \(\d+,\); the certificate belongs to", text)


def test_the_step_after_that_is_not_taken() -> None:
    within = ranked({**WAY, "halve": ((3, ()),)})
    events = stream(DIAMOND, Number(4), within)
    assert [type(next(events)).__name__ for _ in range(2)] == ["Entered", "Moved"]
    with pytest.raises(CertificateError):
        next(events)
    # A run that goes another way is not held to what it does not come to.
    assert run(DIAMOND, Number(3), within).outcome == Total("tripled to 10")


def test_ranks_are_compared_from_left_to_right() -> None:
    # Of the iterations one more is spent at each tick, which counts for more than where in the loop the run is.
    swapped: Ranks = {"tick": ((1, ("iterations",)), (2, ())), "tock": ((1, ("iterations",)), (1, ()))}
    assert refused(CLOCK, Tick(), ranked(deeper(swapped), iterations=3)) == (
        "the rank does not fall from tock (1, 2, 1, 0, 0) to tick (1, 2, 2, 0, 0); the certificate belongs to "
        "another machine or to other limits, or an outer run has a limit that the proof did not include; prove the "
        "machine again, with that limit"
    )
    assert "from tock (" in refused(CLOCK, Tick(), ranked(swapped, iterations=3))


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
    limit: Exhausted


@node
def go(here: Here) -> There:
    return There()


@node
def arrive(there: There) -> Total:
    return Total("")


WALK: Graph[Here, Total] = graph(edges(go, on(There, arrive)) | edges(arrive, on(Total, END)), start=go)
paid_go = metered(when_spent=Past)(go)
PAID_WALK: Graph[Here, Total | Past] = graph(
    edges(paid_go, on(There, arrive) | on(Past, END)) | edges(arrive, on(Total, END)), start=paid_go
)


def _ranks() -> Iterator[Rank]:
    """Ranks as a proof makes them: of components 0 and 2 iterations are left, of 1 and 3 nothing is counted."""
    for component in range(4):
        if component % 2:
            yield ((component, ()),)
        else:
            yield from (((component, ("iterations",)), (part, ())) for part in range(3))


@pytest.mark.parametrize("limit", [0, 1, 2])
@pytest.mark.parametrize("made", [dict, deeper])
def test_a_step_is_taken_exactly_if_it_lowers_the_rank(made: Callable[[Ranks], Ranks], limit: int) -> None:
    def value(rank: Rank, iterations: int) -> list[int]:
        return [number for part, budgets in rank for number in (part, *[limit - iterations for _ in budgets])]

    for before, after in itertools.product(_ranks(), repeat=2):
        within = ranked(made({"go": before, "arrive": after}), iterations=limit)
        for spent, machine in itertools.product(range(limit + 1), (WALK, PAID_WALK)):
            at = Snapshot("go", Here(), spent=Spent(iterations=spent))
            costs = int(machine is PAID_WALK)
            if spent + costs > limit:
                continue
            if value(after, spent + costs) < value(before, spent):
                assert run(machine, at, within).outcome == Total("")
            else:
                with pytest.raises(CertificateError, match="the rank does not fall from go"):
                    run(machine, at, within)


def test_a_rank_may_count_several_budgets_in_a_level_together_with_their_order() -> None:
    both: Ranks = {
        "tick": ((1, ("iterations", "tool_calls")), (1, ())),
        "tock": ((1, ("iterations", "tool_calls")), (2, ())),
    }
    result = run_script(lambda: Script(CLOCK, Tick(), ranked(both, iterations=2, tool_calls=5)), drivers=LIVE)
    assert result.spent == Spent(iterations=2)


@pytest.mark.parametrize("name", ["iterations", "model_calls", "tool_calls", "tokens", "elsewhere"])
def test_what_a_rank_counts_has_a_limit(name: str) -> None:
    ranks: Ranks = {"split": ((3, (name,)),)}
    assert refused(DIAMOND, Number(4), ranked(ranks, iterations=None)) == (
        f"the rank counts {name}, which has no limit; prove the machine with these limits"
    )


def test_what_is_left_of_iterations_without_a_limit_is_not_known() -> None:
    assert refused(CLOCK, Tick(), ranked(TICKING, iterations=None)) == (
        "the rank counts iterations, which has no limit; prove the machine with these limits"
    )


@pytest.mark.parametrize("made", [dict, deeper])
@pytest.mark.parametrize("limit", [0, 3])
def test_a_run_that_is_taken_up_with_lower_limits_comes_to_its_stop(made: Callable[[Ranks], Ranks], limit: int) -> None:
    at = Snapshot("tick", Tick(), spent=Spent(iterations=13), entered=True)
    result = run_script(lambda: Script(CLOCK, at, ranked(made(TICKING), iterations=limit)), drivers=LIVE)
    assert result.outcome == Stopped(Tick(1), Exhausted("iterations", limit, 13))


@pytest.mark.parametrize("made", [dict, deeper])
def test_where_more_is_spent_than_may_be_nothing_is_left_and_never_less(made: Callable[[Ranks], Ranks]) -> None:
    ranks: Ranks = {**WAY, "halve": ((2, ("iterations",)), (0, ()))}
    at = Snapshot("split", Number(4), spent=Spent(iterations=13))
    result = run_script(lambda: Script(DIAMOND, at, ranked(made(ranks), iterations=3)), drivers=LIVE)
    assert result.outcome == Total("halved to 2")


@pytest.mark.parametrize("made", [dict, deeper])
def test_all_that_a_rank_counts_may_be_spent(made: Callable[[Ranks], Ranks]) -> None:
    at = Snapshot("tick", Tick(), spent=Spent(iterations=3))
    result = run_script(lambda: Script(CLOCK, at, ranked(made(TICKING), iterations=3)), drivers=LIVE)
    assert result.outcome == Stopped(Tick(), Exhausted("iterations", 3, 3))


# ---- what is left of each


@final
@dataclass(frozen=True)
class Turn:
    number: int


@final
@dataclass(frozen=True)
class Over:
    at: Turn
    limit: Exhausted


PATIENCE = Budget("patience", 4)


@charged(when_spent=Over)
@node
def think(turn: Turn) -> Asks[CallModel | CallTool, Turn]:
    yield from ask(CallModel(CompletionRequest("?")))
    yield from ask(CallTool("look", ""))
    return Turn(turn.number + 1)


patient = metered(when_spent=Over, budget=PATIENCE)(think)
THINKING: Graph[Turn, Over] = graph(edges(patient, on(Turn, patient) | on(Over, END)), start=patient)


def thinking(counted: str, usage: Usage, **limits: Any) -> RunContext:
    result = make_run_context(
        {CallModel: lambda call: ModelReply("so", usage=usage), CallTool: lambda call: ToolResult("")},
        limits=agent_limits(**limits),
    )
    return RunContext(result.handlers, result.limits, ranks={"think": ((1, (counted,)),)})


@pytest.mark.parametrize(
    ("counted", "limits", "turns"),
    [
        ("model_calls", {"model_calls": 3}, 3),
        ("tool_calls", {"tool_calls": 3}, 3),
        ("tokens", {"tokens": 6}, 3),
        ("patience", {}, 4),
        ("patience", {"budgets": {"patience": 2}}, 2),
    ],
)
def test_a_rank_falls_with_whatever_each_turn_spends(counted: str, limits: Any, turns: int) -> None:
    result = run_script(lambda: Script(THINKING, Turn(0), thinking(counted, Usage(1, 1), **limits)), drivers=LIVE)
    assert (result.outcome.at, result.outcome.limit.limit) == (Turn(turns), counted)


def test_the_tokens_that_the_last_call_takes_beyond_the_limit_are_not_counted_by_the_rank() -> None:
    result = run_script(lambda: Script(THINKING, Turn(0), thinking("tokens", Usage(3, 2), tokens=9)), drivers=LIVE)
    assert (result.outcome, reported_tokens(result.spent)) == (Over(Turn(2), Exhausted("tokens", 9, 10)), 10)


def test_a_run_that_took_more_tokens_than_it_may_take_now_is_at_the_end_of_its_rank() -> None:
    at = Snapshot("think", Turn(0), spent=Spent(meters={"prompt_tokens": 5, "tokens": 5}))
    result = run_script(lambda: Script(THINKING, at, thinking("tokens", Usage(), tokens=0)), drivers=LIVE)
    assert result.outcome == Over(Turn(0), Exhausted("tokens", 0, 5))


def test_a_call_takes_one_token_at_least_also_where_its_provider_reports_none() -> None:
    result = run_script(lambda: Script(THINKING, Turn(0), thinking("tokens", Usage(), tokens=3)), drivers=LIVE)
    assert (result.outcome, reported_tokens(result.spent)) == (Over(Turn(3), Exhausted("tokens", 3, 3)), 0)


def test_a_call_that_reports_no_token_after_one_that_reported_many_lowers_the_rank_too() -> None:
    def within() -> RunContext:
        usages = iter([Usage(3, 3), *[Usage()] * 9])
        result = make_run_context(
            {CallModel: lambda call: ModelReply("so", usage=next(usages)), CallTool: lambda call: ToolResult("")},
            limits=agent_limits(tokens=8),
        )
        return RunContext(result.handlers, result.limits, ranks={"think": ((1, ("tokens",)),)})

    result = run_script(lambda: Script(THINKING, Turn(0), within()), drivers=LIVE)
    assert result.outcome == Over(Turn(3), Exhausted("tokens", 8, 8))
    assert (reported_tokens(result.spent), silent_calls(result.spent), result.spent["tokens"]) == (6, 2, 8)


def test_a_rank_that_counts_what_a_turn_does_not_spend_does_not_fall() -> None:
    assert refused(THINKING, Turn(0), thinking("iterations", Usage())) == (
        "the rank does not fall from think (1, 15) to think (1, 15); the certificate belongs to another machine or "
        "to other limits, or an outer run has a limit that the proof did not include; prove the machine again, with "
        "that limit"
    )


# ---- where a run is taken up again


def test_a_run_taken_up_at_a_gate_is_held_to_the_rank_there() -> None:
    ranks = {**WAY, "join": ((2, ()),)}
    at = Snapshot("triple", Odd(3))
    assert "from triple (2, 0, 0) to join (2, 0, 0)" in refused(DIAMOND, at, ranked(deeper(ranks)))
    assert "the rank does not fall from triple (" in refused(DIAMOND, at, ranked(ranks))


def test_a_run_taken_up_in_a_node_is_held_to_the_ranks_from_the_next_node_on() -> None:
    # What was left when it came into the node is not known any more.
    ranks = {**WAY, "join": ((2, ()),)}
    inside = Snapshot("triple", Odd(3), entered=True)
    later = Snapshot("split", Number(3), entered=True)
    for made in (ranks, deeper(ranks)):
        result = run_script(lambda made=made: Script(DIAMOND, inside, ranked(made)), drivers=LIVE)  # type: ignore[misc]
        assert result.outcome == Total("tripled to 10")
        assert "the rank does not fall from triple (" in refused(DIAMOND, later, ranked(made))


def test_the_ranks_of_a_proof_fall_in_every_run_of_its_machine() -> None:
    @metered(when_spent=Over, budget=PATIENCE)
    @node
    def turn(now: Turn) -> Turn | Total:
        return Turn(now.number + 1) if now.number < 9 else Total("")

    machine = graph(edges(turn, on(Turn, turn) | on(Total, END) | on(Over, END)), start=turn)
    certificate = machine.verify(nobody().limits).certificate
    assert certificate is not None
    result = run_script(lambda: Script(machine, Turn(0), ranked(certificate.ranks or {})), drivers=LIVE)
    assert result.outcome == Over(Turn(4), Exhausted("patience", 4, 4))
