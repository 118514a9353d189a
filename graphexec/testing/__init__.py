"""Test helpers for agents and machines: scripted models and tools, a virtual clock, and properties.

Each name is imported on first use: pytest always imports this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphexec.models.scripted import ScriptedModel
    from graphexec.testing.clock import VirtualClock, loop_time, on_loop_time, run_virtually
    from graphexec.testing.explorer.explore import explore
    from graphexec.testing.explorer.failure import as_test
    from graphexec.testing.explorer.oracle import replies_of
    from graphexec.testing.explorer.stub_nodes import explore_table
    from graphexec.testing.explorer.temporal import (
        always,
        answered,
        asked,
        calls_tool,
        dominates,
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
    "as_test",
    "asked",
    "calls_tool",
    "dominates",
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

# The predicates and assertions, which are the other names, come from `testing.explorer.temporal`.
_MODULES = {
    "ScriptedModel": "models.scripted",
    **dict.fromkeys(("VirtualClock", "loop_time", "on_loop_time", "run_virtually"), "testing.clock"),
    **dict.fromkeys(("DeadlockError", "ScriptExhaustedError"), "testing.failures"),
    "verify_termination": "testing.properties",
    **dict.fromkeys(("NEVER", "After", "ScriptedTool", "scripted_tool"), "testing.scripted"),
    "explore": "testing.explorer.explore",
    "as_test": "testing.explorer.failure",
    "replies_of": "testing.explorer.oracle",
    "explore_table": "testing.explorer.stub_nodes",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"graphexec.{_MODULES.get(name, 'testing.explorer.temporal')}"), name)
