"""Recordings of given events, and parts of records."""

from typing import Any

import graphexec as gx
from graphexec.draw import Recorder, Recording
from graphexec.executor import AGENT_EXECUTOR
from graphexec.kernel import Effect, Event
from graphexec.kernel.effects import CallContext, DetachedScope
from graphexec.runtime import stream
from graphexec.verify import verify
from tests.kernel.machines import Landed, Left, Stopped, countdown


class Sullen:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


def nested(depth: int, inner: object = None) -> Any:
    """Return a value in so many lists."""
    for _ in range(depth):
        inner = [inner]
    return inner


# What two recordings of one run may differ in.
_OWN = frozenset({"run", "began", "seconds", "time", "heartbeat", "traceback"})


# Any: JSON.
def timeless(value: Any) -> Any:
    """Return records, or a part of them, without ids and times."""
    match value:
        case {**members}:
            return {name: timeless(one) for name, one in members.items() if name not in _OWN}
        case [*items]:
            return [timeless(one) for one in items]
        case _:
            return value


def record_events(*events: Event[Any]) -> Recording:
    """Return the recording of a run of the standard machine with exactly these events."""
    recorder = Recorder(verify(AGENT_EXECUTOR, gx.Limits()), inputs="q")
    for event in events:
        recorder(event)
    return recorder.recording


def _call_of(effect: Effect[Any], member: int, node: str) -> CallContext[Any]:
    """Return a call that belongs to no running execution."""
    return CallContext(DetachedScope("a-run"), node, effect, effect, 1, member)


def asked_and_answered(effect: Any, reply: Any, *, node: str = "dispatch_tools", at: float = 0.0) -> list[Event[Any]]:
    """Return the events of a node that requests an effect at `at` seconds and gets the reply after two."""
    before, after = gx.Spent(seconds=at), gx.Spent(seconds=at + 2)
    return [gx.Entered(node, None, before), gx.Asked(node, effect), gx.Answered(node, effect, reply, 2.0, after)]


def asked_together(
    *asked: tuple[Effect[Any], Any, float], node: str = "dispatch_tools", at: float = 0.0
) -> list[Event[Any]]:
    """Return the events of a node that requests all effects at `at` seconds; each reply takes its own time."""
    calls = [_call_of(effect, member, node) for member, (effect, _, _) in enumerate(asked)]
    begun: list[Event[Any]] = [gx.Asked(node, effect, call) for (effect, _, _), call in zip(asked, calls, strict=True)]
    answers = [
        gx.Answered(node, effect, reply, seconds, gx.Spent(seconds=at + seconds), call)
        for (effect, reply, seconds), call in zip(asked, calls, strict=True)
    ]
    answers.sort(key=lambda event: event.spent.seconds)
    return [gx.Entered(node, None, gx.Spent(seconds=at)), *begun, *answers]


def three_entries() -> Recording:
    """Record a run in which each visit consumes an iteration and its edge resets them."""
    ways = gx.on(Left, countdown, resets=[gx.ITERATIONS]) | gx.on(Landed, gx.END) | gx.on(Stopped, gx.END)
    machine, limits = gx.graph(gx.edges(countdown, ways), start=countdown), gx.Limits(iterations=2)
    recorder = Recorder(verify(machine, limits))
    list(map(recorder, stream(machine, Left(3), limits=limits)))
    return recorder.recording
