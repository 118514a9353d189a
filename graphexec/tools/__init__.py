"""Tools: the `@tool` decorator and the classes that describe a tool."""

from graphexec.tools.tool import AnyTool, ErrorPolicy, Tool, ToolRetried, tool, tools_by_name

__all__ = ["AnyTool", "ErrorPolicy", "Tool", "ToolRetried", "tool", "tools_by_name"]
