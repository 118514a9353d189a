"""Tools: `@tool`, and how they are called."""

from graphexec.tools.tool import AnyTool, ErrorPolicy, Tool, ToolRetried, named, tool

__all__ = ["AnyTool", "ErrorPolicy", "Tool", "ToolRetried", "named", "tool"]
