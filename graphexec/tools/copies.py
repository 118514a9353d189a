"""What a tool is given of its run's record: copies, so that it changes no argument, no result and no input of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, final

from graphexec.actions import AgentStep, Run, Steps
from graphexec.effects import CallTool
from graphexec.kernel.effects import All, CallContext, Effect, Request
from graphexec.tools.results import copy_value

_E = TypeVar("_E", bound=Effect[Any])


def copy_run(run: Run) -> Run:
    """Return a copy of the run so far."""
    return Run(copy_value(run.inputs), Steps(map(_copy_step, run.steps)), copy_value(run.aside))


def _copy_step(step: AgentStep) -> AgentStep:
    action = step.action
    copied = dataclasses.replace(
        action,
        tool_input=copy_value(action.tool_input),
        message=copy_value(action.message),
        original=copy_value(action.original),
    )
    return dataclasses.replace(step, action=copied, observation=copy_value(step.observation))


def _copy_effect(effect: _E) -> _E:
    # The effects of a user's own node are the user's.
    if not isinstance(effect, CallTool):
        return effect
    run = None if effect.run is None else copy_run(effect.run)
    return dataclasses.replace(effect, tool_input=copy_value(effect.tool_input), run=run)


@final
class ToolCallContext(CallContext[Any]):
    """A call as its tool receives it, equal to the recorded one, whose state it shares: with a copy of the effect.

    It is made when it is read, as few tools read it.
    """

    __slots__ = ("_call", "_effect")

    def __init__(self, call: CallContext[Any]) -> None:
        # Not that of the class, which would reset the shared state.
        self._call = call
        self._effect: Effect[Any] | None = None
        self.scope = call.scope
        self.node = call.node
        self.sequence = call.sequence
        self.member = call.member
        self.frames = call.frames

    # Properties, because they are read from the recorded call; a tool sets none of them.
    @property
    def effect(self) -> Effect[Any] | None:  # type: ignore[override]
        """The effect."""
        if self._effect is None and self._call.effect is not None:
            self._effect = _copy_effect(self._call.effect)
        return self._effect

    # As above.
    @property
    def request(self) -> Request | None:  # type: ignore[override]
        """The effect, or the batch that contains it."""
        request = self._call.request
        if not isinstance(request, All):
            return self.effect
        effects = [self.effect if one is self._call.effect else _copy_effect(one) for one in request.effects]
        return All(tuple(one for one in effects if one is not None))

    @property
    def provider_id(self) -> str | None:
        """The id that the model's provider gave the call, if the effect has one."""
        return self._call.provider_id

    @property
    def charged(self) -> Mapping[str, float] | None:
        """The charges of the call's nested runs."""
        return self._call.charged

    # Set by the runs that are nested in the call.
    @charged.setter
    def charged(self, charged: Mapping[str, float] | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._call.charged = charged

    # As above.
    @property
    def closed(self) -> bool:  # type: ignore[override]
        """Whether the call is answered."""
        return self._call.closed

    @property
    def nested(self) -> Any:
        """The last state of the machine that the call runs."""
        return self._call.nested

    @property
    def listener(self) -> Any:
        """The receiver of what handlers report during the call."""
        return self._call.listener


# Users know one class.
ToolCallContext.__name__ = CallContext.__name__
