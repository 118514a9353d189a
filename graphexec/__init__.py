"""LLM agents as an explicit, typed state machine.

Most programs need only the names exported here. The packages, and the modules `actions`, `effects`, `errors` and
`messages`, export the rest. Anything else is internal.
"""

import sys
from typing import TYPE_CHECKING, Any

from graphexec._mistakes import ModuleExplainer
from graphexec.actions import AgentAction, AgentFinish, AgentStep, StoppedResponse
from graphexec.agents import (
    Agent,
    callable_agent,
    chat_agent,
    create_react_agent,
    create_structured_agent,
    create_tool_calling_agent,
)
from graphexec.effects import COST, MODEL_CALLS, TOKENS, TOOL_CALLS, AskHuman, agent_limits
from graphexec.errors import GraphError, GraphexecError, InputError, LimitsError, ModelError, ParseError
from graphexec.executor.creation import create_agent
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.result import RunResult
from graphexec.kernel.effects import All, Asks, CallContext, Effect, ask, ask_all
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Failed, Moved, Reported
from graphexec.kernel.graph import Graph, draft, edges, graph, on
from graphexec.kernel.meters import ITERATIONS, Budget, Exhausted, Limits, Meter, Spent
from graphexec.kernel.node import END, Node, charged, metered, node, opaque
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.kernel.stepping import advance, begin
from graphexec.kernel.surgery import embed, replace, splice, wrap
from graphexec.tools import Tool, tool

if TYPE_CHECKING:
    from graphexec.executor.progress import Progress
    from graphexec.verify import UnprovedError

__version__ = "0.1.0"

__all__ = [
    "COST",
    "END",
    "ITERATIONS",
    "MODEL_CALLS",
    "TOKENS",
    "TOOL_CALLS",
    "Agent",
    "AgentAction",
    "AgentExecutor",
    "AgentFinish",
    "AgentStep",
    "All",
    "Answered",
    "AskHuman",
    "Asked",
    "Asks",
    "Budget",
    "CallContext",
    "Done",
    "Effect",
    "Entered",
    "Event",
    "Exhausted",
    "Failed",
    "Graph",
    "GraphError",
    "GraphexecError",
    "InputError",
    "Limits",
    "LimitsError",
    "Meter",
    "ModelError",
    "Moved",
    "Node",
    "ParseError",
    "Progress",
    "Reported",
    "RunResult",
    "Snapshot",
    "Spent",
    "StoppedResponse",
    "Tool",
    "UnprovedError",
    "advance",
    "agent_limits",
    "ask",
    "ask_all",
    "begin",
    "callable_agent",
    "charged",
    "chat_agent",
    "create_agent",
    "create_react_agent",
    "create_structured_agent",
    "create_tool_calling_agent",
    "draft",
    "edges",
    "embed",
    "graph",
    "metered",
    "node",
    "on",
    "opaque",
    "replace",
    "snapshot_of",
    "splice",
    "tool",
    "wrap",
]


# Type checkers report a name that is not there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # The first proof loads the prover.
        if name == "UnprovedError":
            from graphexec.verify import UnprovedError

            return UnprovedError
        if name == "Progress":
            from graphexec.executor.progress import Progress

            return Progress
        from graphexec._mistakes import missing_name

        raise missing_name(__name__, name)

    # Behind all other finders, so it is asked only for modules that are not there.
    sys.meta_path.append(ModuleExplainer(__name__))
