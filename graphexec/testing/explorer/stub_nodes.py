"""Explore the table alone on the real engine: stub nodes return every outcome that the nodes declare.

The engine itself charges entries, stops visits and follows edges. A property that holds here for every run therefore
holds for all bodies of the nodes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations
from typing import Any, ClassVar, Literal, TypeAlias

from graphexec.errors import CertificateError
from graphexec.kernel.counters import MeasureError
from graphexec.kernel.effects import All, Batch, CallContext, Effect, OuterRuns, Perform, answers_cut
from graphexec.kernel.events import EVENT_TYPES, Answered, Asked, Cut, Entered, Moved
from graphexec.kernel.execution import Execution
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Exhausted, Limits, Meter, Spent
from graphexec.kernel.node import Node
from graphexec.kernel.program import Proof
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import begin
from graphexec.testing.explorer.abstraction import Refusing, bare, make_counters
from graphexec.testing.explorer.explore import MOST_STATES, Exploration, summarize
from graphexec.testing.explorer.statespace import Events, Search
from graphexec.testing.explorer.stepping import Over
from graphexec.testing.explorer.temporal import charges_of
from graphexec.verify.proof.flow import TransitionKind


class StubEffect(Effect[None]):
    """Stands for an effect: it has the same charges, and its reply reports nothing beyond them.

    If it is `answered`, it has a reply for a cut at the deadline. It costs one of the meter `quota`, if it has one.
    """

    __slots__ = ()
    answered: ClassVar[bool] = False
    quota: ClassVar[str] = ""

    def measure(self, reply: None) -> tuple[float, ...]:  # noqa: ARG002 - no reply reports anything
        """Return 0 for each meter: nothing beyond the charge."""
        return (0,) * len(self.measures)

    def cut(self, exhausted: Exhausted) -> bool | None:  # noqa: ARG002 - any limit
        """Return the reply for a cut effect, if it has one."""
        return self.answered or None


@cache
def _stub_effect(
    charges: frozenset[tuple[Meter, int]], measures: frozenset[Meter], *, answered: bool, quota: str
) -> StubEffect:
    given = {"charges": dict(charges), "measures": tuple(measures), "answered": answered, "quota": quota}
    kind: type[StubEffect] = type("StubEffect", (StubEffect,), {"__slots__": (), **given})
    return kind()


def make_stub_effects(node: Node[Any, Any], limits: Limits) -> list[StubEffect]:
    """Return the stubs of the effects that a node asks for, one for each of its quotas."""
    effects: dict[StubEffect, None] = {}
    quotas = [one.name for one in node.quotas] or [""]
    for effect in node.effects:
        # A limit on fractions is above 0 and never reached, because the stubs report nothing.
        compared = (
            meter
            for meter in effect.measures
            if meter.whole and meter not in effect.charges and limits[meter] is not None
        )
        answered = answers_cut(effect)
        charges, measures = frozenset(effect.charges.items()), frozenset(compared)
        for quota in quotas:
            effects[_stub_effect(charges, measures, answered=answered, quota=quota)] = None
    return list(effects)


def _has_quota(name: str, effect: StubEffect) -> bool:
    return effect.quota == name


def _narrow_fan_out(graph: Graph[Any, Any], limits: Limits) -> Limits:
    """Return the limits with the fan-out lowered to the largest value that makes a difference.

    The limits on meters stop a visit that asks for more than they allow, and the number of effects that no limit counts
    is not part of a state.
    """
    if limits.fan_out is None:
        return limits
    counted = [int(limit) + 1 for node in graph for limit in _limited_meters(node, limits).values()]
    return dataclasses.replace(limits, fan_out=min(limits.fan_out, max([WIDEST, *counted])))


def _limited_meters(node: Node[Any, Any], limits: Limits) -> dict[Meter, float]:
    if node.grace is not None:
        return {}
    meters = [meter for effect in node.effects for meter in (*effect.charges, *effect.measures)]
    meters += [Meter(one.name, one.limit) for one in node.quotas if one.name]
    return {meter: limit for meter in meters if (limit := limits[meter]) is not None}


def _cost(effect: StubEffect, meter: Meter) -> int:
    return 1 if effect.quota == meter.name else effect.charges.get(meter, 0)


# The measure of a node's first visit. A lower one gives the same runs, but shorter ones.
FIRST_MEASURE = 2

# The number of effects of one visit that are explored if no limit on a meter counts them.
WIDEST = 8

# The amount left of each meter and each quota that has a limit.
_Left: TypeAlias = Mapping[Meter, float]

# When the effects of a visit are answered: in time, after the deadline, or not at all, because the deadline cuts them.
# Or the run crashes, before the node is entered or while it waits for its effects, and is resumed. Or an outer run
# refuses the effects, or blocks all that costs something; or the run is resumed with other limits.
Pace: TypeAlias = Literal["in time", "late", "cut", "crash", "crash waiting", "refused", "blocked", "resumed"]

_OUTER: Mapping[Pace, OuterRuns] = {
    "refused": Refusing(None),
    "blocked": Refusing(Exhausted("depth", 0, 0, outer=True)),
}


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction for a stub node: ask for these effects in this order, then return an outcome."""

    outcome: type
    asks: tuple[StubEffect, ...] = ()
    pace: Pace = "in time"
    order: Literal["at once", "one by one"] = "at once"


