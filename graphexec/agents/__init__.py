"""Agents: what to ask a model, and how to read its reply."""

from graphexec.agents.agent import Agent, AgentFunction, Decision, callable_agent, chat_agent
from graphexec.agents.react import create_react_agent
from graphexec.agents.structured import WorkedExample, create_structured_agent
from graphexec.agents.tool_calling import create_tool_calling_agent

__all__ = [
    "Agent",
    "AgentFunction",
    "Decision",
    "WorkedExample",
    "callable_agent",
    "chat_agent",
    "create_react_agent",
    "create_structured_agent",
    "create_tool_calling_agent",
]
