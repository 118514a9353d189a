"""The certificate: a proof as data, which anyone can check without knowing how it was found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias, TypeVar

from graphexec.effects import MODEL_CALLS, TOOL_CALLS
from graphexec.errors import CertificateError, format_number, format_value, repr_fields
from graphexec.kernel.counters import Ranks
from graphexec.kernel.effects import NestedRuns
from graphexec.kernel.meters import is_number, is_whole
from graphexec.verify.proof.flow import Flow, Transition

# Of the JSON form; it changes when a checker of the old form could misread the new one. Version 1, of graphexec 0.1,
# had the meters of agents by name; version 2 did not prove its numbers.
VERSION = 3

T = TypeVar("T")

# Of a node: a number, and by the name of a budget a factor of what is left of it.
Line: TypeAlias = tuple[int, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class Potential:
    """For each node an upper bound on what a run can still count, which proves a number.

    For every transition, what it counts plus the potential of its target is at most the potential of its source.
    `lines` are linear in what is left of each budget; `states` are values for a node and what is left of each of
    `counters`, where lines would be too high. With `limit=(name, factor)`, charges are bounded by `factor` times that
    limit, and the potential is of reserved visits only, which are beside it.
    """

    lines: Mapping[str, Line]
    limit: tuple[str, int] | None = None
    counters: tuple[str, ...] = ()
    states: tuple[tuple[str, tuple[int, ...], int], ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """The most of something that a run takes.

    `form` holds for all limits, in their names (`4*iterations + 2`); `value` is its value for the given limits.
    `number` is the least bound known for these, which the `potential` proves, and `exact` says that some run through
    the flow reaches it. All are `None` where nothing bounds it. `assuming` is a condition that the proof does not
    check.
    """

    form: str | None
    number: float | None
    exact: bool = False
    value: float | None = None
    assuming: str | None = None
    potential: Potential | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if self.number is None:
            return "no bound"
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
        """What it assumes, as the rest of a sentence; empty where it assumes nothing."""
        return "" if self.assuming is None else f", if {self.assuming}"


# What a bound on seconds assumes: of what does not return, nothing can be cut.
TIMELY = "nodes, policies and observers return at once and the event loop is not blocked"

# Of what nothing in a machine charges.
NOTHING = Bound("0", 0, exact=True, value=0)


def format_meters(names: Collection[str]) -> list[str]:
    """Return the meters to show of a machine with those of these names, in their order.

    Calls of models and of tools are among them, unless the machine has other meters and none of these.
    """
    calls = (MODEL_CALLS.name, TOOL_CALLS.name)
    return list(dict.fromkeys([*calls, *names])) if not names or any(name in names for name in calls) else list(names)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a run: transitions, charges of meters that no reply reports, and seconds until control returns.

    The bounds on meters include what runs of tools made by `as_tool` charge; those of `alone` are on the machine's own
    effects. `depth` is how many levels of runs may be within a run, and `nested_runs` how many runs.
    """

    transitions: Bound
    meters: Mapping[str, Bound]
    seconds: Bound
    depth: Bound = Bound(None, None)
    nested_runs: Bound = Bound(None, None)
    alone: Mapping[str, Bound] = field(default_factory=dict[str, Bound])

    @property
    def model_calls(self) -> Bound:
        """The bound on the calls of models."""
        return self.meters.get(MODEL_CALLS.name, NOTHING)

    @property
    def tool_calls(self) -> Bound:
        """The bound on the calls of tools."""
        return self.meters.get(TOOL_CALLS.name, NOTHING)

    def rows(self) -> tuple[tuple[str, Bound], ...]:
        """Return every bound and its name, in the order in which they are shown."""
        meters = [(name, self.meters.get(name, NOTHING)) for name in format_meters(self.meters)]
        return (("transitions", self.transitions), *meters, ("seconds", self.seconds))


@dataclass(frozen=True, slots=True)
class Certificate:
    """A proof that every run of `flow` ends under `limits`: each transition lowers the rank of the run's node.

    Where there are no `ranks`, as loops end only because these limits are low, it lowers the potential of transitions.
    `limits` has every limit by name, the machine's own budgets included; `None` is no limit. `nested` is what the runs
    within it charge, as far as it is known. If it `holds_within` other runs, the ranks fall also where a limit is spent
    that only a run around it has.
    """

    flow: Flow
    limits: Mapping[str, float | None]
    ranks: Ranks | None
    bounds: Bounds
    nested: NestedRuns | None = None
    holds_within: bool = False

    def __repr__(self) -> str:
        return repr_fields(self)

    @property
    def digest(self) -> str:
        """The digest of the flow that it is about."""
        return self.flow.digest

    def to_json(self) -> str:
        """Return it as JSON text; `from_json` reads it."""
        from graphexec.kernel.serialization import format_json

        data = {"graphexec_certificate": VERSION, "digest": self.digest, **asdict(self)}
        return format_json({**data, "sha256": _sum_of(data)}, indent=2)

    @staticmethod
    def from_json(text: str) -> Certificate:
        """Read what `to_json` wrote. Raises `CertificateError` if it is none, or was changed since.

        The sums in it tell of accidents, not of forgers, who can make new ones: `check` is what to trust.
        """
        # pydantic, which it loads, is not needed for a proof.
        from graphexec.kernel.serialization import INVALID_DATA_ERRORS, parse_json

        try:
            data = parse_json(text)
            version = data["graphexec_certificate"]
        except INVALID_DATA_ERRORS as error:
            raise CertificateError(f"this is no certificate: {error!r}; give what to_json wrote") from None
        if version != VERSION:
            raise CertificateError(
                f"this certificate has version {format_value(version)}, and this graphexec reads version {VERSION}; "
                f"prove the machine anew"
            )
        try:
            certificate = _read(data)
            digest, told = certificate.digest, data.pop("sha256", None)
            total = _sum_of(data)
        except INVALID_DATA_ERRORS as error:
            raise CertificateError(f"this certificate is broken: {error!r}; prove the machine anew") from None
        if digest != data.get("digest"):
            raise CertificateError("this certificate's flow is not the one that its digest names; prove it anew")
        if told != total:
            raise CertificateError("this certificate was changed since it was made; prove the machine anew")
        return certificate