@dataclass(frozen=True, slots=True)
class StubStep:
    """The engine's step for an instruction: its events, how the visit ended, and what comes next."""

    events: Events
    kind: TransitionKind | None
    then: Snapshot | Over

    @property
    def moved(self) -> Moved | None:
        """The transition taken, if any."""
        return next((event for event in self.events if type(event) is Moved), None)


class StubMachine:
    """A graph with a stub in place of each node, to be run one step at a time."""

    def __init__(
        self,
        graph: Graph[Any, Any],
        limits: Limits,
        proof: Proof | None = None,
        *,
        nested: bool = False,
        refusals: tuple[type[Exception], ...] = (),
    ) -> None:
        self._nested = nested
        self._ends: tuple[type[Exception], ...] = (MeasureError, *refusals)
        self._limits = _narrow_fan_out(graph, limits)
        self._proof = proof
        self._instruction = Instruction(object)
        self._returned = False
        # Of the run before the step, with the last measures.
        self._meters: Mapping[str, float] = {}
        self._spent_amounts = make_counters(self._limits, graph)
        self._effects = {node.name: make_stub_effects(node, limits) for node in graph}
        self._limited = {node.name: _limited_meters(node, limits) for node in graph}
        self.graph: Graph[Any, Any] = Graph(map(self._make_stub, graph), graph.edges, graph.start)

    def start_run(self) -> Snapshot:
        """Return a run before its first node."""
        return begin(self.graph, bare(self.graph[self.graph.start].takes[0]))

    def instructions(self, snapshot: Snapshot) -> Iterator[Instruction]:
        """Yield the instructions for the current node: each outcome, with various effects."""
        node = self.graph[snapshot.node]
        most = self._limits.restarts
        restarts = most is not None and snapshot.spent.restarts <= most
        left = self._remaining(node, snapshot.spent)
        for asks in self._asks(node, left):
            for outcome in node.returns:
                yield Instruction(outcome, asks)
            if self._nested:
                yield Instruction(node.returns[0], asks, "blocked")
                yield Instruction(node.returns[0], asks, "refused")
            if len(asks) > 1:
                yield from self._one_by_one(node, asks, left)
            waits = bool(asks) or node.kind == "opaque"
            if waits and self._limits.seconds is not None:
                yield from (Instruction(outcome, asks, "late") for outcome in node.returns)
                # An effect with a reply for the cut lets the node continue.
                answered = any(effect.answered for effect in asks)
                yield from (Instruction(outcome, asks, "cut") for outcome in node.returns[: None if answered else 1])
            if waits and restarts:
                yield Instruction(node.returns[0], asks, "crash waiting")
        if restarts:
            yield Instruction(node.returns[0], (), "crash")

    def run_step(self, snapshot: Snapshot, instruction: Instruction) -> StubStep:
        """Run the engine from an entry to the next entry, the end, or a crash."""
        if instruction.pace == "crash":
            return StubStep((), None, snapshot.restarted())
        self._instruction, self._returned, self._meters = instruction, False, snapshot.spent.meters
        outer = _OUTER.get(instruction.pace)
        execution = Execution(self.graph, snapshot, self._limits, self._proof, outer=outer)
        path = execution.run(observed=EVENT_TYPES)
        events: list[Any] = []
        kind: TransitionKind | None = None
        try:
            answer: Any = None  # Before the loop; see `RunLoop.follow`.
            while True:
                item: Any = path.send(answer)
                answer = None
                if type(item) is Entered and events:
                    return StubStep(tuple(events), kind, execution.snapshot())
                if type(item) is Asked and instruction.pace == "crash waiting":
                    return StubStep((*events, item), None, execution.snapshot().restarted())
                if not isinstance(item, (Entered, Asked, Answered, Moved)):
                    answer = self._answer(item, snapshot.spent.seconds, execution.deadline)
                    continue
                if type(item) is Moved:
                    kind = "move" if self._returned else "within" if execution.snapshot().entered else "gate"
                events.append(item)
        except StopIteration as end:
            return StubStep(tuple(events), kind, Over("done", type(end.value).__name__))
        except self._ends as error:
            return StubStep(tuple(events), kind, Over("raised", type(error).__name__))
        finally:
            path.close()

    def steps(self, snapshot: Snapshot) -> Iterator[tuple[Instruction, StubStep]]:
        """Yield every distinct step from an entry; instructions with equal results count once."""
        seen: set[Hashable] = set()
        for instruction in self.instructions(snapshot):
            step = self.run_step(snapshot, instruction)
            then = step.then
            outcome = step.moved and type(step.moved.outcome)
            after = then if isinstance(then, Over) else self.state_key(then)
            charged = Counter[str]()
            for event in step.events:
                if type(event) is Asked:
                    charged.update(charges_of((event.effect,)))
            if (key := (step.kind, outcome, after, frozenset(charged.items()))) not in seen:
                seen.add(key)
                yield instruction, step

    def state_key(self, snapshot: Snapshot) -> Hashable:
        """Return the key that distinguishes entries: the node, whether it was charged, and the amounts spent."""
        return snapshot.node, snapshot.entered, self._spent_amounts(snapshot.spent)

    def _make_stub(self, node: Node[Any, Any]) -> Node[Any, Any]:
        spent = node.spent_outcome
        return dataclasses.replace(
            node,
            function=self._ask_effects if node.kind == "asks" else self._return_result,
            effects=node.effects if node.kind == "opaque" else tuple(map(type, self._effects[node.name])),
            quotas=tuple(dataclasses.replace(one, counts=partial(_has_quota, one.name)) for one in node.quotas),
            when_spent=None if spent is None else partial(_leave, spent),
            parameters={},
            call_parameter=None,
            frame=None,
            decreases=None if node.decreases is None else partial(self._next_measure, node.measure.name),
        )

    def _next_measure(self, name: str, _: object) -> int:
        """Return the largest measure that the next visit may have: without a next one, the run ends with an error."""
        last = self._meters.get(name, 0)
        return max(0, int(last) - 2) if last else FIRST_MEASURE

    def _remaining(self, node: Node[Any, Any], spent: Spent) -> _Left:
        limited = self._limited[node.name].items()
        return {meter: max(0, limit - spent[meter]) for meter, limit in limited}

    def _asks(self, node: Node[Any, Any], left: _Left) -> list[tuple[StubEffect, ...]]:
        """Return effects for a visit, of each kind and mixed: the least, the most, as many as allowed, and one more."""
        if node.kind != "asks":
            return [()]
        # Of any number: none, one and two, because a node with a reply for a cut effect may ask again.
        ends = {node.least, 1, 2} if node.most is None else {node.least, node.most}
        most = node.most
        if most is None and (fan_out := self._limits.fan_out) is not None:
            # One more is refused, like any larger number.
            most = max(fan_out + 1, node.least)
            ends |= {fan_out, fan_out + 1}
        effects = self._effects[node.name]
        found: list[tuple[StubEffect, ...]] = []
        for effect in effects:
            rest = _allowance(effect, left)
            counts = ends if rest is None else ends | {rest, rest + 1}
            found += [(effect,) * count for count in sorted(counts) if _may_ask(node.least, most, count)]
        if len(effects) > 1:
            # Two effects may be one of each kind.
            found += [
                asks
                for count in sorted({*ends, max(2, node.least)})
                if _may_ask(node.least, most, count)
                for asks in _mixed(count, effects, left)
            ]
        return list(dict.fromkeys(found))

    def _one_by_one(self, node: Node[Any, Any], asks: tuple[StubEffect, ...], left: _Left) -> Iterator[Instruction]:
        """Yield the same effects one by one, if a limit makes a difference."""
        fan_out = self._limits.fan_out
        if _is_refused(asks, left) or (fan_out is not None and node.most is None and len(asks) > fan_out):
            yield Instruction(node.returns[0], asks, order="one by one")
        if self._limits.seconds is not None:
            yield Instruction(node.returns[0], asks, "cut", "one by one")

    def _return_result(self, _: object) -> object:
        self._returned = True
        return bare(self._instruction.outcome)

    def _ask_effects(self, value: object) -> Generator[Any, Any, object]:
        effects = self._instruction.asks
        if len(effects) == 1 or self._instruction.order == "one by one":
            # `yield from` a tuple takes no replies.
            for effect in effects:  # noqa: UP028
                yield effect
        elif effects:
            yield All(effects)
        return self._return_result(value)

    def _answer(
        self, asked: CallContext[Any] | Batch, now: float, deadline: float | None
    ) -> tuple[object, float, float]:
        """Return the reply, its time, and the seconds that it took."""
        pace = self._instruction.pace
        if pace == "cut":
            at = deadline or 0.0
            return Cut(), at, at - now
        # Late means just after the run's deadline: a node with a grace period may still ask then.
        at = now if pace != "late" else max(now, float(self._limits.seconds or 0))
        if isinstance(asked, Batch):
            return (None,) * len(asked.calls), at, at - now
        return (self._return_result(None) if isinstance(asked.effect, Perform) else None), at, at - now


