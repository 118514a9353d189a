"""Hypothesis strategies: agents with arbitrary behaviour, limits of every kind, and random machines.

They draw plain data, which shrinks to readable values: `script=(act unknown('x')), limits=iterations=1`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from graphexec.effects import AGENT_METERS, MODEL_CALLS, TOKENS, TOOL_CALLS, agent_limits
from graphexec.kernel.meters import FrozenMapping, Limits
from graphexec.machine import Machine
from graphexec.testing.adversary import PARTS, RAISES, Attack, Move, Part
from graphexec.testing.explorer.stub_nodes import WIDEST
from graphexec.testing.random_graphs import BUDGETS, COLOURS, METERS, AsksFor, DrawnEdge, DrawnGraph, DrawnNode, Errand
from graphexec.testing.scripts import AgentScript, Call, ScriptedTurn, TurnKind
from graphexec.testing.setup import ENDLESS

_KINDS: Sequence[TurnKind] = ("answer", "act", "act", "act", "empty", "garbage", "nonsense", "model error", "exception")

# Small, because a script may ask up to this number of times; most values do not stop a visit.
_FAN_OUTS = (WIDEST, WIDEST, WIDEST, 2, 1, 0)

# Powers of two, whose sums are exact, so that tests can compare seconds with ==.
_SECONDS = (0.0, 0.0, 0.0, 0.5, 1.0, 4.0, 128.0, math.inf)


@st.composite
def calls(draw: st.DrawFn, tools: Sequence[str] = (), argument: str = "text") -> Call:
    """Calls of these tools, or of an unknown one, with an argument or without."""
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
    """Agents with arbitrary behaviour, at once, late, or never; the last turn repeats endlessly.

    `tools` are the names of the tools, `argument` is the name of their argument. Without `delays` each turn comes at
    once.
    """
    one = turns(tools, argument=argument, delays=delays, kinds=kinds)
    return AgentScript(tuple(draw(st.lists(one, min_size=1, max_size=max_turns))))


def none_or(most: int) -> st.SearchStrategy[int | None]:
    """No limit, or one up to `most`."""
    return st.none() | st.integers(0, most)


@st.composite
def limits(draw: st.DrawFn, within: Limits | None = None, *, most: int = 6) -> Limits:
    """Limits of every kind, including 0 and `None`, that bound every run of the agent's machine.

    Each limit that `within` sets is set and not higher, so that the proof for `within` holds for the drawn limits.
    """
    within = within or Limits(iterations=None)
    usual = {meter.name for meter in AGENT_METERS}
    further = {name: limit for name, limit in within.meters.items() if name not in usual}
    bounding = (within.iterations, within[MODEL_CALLS], within[TOOL_CALLS], *further.values())
    unbounded = all(limit is None for limit in bounding)

    def lower(limit: float | None, cap: int) -> int | None:
        return draw(none_or(cap) if limit is None else st.integers(0, min(int(limit), cap)))

    model_calls = lower(within[MODEL_CALLS], most)
    # One of the two must bound the run if nothing else does.
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
    # A limit on fractional amounts cannot be 0.
    lowered = {name: draw(st.integers(0, limit)) for name, limit in further.items() if isinstance(limit, int)}
    meters = {**drawn.meters, **further, **lowered}
    return dataclasses.replace(drawn, meters=FrozenMapping(tuple(meters), tuple(meters.values())))


def fractions() -> st.SearchStrategy[float]:
    """Fractions of the time that a run needs: none, a part, all of it, or more."""
    return st.sampled_from([1.0, 1.5, 0.75, 0.5, 0.25, 0.0])


def time_limits(needed: float) -> st.SearchStrategy[float]:
    """Time limits relative to the seconds that a run needs: none, a part, exactly as many, or more.

    If the run needs endless time, or none, the base is a fixed number of seconds.
    """
    whole = needed if 0 < needed < math.inf else ENDLESS
    return fractions().map(lambda fraction: fraction * whole)


# Most moves come at once: a run in which everything is late is cut too early.
_DELAYS = (0.0, 0.0, 0.0, 0.0, 0.5, 4.0, math.inf)


@st.composite
def moves(draw: st.DrawFn, replies: Sequence[str]) -> Move:
    """Single moves: one of these classes of replies, or an exception; at once, late or never."""
    # The exception comes last, so that examples shrink to a reply.
    reply = draw(st.sampled_from([*replies, *replies, RAISES]))
    seconds = draw(st.sampled_from(_DELAYS))
    return Move(reply, seconds, stubborn=seconds > 0 and draw(st.booleans()))


@st.composite
def attacks(draw: st.DrawFn, replies: Mapping[Part, Sequence[str]], *, max_moves: int = 5) -> Attack:
    """Attacks on a run, given the names of the possible replies (`Trial.parts`).

    The last move of each part repeats endlessly.
    """
    chosen = {
        part: tuple(draw(st.lists(moves(replies[part]), min_size=1, max_size=max_moves))) if replies[part] else ()
        for part in PARTS
    }
    return Attack(**chosen)


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
def graphs(draw: st.DrawFn, *, most: int = 4, loops: bool = True) -> Machine[Any, Any]:
    """Random machines as real graphs; see `drawn_graphs`. Start one with `DrawnGraph.value((0, 2, 1))`."""
    drawn = draw(drawn_graphs(most=most, loops=loops))
    # A graph's repr is short, so this note is shown with a failure.
    note(f"graph: {drawn!r}")
    return drawn.graph


def _without_unused_resets(drawn: DrawnNode, spent: set[str]) -> DrawnNode:
    ways = [dataclasses.replace(way, resets=tuple(name for name in way.resets if name in spent)) for way in drawn.ways]
    return dataclasses.replace(drawn, ways=tuple(ways))
