"""Meters and limits: what a run may spend, and what it has spent."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, Self, TypeGuard, TypeVar, final

from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import LIMITS_OPTIONS
from graphexec.errors import LimitsError, format_integer, format_repr, format_value, repr_fields

V = TypeVar("V")

# The limits that belong to no meter.
_OWN_LIMITS = ("seconds", "fan_out", "restarts", "depth", "nested_runs")

# The default limits: on the effects of one visit, more than agents need, and soon reached by an endless loop of asks;
# and on nested runs, their levels and their total number.
FAN_OUT, DEPTH, NESTED_RUNS = 1_000, 8, 1_000

# Seconds that a cancelled coroutine may take to return control; then it is abandoned.
GRACE = 0.05

# Integers up to this one, as most counts are, are valid for every meter: a float holds them exactly.
EXACT = 2**53


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether the value is an integer, and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether the value is a number that a float can hold, finite and not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_count(value: object, *, whole: bool) -> TypeGuard[int | float]:
    """Return whether the value is at least 0 and finite; if `whole`, an integer, of any size."""
    usual = type(value) is int and 0 <= value <= EXACT
    return usual or (is_whole(value) and value >= 0 if whole else is_number(value) and value >= 0)


def add_counts(one: float, other: float) -> float:
    """Return the sum of two counts; of two that are not whole, at most the largest float."""
    total = one + other
    return total if total < math.inf else sys.float_info.max


def _invalid(name: str, value: object, *, whole: bool = True, unit: str = "") -> str | None:
    kind = unit or ("a whole number" if whole else "a number")
    numbers = (int,) if whole else (int, float)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers):
        return f"the limit {name} is {format_value(value)}; give {kind}, or None for no limit"
    if not value >= 0:
        return f"the limit {name} is {format_value(value)}; give 0 or more, or None for no limit"
    if value == math.inf:
        return f"the limit {name} is infinite; give None for no limit"
    if not whole and not is_number(value):
        return f"the limit {name} is {format_value(value)}, more than a float can hold; give None for no limit"
    return None


@final
@dataclass(frozen=True, slots=True, repr=False)
class Meter:
    """A counter of entries into nodes, or of what effects consume, such as calls, tokens and money.

    - Entries: each entry into a node with `@node(meters=[REVISIONS], ...)` costs one, and an edge may reset the meter.
    - Effects charge it before they are carried out (`Effect.charges`), and their replies may report more of it
      (`Effect.measures`).

    A run may spend `limit` of it; `Limits({REVISIONS: 5})` overrides the limit, and `None` is no limit. A meter that is
    not `whole` counts fractions of what effects consume, and no proof relies on it. Error messages use `unit` for the
    kind of its limit ("an amount of money"), `remedy` for what to do if a reply does not report a limited meter, and
    `option` for the option of an executor that limits it. If the replies to effects that charge it are `generated`
    text, the prover warns of an exit that such text takes around a guard.

    Raises `LimitsError` for an invalid limit, and for a name that is not an identifier or that a limit has already.
    """

    name: str
    # `int` is listed, so that a whole number stays one in JSON.
    limit: int | float | None = None
    _: KW_ONLY
    whole: bool = True
    unit: str = field(default="", compare=False, repr=False)
    remedy: str = field(default="return replies that report it", compare=False, repr=False)
    option: str = field(default="", compare=False, repr=False)
    generated: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not all(part.isidentifier() for part in self.name.split(".")):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LimitsError(f"a meter cannot be named {self.name!r}; give it a name that a variable could have")
        if self.name in _OWN_LIMITS:
            raise LimitsError(f"{self.name} is a limit already; find another name for the meter")
        if fault := self.find_fault(self.limit):
            raise LimitsError(fault)
        if self.limit is not None and not self.whole:
            object.__setattr__(self, "limit", float(self.limit))

    def find_fault(self, limit: object) -> str | None:
        """Return what is wrong with a limit of the meter, and what to give."""
        if limit == 0 and not self.whole and not isinstance(limit, bool):
            return f"the limit {self.name} is 0, but what an effect consumes is only known afterwards; give more than 0"
        return _invalid(self.name, limit, whole=self.whole, unit=self.unit)

    def __repr__(self) -> str:
        limit = "" if self.limit is None else f", {format_repr(self.limit)}"
        return f"Meter({self.name!r}{limit}{'' if self.whole else ', whole=False'})"

    def __str__(self) -> str:
        return self.name


def make_measure(node: str) -> Meter:
    """Return the meter of a node's measure, of which one more than its last value counts as spent."""
    made, place = Meter("measure"), node.rfind(".") + 1
    object.__setattr__(made, "name", f"{node[:place]}measure({node[place:]})")
    return made


