"""Tools: `@tool`, and how they are called."""

from graphexec.tools.tool import AnyTool, ErrorPolicy, Tool, ToolRetried, tool, tools_by_name

__all__ = ["AnyTool", "ErrorPolicy", "Tool", "ToolRetried", "tool", "tools_by_name"]
