"""What a tool is given of its run's record: copies, so that it changes no argument, no result and no input of it."""

from __future__ import annotations

import dataclasses
from typing import Any

from graphexec.actions import AgentStep, Run, Steps
from graphexec.effects import CallTool
from graphexec.kernel.effects import All, CallContext, Effect
from graphexec.tools.results import copy_value


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


def give_copies(call: CallContext[Any], effect: CallTool) -> CallContext[Any]:
    """Let a call have copies of its arguments, and of its batch's, for its tool; events and steps keep theirs.

    The run of the effect stays that of the record: its tool receives a copy of it in a parameter annotated `Run`.
    """
    copied = _copy_arguments(effect)
    if isinstance(call.request, All):
        effects = (copied if one is call.effect else _copy_arguments(one) for one in call.request.effects)
        call.request = All(tuple(effects))
    else:
        call.request = copied
    call.effect = copied
    return call


# Any: an effect with any reply.
def _copy_arguments(effect: Effect[Any]) -> Effect[Any]:
    # The effects of a user's own node are the user's.
    if not isinstance(effect, CallTool):
        return effect
    return dataclasses.replace(effect, tool_input=copy_value(effect.tool_input))
