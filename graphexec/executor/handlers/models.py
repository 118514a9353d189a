"""The handler of `CallModel`: it asks a model, and reports the pieces of a reply that the model streams."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from graphexec.effects import CallModel
from graphexec.errors import TurnTimeoutError
from graphexec.kernel.effects import CallContext
from graphexec.kernel.execution import Cut
from graphexec.messages import Model, ModelReply, check_reply
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO
from graphexec.runtime.progress import report, wait_for_capacity, wants_pieces
from graphexec.runtime.threads import check_cancelled

# Seconds that a model's own timeout is longer than the time left. The runner cuts the call at the deadline, which stops
# the run; the timeout, which is an error, only ends a call that was cut already.
_EXTRA_SECONDS = 1.0


def make_model_handler(model: Model) -> Handler:
    """Return a handler that answers `CallModel` with a model.

    A model with `instant = True` is called without a thread or a task.
    """
    # Any: a protocol with both methods would exclude models that cannot stream.
    stream: Any = getattr(model, "stream", None)
    astream: Any = getattr(model, "astream", None)
    name = type(model).__name__

    async def answer(effect: CallModel, call: CallContext[Any], io: IO) -> ModelReply | Cut:
        left = call.seconds_left
        timeout = None if left is None else left + _EXTRA_SECONDS
        try:
            if wants_pieces() and (stream if io.blocking else astream) is not None:
                return check_reply(await stream_reply(effect, timeout, io), name)
            if io.blocking:
                return check_reply(model.complete(effect.request, timeout=timeout), name)
            return check_reply(await model.acomplete(effect.request, timeout=timeout), name)
        except TurnTimeoutError:
            if left is None:
                raise
            # The turn would come after the run's deadline, so the deadline cuts the call now.
            return Cut()

    async def stream_reply(effect: CallModel, timeout: float | None, io: IO) -> object:
        last: object = None
        pieces = io.iterate(
            lambda: stream(effect.request, timeout=timeout), lambda: astream(effect.request, timeout=timeout)
        )
        async with aclosing(pieces):
            async for last in pieces:
                check_cancelled()
                if not isinstance(last, ModelReply):
                    report(last)
                    if not io.blocking:
                        await wait_for_capacity()
        return last

    return Handler(answer, instant=bool(getattr(model, "instant", False)))
