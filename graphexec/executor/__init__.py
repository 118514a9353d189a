"""The agent executor: the transition table of its five nodes, and the class that runs it."""

from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.executor.executor import AgentExecutor, ExecutorOptions
from graphexec.executor.handlers import make_agent_handler, make_model_handler
from graphexec.executor.inputs import Inputs
from graphexec.executor.options import AgentKind, ParsePolicy, Trim
from graphexec.executor.plugging.memory_nodes import NotSaved, load_memory, return_unsaved, save_memory
from graphexec.executor.result import RunResult
from graphexec.executor.streams import AnswerDiscarded
from graphexec.executor.table import (
    AGENT_EXECUTOR,
    GENERATING_AGENT_EXECUTOR,
    STRICT_AGENT_EXECUTOR,
    STRICT_GENERATING_AGENT_EXECUTOR,
    Acted,
    LimitReached,
    Observed,
    Policies,
    Ready,
    Refused,
    Replied,
    ReturnDirect,
    check_return_direct,
    dispatch_tools,
    limit_reached,
    parse,
    plan,
    stopped_response,
)
from graphexec.runtime.observers import Observer

__all__ = [
    "AGENT_EXECUTOR",
    "GENERATING_AGENT_EXECUTOR",
    "STRICT_AGENT_EXECUTOR",
    "STRICT_GENERATING_AGENT_EXECUTOR",
    "Acted",
    "AgentExecutor",
    "AgentKind",
    "AnswerDiscarded",
    "ExecutorOptions",
    "Inputs",
    "LimitReached",
    "NotSaved",
    "Observed",
    "Observer",
    "ParsePolicy",
    "Policies",
    "Ready",
    "Refused",
    "Replied",
    "ReturnDirect",
    "RunResult",
    "Trim",
    "check_return_direct",
    "dispatch_tools",
    "limit_reached",
    "load_memory",
    "make_agent_handler",
    "make_model_handler",
    "parse",
    "plan",
    "return_unsaved",
    "save_memory",
    "stopped_response",
]

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
