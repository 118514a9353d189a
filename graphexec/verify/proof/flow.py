"""The flow of a machine, which a proof is about: names and whole numbers, no functions and no values.

A run is a walk through it with a counter for each budget and each meter that effects charge. A *visit* to a node ends
with one transition of the table, whatever nodes, models and tools do.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, Literal, TypeAlias

from graphexec.errors import repr_fields
from graphexec.kernel.effects import Effect, NestedRuns, answers_cut
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import ITERATIONS, FrozenMapping, Limits
from graphexec.kernel.node import Node

# `move`: the node returned this outcome.  `gate`: it was not entered, because something that its entry costs was used
# up.  `within`: a limit stopped it after its entry was charged.
TransitionKind: TypeAlias = Literal["move", "gate", "within"]

# What an effect of some class charges, by meter; 0 of a meter that it only measures, so that it is compared before it.
Charges: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Transition:
    """One way in which a visit to `source` can end.

    `spends` are the budgets and meters that such a visit spends, at least so much, which must be left. `resets` are
    full again after it. `causes` are the limits one of which must be spent for a `gate` or a `within`. It asks for
    `asks` effects at least and for `most` at most (`None`: only a limit bounds them), each of one of `kinds`. A
    `reserved` visit is not charged to the limits, and may take `grace` seconds beyond the run's deadline. If it is
    `answered`, each of its effects has a reply for the deadline that cuts it, so that the node goes on.
    """

    source: str
    outcome: str
    target: str
    kind: TransitionKind = "move"
    spends: tuple[tuple[str, int], ...] = ()
    resets: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    asks: int = 0
    most: int | None = 0
    kinds: tuple[Charges, ...] = ()
    # `None`, where effects are charged to the limits.
    grace: float | None = None
    answered: bool = False

    @property
    def reserved(self) -> bool:
        """True if no limit stops the requests of such a visit."""
        return self.grace is not None

    @property
    def charged(self) -> frozenset[str]:
        """The meters that its effects charge."""
        return frozenset(name for kind in self.kinds for name, amount in kind if amount)

    def largest(self, meter: str) -> int:
        """Return the most that one of its effects charges a meter."""
        return max((amount for kind in self.kinds for name, amount in kind if name == meter), default=0)

    def calls(self, meter: str) -> int | None:
        """Return the most that such a visit charges a meter; `None` if its number of effects is open."""
        largest = self.largest(meter)
        if not largest:
            return 0
        return None if self.most is None else self.most * largest

    def __str__(self) -> str:
        return f"{self.source} --{self.outcome}--> {self.target}"


@dataclass(frozen=True)
class Flow:
    """A machine's nodes, transitions and budgets. `budgets` maps the machine's own to their limits.

    `measured` are the charged meters of which replies may report more than was charged.
    """

    start: str
    nodes: tuple[str, ...]
    transitions: tuple[Transition, ...]
    budgets: tuple[tuple[str, int | None], ...] = ()
    measured: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return repr_fields(self)

    @cached_property
    def visits(self) -> tuple[Transition, ...]:
        """The transitions, each once for every choice of the effects that it asks for at least, with what these spend.

        So it is known of a visit that asks for a model or for a tool that it spends a call of the one or the other.
        """
        return tuple(choice for one in self.transitions for choice in _choices(one))

    @property
    def charged(self) -> tuple[str, ...]:
        """The meters that effects charge, in whole numbers: those that are not measured first, each sorted by name."""
        names = frozenset[str]().union(*(one.charged for one in self.transitions))
        return tuple(sorted(names, key=lambda name: (name in self.measured, name)))

    @property
    def bounded(self) -> tuple[str, ...]:
        """The meters that effects charge and no reply reports: what a run takes of them is known beforehand."""
        return tuple(name for name in self.charged if name not in self.measured)

    @property
    def grace(self) -> float:
        """The seconds beyond the limit that reserved visits may take."""
        return max((one.grace for one in self.transitions if one.grace is not None), default=0.0)

    @property
    def digest(self) -> str:
        """The SHA-256 of the flow, which tells machines apart (not the bodies of their nodes)."""
        from graphexec.kernel.serialization import format_json

        return hashlib.sha256(format_json(asdict(self), sort_keys=True).encode()).hexdigest()

    def factors(self, meter: str) -> dict[str, int]:
        """Return the meters that bound a charged one, with a factor: no more is charged than so many times the other.

        Of each effect that charges it, the charge of the other is multiplied. Its own factor is 1, and comes first.
        """
        kinds = [dict(kind) for kind in dict.fromkeys(kind for one in self.transitions for kind in one.kinds)]
        charging = [kind for kind in kinds if kind.get(meter)]
        others = [name for name in self.charged if name != meter and all(kind.get(name) for kind in charging)]
        return {meter: 1, **{name: max(-(-kind[meter] // kind[name]) for kind in charging) for name in others}}


# Of more choices of effects, what the cheapest spend is all that is known.
_CHOICES = 20


def _choices(one: Transition) -> Iterator[Transition]:
    asked = {name for kind in one.kinds for name, _ in kind}
    entry = {name: amount for name, amount in one.spends if name not in asked}
    kinds = dict.fromkeys(tuple((name, amount) for name, amount in kind if amount) for kind in one.kinds)
    asks = 0 if one.kind != "move" or one.reserved else one.asks
    if not asks or len(kinds) <= 1 or math.comb(len(kinds) + asks - 1, asks) > _CHOICES:
        yield one
        return
    for chosen in combinations_with_replacement(kinds, asks):
        charges = Counter[str]()
        for kind in chosen:
            charges.update(dict(kind))
        yield dataclasses.replace(one, spends=(*entry.items(), *sorted(charges.items())))


def nested_runs_of(graph: Graph[Any, Any]) -> NestedRuns | None:
    """Return what the runs charge that the machine's calls start, as far as it is known."""
    settings = dict.fromkeys(one for node in graph for one in node.bound if isinstance(one, NestedRuns))
    return NestedRuns.merge(list(settings))


