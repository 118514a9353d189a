"""Strategies of our own tests: agents with arbitrary behaviour, time limits, and random machines."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from graphexec.kernel.graph import Graph
from tests.checks.random_graphs import BUDGETS, COLOURS, METERS, AsksFor, DrawnEdge, DrawnGraph, DrawnNode, Errand
from tests.checks.scripts import AgentScript, Call, ScriptedTurn, TurnKind

_KINDS: Sequence[TurnKind] = ("answer", "act", "act", "act", "empty", "garbage", "nonsense", "model error", "exception")

# Powers of two, whose sums are exact, so that tests can compare seconds with ==.
_SECONDS = (0.0, 0.0, 0.0, 0.5, 1.0, 4.0, 128.0, math.inf)


@st.composite
def calls(draw: st.DrawFn, tools: Sequence[str] = ()) -> Call:
    """Calls of these tools, or of an unknown one, with an argument or without."""
    tool = draw(st.sampled_from([*tools, "unknown"]))
    return Call(tool, draw(st.sampled_from([None, "x", 1])))


@st.composite
def turns(
    draw: st.DrawFn,
    tools: Sequence[str] = (),
    *,
    delays: bool = True,
    kinds: Sequence[TurnKind] = _KINDS,
) -> ScriptedTurn:
    """Single turns; see `agent_scripts`."""
    kind = draw(st.sampled_from(kinds))
    called: Sequence[Call] = ()
    if kind == "act":
        called = draw(st.lists(calls(tools), min_size=1, max_size=4))
    seconds = draw(st.sampled_from(_SECONDS)) if delays else 0.0
    return ScriptedTurn(kind, tuple(called), seconds, stubborn=seconds > 0 and draw(st.booleans()))


@st.composite
def agent_scripts(
    draw: st.DrawFn,
    tools: Sequence[str] = (),
    *,
    delays: bool = True,
    kinds: Sequence[TurnKind] = _KINDS,
    max_turns: int = 5,
) -> AgentScript:
    """Agents with arbitrary behaviour, at once, late, or never; the last turn repeats endlessly.

    `tools` are the names of the tools. Without `delays` each turn comes at once.
    """
    one = turns(tools, delays=delays, kinds=kinds)
    return AgentScript(tuple(draw(st.lists(one, min_size=1, max_size=max_turns))))


# About half of the nodes ask for nothing.
_ASKS: Sequence[AsksFor] = (
    *("nothing", "nothing", "nothing", "nothing"),
    *("models", "tools", "tools at once"),
    *("errands", "errands at once"),
)


@st.composite
def errands(draw: st.DrawFn) -> Errand:
    """Classes of effects: each charges 1 to 3 on up to two meters, and may report one."""
    names = [meter.name for meter in METERS]
    charged = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    # Most effects report nothing.
    measures = draw(st.sampled_from([(), (), (), *((name,) for name in names)]))
    return Errand(tuple((name, draw(st.integers(1, 3))) for name in sorted(charged)), measures)


@st.composite
def _draw_node(draw: st.DrawFn, number: int, count: int, *, loops: bool) -> DrawnNode:
    everywhere = [*range(count if loops else number + 1), None] if loops else [*range(number + 1, count), None]
    colours = draw(st.lists(st.sampled_from(COLOURS), min_size=1, max_size=3, unique=True))
    names = [budget.name for budget in BUDGETS]
    ways: list[DrawnEdge] = []
    for place, colour in enumerate(colours):
        # Each node leads to the next one, and the last one to the end.
        onward = number + 1 if number + 1 < count else None
        target = draw(st.sampled_from(everywhere)) if place else onward
        # Most edges reset nothing.
        resets = draw(st.sampled_from([(), (), (), *((name,) for name in names)]))
        ways.append(DrawnEdge(colour, target, resets))
    asks = draw(st.sampled_from(_ASKS))
    # Most nodes are not reserved; reserved ones cost nothing to enter.
    grace = draw(st.sampled_from([None, None, None, 0.0, 1.0, 10.0])) if asks != "nothing" else None
    meters = draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if grace is None else []
    least = draw(st.integers(0, 2)) if asks != "nothing" else 0
    most = least + draw(st.integers(0, 1)) if asks != "nothing" else 0
    # Usually the end: on another path a limit may stop the run again.
    spent = draw(st.sampled_from([None, None, *everywhere]))
    asked = draw(st.lists(errands(), min_size=1, max_size=2, unique=True)) if asks.startswith("errands") else []
    # A reserved node must declare the number of its effects.
    declared = asks == "nothing" or grace is not None or draw(st.sampled_from([True, True, False]))
    return DrawnNode(tuple(ways), tuple(meters), asks, least, most, spent, grace, tuple(asked), declared)


@st.composite
def _draw_embedded(draw: st.DrawFn, number: int, count: int, *, loops: bool) -> DrawnNode:
    inner = draw(_draw_nodes(2, loops=loops, embeds=False))
    ending = dict.fromkeys(way.outcome for one in inner for way in one.ways if way.target is None)
    # As for a node: one edge for each outcome.
    drawn = draw(_draw_node(number, count, loops=loops))
    ways = [
        dataclasses.replace(drawn.ways[min(place, len(drawn.ways) - 1)], outcome=outcome)
        for place, outcome in enumerate(ending)
    ]
    spent = sorted({name for one in inner for name in one.meters})
    own = draw(st.lists(st.sampled_from(spent), max_size=2, unique=True)) if spent else []
    return DrawnNode(tuple(ways), spent=drawn.spent, inner=inner, own=tuple(own))


@st.composite
def drawn_graphs(draw: st.DrawFn, *, most: int = 4, loops: bool = True) -> DrawnGraph:
    """Random machines of up to `most` nodes, as plain data: `drawn.graph` is the real graph, `drawn.value()` its start.

    With `loops`, many of them may not terminate.
    """
    return DrawnGraph(draw(_draw_nodes(most, loops=loops)))


@st.composite
def _draw_nodes(draw: st.DrawFn, most: int, *, loops: bool, embeds: bool = True) -> tuple[DrawnNode, ...]:
    count = draw(st.integers(1, most))
    # Most nodes are not embedded graphs.
    kinds = [_draw_node, _draw_node, _draw_node, _draw_node, _draw_node, _draw_node, _draw_embedded]
    nodes = [
        draw((draw(st.sampled_from(kinds)) if embeds else _draw_node)(number, count, loops=loops))
        for number in range(count)
    ]
    spent = {name for one in nodes for name in one.spends}
    # A table must not reset a budget that no node spends.
    return tuple(_without_unused_resets(one, spent) for one in nodes)


@st.composite
def graphs(draw: st.DrawFn, *, most: int = 4, loops: bool = True) -> Graph[Any, Any]:
    """Random machines as real graphs; see `drawn_graphs`. Start one with `DrawnGraph.value((0, 2, 1))`."""
    drawn = draw(drawn_graphs(most=most, loops=loops))
    # A graph's repr is short, so this note is shown with a failure.
    note(f"graph: {drawn!r}")
    return drawn.graph


def _without_unused_resets(drawn: DrawnNode, spent: set[str]) -> DrawnNode:
    ways = [dataclasses.replace(way, resets=tuple(name for name in way.resets if name in spent)) for way in drawn.ways]
    return dataclasses.replace(drawn, ways=tuple(ways))
