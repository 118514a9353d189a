"""How a run of an agent ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from graphexec.actions import AgentFinish, Steps, StoppedResponse, steps_of
from graphexec.events import Done
from graphexec.limits import Limits, Spent
from graphexec.messages import Usage

Ending: TypeAlias = AgentFinish | StoppedResponse


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, with all that it did and cost. A stop is a result like any other, not an exception.

    `steps` holds every action with its observation, parse errors included, in order.
    """

    ending: Ending
    steps: Steps
    spent: Spent
    limits: Limits

    @property
    def output(self) -> Any:
        """The answer, or the text of the stopped response."""
        return self.ending.output

    @property
    def reason(self) -> str:
        """Why it ended: `finished`, `return_direct`, or the name of the limit, or of the budget, that stopped it."""
        if isinstance(self.ending, StoppedResponse):
            return self.ending.limit.limit
        return "return_direct" if self.ending.return_direct else "finished"

    @property
    def stopped(self) -> StoppedResponse | None:
        """The stopped response, with the limit, its value and what was reached, if a limit stopped the run."""
        return self.ending if isinstance(self.ending, StoppedResponse) else None

    @property
    def usage(self) -> Usage:
        """The tokens of all model calls."""
        return Usage(self.spent.prompt_tokens, self.spent.completion_tokens)


def result_of(done: Done[Ending], limits: Limits) -> RunResult:
    """Return the result of a run that is over."""
    return RunResult(done.outcome, _steps(done), done.spent, limits)


def _steps(done: Done[Ending]) -> Steps:
    """The run's steps. A node of the user's own may end a run and leave them out of its finish; its value has them."""
    return max(done.outcome.steps, steps_of(done.snapshot.value), key=len)
