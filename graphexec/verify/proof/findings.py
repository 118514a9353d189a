"""The result of verification: a verdict, its findings, and the run that shows what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from graphexec.effects import COST, MODEL_CALLS, TOKENS, TOOL_CALLS
from graphexec.errors import Fault, GraphError, GraphexecError
from graphexec.kernel.effects import NestedRuns
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import ITERATIONS, Limits
from graphexec.verify.proof.certificate import Bounds, Certificate
from graphexec.verify.proof.flow import Transition

Severity: TypeAlias = Literal["error", "warning"]
Status: TypeAlias = Literal["proved", "refuted", "unproved"]

# They do not change. What is wrong with a loop has the first that fits.
CODES: Mapping[str, str] = MappingProxyType(
    {
        "GX001": "unknown node",
        "GX002": "unhandled outcome",
        "GX003": "impossible outcome",
        "GX004": "unreachable node",
        "GX005": "dead end",
        "GX006": "cannot reach the end",
        "GX007": "can only stop",
        "GX008": "no way out when a limit is spent",
        "GX009": "spent limit leads back to what it stops",
        "GX010": "loop without decrease",
        "GX011": "charge not well-founded",
        "GX012": "time bound not dischargeable",
        "GX013": "unbounded fan-out",
        "GX014": "nested graph entered without end",
        "GX015": "loop refills what it spends",
        "GX016": "loop spends only what has no limit",
        "GX017": "loop of which nothing is known",
        "GX018": "runs within it are not proved",
        "GX020": "two of one name",
        "GX021": "outcome routed twice",
        "GX022": "outcome does not fit its target",
        "GX023": "outcome class not final and frozen",
        "GX024": "setting missing",
        "GX025": "meter lost",
        "GX026": "no such edge",
        "GX027": "a guard does not stand on every exit",
    }
)


@dataclass(frozen=True, slots=True)
class Witness:
    """A run that shows a fault: `stem` leads from the start to it, and `loop` repeats for ever, or the run is stuck.

    It is possible under `limits`, which are the verdict's own unless these make it needlessly long.
    """

    stem: tuple[Transition, ...]
    loop: tuple[Transition, ...]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing: what, where, why it is so, and what to do."""

    code: str
    severity: Severity
    node: str | None
    outcome: str | None
    fact: str
    remedy: str
    witness: Witness | None = None

    @property
    def title(self) -> str:
        """The title of all findings of this code."""
        return CODES[self.code]

    def __str__(self) -> str:
        where = f" at {self.node}" if self.node else ""
        reached = ""
        if self.witness is not None and self.witness.stem:
            stem = self.witness.stem
            reached = f" Reached by start -> {' -> '.join(path_of(stem))}."
        return f"{self.code}{where}: {self.fact}.{reached} {_sentence(self.remedy)}"


def path_of(stem: Iterable[Transition]) -> list[str]:
    """The nodes that a way passes, each round of a loop in it once."""
    nodes: list[str] = []
    for one in stem:
        for name in (one.source, one.target):
            if name in nodes:
                del nodes[nodes.index(name) + 1 :]
            else:
                nodes.append(name)
    return nodes


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verification: whether every run of a graph ends under the limits.

    `proved`: it does, and `certificate` says why, with the bounds. `refuted`: it does not, or the table is wrong, as
    the `findings` show. `unproved`: neither is known. A proof is as good as its `assumptions`.
    """

    status: Status
    graph: Graph[Any, Any]
    limits: Limits
    findings: tuple[Finding, ...]
    certificate: Certificate | None
    assumptions: tuple[str, ...]

    @property
    def proved(self) -> bool:
        """True if every run ends."""
        return self.status == "proved"

    @property
    def bounds(self) -> Bounds | None:
        """The bounds of each run, if it is proved to end."""
        return None if self.certificate is None else self.certificate.bounds

    @property
    def why(self) -> str:
        """The findings that stand against a proof, a line each."""
        return "\n".join(str(finding) for finding in self.findings if finding.severity == "error") or self.status

    def nested_runs(self, tool: str, meter: str) -> NestedRuns:
        """Return what a run charges that a call of the tool starts, which charges `meter`: a run of this machine."""
        if self.certificate is None:
            return NestedRuns(meter, 1, tuple((name, None, None) for name in self.graph.meters), (tool,))
        bounds, nested = self.certificate.bounds, self.certificate.nested
        within = {} if nested is None else {name: alone for name, alone, _ in nested.charges}
        rows: list[tuple[str, int | None, int | None]] = []
        for name, bound in bounds.meters.items():
            counts = [bounds.alone.get(name, bound).number, within.get(name, 0)]
            known = [int(count) for count in counts if count is not None]
            whole = None if bound.number is None else int(bound.number)
            rows.append((name, max(known) if len(known) == len(counts) else None, whole))
        rows += [(name, None, None) for name in self.graph.meters if name not in bounds.meters]
        return NestedRuns(meter, 1, tuple(rows))

    def require_proof(self) -> None:
        """Raise `UnprovedError` unless every run is proved to end."""
        if not self.proved:
            raise UnprovedError(self)

    def __str__(self) -> str:
        lines = [self.status.upper()]
        if self.bounds is not None:
            lines += [f"  {name.replace('_', ' ')}: {bound}" for name, bound in self.bounds.rows()]
        if self.assumptions:
            lines.append(
                f"  assuming: {len(self.assumptions)} things, which verdict.assumptions and graphexec check list"
            )
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])


class UnprovedError(GraphexecError, ValueError):
    """A machine was to be run whose runs are not proved to end. `verdict` says why, with a counterexample."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(
            f"{verdict.why}\nA machine runs only if it is proved to end; mend it, or pass allow_nonterminating=True"
        )


def findings_of(error: GraphError) -> tuple[Finding, ...]:
    """The faults for which a table was not built, as findings."""
    return tuple(finding_of(fault) for fault in error.faults)


def finding_of(fault: Fault, witness: Witness | None = None) -> Finding:
    """A fault of a table as a finding."""
    fact, _, remedy = fault.text.partition("; ")
    return Finding(fault.code, "error", fault.node, fault.outcome, fact, remedy, witness)


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
    """Return what to set so that a visit asks for a number of effects that is known.

    It is the limit on the effects of a visit, or one on each of the meters, if these stop every effect of the visit.
    """
    names = list(dict.fromkeys(meters))
    if all(name in AGENT_METERS for name in names):
        limits = " or ".join(filter(None, ("max_fan_out", " and ".join(f"max_{name}" for name in names))))
        return f"set {limits} (agent_limits has {'them' if names else 'it'} without max_)"
    return f"set Limits(fan_out=5) or Limits({{{', '.join(f'{name.upper()}: 5' for name in names)}}})"
