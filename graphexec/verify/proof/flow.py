"""The flow of a machine: the names and whole numbers of its table, without functions and values. Proofs are about it.

A run is a walk through the flow with a counter for each budget and for each meter that effects charge. Each *visit* to
a node ends with one transition of the table; nodes, models and tools cannot change that.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import combinations_with_replacement
from typing import Any, Literal, TypeAlias

from graphexec.errors import repr_fields
from graphexec.kernel.counters import MeasureError
from graphexec.kernel.effects import Effect, NestedRuns, answers_cut
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import ITERATIONS, FrozenMapping, Limits, Meter, is_measure
from graphexec.kernel.node import END, Edge, Node
from graphexec.kernel.tables import measured, reachable

# `move`: the node returned this outcome. `gate`: the node was not entered, because a budget that its entry spends was
# used up. `within`: a limit stopped the visit after its entry was charged.
TransitionKind: TypeAlias = Literal["move", "gate", "within"]

# The charges of one effect class, by meter. A meter that it only measures has 0; its limit is still checked first.
Charges: TypeAlias = tuple[tuple[str, int], ...]

# The limits of runs by name; `None` is no limit.
Known: TypeAlias = Mapping[str, int | float | None]


@dataclass(frozen=True, slots=True)
class Transition:
    """One way in which a visit to `source` can end.

    `spends` are the least amounts of budgets and meters that such a visit spends; so much must be left. A visit to a
    node with `decreases` spends one of its measure, `measure(name)`, of which any amount may be left at the first one;
    a run that visits the node when nothing is left ends with a `MeasureError`. `resets` are
    the budgets that it resets. For a `gate` or a `within`, one of the limits in `causes` has been reached. The visit
    asks for at least `asks` and at most `most` effects (`None`: only a limit bounds them), each with one of the
    `effect_charges`. A `reserved` visit is not charged to the limits, and may take `grace` seconds beyond the run's
    deadline. If it is `answered`, each of its effects has a reply for a cut at the deadline, so the node continues.
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
    effect_charges: tuple[Charges, ...] = ()
    # `None` if effects are charged to the limits.
    grace: int | float | None = None
    answered: bool = False

    @property
    def reserved(self) -> bool:
        """True if no limit stops the effects of such a visit."""
        return self.grace is not None

    @property
    def is_paid(self) -> bool:
        """True if such a visit spends anything but a measure, so that the engine looks at the clock."""
        return any(not is_measure(name) for name, _ in self.spends)

    def largest(self, meter: str) -> int:
        """Return the most that one of its effects charges a meter."""
        return max((amount for kind in self.effect_charges for name, amount in kind if name == meter), default=0)

    def calls(self, meter: str) -> int | None:
        """Return the most that such a visit charges a meter; `None` if its number of effects has no bound."""
        largest = self.largest(meter)
        if not largest:
            return 0
        return None if self.most is None else self.most * largest

    def __str__(self) -> str:
        # An edge of another library's graph has no outcome.
        return f"{self.source} {f'--{self.outcome}-->' if self.outcome else '-->'} {self.target}"


