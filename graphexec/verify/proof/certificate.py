"""The certificate: a proof as data, which anyone can check without knowing how it was found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from graphexec.effects import MODEL_CALLS, TOOL_CALLS
from graphexec.errors import CertificateError
from graphexec.kernel.counters import Ranks
from graphexec.verify.proof.flow import Flow, Transition

# Of the JSON form; it changes when a checker of the old form could misread the new one. Version 1, of graphexec 0.1,
# had the meters of agents by name.
VERSION = 2


@dataclass(frozen=True, slots=True)
class Bound:
    """The most of something that a run takes.

    `form` holds for all limits, in their names (`4*iterations + 2`); `value` is its value for the given limits.
    `number` is the least bound known for these, and `exact` says that some run through the flow reaches it. All are
    `None` where nothing bounds it.
    """

    form: str | None
    number: float | None
    exact: bool = False
    value: float | None = None

    def __str__(self) -> str:
        if self.number is None:
            return "no bound"
        how = "exact" if self.exact else "at most"
        number = f"{self.number:,g}" if self.number != int(self.number) else f"{int(self.number):,}"
        if self.form is None or self.form == number:
            return f"{number} ({how})"
        if self.value is not None and self.value != self.number:
            return f"at most {self.form}, here {number} ({how})"
        return f"{self.form} = {number} ({how})"


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
    """The bounds of a run: transitions, charges of meters that no reply reports, and seconds until control returns."""

    transitions: Bound
    meters: Mapping[str, Bound]
    seconds: Bound

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

    `limits` has every limit by name, the machine's own budgets included; `None` is no limit.
    """

    flow: Flow
    limits: Mapping[str, float | None]
    ranks: Ranks
    bounds: Bounds

    @property
    def digest(self) -> str:
        """The digest of the flow that it is about."""
        return self.flow.digest

    def to_json(self) -> str:
        """Return it as JSON text; `from_json` reads it."""
        data = {"graphexec_certificate": VERSION, "digest": self.digest, **asdict(self)}
        return json.dumps({**data, "sha256": _sum_of(data)}, indent=2)

    @staticmethod
    def from_json(text: str) -> Certificate:
        """Read what `to_json` wrote. Raises `CertificateError` if it is none, or was changed since.

        The sums in it tell of accidents, not of forgers, who can make new ones: `check` is what to trust.
        """
        try:
            data = json.loads(text)
            version = data["graphexec_certificate"]
        except (ValueError, KeyError, TypeError) as error:
            raise CertificateError(f"this is no certificate: {error!r}; give what to_json wrote") from None
        if version != VERSION:
            raise CertificateError(
                f"this certificate has version {version!r}, and this graphexec reads version {VERSION}; prove the "
                f"machine anew (version 1 is of graphexec 0.1)"
            )
        try:
            certificate = _read(data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CertificateError(f"this certificate is broken: {error!r}; prove the machine anew") from None
        if certificate.digest != data.get("digest"):
            raise CertificateError("this certificate's flow is not the one that its digest names; prove it anew")
        if data.pop("sha256", None) != _sum_of(data):
            raise CertificateError("this certificate was changed since it was made; prove the machine anew")
        return certificate


def _sum_of(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _read(data: Mapping[str, Any]) -> Certificate:
    flow, bounds = data["flow"], data["bounds"]
    return Certificate(
        Flow(
            flow["start"],
            tuple(flow["nodes"]),
            tuple(_transition(one) for one in flow["transitions"]),
            tuple((name, limit) for name, limit in flow["budgets"]),
            tuple(flow["measured"]),
        ),
        dict(data["limits"]),
        {
            node: tuple((int(number), tuple(budgets)) for number, budgets in rank)
            for node, rank in data["ranks"].items()
        },
        Bounds(
            Bound(**bounds["transitions"]),
            {name: Bound(**bound) for name, bound in bounds["meters"].items()},
            Bound(**bounds["seconds"]),
        ),
    )


# Any: a field of a JSON object; a wrong one is found when it is compared with the digest.
def _transition(data: Mapping[str, Any]) -> Transition:
    lists: dict[str, Any] = {
        "spends": _amounts(data["spends"]),
        "resets": tuple(data["resets"]),
        "causes": tuple(data["causes"]),
        "kinds": tuple(map(_amounts, data["kinds"])),
    }
    return Transition(**{**data, **lists})


# Any: as above.
def _amounts(data: Any) -> tuple[tuple[str, int], ...]:
    return tuple((name, int(amount)) for name, amount in data)
