"""Changes that a piece makes to hide data hold for the requests of all pieces, such as those of a critic."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Generator, Sequence
from typing import Any

from graphexec.actions import NO_RUN, Run, run_of
from graphexec.effects import ModelEffect
from graphexec.executor.plugging.piece import Edit, Piece
from graphexec.kernel.effects import All, Effect, Request
from graphexec.kernel.node import Node


def hide_requests(source: Node[Any, Any], pieces: Sequence[Piece]) -> Node[Any, Any]:
    """Return a piece's node that makes the edits of the pieces that reveal in each of its requests to a model.

    A node that asks no model stays as it is.
    """
    edits = [piece.edits for piece in pieces if piece.reveals and piece.edits is not None]
    if not edits or source.kind != "asks" or not any(issubclass(kind, ModelEffect) for kind in source.effects):
        return source
    function: Callable[..., Generator[Request, Any, Any]] = source.function

    def call_generator(value: Any, **settings: Any) -> Generator[Request, Any, Any]:
        run = run_of(value) or NO_RUN
        inner = function(value, **settings)
        try:
            request = next(inner)
            while True:
                try:
                    reply = yield _edit(request, edits, run)
                # The node may handle what the engine raises in it.
                except BaseException as error:  # noqa: BLE001
                    request = inner.throw(error)
                else:
                    request = inner.send(reply)
        except StopIteration as done:
            return done.value

    return dataclasses.replace(source, function=functools.update_wrapper(call_generator, function))


def _edit(asked: Request, edits: Sequence[Edit], run: Run) -> Request:
    if isinstance(asked, All):
        return dataclasses.replace(asked, effects=tuple(_edit_effect(one, edits, run) for one in asked.effects))
    return _edit_effect(asked, edits, run)


def _edit_effect(effect: Effect[Any], edits: Sequence[Edit], run: Run) -> Effect[Any]:
    if not isinstance(effect, ModelEffect):
        return effect
    # Any: the class of the reply does not matter here.
    asking: ModelEffect[Any] = effect
    request = asking.request
    for edit in edits:
        request = edit(request, run)
    return asking if request is asking.request else dataclasses.replace(asking, request=request)
