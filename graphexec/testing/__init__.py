"""Test helpers for agents and machines: scripted models and tools, a virtual clock, and properties.

Each name is imported on first use: pytest always imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphexec._mistakes import import_on_use

if TYPE_CHECKING:
    from graphexec.models.scripted import ScriptedModel
    from graphexec.testing.clock import VirtualClock, loop_time, on_loop_time, run_virtually
    from graphexec.testing.explorer.explore import explore
    from graphexec.testing.explorer.oracle import replies_of
    from graphexec.testing.explorer.stub_nodes import explore_table
    from graphexec.testing.explorer.temporal import (
        always,
        answered,
        asked,
        calls_tool,
        ended,
        entered,
        eventually,
        followed,
        left,
        never,
        never_without,
        predicate,
    )
    from graphexec.testing.failures import DeadlockError, ScriptExhaustedError
    from graphexec.testing.properties import verify_termination
    from graphexec.testing.scripted import NEVER, After, ScriptedTool, scripted_tool

__all__ = [
    "NEVER",
    "After",
    "DeadlockError",
    "ScriptExhaustedError",
    "ScriptedModel",
    "ScriptedTool",
    "VirtualClock",
    "always",
    "answered",
    "asked",
    "calls_tool",
    "ended",
    "entered",
    "eventually",
    "explore",
    "explore_table",
    "followed",
    "left",
    "loop_time",
    "never",
    "never_without",
    "on_loop_time",
    "predicate",
    "replies_of",
    "run_virtually",
    "scripted_tool",
    "verify_termination",
]

_MODULES = {
    "graphexec.models.scripted": "ScriptedModel",
    "graphexec.testing.clock": "VirtualClock loop_time on_loop_time run_virtually",
    "graphexec.testing.failures": "DeadlockError ScriptExhaustedError",
    "graphexec.testing.properties": "verify_termination",
    "graphexec.testing.scripted": "NEVER After ScriptedTool scripted_tool",
    "graphexec.testing.explorer.explore": "explore",
    "graphexec.testing.explorer.oracle": "replies_of",
    "graphexec.testing.explorer.stub_nodes": "explore_table",
    "graphexec.testing.explorer.temporal": "always answered asked calls_tool ended entered eventually "
    "followed left never never_without predicate",
}

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__, __dir__ = import_on_use(__name__, _MODULES)
