"""Certificates: proofs as data, which can be checked without knowing how they were found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar

from graphexec.errors import CertificateError, format_number, format_value, repr_fields
from graphexec.kernel.effects import NestedRuns
from graphexec.kernel.program import Proof, Ranks
from graphexec.verify.proof.flow import Flow

# The version of the JSON form. It changes when an old checker could misread the new form. Version 1 (graphexec 0.1)
# named the meters of agents; version 2 did not prove its numbers.
VERSION = 3

T = TypeVar("T")
K = TypeVar("K")


class _FrozenDict(dict[K, T]):
    """A dict that nobody changes: certificates are cached, and shared by all executors with one table."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a certificate is immutable; prove the machine again, or use dataclasses.replace")

    # Any: it takes the place of several methods.
    _refusing: Any = _refuse
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refusing

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (dict(self),)


def _freeze(record: object, *names: str) -> None:
    for name in names:
        if (mapping := getattr(record, name)) is not None:
            object.__setattr__(record, name, _FrozenDict(mapping))


# The potential of a node: a number, and for each budget a factor for the amount that is left of it.
Line: TypeAlias = tuple[int, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class Potential:
    """An upper bound, for each node, on what a run can still count from there. It proves a number.

    For every transition, its count plus the potential of its target is at most the potential of its source. `lines` are
    linear in the amount left of each budget. `states` are values for a node and the amounts left of `counters`; they
    are used where lines would be too high. If there are `limits`, (name, factor), the sum of factor times limit bounds
    the charges, and the potential covers only reserved visits, which the limits do not include.
    """

    lines: Mapping[str, Line]
    limits: tuple[tuple[str, int], ...] = ()
    counters: tuple[str, ...] = ()
    states: tuple[tuple[str, tuple[int, ...], int], ...] = ()

    def __post_init__(self) -> None:
        _freeze(self, "lines")


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper bound on something that a run counts.

    `form` holds for all limits, in their names (`4*iterations + 2`); `value` is its value for the given limits.
    `number` is the least bound known for these limits; the `potential` proves it. If it is `exact`, some run through
    the flow reaches it. All are `None` if there is no bound. `assuming` is a condition that the proof does not check.
    Where measures end the loops, there may be a `form` without a number: `measure(work)` is the measure of the first
    visit to `work`, which only the run knows.
    """

    form: str | None
    # `int` is listed, so that a whole number stays one in JSON.
    number: int | float | None
    exact: bool = False
    value: int | float | None = None
    assuming: str | None = None
    potential: Potential | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if self.number is None:
            return "no bound" if self.form is None else f"{self.form} (at most, with the measure of the first visit)"
        how = ("exact" if self.exact else "at most") + self.condition
        number = format_number(self.number)
        if self.form is None or self.form == number:
            return f"{number} ({how})"
        if self.value is not None and self.value != self.number:
            return f"at most {self.form}, here {number} ({how})"
        return f"{self.form} = {number} ({how})"

    def __repr__(self) -> str:
        return repr_fields(self)

    @property
    def condition(self) -> str:
        """The assumption as the end of a sentence (", if ..."), or an empty string."""
        return "" if self.assuming is None else f", if {self.assuming}"


# The assumption of a bound on seconds: a function that does not return cannot be cut off.
TIMELY = "nodes, policies and observers return at once and the event loop is not blocked"

# The bound on a meter that nothing in a machine charges.
NOTHING = Bound("0", 0, exact=True, value=0)


def bound_by_limit(name: str, limit: float | None) -> Bound:
    """Return the bound that a limit itself is, or none without a limit."""
    return Bound(None, None) if limit is None else Bound(name, limit, value=limit)


def is_limit_of(bound: Bound, name: str) -> bool:
    """Return whether the limit on the meter itself gives the bound."""
    return bound.potential is not None and [one for one, _ in bound.potential.limits] == [name]


class _LazyFields:
    """Fields that are computed when one of them is first read."""

    __slots__ = ("_compute",)

    @classmethod
    def lazy(cls, compute: Callable[[], Self]) -> Self:
        """Return an object whose fields are those of what `compute` returns."""
        made = object.__new__(cls)
        object.__setattr__(made, "_compute", compute)
        return made

    # Called for a field without a value. Type checkers would take any name for one.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Compute all fields, and return this one."""
            if name not in type(self).__dataclass_fields__:
                raise AttributeError(f"{type(self).__name__} has no attribute {name}", name=name, obj=self)
            # Two threads may compute them at once, and find the same.
            computed = self._compute()
            for one in fields(computed):
                object.__setattr__(self, one.name, getattr(computed, one.name))
            return object.__getattribute__(self, name)


@dataclass(frozen=True, slots=True)
class Bounds(_LazyFields):
    """The bounds of a run: transitions, charges of meters that no reply reports, and seconds until control returns.

    The bounds in `meters` include the nested runs of `as_tool` and `map_agents`; those in `alone` cover only the
    machine's own effects. `depth` bounds the levels of nested runs, and `nested_runs` their number. `quotas` are those
    budgets that effects cost of which a run spends less than the bound on the meters that the same effects charge. All
    are for a run that is not itself nested and keeps its limits through pauses; `transitions_when_nested` is for one
    that an outer run may stop anywhere, and `transitions_when_resumed` for the rest of one that is resumed with other
    limits.
    """

    transitions: Bound
    meters: Mapping[str, Bound]
    seconds: Bound
    depth: Bound = Bound(None, None)
    nested_runs: Bound = Bound(None, None)
    alone: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    quotas: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    transitions_when_nested: Bound = Bound(None, None)
    transitions_when_resumed: Bound = Bound(None, None)

    def __post_init__(self) -> None:
        _freeze(self, "meters", "alone", "quotas")

    @property
    def model_calls(self) -> Bound:
        """The bound on an agent's model calls."""
        return self.meters.get("model_calls", NOTHING)

    @property
    def tool_calls(self) -> Bound:
        """The bound on an agent's tool calls."""
        return self.meters.get("tool_calls", NOTHING)

    def rows(self) -> tuple[tuple[str, Bound], ...]:
        """Return every bound and its name, in the order in which they are shown."""
        return (
            ("transitions", self.transitions),
            *self.meters.items(),
            *self.quotas.items(),
            ("seconds", self.seconds),
        )


@dataclass(frozen=True, slots=True)
class Certificate:
    """A proof that every run of `flow` ends under `limits`: each transition lowers the rank of the run's node.

    `ranks` are `None` if loops end only because these limits are low; then each transition lowers the potential of
    transitions. `limits` has every limit by name, including the machine's own budgets; `None` means no limit. `nested`
    is what its nested runs charge, as far as it is known. If it `holds_when_nested`, the ranks also fall where a limit
    is reached that only an outer run has.
    """

    flow: Flow
    limits: Mapping[str, int | float | None]
    ranks: Ranks | None
    bounds: Bounds
    nested: tuple[NestedRuns, ...] = ()
    holds_when_nested: bool = False

    def __post_init__(self) -> None:
        _freeze(self, "limits", "ranks")

    def __repr__(self) -> str:
        return repr_fields(self)

    @property
    def proof(self) -> Proof:
        """What the engine holds each run to."""
        return Proof(self.ranks, self._count_steps, self.holds_when_nested, self._count_steps_when_resumed)

    def _count_steps(self, name: str = "transitions_when_nested") -> int | None:
        anywhere = self.ranks is not None and self.holds_when_nested
        bound: Bound = getattr(self.bounds, name if anywhere else "transitions")
        return None if bound.number is None else int(bound.number)

    def _count_steps_when_resumed(self) -> int | None:
        return self._count_steps("transitions_when_resumed")

    @property
    def digest(self) -> str:
        """The digest of its flow."""
        return self.flow.digest

    def to_json(self) -> str:
        """Return the certificate as JSON, for `from_json`."""
        from graphexec.kernel.serialization import format_json

        fields = {**asdict(self), "flow": self.flow.to_data()}
        data = {"graphexec_certificate": VERSION, "digest": self.digest, **fields}
        return format_json({**data, "sha256": _sum_of(data)}, indent=2)

    @staticmethod
    def from_json(text: str) -> Certificate:
        """Read what `to_json` wrote. Raises `CertificateError` if the text is not a certificate or was changed.

        The checksum detects accidents, not forgeries: a forger can compute a new one. Trust `check`.
        """
        # Imported here because it loads pydantic, which a proof does not need.
        from graphexec.kernel.serialization import INVALID_DATA_ERRORS, load_as, parse_json

        try:
            data = parse_json(text)
            version = data["graphexec_certificate"]
        except INVALID_DATA_ERRORS as error:
            raise CertificateError(f"this is not a certificate: {error!r}; pass what to_json wrote") from None
        if version != VERSION:
            raise CertificateError(
                f"this certificate has version {format_value(version)}, and this graphexec reads version {VERSION}; "
                f"prove the machine again"
            )
        try:
            changed = data.pop("sha256", None) != _sum_of(data)
            given = {name: one for name, one in data.items() if name not in ("graphexec_certificate", "digest")}
            certificate: Certificate = load_as(Certificate, given)
        except INVALID_DATA_ERRORS as error:
            fact = " ".join(f"{error!r}".split())
            raise CertificateError(f"this certificate is broken: {fact}; prove the machine again") from None
        if changed:
            raise CertificateError("this certificate was changed since it was made; prove the machine again")
        return certificate


def _sum_of(data: Mapping[str, Any]) -> str:
    from graphexec.kernel.serialization import format_json

    return hashlib.sha256(format_json(data, sort_keys=True, allow_nan=False).encode()).hexdigest()
