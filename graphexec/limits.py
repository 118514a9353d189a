"""What a run may spend, and what it has spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final, get_args

from graphexec.errors import LimitsError
from graphexec.given import told

LimitName: TypeAlias = Literal[
    "iterations", "seconds", "model_calls", "tool_calls", "tokens", "cost", "fan_out", "restarts"
]
LIMIT_NAMES: tuple[LimitName, ...] = get_args(LimitName)

# How long, in seconds, a cancelled coroutine may take to give control back; then it is abandoned.
GRACE = 0.05

# What most runs have spent of budgets of their own.
NO_BUDGETS: Mapping[str, int] = {}


def _fault(name: str, value: object) -> str | None:
    kind = {"seconds": "a number of seconds", "cost": "an amount of money"}.get(name)
    numbers = (int, float) if kind else (int,)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers):
        return f"the limit {name} is {value!r}; give {kind or 'a whole number'}, or None for no limit"
    if name == "cost" and value == 0:
        return "the limit cost is 0, and what a call costs is known after it; give money above 0, or model_calls=0"
    if not value >= 0:
        return f"the limit {name} is {value!r}; give 0 or more, or None for no limit"
    if value == math.inf:
        return f"the limit {name} is infinite; give None for no limit"
    return None


def _is_name(name: object) -> bool:
    return isinstance(name, str) and all(part.isidentifier() for part in name.split("."))


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """Something that the engine counts at the entry of the nodes it meters: `metered(budget=Budget("revisions", 2))`.

    A run may spend `limit` of it, unless `Limits(budgets={"revisions": 5})` says otherwise; `None` is no limit.

    Raises `LimitsError` for a limit that is none, and for a name that is not an identifier or is a limit's.
    """

    name: str
    limit: int | None = None

    def __post_init__(self) -> None:
        if not _is_name(self.name):
            raise LimitsError(f"a budget cannot be named {self.name!r}; give it a name that a variable could have")
        if self.name in LIMIT_NAMES and self.name != "iterations":
            raise LimitsError(f"{self.name} is a limit already, and not counted at entries; find another name")
        if fault := _fault(self.name, self.limit):
            raise LimitsError(fault)

    def __str__(self) -> str:
        return self.name


# What `metered` charges unless told otherwise; its limit is `Limits.iterations`.
ITERATIONS = Budget("iterations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may spend at most. `None` is no limit; 0 is a limit (but for a cost): none of it may be spent.

    `iterations` counts the entries into metered nodes (for the agent: plans), `seconds` the run's time without its
    pauses, `model_calls` and `tool_calls` the attempts, successful or not. They are charged before the call.
    `tokens` counts prompt and completion tokens; how many a call takes is known only after it, so it is compared
    before each model call, and the last call can exceed it. A call counts as one token at least: a provider may report
    none. `cost` is money, compared in the same way, of models that are `priced`: a reply of another model is refused,
    and what a callable agent or a tool asks of a model by itself costs nothing. Since a call may cost nothing, it
    proves of no run that it ends. `fan_out` is how many effects one visit of a node may ask for, where the node does
    not say (`asks=`), `restarts` how often a run may be taken up again after a crash (whoever does so says it:
    `Snapshot.restarted`), and `budgets` are limits for the machine's own budgets, by name.

    Raises `LimitsError` for a limit that is negative, infinite or not a number, for a cost of 0, and for a budget whose
    name cannot be one.
    """

    iterations: int | None = 15
    seconds: float | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    fan_out: int | None = None
    restarts: int | None = None
    budgets: Mapping[str, int | None] = field(default_factory=dict[str, int | None], hash=False)

    def __post_init__(self) -> None:
        # Users without a type checker pass a list of names, or the budgets themselves.
        if not isinstance(self.budgets, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LimitsError(f"budgets is {told(self.budgets)}; give a dict of names and limits: {{'revisions': 5}}")
        # A copy: proofs are kept for limits, which therefore may not change.
        object.__setattr__(self, "budgets", dict(self.budgets))
        faults = [fault for name in LIMIT_NAMES if (fault := _fault(name, getattr(self, name)))]
        faults += [fault for name, limit in self.budgets.items() if (fault := _fault(name, limit))]
        faults += [
            f"budgets has {told(name)}, which names none; give {{'revisions': 5}}, say"
            for name in self.budgets
            if not _is_name(name)
        ]
        faults += [
            f"{name} is a limit of its own; write Limits({name}=...)" for name in self.budgets if name in LIMIT_NAMES
        ]
        if faults:
            raise LimitsError("; ".join(faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has spent so far, counted as `Limits` counts; `seconds` is the run's clock at the last reply.

    `silent_calls` are the model calls that have not reported any tokens (yet): the limit counts one for each.
    What an edge resets begins again at 0: `iterations`, and the machine's own `budgets`.
    """

    iterations: int = 0
    seconds: float = 0.0
    model_calls: int = 0
    tool_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    silent_calls: int = 0
    restarts: int = 0
    cost: float = 0.0
    budgets: Mapping[str, int] = field(default_factory=lambda: NO_BUDGETS, hash=False)

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def charged_tokens(self) -> int:
        """The tokens as the limit counts them: a call takes one at least, whatever its provider reports."""
        return self.tokens + self.silent_calls


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Which limit stopped a run, or which budget: its name and value, how much was spent, how much more wanted.

    Several calls at once are allowed as a whole or not at all.
    """

    limit: str
    value: float
    reached: float
    wanted: int = field(default=1, compare=False)

    def __str__(self) -> str:
        if self.limit == "cost":
            return f"the limit of {self.value:g} on the cost was reached ({self.reached:.6g} spent)"
        units = self.limit.replace("_", " ")
        unit = units.removesuffix("s") if self.value == 1 else units
        limit = f"the limit of {_shown(self.value)} {unit}"
        if self.reached < self.value:
            return f"{limit} does not allow {self.wanted} more ({_shown(self.reached)} spent)"
        return f"{limit} was reached ({_shown(self.reached)} spent)"


def _shown(number: float) -> str:
    """A count as it is, seconds to the millisecond."""
    return str(number) if isinstance(number, int) else f"{number:.3f}".rstrip("0").rstrip(".")
