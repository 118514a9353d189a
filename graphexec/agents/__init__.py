"""Agents: functions that write the request to a model and parse its reply."""

from typing import TYPE_CHECKING

from graphexec._mistakes import import_on_use
from graphexec.actions import Decision
from graphexec.agents.agent import Agent, AgentFunction, RuleName, callable_agent, chat_agent
from graphexec.agents.react import create_react_agent
from graphexec.agents.runnables import Planner, Runnable
from graphexec.agents.small.synthesis import WorkedExample, synthesised_examples
from graphexec.agents.structured import create_structured_agent
from graphexec.agents.tool_calling import create_tool_calling_agent

if TYPE_CHECKING:
    from graphexec.agents.langchain.chat import create_chat_agent
    from graphexec.agents.langchain.conversational import create_conversational_agent
    from graphexec.agents.langchain.json_chat import create_json_chat_agent
    from graphexec.agents.langchain.mrkl import create_mrkl_agent
    from graphexec.agents.langchain.self_ask import create_self_ask_agent
    from graphexec.agents.langchain.structured_chat import create_structured_chat_agent
    from graphexec.agents.langchain.xml import create_xml_agent

__all__ = [
    "Agent",
    "AgentFunction",
    "Decision",
    "Planner",
    "RuleName",
    "Runnable",
    "WorkedExample",
    "callable_agent",
    "chat_agent",
    "create_chat_agent",
    "create_conversational_agent",
    "create_json_chat_agent",
    "create_mrkl_agent",
    "create_react_agent",
    "create_self_ask_agent",
    "create_structured_agent",
    "create_structured_chat_agent",
    "create_tool_calling_agent",
    "create_xml_agent",
    "synthesised_examples",
]

# The agents of LangChain's formats, which few programs make: each is loaded when it is used.
_MODULES = {
    "graphexec.agents.langchain.chat": "create_chat_agent",
    "graphexec.agents.langchain.conversational": "create_conversational_agent",
    "graphexec.agents.langchain.json_chat": "create_json_chat_agent",
    "graphexec.agents.langchain.mrkl": "create_mrkl_agent",
    "graphexec.agents.langchain.self_ask": "create_self_ask_agent",
    "graphexec.agents.langchain.structured_chat": "create_structured_chat_agent",
    "graphexec.agents.langchain.xml": "create_xml_agent",
}

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__, __dir__ = import_on_use(__name__, _MODULES)
