"""Check the trace of a run against a certificate, without the graph: no code of the user is imported.

A trace is the list of records that `graphexec run --json` prints; `graphexec.cli.records` has their fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphexec.actions import StoppedResponse
from graphexec.effects import CACHED_TOKENS, COMPLETION_TOKENS, MODEL_CALLS, PROMPT_TOKENS, TOKENS
from graphexec.errors import CertificateError, format_value
from graphexec.kernel.meters import is_measure, is_number, is_whole
from graphexec.kernel.node import END
from graphexec.verify.audit.trace import REPORT, WHOLE, Trace, TraceRecord, TraceVisit, Violation, show
from graphexec.verify.checker.check import check_certificate
from graphexec.verify.proof.certificate import Certificate
from graphexec.verify.proof.flow import Transition

# Seconds. Control returns a little after a deadline, and later on a busy machine.
_GRACE = 1.0

_PROVE = "prove what ran: graphexec check TARGET --certificate FILE"
Counts = Mapping[str, float]

# The exit code of a run by its status, as in `graphexec.cli.exit_codes`.
_EXIT_CODES = {"answered": 0, "stopped": 3, "interrupted": 130, "error": 1, "usage": 2}


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit: violations, the number of transitions, the proved bound on it, and the run's status."""

    violations: tuple[Violation, ...]
    transitions: int = 0
    most: float | None = None
    status: str = ""

    @property
    def conforms(self) -> bool:
        """True if the trace has no violations of the certificate."""
        return not self.violations

    def __str__(self) -> str:
        if self.violations:
            return "\n".join(["DOES NOT CONFORM", *(f"  {violation}" for violation in self.violations)])
        most = "" if self.most is None else f" of at most {show(self.most)}"
        transitions = f"{self.transitions:,} transition{'' if self.transitions == 1 else 's'}"
        return f"CONFORMS  {transitions}{most}; {self.status}"


def audit(records: Sequence[TraceRecord], certificate: Certificate) -> Audit:
    """Check that a trace is a walk through the certificate's flow, with falling ranks, within its bounds.

    The certificate itself is checked first, but not against a graph. Takes one pass over the trace.
    """
    try:
        check_certificate(certificate)
    except CertificateError as error:
        return Audit((Violation(0, str(error), "prove the machine again"),))
    try:
        if not records or records[0].get("event") != "start":
            return Audit((Violation(1, "no run begins here", WHOLE),))
        return _audit_run(records, certificate)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        return Audit(
            (
                Violation(
                    len(records), f"a record does not have the form that graphexec run --json prints: {error!r}", WHOLE
                ),
            )
        )


def _audit_run(records: Sequence[TraceRecord], certificate: Certificate) -> Audit:
    most = certificate.bounds.transitions.number
    trace = Trace(records, certificate.flow)
    visits, result = trace.visits, trace.result
    status = "" if result is None else str(result["status"])
    # A proof for other limits says nothing about this run.
    other = tuple(_limits(records[0]["limits"], certificate))
    if other or (trace.faults and not visits):
        return Audit(other or tuple(trace.faults), most=most, status=status)
    counts = _counts([*(visit.spent for visit in visits), *([] if result is None else [result["spent"]])], certificate)
    faults = [*trace.faults, *_ending(trace, certificate, len(records))]
    if visits and visits[0].node != certificate.flow.start:
        fact = f"the run starts at {visits[0].node} and the proof at {certificate.flow.start}"
        faults.append(Violation(visits[0].line, fact, _PROVE))
    for visit in visits:
        faults += _check_requests(visit, certificate)
    # A trace that is cut off has no counts after its last visit; those of an interrupted one are not reliable.
    sure = counts if trace.sound else counts[: len(visits)]
    for visit, before, after in zip(visits, sure, sure[1:], strict=False):
        if visit.left:
            faults += _step(visit, before, after, certificate)
    faults += _falling(visits, counts, certificate)
    faults += _overspent([*(visit.line for visit in visits), len(records)], counts, trace, certificate)
    faults += _beyond(trace, certificate, len(records))
    moved = sum(visit.left > 0 for visit in visits)
    return Audit(tuple(sorted(faults, key=lambda fault: fault.line)), moved, most, status)


