"""Rank the nodes of a flow: every loop must spend a limited budget that the loop does not reset.

The ranking recurses over strongly connected components: it removes the transitions that spend such a budget, and ranks
the rest of the component.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphexec.kernel.node import END
from graphexec.kernel.program import Level, Ranks
from graphexec.verify.paths import strongly_connected_components
from graphexec.verify.proof.flow import Transition


@dataclass(frozen=True, slots=True)
class Core:
    """The transitions of a component without a rank: no limited budget that it spends is free of resets."""

    transitions: tuple[Transition, ...]


def rank_nodes(nodes: Iterable[str], transitions: Sequence[Transition], finite: Iterable[str]) -> Ranks | list[Core]:
    """Return ranks that every transition lowers, by node, or all cores if there are no such ranks.

    `finite` are the budgets that have a limit. Takes one pass over nodes and transitions for each level.
    """
    levels: dict[str, list[Level]] = {name: [] for name in nodes}
    cores: list[Core] = []
    limited = frozenset(finite)
    # An explicit stack, because a machine may be deeper than Python's.
    waiting: list[tuple[list[str], list[Transition]]] = [
        (list(levels), [one for one in transitions if one.target != END.name])
    ]
    while waiting:
        members, inside = waiting.pop()
        for number, (component, within) in enumerate(components(members, inside), start=1):
            budgets = exhaustible_budgets(within, limited)
            for name in component:
                levels[name].append((number, budgets))
            if budgets:
                rest = [one for one in within if not spends_any(one, budgets)]
                waiting.append((component, rest))
            elif within:
                cores.append(Core(tuple(within)))
    return cores or {name: tuple(rank) for name, rank in levels.items()}


def components(nodes: Iterable[str], transitions: Iterable[Transition]) -> list[tuple[list[str], list[Transition]]]:
    """Return the strongly connected components with the transitions inside them; reachable components come first."""
    following: dict[str, list[str]] = {name: [] for name in nodes}
    for one in transitions:
        following[one.source].append(one.target)
        # END has no edges of its own.
        following.setdefault(one.target, [])
    found = strongly_connected_components(following)
    place = {name: number for number, component in enumerate(found) for name in component}
    within: Mapping[int, list[Transition]] = defaultdict(list)
    for one in transitions:
        if place[one.source] == place[one.target]:
            within[place[one.source]].append(one)
    return [(component, within.get(number, [])) for number, component in enumerate(found)]


def exhaustible_budgets(transitions: Sequence[Transition], limited: frozenset[str]) -> tuple[str, ...]:
    """Return the budgets that run out in a component: limited, spent and never reset in it. Sorted by name."""
    spent = {name for one in transitions for name, amount in one.spends if amount}
    reset = {name for one in transitions for name in one.resets}
    return tuple(sorted((spent & limited) - reset))


def spends_any(one: Transition, budgets: Sequence[str]) -> bool:
    """Return whether a transition spends one of these budgets."""
    return any(name in budgets for name, amount in one.spends if amount)
