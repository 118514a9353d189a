"""Endings always carry their run: a user's node may leave it out, and the engine's value has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from graphexec.actions import NO_RUN, AgentFinish, StoppedResponse, run_of
from graphexec.executor.table import check_return_direct, generate_response, parse, parse_or_raise, stopped_response
from graphexec.kernel.node import Node
from graphexec.kernel.surgery import same, wrap_function

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
    if source.function in _STOCK or source.function in _wrapped:
        return source
    wrapper = wrap_function(source, same, _with_run)
    _wrapped.add(wrapper)
    return dataclasses.replace(source, function=wrapper)


def _with_run(outcome: object, value: object) -> object:
    run = run_of(value)
    if run is None or not isinstance(outcome, (AgentFinish, StoppedResponse)) or outcome.run != NO_RUN:
        return outcome
    return dataclasses.replace(outcome, run=run)
