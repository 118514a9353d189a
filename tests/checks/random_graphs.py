"""Random machines as plain data, and the real graphs built from it, which may not terminate."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from types import new_class
from typing import Any, Literal, TypeAlias, Union, final

from graphexec.effects import CallModel, CallTool
from graphexec.kernel.effects import All, Asks, Effect
from graphexec.kernel.graph import Table, edges, on
from graphexec.kernel.meters import ITERATIONS, Exhausted, Meter
from graphexec.kernel.node import END, Node, node
from graphexec.kernel.surgery import embed
from graphexec.machine import Machine, graph
from graphexec.messages import CompletionRequest
from graphexec.testing.failures import Readable

# The classes of outcomes. Each value contains the remaining choices, so that a run depends only on its start. The last
# choice repeats endlessly.
Colour: TypeAlias = Literal["Red", "Green", "Blue"]
COLOURS: tuple[Colour, ...] = ("Red", "Green", "Blue")
SPENT = "Spent"

# The budgets by which nodes are metered: iterations, and two with their own limits.
BUDGETS: tuple[Meter, ...] = (ITERATIONS, Meter("alpha", 2), Meter("beta", 1))

# The meters that effects of random machines charge and measure, besides model and tool calls.
METERS: tuple[Meter, ...] = (Meter("gold"), Meter("silver"), Meter("tin"))

AsksFor: TypeAlias = Literal["nothing", "models", "tools", "tools at once", "errands", "errands at once"]


@dataclass(frozen=True, slots=True, repr=False)
class Errand(Readable):
    """A class of effects: the amounts that each charges, by meter, and the meters that its reply reports."""

    charges: tuple[tuple[str, int], ...] = ()
    measures: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = [
            *(f"{amount} {name}" for name, amount in self.charges),
            *(f"measures {name}" for name in self.measures),
        ]
        return f"errand of {', '.join(parts) or 'nothing'}"


@dataclass(frozen=True, slots=True, repr=False)
class DrawnEdge(Readable):
    """The target of an outcome (a node's number, or `None` for the end), and the budgets that it resets."""

    outcome: Colour
    target: int | None
    resets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        again = f" resets {', '.join(self.resets)}" if self.resets else ""
        return f"{self.outcome} -> {_format_target(self.target)}{again}"


@dataclass(frozen=True, slots=True, repr=False)
class DrawnNode(Readable):
    """One node: the edges of its outcomes, the budgets that an entry costs, and the effects that it asks for.

    It asks for `least` to `most` effects; if it is not `declared`, its declaration leaves the number out. `spent` is
    the target when a limit is reached: a node's number, or `None` for the end. A node with a `grace` period, in
    seconds, is reserved, and its entry costs nothing. A node with `inner` nodes is an embedded graph of these with its
    `own` budgets; its outcomes are those that end the inner graph.
    """

    ways: tuple[DrawnEdge, ...]
    meters: tuple[str, ...] = ()
    asks: AsksFor = "nothing"
    least: int = 0
    most: int = 0
    spent: int | None = None
    grace: float | None = None
    errands: tuple[Errand, ...] = ()
    declared: bool = True
    inner: tuple[DrawnNode, ...] = ()
    own: tuple[str, ...] = ()

    def __repr__(self) -> str:
        words = [", ".join(map(repr, self.ways))]
        if self.inner:
            words.append(f"embeds {DrawnGraph(self.inner)!r}{' with its own ' * bool(self.own)}{', '.join(self.own)}")
        if self.meters:
            words.append(f"costs {', '.join(self.meters)}")
        if self.asks != "nothing":
            words.append(f"asks {self.least}..{self.most} {self.asks}{'' if self.declared else ', undeclared'}")
            words += map(repr, self.errands)
        if self.grace is not None:
            words.append(f"reserved, {self.grace:g} s more")
        if self.limited:
            words.append(f"spent -> {_format_target(self.spent)}")
        return "; ".join(words)

    @property
    def limited(self) -> bool:
        """True if a limit can stop the node."""
        return (
            bool(self.meters) or self.asks != "nothing" or any(one.limited and one.spent is None for one in self.inner)
        )

    @property
    def spends(self) -> frozenset[str]:
        """The budgets of the surrounding machine that it spends."""
        return frozenset(self.meters).union(*(one.spends for one in self.inner)) - frozenset(self.own)


@dataclass(frozen=True, slots=True, repr=False)
class DrawnGraph(Readable):
    """A random machine. `graph` is the real graph; `value(choices)` is a value to start it with."""

    nodes: tuple[DrawnNode, ...]

    def __repr__(self) -> str:
        return "{" + "; ".join(f"n{number}: ({one!r})" for number, one in enumerate(self.nodes)) + "}"

    @property
    def graph(self) -> Machine[Any, Any]:
        """The real graph."""
        return build_graph(self.nodes)

    @staticmethod
    def value(choices: Sequence[int] = ()) -> Any:
        """Return a start value: the choices decide the path; the last one repeats endlessly."""
        return outcome_class("Red")(tuple(choices))


@cache
def outcome_class(name: str) -> type[Any]:
    """Create a final frozen class of outcomes."""
    fields: list[tuple[str, Any]] = [("choices", tuple[int, ...])]
    if name == SPENT:
        fields.append(("limit", Exhausted))
    made = dataclasses.make_dataclass(name, fields, frozen=True)
    made.__module__ = __name__
    return final(made)


@cache
def errand_class(errand: Errand) -> type[Effect[Any]]:
    """Create the class of an errand's effects. The reply is a number: the amount of each measured meter."""
    meters = {meter.name: meter for meter in METERS}

    def measure(self: Effect[Any], reply: int) -> tuple[int, ...]:
        return (reply,) * len(self.measures)

    namespace = {
        "__slots__": (),
        "__module__": __name__,
        "charges": {meters[name]: amount for name, amount in errand.charges},
        "measures": tuple(meters[name] for name in errand.measures),
        "measure": measure,
    }
    parts = [*(f"{name}{amount}" for name, amount in errand.charges), *(f"measured_{name}" for name in errand.measures)]
    return new_class("_".join(["Errand", *parts]), (Effect[int],), exec_body=lambda body: body.update(namespace))


@cache
def build_graph(drawn: tuple[DrawnNode, ...]) -> Machine[Any, Any]:
    """Build the graph of these nodes; the first one is the start. Raises `GraphError` for an invalid table."""
    nodes = [_node(number, one) for number, one in enumerate(drawn)]
    budgets = {budget.name: budget for budget in BUDGETS}
    rows: list[Table[Any]] = []
    for made, one in zip(nodes, drawn, strict=True):
        # Any: the outcome classes are known only at run time.
        to: Any = on
        routes: list[Any] = [
            to(outcome_class(way.outcome), _target(nodes, way.target), resets=[budgets[name] for name in way.resets])
            for way in one.ways
        ]
        routes += [to(outcome_class(SPENT), _target(nodes, one.spent))] if one.limited else []
        rows.append(edges(made, reduce(lambda one, other: one | other, routes)))
    return graph(reduce(lambda one, other: one | other, rows), start=nodes[0])


def _format_target(target: int | None) -> str:
    return "END" if target is None else f"n{target}"


def _target(nodes: Sequence[Node[Any, Any]], target: int | None) -> Any:
    return END if target is None else nodes[target]


def _choose(choices: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    return (choices[0], choices[1:] or choices) if choices else (0, ())


def _node(number: int, drawn: DrawnNode) -> Node[Any, Any]:
    classes = [outcome_class(way.outcome) for way in drawn.ways]
    budgets = {budget.name: budget for budget in BUDGETS}
    if drawn.inner:
        # In `BUDGETS`, iterations have no limit.
        own = [Meter(ITERATIONS.name, 2) if name == ITERATIONS.name else budgets[name] for name in drawn.own]
        return embed(build_graph(drawn.inner), f"n{number}", own=own)

    def choose_outcome(choices: tuple[int, ...]) -> Any:
        choice, rest = _choose(choices)
        return classes[choice % len(classes)](rest)

    def pure(value: Any) -> Any:
        return choose_outcome(value.choices)

    def asking(value: Any) -> Generator[Any, Any, Any]:
        choice, rest = _choose(value.choices)
        count = drawn.least + choice % (drawn.most - drawn.least + 1)
        asked: list[Effect[Any]] = [_effect(drawn, choice + each) for each in range(count)]
        if drawn.asks.endswith("at once"):
            if asked:
                yield All(tuple(asked))
        else:
            for effect in asked:  # noqa: UP028 - a list has no `send`
                yield effect
        return choose_outcome(rest)

    function: Any = pure if drawn.asks == "nothing" else asking
    union: Any = _union(classes)
    effects: Any = CallModel if drawn.asks == "models" else CallTool
    if drawn.errands:
        effects = _union(map(errand_class, drawn.errands))
    annotations = {"value": _any_value(), "return": union if function is pure else Asks[effects, union]}
    function.__annotations__ = annotations
    name = f"n{number}"
    if not drawn.limited:
        return node(name=name)(function)
    counted = drawn.grace is not None or (drawn.asks != "nothing" and drawn.declared)
    asks = (drawn.least, drawn.most) if counted else None
    meters = [] if drawn.grace is not None else [budgets[one] for one in drawn.meters]
    return node(name=name, when_spent=_make_when_spent(), meters=meters, asks=asks, grace=drawn.grace)(function)


def _effect(drawn: DrawnNode, number: int) -> Effect[Any]:
    if drawn.errands:
        return errand_class(drawn.errands[number % len(drawn.errands)])()
    return CallModel(CompletionRequest(str(number))) if drawn.asks == "models" else CallTool(str(number), "")


@cache
def _any_value() -> Any:
    return _union(map(outcome_class, (*COLOURS, SPENT)))


def _union(classes: Iterable[type[Any]]) -> Any:
    return Union[tuple(classes)]  # noqa: UP007 - the classes are created at run time


@cache
def _make_when_spent() -> Any:
    def stop(value: Any, limit: Exhausted) -> Any:
        return outcome_class(SPENT)(value.choices, limit)

    stop.__annotations__ = {"value": _any_value(), "limit": Exhausted, "return": outcome_class(SPENT)}
    return stop
