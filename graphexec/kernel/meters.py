"""Budgets, meters and limits: what a run may spend, and has spent.

A `Budget` belongs to a machine: entering the nodes that it meters costs one of it, and an edge may refill it. A `Meter`
belongs to effects, which charge it before they are carried out; their replies may report more of it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeGuard, TypeVar, final

from graphexec.errors import LimitsError, SnapshotError, format_integer, format_repr, format_value, repr_fields

V = TypeVar("V")

# The limits that belong to no budget and no meter.
_OWN_LIMITS = ("seconds", "fan_out", "restarts", "depth", "nested_runs")

# The limit on the effects of one visit, unless another is set: above what agents ask for, and soon reached by a node
# that asks until it likes the answer.
FAN_OUT = 1_000

# The limits on runs within a run, unless others are set: the levels of them, and how many there are in all.
DEPTH = 8
NESTED_RUNS = 1_000

# How long, in seconds, a cancelled coroutine may take to give control back; then it is abandoned.
GRACE = 0.05


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether the value is an integer, and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether the value is a number that a float can hold, finite and not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_count(value: object, *, whole: bool) -> TypeGuard[int | float]:
    """Return whether the value is at least 0 and finite; if `whole`, an integer, of any size."""
    return is_whole(value) and value >= 0 if whole else is_number(value) and value >= 0


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


def _is_name(name: object) -> bool:
    return isinstance(name, str) and all(part.isidentifier() for part in name.split("."))


def _check_name(kind: str, name: object) -> None:
    if not _is_name(name):
        raise LimitsError(f"a {kind} cannot be named {name!r}; give it a name that a variable could have")
    if name in _OWN_LIMITS:
        raise LimitsError(f"{name} is a limit already; find another name for the {kind}")


@final
@dataclass(frozen=True, slots=True, repr=False)
class Budget:
    """A count of a machine's own: entering a node that it meters costs one, `metered(budget=Budget("revisions", 2))`.

    A run may spend `limit` of it, unless `Limits(budgets={"revisions": 5})` says otherwise; `None` is no limit. Raises
    `LimitsError` for an invalid limit, and for a name that is not an identifier or is a limit's.
    """

    name: str
    limit: int | None = None

    def __post_init__(self) -> None:
        _check_name("budget", self.name)
        if fault := _invalid(self.name, self.limit):
            raise LimitsError(fault)

    def __repr__(self) -> str:
        return repr_fields(self)

    def __str__(self) -> str:
        return self.name


# What `metered` charges unless told otherwise; its limit is `Limits.iterations`.
ITERATIONS = Budget("iterations")


@final
@dataclass(frozen=True, slots=True)
class Meter:
    """A count of what effects take of the world (`Effect.charges`, `Effect.measures`): calls, tokens, money.

    One that is not `whole` counts fractions, so no proof counts on it. In error messages, `unit` is the kind of a limit
    ("an amount of money"), and `remedy` what to do where a reply does not report a limited meter.

    Raises `LimitsError` for a name that is not an identifier or is a limit's.
    """

    name: str
    whole: bool = True
    unit: str = field(default="", compare=False, repr=False)
    remedy: str = field(default="return replies that report it", compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_name("meter", self.name)
        if self.name == ITERATIONS.name:
            raise LimitsError("iterations are counted at entries and not by effects; find another name for the meter")

    def __str__(self) -> str:
        return self.name


class FrozenMapping(Mapping[str, V], Generic[V]):
    """An immutable, hashable mapping by name, in the order given."""

    __slots__ = ("_hash", "_names", "_values")
    _hash: int

    def __init__(self, names: tuple[str, ...], values: tuple[V, ...]) -> None:
        self._names = names
        self._values = values

    def __getitem__(self, name: str) -> V:
        try:
            return self._values[self._names.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __hash__(self) -> int:
        # Limits are looked up at the start of every run.
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self.items()))
            return self._hash

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[str, ...], tuple[V, ...]]]:
        # Another process has other hashes.
        return type(self), (self._names, self._values)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {format_repr(value)}' for name, value in self.items())}}}"


@final
class Counts(FrozenMapping[float]):
    """How much is spent, by name. What was never spent is 0, also in comparisons."""

    __slots__ = ()

    def __getitem__(self, name: str) -> float:
        return self._values[self._names.index(name)] if name in self._names else 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        # The items of a foreign mapping may be anything, and then are not equal to ours.
        return dict(self._nonzero()) == {name: count for name, count in other.items() if count}  # pyright: ignore[reportUnknownVariableType]

    def __hash__(self) -> int:
        return hash(self._nonzero())

    def _nonzero(self) -> frozenset[tuple[str, float]]:
        return frozenset((name, count) for name, count in zip(self._names, self._values, strict=True) if count)


NOTHING = Counts((), ())


def _frozen(items: Iterable[tuple[str, V]]) -> FrozenMapping[V]:
    by_name = dict(items)
    return FrozenMapping(tuple(by_name), tuple(by_name.values()))


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Limits:
    """The most that one run may spend. `None` is no limit; 0 is a limit: none of it may be spent.

    `iterations` counts entries into metered nodes, `seconds` the run's time without its pauses, `fan_out` the effects
    of one visit of a node that does not say (`asks=`), each member of a batch by itself, `restarts` the resumptions
    after a crash (`Snapshot.restarted`). `depth` counts the levels of runs within the run, which its tools start, say,
    and `nested_runs` these runs, at all levels. `budgets` are limits for the machine's own budgets, by name.

    `meters` are limits of what effects take. Charges are paid before the effect, successful or not. A meter that is
    only measured is compared before each effect: the last one can exceed it.

    Limits are immutable and hashable; `dataclasses.replace(limits, seconds=60)` changes one of them.

    Raises `LimitsError` for a limit that is negative, infinite or not a number, for a limit of 0 on a meter that is not
    whole, and for an invalid name of a budget.
    """

    iterations: int | None
    seconds: float | None
    fan_out: int | None
    restarts: int | None
    depth: int | None
    nested_runs: int | None
    budgets: Mapping[str, int | None]
    meters: Mapping[str, float]

    # The meters are given as such, and kept by name.
    def __init__(
        self,
        meters: Mapping[Meter, float | None] | FrozenMapping[float] | None = None,
        *,
        iterations: int | None = 15,
        seconds: float | None = None,
        fan_out: int | None = FAN_OUT,
        restarts: int | None = None,
        depth: int | None = DEPTH,
        nested_runs: int | None = NESTED_RUNS,
        budgets: Mapping[str, int | None] | None = None,
    ) -> None:
        limits = {
            "iterations": iterations,
            "seconds": seconds,
            "fan_out": fan_out,
            "restarts": restarts,
            "depth": depth,
            "nested_runs": nested_runs,
        }
        units = {"seconds": "a number of seconds"}
        faults = [
            _invalid(name, limit, whole=name not in units, unit=units.get(name, "")) for name, limit in limits.items()
        ]
        own = _limits_of_budgets(budgets or {}, faults)
        # By name, as `dataclasses.replace` gives them back; but `Counts`, in which nothing is missing, are no limits.
        if isinstance(meters, FrozenMapping) and not isinstance(meters, Counts):
            amounts = meters
        else:
            # Any: a front door, where others come too.
            given: Any = meters or {}
            amounts = _limits_of_meters(given, faults)
        found = [fault for fault in faults if fault]
        if found:
            raise LimitsError("; ".join(found))
        for name, value in (*limits.items(), ("budgets", own), ("meters", amounts)):
            object.__setattr__(self, name, value)

    def __getitem__(self, meter: Meter | str) -> float | None:
        """Return the limit of a meter, given as such or by name; `None` where it has none."""
        return self.meters.get(str(meter))

    def __repr__(self) -> str:
        return repr_fields(self)


def _limits_of_budgets(budgets: Mapping[str, int | None], faults: list[str | None]) -> FrozenMapping[int | None]:
    # A front door: a list of names is a common mistake.
    if not isinstance(budgets, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        given = format_value(budgets)
        raise LimitsError(f"budgets is {given}; give a dict of names and limits: {{'revisions': 5}}")
    faults += [_invalid(name, limit) for name, limit in budgets.items()]
    faults += [
        f"budgets has {format_value(name)}, which names none; give {{'revisions': 5}}, say"
        for name in budgets
        if not _is_name(name)
    ]
    faults += [
        f"{name} is a limit of its own; write Limits({name}=...)"
        for name in budgets
        if name in (*_OWN_LIMITS, ITERATIONS.name)
    ]
    return _frozen(budgets.items())


def _limits_of_meters(meters: Mapping[Meter, float | None], faults: list[str | None]) -> FrozenMapping[float]:
    # As above.
    if not isinstance(meters, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LimitsError(f"the limits are {format_value(meters)}; give a dict of meters and limits: {{METER: 5}}")
    found: dict[str, float] = {}
    for meter, limit in meters.items():
        if not isinstance(meter, Meter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LimitsError(f"the limits have {format_value(meter)}, which is not a meter; give {{METER: 5}}")
        fault = _invalid(meter.name, limit, whole=meter.whole, unit=meter.unit)
        if fault is None and limit == 0 and not meter.whole:
            fault = (
                f"the limit {meter.name} is 0, and how much an effect takes of it is known after it; give more than 0"
            )
        faults.append(fault)
        if limit is not None:
            found[meter.name] = limit if fault or meter.whole else float(limit)
    return _frozen(found.items())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Spent:
    """The spending of a run so far, counted as `Limits` counts; `seconds` is the run's clock at the last reply.

    `spent[METER]` is how much effects have taken of a meter. What an edge resets begins again at 0.

    Raises `SnapshotError` for counts that are negative, not finite or not whole.
    """

    iterations: int = 0
    seconds: float = 0.0
    restarts: int = 0
    budgets: Mapping[str, float] = field(default=NOTHING, hash=False)
    meters: Mapping[str, float] = field(default=NOTHING, hash=False)

    def __post_init__(self) -> None:
        # From JSON and by hand anything comes.
        counts: list[tuple[str, object, bool]] = [
            ("iterations", self.iterations, True),
            ("seconds", self.seconds, False),
            ("restarts", self.restarts, True),
        ]
        for name in ("budgets", "meters"):
            given: object = getattr(self, name)
            if not isinstance(given, Mapping):
                raise SnapshotError(f"Spent has {name}={format_value(given)}; give a dict of names and counts")
            # isinstance cannot tell the types inside, which are looked at one by one.
            items: list[tuple[Any, Any]] = list(given.items())  # pyright: ignore[reportUnknownArgumentType]
            counts += [(f"{name}[{format_value(one)}]", count, not isinstance(count, float)) for one, count in items]
            if not isinstance(given, Counts):
                object.__setattr__(self, name, Counts(*map(tuple, zip(*items, strict=True))) if items else NOTHING)
        _check_counts("Spent", counts)

    @staticmethod
    def unchecked(iterations: int, seconds: float, restarts: int, budgets: Counts, meters: Counts) -> Spent:
        """Return what the engine has counted, without looking at it again."""
        spent = object.__new__(Spent)
        object.__setattr__(spent, "iterations", iterations)
        object.__setattr__(spent, "seconds", seconds)
        object.__setattr__(spent, "restarts", restarts)
        object.__setattr__(spent, "budgets", budgets)
        object.__setattr__(spent, "meters", meters)
        return spent

    def __getitem__(self, meter: Meter | str) -> float:
        """Return how much is spent of a meter, given as such or by name; 0 of one that was never charged."""
        return self.meters.get(str(meter), 0)

    def __repr__(self) -> str:
        return repr_fields(self)


def check_spent(spent: Spent, meters: Mapping[str, Meter]) -> None:
    """Raise `SnapshotError` where less than whole numbers are spent of whole meters, given by name."""
    _check_counts(
        "Spent", [(name, count, meters[name].whole) for name, count in spent.meters.items() if name in meters]
    )


def _check_counts(owner: str, counts: Iterable[tuple[str, object, bool]]) -> None:
    """Raise `SnapshotError` unless each count, with its name and whether it is whole, can be one."""
    faults = [
        f"{owner} has {name}={format_value(count)}; give a {'whole' if whole else 'finite'} number, 0 or more"
        for name, count, whole in counts
        if not is_count(count, whole=whole)
    ]
    if faults:
        raise SnapshotError("; ".join(faults))


@dataclass(frozen=True, slots=True, repr=False)
class Exhausted:
    """The limit or budget that stopped a run: name, value, how much was spent, how much more wanted.

    It may be that of an `outer` run, which this one runs within.

    Raises `SnapshotError` for numbers that are negative or not finite.
    """

    limit: str
    # Not `float` alone: as JSON, a whole number stays one.
    value: int | float
    reached: int | float
    wanted: int = field(default=1, compare=False)
    outer: bool = False

    def __post_init__(self) -> None:
        # As in `Spent`.
        named = isinstance(self.limit, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not named or not isinstance(self.outer, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            given = f"limit={format_value(self.limit)} and outer={format_value(self.outer)}"
            raise SnapshotError(f"Exhausted has {given}; give a limit's name, and True or False")
        amounts = [("value", self.value), ("reached", self.reached)]
        _check_counts(
            "Exhausted", [*((name, one, isinstance(one, int)) for name, one in amounts), ("wanted", self.wanted, True)]
        )

    def __str__(self) -> str:
        return f"{self._text()}, by the run around it" if self.outer else self._text()

    def __repr__(self) -> str:
        return repr_fields(self)

    def _text(self) -> str:
        if self.limit == "depth":
            levels = "level" if self.value == 1 else "levels"
            return f"the limit of {format_count(self.value)} {levels} of runs within a run was reached"
        units = self.limit.replace("_", " ")
        if isinstance(self.value, float) and self.limit != "seconds":
            # A meter that counts fractions has no unit: the limit on the cost.
            return f"the limit of {self.value:g} on the {units} was reached ({_format_amount(self.reached)} spent)"
        unit = units.removesuffix("s") if self.value == 1 and not units.endswith("ss") else units
        limit = f"the limit of {format_count(self.value)} {unit}"
        if self.reached < self.value:
            return f"{limit} does not allow {format_count(self.wanted)} more ({format_count(self.reached)} spent)"
        return f"{limit} was reached ({format_count(self.reached)} spent)"


def _format_amount(number: float) -> str:
    return f"{number:.6g}" if is_number(number) else format_count(number)


def format_count(number: float) -> str:
    """Return an integer as it is, or shortened (`1.0e+5000`), and seconds to the millisecond."""
    return format_integer(number) if isinstance(number, int) else f"{number:.3f}".rstrip("0").rstrip(".")
