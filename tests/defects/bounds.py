"""Bound the effects of a run in tests, so that an endless run fails instead of hanging."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, TypeVar

from graphexec.kernel.effects import CallContext
from graphexec.runtime import IO, Handler
from graphexec.runtime.handlers import Handlers, RunContext
from tests.drivers import Script

S = TypeVar("S")
F = TypeVar("F")

# More effects than any run of these scripts asks for.
MOST = 200


def bounded(script: Script[S, F]) -> Script[S, F]:
    """Return the same script with an environment that fails after too many effects."""
    return dataclasses.replace(script, run_context=bounded_world(script.run_context))


def bounded_world(world: RunContext) -> RunContext:
    """Return the same environment, which fails after too many effects."""
    asked = itertools.count(1)
    handlers = Handlers({effect: _counted(handler, asked) for effect, handler in world.handlers.items()})
    return dataclasses.replace(world, handlers=handlers)


def _counted(handler: Handler, asked: Iterator[int]) -> Handler:
    def count() -> None:
        assert next(asked) <= MOST, f"the run asks for more than {MOST} effects"

    # Any: effects and replies have any type, as in `Handler`.
    async def answer(effect: Any, call: CallContext[Any], io: IO) -> Any:
        count()
        return await handler.answer(effect, call, io)

    return Handler(answer, handler.instant)
