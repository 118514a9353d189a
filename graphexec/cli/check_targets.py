"""The subjects of `check`: the named machines, and those that are invalid when their module is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from graphexec.cli.exit_codes import UsageError, error_line
from graphexec.cli.projects import any_machine_at, any_machines_at, references_of
from graphexec.cli.targets import AnyTarget, DeclaredTarget, Target, raised_at
from graphexec.effects import COST, MODEL_CALLS, TOKENS, TOOL_CALLS
from graphexec.errors import GraphError, LimitsError, did_you_mean
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits, Meter
from graphexec.verify.proof.findings import UnprovedError, Verdict, findings_of
from graphexec.verify.proof.prove import verify
from graphexec.verify.reports import SourceLocation, Subject, subject_of

if TYPE_CHECKING:
    from graphexec.draw.model.picture import Picture

# The limits of the command line, by name.
ChosenLimits: TypeAlias = Mapping[str, float | None]


def subjects_at(
    references: Sequence[str], limits: ChosenLimits | None, max_rounds: int | None = None
) -> tuple[list[Subject], list[UsageError]]:
    """Verify every named machine: executors under limits of their own, graphs under `limits` or the default.

    Graphs of other libraries are judged, with `max_rounds` as the limit on the rounds of their loops. A table or
    executor that raises when its module is imported is a subject, too. A target that cannot be loaded is a subject with
    an error, which is also returned. Raises `UsageError` for limits that no machine uses.
    """
    found: list[Subject | Target] = []
    faults: list[UsageError] = []
    declared: list[str] = []
    for reference in [name for one in references for name in references_of(one)]:
        try:
            for one in any_machines_at(reference):
                found.append(one if isinstance(one, Target) else _judge(one, max_rounds))
                declared += [one.name] if isinstance(one, DeclaredTarget) else []
        except UsageError as fault:
            subject = _refused_subject(reference, fault)
            if subject is None:
                faults.append(fault)
                subject = Subject(reference, (), place=_error_location(fault.__cause__), error=error_line(fault))
            found.append(subject)
    machines = [one for one in found if isinstance(one, Target)]
    _require_use(limits, machines)
    if limits is not None and declared and not machines:
        raise UsageError(f"{declared[0]} is a graph of another library, without such limits; pass --max-rounds")
    if max_rounds is not None and machines and not declared:
        raise UsageError(f"--max-rounds is for graphs of LangGraph and pydantic-graph; limit {machines[0].name} itself")
    return [one if isinstance(one, Subject) else _verify(one, limits) for one in found], faults


def verdict_at(reference: str, limits: ChosenLimits | None) -> Verdict:
    """Verify one machine as `subjects_at` does, or return the verdict with which an import refused it.

    Raises `UsageError`.
    """
    machine = _machine_or_verdict(reference)
    if isinstance(machine, Verdict):
        return machine
    if isinstance(machine, DeclaredTarget):
        raise UsageError(
            f"{reference} is a graph of another library; look at it with graphexec check or graphexec draw"
        )
    _require_use(limits, [machine])
    return verify(machine.graph, limits_of(machine, limits))


def drawn_at(reference: str) -> Verdict | Picture:
    """Return the verdict on a machine, as `verdict_at` does, or the picture of a graph of another library.

    Raises `UsageError`.
    """
    machine = _machine_or_verdict(reference)
    if not isinstance(machine, DeclaredTarget):
        return machine if isinstance(machine, Verdict) else verify(machine.graph, limits_of(machine, None))
    from graphexec.integrations.declared import to_picture

    return to_picture(machine.judge())


def _machine_or_verdict(reference: str) -> AnyTarget | Verdict:
    try:
        return any_machine_at(reference)
    except UsageError as fault:
        refused = _refused_subject(reference, fault)
        if refused is None or refused.verdict is None:
            raise
        return refused.verdict


def _judge(target: DeclaredTarget, max_rounds: int | None) -> Subject:
    from graphexec.integrations.declared import to_subject

    place = None if target.file is None else SourceLocation(target.file, target.line)
    return to_subject(target.judge(max_rounds), target.name, place, max_rounds=max_rounds)


def _require_use(limits: ChosenLimits | None, machines: Sequence[Target]) -> None:
    """Raise `UsageError` for limits that no machine uses, as all have their own."""
    if limits is not None and machines and all(machine.limits is not None for machine in machines):
        raise UsageError(f"{machines[0].name} has its own limits; set them there, and leave them out here")


def limits_of(machine: Target, chosen: ChosenLimits | None) -> Limits:
    """Return a machine's limits: its own, else those of the command line, else the default.

    Raises `LimitsError` for invalid values, and for names that the machine does not have.
    """
    return machine.limits or change_limits(machine.graph, Limits(), chosen or {})


# Any, here and below: a graph of any values.
def change_limits(graph: Graph[Any, Any], before: Limits, chosen: ChosenLimits) -> Limits:
    """Return limits with the chosen values in place of their own. Raises `LimitsError` for invalid values."""
    meters = meters_of(graph)
    # The values come from the command line, so no type checker can know them; Limits validates them.
    own: dict[str, Any] = {name: chosen.get(name, getattr(before, name)) for name in OWN_LIMITS}
    for name in chosen:
        if name not in own and name not in meters:
            hint = did_you_mean(name, [*own, *meters], f"they are {', '.join([*own, *meters])}")
            raise LimitsError(f"{name} is not a limit of this machine; {hint}")
    known = {name: value for name, value in {**before.meters, **chosen}.items() if name not in own}
    return Limits({meters.get(name, Meter(name)): value for name, value in known.items()}, **own)


# The limits that belong to no meter.
OWN_LIMITS = ("iterations", "seconds", "fan_out", "restarts", "depth", "nested_runs")


def meters_of(graph: Graph[Any, Any]) -> Mapping[str, Meter]:
    """Return the meters that limits may name: those of agents, and the graph's own."""
    return {meter.name: meter for meter in (MODEL_CALLS, TOOL_CALLS, TOKENS, COST, *graph.meters.values())}


def parse_limits(max_iterations: int | None, given: Sequence[str]) -> ChosenLimits | None:
    """Return the limits of the options, or `None` without any. Raises `UsageError`."""
    limits: dict[str, float | None] = {}
    if max_iterations is not None:
        limits["iterations"] = max_iterations
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise UsageError(f"--limit {one} has no value; write --limit NAME=N, such as tool_calls=20")
        if name in limits:
            raise UsageError(f"the limit {name} is set twice; set it once")
        limits[name] = _number(name, value)
    return limits or None


def _number(name: str, text: str) -> float | None:
    try:
        return None if text == "none" else int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        raise UsageError(f"the limit {name} is {text!r}; pass a number, or none for no limit") from None


def _verify(machine: Target, limits: ChosenLimits | None) -> Subject:
    place = None if machine.file is None else SourceLocation(machine.file, machine.line)
    return subject_of(machine.name, verify(machine.graph, limits_of(machine, limits)), place)


def _refused_subject(reference: str, fault: UsageError) -> Subject | None:
    """Return the machine that the import refused as a subject; `None` if the error has another cause."""
    match fault.__cause__:
        case GraphError() as error:
            return Subject(reference, findings_of(error), place=_error_location(error))
        case UnprovedError(verdict=Verdict() as verdict) as error:
            return subject_of(reference, verdict, _error_location(error))
        case _:
            return None


def _error_location(error: BaseException | None) -> SourceLocation | None:
    place = None if error is None else raised_at(error)
    return None if place is None else SourceLocation(*place)