def _counts(spent: Sequence[TraceRecord], certificate: Certificate) -> list[Counts]:
    """Return the amount spent of everything limited at each point; a call counts as one token at least."""
    flow = certificate.flow
    own = {*flow.measures, *(name for name, _ in flow.budgets)}
    names = dict.fromkeys((*_counter_names(certificate), *certificate.limits, *flow.measures))
    calls, tokens = MODEL_CALLS.name, TOKENS.name
    counts: list[Counts] = []
    for one in spent:
        now = {name: (one["budgets"] if name in own else one).get(name, 0) for name in names}
        last: Counts = counts[-1] if counts else dict.fromkeys(names, 0)
        if calls in flow.charged and tokens in flow.charged:
            reported = now[tokens] - (spent[len(counts) - 1][tokens] if counts else 0)
            now[tokens] = last[tokens] + max(reported, now[calls] - last[calls])
        counts.append(now)
    return counts


def _limits(recorded: TraceRecord, certificate: Certificate) -> Iterator[Violation]:
    given: TraceRecord = recorded.get("budgets", {})
    own = {**dict(certificate.flow.budgets), **given}
    ran = {name: limit for name, limit in recorded.items() if name != "budgets"}
    ran = {name: ran.get(name) for name in (*ran, *certificate.limits)} | own
    for name, limit in ran.items():
        proved = certificate.limits.get(name)
        if limit != proved or isinstance(limit, bool):
            fact = f"the limit {name} is {_format_limit(limit)} for the run and {_format_limit(proved)} for the proof"
            yield Violation(1, fact, "run with the limits of the proof, or prove with the limits of the run")


def _ending(trace: Trace, certificate: Certificate, last: int) -> Iterator[Violation]:
    ended = bool(trace.visits) and trace.visits[-1].target == END.name
    result: TraceRecord = trace.result or {"status": None}
    status = result["status"]
    if trace.result is None:
        yield Violation(last, "the trace ends before the run does", WHOLE)
    elif status not in _EXIT_CODES:
        yield Violation(last, f"a run cannot have the status {format_value(status)}", REPORT)
    elif ended != (status in ("answered", "stopped")):
        how = f"reached END, but its status is {status}" if ended else f"is {status} and did not reach END"
        yield Violation(last, f"the run {how}", REPORT)
    elif ended and (status == "stopped") != (trace.visits[-1].outcome == StoppedResponse.__name__):
        yield Violation(last, f"the run ended with {trace.visits[-1].outcome}, but its status is {status}", REPORT)
    elif ended:
        code, wanted = result.get("exit_code", _EXIT_CODES[status]), _EXIT_CODES[status]
        if code != wanted:
            yield Violation(
                last, f"the run is {status}, but its exit code is {format_value(code)}, not {wanted}", REPORT
            )
        yield from _check_reason(result, certificate, last)


def _check_reason(result: TraceRecord, certificate: Certificate, last: int) -> Iterator[Violation]:
    status, limit = result["status"], result.get("limit")
    reason: Any = result.get("reason")
    if limit is None:
        if status == "stopped" and reason is not None:
            yield Violation(last, f"the result has the reason {format_value(reason)}, but no limit", REPORT)
    elif status == "answered":
        yield Violation(last, f"the run is answered, but also stopped by {format_value(limit)}", REPORT)
    elif reason != limit["limit"]:
        yield Violation(last, f"the run is stopped by {limit['limit']}, but the reason is {reason}", REPORT)
    elif not limit["outer"] and certificate.limits.get(reason, limit["value"]) != limit["value"]:
        fact = f"the run is stopped by a limit {reason} of {_format_limit(limit['value'])}"
        yield Violation(last, f"{fact}, but that of the proof is {_format_limit(certificate.limits[reason])}", REPORT)


def _check_requests(visit: TraceVisit, certificate: Certificate) -> Iterator[Violation]:
    row = [one for one in certificate.flow.transitions if one.source == visit.node]
    asked = len(visit.asked)
    if row and asked and not any(one.asks or one.kind == "within" for one in row):
        fact = f"{visit.node} asks for {visit.asked[0]}, but the proved node never asks"
        yield Violation(visit.line, fact, _PROVE)
    elif row and all(one.most is not None and asked > one.most for one in row):
        fact = f"{visit.node} asks for {asked:,} effects in one visit, more than the proved node"
        yield Violation(visit.line, fact, _PROVE)
    limit = certificate.limits.get("fan_out")
    if limit is not None and asked > limit and any("fan_out" in one.causes for one in row):
        fact = f"{visit.node} asks for {asked:,} effects in one visit, but the limit fan_out is {show(limit)}"
        yield Violation(visit.line, fact, REPORT)