def is_measure(name: str) -> bool:
    """Return whether a name in a proof or in `Spent.meters` is that of a measure."""
    return name.endswith(")")


# The meter of most nodes; its limit is `Limits.iterations`.
ITERATIONS = Meter("iterations")


class FrozenMapping(Mapping[str, V], Generic[V]):
    """An immutable, hashable mapping from names, in insertion order."""

    __slots__ = ("_by_name", "_hash")
    _hash: int

    def __init__(self, by_name: Mapping[str, V]) -> None:
        self._by_name = dict(by_name)

    def __getitem__(self, name: str) -> V:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __hash__(self) -> int:
        # Cached: every run looks up its limits.
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self._by_name.items()))
            return self._hash

    def __reduce__(self) -> tuple[type[Self], tuple[dict[str, V]]]:
        # The cached hash is invalid in another process.
        return type(self), (self._by_name,)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {format_repr(value)}' for name, value in self.items())}}}"


@final
@explain_class("Limits(iterations=15)", options=LIMITS_OPTIONS)
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Limits:
    """The most that one run may spend. `None` is no limit; 0 is a limit that allows nothing.

    - `iterations`: entries into metered nodes.
    - `seconds`: the run's time, without its pauses.
    - `fan_out`: effects of one visit to a node that does not declare `asks=`; each member of a batch counts.
    - `restarts`: resumptions after a crash (`Snapshot.restarted`).
    - `depth`: levels of nested runs, such as those that tools start.
    - `nested_runs`: nested runs, at all levels together.
    - `meters`: limits of meters, in place of their own; those that only nested runs charge included. A charge is paid
      before the entry or the effect, successful or not. A meter that is only measured is compared before each effect,
      so the last effect can exceed the limit.

    Limits are immutable and hashable; `dataclasses.replace(limits, seconds=60)` changes one of them.

    Raises `LimitsError` for a limit that is negative, infinite or not a number, and for a limit of 0 on a meter that is
    not whole.
    """

    iterations: int | None
    seconds: float | None
    fan_out: int | None
    restarts: int | None
    depth: int | None
    nested_runs: int | None
    meters: Mapping[str, float | None]

    # Callers pass meters; the limits store their names.
    def __init__(
        self,
        meters: Mapping[Meter, float | None] | FrozenMapping[float | None] | None = None,
        *,
        iterations: int | None = 15,
        seconds: float | None = None,
        fan_out: int | None = FAN_OUT,
        restarts: int | None = None,
        depth: int | None = DEPTH,
        nested_runs: int | None = NESTED_RUNS,
    ) -> None:
        limits = {
            "iterations": iterations,
            "seconds": seconds,
            "fan_out": fan_out,
            "restarts": restarts,
            "depth": depth,
            "nested_runs": nested_runs,
        }
        unit = {"seconds": "a number of seconds"}
        faults = [_invalid(name, one, whole=name not in unit, unit=unit.get(name, "")) for name, one in limits.items()]
        # Any: users pass other values. `dataclasses.replace` passes the stored mapping again.
        given: Any = meters or {}
        if isinstance(meters, FrozenMapping) and type(given) is FrozenMapping:
            amounts = meters
            faults += [_invalid(name, limit, whole=isinstance(limit, int)) for name, limit in amounts.items()]
        else:
            amounts = _limits_of_meters(given, faults)
        if reported := [fault for fault in faults if fault]:
            raise LimitsError("; ".join(reported))
        for name, value in (*limits.items(), ("meters", amounts)):
            object.__setattr__(self, name, value)

    def __getitem__(self, meter: Meter | str) -> float | None:
        """Return the limit of a meter, or the limit that is set for the meter of this name; `None` if it has none."""
        return self.meters.get(meter.name, meter.limit) if isinstance(meter, Meter) else self.meters.get(meter)

    def caps(self, meters: Mapping[str, Meter]) -> dict[str, float | None]:
        """Return the limits by name, of these meters and of all that are set."""
        return {**self.meters, **{name: self[meter] for name, meter in meters.items()}}

    def __repr__(self) -> str:
        return repr_fields(self)


