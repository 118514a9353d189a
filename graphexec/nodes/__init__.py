"""The shelf: pieces that an agent's machine takes by name, `create_agent(model, tools, nodes=[...])`.

Each function returns a `Piece`, which `executor.plug` puts on every edge of the outcomes that it takes.
"""

from graphexec.executor.plugging import HOMES, Flow, Piece, Plugged, Seats
from graphexec.nodes.approvals import Review, ReviewCall, ReviewDecision, approve_tools
from graphexec.nodes.escalation import AskStronger, escalate
from graphexec.nodes.handoffs import handoffs
from graphexec.nodes.mapping import map_agents
from graphexec.nodes.sub_agents import sub_agent
from graphexec.nodes.tool_calls import ask_user, cache_tools, limit_tool

__all__ = [
    "HOMES",
    "AskStronger",
    "Flow",
    "Piece",
    "Plugged",
    "Review",
    "ReviewCall",
    "ReviewDecision",
    "Seats",
    "approve_tools",
    "ask_user",
    "cache_tools",
    "escalate",
    "handoffs",
    "limit_tool",
    "map_agents",
    "sub_agent",
]