def _step(visit: TraceVisit, before: Counts, after: Counts, certificate: Certificate) -> Iterator[Violation]:
    transition = f"{visit.node} --{visit.outcome}--> {visit.target}"
    candidates = [
        one
        for one in certificate.flow.transitions
        if (one.source, one.outcome, one.target) == (visit.node, visit.outcome, visit.target)
    ]
    if not candidates:
        yield Violation(visit.left, f"{transition} is not a transition of the proved machine", _PROVE)
        return
    mismatches = [_find_mismatch(one, visit, (before, after), certificate) for one in candidates]
    if all(mismatches):
        # It is unknown which transition was meant; the first is the usual one.
        yield Violation(visit.left, f"{transition} {mismatches[0]}", REPORT)


def _find_mismatch(
    way: Transition, visit: TraceVisit, counts: tuple[Counts, Counts], certificate: Certificate
) -> str | None:
    """Return why the visit and its counters do not match this transition, or `None` if they do."""
    before, after = counts
    least = dict(way.spends)
    charged, bounded = (*certificate.flow.charged, *certificate.flow.quotas), certificate.flow.bounded
    for name in _counter_names(certificate):
        was, now, wanted = before[name], after[name], least.get(name, 0)
        # Charges of nested runs belong to no transition.
        own = now - was - visit.within.get(name, 0)
        if name in way.resets:
            if now:
                return f"resets {name}, but {show(now)} is spent after it"
        elif own < wanted or (name not in charged and own > wanted):
            # An entry spends exactly the amounts of the transition, effects at least these amounts.
            return f"spends {wanted} of {name}, but {show(was)} is spent before it and {show(now)} after it"
        elif name in bounded and (bound := way.calls(name)) is not None and own > bound:
            return f"makes at most {show(bound)} {name.replace('_', ' ')}, but {show(own)} are counted"
    asked = len(visit.asked)
    if way.kind == "move" and asked < way.asks:
        return f"asks for at least {way.asks:,} effects, but {asked:,} are recorded"
    if way.kind == "gate" and asked:
        return f"is taken before any effect, but {visit.asked[0]} is recorded"
    if visit.outer and way.kind in ("gate", "within"):
        return None
    if way.kind == "gate" and not any(_is_spent(cause, before, certificate) for cause in way.causes):
        return f"is taken when a limit is reached, but none of {', '.join(way.causes)} is"
    if way.kind == "within" and not any(_stops(cause, way, visit, counts, certificate) for cause in way.causes):
        causes = ", ".join(_causes(way, certificate))
        return f"is taken when a limit stops an effect, but none of {causes} can have"
    return None


def _is_spent(cause: str, before: Counts, certificate: Certificate) -> bool:
    limit = certificate.limits.get(cause)
    if limit is None:
        return False
    # A run may be resumed as often as the limit says.
    return before[cause] > limit if cause == "restarts" else before[cause] >= limit


def _stops(
    cause: str, way: Transition, visit: TraceVisit, counts: tuple[Counts, Counts], certificate: Certificate
) -> bool:
    """Return whether this limit can have stopped the visit. A trace does not contain refused effects."""
    before, after = counts
    limit = certificate.limits.get(cause)
    if limit is None or cause == "fan_out":
        return limit is not None
    if not way.largest(cause):
        # Seconds, restarts, and meters that are only measured.
        return _is_spent(cause, after, certificate)
    most = way.calls(cause)
    spent = after[cause] if cause in certificate.flow.measured else before[cause] + visit.within.get(cause, 0)
    if cause == TOKENS.name:
        # A call without tokens counts as one, and the trace does not say how many had none.
        spent += after.get(MODEL_CALLS.name, 0)
    return most is None or spent + most > limit


