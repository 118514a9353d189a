"""The table alone on the real engine: every node a puppet that returns whatever it declares.

The engine charges, diverts and follows edges itself, so what holds here of every run holds whatever the bodies of the
nodes are.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from itertools import permutations
from typing import Any, ClassVar, Literal, TypeAlias

from graphexec.errors import InputError, UnhandledOutcomeError
from graphexec.kernel.counters import Ranks
from graphexec.kernel.effects import All, Batch, CallContext, Effect, Perform, answers_cut
from graphexec.kernel.events import Answered, Asked, Entered, Moved
from graphexec.kernel.execution import Cut, Execution
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Exhausted, Limits, Meter, Spent
from graphexec.kernel.node import Node
from graphexec.kernel.snapshot import Snapshot
from graphexec.kernel.stepping import begin
from graphexec.verify.explorer.abstraction import counters, grace_of
from graphexec.verify.explorer.explore import MOST_STATES, Exploration, explored
from graphexec.verify.explorer.search import Search
from graphexec.verify.explorer.statespace import Events
from graphexec.verify.explorer.stepping import Over
from graphexec.verify.explorer.temporal import charges_of
from graphexec.verify.proof.flow import TransitionKind


class PuppetEffect(Effect[None]):
    """A puppet's request in the place of an effect: it costs the same, and its reply reports nothing more.

    If it is `answered`, it has a reply for the deadline that cuts it.
    """

    __slots__ = ()
    answered: ClassVar[bool] = False

    def measure(self, reply: None) -> tuple[float, ...]:  # noqa: ARG002 - none reports anything
        """Return 0 for each meter, of which nothing is taken beyond the charge."""
        return (0,) * len(self.measures)

    def cut(self, exhausted: Exhausted) -> bool | None:  # noqa: ARG002 - whatever cuts it
        """Return a reply if there is one for what is cut."""
        return self.answered or None


@cache
def _puppet_effect(
    charges: frozenset[tuple[Meter, int]], measures: frozenset[Meter], *, answered: bool
) -> PuppetEffect:
    given = {"charges": dict(charges), "measures": tuple(measures), "answered": answered}
    kind: type[PuppetEffect] = type("PuppetEffect", (PuppetEffect,), {"__slots__": (), **given})
    return kind()


def _puppet_effects(node: Node[Any, Any], limits: Limits) -> list[PuppetEffect]:
    effects: dict[PuppetEffect, None] = {}
    for effect in node.effects:
        # A limit on fractions is above 0, and nothing of them is reported.
        compared = (
            meter
            for meter in effect.measures
            if meter.whole and meter not in effect.charges and limits[meter] is not None
        )
        answered = answers_cut(effect)
        effects[_puppet_effect(frozenset(effect.charges.items()), frozenset(compared), answered=answered)] = None
    return list(effects)


def _narrowed(graph: Graph[Any, Any], limits: Limits) -> Limits:
    """Return the limits with a fan-out that is no wider than makes a difference.

    A visit that asks for more than the limits on meters allow is stopped by these, and the number of effects that no
    limit counts is no part of a state.
    """
    if limits.fan_out is None:
        return limits
    counted = [int(limit) + 1 for node in graph for limit in _limited_meters(node, limits).values()]
    return dataclasses.replace(limits, fan_out=min(limits.fan_out, max([WIDEST, *counted])))


def _limited_meters(node: Node[Any, Any], limits: Limits) -> dict[Meter, float]:
    if node.grace is not None:
        return {}
    meters = dict.fromkeys(meter for effect in node.effects for meter in (*effect.charges, *effect.measures))
    return {meter: limit for meter in meters if (limit := limits[meter]) is not None}


# So many effects of one visit are explored though no limit on a meter counts them.
WIDEST = 8

# What the limits leave of each meter that has one.
_Left: TypeAlias = Mapping[Meter, float]

# When what a node asks for is answered: in time, after the deadline, or not at all, since the deadline cut it. Or the
# run crashes, before the node is entered or while it waits for what it asks for, and is taken up again.
Pace: TypeAlias = Literal["in time", "late", "cut", "crash", "crash waiting"]


@dataclass(frozen=True, slots=True)
class Pull:
    """An instruction to a puppet: ask for these effects in this order, then return an outcome."""

    outcome: type
    asks: tuple[PuppetEffect, ...] = ()
    pace: Pace = "in time"
    order: Literal["at once", "one by one"] = "at once"


@dataclass(frozen=True, slots=True)
class Pulled:
    """The engine's step for a pull: its events, how the visit ended, and the next entry or the end of the run."""

    events: Events
    kind: TransitionKind | None
    then: Snapshot | Over

    @property
    def moved(self) -> Moved | None:
        """The transition taken, if one was."""
        return next((event for event in self.events if type(event) is Moved), None)


