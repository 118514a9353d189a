"""A graph compiled for its limits: what the engine looks up at each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeAlias, final
from weakref import WeakKeyDictionary

from graphexec.errors import LimitsError, UndeclaredCountError, UndeclaredEffectError, format_value
from graphexec.kernel.effects import All, Effect, Perform, Request
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import ITERATIONS, Exhausted, Limits, Meter
from graphexec.kernel.node import END, Node

# A run's counters are a list; a slot is a place in it. A charge is a slot, an amount, and the limit, which may be inf.
Charge: TypeAlias = tuple[int, int, float]


@final
class Tariff:
    """The cost of an effect of one class: `charges` before it, what `stops` it, and whether its reply `is_measured`.

    A stop is the slot and limit of a meter that is not prepaid, compared before the effect.
    """

    __slots__ = ("charges", "compared", "is_measured", "stops")

    def __init__(self, kind: type[Effect[Any]], program: Program, *, reserved: bool) -> None:
        slots, limits = program.slots, program.limits
        # What is measured may be exceeded already, and then is the limit to name: it comes first.
        self.charges: tuple[Charge, ...] = tuple(
            (slots[meter.name], amount, math.inf if reserved else _limit(limits, meter))
            for meter, amount in sorted(kind.charges.items(), key=lambda charge: charge[0] not in program.measured)
        )
        self.stops: tuple[tuple[int, float], ...] = tuple(
            (slots[meter.name], limit)
            for meter in kind.measures
            if meter not in kind.charges and (limit := _limit(limits, meter)) < math.inf and not reserved
        )
        # As the stops, whatever this run's own limits are: those of a run around may be others.
        self.compared = tuple(slots[meter.name] for meter in kind.measures if meter not in kind.charges)
        self.is_measured = bool(kind.measures)


def _limit(limits: Limits, meter: Meter) -> float:
    limit = limits[meter]
    return math.inf if limit is None else limit


@final
class Step:
    """A node compiled for the engine: its function, its charges, and the next step (or `None`) of each outcome."""

    def __init__(self, source: Node[Any, Any], program: Program) -> None:
        slots, caps = program.slots, program.caps
        self.name = source.name
        self.function = source.function
        # Any: what it makes is looked at when it is there.
        self.generator: Callable[..., Any] = _perform_function(source) if source.kind == "opaque" else source.function
        self.asks = source.kind != "pure"
        # Iterations come first: of several spent limits, the first one is named.
        meters = sorted(source.meters, key=lambda budget: budget.name != ITERATIONS.name)
        self.entry: tuple[Charge, ...] = tuple(
            (slots[budget.name], 1, math.inf if (cap := caps[budget.name]) is None else cap) for budget in meters
        )
        self.least = source.least
        self.most = source.most
        # The effects of one visit that the limits allow; what a node declares is its own.
        fan_out = program.limits.fan_out
        self.fan_out: float = math.inf if fan_out is None or source.most is not None else fan_out
        self.grace = source.grace or 0.0
        # What the function may return, and what a spent limit makes.
        self.returns = source.returns
        self.spent_outcomes = () if source.spent_outcome is None else (source.spent_outcome,)
        self.when_spent: Callable[[Any, Exhausted], object] | None = source.when_spent
        self.effects = source.effects
        self.tariffs: Mapping[type, Tariff] = {
            kind: Tariff(kind, program, reserved=source.grace is not None) for kind in source.effects
        }
        self.call_parameter = None if source.kind == "opaque" else source.call_parameter
        self.following: dict[type, Step | None] = {}
        self.resets: dict[type, tuple[int, ...]] = {}


def _perform_function(source: Node[Any, Any]) -> Callable[[Any], Generator[Perform, Any, Any]]:
    def perform(value: Any) -> Generator[Perform, Any, Any]:
        outcome = yield Perform(source.name, source.function, value, source.call_parameter)
        return outcome

    return perform


@final
class Program:
    """The steps of a graph, and its counters: the iterations, then the machine's own budgets, then the meters."""

    __slots__ = ("budgets", "caps", "context_types", "limits", "measured", "meters", "names", "own", "slots", "steps")

    def __init__(self, graph: Graph[Any, Any], limits: Limits) -> None:
        check_meters(graph, limits)
        self.limits = limits
        self.budgets = tuple(graph.budgets)
        self.meters = tuple(dict.fromkeys((*graph.meters, *limits.meters)))
        effects = [effect for node in graph.nodes.values() for effect in node.effects]
        self.measured = frozenset(meter for effect in effects for meter in effect.measures)
        # The place of the first meter among the counters.
        self.own = 1 + len(self.budgets)
        self.names = (ITERATIONS.name, *self.budgets, *self.meters)
        self.slots: Mapping[str, int] = {name: slot for slot, name in enumerate(self.names)}
        # The limit of each counter, by name; `None` is no limit.
        self.caps: Mapping[str, float | None] = {
            ITERATIONS.name: limits.iterations,
            **{name: limits.budgets.get(name, limit) for name, limit in graph.budgets.items()},
            **{name: limits[name] for name in self.meters},
            "nested_runs": limits.nested_runs,
        }
        self.steps: Mapping[str, Step] = {node.name: Step(node, self) for node in graph.nodes.values()}
        # The classes of contexts that nodes want.
        self.context_types = tuple(
            dict.fromkeys(node.context_type for node in graph.nodes.values() if node.context_type is not None)
        )
        for edge in graph.edges:
            step = self.steps.get(edge.source)
            # A draft may name nodes that it does not have.
            if step is not None and (edge.target == END.name or edge.target in self.steps):
                step.following[edge.outcome] = None if edge.target == END.name else self.steps[edge.target]
                if edge.resets:
                    step.resets[edge.outcome] = tuple(self.slots[budget.name] for budget in edge.resets)