@dataclass(frozen=True)
class Flow:
    """A machine's nodes, transitions and budgets. `budgets` maps the meters that its nodes cost to their limits.

    `measured` are the charged meters for which replies may report more than was charged.
    """

    start: str
    nodes: tuple[str, ...]
    transitions: tuple[Transition, ...]
    budgets: tuple[tuple[str, int | None], ...] = ()
    measured: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return repr_fields(self)

    @cached_property
    def variants(self) -> tuple[Transition, ...]:
        """The transitions, with one variant for each choice of the effects that a visit must ask for.

        Each variant spends what its effects charge: a visit that asks for a model or a tool spends one such call.
        """
        return tuple(choice for one in self.transitions for choice in _choices(one))

    @cached_property
    def resumed(self) -> Flow:
        """The flow of the rests of runs that are resumed at any node.

        Its first transition stands for the end of a visit that had been paid for before.
        """
        begin = "(resumed)"
        first = (Transition(begin, begin, node) for node in self.nodes)
        transitions = (*first, *self.transitions)
        return dataclasses.replace(self, start=begin, nodes=(begin, *self.nodes), transitions=transitions)

    @cached_property
    def _kinds(self) -> list[dict[str, int]]:
        """The charges of each kind of effects, by meter."""
        return [dict(kind) for kind in dict.fromkeys(kind for one in self.transitions for kind in one.effect_charges)]

    @cached_property
    def charged(self) -> tuple[str, ...]:
        """The meters that effects charge, in whole numbers: those that are not measured first, each sorted by name."""
        names = {name for kind in self._kinds for name, amount in kind.items() if amount} - {*self.quotas}
        return tuple(sorted(names, key=lambda name: (name in self.measured, name)))

    @cached_property
    def quotas(self) -> tuple[str, ...]:
        """The budgets that effects cost."""
        return tuple(name for name, _ in self.budgets if any(name in kind for kind in self._kinds))

    @cached_property
    def bounded(self) -> tuple[str, ...]:
        """The meters that effects charge and no reply reports: their charges are known in advance."""
        return tuple(name for name in self.charged if name not in self.measured)

    @cached_property
    def measure_errors(self) -> tuple[Transition, ...]:
        """How a run may end, without a transition, at each node with a measure: with nothing left of it."""
        spent = dict.fromkeys((one.source, name) for one in self.transitions for name, _ in one.spends)
        nodes = [(node, name) for node, name in spent if is_measure(name)]
        return tuple(Transition(node, MeasureError.__name__, END.name, "gate", causes=(name,)) for node, name in nodes)

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """The measures of its nodes: any amount may be left at the first visit."""
        return tuple(dict.fromkeys(name for one in self.measure_errors for name in one.causes))

    def with_measures(self, most: int) -> Flow:
        """Return the flow with a first measure of `most` for each node that has one: the measures are budgets."""
        budgets = ((name, most + 1) for name in self.measures)
        return dataclasses.replace(self, budgets=(*self.budgets, *budgets))

    @property
    def grace(self) -> float:
        """The seconds beyond the limit that reserved visits may take."""
        return max((one.grace for one in self.transitions if one.grace is not None), default=0.0)

    @property
    def digest(self) -> str:
        """The SHA-256 of the flow. It identifies the table, not the bodies of the nodes."""
        from graphexec.kernel.serialization import format_json

        return hashlib.sha256(format_json(self.to_data(), sort_keys=True).encode()).hexdigest()

    def to_data(self) -> dict[str, Any]:
        """Return the flow as JSON data."""
        return asdict(self)

    def factors(self, meter: str) -> dict[str, int]:
        """Return the meters that bound the charges of `meter`, each with a factor: charges <= factor * other charges.

        Every effect that charges `meter` also charges the others. The first entry is `meter` itself, with the factor 1.
        """
        charging = self._charging(meter)
        names = (*self.charged, *self.lasting_quotas)
        others = [name for name in names if name != meter and all(kind.get(name) for kind in charging)]
        return {meter: 1, **{name: max(-(-kind[meter] // kind[name]) for kind in charging) for name in others}}

    def quotas_of(self, meter: str) -> dict[str, int]:
        """Return the quotas that together bound the charges of `meter`, with factors; none if some effect has none."""
        factors = {
            name: [kind[meter] for kind in self._charging(meter) if kind.get(name)] for name in self.lasting_quotas
        }
        found = {name: max(several) for name, several in factors.items() if several}
        return found if self.covers(meter, tuple(found.items())) else {}

    def covers(self, meter: str, limits: Charges) -> bool:
        """Return whether charges of `meter` <= the sum of factor * charges of these `limits`, (name, factor).

        Each effect that charges the meter charges one of them, at least as much by its factor, and no edge resets it.
        """
        if any(name in one.resets for one in self.transitions for name, _ in limits):
            return False
        return all(
            any(factor * kind.get(name, 0) >= kind[meter] for name, factor in limits) for kind in self._charging(meter)
        )

    def most_calls(self, meter: str, numbers: Mapping[str, float | None]) -> float | None:
        """Return the most calls that charge a meter, by its number; `None` if replies may report more of them."""
        return numbers.get(meter, None if meter in self.measured else 0)

    def _charging(self, meter: str) -> list[dict[str, int]]:
        return [kind for kind in self._kinds if kind.get(meter)]

    @property
    def lasting_quotas(self) -> list[str]:
        """The quotas that no edge resets."""
        return [name for name in self.quotas if not any(name in one.resets for one in self.transitions)]


# With more choices of effects than this, only the least amounts are used.
_CHOICES = 20


def _choices(one: Transition) -> Iterator[Transition]:
    asked = {name for kind in one.effect_charges for name, _ in kind}
    entry = {name: amount for name, amount in one.spends if name not in asked}
    kinds = dict.fromkeys(tuple((name, amount) for name, amount in kind if amount) for kind in one.effect_charges)
    asks = 0 if one.kind != "move" or one.reserved else one.asks
    if not asks or len(kinds) <= 1 or math.comb(len(kinds) + asks - 1, asks) > _CHOICES:
        yield one
        return
    for chosen in combinations_with_replacement(kinds, asks):
        charges = Counter[str]()
        for kind in chosen:
            charges.update(dict(kind))
        yield dataclasses.replace(one, spends=(*entry.items(), *sorted(charges.items())))


def nested_runs_of(graph: Graph[Any, Any]) -> tuple[NestedRuns, ...]:
    """Return what the nested runs that the machine's calls start charge, as far as it is known."""
    return NestedRuns.merge(list(dict.fromkeys(graph.find_settings(NestedRuns))))


def bounded_meters(flow: Flow, nested: Sequence[NestedRuns]) -> tuple[str, ...]:
    """Return the meters whose charges are known in advance, including those of nested runs."""
    rows = [row for one in nested for row in one.charges]
    more = [name for name, *counts in rows if name not in flow.charged and counts != [None, None]]
    return (*flow.bounded, *dict.fromkeys(more))


def limits_of(flow: Flow, limits: Limits) -> dict[str, int | float | None]:
    """Return all limits by name, those of the machine's own budgets, too; `None` for no limit. It is asked once."""
    names = ("seconds", "fan_out", "restarts", "depth", "nested_runs", ITERATIONS.name)
    return {
        **limits.meters,
        **{name: getattr(limits, name) for name in names},
        **{name: limits[name] for name in flow.charged},
        **{name: limits.meters.get(name, limit) for name, limit in flow.budgets},
    }


def caps_of(flow: Flow, known: Known) -> dict[str, int | None]:
    """Return the `known` limits that a proof counts, by name: whole numbers, or `None` for no limit."""
    # Any: a limit on charges is a whole number, as charges are.
    whole: Any = known
    return {name: whole[name] for name in (ITERATIONS.name, *flow.charged, *dict(flow.budgets))}


def lower_limits(limits: Limits, meters: Mapping[str, Meter], most: int) -> Limits:
    """Return the limits of a machine with these `meters`, each lowered to at most `most`.

    Seconds, fan-out, restarts and limits on fractions stay as they are.
    """
    caps = {name: limit for name, limit in limits.caps(meters).items() if limit is not None or name in limits.meters}
    lowered = {name: min(limit, most) if isinstance(limit, int) else limit for name, limit in caps.items()}
    iterations = None if limits.iterations is None else min(limits.iterations, most)
    return dataclasses.replace(limits, iterations=iterations, meters=FrozenMapping(lowered))


def is_enabled(transition: Transition, known: Known) -> bool:
    """Return whether the limits `known` enable a transition: a `gate` or a `within` needs one of its causes limited."""
    return transition.kind == "move" or any(known.get(cause) is not None for cause in transition.causes)


def may_stop_anywhere(known: Known) -> bool:
    """Return whether the limits `known` may stop a run at any node that costs something, as an outer run may."""
    return known.get("seconds") is not None or known.get("restarts") is not None


def possible_transitions(flow: Flow, known: Known) -> list[Transition]:
    """Return the transitions that some run within the `known` limits may take, in the order of the table."""
    most = math.inf if (fan_out := known["fan_out"]) is None else fan_out
    allowed = [
        one
        for one in flow.variants
        if is_enabled(one, known) and is_affordable(one, known) and is_timely(one, known["seconds"])
        if one.most is not None or one.asks <= most
    ]
    reached = reachable(flow.start, [(one.source, one.target) for one in allowed])
    return [one for one in allowed if one.source in reached]


def ends_of(flow: Flow, transitions: Sequence[Transition]) -> list[str]:
    """Return the start, and all sources and targets of transitions."""
    ends = (name for one in transitions for name in (one.source, one.target) if name != END.name)
    return list(dict.fromkeys([flow.start, *ends]))


def is_affordable(one: Transition, known: Known) -> bool:
    """Return whether the limits allow the least amounts that a transition spends."""
    return all((cap := known.get(name)) is None or amount <= cap for name, amount in one.spends)


def is_limited(flow: Flow, name: str, known: Known) -> bool:
    """Return whether a limit may stop effects that charge the meter."""
    charges = (dict(kind) for one in flow.transitions for kind in one.effect_charges)
    taken = {other for kind in charges if kind.get(name) for other in kind}
    # A meter that is only measured stops nothing until a reply reports an amount.
    counted = (*flow.charged, *flow.quotas)
    return any(known.get(other) is not None and (other in counted or not known[other]) for other in taken)


def is_timely(one: Transition, seconds: float | None) -> bool:
    """Return whether there is time for a visit. Without any, no entry costs and no effect is asked, except in grace."""
    return seconds != 0 or bool(one.grace) or not (one.is_paid or one.asks)


def flow_of(graph: Graph[Any, Any]) -> Flow:
    """Return the flow of a machine. It is built only from the table that the engine follows."""
    edge_by_outcome = {(edge.source, edge.outcome): edge for edge in _without_idle_resets(graph)}
    rows = ((node, [edge_by_outcome[node.name, outcome] for outcome in node.outcomes]) for node in graph)
    transitions = [one for node, row in rows for one in _visits(node, row)]
    effects = [effect for node in graph for effect in node.effects]
    charged = {meter.name for effect in effects for meter in effect.charges}
    measured = {meter.name for effect in effects for meter in effect.measures}
    return Flow(
        graph.start,
        tuple(graph.nodes),
        tuple(transitions),
        tuple(graph.own.items()),
        tuple(sorted(charged & measured)),
    )


def _without_idle_resets(graph: Graph[Any, Any]) -> Sequence[Edge]:
    """Return the edges without the resets of measures that no visit before them can have set."""
    counting = measured(graph)
    if not counting:
        return graph.edges
    pairs = [(edge.source, edge.target) for edge in graph.edges]
    visited = {node.measure.name: reachable(node.name, pairs) for node in counting}

    def resets(edge: Edge) -> tuple[Meter, ...]:
        return tuple(one for one in edge.resets if one.name not in visited or edge.source in visited[one.name])

    return [dataclasses.replace(edge, resets=resets(edge)) for edge in graph.edges]


def _visits(node: Node[Any, Any], row: Sequence[Edge]) -> Iterator[Transition]:
    entry = {meter.name: 1 for meter in node.meters}
    entered = entry if node.decreases is None else {**entry, node.measure.name: 1}
    asks = node.most != 0
    kinds = tuple(dict.fromkeys(map(_charges, node.effects))) if asks else ()
    if node.quotas:
        kinds = tuple((*kind, *(((one.name, 1),) if one.name else ())) for kind in kinds for one in node.quotas)
    # No limit stops a reserved visit, so nothing has to be left for its effects.
    asked = {} if node.grace is not None or not node.least else _least(kinds, node.least)
    ended = [] if node.grace is not None else _stopping(kinds)
    ended += [*(("fan_out",) if node.most is None else ()), "seconds", "restarts"]
    visit = partial(
        Transition,
        node.name,
        most=node.most,
        effect_charges=kinds,
        grace=node.grace,
        answered=bool(kinds) and all(map(answers_cut, node.effects)),
    )
    for edge in row:
        outcome, resets = edge.outcome.__name__, tuple(meter.name for meter in edge.resets)
        if edge.outcome in node.returns:
            spends = tuple({**entered, **asked}.items())
            yield visit(outcome, edge.target, spends=spends, resets=resets, asks=node.least)
        if edge.outcome is node.spent_outcome:
            if entry:
                causes = (*entry, "seconds", "restarts")
                yield Transition(node.name, outcome, edge.target, "gate", (), resets, causes, grace=node.grace)
            if asks:
                spends = tuple(entered.items())
                yield visit(outcome, edge.target, kind="within", spends=spends, resets=resets, causes=tuple(ended))


def _charges(effect: type[Effect[Any]]) -> Charges:
    charges = {meter.name: amount for meter, amount in effect.charges.items()}
    measured = {meter.name: 0 for meter in effect.measures if meter.name not in charges}
    return (*sorted(charges.items()), *sorted(measured.items()))


def _least(kinds: tuple[Charges, ...], asks: int) -> dict[str, int]:
    names = dict.fromkeys(name for kind in kinds for name, _ in kind)
    least = {name: min(dict(kind).get(name, 0) for kind in kinds) for name in names}
    return {name: asks * amount for name, amount in least.items() if amount}


def _stopping(kinds: tuple[Charges, ...]) -> list[str]:
    charged = {name for kind in kinds for name, amount in kind if amount}
    return sorted({name for kind in kinds for name, _ in kind}, key=lambda name: (name not in charged, name))
