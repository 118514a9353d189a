"""Hypothesis strategies of the checks: limits of every kind, and attacks on a run.

They draw plain data, which shrinks to readable values: `turns=(1, raises), limits=iterations=1`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from hypothesis import strategies as st

from graphexec.effects import AGENT_METERS, MODEL_CALLS, TOKENS, TOOL_CALLS, agent_limits
from graphexec.kernel.meters import FrozenMapping, Limits, is_whole
from graphexec.testing.adversary import Attack, Move, Part
from graphexec.testing.explorer.stub_nodes import WIDEST

# Small, because a script may ask up to this number of times; most values do not stop a visit.
_FAN_OUTS = (WIDEST, WIDEST, WIDEST, 2, 1, 0)


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
        return draw(st.none() | st.integers(0, cap) if limit is None else st.integers(0, min(int(limit), cap)))

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
    )
    if not further:
        return drawn
    # A limit on fractional amounts cannot be 0.
    lowered = {name: draw(st.integers(0, limit)) for name, limit in further.items() if is_whole(limit)}
    meters = {**drawn.meters, **further, **lowered}
    return dataclasses.replace(drawn, meters=FrozenMapping(meters))


def fractions() -> st.SearchStrategy[float]:
    """Fractions of the time that a run needs: none, a part, all of it, or more."""
    return st.sampled_from([1.0, 1.5, 0.75, 0.5, 0.25, 0.0])


# Most moves come at once: a run in which everything is late is cut too early.
_DELAYS = (0.0, 0.0, 0.0, 0.0, 0.5, 4.0, math.inf)


@st.composite
def moves(draw: st.DrawFn, numbers: range) -> Move:
    """Single moves: one of the replies with these numbers, or an exception; at once, late or never."""
    # The exception comes last, so that examples shrink to a reply.
    several = [*range(numbers.stop), *range(-1, numbers.start - 1, -1)]
    number = draw(st.sampled_from([*several, *several, None]))
    seconds = draw(st.sampled_from(_DELAYS))
    return Move(number, seconds, stubborn=seconds > 0 and draw(st.booleans()))


@st.composite
def attacks(draw: st.DrawFn, numbers: Mapping[Part, range], *, max_moves: int = 5) -> Attack:
    """Attacks on a run, given the numbers of the possible replies (`Trial.numbers`).

    The last move of each part repeats endlessly.
    """
    drawn: dict[Part, tuple[Move, ...]] = {}
    for part, one in numbers.items():
        drawn[part] = tuple(draw(st.lists(moves(one), min_size=1, max_size=max_moves)))
    return Attack(drawn)
