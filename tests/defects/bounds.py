"""A bound of our own on what a run may ask: a run that never ends is a failure and not a hang."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, TypeVar

from graphexec.kernel.effects import CallContext
from graphexec.runtime import IO, Handler, RunContext
from tests.drivers import Script

S = TypeVar("S")
F = TypeVar("F")

# No script here lets its runs ask for as many effects.
MOST = 200


def bounded(script: Script[S, F]) -> Script[S, F]:
    """The same script, in a world that fails whoever asks for too much."""
    return dataclasses.replace(script, run_context=bounded_world(script.run_context))


def bounded_world(world: RunContext) -> RunContext:
    """The same world, which fails whoever asks for too much."""
    asked = itertools.count(1)
    handlers = {effect: _counted(handler, asked) for effect, handler in world.handlers.items()}
    return dataclasses.replace(world, handlers=handlers)


def _counted(handler: Handler, asked: Iterator[int]) -> Handler:
    def count() -> None:
        assert next(asked) <= MOST, f"the run asks for more than {MOST} effects"

    # Effects and replies are of any kind, as they are in `Handler`.
    async def answer(effect: Any, call: CallContext[Any], io: IO) -> Any:
        count()
        return await handler.answer(effect, call, io)

    return Handler(answer, handler.instant)
