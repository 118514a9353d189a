"""Random machines: what the prover says and what the engine does are the same.

The prover looks at the table, the explorer drives the engine; neither knows of the other.
"""

import dataclasses
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from graphexec import Exhausted, Limits, errors, verify
from graphexec.effects import COST, MODEL_CALLS, TOKENS, TOOL_CALLS, agent_limits
from graphexec.kernel.meters import FrozenMapping
from graphexec.testing.explorer.stub_nodes import explore_table
from tests.checks.random_graphs import METERS, DrawnEdge, DrawnGraph, DrawnNode, Errand
from tests.checks.strategies import drawn_graphs
from tests.parameters import examples
from tests.verify.execution import VisitingMachine, adversary, execute
from tests.verify.proofs import require, witness_of

# More transitions than the longest proven run of these machines has. A run that never ends is followed as far at
# length; otherwise a shorter way, in which its limits, which are small, are spent long since.
STEPS, FEWER = 1_200, 300

# Many random machines are invalid.
FREELY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@st.composite
def some_limits(draw: st.DrawFn) -> Limits:
    """Few of each, or none: what a limit does shows early. The machine's own budgets may lose theirs."""

    def few(most: int) -> int | None:
        return draw(st.none() | st.integers(0, most))

    return Limits(
        {
            MODEL_CALLS: few(3),
            TOOL_CALLS: few(3),
            TOKENS: few(3),
            COST: draw(st.sampled_from([None, None, 1.5])),
            **{meter: few(4) for meter in METERS},
        },
        iterations=draw(st.sampled_from([0, 1, 2, 3, None])),
        fan_out=few(2),
        seconds=draw(st.sampled_from([None, None, 5, 0])),
        restarts=draw(st.sampled_from([None, None, None, 0, 1])),
    )


def agree(
    drawn: DrawnGraph, limits: Limits, seed: int = 0, *, others: Limits | None = None, endless: int = FEWER
) -> verify.Verdict:
    """The engine confirms every verdict of the prover, also for runs that are resumed with other limits."""
    graph = drawn.graph
    verdict = graph.verify(limits)
    if verdict.certificate is not None:
        verify.check(verdict.certificate, graph)
        proof, bounds = verdict.proof, verdict.certificate.bounds
        number = require(bounds.transitions.number)
        # A proof for these limits alone has no closed form.
        assert bounds.transitions.value is None or number <= bounds.transitions.value
        found = explore_table(graph, limits, proof=proof)
        assert found.endless is None
        longest = require(found.longest)
        assert longest == number if bounds.transitions.exact else longest <= number
        if proof is not None and proof.anywhere:
            nested = explore_table(graph, limits, proof=proof, nested=True)
            assert nested.endless is None
            # A proof by states holds the run to the bound outside of others.
            assert proof.ranks is None or longest <= require(nested.longest) <= require(proof.steps())
        other = None if others is None else graph.verify(others).proof
        if others is not None and other is not None and other.ranks is not None:
            assert explore_table(graph, limits, proof=proof, resumed=(others, other)).endless is None
        charges = require(found.charges)
        assert charges.keys() == bounds.meters.keys()
        for name, bound in bounds.meters.items():
            reached = charges[name]
            assert bound.number is None or reached <= bound.number, name
            assert not bound.exact or reached == bound.number, name
        rolled = random.Random(seed)
        run = adversary(graph, limits, rolled.choice, STEPS, proof=proof)
        assert len(run) <= number
    for finding in verdict.findings:
        if finding.severity == "error" and finding.code != "GX004":
            if finding.code == "GX013":
                # What nothing bounds is within a node, which the explorer does not have ask without end.
                assert limits.fan_out is None
                continue
            if finding.code == "GX017":
                # No run that never ends was found here; another finding may have one.
                alone = all(one.code == "GX017" for one in verdict.findings if one.severity == "error")
                # No crash is certain, so a loop behind one is undecided, too.
                assert not alone or limits.restarts is not None or explore_table(graph, limits).endless is None
                continue
            witness = witness_of(finding)
            if witness.loop and finding.code != "GX012":
                assert execute(graph, witness, endless) == endless
                assert explore_table(graph, witness.limits).endless is not None
    return verdict


def machine(*nodes: DrawnNode) -> DrawnGraph:
    return DrawnGraph(nodes)


def red(target: int | None = None, *others: DrawnEdge, **options: Any) -> DrawnNode:
    """Return a node with a red edge to this node, or to the end, and with these others."""
    return DrawnNode((DrawnEdge("Red", target), *others), **options)


