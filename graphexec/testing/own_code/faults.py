"""Find errors of the user's code in the events of runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from graphexec.effects import LoadMemory, SaveMemory
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Moved, Reported
from graphexec.kernel.snapshot import snapshot_of
from graphexec.runtime.observers import ObserverFailed
from graphexec.testing.explorer.explore import remedy
from graphexec.testing.failures import describe_error, with_own_frames
from graphexec.testing.runs import BrokenPromiseError, RunReport, measured_by
from graphexec.testing.setup import Trial
from graphexec.verify import Bounds


def check_run(run: RunReport, trial: Trial, bounds: Bounds) -> None:
    """Raise `BrokenPromiseError` for the first fault of a run."""
    check_error(run, trial)
    for event in run.events:
        if isinstance(event, Reported) and isinstance(event.news, ObserverFailed):
            who = f"{event.node}: the observer {event.news.observer}"
            raise BrokenPromiseError(who, describe_error(event.news.error), "let no observer raise")
    _check_charges(run, trial, bounds)


def open_calls(events: Sequence[Event[Any]]) -> list[CallContext[Any]]:
    """Return the calls that have no answer."""
    asked = {event.call: None for event in events if isinstance(event, Asked) and event.call is not None}
    answered = {event.call for event in events if isinstance(event, Answered)}
    return [call for call in asked if call not in answered]


def check_error(run: RunReport, trial: Trial) -> None:
    """Raise `BrokenPromiseError` for the exception of a run that is neither the adversary's nor allowed."""
    error = run.error
    if error is None or error in run.adversary.raised or isinstance(error, trial.raises):
        return
    state, calls = snapshot_of(error), open_calls(run.events)
    who = trial.watchdog.describe_call(calls[0]) if len(calls) == 1 else "the run" if state is None else state.node
    advice = f"let it not raise, or pass raises=({type(error).__name__},)" if calls else remedy(error)
    raise BrokenPromiseError(who, describe_error(error), advice) from with_own_frames(error)


def _check_charges(run: RunReport, trial: Trial, bounds: Bounds) -> None:
    """Raise `BrokenPromiseError` for a nested run that is not charged, or that the bounds do not count."""
    for who in run.uncharged:
        raise BrokenPromiseError(
            who,
            "starts a run that is not charged to the run around it, so the limits of that run do not apply to it",
            "start it with run(..., host=call), where call is the tool's parameter annotated CallContext, or in a "
            "thread with contextvars.copy_context().run",
        )
    last = run.events[-1] if run.events else None
    if not isinstance(last, Done):
        return
    measured = measured_by(trial.graph)
    answered = [event.call for event in run.events if isinstance(event, Answered) and event.call is not None]
    # Model calls of a memory are assumed not to count towards the bounds.
    calls = [call for call in answered if not isinstance(call.effect, (LoadMemory, SaveMemory))]
    for name, bound in bounds.meters.items():
        # A limit that is set also applies to nested runs.
        if name in measured or trial.limits[name] is not None or bound.number is None:
            continue
        beside = sum((call.charged or {}).get(name, 0) for call in answered if call not in calls)
        spent = last.spent.meters.get(name, 0) - beside
        if spent > bound.number:
            charged = [call for call in calls if (call.charged or {}).get(name)]
            who = trial.watchdog.describe_call(charged[0]) if charged else "the run"
            numbers = f"{spent:g} in all, but at most {bound.number:g} are proved"
            fact = f"charges {name.replace('_', ' ')} that the proof does not count: {numbers}"
            raise BrokenPromiseError(who, fact, f"set max_{name}, which also applies to nested runs")


def check_equal_runs(first: RunReport, second: RunReport, trial: Trial) -> None:
    """Raise `BrokenPromiseError` for a node, no `trial.stateful` one, that makes two runs under one attack differ."""
    # What comes after a value that may differ may have other values, too.
    values_count = True
    for one, other in zip_longest(_story(first), _story(second)):
        (node, before, value), (_, after, changed) = one or (other[0], "ends", ""), other or ("", "ends", "")
        if before == after and (not values_count or value == changed):
            continue
        if node in trial.stateful:
            if before != after:
                return
            values_count = False
            continue
        if before == after:
            before, after = (f"{before}: {text}" for text in _distinct([value, changed]))
        raise BrokenPromiseError(
            node,
            f"differs between runs: under one script it {before} in the first run, but {after} in the second",
            f"keep its state in the run (its context, its steps), or pass stateful=({node!r},) if this is intended",
        )


def _story(run: RunReport) -> Iterator[tuple[str, str, str]]:
    """Yield what the nodes of a run do: the node, the action, and the value that is asked for or returned."""
    node, value = "the run", ""
    for event in run.events:
        match event:
            case Asked(node, effect):
                did, value = f"asks for {getattr(effect, 'name', type(effect).__name__)}", repr(effect)
            case Entered(node):
                did, value = "is entered", ""
            case Moved(node, outcome):
                did, value = f"returns {type(outcome).__name__}", repr(outcome)
            case _:
                continue
        # The addresses of objects differ between runs.
        yield node, did, re.sub(r" at 0x[0-9a-f]+", "", value)
    if run.error is not None:
        yield node, f"raises {run.error!r}", ""


# The most characters of a value in a line of a report, and those of them before the first difference.
_SHOWN, _BEFORE = 80, 20


def _distinct(texts: Sequence[str]) -> list[str]:
    """Return the parts of two texts around their first difference."""
    first = next((at for at, letters in enumerate(zip(*texts, strict=False)) if len({*letters}) > 1), 0)
    begin = max(0, first - _BEFORE) if max(map(len, texts)) > _SHOWN else 0
    return [f"{'...' * bool(begin)}{text[begin:][:_SHOWN]}{'...' * (len(text) > begin + _SHOWN)}" for text in texts]
