"""A graph compiled for its limits: what the engine looks up and makes at each step, and the ranks of a certificate.

A rank proves that a run ends: its value falls at every step. The rank of a node is a sequence of levels; each level
contributes the number of the node's component and the remaining amounts of the level's meters. Values are compared
from left to right. Natural numbers cannot fall forever (Floyd, 1967; lexicographic form: Alias et al., SAS 2010).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from typing import Any, TypeAlias, TypeVar, final

from graphexec.errors import (
    Fault,
    GraphError,
    InputError,
    NodeError,
    UndeclaredEffectError,
    UndeclaredOutcomeError,
    format_value,
)
from graphexec.kernel.effects import Effect, Perform, Request, members_of
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import ITERATIONS, Exhausted, Limits
from graphexec.kernel.node import END, Node
from graphexec.kernel.tables import measured, reachable

T = TypeVar("T")

# `plan: ((3, ("iterations",)), (1, ()))`: component 3, ordered by the remaining iterations; inside it, part 1.
Level: TypeAlias = tuple[int, tuple[str, ...]]
Rank: TypeAlias = tuple[Level, ...]
Ranks: TypeAlias = Mapping[str, Rank]


@final
@dataclass(frozen=True, slots=True)
class Proof:
    """What the engine holds a run to, from a certificate: something that falls at each step.

    That is the rank of the node; where a search of the states proved that runs end, and in a nested run, which an outer
    run may stop anywhere, it is the rest of the `steps` that a run takes at most; in a resumed run, which may have had
    other limits before, of the `steps_when_resumed`. Without ranks, a run must begin within its limits. If the proof
    does not hold `anywhere`, no outer run may have a limit that the run itself does not have; without ranks, none that
    could refuse it anything.
    """

    ranks: Ranks | None
    steps: Callable[[], int | None] = lambda: None
    anywhere: bool = True
    steps_when_resumed: Callable[[], int | None] = lambda: None

    def count_steps(self, *, resumed: bool, nested: bool) -> int | None:
        """Return the steps that a run takes at most from here on; `None` if its ranks alone have to fall."""
        if resumed:
            # No snapshot has the limits of the run before.
            return self.steps_when_resumed()
        return self.steps() if self.ranks is None or nested else None


# The name of a counter, an amount, and the limit, which may be inf.
Charge: TypeAlias = tuple[str, int, float]


@final
class Tariff:
    """The cost of a class of effects: its `charges`, and what is `prepaid` of each meter that its replies report.

    The meters without a prepayment are `compared` with their limits before the effect.
    """

    def __init__(self, kind: type[Effect[Any]], program: Program, *, reserved: bool) -> None:
        caps = program.caps
        # Measured meters come first: if one is already exceeded, it is the limit to report.
        self.charges: tuple[Charge, ...] = tuple(
            (meter.name, amount, math.inf if reserved else caps.get(meter.name, math.inf))
            for meter, amount in sorted(kind.charges.items(), key=lambda charge: charge[0] not in program.measured)
        )
        # Also those without a limit here: an outer run may have one.
        self.compared = tuple(meter.name for meter in kind.measures if meter not in kind.charges)
        self.prepaid = tuple(kind.charges.get(meter, 0) for meter in kind.measures)


@final
class Step:
    """A node compiled for the engine: its function, its charges, and the next step (or `None`) for each outcome."""

    def __init__(self, source: Node[Any, Any], function: Callable[..., Any], program: Program) -> None:
        caps = program.caps
        self.name = source.name
        # Any: the engine checks the result when it has one.
        self.function: Callable[..., Any] = _perform_function(source, function) if source.kind == "opaque" else function
        self.asks = source.kind != "pure"
        # Iterations come first: if several meters are used up, the first one is reported.
        meters = sorted(source.meters, key=lambda meter: meter.name != ITERATIONS.name)
        self.entry: tuple[Charge, ...] = tuple((meter.name, 1, caps.get(meter.name, math.inf)) for meter in meters)
        self.decreases = source.decreases
        self.measure = source.measure.name if source.decreases is not None else ""
        # Whether an entry is charged, or its measure is checked.
        self.counts = bool(self.entry) or self.decreases is not None
        self.least = source.least
        self.most = source.most
        # The limit on the effects of one visit; a node that declares `asks=` has none.
        fan_out = program.limits.fan_out
        self.fan_out: float = math.inf if fan_out is None or source.most is not None else fan_out
        self.reserved = source.grace is not None
        self.grace = source.grace or 0.0
        # The outcomes of the function, and the outcome when a limit stops the node.
        self.returns = source.returns
        self.limit_outcomes = () if source.spent_outcome is None else (source.spent_outcome,)
        self.when_spent: Callable[[Any, Exhausted], object] | None = source.when_spent
        self.effects = source.effects
        self.tariffs: Mapping[type, Tariff] = {
            kind: Tariff(kind, program, reserved=self.reserved) for kind in source.effects
        }
        # For each quota: what it counts, and its charge.
        self.quotas: list[tuple[Callable[[Any], bool], tuple[Charge, ...]]] = [
            (one.counts, ((one.name, 1, caps.get(one.name, math.inf)),) if one.name else ()) for one in source.quotas
        ]
        self.call_parameter = None if source.kind == "opaque" else source.call_parameter
        # The frame that the node saves its argument in, or the one that it receives, and the parameter for it.
        self.saves = "" if source.frame is None or source.frame.parameter else source.frame.name
        self.receives = "" if source.frame is None or self.saves else source.frame.name
        self.frame_parameter = "" if source.frame is None else source.frame.parameter
        self.takes_value_only = self.call_parameter is None and not self.receives
        # The frames that a run keeps when it arrives here; `None`: the machine has no frames.
        self.frames: frozenset[str] | None = None
        # By the outcome.
        self.following: dict[type, Step | None] = {}
        self.resets: dict[type, tuple[str, ...]] = {}

    def charges_of(self, effect: Effect[Any]) -> tuple[Charge, ...]:
        """Return the charges of an effect. Raises `NodeError` if the node has quotas, and none counts it."""
        tariff = self.tariffs[type(effect)]
        if not self.quotas:
            return tariff.charges
        for counts, charges in self.quotas:
            if counts(effect):
                return (*tariff.charges, *charges)
        raise NodeError(
            f"{self.name} asked for {format_value(effect)}, which none of its quotas counts; answer the call before, "
            "or leave out limit_tool for one of the tools"
        )


def fill_parameters(graph: Graph[Any, Any]) -> Mapping[str, Callable[..., Any]]:
    """Return the functions of the nodes, with the settings for their further parameters: the one of each class.

    Raises `GraphError` if a parameter fits no setting, or several.
    """
    faults: list[Fault] = []
    filled: dict[str, Callable[..., Any]] = {}
    for node in graph:
        known = graph.settings if node.settings is None else node.settings
        supplied: dict[str, object] = {}
        for name, kinds in node.parameters.items():
            fitting = [setting for setting in known if isinstance(setting, kinds)]
            if len(fitting) == 1:
                supplied[name] = fitting[0]
                continue
            how = f"{len(fitting)} were given" if fitting else "none was given"
            wanted = " | ".join(kind.__name__ for kind in kinds)
            text = f"{node.name} needs one {wanted} for {name}, and {how}; pass it to machine.with_settings(...)"
            faults.append(Fault("GX024", node.name, None, text))
        filled[node.name] = partial(node.function, **supplied) if supplied else node.function
    if faults:
        raise GraphError(faults)
    return filled


def _perform_function(
    source: Node[Any, Any], function: Callable[..., Any]
) -> Callable[[Any], Generator[Perform, Any, Any]]:
    def perform(value: Any) -> Generator[Perform, Any, Any]:
        outcome = yield Perform(source.name, function, value, source.call_parameter)
        return outcome

    return perform


@final
class Program:
    """The steps of a graph and its counters: the iterations, the meters of its nodes, and the meters of effects."""

    def __init__(self, graph: Graph[Any, Any], limits: Limits) -> None:
        self.limits = limits
        self.measures = frozenset(one.measure.name for one in measured(graph))
        # A measure counts as one more than at the last visit, and as 0 before the first one.
        self.own = (*graph.own, *sorted(self.measures))
        # Those of effects, whose charges count in outer runs, too.
        others = (name for name in limits.meters if name not in graph.own)
        self.meters = tuple(dict.fromkeys((*graph.effect_meters, *others)))
        effects = [effect for node in graph.nodes.values() for effect in node.effects]
        self.measured = frozenset(meter for effect in effects for meter in effect.measures)
        self.names = (ITERATIONS.name, *self.own, *self.meters)
        # The limits that there are, by name.
        own = {name: getattr(limits, name) for name in (ITERATIONS.name, "seconds", "nested_runs")}
        caps = {**own, **limits.caps(graph.meters)}
        self.caps: Mapping[str, float] = {name: limit for name, limit in caps.items() if limit is not None}
        functions = fill_parameters(graph)
        self.steps: Mapping[str, Step] = {node.name: Step(node, functions[node.name], self) for node in graph}
        for edge in graph.edges:
            step = self.steps[edge.source]
            step.following[edge.outcome] = None if edge.target == END.name else self.steps[edge.target]
            if edge.resets:
                step.resets[edge.outcome] = tuple(meter.name for meter in edge.resets)
        if any(step.receives for step in self.steps.values()):
            self._find_frames(graph)

    def _find_frames(self, graph: Graph[Any, Any]) -> None:
        """Set the frames of each step: those that a later node receives, unless a node before it saves new ones."""
        found: dict[str, set[str]] = {name: set() for name in self.steps}
        for receiver in self.steps.values():
            if frame := receiver.receives:
                pairs = [(edge.target, edge.source) for edge in graph.edges if self.steps[edge.source].saves != frame]
                for name in reachable(receiver.name, pairs):
                    found[name].add(frame)
        for name, step in self.steps.items():
            step.frames = frozenset(found[name])


def check_request(step: Step, request: Request) -> tuple[Effect[Any], ...]:
    """Return the effects of a request. Raises `UndeclaredEffectError` if the node does not declare one of them."""
    members = members_of(request)
    for member in members:
        if type(member) not in step.tariffs:
            raise UndeclaredEffectError(step.name, request, [kind.__name__ for kind in step.effects])
    return members


def invalid_answer(step: Step, effect: Request, answer: str) -> InputError:
    """Return the error of a caller who answered an effect with an invalid reply."""
    return InputError(f"{step.name} asked for {type(effect).__name__} and was answered with {answer}; give a reply")


def undeclared_outcome(step: Step, outcome: object, declared: tuple[type, ...]) -> UndeclaredOutcomeError:
    """Return the error of a node that returned an outcome which it does not declare."""
    return UndeclaredOutcomeError(step.name, outcome, [kind.__name__ for kind in declared])


# The sets of limits for which results are cached for one graph: an executor has one, and a search over limits needs few
# at a time.
_KEPT = 8


def cached_for_limits(
    function: Callable[[Graph[Any, Any], Limits], T],
) -> Callable[[Graph[Any, Any], Limits], T]:
    """Cache the results of a function of a graph, which never changes, and of limits, with the graph."""

    @wraps(function)
    def cached(graph: Graph[Any, Any], limits: Limits) -> T:
        if function not in graph.caches:
            graph.caches[function] = lru_cache(maxsize=_KEPT)(partial(function, graph))
        result: T = graph.caches[function](limits)
        return result

    return cached


@cached_for_limits
def compile_program(graph: Graph[Any, Any], limits: Limits) -> Program:
    """Return the program of a graph for these limits; compiling it takes about 20 µs for five nodes."""
    return Program(graph, limits)
