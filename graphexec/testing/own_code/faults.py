"""Find errors of the user's code in the events of runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeAlias

from graphexec.actions import AgentAction, AgentFinish, Run, StoppedResponse
from graphexec.effects import CallAgent, CallTool, LoadMemory, ModelEffect, SaveMemory
from graphexec.executor.table import Acted, LimitReached, Observed, Ready, Refused
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Moved, Reported
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.snapshot import snapshot_of
from graphexec.runtime.observers import ObserverFailed
from graphexec.testing.adversary import Adversary
from graphexec.testing.explorer.failure import remedy
from graphexec.testing.failures import place_of
from graphexec.testing.own_code.watchdog import Watchdog
from graphexec.testing.runs import measured_by
from graphexec.verify import Bounds

Events: TypeAlias = Sequence[Event[Any]]


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """One fault: the code at fault, the fact, and the remedy."""

    who: str
    fact: str
    remedy: str


@dataclass(frozen=True)
class OwnRun:
    """One run of the user's code: its events, and the exception that ended it, if any."""

    events: Events
    error: BaseException | None
    adversary: Adversary
    watchdog: Watchdog
    # Virtual seconds, or `real` ones.
    seconds: float
    # Calls that started runs which are not charged to them.
    uncharged: tuple[str, ...] = ()
    real: bool = False


def find_faults(
    run: OwnRun, graph: Graph[Any, Any], bounds: Bounds, limits: Limits, raises: tuple[type[BaseException], ...]
) -> Iterator[BrokenPromise]:
    """Yield the faults of one run."""
    yield from _exception(run, raises)
    yield from _failed_observers(run.events)
    yield from _lost_actions(run.events)
    yield from _uncharged(run)
    yield from _beyond_bounds(run, graph, bounds, limits)


def open_calls(events: Events) -> list[CallContext[Any]]:
    """Return the calls that have no answer."""
    asked = {event.call: None for event in events if isinstance(event, Asked) and event.call is not None}
    for event in events:
        if isinstance(event, Answered) and event.call is not None:
            asked.pop(event.call, None)
    return list(asked)


def _exception(run: OwnRun, raises: tuple[type[BaseException], ...]) -> Iterator[BrokenPromise]:
    error = run.error
    if error is None or error in run.adversary.raised or isinstance(error, raises):
        return
    state, place = snapshot_of(error), place_of(error)
    calls = open_calls(run.events)
    who = run.watchdog.describe_call(calls[0]) if len(calls) == 1 else state.node if state is not None else "the run"
    fact = f"raises {error!r}{f' at {place}' if place else ''}"
    yield BrokenPromise(
        who, fact, f"let it not raise, or pass raises=({type(error).__name__},)" if calls else remedy(error)
    )


def _failed_observers(events: Events) -> Iterator[BrokenPromise]:
    for event in events:
        if isinstance(event, Reported) and isinstance(event.news, ObserverFailed):
            error = event.news.error
            place = place_of(error)
            fact = f"raises {error!r}{f' at {place}' if place else ''}"
            yield BrokenPromise(f"{event.node}: the observer {event.news.observer}", fact, "let no observer raise")


def _lost_actions(events: Events) -> Iterator[BrokenPromise]:
    """Yield the node that drops an action of the agent without a step or a call."""
    decided: tuple[AgentAction, ...] = ()
    steps = called = 0
    # The same of the runs that wait for an embedded agent, by the frames that they are within.
    waiting: dict[frozenset[str], tuple[tuple[AgentAction, ...], int, int]] = {}
    inside = frozenset[str]()
    for event, frames in zip(events, _frames_after(events), strict=True):
        if isinstance(event, Asked) and isinstance(event.effect, CallTool):
            called += 1
        if not isinstance(event, Moved):
            continue
        if frames != inside:
            waiting[inside] = decided, steps, called
            decided, steps, called = waiting.get(frames, ((), 0, 0)) if frames < inside else ((), 0, 0)
            entered, inside = inside < frames, frames
            if entered:
                continue
        match event.outcome:
            case Acted(run, actions) if not decided:
                decided, steps, called = actions, len(run.steps), 0
            case Acted(run, actions) if len(actions) + called + _new(run, steps) < len(decided):
                yield _lost(event.node, decided, actions)
                return
            case Observed(run, actions, _) if len(actions) + _new(run, steps) < len(decided):
                yield _lost(event.node, decided, actions)
                return
            case Ready(run):
                if max(called, _new(run, steps)) < len(decided):
                    yield _lost(event.node, decided, [step.action for step in run.steps[steps:]])
                    return
                decided = ()
            case AgentFinish() | StoppedResponse() | LimitReached() | Refused():
                decided = ()
            case _:
                pass


def _frames_after(events: Events) -> list[frozenset[str]]:
    """Return for each event the names of the frames of the node that the run enters next."""
    found: list[frozenset[str]] = []
    frames = frozenset[str]()
    for event in reversed(events):
        if isinstance(event, Entered):
            frames = frozenset(event.frames)
        found.append(frames)
    return found[::-1]


def _new(run: Run, steps: int) -> int:
    return max(0, len(run.steps) - steps)


def _lost(node: str, decided: Sequence[AgentAction], kept: Sequence[AgentAction]) -> BrokenPromise:
    missing = Counter(one.tool for one in decided) - Counter(one.tool for one in kept)
    names = ", ".join(missing.elements()) or "one of them"
    return BrokenPromise(
        node,
        f"loses an action: the agent decided on {len(decided)}, and {names} has no step and no tool call",
        "pass it on, or answer it with a step: run.with_steps([AgentStep(action, ...)])",
    )