BACK = DrawnEdge("Green", 0)
ASK: Any = {"asks": "models", "least": 1, "most": 1}
USE: Any = {"asks": "tools", "least": 1, "most": 1}
FETCH: Any = {"asks": "errands", "least": 1, "most": 1}
GOLD, SILVER = Errand((("gold", 3),)), Errand((("silver", 1),))
ITERATIONS, BOTH = ("iterations",), ("iterations", "alpha")

# A batch of two model calls was let through a limit of one token: each call counts as one at least.
BATCH_ABOVE_TOKENS = machine(red(asks="models", least=1, most=2))
# It asks for two at once with one left, is stopped, and starts again: this runs forever.
ASKS_FOR_TWO = machine(red(asks="models", least=1, most=2, spent=0))
# It need not ask, may spend the last token the first time, and is then stopped forever.
MAY_ASK = machine(red(1, asks="models", least=0, most=1, spent=0), red(None, BACK, meters=ITERATIONS))
# Without a tool call, the inner loop is impossible: its form was negative, and the bound too small.
NO_ROUND = machine(red(1), red(2), red(3, BACK, **USE), red(None, DrawnEdge("Green", 2), meters=BOTH))
# Without iterations the second node is unreachable, so it asks for nothing; the form does not hold for other limits.
NEVER_THERE = machine(
    red(1, DrawnEdge("Green", 0, ITERATIONS), meters=BOTH),
    red(None, DrawnEdge("Green", 0, ("alpha",)), meters=ITERATIONS, asks="models", declared=False),
)
# The form has a name with a dot.
EMBEDDED = machine(red(inner=(red(None, BACK, meters=ITERATIONS),), own=ITERATIONS))
# What is reserved uses up what the next node is stopped for; which leads back, forever.
RESERVED_SPENDS = machine(
    red(1, asks="models", least=0, most=1, grace=0.0), red(asks="models", least=0, most=1, spent=0)
)
# Two nodes that are gated by the clock alone are behind one that has to ask when time is up; without a grace it cannot.
GATED = [
    machine(
        red(1, **USE, grace=1.0),
        red(meters=ITERATIONS, spent=2),
        red(3, **USE, grace=grace),
        red(meters=ITERATIONS, spent=4),
        red(3),
    )
    for grace in (0.0, 1.0)
]
# When the last node is cut, its grace is over, and so is that of the one that comes again: it asks for nothing more.
GRACE_AFTER_GRACE = machine(
    red(1, meters=BOTH),
    red(2),
    red(3, **ASK, grace=1.0),
    red(4, meters=("alpha",)),
    red(asks="models", least=0, most=1, spent=1, grace=1.0),
)
# The way to the loop is not by the clock: the node that has to ask cannot, once the one before it was cut.
CUT_BEFORE_IT_ASKS = machine(
    red(1),
    red(2, asks="models", least=0, most=1, spent=3, grace=1.0),
    red(3),
    red(4, **ASK, grace=1.0),
    red(meters=ITERATIONS, spent=4),
)
# Its first node is never entered, and asks for models without end: the certificate proved no number of calls.
NEVER_ENTERED = machine(
    DrawnNode((DrawnEdge("Green", 1), DrawnEdge("Red", 2, ("alpha",))), BOTH, "models", most=1, declared=False),
    DrawnNode((DrawnEdge("Blue", 2),), meters=("alpha", "beta"), spent=1),
    DrawnNode((DrawnEdge("Green", None),), **USE, spent=1, grace=10.0),
)
# Its last node, which asks without end, is behind a call for which nothing is left.
BEHIND_A_CALL = machine(
    red(1, meters=ITERATIONS),
    red(2, DrawnEdge("Blue", 0), meters=("alpha",), spent=1),
    red(3, **ASK),
    red(asks="models", least=2, most=2, declared=False),
)
# Without time it asks for nothing, although it may return.
NO_TIME = machine(red(asks="models", most=2, declared=False))
# Gold is charged by the first node or by the last, which is reached only if the first one charged silver instead.
GOLD_ONCE = machine(
    red(1, **FETCH, errands=(GOLD, SILVER)), red(**FETCH, spent=2, errands=(SILVER,)), red(**FETCH, errands=(GOLD,))
)


# Only an outer limit stops its first node, after which there is one step more.
STOPPED_FROM_OUTSIDE = DrawnGraph(
    (
        DrawnNode((DrawnEdge("Red", None),), asks="models", least=1, most=1, spent=1),
        DrawnNode((DrawnEdge("Red", None),)),
    )
)