def _falling(visits: Sequence[TraceVisit], counts: Sequence[Counts], certificate: Certificate) -> Iterator[Violation]:
    values = [_value(visit.node, before, certificate) for visit, before in zip(visits, counts, strict=False)]
    for before, after, visit in zip(values, values[1:], visits[1:], strict=False):
        if before is not None and after is not None and not after < before:
            fact = (
                f"the rank does not fall: {_format_rank(before)} is followed by {_format_rank(after)} at {visit.node}"
            )
            yield Violation(visit.line, fact, REPORT)


def _value(node: str, before: Counts, certificate: Certificate) -> tuple[float, ...] | None:
    if certificate.ranks is None or node not in certificate.ranks:
        return None
    limits = certificate.limits
    return tuple(
        part
        for component, budgets in certificate.ranks[node]
        for part in (component, *(_left(name, before[name], limits.get(name)) for name in budgets))
    )


def _left(name: str, spent: float, limit: float | None) -> float:
    """Return what is left of a counter; of a measure, which counts as one more than at the last visit, any amount."""
    if is_measure(name):
        return spent - 1 if spent else math.inf
    return max(0, (limit or 0) - spent)


def _overspent(
    lines: Sequence[int], counts: Sequence[Counts], trace: Trace, certificate: Certificate
) -> Iterator[Violation]:
    """Check the limits. For a measured meter, the last effect may exceed the limit."""
    for name in _counter_names(certificate):
        limit, allowed = certificate.limits.get(name), _limit_of(name, trace, certificate)
        if name in certificate.flow.measured or limit is None or allowed is None:
            continue
        most = f"the limit is {show(limit)}"
        if allowed > limit:
            most += f", with {show(allowed - limit)} reserved beyond it"
        for line, spent in zip(lines, counts, strict=False):
            if spent[name] > allowed:
                yield Violation(line, f"{show(spent[name])} of {name} is spent, but {most}", REPORT)
                break


def _limit_of(name: str, trace: Trace, certificate: Certificate) -> float | None:
    limit, bound = certificate.limits.get(name), certificate.bounds.meters.get(name)
    if limit is None or bound is None:
        return limit
    reserved = [one for one in certificate.flow.transitions if one.reserved]
    if not reserved or bound.number is None:
        return limit
    if not trace.within(name):
        return bound.number
    # Nested runs are charged up to the limit; only nodes of this run may use the reserve beyond it.
    return max(bound.number, limit + max(one.calls(name) or 0 for one in reserved))


def _beyond(trace: Trace, certificate: Certificate, last: int) -> Iterator[Violation]:
    bounds, result = certificate.bounds, trace.result
    moved = [visit.left for visit in trace.visits if visit.left]
    most = bounds.transitions.number
    if most is not None and len(moved) > most:
        yield Violation(moved[int(most)], f"the run takes more than the {show(most)} proved transitions", REPORT)
    if result is None:
        return
    # The bounds on own effects leave out nested runs.
    own = bounds.alone or bounds.meters
    for name, bound in [(name, one.number) for name, one in (*own.items(), ("seconds", bounds.seconds))]:
        took: float = result["spent"].get(name, 0)
        # An integer, because a huge integer cannot be added to a float.
        grace: float = 0
        if name == "seconds":
            took, grace = max(took, result["seconds"]), _GRACE
        within = trace.within(name)
        if bound is not None and took > bound + grace + within:
            fact = f"the run takes {show(took)} {name.replace('_', ' ')}, but at most {show(bound)} is proved"
            if within:
                fact += f", besides {show(within)} of nested runs"
            yield Violation(last, fact, REPORT)


def _counter_names(certificate: Certificate) -> tuple[str, ...]:
    return ("iterations", *certificate.flow.charged, *(name for name, _ in certificate.flow.budgets))


def _causes(way: Transition, certificate: Certificate) -> list[str]:
    hidden = {PROMPT_TOKENS.name, COMPLETION_TOKENS.name, CACHED_TOKENS.name}
    return [name for name in way.causes if name not in hidden or certificate.limits.get(name) is not None]


def _format_limit(limit: object) -> str:
    return "none" if limit is None else show(limit) if is_whole(limit) or is_number(limit) else format_value(limit)


def _format_rank(value: Sequence[float]) -> str:
    return f"({', '.join(show(part) for part in value)})"
