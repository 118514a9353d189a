"""A piece that tells the model the time at which a run begins: `tell_time`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from graphexec._arguments import FUNCTION, NAME, validate
from graphexec.executor.outcomes import Ready
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks, Effect, ask
from graphexec.kernel.node import node


@dataclass(frozen=True, slots=True)
class ReadClock(Effect[str]):
    """Ask for the date and the time, as a string."""


def _now() -> datetime:
    return datetime.now().astimezone()


def tell_time(now: Callable[[], datetime | str] = _now, *, name: str = "tell_time") -> Piece:
    """Tell the model the date and the time at which the run begins, in each of its requests.

    `now` returns them; by default the local time is written as `Monday, 2026-11-23 22:40 +0100`. A resumed run keeps
    the time of its beginning. Pass `handlers={ReadClock: function}` to the executor to answer the effect in another
    way.

        from graphexec.nodes import tell_time

        executor = create_agent(model, tools, nodes=[tell_time()])
        print(executor.run("Which day is it?").output)

    It adds one transition to a run, and no model call. Raises `InputError` for an invalid argument.
    """
    validate("tell_time", ("now", now, FUNCTION), ("name", name, NAME))

    @node(name=name)
    def read_clock(ready: Ready) -> Asks[ReadClock, Ready]:
        """Note the time at which the run begins."""
        time = yield from ask(ReadClock())
        notes = {**ready.run.aside.notes, name: f"The run began at this time: {time}."}
        return Ready(ready.run.with_aside(notes=notes))

    def answer(_: ReadClock) -> str:
        time = now()
        return f"{time:%A, %Y-%m-%d %H:%M %z}".strip() if isinstance(time, datetime) else time

    return Piece(name, (read_clock,), once=True, handlers={ReadClock: answer})
