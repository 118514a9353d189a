"""Hypothesis strategies: agents that do anything, limits of every kind, and random machines.

What is drawn is primitive, so that it shrinks to what can be read: `script=(act unknown('x')), limits=iterations=1`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from graphexec.effects import MODEL_CALLS, TOKENS, TOOL_CALLS, agent_limits
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import FrozenMapping, Limits
from graphexec.testing.adversary import PARTS, RAISES, Attack, Move, Part
from graphexec.testing.random_graphs import BUDGETS, COLOURS, METERS, AsksFor, DrawnEdge, DrawnGraph, DrawnNode, Errand
from graphexec.testing.scripts import AgentScript, Call, ScriptedTurn, TurnKind
from graphexec.testing.setup import ENDLESS
from graphexec.verify.explorer.stub_nodes import WIDEST
from graphexec.verify.proof.findings import AGENT_METERS

_KINDS: Sequence[TurnKind] = ("answer", "act", "act", "act", "empty", "garbage", "nonsense", "model error", "exception")

# Small, as a script that asks until it likes the answer asks as often; and most visits are not to be stopped by it.
_FAN_OUTS = (WIDEST, WIDEST, WIDEST, 2, 1, 0)

# Powers of two, whose sums are exact: that a run takes so many seconds can be asserted with ==.
_SECONDS = (0.0, 0.0, 0.0, 0.5, 1.0, 4.0, 128.0, math.inf)


@st.composite
def calls(draw: st.DrawFn, tools: Sequence[str] = (), argument: str = "text") -> Call:
    """Calls of these tools, or of one that there is not, with an argument or without."""
    tool = draw(st.sampled_from([*tools, "unknown"]))
    return Call(tool, draw(st.sampled_from([None, "x", 1])), argument)


@st.composite
def turns(
    draw: st.DrawFn,
    tools: Sequence[str] = (),
    *,
    argument: str = "text",
    delays: bool = True,
    kinds: Sequence[TurnKind] = _KINDS,
) -> ScriptedTurn:
    """Single turns; see `agent_scripts`."""
    kind = draw(st.sampled_from(kinds))
    called: Sequence[Call] = ()
    if kind == "act":
        called = draw(st.lists(calls(tools, argument), min_size=1, max_size=4))
    seconds = draw(st.sampled_from(_SECONDS)) if delays else 0.0
    return ScriptedTurn(kind, tuple(called), seconds, stubborn=seconds > 0 and draw(st.booleans()))


@st.composite
def agent_scripts(
    draw: st.DrawFn,
    tools: Sequence[str] = (),
    *,
    argument: str = "text",
    delays: bool = True,
    kinds: Sequence[TurnKind] = _KINDS,
    max_turns: int = 5,
) -> AgentScript:
    """Agents that may do anything, at once, late, or never; the last turn repeats for ever.

    `tools` are the names of those that there are, `argument` is the name of their argument. Without `delays` each turn
    comes at once.
    """
    one = turns(tools, argument=argument, delays=delays, kinds=kinds)
    return AgentScript(tuple(draw(st.lists(one, min_size=1, max_size=max_turns))))


def none_or(most: int) -> st.SearchStrategy[int | None]:
    """No limit, or one up to `most`."""
    return st.none() | st.integers(0, most)


@st.composite
def limits(draw: st.DrawFn, within: Limits | None = None, *, most: int = 6) -> Limits:
    """Limits of every kind, 0 and `None` included, that bound every run of the agent's machine.

    Given limits to stay `within`, each that they set stays set, and none is above it: their proof holds for these.
    """
    within = within or Limits(iterations=None)
    further = {name: limit for name, limit in within.meters.items() if name not in AGENT_METERS}
    bounding = (within.iterations, within[MODEL_CALLS], within[TOOL_CALLS], *further.values())
    unbounded = all(limit is None for limit in bounding)

    def lower(limit: float | None, cap: int) -> int | None:
        return draw(none_or(cap) if limit is None else st.integers(0, min(int(limit), cap)))

    model_calls = lower(within[MODEL_CALLS], most)
    # One of the two has to bound the run, where nothing else does.
    iterations = draw(st.integers(0, most)) if unbounded and model_calls is None else lower(within.iterations, most)
    drawn = agent_limits(
        iterations=iterations,
        model_calls=model_calls,
        tool_calls=lower(within[TOOL_CALLS], most + 2),
        tokens=lower(within[TOKENS], 2 * most),
        seconds=within.seconds,
        fan_out=None if within.fan_out is None else min(within.fan_out, draw(st.sampled_from(_FAN_OUTS))),
        restarts=within.restarts,
        budgets=within.budgets,
    )
    if not further:
        return drawn
    # A limit on fractions may not be 0.
    lowered = {name: draw(st.integers(0, limit)) for name, limit in further.items() if isinstance(limit, int)}
    meters = {**drawn.meters, **further, **lowered}
    return dataclasses.replace(drawn, meters=FrozenMapping(tuple(meters), tuple(meters.values())))


def fractions() -> st.SearchStrategy[float]:
    """Fractions of the time that a run needs: all of it and more, a part, or none."""
    return st.sampled_from([1.0, 1.5, 0.75, 0.5, 0.25, 0.0])


def time_limits(needed: float) -> st.SearchStrategy[float]:
    """Time limits calibrated to the seconds that a run needs: nothing, a part of it, exactly so much, and more.

    Where it needs for ever, or no time, some number of seconds.
    """
    whole = needed if 0 < needed < math.inf else ENDLESS
    return fractions().map(lambda fraction: fraction * whole)


# Most moves come at once: a run in which everything is late is cut before it has done much.
_DELAYS = (0.0, 0.0, 0.0, 0.0, 0.5, 4.0, math.inf)


@st.composite
def moves(draw: st.DrawFn, replies: Sequence[str]) -> Move:
    """Single moves of the world: one of these classes of replies, or an exception; at once, late or never."""
    # The exception last: what shrinks ends with a reply.
    reply = draw(st.sampled_from([*replies, *replies, RAISES]))
    seconds = draw(st.sampled_from(_DELAYS))
    return Move(reply, seconds, stubborn=seconds > 0 and draw(st.booleans()))


@st.composite
def attacks(draw: st.DrawFn, replies: Mapping[Part, Sequence[str]], *, max_moves: int = 5) -> Attack:
    """Attacks of the world on a run, given the names of the replies that it may choose from (`Trial.parts`).

    The last move of each part repeats for ever.
    """
    chosen = {
        part: tuple(draw(st.lists(moves(replies[part]), min_size=1, max_size=max_moves))) if replies[part] else ()
        for part in PARTS
    }
    return Attack(**chosen)


# Half of the nodes ask for nothing.
_ASKS: Sequence[AsksFor] = (
    *("nothing", "nothing", "nothing", "nothing"),
    *("models", "tools", "tools at once"),
    *("errands", "errands at once"),
)


@st.composite
def errands(draw: st.DrawFn) -> Errand:
    """Classes of effects: each charges up to two meters 1 to 3, and may report one."""
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
        # Every node is reached from the one before it, and the last one reaches the end.
        onward = number + 1 if number + 1 < count else None
        target = draw(st.sampled_from(everywhere)) if place else onward
        # Most edges reset nothing.
        resets = draw(st.sampled_from([(), (), (), *((name,) for name in names)]))
        ways.append(DrawnEdge(colour, target, resets))
    asks = draw(st.sampled_from(_ASKS))
    # Most nodes are not reserved, and those that are cost nothing to enter.
    grace = draw(st.sampled_from([None, None, None, 0.0, 1.0, 10.0])) if asks != "nothing" else None
    meters = draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if grace is None else []
    least = draw(st.integers(0, 2)) if asks != "nothing" else 0
    most = least + draw(st.integers(0, 1)) if asks != "nothing" else 0
    # Most often the end: what else is spent on the way from a spent limit may stop it again.
    spent = draw(st.sampled_from([None, None, *everywhere]))
    asked = draw(st.lists(errands(), min_size=1, max_size=2, unique=True)) if asks.startswith("errands") else []
    # What is reserved has to say how much it asks for.
    declared = asks == "nothing" or grace is not None or draw(st.sampled_from([True, True, False]))
    return DrawnNode(tuple(ways), tuple(meters), asks, least, most, spent, grace, tuple(asked), declared)


@st.composite
def _draw_embedded(draw: st.DrawFn, number: int, count: int, *, loops: bool) -> DrawnNode:
    inner = draw(_draw_nodes(2, loops=loops, embeds=False))
    ending = dict.fromkeys(way.outcome for one in inner for way in one.ways if way.target is None)
    # As those of a node: as many ways as there are outcomes.
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
    """Random machines of up to `most` nodes, as plain data: `drawn.graph` is the real one, `drawn.value()` its start.

    Many of them can run for ever (none of those without `loops`).
    """
    return DrawnGraph(draw(_draw_nodes(most, loops=loops)))


@st.composite
def _draw_nodes(draw: st.DrawFn, most: int, *, loops: bool, embeds: bool = True) -> tuple[DrawnNode, ...]:
    count = draw(st.integers(1, most))
    # Most nodes are no graphs.
    kinds = [_draw_node, _draw_node, _draw_node, _draw_node, _draw_node, _draw_node, _draw_embedded]
    nodes = [
        draw((draw(st.sampled_from(kinds)) if embeds else _draw_node)(number, count, loops=loops))
        for number in range(count)
    ]
    spent = {name for one in nodes for name in one.spends}
    # A table that resets what nobody spends is refused.
    return tuple(_without_vain_resets(one, spent) for one in nodes)


@st.composite
def graphs(draw: st.DrawFn, *, most: int = 4, loops: bool = True) -> Graph[Any, Any]:
    """Random machines as real graphs; see `drawn_graphs`. Start one with `DrawnGraph.value((0, 2, 1))`."""
    drawn = draw(drawn_graphs(most=most, loops=loops))
    # A graph's repr is short: this one is shown with a failure.
    note(f"graph: {drawn!r}")
    return drawn.graph


def _without_vain_resets(drawn: DrawnNode, spent: set[str]) -> DrawnNode:
    ways = [dataclasses.replace(way, resets=tuple(name for name in way.resets if name in spent)) for way in drawn.ways]
    return dataclasses.replace(drawn, ways=tuple(ways))
