"""Tools: the `@tool` decorator and the classes that describe a tool."""

from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.tools.collecting import Toolset, tools_by_name, tools_of
from graphexec.tools.json_schema import tool_from_schema
from graphexec.tools.options import ErrorPolicy, ToolExample, ToolOptions
from graphexec.tools.tool import AnyTool, Tool, ToolRetried, tool

__all__ = [
    "AnyTool",
    "ErrorPolicy",
    "Tool",
    "ToolExample",
    "ToolOptions",
    "ToolRetried",
    "Toolset",
    "tool",
    "tool_from_schema",
    "tools_by_name",
    "tools_of",
]

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
