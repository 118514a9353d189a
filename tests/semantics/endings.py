"""What came of a run, as the ending that a test expects."""

from __future__ import annotations

from graphexec import AgentFinish, StoppedResponse
from graphexec.result import Ending
from tests.three_drivers import Told


def finish_of(told: Told[Ending]) -> AgentFinish:
    """The answer of a run that has to have one."""
    assert isinstance(told.outcome, AgentFinish)
    return told.outcome


def stop_of(told: Told[Ending]) -> StoppedResponse:
    """The stopped response of a run that has to have been stopped."""
    assert isinstance(told.outcome, StoppedResponse)
    return told.outcome
