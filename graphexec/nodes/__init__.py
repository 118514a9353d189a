"""The shelf: pieces that an agent's machine takes by name, `create_agent(model, tools, nodes=[...])`.

Each function returns a `Piece`, which `executor.plug` puts on every edge of the outcomes that it takes.
"""

from graphexec.executor.plugging import HOMES, Flow, Piece, Plugged, Seats
from graphexec.nodes.approvals import Review, ReviewCall, ReviewDecision, approve_tools
from graphexec.nodes.asking import AskCritic, AskSelector, ReadClock, compact, critic, select_tools, tell_time
from graphexec.nodes.clearing import clear_results
from graphexec.nodes.conversations import CountCalls, limit_conversation
from graphexec.nodes.delegation import handoffs, map_agents, sub_agent
from graphexec.nodes.escalation import AskStronger, escalate
from graphexec.nodes.guards import guard_input, guard_output
from graphexec.nodes.model_errors import catch_errors
from graphexec.nodes.output import output_type
from graphexec.nodes.privacy import redact_pii
from graphexec.nodes.todos import Todo, todo_list
from graphexec.nodes.tool_calls import (
    AskEmulator,
    ask_user,
    cache_tools,
    emulate_tools,
    limit_tool,
    no_dummies,
    no_immediate_repeats,
    no_repeats,
    stop_repeats,
)

__all__ = [
    "HOMES",
    "AskCritic",
    "AskEmulator",
    "AskSelector",
    "AskStronger",
    "CountCalls",
    "Flow",
    "Piece",
    "Plugged",
    "ReadClock",
    "Review",
    "ReviewCall",
    "ReviewDecision",
    "Seats",
    "Todo",
    "approve_tools",
    "ask_user",
    "cache_tools",
    "catch_errors",
    "clear_results",
    "compact",
    "critic",
    "emulate_tools",
    "escalate",
    "guard_input",
    "guard_output",
    "handoffs",
    "limit_conversation",
    "limit_tool",
    "map_agents",
    "no_dummies",
    "no_immediate_repeats",
    "no_repeats",
    "output_type",
    "redact_pii",
    "select_tools",
    "stop_repeats",
    "sub_agent",
    "tell_time",
    "todo_list",
]
