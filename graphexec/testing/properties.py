"""The properties of every run of a machine that was proved to end, checked on the real engine."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence
from typing import Any

from graphexec._arguments import number, validate, whole
from graphexec.errors import format_number
from graphexec.kernel.effects import CallId, Effect
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Failed, Moved, Reported
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.node import END
from graphexec.kernel.snapshot import Snapshot
from graphexec.testing.adversary import PARTS, Attack, part_of
from graphexec.testing.failures import place_of, with_own_frames
from graphexec.testing.own_code.rehearsal import Rehearsal, repetitions
from graphexec.testing.own_code.watchdog import PATIENCE, Watchdog
from graphexec.testing.runs import (
    RunReport,
    comparable,
    ended_async,
    ended_sync,
    measured_by,
    moves_of,
    pauses,
    run_report_async,
)
from graphexec.testing.setup import ENDLESS, Trial, Verifiable, graph_of, limits_of, small, trial_of
from graphexec.verify import Bound, Bounds, Verdict, verify
from graphexec.verify import check as check_certificate
from graphexec.verify.explorer.explore import RAISES, Exploration, explore
from graphexec.verify.explorer.failure import remedy
from graphexec.verify.explorer.oracle import Replies
from graphexec.verify.explorer.stub_nodes import explore_table
from graphexec.verify.explorer.temporal import charges_of

# No limit is above this where every run is followed: enough for every loop to be gone round and left.
EXHAUSTIVE = 2

# Sums of seconds are not exact.
_ROUNDING = 1e-6

# How many more attacks may be tried to find the shortest one that breaks a machine; 0 to show the first that does.
SHRINKING = 300

# Attacks on one machine, unless told otherwise: some seconds for an executor.
EXAMPLES = 50


# What the machine is tried with; few machines need more than one of these.
def verify_termination(  # noqa: PLR0913 - each has its usual value
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
) -> Verdict:
    """Check that every run of a machine ends within its limits, and return the verdict on it.

    It is proved; the proof is checked by the independent checker; every run within small limits is followed; and the
    real drivers, sync and async, are attacked `examples` times by models, tools and people who do anything, under a
    virtual clock. Then as many scripts of model replies are run with your own code: an executor's tools, agent
    function, memory, handlers, observers and policies are called (its model and people never are), so that what hangs,
    fails late, loses an action, or differs between two runs under one script is found, and named with its node.

    `machine` is an executor, or a graph that begins with `start`. `replies` are the replies to effects of your own,
    `{Fetch: [Page(""), Page("text")]}`; what they answer is not called: `{CallTool: [ToolResult("found")]}` keeps tools
    from being called. `raises` are exceptions that may end a run. `stateful` are the names of tools and nodes that may
    do other things in each run, `context` is what runs are given, and `patience` is how many real seconds one call of
    your code may take.

    Raises `AssertionError` with what does not hold, and `InputError` for effects without a known reply, for what is not
    a machine, for `examples` below 1, and for `patience` that is not above 0.
    """
    __tracebackhide__ = True
    verdict = require_proof(machine, limits)
    certified(verdict)
    table_explored(graph_of(machine), limits_of(machine, limits))
    options: dict[str, Any] = {"start": start, "limits": limits, "replies": replies, "raises": raises}
    hold(machine, examples=examples, stateful=stateful, context=context, patience=patience, **options)
    return verdict


def hold(
    machine: Verifiable,
    checks: Collection[str] = ("exhaustive", "adversarial"),
    *,
    examples: int = EXAMPLES,
    stateful: Sequence[str] = (),
    context: object = None,
    patience: float = PATIENCE,
    **options: Any,
) -> None:
    """Make the checks that call code of the user's own, under a watchdog; see `verify_termination`.

    Further `options` are those of `trial_of`.
    """
    __tracebackhide__ = True
    validate(
        "",
        ("examples", examples, whole(1)),
        ("patience", patience, number("seconds, above 0", positive=True)),
    )
    trial = trial_of(machine, watchdog=Watchdog(patience), **options)
    rehearsal = Rehearsal.of(machine, trial, replies=options.get("replies"), stateful=stateful, context=context)

    def held() -> None:
        if "exhaustive" in checks:
            explored(trial)
        if "adversarial" in checks:
            rehearsal.hold(examples)
            withstands(trial, examples=examples)

    trial.watchdog.run(held)


def require_proof(machine: Verifiable, limits: Limits | None = None) -> Verdict:
    """Return the verdict on a machine that is proved to end; for any other one raise it as an `AssertionError`."""
    __tracebackhide__ = True
    verdict = verify(graph_of(machine), limits_of(machine, limits))
    if not verdict.proved:
        raise AssertionError(str(verdict))
    return verdict


def certified(verdict: Verdict) -> None:
    """Have the proof checked by the independent checker, as it is and as JSON. Raises `CertificateError`."""
    __tracebackhide__ = True
    certificate = verdict.certificate
    assert certificate is not None, f"there is no certificate: {verdict}"
    check_certificate(certificate, verdict.graph)
    check_certificate(type(certificate).from_json(certificate.to_json()), verdict.graph)


def table_explored(graph: Graph[Any, Any], limits: Limits, *, most: int = EXHAUSTIVE) -> Exploration:
    """Follow every run that the table allows on the real engine, whatever its nodes do; each ends, within its bounds.

    The engine asserts that the proof's rank falls. No limit that is set is above `most`.
    """
    __tracebackhide__ = True
    limits = small(graph, limits, most)
    verdict = require_proof(graph, limits)
    assert verdict.certificate is not None, "what is proved has a certificate"
    return _check_bound(explore_table(graph, limits, ranks=verdict.certificate.ranks), verdict)


def explored(trial: Trial, *, most: int = EXHAUSTIVE) -> Exploration:
    """Follow every run of the nodes, whatever the world replies; each ends within its bounds, and raises what it may.

    No limit that is set is above `most`.
    """
    __tracebackhide__ = True
    ask_within_reason(trial)
    limits = small(trial.graph, trial.limits, most)
    found = explore(trial.graph, limits, trial.start, trial.oracle, raises=trial.raises)
    if found.raised:
        shortest = min(found.raised, key=lambda one: len(one.path))
        said = [f"{one}{_describe_place(one.error)}; {remedy(one.error)}" for one in found.raised]
        raise AssertionError("\n".join(said)) from with_own_frames(shortest.error)
    return _check_bound(found, require_proof(trial.graph, limits))


def ask_within_reason(trial: Trial) -> None:
    """Have each reply repeated for ever: no node asks on and on in one visit."""
    __tracebackhide__ = True
    for attack in repetitions(trial.parts):
        run_report_async(trial, attack, trial.limits)
    # What is said of a run under a script is not said of what follows.
    trial.watchdog.script = ""


def _describe_place(error: BaseException) -> str:
    place = place_of(error)
    return f"; raised at {place}" if place else ""


def _check_bound(exploration: Exploration, verdict: Verdict) -> Exploration:
    __tracebackhide__ = True
    if exploration.endless is not None:
        raise AssertionError(f"a run of the engine need not end: {exploration.endless}")
    bounds = verdict.bounds
    assert bounds is not None, "what is proved has bounds"
    _within(exploration.longest, bounds.transitions, "transitions", verdict.limits)
    for name, bound in bounds.meters.items():
        _within((exploration.charges or {})[name], bound, name.replace("_", " "), verdict.limits)
    return exploration


def withstands(trial: Trial, *, examples: int = EXAMPLES) -> None:
    """Attack the machine so many times, always with the same attacks, and check `check_attack` each time.

    Raises `AssertionError` for the shortest attack found that breaks it, and `InputError` for `examples` below 1.
    """
    __tracebackhide__ = True
    validate("", ("examples", examples, whole(1)))
    # Hypothesis is loaded by those who attack.
    from hypothesis import HealthCheck, Phase, given, settings

    from graphexec.testing.strategies import attacks, fractions, limits

    # What was found to break it breaks it, also where the machine keeps something from one run to the next.
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
    @given(attack=attacks(trial.parts), limits=limits(trial.limits), of_its_time=fractions())
    def attacked(attack: Attack, limits: Limits, of_its_time: float) -> None:
        nonlocal tried
        key = repr((attack, limits, of_its_time))
        if key in broken:
            raise broken[key]
        tried += 1
        if tried > examples + SHRINKING:
            # It is short enough.
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
        # Without the frames of Hypothesis, which say nothing of the machine.
        raise error.with_traceback(None)  # noqa: B904 - it is the same one


def check_attack(trial: Trial, attack: Attack, limits: Limits) -> None:
    """Run the machine under one attack, in every way there is; raise `AssertionError` for what does not hold."""
    __tracebackhide__ = True
    certificate = require_proof(trial.graph, limits).certificate
    assert certificate is not None, "what is proved has a certificate"
    told = run_report_async(trial, attack, limits, certificate.ranks)
    if told is None:
        # It waits for ever for what never comes, and nothing limits its time.
        return
    try:
        check_ending(trial, told)
        check_path(trial.graph, told.events)
        check_bounds(told, certificate.bounds, limits, trial.graph)
        again = run_report_async(trial, attack, limits)
        assert again is not None, "the run ended, and waits for ever when it is run again"
        assert again.gist == told.gist, f"a second run is not like the first: {again.gist}, {told.gist}"
        check_drivers(trial, attack.at_once(), limits)
    except AssertionError as error:
        error.add_note(f"the world did: {'; '.join(told.adversary.said) or 'nothing'}")
        error.add_note(f"the run went: {' '.join(moves_of(told.events)) or trial.graph.start}")
        raise


def check_ending(trial: Trial, told: RunReport) -> None:
    """It ended as the table says, or with an exception of the world's, or with one that is allowed."""
    __tracebackhide__ = True
    if told.error is not None:
        allowed = told.error in told.adversary.raised or isinstance(told.error, trial.raises)
        if not allowed:
            text = f"the run ended with {told.error!r}{_describe_place(told.error)}; {remedy(told.error)}"
            raise AssertionError(text) from with_own_frames(told.error)
        return
    endings = [edge.outcome for edge in trial.graph.edges if edge.target == END.name]
    assert type(told.outcome) in endings, f"the run ended with {told.outcome!r}, which no edge to the end carries"


