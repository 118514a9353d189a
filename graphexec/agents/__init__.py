"""Agents: functions that write the request to a model and parse its reply."""

from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.actions import Decision
from graphexec.agents.agent import Agent, AgentFunction, RuleName, callable_agent, chat_agent
from graphexec.agents.react import create_react_agent
from graphexec.agents.small.synthesis import WorkedExample, synthesised_examples
from graphexec.agents.structured import create_structured_agent
from graphexec.agents.tool_calling import create_tool_calling_agent

__all__ = [
    "Agent",
    "AgentFunction",
    "Decision",
    "RuleName",
    "WorkedExample",
    "callable_agent",
    "chat_agent",
    "create_react_agent",
    "create_structured_agent",
    "create_tool_calling_agent",
    "synthesised_examples",
]

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
