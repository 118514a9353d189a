"""Turns: the steps of one reply of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from graphexec.actions import AgentStep

# The steps of one reply.
Turn: TypeAlias = Sequence[AgentStep]


def last_turns(steps: Sequence[AgentStep], most: int) -> list[Turn]:
    """Return the last turns, at most `most` of them, in order."""
    turns: list[Turn] = []
    end = len(steps)
    while end and len(turns) < most:
        start = end - 1
        message, calls = steps[start].action.message, {steps[start].action.call_id}
        # An equal message with a call id seen before belongs to another reply.
        while message is not None and start:
            before = steps[start - 1].action
            if before.message != message or before.call_id in calls:
                break
            calls.add(before.call_id)
            start -= 1
        turns.append(steps[start:end])
        end = start
    return turns[::-1]