def _sum_of(data: Mapping[str, Any]) -> str:
    from graphexec.kernel.serialization import format_json

    return hashlib.sha256(format_json(data, sort_keys=True).encode()).hexdigest()


def _read(data: Mapping[str, Any]) -> Certificate:
    flow, bounds = data["flow"], data["bounds"]
    return Certificate(
        Flow(
            _text(flow["start"]),
            _names(flow["nodes"]),
            tuple(_transition(one) for one in _list(flow["transitions"])),
            tuple((_text(name), _optional(_count, limit)) for name, limit in _list(flow["budgets"])),
            _names(flow["measured"]),
        ),
        {name: _optional(_number, limit) for name, limit in data["limits"].items()},
        None
        if data["ranks"] is None
        else {
            node: tuple((_count(number), _names(budgets)) for number, budgets in _list(rank))
            for node, rank in data["ranks"].items()
        },
        Bounds(
            _bound(bounds["transitions"]),
            {name: _bound(bound) for name, bound in bounds["meters"].items()},
            _bound(bounds["seconds"]),
            _bound(bounds["depth"]),
            _bound(bounds["nested_runs"]),
            {name: _bound(bound) for name, bound in bounds["alone"].items()},
        ),
        _optional(_nested, data["nested"]),
        _truth(data["holds_within"]),
    )


# Any: one of JSON's values, here and below.
def _bound(data: Any) -> Bound:
    return Bound(
        _optional(_text, data["form"]),
        _optional(_number, data["number"]),
        _truth(data["exact"]),
        _optional(_number, data["value"]),
        _optional(_text, data["assuming"]),
        _optional(_potential, data["potential"]),
    )


def _nested(data: Any) -> NestedRuns:
    rows = ((_text(name), _optional(_count, alone), _optional(_count, whole)) for name, alone, whole in data["charges"])
    return NestedRuns(_text(data["meter"]), _count(data["attempts"]), tuple(rows), _names(data["unproved"]))


def _potential(data: Any) -> Potential:
    return Potential(
        {node: (_whole(base), _amounts(slopes)) for node, (base, slopes) in data["lines"].items()},
        _optional(_amount, data["limit"]),
        _names(data["counters"]),
        tuple((_text(node), tuple(map(_whole, _list(left))), _whole(value)) for node, left, value in data["states"]),
    )


def _transition(data: Any) -> Transition:
    kind = data["kind"]
    if kind not in ("move", "gate", "within"):
        raise _invalid(kind, "a kind of transition")
    return Transition(
        _text(data["source"]),
        _text(data["outcome"]),
        _text(data["target"]),
        kind,
        _amounts(data["spends"]),
        _names(data["resets"]),
        _names(data["causes"]),
        _count(data["asks"]),
        _optional(_count, data["most"]),
        tuple(map(_amounts, _list(data["kinds"]))),
        _optional(_number, data["grace"]),
        _truth(data["answered"]),
    )


def _amounts(data: Any) -> tuple[tuple[str, int], ...]:
    return tuple(map(_amount, _list(data)))


def _amount(data: Any) -> tuple[str, int]:
    name, amount = data
    return _text(name), _whole(amount)


def _names(data: Any) -> tuple[str, ...]:
    return tuple(map(_text, _list(data)))


def _optional(read: Callable[[Any], T], data: Any) -> T | None:
    return None if data is None else read(data)


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise _invalid(data, "a list")
    # isinstance cannot tell the types inside.
    return list[Any](data)  # pyright: ignore[reportUnknownArgumentType]


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise _invalid(data, "a string")
    return data


def _truth(data: Any) -> bool:
    if not isinstance(data, bool):
        raise _invalid(data, "true or false")
    return data


def _whole(data: Any) -> int:
    if not is_whole(data):
        raise _invalid(data, "a whole number")
    return data


def _count(data: Any) -> int:
    if _whole(data) < 0:
        raise _invalid(data, "0 or more")
    return _whole(data)


def _number(data: Any) -> float:
    if not is_whole(data) and not is_number(data):
        raise _invalid(data, "a finite number")
    return data


def _invalid(data: Any, wanted: str) -> TypeError:
    return TypeError(f"{format_value(data)} is not {wanted}")