def bounded_meters(flow: Flow, nested: NestedRuns | None) -> tuple[str, ...]:
    """Return the meters of which it is known beforehand what a run takes, and what the runs within it take."""
    rows = () if nested is None else nested.charges
    more = [name for name, *counts in rows if name not in flow.charged and counts != [None, None]]
    return (*flow.bounded, *more)


def caps_of(flow: Flow, limits: Limits) -> dict[str, int | None]:
    """The limit of each budget and meter that a proof counts, in whole numbers, by name; `None` is no limit."""
    # What is charged is whole, and so is its limit.
    charged: dict[str, Any] = {name: limits[name] for name in flow.charged}
    own = {name: limits.budgets.get(name, limit) for name, limit in flow.budgets}
    return {ITERATIONS.name: limits.iterations, **charged, **own}


def limits_of(flow: Flow, limits: Limits) -> dict[str, float | None]:
    """The limit of everything, by name: what `caps_of` counts, and what no counter of whole numbers stands for."""
    names = ("seconds", "fan_out", "restarts", "depth", "nested_runs")
    uncounted: dict[str, float | None] = {name: getattr(limits, name) for name in names}
    return {**limits.meters, **uncounted, **caps_of(flow, limits)}


def lower_limits(limits: Limits, budgets: Mapping[str, int | None], most: int) -> Limits:
    """Return the limits with none of those that are set above `most`; `budgets` are the machine's own, by name.

    Seconds, fan-out, restarts and what is counted in fractions stay as they are.
    """

    def at_most(limit: int | None) -> int | None:
        return None if limit is None else min(limit, most)

    meters = {name: min(limit, most) if isinstance(limit, int) else limit for name, limit in limits.meters.items()}
    return dataclasses.replace(
        limits,
        iterations=at_most(limits.iterations),
        meters=FrozenMapping(tuple(meters), tuple(meters.values())),
        budgets={name: at_most(limits.budgets.get(name, limit)) for name, limit in budgets.items()},
    )


def is_enabled(transition: Transition, known: Mapping[str, float | None]) -> bool:
    """Return whether there is such a transition under the limits `known`: a gate or a `within` needs a limit."""
    return transition.kind == "move" or any(known.get(cause) is not None for cause in transition.causes)


