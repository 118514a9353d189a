"""What a proof sees of a machine: names and whole numbers, no functions and no values.

A run is a walk through this flow with a counter for each budget. A *visit* to a node ends with one transition, and the
engine lets it end only with one that the table has; so whatever nodes, models and tools do, what holds of every walk
holds of every run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from graphexec.graph import Graph
from graphexec.limits import Limits
from graphexec.node import Node

# `move`: the node returned this outcome.  `gate`: it was not entered, because something that its entry costs was used
# up.  `within`: a limit stopped it after its entry was charged.
Kind: TypeAlias = Literal["move", "gate", "within"]


@dataclass(frozen=True, slots=True)
class Transition:
    """One way in which a visit to `source` can end.

    `spends` are the budgets that each such visit spends, with the least it can spend of them; it is possible only if
    that much is left. `resets` are full again after it. `causes` are the limits one of which must be spent for a `gate`
    or a `within` (of a gate: a counter of them at 0, or the run's `seconds` or `restarts`); without any of them there
    is no such transition. Such a visit asks for `asks` effects at least; `model_calls` and `tool_calls` are the most
    calls that it can make (`None`: only the limit `fan_out`, or the limit on such calls, bounds them). Those of a
    `reserved` visit are not charged to the limits, and may take `grace` seconds beyond the run's deadline.
    """

    source: str
    outcome: str
    target: str
    kind: Kind = "move"
    spends: tuple[tuple[str, int], ...] = ()
    resets: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    asks: int = 0
    model_calls: int | None = 0
    tool_calls: int | None = 0
    # `None`, where the calls are charged.
    grace: float | None = None

    @property
    def reserved(self) -> bool:
        """Whether no limit stops what such a visit asks for."""
        return self.grace is not None

    def __str__(self) -> str:
        return f"{self.source} --{self.outcome}--> {self.target}"


@dataclass(frozen=True, slots=True)
class Flow:
    """A machine's nodes, transitions and budgets. `budgets` maps the machine's own to their limits."""

    start: str
    nodes: tuple[str, ...]
    transitions: tuple[Transition, ...]
    budgets: tuple[tuple[str, int | None], ...] = ()

    @property
    def grace(self) -> float:
        """How many seconds beyond the limit reserved visits may take."""
        return max((one.grace for one in self.transitions if one.grace is not None), default=0.0)

    @property
    def digest(self) -> str:
        """The SHA-256 of the flow, which tells machines apart (not the bodies of their nodes)."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def caps_of(flow: Flow, limits: Limits) -> dict[str, int | None]:
    """The limit of each budget that is counted in whole numbers, by name; `None` is no limit."""
    own = {name: limits.budgets.get(name, limit) for name, limit in flow.budgets}
    return {
        "iterations": limits.iterations,
        "model_calls": limits.model_calls,
        "tool_calls": limits.tool_calls,
        "tokens": limits.tokens,
        **own,
    }


# The limits that no counter of whole numbers stands for.
UNCOUNTED = ("seconds", "cost", "fan_out", "restarts")


def possible(transition: Transition, limits: Limits, caps: Mapping[str, int | None]) -> bool:
    """Whether there is such a transition under these limits: one that a spent limit takes needs a limit."""
    known = {**caps, **{name: getattr(limits, name) for name in UNCOUNTED}}
    return transition.kind == "move" or any(known.get(cause) is not None for cause in transition.causes)


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
    return Flow(graph.start, tuple(graph.nodes), tuple(transitions), tuple(graph.budgets.items()))


def _visits(node: Node[Any, Any], outcome: type) -> Iterator[Transition]:
    """The ways in which a visit can end with `outcome`; where they lead is left open."""
    entry = {budget.name: 1 for budget in node.meters}
    asked = _asked(node)
    models, tools = _most(node, "model_calls"), _most(node, "tool_calls")
    here = Transition(node.name, outcome.__name__, "", model_calls=models, tool_calls=tools, grace=node.grace)
    if outcome in node.returns:
        yield dataclasses.replace(here, spends=tuple({**entry, **asked}.items()), asks=node.least)
    if outcome is node.spent_outcome:
        if entry:
            yield dataclasses.replace(
                here, kind="gate", causes=(*entry, "seconds", "restarts"), model_calls=0, tool_calls=0
            )
        if node.most != 0:
            charged = _charged(node)
            causes = [*charged, *(("cost",) if "model_calls" in charged else ())]
            causes += [*(("fan_out",) if node.most is None else ()), "seconds", "restarts"]
            yield dataclasses.replace(here, kind="within", spends=tuple(entry.items()), causes=tuple(causes))


def _charged(node: Node[Any, Any]) -> list[str]:
    """The limits that what the node asks for is charged to."""
    if node.grace is not None:
        return []
    budgets = {effect.budget for effect in node.effects}
    models = ["model_calls", "tokens"] if "model_calls" in budgets else []
    return [*models, "tool_calls"] if "tool_calls" in budgets else models


def _asked(node: Node[Any, Any]) -> dict[str, int]:
    """What each visit that returns is sure to have been charged for the effects it asked for."""
    budgets = {effect.budget for effect in node.effects}
    if not node.least or len(budgets) != 1:
        return {}
    return dict.fromkeys(_charged(node), node.least)


def _most(node: Node[Any, Any], budget: str) -> int | None:
    """How many calls of a kind a visit can make."""
    return node.most if any(effect.budget == budget for effect in node.effects) else 0
