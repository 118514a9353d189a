"""The handlers of `LoadMemory` and `SaveMemory`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphexec.effects import LoadMemory, SaveMemory
from graphexec.errors import InputError, format_value
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Cut
from graphexec.memory.conversation import Memory, MemoryNotSaved
from graphexec.runtime.calls import report
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO
from graphexec.runtime.threads import NOT_DONE, NotDone, wait_for


def make_load_handler(memory: Memory) -> Handler:
    """Return a handler that answers `LoadMemory` with `memory.load` in sync runs, with `memory.aload` in async runs."""

    async def answer(effect: LoadMemory, call: CallContext[Any], io: IO) -> Mapping[str, Any]:
        del call
        inputs = dict(effect.inputs)
        loaded = await io.either(lambda: memory.load(inputs), lambda: memory.aload(inputs))
        # A user's memory may return another type.
        if not isinstance(loaded, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"the memory loaded {format_value(loaded)}; return a dict of inputs by name")
        return loaded

    return Handler(answer)


def make_save_handler(memory: Memory) -> Handler:
    """Return a handler that answers `SaveMemory` with `memory.save` in sync runs, with `memory.asave` in async runs.

    A save that is not done at the deadline is not cancelled: it continues in the background, and the run reports
    `MemoryNotSaved`.
    """

    async def answer(effect: SaveMemory, call: CallContext[Any], io: IO) -> Cut | None:
        values = dict(effect.inputs), dict(effect.outputs)
        left = call.seconds_left
        if left is None:
            return await io.either(lambda: memory.save(*values), lambda: memory.asave(*values))
        seconds = max(0.0, left)

        async def save_or_leave() -> NotDone | None:
            # Imported here: this imports asyncio, which is slow to load and which a sync run never needs.
            from graphexec.runtime.tasks import await_for

            return await await_for(lambda: memory.asave(*values), seconds, detach=True)

        done = await io.either(lambda: wait_for(lambda: memory.save(*values), seconds), save_or_leave)
        if done is not NOT_DONE:
            return None
        report(MemoryNotSaved(seconds))
        return Cut()

    return Handler(answer, timed=True)