@FREELY
@example(drawn=STOPPED_FROM_OUTSIDE, limits=Limits(), seed=0)
@example(drawn=NO_TIME, limits=Limits(iterations=None, seconds=0, fan_out=2), seed=0)
@example(drawn=GOLD_ONCE, limits=Limits({METERS[1]: 1}, iterations=None), seed=0)
@example(drawn=BEHIND_A_CALL, limits=agent_limits(iterations=1, model_calls=0, fan_out=None), seed=0)
@example(drawn=NEVER_ENTERED, limits=agent_limits(iterations=0, seconds=5, model_calls=1, fan_out=None), seed=0)
@example(drawn=CUT_BEFORE_IT_ASKS, limits=Limits(iterations=0, seconds=5, fan_out=None), seed=0)
@example(drawn=GRACE_AFTER_GRACE, limits=Limits(iterations=1, seconds=5), seed=0)
@example(drawn=RESERVED_SPENDS, limits=agent_limits(iterations=0, tokens=1), seed=0)
@example(drawn=GATED[0], limits=Limits(iterations=None, seconds=5), seed=0)
@example(drawn=GATED[1], limits=Limits(iterations=None, seconds=5), seed=0)
@example(drawn=NO_ROUND, limits=agent_limits(iterations=0, tool_calls=0), seed=0)
@example(drawn=BATCH_ABOVE_TOKENS, limits=agent_limits(iterations=0, tokens=1), seed=0)
@example(drawn=ASKS_FOR_TWO, limits=agent_limits(iterations=0, tokens=1), seed=0)
@example(drawn=MAY_ASK, limits=agent_limits(iterations=1, tokens=1), seed=0)
@given(drawn=drawn_graphs(), limits=some_limits(), seed=st.integers(0, 9))
def test_the_prover_and_the_engine_agree(drawn: DrawnGraph, limits: Limits, seed: int) -> None:
    event(agree(drawn, limits, seed).status)


