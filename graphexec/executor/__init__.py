"""The agent executor: the transition table of its five nodes, and the class that runs it."""

from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.handlers import make_agent_handler, make_model_handler
from graphexec.executor.nodes import (
    AGENT_EXECUTOR,
    agent_graph,
    check_return_direct,
    dispatch_tools,
    parse,
    plan,
    stopped_response,
)
from graphexec.executor.outcomes import Acted, Observed, Ready, Replied, Stopped, limit_reached
from graphexec.executor.result import RunResult
from graphexec.executor.streams import AnswerDiscarded

__all__ = [
    "AGENT_EXECUTOR",
    "Acted",
    "AgentExecutor",
    "AnswerDiscarded",
    "Observed",
    "Ready",
    "Replied",
    "RunResult",
    "Stopped",
    "agent_graph",
    "check_return_direct",
    "dispatch_tools",
    "limit_reached",
    "make_agent_handler",
    "make_model_handler",
    "parse",
    "plan",
    "stopped_response",
]

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