def check_path(graph: Graph[Any, Any], events: Sequence[Event[Any]]) -> None:
    """The events are a path of the table, with the effects that each node declares, each answered before the next.

    The members of a batch are asked for and answered in any order, each once.
    """
    __tracebackhide__ = True
    edges = {(edge.source, edge.outcome, edge.target) for edge in graph.edges}
    at = graph.start
    asked: list[Effect[Any]] = []
    calls: set[CallId] = set()
    # The calls without an answer: all of one request.
    waiting: set[CallId] = set()
    for event in events:
        match event:
            case Entered():
                assert event.node == at, f"{event.node} was entered, but the table leads to {at}"
                asked = []
            case Asked():
                assert event.node == at, f"{event.node} asks while the run is at {at}"
                call = _id_of(event)
                together = all(other.sequence == call.sequence for other in waiting)
                assert together, f"{event.node} asks again before it has an answer"
                assert call not in calls, f"{event.node} asks for {call} twice"
                calls.add(call)
                asked.append(event.effect)
                waiting.add(call)
                strangers = {type(one) for one in asked} - {*graph[at].effects}
                assert not strangers, f"{at} asks for {strangers}, which it does not declare"
            case Reported():
                heard = event.effect is None or _id_of(event) in waiting
                assert heard, f"{event.node} hears of an answer, and did not ask"
            case Answered():
                assert _id_of(event) in waiting, f"{event.node} is answered, and did not ask"
                waiting.remove(_id_of(event))
            case Moved():
                assert not waiting, f"{event.node} is left before {', '.join(map(str, waiting))} is answered"
                assert (event.node, type(event.outcome), event.target) in edges, f"no edge is {event}"
                node = graph[at]
                cut = type(event.outcome) is node.spent_outcome
                enough = node.least <= len(asked) and (node.most is None or len(asked) <= node.most)
                assert cut or enough, f"{at} asked {len(asked)} times, and declares {node.least} to {node.most}"
                at = event.target
            case Done():
                assert at == END.name, f"the run is done at {at}"
            case Failed():
                raise AssertionError("only observers hear of a failure")