@FREELY
@example(drawn=NO_ROUND, limits=agent_limits(iterations=1, tool_calls=1), others=[0] * 8)
@example(drawn=NEVER_THERE, limits=Limits(iterations=0, fan_out=0), others=[2, 1, *[0] * 6])
@example(drawn=EMBEDDED, limits=Limits(iterations=0), others=[0] * 8)
@given(drawn=drawn_graphs(), limits=some_limits(), others=st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_a_closed_form_holds_for_every_limit(drawn: DrawnGraph, limits: Limits, others: list[int]) -> None:
    """A form that was chosen for some numbers bounds the runs with other numbers for the same limits."""
    left = iter(others)

    def another(limit: int | None) -> int | None:
        return None if limit is None else next(left)

    # A limit on fractions is in no form.
    other_limits = dataclasses.replace(
        limits,
        iterations=another(limits.iterations),
        fan_out=another(limits.fan_out),
        meters=FrozenMapping(
            {name: next(left) if isinstance(limit, int) else limit for name, limit in limits.meters.items()}
        ),
    )
    chosen = drawn.graph.verify(limits).certificate
    other = drawn.graph.verify(other_limits).certificate
    event(f"proved: {chosen is not None and other is not None}")
    if chosen is None or other is None:
        return
    found = explore_table(drawn.graph, other_limits)
    meters = [(require(found.charges)[name], bound) for name, bound in chosen.bounds.meters.items()]
    for reached, bound in ((require(found.longest), chosen.bounds.transitions), *meters):
        if bound.form is not None:
            # The budgets of an embedded machine have dots in their names.
            named = {name.replace(".", "_"): limit for name, limit in other.limits.items()}
            assert reached <= eval(bound.form.replace(".", "_"), {"__builtins__": {}}, named), bound.form


class Refusing:
    """Outer runs that refuse a charge whenever they like: at once, at their deadline, or for a limit of their own."""

    def __init__(self, rolled: random.Random, meters: Iterable[str]) -> None:
        way = rolled.choice(["depth", "seconds", *meters])
        self.refusal = Exhausted("depth", 0, 0, outer=True) if way == "depth" else None
        self.seconds = 0.0 if way == "seconds" else None
        self.limits = (way,)
        self._rolled, self._allowed = rolled, rolled.choice([0.0, 0.5])

    def charge(self, amounts: Mapping[str, float], stops: Collection[str]) -> Exhausted | None:
        mine = {*self.limits} & {*amounts, *stops}
        return Exhausted(self.limits[0], 0, 0, outer=True) if mine and self._rolled.random() >= self._allowed else None

    def settle(self, amounts: Mapping[str, float]) -> None: ...


def count_elsewhere(drawn: DrawnGraph, limits: Limits, others: Limits, seed: int) -> str:
    """Run a proved machine within others that refuse, and resumed with other limits; return whether it ends."""
    graph, rolled = drawn.graph, random.Random(seed)
    verdict, other = graph.verify(limits), graph.verify(others)
    if verdict.bounds is None or verdict.proof is None:
        return "not proved"
    machine = VisitingMachine(graph, limits, verdict.proof)
    most, steps = require(verdict.bounds.transitions.number), require(verdict.proof.steps())
    how = "ends"
    for _ in range(3):
        try:
            visits = machine.visits(machine.start_run(), rolled.choice, Refusing(rolled, graph.effect_meters))
            assert sum(1 for _ in islice(visits, steps + 1)) < steps
        except errors.CertificateError:
            how = "is refused"
            assert verdict.proof.ranks is None or not verdict.proof.anywhere
    places = [machine.start_run(), *islice(machine.visits(machine.start_run(), rolled.choice), rolled.randint(0, 6))]
    if other.bounds is not None and other.proof is not None:
        anywhere = other.proof.ranks is not None and other.proof.anywhere
        bound = other.bounds.transitions_when_resumed if anywhere else other.bounds.transitions
        more = int(require(bound.number))
        resumed = VisitingMachine(graph, others, other.proof)
        # The steps before are those of the other proof.
        assert len(places) - 1 < most
        try:
            # Each visit but the last ends with a transition to the next.
            assert sum(1 for _ in islice(resumed.visits(places[-1], rolled.choice), more + 1)) < more
        except errors.CertificateError:
            how = "is refused"
            assert not anywhere
    return how


# Any limit that stops its only node leads back to it.
AGAIN = machine(red(meters=ITERATIONS, spent=0))


# Without time, the first node spends no budget, so that more is left for the loop behind it than with time.
MORE_LEFT = machine(red(1, meters=("beta",), spent=1), red(2, meters=("beta",)), red(3), red(1))
# It asks before it goes on.
ASKING = DrawnGraph(
    (DrawnNode((DrawnEdge("Red", 1),), asks="models", least=1, most=1), DrawnNode((DrawnEdge("Red", None),)))
)


@FREELY
@example(drawn=AGAIN, limits=Limits(), others=Limits(iterations=1), seed=0)
@example(drawn=MORE_LEFT, limits=Limits(seconds=0), others=Limits(), seed=0)
@example(drawn=STOPPED_FROM_OUTSIDE, limits=Limits(), others=Limits(), seed=0)
@example(drawn=ASKING, limits=Limits(), others=Limits(iterations=1), seed=0)
@given(drawn=drawn_graphs(), limits=some_limits(), others=some_limits(), seed=st.integers(0, 99))
def test_bound_holds_outside_of_the_proof(drawn: DrawnGraph, limits: Limits, others: Limits, seed: int) -> None:
    event(count_elsewhere(drawn, limits, others, seed))


@pytest.mark.slow
def test_bounds_hold_outside_of_the_proof() -> None:
    """30,000 of these machines kept their bounds."""
    ways: Counter[str] = Counter()

    @settings(FREELY, max_examples=examples(3_000, 500))
    @given(drawn=drawn_graphs(most=6), limits=some_limits(), others=some_limits(), seed=st.integers(0, 99))
    def each(drawn: DrawnGraph, limits: Limits, others: Limits, seed: int) -> None:
        ways[count_elsewhere(drawn, limits, others, seed)] += 1

    each()
    assert min(ways["ends"], ways["is refused"]) > ways.total() // 20, ways


@pytest.mark.slow
def test_prover_and_engine_agree() -> None:
    """As precise as an exhaustive search: 98 of 100 machines that end are proved, and none is refuted."""
    statuses: Counter[str] = Counter()
    number = examples(1_500, 300)

    @settings(FREELY, max_examples=number)
    @given(drawn=drawn_graphs(most=6), limits=some_limits(), others=some_limits(), seed=st.integers(0, 9))
    def each(drawn: DrawnGraph, limits: Limits, others: Limits, seed: int) -> None:
        verdict = agree(drawn, limits, seed, others=others, endless=STEPS)
        unbounded = any(finding.code == "GX013" for finding in verdict.findings)
        ends = verdict.proved or (not unbounded and explore_table(drawn.graph, limits).endless is None)
        statuses[f"{verdict.status}, and {'ends' if ends else 'may not end'}"] += 1

    each()
    assert statuses.total() >= number
    # Each verdict is really seen.
    assert min(statuses["proved, and ends"], statuses["refuted, and may not end"]) >= number * 67 // 500, statuses
    assert not statuses["refuted, and ends"]
    assert statuses["unproved, and ends"] <= number // 50, statuses