# What is asked for by a batch of none.
_NOTHING: Effect[Any] = Effect()


def check_request(step: Step, effect: Request, asked: int) -> tuple[int, Effect[Any], Tariff | None]:
    """Return how many effects a node asks for, the first, and the tariff of a single one; refuse undeclared ones."""
    tariffs = step.tariffs
    # As `members_of`, without a call for each effect.
    members = effect.effects if isinstance(effect, All) else (effect,)
    for member in members:
        if type(member) not in tariffs:
            raise UndeclaredEffectError(step.name, effect, [kind.__name__ for kind in step.effects])
    wanted = len(members)
    if step.most is not None and asked + wanted > step.most:
        raise UndeclaredCountError(step.name, asked + wanted, step.least, step.most)
    return wanted, members[0] if members else _NOTHING, tariffs[type(members[0])] if wanted == 1 else None


def check_meters(graph: Graph[Any, Any], limits: Limits) -> None:
    """Raise `LimitsError` if a meter is limited that has the name of a budget of the machine."""
    for name, limit in limits.meters.items():
        if name in graph.budgets:
            written = f"Limits(budgets={{'{name}': {format_value(limit)}}})"
            raise LimitsError(f"{name} is a budget of the machine and no meter; write {written}")


# Nothing in a program refers to its graph, so that a graph and its programs go together.
_programs: WeakKeyDictionary[Graph[Any, Any], dict[Limits, Program]] = WeakKeyDictionary()

# Programs kept of one graph: an executor has one set of limits, a search over limits need not be kept whole.
_KEPT = 8


def compile_program(graph: Graph[Any, Any], limits: Limits) -> Program:
    """Return the program of a graph under these limits. It is compiled once: some 20 µs for five nodes."""
    programs = _programs.get(graph, {})
    program = programs.get(limits)
    if program is None:
        # Copied, not changed: another thread may compile meanwhile, at worst the same.
        kept = list(programs.items())[1 - _KEPT :]
        program = Program(graph, limits)
        _programs[graph] = {**dict(kept), limits: program}
    return program