def _limits_of_meters(meters: Mapping[Meter, float | None], faults: list[str | None]) -> FrozenMapping[float | None]:
    # Users without a type checker pass a list of meters.
    if not isinstance(meters, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LimitsError(f"the limits are {format_value(meters)}; give a dict of meters and limits: {{METER: 5}}")
    amounts: dict[str, float | None] = {}
    for meter, limit in meters.items():
        if not isinstance(meter, Meter):  # pyright: ignore[reportUnnecessaryIsInstance]
            # Any: of another class than the annotation says.
            name: Any = meter
            key = f"Meter({name!r})" if isinstance(name, str) else "METER"
            raise LimitsError(f"the limits have {format_value(meter)}, which is not a meter; give {{{key}: 5}}")
        fault = meter.find_fault(limit)
        if meter.name == ITERATIONS.name:
            fault = f"{meter.name} is a limit of its own; write Limits({meter.name}=...)"
        faults.append(fault)
        amounts[meter.name] = limit if fault or meter.whole or limit is None else float(limit)
    return FrozenMapping(amounts)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Spent:
    """The spending of a run so far, counted as in `Limits`.

    `seconds` is the run's clock at the last reply, or when an exception ended the run. `spent[METER]` is the amount of
    a meter; one that an edge resets starts again at 0. `meters` has those of which something is spent.
    """

    iterations: int = 0
    seconds: float = 0.0
    restarts: int = 0
    meters: Mapping[str, float] = field(default=FrozenMapping({}))

    def __post_init__(self) -> None:
        spent = {name: count for name, count in self.meters.items() if count}
        object.__setattr__(self, "meters", FrozenMapping(spent))

    def __getitem__(self, meter: Meter | str) -> float:
        """Return the spent amount of a meter, given as a `Meter` or by name; 0 if it was never charged."""
        return self.meters.get(meter.name if isinstance(meter, Meter) else meter, 0)

    def __repr__(self) -> str:
        return repr_fields(self)


@dataclass(frozen=True, slots=True, repr=False)
class Exhausted:
    """The limit that stopped a run: its name and `value`, the amount `reached`, and how much more was `wanted`.

    `outer` is true if the limit belongs to a run that contains this one.
    """

    limit: str
    # `int` is listed, so that a whole number stays one in JSON.
    value: int | float
    reached: int | float
    wanted: int = field(default=1, compare=False)
    outer: bool = False

    @property
    def reason(self) -> str:
        """The name of the limit, as the `reason` of a result."""
        return self.limit

    def __str__(self) -> str:
        return f"{self._text()}, in an outer run" if self.outer else self._text()

    def __repr__(self) -> str:
        return repr_fields(self)

    def _text(self) -> str:
        if self.limit == "depth":
            levels = "level" if self.value == 1 else "levels"
            return f"the limit of {format_count(self.value)} {levels} of nested runs was reached"
        units = self.limit.replace("_", " ")
        if isinstance(self.value, float) and self.limit != "seconds":
            # A meter that counts fractions has no unit, such as the cost.
            spent = f"{self.reached:.6g}" if is_number(self.reached) else format_count(self.reached)
            return f"the limit of {self.value:g} on the {units} was reached ({spent} spent)"
        unit = units.removesuffix("s") if self.value == 1 and not units.endswith("ss") else units
        limit = f"the limit of {format_count(self.value)} {unit}"
        if self.reached < self.value:
            return f"{limit} does not allow {format_count(self.wanted)} more ({format_count(self.reached)} spent)"
        return f"{limit} was reached ({format_count(self.reached)} spent)"


def format_count(number: float) -> str:
    """Return an integer in full, or shortened if it is long (`1.0e+5000`), and seconds to the millisecond."""
    return format_integer(number) if isinstance(number, int) else f"{number:.3f}".rstrip("0").rstrip(".")