def _uncharged(run: OwnRun) -> Iterator[BrokenPromise]:
    for who in run.uncharged:
        yield BrokenPromise(
            who,
            "starts a run that is not charged to the run around it, so the limits of that run do not apply to it",
            "start it with run(..., host=call), where call is the tool's parameter annotated CallContext, or in a "
            "thread with contextvars.copy_context().run",
        )


def _beyond_bounds(run: OwnRun, graph: Graph[Any, Any], bounds: Bounds, limits: Limits) -> Iterator[BrokenPromise]:
    last = run.events[-1] if run.events else None
    if not isinstance(last, Done):
        return
    measured = measured_by(graph)
    for name, bound in bounds.meters.items():
        spent = last.spent.meters.get(name, 0)
        # A limit that is set also applies to nested runs.
        if name in measured or limits[name] is not None or bound.number is None or spent <= bound.number:
            continue
        calls = [call for call in _calls(run.events) if (call.charged or {}).get(name)]
        # Model calls of a memory are assumed not to count towards the bounds.
        within = [call for call in calls if not isinstance(call.effect, (LoadMemory, SaveMemory))]
        beside = sum((call.charged or {}).get(name, 0) for call in calls if call not in within)
        if spent - beside <= bound.number:
            continue
        who = run.watchdog.describe_call(within[0]) if within else "the run"
        meter = name.replace("_", " ")
        fact = (
            f"charges {meter} that the proof does not count: {spent:g} in all, but at most {bound.number:g} are proved"
        )
        yield BrokenPromise(who, fact, f"set max_{name}, which also applies to nested runs")


def _calls(events: Events) -> list[CallContext[Any]]:
    return [event.call for event in events if isinstance(event, Answered) and event.call is not None]


def find_difference(
    first: OwnRun, second: OwnRun, *, stateful: frozenset[str], remembers: bool = False
) -> Iterator[BrokenPromise]:
    """Yield the code that makes two runs under one script differ.

    `stateful` tools and nodes may differ. If the executor `remembers`, the inputs from its memory may differ, too.
    """
    # What comes after a value that may differ may have other values, too.
    values_count = not remembers
    for own, other in zip_longest(_story(first, remembers=remembers), _story(second, remembers=remembers)):
        (who, before, value), (_, after, other_value) = own or ("", "ends", None), other or ("", "ends", None)
        who = who or (other or own)[0]
        node, _, code = who.partition(": ")
        name = code.removeprefix("the tool ") if code.startswith("the tool ") else node
        same = before == after
        if same and (not values_count or _is_same(value, other_value)):
            continue
        if node in stateful or name in stateful:
            if not same:
                return
            values_count = False
            continue
        if same:
            before, after = (f"{before}: {text}" for text in _distinct(_text(value), _text(other_value)))
        yield BrokenPromise(
            who,
            f"differs between runs: under one script it {before} in the first run, but {after} in the second",
            f"keep its state in the run (its context, its steps), or pass stateful=({name!r},) if this is intended",
        )
        return


# The code, its action, and the value that it asks for, answers or returns.
_Line: TypeAlias = tuple[str, str, object]


def _story(run: OwnRun, *, remembers: bool) -> list[_Line]:
    """Return what the code of a run does, in an order that does not depend on threads."""
    found: list[_Line] = []
    for event in sorted_members(run.events):
        match event:
            case Answered(_, ModelEffect() | LoadMemory()):
                pass
            case Answered(_, CallAgent(), _) if remembers:
                # The agent sees what the memory loaded.
                return found
            case Answered(_, _, reply, call=call) if call is not None:
                found.append(
                    (run.watchdog.describe_call(call), "answers", getattr(reply, "observation", None) or reply)
                )
            case Asked(node, effect):
                found.append((node, f"asks for {getattr(effect, 'name', type(effect).__name__)}", effect))
            case Entered(node):
                found.append((node, "is entered", None))
            case Moved(node, outcome):
                found.append((node, f"returns {type(outcome).__name__}", outcome))
            case _:
                pass
    if run.error is not None:
        found.append((found[-1][0] if found else "the run", f"raises {run.error!r}", None))
    return found


def _is_same(value: object, other: object) -> bool:
    try:
        if value == other:
            return True
    except Exception:  # noqa: BLE001, S110 - the values are the user's
        pass
    return _text(value) == _text(other)


def _text(value: object) -> str:
    # The addresses of objects differ between runs.
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


# The most characters of a value in a line of a report, and those of them before the first difference.
_SHOWN, _BEFORE = 80, 20


def _distinct(text: str, other: str) -> tuple[str, str]:
    """Return the parts of two texts with the first difference."""
    place = next((at for at, (one, two) in enumerate(zip(text, other, strict=False)) if one != two), 0)
    begin = max(0, place - _BEFORE) if max(len(text), len(other)) > _SHOWN else 0
    left, right = ((f"...{one[begin:]}" if begin else one) for one in (text, other))
    return _shorten(left), _shorten(right)


def _shorten(text: str) -> str:
    return text if len(text) < _SHOWN else f"{text[: _SHOWN - 3]}..."


def sorted_members(events: Events) -> list[Any]:
    """Return the events with the calls of each batch in the order of the batch."""

    def order(numbered: tuple[int, Any]) -> tuple[int, int, int]:
        number, event = numbered
        if not isinstance(event, (Asked, Answered)) or event.call is None:
            return number, 0, 0
        return first[event.call.sequence, event.node], isinstance(event, Answered), event.call.member

    kept = [event for event in events if not isinstance(event, Reported)]
    first: dict[tuple[int, str], int] = {}
    for number, event in enumerate(kept):
        if isinstance(event, Asked) and event.call is not None:
            first.setdefault((event.call.sequence, event.node), number)
    return [event for _, event in sorted(enumerate(kept), key=order)]
