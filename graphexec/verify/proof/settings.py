"""Remedies that set a limit: by an executor's options, by agents' limits, or by those of any machine."""

from __future__ import annotations

from collections.abc import Iterable

from graphexec.effects import COST, MODEL_CALLS, TOKENS, TOOL_CALLS
from graphexec.kernel.meters import ITERATIONS

# The meters that executors have options for: `max_tokens`, in `agent_limits` `tokens`.
AGENT_METERS = (MODEL_CALLS.name, TOOL_CALLS.name, TOKENS.name, COST.name)


def meter_limit(name: str) -> str:
    """Return how a limit on a meter is written: `Limits({PAYMENTS: 5})`. Meters are mostly kept in constants."""
    return f"Limits({{{name.upper()}: 5}})"


def limit_remedy(name: str, meters: Iterable[str]) -> str:
    """Return what to write so that something has a limit: the iterations, one of the `meters`, or else a budget."""
    if name == ITERATIONS.name:
        return f"set max_{name} (Limits({name}=...))"
    if name in AGENT_METERS and name in meters:
        return f"set max_{name} (agent_limits({name}=...))"
    if name in meters:
        return f"set a limit on {name}: {meter_limit(name)}"
    nested, _, budget = name.rpartition(".")
    where = f'embed(..., own=[Budget("{budget}", 3)]) for {nested}' if nested else f'Budget("{budget}", 3)'
    return f'give the budget {name} a limit: {where}, or Limits(budgets={{"{name}": 3}})'


def fan_out_remedy(meters: Iterable[str]) -> str:
    """Return what to set so that a visit asks for a number of effects that is known: a limit on each of the meters."""
    names = list(dict.fromkeys(meters))
    if all(name in AGENT_METERS for name in names):
        return f"set {', '.join(f'max_{name}' for name in ('fan_out', *names))} (agent_limits has them without max_)"
    return f"set Limits({{{', '.join(f'{name.upper()}: 5' for name in names)}}}, fan_out=5)"
