"""The tools that an agent is made with."""

from __future__ import annotations

from collections.abc import Iterable

from graphexec.errors import ToolDefinitionError, format_value
from graphexec.given import MODEL
from graphexec.tools import AnyTool, named


def tools_of(tools: Iterable[AnyTool]) -> tuple[AnyTool, ...]:
    """Return the tools. Raises `ToolDefinitionError` as `named` does, and for a model in their place."""
    if MODEL.fits(tools):
        raise ToolDefinitionError(f"tools is the model {format_value(tools)}; give the model first, and then the tools")
    return tuple(named(tools).values())
