"""The result of verification: a verdict, its findings, and example runs that show them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from graphexec.errors import GraphError, GraphexecError, format_value
from graphexec.kernel.effects import NestedRuns
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import ITERATIONS, Limits, Meter
from graphexec.kernel.node import END
from graphexec.kernel.program import Proof
from graphexec.verify.proof.certificate import Bounds, Certificate
from graphexec.verify.proof.flow import Transition

Severity: TypeAlias = Literal["error", "warning"]
Status: TypeAlias = Literal["proved", "refuted", "unproved"]

# The codes are stable. A loop gets the first code that fits.
CODES: Mapping[str, str] = MappingProxyType(
    {
        "GX001": "unknown node",
        "GX002": "unhandled outcome",
        "GX003": "impossible outcome",
        "GX004": "unreachable node",
        "GX005": "node without edges",
        "GX006": "END is not reachable",
        "GX007": "END is reached only through a limit",
        "GX008": "no edge for a reached limit",
        "GX009": "loop continues after its limit is reached",
        "GX010": "loop spends no budget",
        "GX011": "inconsistent meter",
        "GX012": "only time ends the loop",
        "GX013": "unbounded fan-out",
        "GX014": "loop re-enters an embedded graph",
        "GX015": "loop resets the budget it spends",
        "GX016": "loop spends only unlimited budgets",
        "GX017": "undecided loop",
        "GX018": "nested runs are not proved",
        "GX020": "duplicate name",
        "GX021": "outcome routed twice",
        "GX022": "outcome not accepted by its target",
        "GX023": "outcome class not final and frozen",
        "GX024": "missing setting",
        "GX025": "replacement drops a meter",
        "GX026": "unknown edge",
        "GX027": "guard missing on some exits",
        "GX028": "outcome without a home",
        "GX030": "model asked after a piece that reveals",
        "GX040": "loop without a bound",
        "GX041": "no way to the end",
        "GX042": "loop counted in code",
        "GX043": "more steps than allowed",
        "GX044": "undeclared route",
        "GX045": "node that ends the run silently",
        "GX046": "agents that a tool starts",
    }
)


@dataclass(frozen=True, slots=True)
class Witness:
    """An example run: `stem` leads from the start to the finding, and `loop`, unless empty, can repeat forever.

    The table allows the run under `limits`: the verdict's own, or lower ones if these would make it very long.
    """

    stem: tuple[Transition, ...]
    loop: tuple[Transition, ...]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or a warning about a graph: its code, its place, the fact, and the remedy."""

    code: str
    severity: Severity
    node: str | None
    outcome: str | None
    fact: str
    remedy: str
    witness: Witness | None = None

    @property
    def title(self) -> str:
        """The title that all findings with this code share."""
        return CODES[self.code]

    def __str__(self) -> str:
        where = f" at {self.node}" if self.node else ""
        reached = ""
        if self.witness is not None and self.witness.stem:
            stem = self.witness.stem
            reached = f" Reached by start -> {' -> '.join(path_of(stem))}."
        return f"{self.code}{where}: {self.fact}.{reached} {self.remedy[:1].upper()}{self.remedy[1:]}."


