"""graphexec: LLM agents as an explicit, typed state machine.

The public names are those in `__all__` here, in `graphexec.models` and in `graphexec.tools`, and the messages of
`graphexec.messages`, the drivers of `graphexec.drive` and the exceptions of `graphexec.errors`. The rest is free to
change.
"""

from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run, Steps, StoppedResponse
from graphexec.agents import (
    Agent,
    WorkedExample,
    callable_agent,
    chat_agent,
    create_react_agent,
    create_structured_agent,
    create_tool_calling_agent,
)
from graphexec.edge import END, Edge
from graphexec.effects import (
    All,
    AskHuman,
    Asks,
    CallAgent,
    CallModel,
    CallTool,
    Effect,
    Perform,
    ToolResult,
    ask,
    ask_all,
)
from graphexec.engine import Asking, advance, begin
from graphexec.errors import GraphError, GraphexecError, ModelError, ParseError, UnprovedError
from graphexec.events import Answered, Asked, Done, Entered, Event, Moved, Reported
from graphexec.executor import AgentExecutor
from graphexec.graph import Graph, draft, edges, graph, on
from graphexec.limits import ITERATIONS, Budget, Exhausted, Limits, Spent
from graphexec.machine import (
    AGENT_EXECUTOR,
    GENERATING_AGENT_EXECUTOR,
    STRICT_AGENT_EXECUTOR,
    STRICT_GENERATING_AGENT_EXECUTOR,
    Acted,
    LimitReached,
    Observed,
    Policies,
    Ready,
    Replied,
    check_return_direct,
    dispatch_tools,
    limit_reached,
    parse,
    plan,
    stopped_response,
)
from graphexec.node import Node, charged, metered, node, opaque, renamed, reserved
from graphexec.repeats import stop_repeats
from graphexec.reporting import report
from graphexec.result import RunResult
from graphexec.snapshot import Snapshot, snapshot_of
from graphexec.stepwise import Stepwise
from graphexec.surgery import bind, embed, replace, splice, wrap
from graphexec.tools import AnyTool, Tool, ToolRetried, tool

__all__ = [
    "AGENT_EXECUTOR",
    "END",
    "GENERATING_AGENT_EXECUTOR",
    "ITERATIONS",
    "STRICT_AGENT_EXECUTOR",
    "STRICT_GENERATING_AGENT_EXECUTOR",
    "Acted",
    "Agent",
    "AgentAction",
    "AgentExecutor",
    "AgentFinish",
    "AgentStep",
    "All",
    "Answered",
    "AnyTool",
    "AskHuman",
    "Asked",
    "Asking",
    "Asks",
    "Budget",
    "CallAgent",
    "CallModel",
    "CallTool",
    "Done",
    "Edge",
    "Effect",
    "Entered",
    "Event",
    "Exhausted",
    "Graph",
    "GraphError",
    "GraphexecError",
    "LimitReached",
    "Limits",
    "ModelError",
    "Moved",
    "Node",
    "Observed",
    "ParseError",
    "Perform",
    "Policies",
    "Ready",
    "Replied",
    "Reported",
    "Run",
    "RunResult",
    "Snapshot",
    "Spent",
    "Steps",
    "Stepwise",
    "StoppedResponse",
    "Tool",
    "ToolResult",
    "ToolRetried",
    "UnprovedError",
    "WorkedExample",
    "advance",
    "ask",
    "ask_all",
    "begin",
    "bind",
    "callable_agent",
    "charged",
    "chat_agent",
    "check_return_direct",
    "create_react_agent",
    "create_structured_agent",
    "create_tool_calling_agent",
    "dispatch_tools",
    "draft",
    "edges",
    "embed",
    "graph",
    "limit_reached",
    "metered",
    "node",
    "on",
    "opaque",
    "parse",
    "plan",
    "renamed",
    "replace",
    "report",
    "reserved",
    "snapshot_of",
    "splice",
    "stop_repeats",
    "stopped_response",
    "tool",
    "wrap",
]
