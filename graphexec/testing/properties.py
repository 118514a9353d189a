"""The properties of every run of a proved machine, checked on the real engine."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from graphexec._arguments import number, validate, whole
from graphexec.errors import format_number
from graphexec.kernel.events import Asked, Done, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits, is_measure
from graphexec.kernel.node import END
from graphexec.kernel.snapshot import Snapshot
from graphexec.testing.adversary import Attack
from graphexec.testing.explorer.explore import RAISES, Exploration, explore, remedy
from graphexec.testing.explorer.oracle import Replies
from graphexec.testing.explorer.stub_nodes import explore_table
from graphexec.testing.explorer.temporal import charges_of
from graphexec.testing.failures import place_of, with_own_frames
from graphexec.testing.own_code.faults import check_equal_runs, check_error
from graphexec.testing.own_code.rehearsal import Rehearsal, repetitions
from graphexec.testing.own_code.watchdog import PATIENCE, Watchdog
from graphexec.testing.runs import (
    RunReport,
    comparable,
    measured_by,
    outcome_of,
    pauses,
    report_attack,
)
from graphexec.testing.setup import ENDLESS, Trial, Verifiable, check_names, graph_of, limits_of, small, trial_of
from graphexec.verify import Bound, Bounds, Verdict, verify
from graphexec.verify import check as check_certificate

# The warning of a guard that some exits bypass. Other warnings, such as of a loop that only a limit ends, may be meant.
_BYPASSED = "GX027"

# Sums of seconds are not exact.
_ROUNDING = 1e-6

# The number of further attacks to find the shortest one that breaks a machine; 0 to show the first one.
SHRINKING = 300

# The default number of attacks on a machine: a few seconds for an executor.
EXAMPLES = 50


# Few machines need more than one of these options.
def verify_termination(  # noqa: PLR0913 - each has a default
    machine: Verifiable,
    *,
    start: object = None,
    limits: Limits | None = None,
    replies: Replies | None = None,
    raises: tuple[type[BaseException], ...] = RAISES,
    examples: int = EXAMPLES,
    stateful: Sequence[str] = (),
    context: object = None,
    patience: float = PATIENCE,
    ignore: Sequence[str] = (),
) -> Verdict:
    """Check that every run of a machine ends within its limits, and return the verdict on it.

    The machine is proved, the independent checker checks the proof, and every run within small limits is followed. Then
    the real drivers, sync and async, are attacked `examples` times under a virtual clock by models, tools and people
    with arbitrary behaviour. Finally the same number of scripts of model replies are run with your own code: an
    executor's tools, agent function, memory, handlers, observers and policies are called (its model and people are
    not). This finds code that hangs, or fails late or for an unusual reply, and nodes that differ between two runs of
    one script, or when they are resumed.

    `machine` is an executor, or a graph that begins with `start`. `replies` are the replies to your own effects, such
    as `{Fetch: [Page(""), Page("text")]}`; their handlers are not called, so `{CallTool: [ToolResult("found")]}`
    prevents tool calls. `raises` are exceptions that may end a run. `stateful` are the names of nodes that may behave
    differently in each run. `context` is the context of the runs, and `patience` is the number of real
    seconds that one call of your code may take. `ignore=["GX027"]` allows exits that bypass a guard.

    Raises `AssertionError` with the broken property, and `InputError` for effects without a known reply, for a value
    that is not a machine, for `examples` below 1, for `patience` not above 0, and for unknown names.
    """
    __tracebackhide__ = True
    verdict = require_proof(machine, limits)
    check_guards(verdict, ignore)
    check_certificates(verdict)
    check_table_runs(graph_of(machine), limits_of(machine, limits))
    validate(
        "",
        ("examples", examples, whole(1)),
        ("patience", patience, number("seconds, above 0", positive=True)),
    )
    trial = trial_of(
        machine,
        start=start,
        limits=limits,
        replies=replies,
        raises=raises,
        stateful=stateful,
        context=context,
        watchdog=Watchdog(patience),
    )
    rehearsal = Rehearsal(machine, trial, replies)

    def check_own_code() -> None:
        check_all_runs(trial)
        rehearsal.run_scripts(examples)
        check_attacks(trial, examples=examples)

    trial.watchdog.run(check_own_code)
    return verdict


def require_proof(machine: Verifiable, limits: Limits | None = None) -> Verdict:
    """Return the verdict on a machine that is proved to end; raise any other verdict as an `AssertionError`."""
    __tracebackhide__ = True
    verdict = verify(graph_of(machine), limits_of(machine, limits))
    if not verdict.proved:
        raise AssertionError(str(verdict))
    return verdict


def check_guards(verdict: Verdict, ignore: Sequence[str] = ()) -> None:
    """Check that no exit bypasses a guard, unless `ignore` has the code of the warning."""
    __tracebackhide__ = True
    check_names("ignore", ignore, [_BYPASSED], "no warning that fails a test")
    missed = [str(one) for one in verdict.findings if one.code == _BYPASSED not in ignore]
    assert not missed, "\n".join(f"{one} Or pass ignore=[{_BYPASSED!r}] if this is intended." for one in missed)


def check_certificates(verdict: Verdict) -> None:
    """Check the proof with the independent checker, directly and as JSON. Raises `CertificateError`."""
    __tracebackhide__ = True
    certificate = verdict.certificate
    assert certificate is not None, f"the verdict has no certificate: {verdict}"
    check_certificate(certificate, verdict.graph)
    check_certificate(type(certificate).from_json(certificate.to_json()), verdict.graph)


def check_table_runs(graph: Graph[Any, Any], limits: Limits) -> Exploration:
    """Follow every run that the table allows, for any behaviour of its nodes; check that it ends within its bounds.

    The real engine runs it, and asserts that the proof's rank falls. Limits that are set are lowered.
    """
    __tracebackhide__ = True
    limits = small(graph, limits)
    verdict = require_proof(graph, limits)
    return _check_bound(explore_table(graph, limits, proof=verdict.proof), verdict)


def check_all_runs(trial: Trial) -> Exploration:
    """Follow every run of the real nodes for all replies; check that it ends within its bounds, or raises as allowed.

    Limits that are set are lowered.
    """
    __tracebackhide__ = True
    check_ask_counts(trial)
    limits = small(trial.graph, trial.limits)
    found = explore(trial.graph, limits, trial.start, trial.oracle, raises=trial.raises, context=trial.context)
    if found.raised:
        shortest = min(found.raised, key=lambda one: len(one.path))
        places = [f"; raised at {place}" if (place := place_of(one.error)) else "" for one in found.raised]
        lines = [f"{one}{at}; {remedy(one.error)}" for one, at in zip(found.raised, places, strict=True)]
        raise AssertionError("\n".join(lines)) from with_own_frames(shortest.error)
    return _check_bound(found, require_proof(trial.graph, limits))


def check_ask_counts(trial: Trial) -> None:
    """Repeat each reply endlessly, and check that no node asks endlessly in one visit, or keeps state between runs."""
    __tracebackhide__ = True
    for attack in repetitions(trial.numbers, unusual=True):
        # The first run of a process may leave what all others find.
        first, again = (report_attack(trial, attack, trial.limits) for _ in range(2))
        check_equal_runs(first, again, trial)
    # The following checks have other replies.
    trial.watchdog.log = ()


def _check_bound(exploration: Exploration, verdict: Verdict) -> Exploration:
    __tracebackhide__ = True
    if exploration.endless is not None:
        raise AssertionError(f"a run of the engine may not end: {exploration.endless}")
    bounds = verdict.bounds
    assert bounds is not None, "a proved machine has bounds"
    _within(exploration.longest, bounds.transitions, "transitions", verdict.limits)
    for name, bound in bounds.meters.items():
        _within((exploration.charges or {})[name], bound, name.replace("_", " "), verdict.limits)
    return exploration


def check_attacks(trial: Trial, *, examples: int = EXAMPLES) -> None:
    """Attack the machine `examples` times with reproducible attacks, and call `check_attack` for each.

    Raises `AssertionError` for the shortest failing attack found.
    """
    __tracebackhide__ = True
    # Hypothesis is imported only here.
    from hypothesis import HealthCheck, Phase, given, settings

    from graphexec.testing.strategies import attacks, fractions, limits

    # An attack that failed once counts as failing, even if the machine keeps state between runs.
    broken: dict[str, AssertionError] = {}
    tried = 0

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink] if SHRINKING else [Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(attack=attacks(trial.numbers), limits=limits(trial.limits), of_its_time=fractions())
    def attacked(attack: Attack, limits: Limits, of_its_time: float) -> None:
        nonlocal tried
        key = repr((attack, limits, of_its_time))
        if key in broken:
            raise broken[key]
        tried += 1
        if tried > examples + SHRINKING:
            # Stop shrinking.
            return
        try:
            check_attack(trial, attack, limits)
            needed = attack.seconds if limits.seconds is None else min(limits.seconds, attack.seconds)
            seconds = of_its_time * (needed if 0 < needed < math.inf else ENDLESS)
            check_attack(trial, attack, dataclasses.replace(limits, seconds=seconds))
        except AssertionError as error:
            broken[key] = error
            raise

    try:
        attacked()
    except AssertionError as error:
        # Without the frames of Hypothesis, which do not concern the machine.
        raise error.with_traceback(None)  # noqa: B904 - it is the same one


def check_attack(trial: Trial, attack: Attack, limits: Limits) -> None:
    """Run the machine under one attack with every driver; raise `AssertionError` for a broken property."""
    __tracebackhide__ = True
    certificate = require_proof(trial.graph, limits).certificate
    assert certificate is not None, "a proved machine has a certificate"
    report = report_attack(trial, attack, limits, certificate.proof)
    if report.endless:
        return
    try:
        check_ending(trial, report)
        check_bounds(report, certificate.bounds, limits, trial.graph)
        check_equal_runs(report, report_attack(trial, attack, limits), trial)
        check_drivers(trial, attack.at_once(), limits)
    except AssertionError as error:
        error.add_note(f"the replies: {'; '.join(report.adversary.log) or 'none'}")
        moves = [event for event in report.events if isinstance(event, Moved)]
        path = " ".join(f"{move.node} --{type(move.outcome).__name__}-->" for move in moves)
        error.add_note(f"the path: {path or trial.graph.start}")
        raise


def check_ending(trial: Trial, report: RunReport) -> None:
    """Check that the run ended with a declared outcome, an exception of the adversary, or an allowed exception."""
    __tracebackhide__ = True
    if report.error is not None:
        check_error(report, trial)
        return
    endings = [edge.outcome for edge in trial.graph.edges if edge.target == END.name]
    assert type(report.outcome) in endings, (
        f"the run ended with {report.outcome!r}, which no edge leads to the end with"
    )


def check_bounds(report: RunReport, bounds: Bounds, limits: Limits, graph: Graph[Any, Any]) -> None:
    """Check that the run stays within its proved bounds and its limits, and that all requests were charged."""
    __tracebackhide__ = True
    moved = sum(isinstance(event, Moved) for event in report.events)
    requests = [event for event in report.events if isinstance(event, Asked)]
    asked = [event.effect for event in requests]
    charged = charges_of(asked)
    limited = charges_of(event.effect for event in requests if graph[event.node].grace is None)
    _within(moved, bounds.transitions, "transitions", limits)
    for name, bound in bounds.meters.items():
        _within(charged[name], bound, name.replace("_", " "), limits)
    last = report.events[-1] if report.events else None
    if isinstance(last, Done):
        # A call that ignores its cancellation is waited for briefly, once.
        _within(report.seconds, bounds.seconds, "seconds", limits)
        spent = last.spent
        # Only effects take time.
        assert abs(spent.seconds - report.seconds) < _ROUNDING, f"{report.seconds:g} seconds, but {spent}"
        measured = measured_by(graph)
        for name, amount in spent.meters.items():
            if name in graph.own or is_measure(name):
                continue
            limit = limits[name]
            # Measured amounts are at least the charged ones.
            fits = amount >= charged[name] if name in measured else amount == charged[name]
            assert fits, f"{charged[name]} {name.replace('_', ' ')}, but {spent}"
            assert limit is None or limited[name] <= limit, f"{limited[name]} {name.replace('_', ' ')} within {limits}"


def check_drivers(trial: Trial, attack: Attack, limits: Limits) -> None:
    """Check that sync, async, and resumed runs (from JSON at each effect) end alike. The attack has no delays."""
    __tracebackhide__ = True
    whole, other = (outcome_of(trial, attack, limits, trial.start, is_async=one) for one in (False, True))
    differs = bool(trial.stateful)
    if comparable(other) != comparable(whole) and not differs:
        # Observed runs tell which node it is.
        first, second = (report_attack(trial, attack, limits) for _ in range(2))
        check_equal_runs(first, second, trial)
        raise AssertionError(f"the sync run ends with {whole!r}, the async one with {other!r}")
    for text, seen in pauses(trial, attack, limits):
        paused = Snapshot.from_json(text, trial.graph)
        again = paused.to_json()
        at = paused.node
        assert again == text, f"a snapshot at {at} that was stored differs from the original: {text} became {again}"
        resumed = outcome_of(trial, attack, limits, paused, seen)
        assert comparable(resumed) == comparable(whole) or differs, (
            f"{at} differs when it is resumed: from {text} the run ends with {resumed!r} instead of {whole!r}; keep "
            f"what it needs in its value, in a form that JSON keeps"
        )


def _within(reached: float | None, bound: Bound, what: str, limits: Limits) -> None:
    __tracebackhide__ = True
    if reached is None or bound.number is None:
        return
    text = f"{reached:g} {what}, but at most {format_number(bound.number)} are proved ({bound.form}) within {limits}"
    assert reached <= bound.number + _ROUNDING, text
