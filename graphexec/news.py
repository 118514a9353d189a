"""What is new in a run: the steps that one event has brought, for whoever follows its events."""

from __future__ import annotations

from typing import final

from graphexec.actions import NO_STEPS, AgentStep, Steps
from graphexec.effects import CallTool
from graphexec.kernel.effects import All, Request


@final
class NewSteps:
    """Tells which of the steps that a run has by now it did not have before; `known` are no news.

    A node of the user's own may have taken steps away: then those that come after it are new.
    """

    __slots__ = ("_seen",)

    def __init__(self, known: Steps = NO_STEPS) -> None:
        self._seen = len(known)

    def of(self, steps: Steps) -> tuple[AgentStep, ...]:
        """The steps that are new."""
        new, self._seen = steps[self._seen :], len(steps)
        return new


def calls_tools(effect: Request) -> bool:
    """Whether it is a call of a tool, or several."""
    members = effect.effects if isinstance(effect, All) else (effect,)
    return any(isinstance(member, CallTool) for member in members)