def _id_of(event: Asked | Answered | Reported) -> CallId:
    assert event.call is not None, f"{event} says no call"
    return event.call.id


def check_bounds(told: RunReport, bounds: Bounds, limits: Limits, graph: Graph[Any, Any]) -> None:
    """The run is within its proved bounds, all requests were charged, and nothing is above its limit."""
    __tracebackhide__ = True
    moved = sum(isinstance(event, Moved) for event in told.events)
    requests = [event for event in told.events if isinstance(event, Asked)]
    asked = [event.effect for event in requests]
    charged = charges_of(asked)
    limited = charges_of(event.effect for event in requests if graph[event.node].grace is None)
    _within(moved, bounds.transitions, "transitions", limits)
    for name, bound in bounds.meters.items():
        _within(charged[name], bound, name.replace("_", " "), limits)
    last = told.events[-1] if told.events else None
    if isinstance(last, Done):
        # What ignores its cancellation is waited for a little, once.
        _within(told.seconds, bounds.seconds, "seconds", limits)
        spent = last.spent
        # Only what is asked for takes time.
        assert abs(spent.seconds - told.seconds) < _ROUNDING, f"{told.seconds:g} seconds, but {spent}"
        measured = measured_by(graph)
        for name, amount in spent.meters.items():
            limit = limits[name]
            # What replies report is more than what was charged, if anything.
            fits = amount >= charged[name] if name in measured else amount == charged[name]
            assert fits, f"{charged[name]} {name.replace('_', ' ')}, but {spent}"
            assert limit is None or limited[name] <= limit, f"{limited[name]} {name.replace('_', ' ')} within {limits}"
    for part in PARTS:
        # What is cut before it begins is never seen.
        assert told.adversary.seen[part] <= sum(part_of(one) == part for one in asked), f"more {part} than asked for"


def check_drivers(trial: Trial, attack: Attack, limits: Limits) -> None:
    """Sync, async, and resumed from JSON at each effect, a run comes to the same end. The attack has no delays."""
    __tracebackhide__ = True
    whole = ended_sync(trial, attack, limits)
    other = ended_async(trial, attack, limits)
    assert comparable(other) == comparable(whole), f"a sync run ends with {whole!r}, an async one with {other!r}"
    for text, seen in pauses(trial, attack, limits):
        paused = Snapshot.from_json(text, trial.graph)
        again = paused.to_json()
        assert again == text, f"a snapshot is changed by storing it: {text} is {again}"
        resumed = ended_sync(trial, attack, limits, paused, seen)
        assert comparable(resumed) == comparable(whole), (
            f"resumed from {text} it ends with {resumed!r}, and not {whole!r}"
        )


def _within(reached: float | None, bound: Bound, what: str, limits: Limits) -> None:
    __tracebackhide__ = True
    if reached is None or bound.number is None:
        return
    text = f"{reached:g} {what}, and at most {format_number(bound.number)} are proved ({bound.form}) within {limits}"
    assert reached <= bound.number + _ROUNDING, text