def path_of(stem: Iterable[Transition]) -> list[str]:
    """Return the nodes on a path; a loop in it is left out."""
    nodes: list[str] = []
    for one in stem:
        for name in (one.source, one.target):
            if name in nodes:
                del nodes[nodes.index(name) + 1 :]
            else:
                nodes.append(name)
    return nodes


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verification: whether every run of a graph ends under the limits.

    `proved`: every run ends; `certificate` holds the proof and the bounds. `refuted`: the table allows a run that never
    ends, or is invalid, as the `findings` show; whether the code of its nodes ends that run is unknown. `unproved`:
    neither is known. A proof holds under its `assumptions`. In a pickled verdict, the `graph` is its `repr`.
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
        """The bounds that hold for every run, if the verdict is `proved`."""
        return None if self.certificate is None else self.certificate.bounds

    @property
    def proof(self) -> Proof | None:
        """What the engine holds each run to, if the verdict is `proved`."""
        return None if self.certificate is None else self.certificate.proof

    @property
    def exits(self) -> tuple[str, ...]:
        """The ways in which a run ends: the outcomes that lead to END, and the exceptions that nodes raise."""
        # Of a pickled verdict, the graph is text.
        if not isinstance(self.graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
            return ()
        ends = dict.fromkeys(edge.outcome.__name__ for edge in self.graph.edges if edge.target == END.name)
        raising: dict[str, list[str]] = {}
        for node in self.graph:
            for error in node.raises:
                raising.setdefault(error.__name__, []).append(node.name)
        return (*ends, *(f"{error} raised by {' or '.join(names)}" for error, names in raising.items()))

    @property
    def exits_text(self) -> str:
        """The exits as a line, if a node raises one: `3 exits: ...`. Otherwise an empty string."""
        exits = self.exits
        return f"{len(exits)} exits: {', '.join(exits)}" if any(" raised by " in one for one in exits) else ""

    @property
    def why(self) -> str:
        """The findings that prevent a proof, one on a line."""
        return "\n".join(str(finding) for finding in self.findings if finding.severity == "error") or self.status

    def nested_runs(self, tool: str, meter: str) -> NestedRuns:
        """Return what runs of this machine charge when calls of a tool start them; each call charges `meter`."""
        if self.certificate is None:
            return NestedRuns(meter, 1, tuple((name, None, None) for name in self.graph.effect_meters), (tool,))
        bounds, nested = self.certificate.bounds, self.certificate.nested
        rows: list[tuple[str, int | None, int | None]] = []
        for name, bound in bounds.meters.items():
            within = [alone for one in nested for meter, alone, _ in one.charges if meter == name]
            counts = [bounds.alone.get(name, bound).number, *within]
            known = [int(count) for count in counts if count is not None]
            whole = None if bound.number is None else int(bound.number)
            rows.append((name, max(known) if len(known) == len(counts) else None, whole))
        rows += [(name, None, None) for name in self.graph.effect_meters if name not in bounds.meters]
        return NestedRuns(meter, 1, tuple(rows))

    def __reduce__(self) -> tuple[object, ...]:
        # Functions that became nodes cannot be pickled; the rest of a verdict explains it in another process, too.
        return Verdict, (
            self.status,
            format_value(self.graph),
            self.limits,
            self.findings,
            self.certificate,
            self.assumptions,
        )

    def __copy__(self) -> Verdict:
        return self

    def __deepcopy__(self, _: object) -> Verdict:
        return self

    def require_proof(self) -> None:
        """Raise `UnprovedError` unless every run is proved to end."""
        if not self.proved:
            raise UnprovedError(self)

    def __str__(self) -> str:
        lines = [self.status.upper()]
        if self.bounds is not None:
            lines += [f"  {name.replace('_', ' ')}: {bound}" for name, bound in self.bounds.rows()]
            lines += [f"  {text}" for text in (self.exits_text,) if text]
        if self.assumptions:
            lines.append(f"  assuming: {len(self.assumptions)} things (see verdict.assumptions, or graphexec check)")
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])


class UnprovedError(GraphexecError, ValueError):
    """Raised instead of running a machine that is not proved to end. `verdict` explains why."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(
            f"{verdict.why}\nA machine runs only if it is proved to end; fix it, or pass allow_nonterminating=True"
        )


def findings_of(error: GraphError) -> tuple[Finding, ...]:
    """Return the faults of an invalid table as findings."""
    parts = ((fault, fault.text.partition("; ")) for fault in error.faults)
    return tuple(
        Finding(fault.code, "error", fault.node, fault.outcome, fact, remedy) for fault, (fact, _, remedy) in parts
    )


def options_of(meters: Iterable[Meter]) -> dict[str, str]:
    """Return the options of executors that limit meters, by the meters' names."""
    return {meter.name: meter.option for meter in meters if meter.option}


def meter_limit(name: str) -> str:
    """Return code that limits a meter: `Limits({PAYMENTS: 5})`. Assumes the usual constant for the meter."""
    return f"Limits({{{name.upper()}: 5}})"


def limit_remedy(name: str, meters: Collection[str], options: Mapping[str, str]) -> str:
    """Return the remedy that limits the iterations, one of the `meters` of effects, or a meter of nodes.

    `options` are those of executors, by the meters that they limit.
    """
    if name == ITERATIONS.name:
        limit = f"Limits({name}=...)"
        # Only the executors of machines that charge such meters have the option.
        return f"set {limit}" if options.keys().isdisjoint(meters) else f"set max_{name}, or {limit}"
    if name in meters and name in options:
        return f"set {options[name]}, or agent_limits({name}=...)"
    if name in meters:
        return f"set a limit on {name}: {meter_limit(name)}"
    nested, _, own = name.rpartition(".")
    where = f'embed(..., own=[Meter("{own}", 3)]) for {nested}' if nested else f'Meter("{own}", 3)'
    return f'give the meter {name} a limit: {where}, or Limits({{Meter("{name}"): 3}})'


def fan_out_remedy(meters: Iterable[str], options: Mapping[str, str]) -> str:
    """Return the remedy for a visit that may ask for any number of effects.

    It limits the effects of one visit, or all `meters` if each effect of the visit charges one of them. `options` are
    those of executors, by the meters that they limit.
    """
    names = list(dict.fromkeys(meters))
    if all(name in options for name in names):
        limits = " or ".join(filter(None, ("max_fan_out", " and ".join(options[name] for name in names))))
        return f"set {limits} (in agent_limits: {', '.join(['fan_out', *names])})"
    return f"set Limits(fan_out=5) or Limits({{{', '.join(f'{name.upper()}: 5' for name in names)}}})"
