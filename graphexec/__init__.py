"""LLM agents as an explicit, typed state machine.

Most programs need only the names exported here. The packages, and the modules `actions`, `effects`, `errors` and
`messages`, export the rest. Anything else is internal.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphexec._mistakes import import_on_use

if TYPE_CHECKING:
    from graphexec.actions import AgentAction, AgentFinish, AgentStep, StoppedResponse
    from graphexec.agents import (
        Agent,
        callable_agent,
        chat_agent,
        create_react_agent,
        create_structured_agent,
        create_tool_calling_agent,
    )
    from graphexec.create import create_agent
    from graphexec.effects import COST, MODEL_CALLS, TOKENS, TOOL_CALLS, AskHuman, agent_limits
    from graphexec.errors import GraphError, GraphexecError, InputError, LimitsError, ModelError, ParseError
    from graphexec.executor.executor import AgentExecutor
    from graphexec.executor.result import RunResult
    from graphexec.kernel.effects import All, Asks, CallContext, Effect, ask, ask_all
    from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Failed, Moved, Reported
    from graphexec.kernel.graph import Graph, edges, on
    from graphexec.kernel.meters import ITERATIONS, Exhausted, Limits, Meter, Spent
    from graphexec.kernel.node import END, Node, node
    from graphexec.kernel.snapshot import Snapshot, snapshot_of
    from graphexec.kernel.stepping import advance, begin
    from graphexec.kernel.surgery import embed, replace, wrap
    from graphexec.machine import Machine, graph, splice
    from graphexec.tools import Tool, tool
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
    "Machine",
    "Meter",
    "ModelError",
    "Moved",
    "Node",
    "ParseError",
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
    "chat_agent",
    "create_agent",
    "create_react_agent",
    "create_structured_agent",
    "create_tool_calling_agent",
    "edges",
    "embed",
    "graph",
    "node",
    "on",
    "replace",
    "snapshot_of",
    "splice",
    "tool",
    "wrap",
]

# Where these names are. A module is imported when one of its names is first used, so that the command line, and
# programs that use one package, do not wait for the others.
_MODULES = {
    "graphexec.actions": "AgentAction AgentFinish AgentStep StoppedResponse",
    "graphexec.agents": "Agent callable_agent chat_agent create_react_agent create_structured_agent "
    "create_tool_calling_agent",
    "graphexec.create": "create_agent",
    "graphexec.effects": "COST MODEL_CALLS TOKENS TOOL_CALLS AskHuman agent_limits",
    "graphexec.errors": "GraphError GraphexecError InputError LimitsError ModelError ParseError",
    "graphexec.executor.executor": "AgentExecutor",
    "graphexec.executor.result": "RunResult",
    "graphexec.kernel.effects": "All Asks CallContext Effect ask ask_all",
    "graphexec.kernel.events": "Answered Asked Done Entered Event Failed Moved Reported",
    "graphexec.kernel.graph": "Graph edges on",
    "graphexec.kernel.meters": "ITERATIONS Exhausted Limits Meter Spent",
    "graphexec.kernel.node": "END Node node",
    "graphexec.kernel.snapshot": "Snapshot snapshot_of",
    "graphexec.kernel.stepping": "advance begin",
    "graphexec.kernel.surgery": "embed replace wrap",
    "graphexec.machine": "Machine graph splice",
    "graphexec.tools": "Tool tool",
    "graphexec.verify": "UnprovedError",
}
# The packages and modules that `import graphexec` is enough for.
_PACKAGES = frozenset({"actions", "agents", "effects", "errors", "executor", "kernel", "messages", "runtime", "tools"})


# Any: a formatter of IPython, which has no annotations here, and an object that it shows.
def _register_displays(formatter: Any) -> None:
    """Let IPython draw machines and executors, and print verdicts and results; their classes are not imported."""
    formatter.for_type_by_name("graphexec.machine", "Machine", _draw)
    formatter.for_type_by_name("graphexec.executor.executor", "AgentExecutor", _draw)
    formatter.for_type_by_name("graphexec.executor.result", "RunResult", _print)
    formatter.for_type_by_name("graphexec.verify.proof.findings", "Verdict", _print)


def _draw(value: Any) -> dict[str, str]:
    bundle: dict[str, str] = import_module("graphexec.draw").notebook_picture(value.verify(), repr(value))
    return bundle


def _print(value: Any) -> dict[str, str]:
    return {"text/plain": str(value)}


# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__, __dir__ = import_on_use(__name__, _MODULES, _PACKAGES)

if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()) is not None:
    _register_displays(_shell.display_formatter.mimebundle_formatter)