class Puppets:
    """A graph with a puppet in the place of each node, to be run one step at a time."""

    def __init__(self, graph: Graph[Any, Any], limits: Limits, ranks: Ranks | None = None) -> None:
        self._limits = _narrowed(graph, limits)
        self._ranks = ranks
        self._pull = Pull(object)
        self._returned = False
        self._grace = grace_of(graph)
        self._effects = {node.name: _puppet_effects(node, limits) for node in graph}
        self._limited = {node.name: _limited_meters(node, limits) for node in graph}
        self.graph: Graph[Any, Any] = Graph(map(self._puppet, graph), graph.edges, graph.start)

    def begun(self) -> Snapshot:
        """A run before its first node."""
        return begin(self.graph, bare(self.graph[self.graph.start].takes[0]))

    def pulls(self, snapshot: Snapshot) -> Iterator[Pull]:
        """Everything that the node can be made to do: return each outcome, having asked much or little."""
        node = self.graph[snapshot.node]
        most = self._limits.restarts
        restarts = most is not None and snapshot.spent.restarts <= most
        left = self._remaining(node, snapshot.spent)
        for asks in self._asks(node, left):
            for outcome in node.returns:
                yield Pull(outcome, asks)
            if len(asks) > 1:
                yield from self._one_by_one(node, asks, left)
            waits = bool(asks) or node.kind == "opaque"
            if waits and self._limits.seconds is not None:
                yield from (Pull(outcome, asks, "late") for outcome in node.returns)
                # One that has a reply for this goes on.
                answered = any(effect.answered for effect in asks)
                yield from (Pull(outcome, asks, "cut") for outcome in node.returns[: None if answered else 1])
            if waits and restarts:
                yield Pull(node.returns[0], asks, "crash waiting")
        if restarts:
            yield Pull(node.returns[0], (), "crash")

    def pulled(self, snapshot: Snapshot, pull: Pull) -> Pulled:
        """One step of the engine from an entry to the next, or to the end, or to where it crashed."""
        if pull.pace == "crash":
            return Pulled((), None, snapshot.restarted())
        self._pull, self._returned = pull, False
        execution = Execution(self.graph, snapshot, self._limits, self._ranks)
        path = execution.run(observed=True)
        events: list[Any] = []
        kind: TransitionKind | None = None
        answer: Any = None
        try:
            while True:
                item: Any = path.send(answer)
                answer = None
                if type(item) is Entered and events:
                    return Pulled(tuple(events), kind, execution.snapshot())
                if type(item) is Asked and pull.pace == "crash waiting":
                    return Pulled((*events, item), None, execution.snapshot().restarted())
                if not isinstance(item, (Entered, Asked, Answered, Moved)):
                    answer = self._answer(item, snapshot.spent.seconds, execution.deadline)
                    continue
                if type(item) is Moved:
                    kind = "move" if self._returned else "within" if execution.snapshot().entered else "gate"
                events.append(item)
        except StopIteration as end:
            return Pulled(tuple(events), kind, Over("done", type(end.value).__name__))
        except UnhandledOutcomeError as error:
            return Pulled(tuple(events), kind, Over("raised", type(error).__name__))
        finally:
            path.close()

    def steps(self, snapshot: Snapshot) -> Iterator[tuple[Pull, Pulled]]:
        """Every step from an entry that the engine tells apart: pulls that come to the same are one."""
        seen: set[Hashable] = set()
        for pull in self.pulls(snapshot):
            pulled = self.pulled(snapshot, pull)
            then = pulled.then
            outcome = pulled.moved and type(pulled.moved.outcome)
            after = then if isinstance(then, Over) else self.alike(then)
            charged = Counter[str]()
            for event in pulled.events:
                if type(event) is Asked:
                    charged.update(charges_of((event.effect,)))
            if (key := (pulled.kind, outcome, after, frozenset(charged.items()))) not in seen:
                seen.add(key)
                yield pull, pulled

    def alike(self, snapshot: Snapshot) -> Hashable:
        """Return the part by which entries differ: the node, whether it is paid for, and what is left of the limits."""
        spent = counters(snapshot.spent, self._limits, self.graph.budgets, grace=self._grace)
        return snapshot.node, snapshot.entered, spent

    def _puppet(self, node: Node[Any, Any]) -> Node[Any, Any]:
        spent = node.spent_outcome
        return dataclasses.replace(
            node,
            function=self._ask_effects if node.kind == "asks" else self._return_result,
            effects=node.effects if node.kind == "opaque" else tuple(map(type, self._effects[node.name])),
            when_spent=None if spent is None else partial(_leave, spent),
            settings={},
        )

    def _remaining(self, node: Node[Any, Any], spent: Spent) -> _Left:
        return {meter: max(0, limit - spent[meter]) for meter, limit in self._limited[node.name].items()}

    def _asks(self, node: Node[Any, Any], left: _Left) -> list[tuple[PuppetEffect, ...]]:
        """Return the requests of a visit, of each kind and mixed: the least, the most, the allowed, one more."""
        if node.kind != "asks":
            return [()]
        # Of any number, none, one and two: whoever is answered for what is cut may ask again.
        ends = {node.least, 1, 2} if node.most is None else {node.least, node.most}
        most = node.most
        if most is None and (fan_out := self._limits.fan_out) is not None:
            # One more is refused, and so is all that is wider.
            most = max(fan_out + 1, node.least)
            ends |= {fan_out, fan_out + 1}
        effects = self._effects[node.name]
        found: list[tuple[PuppetEffect, ...]] = []
        for effect in effects:
            rest = _allowance(effect, left)
            counts = ends if rest is None else ends | {rest, rest + 1}
            found += [(effect,) * count for count in sorted(counts) if _may_ask(node.least, most, count)]
        if len(effects) > 1:
            # Where it may ask for two at all, it may ask for one of each.
            found += [
                asks
                for count in sorted({*ends, max(2, node.least)})
                if _may_ask(node.least, most, count)
                for asks in _mixed(count, effects, left)
            ]
        return list(dict.fromkeys(found))

    def _one_by_one(self, node: Node[Any, Any], asks: tuple[PuppetEffect, ...], left: _Left) -> Iterator[Pull]:
        """Yield the same effects one by one, where a limit tells that from all at once."""
        fan_out = self._limits.fan_out
        if _is_refused(asks, left) or (fan_out is not None and node.most is None and len(asks) > fan_out):
            yield Pull(node.returns[0], asks, order="one by one")
        if self._limits.seconds is not None:
            yield Pull(node.returns[0], asks, "cut", "one by one")

    def _return_result(self, _: object) -> object:
        self._returned = True
        return bare(self._pull.outcome)

    def _ask_effects(self, value: object) -> Generator[Any, Any, object]:
        effects = self._pull.asks
        if len(effects) == 1 or self._pull.order == "one by one":
            # `yield from` a tuple takes no replies.
            for effect in effects:  # noqa: UP028
                yield effect
        elif effects:
            yield All(effects)
        return self._return_result(value)

    def _answer(
        self, asked: CallContext[Any] | Batch, now: float, deadline: float | None
    ) -> tuple[object, float, float]:
        """Return the reply, when it comes and how long it took."""
        pace = self._pull.pace
        if pace == "cut":
            at = deadline or 0.0
            return Cut(), at, at - now
        # Late is when the run's time is just over: whoever has a grace may still ask then.
        at = now if pace == "in time" else max(now, float(self._limits.seconds or 0))
        if isinstance(asked, Batch):
            return (None,) * len(asked.calls), at, at - now
        return (self._return_result(None) if isinstance(asked.effect, Perform) else None), at, at - now


