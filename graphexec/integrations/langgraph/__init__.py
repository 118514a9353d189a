"""Read the graphs of LangGraph, to say which of their runs end, and hold runs to what was read."""

from typing import TYPE_CHECKING

from graphexec._mistakes import import_on_use

if TYPE_CHECKING:
    from graphexec.integrations.declared.telling import tell
    from graphexec.integrations.langgraph.holding import UndeclaredGotoError, held
    from graphexec.integrations.langgraph.loading import check, load

__all__ = ["UndeclaredGotoError", "check", "held", "load", "tell"]

_MODULES = {
    "graphexec.integrations.declared.telling": "tell",
    "graphexec.integrations.langgraph.holding": "UndeclaredGotoError held",
    "graphexec.integrations.langgraph.loading": "check load",
}

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__, __dir__ = import_on_use(__name__, _MODULES)