def possible_transitions(flow: Flow, limits: Limits) -> list[Transition]:
    """Return the transitions that some run within these limits may take, in the order of the table."""
    known, caps = limits_of(flow, limits), caps_of(flow, limits)
    most = math.inf if limits.fan_out is None else limits.fan_out
    following: dict[str, list[Transition]] = {}
    for one in flow.visits:
        if is_enabled(one, known) and is_affordable(one, caps) and (one.most is not None or one.asks <= most):
            following.setdefault(one.source, []).append(one)
    reached = {flow.start}
    waiting = [flow.start]
    while waiting:
        for one in following.get(waiting.pop(), ()):
            if one.target not in reached:
                reached.add(one.target)
                waiting.append(one.target)
    return [one for one in flow.visits if one.source in reached and one in following.get(one.source, ())]


def is_affordable(one: Transition, caps: Mapping[str, float | None]) -> bool:
    """Return whether the limits allow what a transition spends at least."""
    return all((cap := caps.get(name)) is None or amount <= cap for name, amount in one.spends)


def flow_of(graph: Graph[Any, Any]) -> Flow:
    """Return the flow of a machine. It is made of the table that the engine follows, and of nothing else."""
    ways = {(edge.source, edge.outcome): edge for edge in graph.edges}
    transitions: list[Transition] = []
    for node in graph:
        for outcome in node.outcomes:
            edge = ways.get((node.name, outcome))
            # A draft may lack it, or lead to a node that it does not have.
            if edge is None:
                continue
            resets = tuple(budget.name for budget in edge.resets)
            transitions += [
                dataclasses.replace(way, target=edge.target, resets=resets) for way in _visits(node, outcome)
            ]
    effects = [effect for node in graph for effect in node.effects]
    charged = {meter.name for effect in effects for meter in effect.charges}
    measured = {meter.name for effect in effects for meter in effect.measures}
    return Flow(
        graph.start,
        tuple(graph.nodes),
        tuple(transitions),
        tuple(graph.budgets.items()),
        tuple(sorted(charged & measured)),
    )


def _visits(node: Node[Any, Any], outcome: type) -> Iterator[Transition]:
    entry = {budget.name: 1 for budget in node.meters}
    here = Transition(node.name, outcome.__name__, "", grace=node.grace)
    kinds = () if node.most == 0 else tuple(dict.fromkeys(map(_charges, node.effects)))
    answered = bool(kinds) and all(map(answers_cut, node.effects))
    asking = dataclasses.replace(here, most=node.most, kinds=kinds, answered=answered)
    if outcome in node.returns:
        # No limit stops what is reserved, and so none has to be left for it.
        asked = {} if node.grace is not None else _least(kinds, node.least)
        yield dataclasses.replace(asking, spends=tuple({**entry, **asked}.items()), asks=node.least)
    if outcome is node.spent_outcome:
        if entry:
            yield dataclasses.replace(here, kind="gate", causes=(*entry, "seconds", "restarts"))
        if node.most != 0:
            causes = [] if node.grace is not None else _stopping(kinds)
            causes += [*(("fan_out",) if node.most is None else ()), "seconds", "restarts"]
            yield dataclasses.replace(asking, kind="within", spends=tuple(entry.items()), causes=tuple(causes))


def _charges(effect: type[Effect[Any]]) -> Charges:
    charges = {meter.name: amount for meter, amount in effect.charges.items()}
    measured = {meter.name: 0 for meter in effect.measures if meter.name not in charges}
    return (*sorted(charges.items()), *sorted(measured.items()))


def _least(kinds: tuple[Charges, ...], asks: int) -> dict[str, int]:
    names = dict.fromkeys(name for kind in kinds for name, _ in kind)
    least = {name: asks * min(dict(kind).get(name, 0) for kind in kinds) for name in names}
    return {name: amount for name, amount in least.items() if amount}


def _stopping(kinds: tuple[Charges, ...]) -> list[str]:
    charged = {name for kind in kinds for name, amount in kind if amount}
    measured = {name for kind in kinds for name, _ in kind} - charged
    return [*sorted(charged), *sorted(measured)]