def _may_ask(least: int, most: int | None, count: int) -> bool:
    return least <= count and (most is None or count <= most)


def _is_refused(asks: Sequence[PuppetEffect], left: _Left) -> bool:
    return any(
        sum(effect.charges.get(meter, 0) for effect in asks) > rest
        or (not rest and any(meter in effect.measures for effect in asks))
        for meter, rest in left.items()
    )


def _allowance(effect: PuppetEffect, left: _Left) -> int | None:
    """Return how many of these effects the limits allow; `None` if no limit counts them."""
    counts = [int(rest // amount) for meter, rest in left.items() if (amount := effect.charges.get(meter))]
    if any(not rest and meter in effect.measures for meter, rest in left.items()):
        return 0
    return min(counts, default=None)


def _mixed(count: int, effects: Sequence[PuppetEffect], left: _Left) -> Iterator[tuple[PuppetEffect, ...]]:
    """Yield so many effects of several kinds, in every order: one and the rest, and as many of each as there are."""
    for kinds in permutations(effects):
        first, last = kinds[0], kinds[-1]
        if count > 1:
            yield (first,) * (count - 1) + (last,)
            yield (first,) + (last,) * (count - 1)
        asks: tuple[PuppetEffect, ...] = ()
        rest = dict(left)
        for kind in kinds:
            open_ = count - len(asks)
            allowed = None if kind is last else _allowance(kind, rest)
            several = open_ if allowed is None else min(open_, allowed)
            asks += (kind,) * several
            rest = {meter: amount - several * kind.charges.get(meter, 0) for meter, amount in rest.items()}
        yield asks


def bare(kind: type) -> Any:
    """An instance of exactly this class with nothing in it; no code of the class runs, but for an enum's lookup.

    Raises `InputError` for a class that has no instances.
    """
    if issubclass(kind, Enum):
        members: list[Any] = list(kind)
        if not members:
            raise InputError(f"there can be no {kind.__name__}, which has no members; give it one")
        return members[0]
    bases: tuple[Any, ...] = kind.__mro__
    for base in reversed(bases):
        # A class that is built on one of Python's own can be made by that one only.
        try:
            return base.__new__(kind)
        except TypeError:
            continue
    raise InputError(f"there can be no {kind.__name__}, so it is no outcome; declare a class that can be instantiated")


def explore_table(
    graph: Graph[Any, Any], limits: Limits, *, ranks: Ranks | None = None, most_states: int = MOST_STATES
) -> Exploration:
    """Explore every run that the table allows within `limits`, whatever its nodes do.

    Of effects that no limit on a meter counts, a visit asks for up to 8. With `ranks` the engine asserts that they
    fall. Costs one step of the engine for each state and outcome. Raises `InputError` for more than `most_states`, and
    `CertificateError` where a rank does not fall.
    """
    puppets = Puppets(graph, limits, ranks)

    def expand(snapshot: Snapshot) -> Iterator[tuple[Pull, Events, Snapshot | Over]]:
        for pull, pulled in puppets.steps(snapshot):
            yield pull, pulled.events, pulled.then

    return explored(graph, Search(graph, expand, puppets.alike, most_states).space((), puppets.begun()))


def _leave(outcome: type, _value: object, _exhausted: object) -> object:
    return bare(outcome)
