"""What a run may spend, and what it has spent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from graphexec.errors import LimitsError

LimitName: TypeAlias = Literal["iterations", "seconds", "model_calls", "tool_calls", "tokens"]
LIMIT_NAMES: tuple[LimitName, ...] = get_args(LimitName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may spend at most. `None` is no limit; 0 is a limit like any other: none of it may be spent.

    `iterations` counts the entries into metered nodes (for the agent: plans), `seconds` the run's time without its
    pauses, `model_calls` and `tool_calls` the attempts, successful or not. They are charged before the call.
    `tokens` counts prompt and completion tokens; how many a call takes is known only after it, so it is compared
    before each model call, and the last call can exceed it.

    Raises `LimitsError` for a negative limit and for one that is not a number.
    """

    iterations: int | None = 15
    seconds: float | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        faults = [fault for name in LIMIT_NAMES if (fault := _fault(name, getattr(self, name)))]
        if faults:
            raise LimitsError("; ".join(faults))


def _fault(name: LimitName, value: object) -> str | None:
    numbers = (int, float) if name == "seconds" else (int,)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers):
        kind = "a number of seconds" if name == "seconds" else "a whole number"
        return f"the limit {name} is {value!r}; give {kind}, or None for no limit"
    if math.isnan(value) or value < 0:
        return f"the limit {name} is {value!r}; give 0 or more, or None for no limit"
    if math.isinf(value):
        return f"the limit {name} is infinite; give None for no limit"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has spent so far, counted as `Limits` counts; `seconds` is the run's clock at the last reply."""

    iterations: int = 0
    seconds: float = 0.0
    model_calls: int = 0
    tool_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Which limit stopped a run: its name, its value, how much of it had been spent, and how much more was wanted.

    Several calls at once are allowed as a whole or not at all.
    """

    limit: LimitName
    value: float
    reached: float
    wanted: int = field(default=1, compare=False)

    def __str__(self) -> str:
        units = self.limit.replace("_", " ")
        unit = units.removesuffix("s") if self.value == 1 else units
        limit = f"the limit of {_shown(self.value)} {unit}"
        if self.reached < self.value:
            return f"{limit} does not allow {self.wanted} more ({_shown(self.reached)} spent)"
        return f"{limit} was reached ({_shown(self.reached)} spent)"


def _shown(number: float) -> str:
    """A count as it is, seconds to the millisecond."""
    return str(number) if isinstance(number, int) else f"{number:.3f}".rstrip("0").rstrip(".")