def _may_ask(least: int, most: int | None, count: int) -> bool:
    return least <= count and (most is None or count <= most)


def _is_refused(asks: Sequence[StubEffect], left: _Left) -> bool:
    return any(
        sum(_cost(effect, meter) for effect in asks) > rest
        or (not rest and any(meter in effect.measures for effect in asks))
        for meter, rest in left.items()
    )


def _allowance(effect: StubEffect, left: _Left) -> int | None:
    """Return how many of these effects the limits allow; `None` if no limit counts them."""
    counts = [int(rest // amount) for meter, rest in left.items() if (amount := _cost(effect, meter))]
    if any(not rest and meter in effect.measures for meter, rest in left.items()):
        return 0
    return min(counts, default=None)


def _mixed(count: int, effects: Sequence[StubEffect], left: _Left) -> Iterator[tuple[StubEffect, ...]]:
    """Yield `count` effects of several kinds, in every order: one and the rest, and as many of each as allowed."""
    for kinds in permutations(effects):
        first, last = kinds[0], kinds[-1]
        if count > 1:
            yield (first,) * (count - 1) + (last,)
            yield (first,) + (last,) * (count - 1)
        asks: tuple[StubEffect, ...] = ()
        rest = dict(left)
        for kind in kinds:
            open_ = count - len(asks)
            allowed = None if kind is last else _allowance(kind, rest)
            several = open_ if allowed is None else min(open_, allowed)
            asks += (kind,) * several
            rest = {meter: amount - several * _cost(kind, meter) for meter, amount in rest.items()}
        yield asks


def explore_table(
    graph: Graph[Any, Any],
    limits: Limits,
    *,
    proof: Proof | None = None,
    nested: bool = False,
    resumed: tuple[Limits, Proof] | None = None,
) -> Exploration:
    """Explore every run that the table allows within `limits`, for all bodies of its nodes.

    A visit asks for up to 8 effects that no limit on a meter counts, and the first measure of a node is 2. With a
    `proof`, the engine holds the runs to it. If they are `nested`, an outer run may refuse any effect, or block what
    costs something, at any visit. A run may be `resumed` before any visit with other limits and their proof, at whose
    `CertificateError` it ends. Takes one step of the engine for each state and outcome. Raises `InputError` for more
    than 100,000 states, and `CertificateError` for another run that is not within its proof.
    """
    machine = StubMachine(graph, limits, proof, nested=nested)
    other = machine if resumed is None else StubMachine(graph, *resumed, refusals=(CertificateError,))

    def expand(place: _Place) -> Iterator[tuple[Instruction, Events, _Place | Over]]:
        driven, snapshot = place
        for instruction, step in driven.steps(snapshot):
            yield instruction, step.events, step.then if isinstance(step.then, Over) else (driven, step.then)
        if driven is not other:
            yield Instruction(object, (), "resumed"), (), (other, snapshot)

    def state_key(place: _Place) -> Hashable:
        driven, snapshot = place
        return driven is other, driven.state_key(snapshot)

    return summarize(graph, Search(graph, expand, state_key, MOST_STATES).run((), (machine, machine.start_run())))


# A run, and the machine that drives it.
_Place: TypeAlias = tuple[StubMachine, Snapshot]


def _leave(outcome: type, _value: object, _exhausted: object) -> object:
    return bare(outcome)
