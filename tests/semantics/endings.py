"""The endings of a run: LangChain's texts, and the ending that a test expects."""

from __future__ import annotations

from graphexec import AgentFinish, StoppedResponse
from graphexec.executor.result import Ending
from tests.drivers import DriverResult

# What a run says that is stopped by its iterations or its time, and what asks it for its last word.
STOPPED = "Agent stopped due to iteration limit or time limit."
FINAL = "I now need to return a final answer based on the previous steps:"


def finish_of(result: DriverResult[Ending]) -> AgentFinish:
    """The answer of a run that has to have one."""
    assert isinstance(result.outcome, AgentFinish)
    return result.outcome


def stop_of(result: DriverResult[Ending]) -> StoppedResponse:
    """The stopped response of a run that has to have been stopped."""
    assert isinstance(result.outcome, StoppedResponse)
    return result.outcome
