"""Tools: `@tool`, and how they are called."""

from graphexec.tools.retry import Retry, ToolRetried
from graphexec.tools.tool import AnyTool, ErrorPolicy, Tool, named, tool

__all__ = ["AnyTool", "ErrorPolicy", "Retry", "Tool", "ToolRetried", "named", "tool"]
