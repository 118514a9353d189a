"""Endings always carry their run: a user's node may leave it out, and the engine's value has it."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any
from weakref import WeakSet

from graphexec.actions import NO_RUN, AgentFinish, StoppedResponse, run_of
from graphexec.executor.nodes import check_return_direct, generate_response, parse, parse_or_raise, stopped_response
from graphexec.kernel.node import Node

# The executor's own nodes that end a run: their endings always have it.
_STOCK = frozenset(
    stock.function for stock in (parse, parse_or_raise, check_return_direct, stopped_response, generate_response)
)

# Functions that are wrapped already: surgery derives machines from machines.
_wrapped: WeakSet[Callable[..., Any]] = WeakSet()


def attach_run(source: Node[Any, Any]) -> Node[Any, Any]:
    """Return the node with a function that adds the run of its value to an ending without one.

    A node that returns no ending stays as it is.
    """
    if source.inner is not None or not {AgentFinish, StoppedResponse} & {*source.returns}:
        return source
    function: Callable[..., Any] = source.function
    # `bind` supplies settings by a partial function.
    plain: Any = getattr(function, "func", function)
    if plain in _STOCK or plain in _wrapped:
        return source

    def call_pure(value: Any, **settings: Any) -> Any:
        return _with_run(function(value, **settings), value)

    def call_generator(value: Any, **settings: Any) -> Generator[Any, Any, Any]:
        inner: Generator[Any, Any, Any] = function(value, **settings)
        return _with_run((yield from inner), value)

    async def call_async(value: Any, **settings: Any) -> Any:
        return _with_run(await function(value, **settings), value)

    if source.kind == "asks":
        wrapper: Callable[..., Any] = call_generator
    else:
        wrapper = call_async if inspect.iscoroutinefunction(function) else call_pure
    _wrapped.add(functools.update_wrapper(wrapper, function))
    return dataclasses.replace(source, function=wrapper)


def _with_run(outcome: object, value: object) -> object:
    run = run_of(value)
    if run is None or not isinstance(outcome, (AgentFinish, StoppedResponse)) or outcome.run != NO_RUN:
        return outcome
    return dataclasses.replace(outcome, run=run)
