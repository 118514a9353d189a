"""Runs that are recorded with every driver."""

from collections.abc import Callable, Sequence
from typing import Any

from graphexec import Agent, AgentExecutor, messages
from graphexec.executor.result import Ending
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.tools import AnyTool
from tests.drivers import DriverResult
from tests.executor.actors import run_executor


def run_and_record(
    make: Callable[[ScriptedModel], Agent], replies: Sequence[ScriptedReply], tools: Sequence[AnyTool], **settings: Any
) -> tuple[DriverResult[Ending], list[messages.ModelRequest]]:
    """Run the script with every driver; return the result and the requests, which are equal for all drivers."""
    models: list[ScriptedModel] = []

    def executor() -> AgentExecutor:
        models.append(ScriptedModel(replies))
        return AgentExecutor(agent=make(models[-1]), tools=tools, **settings)

    result = run_executor(executor)
    first, *others = [model.requests for model in models]
    assert all(other == first for other in others)
    return result, first
