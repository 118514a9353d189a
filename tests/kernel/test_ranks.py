"""The engine checks the ranks of a proof: a step that does not lower the rank ends the run."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import graphexec as gx
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits, reported_tokens, silent_calls
from graphexec.errors import CertificateError
from graphexec.kernel.program import Proof, Rank, Ranks
from graphexec.messages import CompletionRequest, ModelReply, Usage
from graphexec.runtime import run, stream
from graphexec.runtime.handlers import RunContext
from tests.drivers import LIVE, Script, make_run_context, options_of, run_script
from tests.kernel import machines as m
from tests.parameters import cases


def with_ranks(ranks: Ranks, **limits: Any) -> RunContext:
    return make_run_context({}, limits=agent_limits(**limits), proof=Proof(ranks))


def rank_error(machine: gx.Graph[Any, Any], value: object, within: RunContext) -> str:
    """Return the error that ends the run, observed or not."""
    return m.error_message(CertificateError, m.run_machine, machine, value, within, LIVE)


WAY: Ranks = {"split": ((3, ()),), "halve": ((2, ()),), "triple": ((2, ()),), "join": ((1, ()),)}
FLAT: Ranks = {**WAY, "join": ((2, ()),)}
TICKING: Ranks = {"tick": ((1, ("iterations",)), (1, ())), "tock": ((1, ("iterations",)), (2, ()))}
# Each tick spends an iteration, which counts more than the position in the loop.
SWAPPED: Ranks = {"tick": TICKING["tock"], "tock": TICKING["tick"]}
BOTH: Ranks = {name: ((1, ("iterations", "tool_calls")), position) for name, (_, position) in TICKING.items()}
THREE, SPENT = {"iterations": 3}, gx.Spent(iterations=13)


def stopped(ticks: int, limit: int, reached: int) -> m.Stopped:
    return m.Stopped(m.Tick(ticks), gx.Exhausted("iterations", limit, reached))


@cases(
    ("machine", "at", "ranks", "limits", "outcome"),
    (m.DIAMOND, m.Number(4), WAY, {}, m.Total("halved to 2")),
    (m.CLOCK, m.Tick(), TICKING, THREE, stopped(3, 3, 3)),
    # A level may count several budgets, and a run may spend a whole one.
    (m.CLOCK, m.Tick(), BOTH, {"iterations": 2, "tool_calls": 5}, stopped(2, 2, 2)),
    (m.CLOCK, gx.Snapshot("tick", m.Tick(), spent=gx.Spent(iterations=3)), TICKING, THREE, stopped(0, 3, 3)),
    # Under lower limits, a resumed run stops; nothing remains of an overspent budget.
    (m.CLOCK, gx.Snapshot("tick", m.Tick(), spent=SPENT, entered=True), TICKING, {"iterations": 0}, stopped(1, 0, 13)),
    (m.CLOCK, gx.Snapshot("tick", m.Tick(), spent=SPENT, entered=True), TICKING, THREE, stopped(1, 3, 13)),
    (
        m.DIAMOND,
        gx.Snapshot("split", m.Number(4), spent=SPENT),
        {**WAY, "halve": ((2, ("iterations",)), (0, ()))},
        THREE,
        m.Total("halved to 2"),
    ),
    # The amounts that remained at the entry are unknown.
    (m.DIAMOND, gx.Snapshot("triple", m.Odd(3), entered=True), FLAT, {}, m.Total("tripled to 10")),
)
def test_falling_rank_changes_nothing(machine: Any, at: object, ranks: Ranks, limits: Any, outcome: object) -> None:
    result = m.run_machine(machine, at, with_ranks(ranks, **limits), LIVE)
    assert result.outcome == outcome
    if isinstance(outcome, m.Stopped):
        assert result.spent == gx.Spent(iterations=int(outcome.limit.reached))


def with_steps(most: int) -> RunContext:
    """Hold runs of the clock to so many steps after a resume; a run that begins has its ranks alone."""
    return make_run_context(
        {}, limits=agent_limits(iterations=2), proof=Proof(TICKING, lambda: 1, steps_when_resumed=lambda: most)
    )


@cases(
    ("at", "most"),
    (gx.Snapshot("tock", m.Tock(0)), 6),
    (gx.Snapshot("tick", m.Tick(), spent=gx.Spent(iterations=1)), 3),
    (gx.Snapshot("tick", m.Tick(), spent=gx.Spent(iterations=1), entered=True), 5),
)
def test_resumed_run_takes_no_more_steps_than_its_proof_allows(at: gx.Snapshot, most: int) -> None:
    assert m.run_machine(m.CLOCK, m.Tick(), with_steps(1), LIVE).outcome == stopped(2, 2, 2)
    assert isinstance(m.run_machine(m.CLOCK, at, with_steps(most), LIVE).outcome, m.Stopped)
    assert "after the last step that its certificate allows" in rank_error(m.CLOCK, at, with_steps(most - 1))


def test_no_step_follows_a_rank_error() -> None:
    with pytest.raises(CertificateError, match="the rank does not fall from halve"):
        gx.advance(m.DIAMOND, gx.begin(m.DIAMOND, m.Number(4)), gx.Limits(), proof=Proof({**WAY, "join": ((4, ()),)}))
    within = with_ranks({**WAY, "halve": ((3, ()),)})
    events = stream(m.DIAMOND, m.Number(4), **options_of(within))
    assert [type(next(events)).__name__ for _ in range(2)] == ["Entered", "Moved"]
    with pytest.raises(CertificateError):
        next(events)
    # A run that does not reach the node is not checked there.
    assert run(m.DIAMOND, m.Number(3), **options_of(within)).outcome == m.Total("tripled to 10")
    ranks = dict(WAY)
    within = with_ranks(ranks)
    assert run(m.DIAMOND, m.Number(4), **options_of(within)).outcome == m.Total("halved to 2")
    ranks["join"] = ((4, ()),)
    assert "the rank does not fall from halve" in rank_error(m.DIAMOND, m.Number(4), within)
    text = f"the rank does not fall from think (1, 15) to think (1, 15); {ANOTHER}"
    assert rank_error(THINKING, m.Prompt(), thinking("iterations", [Usage()])) == text


ANOTHER = (
    "the certificate belongs to another machine or to other limits, or an outer run has a limit that the proof did not "
    "include; prove this machine again, with these limits and the outer ones"
)


@cases(
    ("machine", "at", "ranks", "limits", "source", "target"),
    *(
        (m.DIAMOND, m.Number(4), {**WAY, "join": ((level, ()),)}, {}, "halve (2,)", f"join ({level},)")
        for level in (2, 3, 4)
    ),
    # Ranks are compared from left to right.
    (m.CLOCK, m.Tick(), SWAPPED, THREE, "tock (1, 2, 1)", "tick (1, 2, 2)"),
    # A run that is resumed before an entry checks it, and one that is resumed within a node the later ones.
    (m.DIAMOND, gx.Snapshot("triple", m.Odd(3)), FLAT, {}, "triple (2,)", "join (2,)"),
    (m.DIAMOND, gx.Snapshot("split", m.Number(3), entered=True), FLAT, {}, "triple (2,)", "join (2,)"),
)
def test_step_without_a_lower_rank_ends_the_run(
    machine: Any, at: object, ranks: Ranks, limits: Any, source: str, target: str
) -> None:
    text = f"the rank does not fall from {source} to {target}; {ANOTHER}"
    assert rank_error(machine, at, with_ranks(ranks, **limits)) == text


def stop_halving(even: m.Even, limit: gx.Exhausted) -> m.Total:
    return m.Total(str(limit))


def walk(first: Any) -> gx.Graph[m.Even, m.Total]:
    """Return a graph of two nodes."""
    routes = gx.on(m.Sum, m.join) | gx.on(m.Total, gx.END) if first.meters else gx.on(m.Sum, m.join)
    return gx.graph(gx.edges(first, routes) | gx.edges(m.join, gx.on(m.Total, gx.END)), start=first)


WALK, PAID_WALK = walk(m.halve), walk(gx.node(when_spent=stop_halving, meters=[gx.ITERATIONS])(m.halve))


def _ranks() -> Iterator[Rank]:
    """Draw ranks like those of proofs: components 0 and 2 count the remaining iterations, 1 and 3 count nothing."""
    for component in range(4):
        if component % 2:
            yield ((component, ()),)
        else:
            yield from (((component, ("iterations",)), (part, ())) for part in range(3))


@cases("limit", 0, 1, 2)
def test_step_is_taken_only_if_the_rank_falls(limit: int) -> None:
    def value(rank: Rank, iterations: int) -> list[int]:
        return [number for part, budgets in rank for number in (part, *[limit - iterations for _ in budgets])]

    for before, after in itertools.product(_ranks(), repeat=2):
        within = with_ranks({"halve": before, "join": after}, iterations=limit)
        for spent, machine in itertools.product(range(limit + 1), (WALK, PAID_WALK)):
            at = gx.Snapshot("halve", m.Even(2), spent=gx.Spent(iterations=spent))
            costs = int(machine is PAID_WALK)
            if spent + costs > limit:
                continue
            if value(after, spent + costs) < value(before, spent):
                assert run(machine, at, **options_of(within)).outcome == m.Total("halved to 1")
            else:
                with pytest.raises(CertificateError, match="the rank does not fall from halve"):
                    run(machine, at, **options_of(within))


@cases(
    ("machine", "value", "ranks", "name"),
    (m.CLOCK, m.Tick(), TICKING, "iterations"),
    *(
        (m.DIAMOND, m.Number(4), {"split": ((3, (name,)),)}, name)
        for name in ("iterations", "model_calls", "tool_calls", "tokens", "elsewhere")
    ),
)
def test_rank_needs_limits_on_its_budgets(machine: Any, value: object, ranks: Ranks, name: str) -> None:
    assert rank_error(machine, value, with_ranks(ranks, iterations=None)) == (
        f"the rank counts {name}, which has no limit; prove the machine with these limits"
    )


PATIENCE = gx.Meter("patience", 4)


@gx.node(when_spent=m.Stopped)
def think(given: m.Prompt) -> gx.Asks[CallModel | CallTool, m.Prompt]:
    yield from gx.ask(CallModel(CompletionRequest("?")))
    yield from gx.ask(CallTool("look", ""))
    return m.Prompt(given.calls + 1)


THINKING = m.machine_of(gx.node(when_spent=m.Stopped, meters=[PATIENCE])(think))


def thinking(counted: str, usages: Sequence[Usage], **limits: Any) -> RunContext:
    """Return a context whose model calls take these tokens, the last one again and again."""
    left = list(usages)

    def answer(call: CallModel) -> ModelReply:
        return ModelReply("so", usage=left.pop(0) if len(left) > 1 else left[0])

    context = make_run_context({CallModel: answer, CallTool: lambda _: ToolResult("")}, limits=agent_limits(**limits))
    return RunContext(context.handlers, context.limits, proof=Proof({"think": ((1, (counted,)),)}))


PAID = gx.Snapshot("think", m.Prompt(0), spent=gx.Spent(meters={"prompt_tokens": 5, "tokens": 5}))


@cases(
    ("at", "counted", "usages", "limits", "turns", "limit", "tokens"),
    (m.Prompt(), "model_calls", [Usage(1, 1)], {"model_calls": 3}, 3, gx.Exhausted("model_calls", 3, 3), 6),
    (m.Prompt(), "tool_calls", [Usage(1, 1)], {"tool_calls": 3}, 3, gx.Exhausted("tool_calls", 3, 3), 8),
    (m.Prompt(), "tokens", [Usage(1, 1)], {"tokens": 6}, 3, gx.Exhausted("tokens", 6, 6), 6),
    (m.Prompt(), "patience", [Usage(1, 1)], {}, 4, gx.Exhausted("patience", 4, 4), 8),
    (m.Prompt(), "patience", [Usage(1, 1)], {"meters": {PATIENCE: 2}}, 2, gx.Exhausted("patience", 2, 2), 4),
    # Tokens beyond the limit do not affect ranks, and a resumed run with fewer tokens has the lowest one.
    (m.Prompt(), "tokens", [Usage(3, 2)], {"tokens": 9}, 2, gx.Exhausted("tokens", 9, 10), 10),
    (PAID, "tokens", [Usage()], {"tokens": 0}, 0, gx.Exhausted("tokens", 0, 5), 5),
    # A call that reports no tokens counts as one, and lowers the rank.
    (m.Prompt(), "tokens", [Usage()], {"tokens": 3}, 3, gx.Exhausted("tokens", 3, 3), 0),
    (m.Prompt(), "tokens", [Usage(3, 3), Usage()], {"tokens": 8}, 3, gx.Exhausted("tokens", 8, 8), 6),
)
def test_rank_falls_with_any_budget_spent_per_turn(
    at: object, counted: str, usages: list[Usage], limits: Any, turns: int, limit: gx.Exhausted, tokens: int
) -> None:
    result = run_script(lambda: Script(THINKING, at, thinking(counted, usages, **limits)), drivers=LIVE)
    assert result.outcome == m.Stopped(m.Prompt(turns), limit)
    assert reported_tokens(result.spent) == tokens
    assert result.spent["tokens"] == tokens + silent_calls(result.spent)
