"""graphexec: LLM agents as an explicit, typed state machine.

The public names are those in `__all__` here, in `graphexec.models`, `graphexec.memory`, `graphexec.tools`,
`graphexec.verify`, `graphexec.testing` and `graphexec.draw`, and the messages of `graphexec.messages`, the drivers of
`graphexec.runtime.runner` and the exceptions of `graphexec.errors`. The rest is free to change.
"""

from typing import TYPE_CHECKING, Any

from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run, Steps, StoppedResponse
from graphexec.agents import (
    Agent,
    Runnable,
    WorkedExample,
    callable_agent,
    chat_agent,
    create_chat_agent,
    create_conversational_agent,
    create_json_chat_agent,
    create_mrkl_agent,
    create_react_agent,
    create_self_ask_agent,
    create_structured_agent,
    create_structured_chat_agent,
    create_tool_calling_agent,
    create_xml_agent,
)
from graphexec.chunks import Chunk
from graphexec.effects import AskHuman, CallAgent, CallModel, CallTool, ToolResult
from graphexec.errors import (
    GraphError,
    GraphexecError,
    InputError,
    LimitsError,
    ModelError,
    ParseError,
    ToolDefinitionError,
)
from graphexec.executor import AgentExecutor
from graphexec.inputs import Inputs
from graphexec.kernel.edge import END, Edge
from graphexec.kernel.effects import All, Asks, Effect, Perform, ask, ask_all
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Moved, Reported
from graphexec.kernel.graph import Graph, draft, edges, graph, on
from graphexec.kernel.journal import Journal, journal_of
from graphexec.kernel.meters import ITERATIONS, Budget, Exhausted, Limits, Meter, Spent
from graphexec.kernel.node import Node, charged, metered, node, opaque, renamed, reserved
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.kernel.stepping import Asking, advance, begin, replay
from graphexec.kernel.surgery import bind, embed, replace, splice, wrap
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
    ReturnDirect,
    check_return_direct,
    dispatch_tools,
    limit_reached,
    parse,
    plan,
    stopped_response,
)
from graphexec.meters import COST, MODEL_CALLS, TOKENS, TOOL_CALLS, agent_limits
from graphexec.observers import Watcher
from graphexec.options import ParsePolicy, Trim
from graphexec.repeats import stop_repeats
from graphexec.result import RunResult
from graphexec.runtime.progress import report
from graphexec.stepwise import Stepwise
from graphexec.tools import AnyTool, Tool, ToolRetried, tool

if TYPE_CHECKING:
    from graphexec.verify import UnprovedError

__all__ = [
    "AGENT_EXECUTOR",
    "COST",
    "END",
    "GENERATING_AGENT_EXECUTOR",
    "ITERATIONS",
    "MODEL_CALLS",
    "STRICT_AGENT_EXECUTOR",
    "STRICT_GENERATING_AGENT_EXECUTOR",
    "TOKENS",
    "TOOL_CALLS",
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
    "Chunk",
    "Done",
    "Edge",
    "Effect",
    "Entered",
    "Event",
    "Exhausted",
    "Graph",
    "GraphError",
    "GraphexecError",
    "InputError",
    "Inputs",
    "Journal",
    "LimitReached",
    "Limits",
    "LimitsError",
    "Meter",
    "ModelError",
    "Moved",
    "Node",
    "Observed",
    "ParseError",
    "ParsePolicy",
    "Perform",
    "Policies",
    "Ready",
    "Replied",
    "Reported",
    "ReturnDirect",
    "Run",
    "RunResult",
    "Runnable",
    "Snapshot",
    "Spent",
    "Steps",
    "Stepwise",
    "StoppedResponse",
    "Tool",
    "ToolDefinitionError",
    "ToolResult",
    "ToolRetried",
    "Trim",
    "UnprovedError",
    "Watcher",
    "WorkedExample",
    "advance",
    "agent_limits",
    "ask",
    "ask_all",
    "begin",
    "bind",
    "callable_agent",
    "charged",
    "chat_agent",
    "check_return_direct",
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
    "dispatch_tools",
    "draft",
    "edges",
    "embed",
    "graph",
    "journal_of",
    "limit_reached",
    "metered",
    "node",
    "on",
    "opaque",
    "parse",
    "plan",
    "renamed",
    "replace",
    "replay",
    "report",
    "reserved",
    "snapshot_of",
    "splice",
    "stop_repeats",
    "stopped_response",
    "tool",
    "wrap",
]


def __getattr__(name: str) -> Any:
    # The prover is loaded by the first proof.
    if name == "UnprovedError":
        from graphexec.verify import UnprovedError

        return UnprovedError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
