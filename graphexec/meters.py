"""What an agent's effects take of the world: calls, tokens, money."""

from __future__ import annotations

from collections.abc import Mapping

from graphexec.errors import LimitsError
from graphexec.kernel.meters import Limits, Meter, Spent

MODEL_CALLS = Meter("model_calls")
TOOL_CALLS = Meter("tool_calls")
# As the limit counts them: a call takes one at least, whatever its provider reports.
TOKENS = Meter("tokens")
PROMPT_TOKENS = Meter("prompt_tokens")
COMPLETION_TOKENS = Meter("completion_tokens")
COST = Meter("cost", whole=False, unit="an amount of money", remedy="wrap the model: priced(model, Price(...))")

_LIMITED = frozenset(meter.name for meter in (MODEL_CALLS, TOOL_CALLS, TOKENS, COST))


# Each parameter is a limit.
def agent_limits(  # noqa: PLR0913
    *,
    iterations: int | None = 15,
    seconds: float | None = None,
    model_calls: int | None = None,
    tool_calls: int | None = None,
    tokens: int | None = None,
    cost: float | None = None,
    fan_out: int | None = None,
    restarts: int | None = None,
    budgets: Mapping[str, int | None] | None = None,
) -> Limits:
    """Return the limits of an agent's run: those of every machine, and those on what its effects take.

    `iterations` counts plans, `model_calls` and `tool_calls` the attempts, successful or not; they are charged before
    the call. `tokens` counts prompt and completion tokens; how many a call takes is known only after it, so the last
    call can exceed the limit. A call counts as one token at least: a provider may report none. `cost` is money,
    compared before each call, of models that are `priced`: a reply of another model is refused, and what a callable
    agent or a tool asks of a model by itself costs nothing. Since a call may cost nothing, it cannot
    prove termination. The others are as in `Limits`.

    Raises `LimitsError` as `Limits` does, and for a cost of 0.
    """
    for name in budgets or ():
        if name in _LIMITED:
            raise LimitsError(f"{name} is a limit of its own; write agent_limits({name}=...)")
    if cost == 0 and not isinstance(cost, bool):
        text = "the limit cost is 0, and what a call costs is known after it; give money above 0, or model_calls=0"
        raise LimitsError(text)
    return Limits(
        {MODEL_CALLS: model_calls, TOOL_CALLS: tool_calls, TOKENS: tokens, COST: cost},
        iterations=iterations,
        seconds=seconds,
        fan_out=fan_out,
        restarts=restarts,
        budgets=budgets,
    )


def reported_tokens(spent: Spent) -> int:
    """Return the prompt and completion tokens that providers have reported."""
    return int(spent[PROMPT_TOKENS] + spent[COMPLETION_TOKENS])


def silent_calls(spent: Spent) -> int:
    """Return the model calls that have not reported any tokens (yet): the limit counts one for each."""
    return int(spent[TOKENS]) - reported_tokens(spent)
