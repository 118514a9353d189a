"""Tools: `@tool`, and how they are called."""

from graphexec.tools.tool import AnyTool, ErrorPolicy, Tool, named, tool

__all__ = ["AnyTool", "ErrorPolicy", "Tool", "named", "tool"]
